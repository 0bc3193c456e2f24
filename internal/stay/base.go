package stay

import (
	"context"
	"fmt"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// findBase finds out whether the branch of a pull request needs commits of its base, as the settings of its
// run say. Forges look for conflicts late, and some of them not at all: the run asks git before it changes
// anything. While nothing changes, it is an event again after a while, because the run may have failed.
func (s *Service) findBase(ctx context.Context, service forge.Service, w forgeevents.Watch, pr forge.PullRequest, add func(forgeevents.Event)) error {
	if pr.Mergeable != nil {
		if err := pullrequests.NoteConflict(ctx, s.Store, w.Forge, w.Repo, w.Number, !*pr.Mergeable && !pr.Behind); err != nil {
			return err
		}
	}
	if w.Status != contract.StatusDone || pr.HeadCommit != w.Commit || pr.Base == "" || pr.FromFork {
		return nil // the run does not know the commit, or makes another one
	}
	run, err := s.Store.Run(ctx, w.RunID)
	if err != nil {
		return err
	}
	settings := run.Settings.Release.PullRequest
	if settings == nil || settings.Update == nil {
		return nil
	}
	var why string
	var again time.Time
	switch {
	case pr.Behind:
		why = contract.ConclusionBehind
	case pr.Mergeable != nil && !*pr.Mergeable:
		why = contract.ConclusionConflict
		again = time.Now().Truncate(s.PushAgain)
	case settings.Update.When == contract.UpdateIfBehind:
		why = contract.ConclusionBehind
	default:
		return nil
	}
	base, err := service.Branch(ctx, w.Repo, pr.Base)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("base:%d:%s:%s:%s", w.Number, pr.HeadCommit, base, why)
	if !again.IsZero() {
		key += fmt.Sprintf(":%d", again.UnixMilli())
	}
	add(forgeevents.Event{Kind: forgeevents.Base, Key: key, Name: "the base " + pr.Base, Result: why, Payload: forgeevents.Payload{
		ID: fault.Clip(base, maxName), Commit: fault.Clip(pr.HeadCommit, maxName), URL: fault.Clip(telemetry.Redact(pr.URL), maxLine), At: pr.UpdatedAt,
	}})
	return nil
}

// decideBase tells the run that its branch needs commits of its base.
func (s *Service) decideBase(ctx context.Context, e forgeevents.Event, run forgeevents.Holder) (forgeevents.Outcome, error) {
	if e.Payload.Commit != run.Commit {
		return ignored("it is about commit %.12s, but the branch is at %.12s since", e.Payload.Commit, run.Commit)
	}
	return s.send(ctx, run, contract.CheckMessage{
		ID: messageID(e), Kind: contract.CheckBase, Name: e.Name, Conclusion: e.Result, URL: e.Payload.URL, Commit: e.Payload.Commit, By: contract.ByForge,
	})
}
