package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/messages"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// runHead reads the data for the head of a run's pages.
func (s *Server) runHead(ctx context.Context, shell ui.Shell, id int64, tab string) (h ui.RunHead, err error) {
	h.Shell, h.Tab = shell, tab
	if h.Run, err = s.Store.Run(ctx, id); err != nil {
		return h, err
	}
	h.Title = fmt.Sprintf("#%d %s", id, ui.Cut(h.Run.GoalTitle, 80))
	h.Live = streamOf(id, h.Run.EventSeq)
	h.Temporal = devstack.WorkflowURL(s.TemporalUI, s.Namespace, h.Run.WorkflowID, h.Run.WorkflowRunID)
	cards, err := s.Views.Cards(ctx, []int64{id})
	if err != nil {
		return h, err
	}
	h.Card = cards[id]
	tries, err := s.Views.Phases(ctx, id)
	if err != nil {
		return h, err
	}
	h.Phases = stripOf(tries)
	counts, err := s.Views.Counts(ctx, id)
	if err != nil {
		return h, err
	}
	h.Counts = map[string]int{"findings": counts.Findings, "artifacts": counts.Artifacts, "heals": h.Card.Heals, "plan": h.Card.Steps, "events": int(h.Run.EventSeq)}
	if h.Lineage, err = followups.Of(ctx, s.Store, h.Run); err != nil {
		return h, err
	}
	if h.Run.Settings.Release.PullRequest != nil {
		if h.PullRequests, err = pullrequests.Of(ctx, s.Store, id); err != nil {
			return h, err
		}
	}
	if h.Hold, err = s.Views.Hold(ctx, id); err != nil {
		return h, err
	}
	if h.Run.Status.WaitsForPerson() {
		questions, err := s.Views.Questions(ctx, id, 1)
		if err != nil {
			return h, err
		}
		if len(questions) > 0 {
			h.Question = &questions[0]
		}
	}
	return h, nil
}

// stripOf returns the last attempt of each phase.
func stripOf(tries []views.PhaseAttempt) []ui.PhaseStrip {
	var out []ui.PhaseStrip
	for _, phase := range contract.Phases() {
		strip := ui.PhaseStrip{Phase: phase}
		for i, a := range tries {
			if a.Phase == phase {
				strip.Attempt = &tries[i]
				strip.Tries++
			}
		}
		out = append(out, strip)
	}
	return out
}

// Limits of the first tab of a run.
const (
	shownWork      = 40
	shownRed       = 5
	shownFindings  = 6
	shownHeals     = 5
	shownArtifacts = 8
	shownEvents    = 14
)

// overviewTab shows the results of a run's phases.
func (s *Server) overviewTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	o, id := ui.Overview{Head: *h, Notes: keptNotes(r)}, h.Run.ID
	var err error
	if o.Plan, err = s.Store.Plan(ctx, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if o.Planning, err = s.planning(ctx, id); err != nil {
		return nil, err
	}
	executions, err := s.Store.Executions(ctx, id)
	if err != nil {
		return nil, err
	}
	o.Executions, o.Omitted = latestWork(executions)
	files, err := s.Store.Artifacts(ctx, id)
	if err != nil {
		return nil, err
	}
	o.Artifacts, o.Pictures = firstOf(files, shownArtifacts), goalPictures(h.Run, files)
	if o.Red, err = s.redTests(ctx, executions, files); err != nil {
		return nil, err
	}
	findings, err := s.Store.Findings(ctx, id)
	if err != nil {
		return nil, err
	}
	findings = slices.DeleteFunc(findings, func(f store.Finding) bool { return f.Resolved })
	slices.SortStableFunc(findings, func(a, b store.Finding) int { return severityRank(a.Severity) - severityRank(b.Severity) })
	o.Findings = firstOf(findings, shownFindings)
	heals, err := s.Store.Heals(ctx, id)
	if err != nil {
		return nil, err
	}
	slices.Reverse(heals)
	o.Heals = firstOf(heals, shownHeals)
	if o.Events, err = s.Store.Events(ctx, id, max(0, h.Run.EventSeq-shownEvents), shownEvents); err != nil {
		return nil, err
	}
	slices.Reverse(o.Events)
	if o.Messages, err = messages.Of(ctx, s.Store, id); err != nil {
		return nil, err
	}
	if o.Waiting, err = s.Views.WaitingCalls(ctx, id); err != nil {
		return nil, err
	}
	if h.Question != nil {
		o.Ask = &ui.Ask{Run: h.Run, Question: *h.Question, Plan: o.Plan, Tests: h.Card.Tests, Findings: findings, Failure: lastFailure(executions)}
		if h.Question.Kind == "release" {
			spec, err := setup.ReadRunSpec(h.Run)
			if err != nil {
				return nil, err
			}
			o.Ask.Branch = spec.Branch(id)
			s.fillChange(ctx, o.Ask, executions, heals)
		}
	}
	if o.ChangeSet, err = s.changeSetOf(ctx, h); err != nil {
		return nil, err
	}
	if o.Attempts, err = s.attempts(ctx, h.Run); err != nil {
		return nil, err
	}
	if o.Work, err = s.Views.Work(ctx, id); err != nil {
		return nil, err
	}
	if o.Pauses, err = s.Views.Pauses(ctx, id); err != nil {
		return nil, err
	}
	return ui.OverviewTab(o), nil
}

// attempts returns the attempts at a run's goal; nil if it is the only one.
func (s *Server) attempts(ctx context.Context, run store.Run) (*attempts.Group, error) {
	of := run.Settings.Attempt
	if of == nil {
		return nil, nil //nolint:nilnil // most runs are the only attempt
	}
	g, err := attempts.Read(ctx, s.Store, of.Group)
	return &g, err
}

// fillChange fills in the change to be released: the current one, even if an earlier one was
// released.
func (s *Server) fillChange(ctx context.Context, a *ui.Ask, executions []store.Execution, heals []store.HealEvent) {
	patch, err := s.workSoFar(executions, heals).load(ctx)
	if err != nil {
		a.Problem = s.patchProblem(ctx, a.Run.ID, err)
		return
	}
	a.Patch = ui.CutLines(patch.text, shownDiffBytes)
	a.Cut, a.Digest = patch.cut || len(a.Patch) < len(patch.text), digestOf(a.Patch)
}

// lastFailure returns the failure of the last execution that failed; nil if none did.
func lastFailure(executions []store.Execution) *contract.Failure {
	for _, e := range slices.Backward(executions) {
		if e.Failure != nil {
			return e.Failure
		}
	}
	return nil
}

// latestWork returns the most recent of the latest executions of each phase and step, and the
// number of executions omitted.
func latestWork(all []store.Execution) (shown []store.Execution, omitted int) {
	type work struct {
		phase contract.Phase
		step  string
	}
	latest := map[work]int{}
	for i, e := range all {
		latest[work{e.Phase, e.Step}] = i
	}
	for i, e := range all {
		if latest[work{e.Phase, e.Step}] == i {
			shown = append(shown, e)
		}
	}
	shown = shown[max(0, len(shown)-shownWork):]
	return shown, len(all) - len(shown)
}

// redTests returns the first failed, flaky and quarantined tests of the last verification, with
// their screenshots, videos and traces.
func (s *Server) redTests(ctx context.Context, executions []store.Execution, files []contract.Artifact) ([]ui.CaseRow, error) {
	var last int64
	for _, e := range executions {
		if e.Phase == contract.PhaseTester && e.Step == "" {
			last = e.ID
		}
	}
	if last == 0 {
		return nil, nil
	}
	checks, err := s.Store.Checks(ctx, last)
	if err != nil {
		return nil, err
	}
	var red []views.Case
	for _, c := range checks {
		for _, t := range c.Cases {
			if c.Result.Counts() && notGreen(t.Status) {
				red = append(red, views.Case{TestCase: t, CheckID: c.Result.Check.ID})
			}
		}
	}
	slices.SortStableFunc(red, func(a, b views.Case) int { return strings.Compare(string(a.Status), string(b.Status)) })
	files = slices.DeleteFunc(slices.Clone(files), func(f contract.Artifact) bool { return f.ExecutionID != last })
	rows, _ := besideTests(firstOf(red, shownRed), files)
	return rows, nil
}

// notGreen reports whether a test failed at least once, whether or not that counts.
func notGreen(s contract.TestStatus) bool {
	return s == contract.TestFailed || s == contract.TestFlaky || s == contract.TestQuarantined
}

func severityRank(s contract.Severity) int {
	return slices.Index([]contract.Severity{contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}, s)
}

// firstOf returns the beginning of a list.
func firstOf[T any](all []T, most int) []T { return all[:min(len(all), most)] }
