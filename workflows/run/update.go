package run

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

func isBase(m contract.CheckMessage) bool { return m.Kind == contract.CheckBase }

// updateDue returns when the base may be brought into the branch again.
func (r *run) updateDue() time.Time {
	if r.Watch.UpdatedAt.IsZero() {
		return time.Time{}
	}
	return r.Watch.UpdatedAt.Add(r.in.Settings.Release.PullRequest.Update.Interval)
}

// updateBranch brings the base of the pull request into the branch. The result is verified, judged and
// released like a repair; conflicts are resolved by the Repair agent.
func (r *run) updateBranch(ctx workflow.Context, m contract.CheckMessage) *contract.Failure {
	s := r.in.Settings.Release.PullRequest.Update
	if r.Watch.Updates >= s.Max {
		r.ignore(ctx, m, contract.EventCheckIgnored, fmt.Sprintf("the branch was updated from its base %d times (git.pull_request.max_updates)", r.Watch.Updates))
		return nil
	}
	found, err := r.bringBase(ctx, m)
	switch {
	case ctx.Err() != nil:
		return r.failureOf(ctx.Err())
	case err != nil:
		r.ignore(ctx, m, contract.EventCheckIgnored, "the branch could not be updated from its base: "+fault.Of(err).Message)
		return nil
	case found.UpToDate:
		return nil
	case found.Reason != "":
		r.ignore(ctx, m, contract.EventCheckIgnored, found.Reason)
		return nil
	}
	update := *found.Point.Update
	r.Watch.Updates++
	r.Watch.UpdatedAt = workflow.Now(ctx)
	r.Update(found.Point)
	r.Watch.CheckName, r.Watch.Moves = "the update from "+update.Into, 0
	r.Heals.Count[contract.PhaseTester], r.Heals.Tried = 0, map[string][]contract.HealAction{}
	r.Failed = state.FailedWork{}
	failure := r.beginUpdate(ctx, m, found)
	if failure != nil || r.continued != nil {
		return failure
	}
	return r.checkFixed(ctx)
}

// bringBase has git bring the base into the branch, without pushing it.
func (r *run) bringBase(ctx workflow.Context, m contract.CheckMessage) (found contract.UpdateBranchResult, err error) {
	activity := options.Remote(ctx, contract.QueueReleaser, options.LongWork)
	activity = workflow.WithScheduleToCloseTimeout(activity, options.LongWork)
	err = workflow.ExecuteActivity(activity, contract.ActivityUpdateBranch, contract.UpdateBranchInput{
		RunID: r.in.RunID, Repo: r.in.Settings.Repo, Release: r.in.Settings.Release, Branch: r.Branch, Head: r.Head(), Why: m.Conclusion,
		Pushed: r.Watch.Pushed, At: workflow.Now(ctx),
	}).Get(ctx, &found)
	return found, err
}

// beginUpdate records what is brought in, resolves conflicts, and verifies and releases the result.
func (r *run) beginUpdate(ctx workflow.Context, m contract.CheckMessage, found contract.UpdateBranchResult) *contract.Failure {
	update := *found.Point.Update
	payload := map[string]any{
		"id": m.ID, "branch": r.Branch, "commit": update.Head, "base": update.Into, "base_commit": update.Base, "method": methodOf(update),
		"why": m.Conclusion, "note": found.Note, "update": r.Watch.Updates, "conflicts": len(update.Conflicts),
		"paths": update.Conflicts[:min(len(update.Conflicts), maxConflictPaths)],
	}
	if len(update.Conflicts) == 0 {
		r.Phase, r.Status = contract.PhaseTester, contract.StatusSelfHeal
		payload["status"] = r.Status
		if _, err := r.transition(ctx, records.EventRecord(contract.EventStayUpdating, payload)); err != nil {
			return r.failureOf(err)
		}
		return r.runFrom(ctx, contract.PhaseTester)
	}
	m.Name = r.Watch.CheckName
	m.Summary = fmt.Sprintf("the branch conflicts with commit %.12s of its base %s in %d files", update.Base, update.Into, len(update.Conflicts))
	m.Details = strings.Join(update.Conflicts, "\n")
	var taken contract.TakeCheckResult
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityTakeCheck, contract.TakeCheckInput{
		RunID: r.in.RunID, Repo: r.in.Settings.Repo.URL, Branch: r.Branch, MaxRepairs: r.Watch.MaxRepairs, Message: m.Truncate(),
	}).Get(ctx, &taken)
	if err != nil {
		return r.failureOf(err)
	}
	failure := &taken.Failure
	if taken.Repair == 0 {
		failure.Message += fmt.Sprintf("; the branch has used all of its %d repairs (git.max_repairs)", r.Watch.MaxRepairs)
		r.Heals.Count[contract.PhaseTester] = r.MaxRetries // a person is asked at once
	} else {
		r.Watch.Repairs++
	}
	r.Watch.Fixing = &state.Fixing{Check: taken.ID, Failure: *failure}
	r.Phase, r.Status, r.Failure = contract.PhaseTester, contract.PhaseTester.Error(), failure
	payload["status"], payload["repair"] = r.Status, taken.Repair
	payload["error_type"], payload["error_message"] = failure.Class, failure.Message
	if _, err := r.transition(ctx, records.EventRecord(contract.EventStayUpdating, payload)); err != nil {
		return r.failureOf(err)
	}
	back, failure := r.healCheck(ctx, *r.Watch.Fixing)
	if failure != nil {
		return failure
	}
	return r.runFrom(ctx, back)
}

func methodOf(u contract.BranchUpdate) contract.UpdateMethod {
	if u.Rebased {
		return contract.UpdateRebase
	}
	return contract.UpdateMerge
}

// findMarkers returns the failure of a resolution of conflicts that has left markers, before anything
// else is verified.
func (r *run) findMarkers(ctx workflow.Context) *contract.Failure {
	if !r.Updating() || len(r.Onto.Update.Conflicts) == 0 {
		return nil
	}
	var left []string
	err := workflow.ExecuteActivity(options.Remote(ctx, contract.QueueReleaser, options.LongWork), contract.ActivityConflictMarkers, contract.ConflictMarkersInput{
		From: r.Onto.Workspace, To: r.Workspace, Update: *r.Onto.Update,
	}).Get(ctx, &left)
	if err != nil || len(left) == 0 {
		return r.failureOf(err)
	}
	return &fault.New(contract.ClassAssertion, contract.CodeCheckFailed,
		"conflict markers are left in %s", strings.Join(left[:min(len(left), maxConflictPaths)], ", ")).Failure
}

// recordUpdate records that the branch was released with the base in it, from which the run continues.
func (r *run) recordUpdate(ctx workflow.Context) error {
	if !r.Updating() {
		return nil
	}
	update := *r.Onto.Update
	r.Updated()
	_, err := r.transition(ctx, records.EventRecord(contract.EventStayUpdated, map[string]any{
		"branch": r.Branch, "commit": r.Commit, "before": update.Head, "base": update.Into, "base_commit": update.Base, "method": methodOf(update),
		"conflicts": len(update.Conflicts), "update": r.Watch.Updates,
	}))
	return err
}
