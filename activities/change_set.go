package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// ReadyInChangeSet notes that a run of a change set is ready for its release, and returns the decision
// about the set as the run sees it. If it made the decision, it tells the workflow of the set, which tells the
// other runs; if that fails, each of them finds out by itself.
func (a *Activities) ReadyInChangeSet(ctx context.Context, in contract.ReadyInput) (contract.ReadyAnswer, error) {
	answer, fresh, err := changesets.Ready(ctx, a.Store, in.Member.Set, in.RunID, activity.GetInfo(ctx).WorkflowExecution.RunID)
	if err == nil && fresh {
		if err := a.Temporal.SignalWorkflow(ctx, contract.ChangeSetWorkflowID(in.Member.Set), "", contract.SignalChangeSet, in.Member.Number); err != nil {
			a.Log.DebugContext(ctx, "The workflow of a change set did not learn of the decision; it has ended, or looks by itself", "change_set", in.Member.Set, "error", err)
		}
	}
	return answer, err
}

// DecideChangeSet makes the decision about a change set if it can be made now.
func (a *Activities) DecideChangeSet(ctx context.Context, set int64) (contract.ChangeSetDecision, error) {
	return changesets.Decide(ctx, a.Store, set)
}

// NotifyChangeSet tells the runs of a change set that it was decided about, and stops them if a person
// wanted that. It is idempotent.
func (a *Activities) NotifyChangeSet(ctx context.Context, set int64) error {
	s, err := changesets.Read(ctx, a.Store, set)
	if err != nil {
		return err
	}
	stop := contract.Command{ID: contract.ChangeSetWorkflowID(set) + "/stop", By: s.StoppedBy, Reason: s.StopReason}
	for _, m := range s.Runs {
		switch {
		case m.Ended():
		case s.Outcome == contract.OutcomeStopped:
			err = a.signalRun(ctx, m.RunID, m.WorkflowID, contract.UpdateStop, stop)
		case m.Ready():
			err = a.signalRun(ctx, m.RunID, m.WorkflowID, contract.SignalChangeSetDecided, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signalRun sends a signal to the workflow of a run. A run that is queued is started, because it also ends
// through its workflow.
func (a *Activities) signalRun(ctx context.Context, id int64, workflowID, name string, args any) error {
	if workflowID == "" {
		run, err := a.Store.Run(ctx, id)
		if err == nil {
			err = temporal.StartRun(ctx, a.Temporal, a.Store, run)
		}
		if err != nil {
			return err
		}
	}
	err := a.Temporal.SignalWorkflow(ctx, contract.RunWorkflowID(id), "", name, args)
	var over *serviceerror.NotFound
	if errors.As(err, &over) { // it has ended
		return nil
	}
	if err != nil {
		return fmt.Errorf("send %s to run %d: %w", name, id, err)
	}
	return nil
}

// changeSetOf returns the part of a pull request about the change set of a run, or of the run whose branch
// it continues; nil: it belongs to none.
func (a *Activities) changeSetOf(ctx context.Context, run store.Run) (*report.ChangeSet, error) {
	id, of, err := changesets.Of(ctx, a.Store, run.ID)
	if err != nil || of == nil {
		return nil, err
	}
	s, err := changesets.Read(ctx, a.Store, of.Set)
	if err != nil {
		return nil, err
	}
	first, err := a.Store.Run(ctx, id)
	return &report.ChangeSet{Set: s, Run: id, Link: linksOf(first)}, err
}

// linksOf returns the addresses of runs in the dashboard that the pull request of a run links to.
func linksOf(run store.Run) func(int64) string {
	p := run.Settings.Release.PullRequest
	if p == nil || p.Link == "" {
		return nil
	}
	return func(id int64) string { return runLink(p.Link, id) }
}

// LinkChangeSet looks at the pull requests of a change set, stores their states, and brings the part about
// the set in each open one up to date. A repeat changes nothing. A pull request that cannot be seen does
// not keep the others from it.
func (a *Activities) LinkChangeSet(ctx context.Context, set int64) (contract.ChangeSetLinked, error) {
	s, err := changesets.Read(ctx, a.Store, set)
	if err != nil {
		return contract.ChangeSetLinked{}, err
	}
	seen, failed := map[int64]forge.PullRequest{}, []error{}
	for i := range s.Runs {
		m := &s.Runs[i]
		if m.PullRequest == nil {
			continue
		}
		now, err := a.lookAt(ctx, *m)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		m.PullRequest.State, m.PullRequest.Draft = contract.PullRequestState(now.State), now.Draft
		seen[m.RunID] = now
	}
	var out contract.ChangeSetLinked
	for _, m := range s.Runs {
		now, found := seen[m.RunID]
		if !found || now.State != forge.Open {
			continue
		}
		changed, err := a.link(ctx, s, m, now)
		if err != nil {
			failed = append(failed, err)
		} else if changed {
			out.Updated++
		}
	}
	if out.Over = over(s, time.Now()); out.Over {
		return out, nil
	}
	for _, err := range failed {
		if fault.Of(err).Class == contract.ClassInfra { // it may work later
			return out, err
		}
		a.Log.WarnContext(ctx, "A pull request of a change set could not be brought up to date", "change_set", set, "error", err)
	}
	return out, nil
}

// over reports whether nothing more is done about the pull requests of a set: all runs have ended and no
// pull request is open, or the time for it is over.
func over(s changesets.Set, now time.Time) bool {
	working := slices.ContainsFunc(s.Runs, func(m changesets.Member) bool { return !m.Ended() })
	open := slices.ContainsFunc(s.Runs, func(m changesets.Member) bool {
		return m.PullRequest != nil && m.PullRequest.State == contract.PullRequestOpen
	})
	late := s.DecidedAt != nil && now.After(s.DecidedAt.Add(s.Settings.Follow))
	return !working && !open || late && (s.Settings.Follow > 0 || !working)
}

// lookAt reads the pull request of a run, and stores its state unless the server does, because the run
// watches its branch.
func (a *Activities) lookAt(ctx context.Context, m changesets.Member) (forge.PullRequest, error) {
	service, err := a.Forges.Named(m.PullRequest.Forge)
	if err != nil {
		return forge.PullRequest{}, err
	}
	now, err := service.PullRequest(ctx, m.PullRequest.Repo, m.PullRequest.Number)
	if err != nil || m.Staying {
		return now, err
	}
	known, err := pullrequests.Of(ctx, a.Store, m.RunID)
	if err != nil {
		return now, err
	}
	for _, p := range known {
		if p.Forge == m.PullRequest.Forge && p.Repo == m.PullRequest.Repo && p.Number == m.PullRequest.Number {
			p.State, p.Draft = contract.PullRequestState(now.State), now.Draft
			return now, pullrequests.Save(ctx, a.Store, p, false)
		}
	}
	return now, nil
}

// link brings the part about the set in an open pull request up to date. It reports whether it changed. The
// whole text is written, so it is read again just before: a person may have changed it since the look.
func (a *Activities) link(ctx context.Context, s changesets.Set, m changesets.Member, now forge.PullRequest) (bool, error) {
	run, err := a.Store.Run(ctx, m.RunID)
	if err != nil {
		return false, err
	}
	section := report.ChangeSet{Set: s, Run: m.RunID, Link: linksOf(run)}.Section()
	if body, found := report.WithSection(now.Body, section); !found || body == now.Body {
		return false, nil
	}
	service, err := a.Forges.Named(m.PullRequest.Forge)
	if err != nil {
		return false, err
	}
	if now, err = service.PullRequest(ctx, m.PullRequest.Repo, m.PullRequest.Number); err != nil {
		return false, err
	}
	body, found := report.WithSection(now.Body, section)
	if !found || body == now.Body || now.State != forge.Open {
		return false, nil
	}
	_, err = service.UpdatePullRequest(ctx, m.PullRequest.Repo, m.PullRequest.Number, forge.PullRequestChange{Body: &body})
	return err == nil, err
}
