package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/pullrequest"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Answer answers a comment on a pull request of the run in its thread: what was done, or why it was
// not. A repeat finds the answer of an earlier attempt. It returns the answer's address.
func (a *Activities) Answer(ctx context.Context, in contract.AnswerInput) (string, error) {
	to := in.To
	known, err := pullrequests.Of(ctx, a.Store, in.RunID)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(known, func(p contract.PullRequest) bool {
		return p.Forge == to.Forge && p.Repo == to.Repo && p.Number == to.Number
	}) {
		return "", fault.New(contract.ClassLogic, contract.CodeInvalidConfig,
			"run %d has no pull request %d of %s on the forge %s, so it answers no comment there", in.RunID, to.Number, to.Repo, to.Forge)
	}
	service, err := a.Forges.Named(to.Forge)
	if err != nil {
		return "", err
	}
	text, err := a.answerText(ctx, in)
	if err != nil {
		return "", err
	}
	made, err := pullrequest.Answer(ctx, service, pullrequest.Reply{
		Repo: to.Repo, Number: to.Number, ID: fmt.Sprintf("%d/%s", in.RunID, in.Message), Text: text, Since: to.At,
		To: forge.Comment{ID: to.Comment, Thread: to.Thread, Path: to.Path, Line: to.Line, Commit: to.Commit, URL: to.URL},
	})
	if err != nil {
		return "", err
	}
	return made.URL, forgeevents.Answered(ctx, a.Store, to.Forge, to.Repo, to.Event, made.URL)
}

// answerText returns what an answer says.
func (a *Activities) answerText(ctx context.Context, in contract.AnswerInput) (string, error) {
	run, err := a.Views.RunDetails(ctx, in.RunID)
	if err != nil {
		return "", err
	}
	text := report.Answer{RunID: in.RunID, Commit: in.Commit, Released: in.Commit != in.Before, NotDone: telemetry.Redact(in.NotDone)}
	if p := run.Settings.Release.PullRequest; p != nil && p.Link != "" {
		text.Link = runLink(p.Link, in.RunID)
	}
	if in.NotDone == "" {
		if text.Checks, err = a.lastChecks(ctx, run.Executions); err != nil {
			return "", err
		}
		for _, h := range run.SelfHealEvents {
			if h.Status == contract.HealSuccess && h.HealAction == contract.HealRepair && h.CreatedAt.After(in.To.At) {
				out := h.Output()
				text.Done = cmp.Or(strings.TrimSpace(out.Said), out.Message)
			}
		}
	}
	return telemetry.Redact(text.String()), nil
}
