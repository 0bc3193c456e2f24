package workerhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

const (
	// reconcileEvery is how often runs are looked for that have a row but no workflow.
	reconcileEvery = 2 * time.Second
	// turnEvery is how often runs that wait for their turn are let in.
	turnEvery = 500 * time.Millisecond
	// reconcileAfter leaves the one who made the row the time to start the workflow.
	reconcileAfter = 5 * time.Second
	// abandonedAfter is when a model call that was never settled counts as
	// abandoned: longer than the longest call that models.timeout allows
	// (config.LongestModelCall), and as long again for its turn at the provider.
	abandonedAfter = 2 * config.LongestModelCall
	// abandonedEvery is how often runs that have not ended are looked through for
	// workflows that ended without a word, abandonedRuns of them at a time; those
	// that changed within abandonedQuiet are left alone.
	abandonedEvery = time.Minute
	abandonedRuns  = 1000
	abandonedQuiet = 30 * time.Second
	// sweepEvery is how often working directories are looked for whose run has ended.
	sweepEvery = 10 * time.Minute
	// cacheAge is how long what nobody used stays in the cache: repositories,
	// and directories of runs that wait.
	cacheAge = 14 * 24 * time.Hour
)

// giveTurns starts the runs that waited for their turn as others end, of which most
// may be at work at the same time.
func giveTurns(ctx context.Context, c client.Client, db *store.Store, most int, log *slog.Logger) error {
	return every(ctx, turnEvery, func() {
		ids, err := db.Dequeue(ctx, most)
		if err != nil {
			log.Warn("Could not look whose turn it is", "error", err)
			return
		}
		for _, id := range ids {
			run, err := db.Run(ctx, id)
			if err == nil {
				err = temporal.StartRun(ctx, c, db, run)
			}
			if err != nil { // it waits no longer, so reconcile starts it
				log.Warn("Could not start a run whose turn it is; it will be tried again", "run", id, "error", err)
			}
		}
	})
}

// reconcile starts the workflows of runs whose creator vanished between the row
// and the start.
func reconcile(ctx context.Context, c client.Client, db *store.Store, log *slog.Logger) error {
	return every(ctx, reconcileEvery, func() {
		runs, err := db.PendingUnstarted(ctx, reconcileAfter, 100)
		if err != nil {
			log.Warn("Could not look for runs without a workflow", "error", err)
			return
		}
		// Budgets that workers held when they died are free again.
		if _, err := db.GiveUpCalls(ctx, abandonedAfter, 100); err != nil {
			log.Warn("Could not free what abandoned model calls hold", "error", err)
		}
		for _, run := range runs {
			if err := temporal.StartRun(ctx, c, db, run); err != nil {
				log.Warn("Could not start a run that had no workflow", "run", run.ID, "error", err)
				continue
			}
			log.Info("Started a run that had no workflow", "run", run.ID)
		}
	})
}

// closeAbandoned ends the rows of runs whose workflow ended without saying so:
// terminated from outside, or broken. Nobody waits for them for ever.
func closeAbandoned(ctx context.Context, c client.Client, db *store.Store, log *slog.Logger) error {
	return every(ctx, abandonedEvery, func() {
		closeQuiet(ctx, latestOf(c), db, abandonedQuiet, log)
	})
}

// closeQuiet looks at all runs that have not ended and said nothing for a while.
func closeQuiet(ctx context.Context, look latest, db *store.Store, quiet time.Duration, log *slog.Logger) {
	for after := int64(0); ; {
		ids, err := db.QuietRuns(ctx, quiet, after, abandonedRuns)
		if err != nil {
			return // the other loop says so
		}
		for _, id := range ids {
			if err := closeIfEnded(ctx, look, db, id); err != nil {
				log.Warn("Could not see whether a run still has its workflow", "run", id, "error", err)
			}
			after = id
		}
		if len(ids) < abandonedRuns {
			return
		}
	}
}

// lastRecord is the number of the record that closes a run for its workflow:
// whatever the workflow still had on its way is late after that. The numbers
// before it, one for each execution, are those of the ends of executions.
const lastRecord = math.MaxInt64

// latest says how the newest workflow run of a workflow id is, as Temporal does.
type latest func(ctx context.Context, workflowID string) (workflowRunID string, state enumspb.WorkflowExecutionStatus, err error)

// latestOf asks Temporal.
func latestOf(c client.Client) latest {
	return func(ctx context.Context, id string) (string, enumspb.WorkflowExecutionStatus, error) {
		answer, err := c.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return "", 0, fmt.Errorf("look at workflow %s: %w", id, err)
		}
		info := answer.GetWorkflowExecutionInfo()
		return info.GetExecution().GetRunId(), info.GetStatus(), nil
	}
}

// ongoing reports whether a workflow in a state will still say something.
func ongoing(state enumspb.WorkflowExecutionStatus) bool {
	return state == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || state == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
}

// closeIfEnded ends the row of a run whose workflow ended without saying so,
// and all that the run had begun. A run that has said meanwhile how it ended, or
// that is being done again, is left alone.
func closeIfEnded(ctx context.Context, look latest, db *store.Store, id int64) error {
	workflow := contract.RunWorkflowID(id)
	ended, state, err := look(ctx, workflow)
	if err != nil || ongoing(state) {
		return err
	}
	run, err := db.Run(ctx, id) // after the look: a workflow writes its end before it ends
	if err != nil || over(run) {
		return err
	}
	// Still the newest: then nobody replayed the run between the look and the row.
	if now, _, err := look(ctx, workflow); err != nil || now != ended {
		return err
	}
	failure := fault.New(contract.ClassInfra, contract.CodeWorkerLost,
		"the run's workflow ended (%s) without saying how the run ended; its partial results are kept, start it anew", state).Failure
	from := store.Source{WorkflowID: workflow, WorkflowRunID: ended}
	if run.Status.Terminal() {
		return closeStay(ctx, db, from, run, failure.Message)
	}
	if err := closeExecutions(ctx, db, from, id, &failure); err != nil {
		return err
	}
	heals, events, err := openHeals(ctx, db, id)
	if err != nil {
		return err
	}
	_, err = db.Record(ctx, from, contract.Record{
		RunID: id, Seq: lastRecord,
		Run:    &contract.RunChange{Phase: run.Phase, Status: contract.StatusFailed, RetryCount: run.RetryCount, Failure: &failure, Finished: true},
		Events: append(events, contract.EventDraft{Type: contract.EventRunFailed, Payload: failure}),
		Heals:  heals,
	})
	return err
}

// over reports whether a run will say nothing more: one that stays with its
// branch is done, and yet has a workflow.
func over(run store.Run) bool { return run.Status.Terminal() && run.StayingUntil == nil }

// closeStay says of a run that was released that it stays no longer. What it
// released stands.
func closeStay(ctx context.Context, db *store.Store, from store.Source, run store.Run, why string) error {
	change := contract.RunChange{Phase: run.Phase, Status: run.Status, RetryCount: run.RetryCount, Finished: true, Staying: true, Failure: run.Failure}
	if run.LastHealAction != nil {
		change.LastHealAction = *run.LastHealAction
	}
	_, err := db.Record(ctx, from, contract.Record{
		RunID: run.ID, Seq: lastRecord, Run: &change,
		Events: []contract.EventDraft{{Type: contract.EventStayEnded, Payload: map[string]any{
			"branch": run.ReleaseBranch, "commit": run.ReleaseCommit, "reason": why,
		}}},
	})
	return err
}

// closeExecutions ends what a run had begun and nobody will end.
func closeExecutions(ctx context.Context, db *store.Store, from store.Source, id int64, why *contract.Failure) error {
	all, err := db.Executions(ctx, id)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Status != contract.ExecutionRunning {
			continue
		}
		if _, err := db.Record(ctx, from, contract.Record{
			RunID: id, Seq: lastRecord - e.ID, End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCancelled, Failure: why},
		}); err != nil {
			return err
		}
	}
	return nil
}

// openHeals says of the heals of a run that nobody will settle that it ended first.
func openHeals(ctx context.Context, db *store.Store, id int64) ([]contract.HealNote, []contract.EventDraft, error) {
	const result = "the run ended first"
	all, err := db.Heals(ctx, id)
	var notes []contract.HealNote
	var events []contract.EventDraft
	for _, h := range all {
		if h.Status != contract.HealStarted && h.Status != contract.HealApplied {
			continue
		}
		notes = append(notes, contract.HealNote{
			Number: h.Number, Status: contract.HealFailed, ErrorType: h.ErrorType, Action: h.HealAction, Output: contract.HealOutput{Result: result},
		})
		events = append(events, contract.EventDraft{Type: contract.EventHealFailed, Payload: map[string]any{
			"heal": h.Number, "heal_action": h.HealAction, "error_type": h.ErrorType, "error_code": h.ErrorCode, "result": result,
		}})
	}
	return notes, events, err
}

// sweep removes what this host's cache holds of ended runs, which the run itself
// cleaned up on one host alone, and what nobody used for cacheAge.
func sweep(ctx context.Context, parts *activities.Activities, log *slog.Logger) error {
	return every(ctx, sweepEvery, func() {
		err := parts.Workspaces.Sweep(ctx, func(ctx context.Context, first string) (bool, error) { return ended(ctx, parts.Store, first) })
		if err != nil && ctx.Err() == nil {
			log.Warn("Could not remove all working directories of ended runs", "error", err)
		}
		if err := parts.Workspaces.Prune(ctx, cacheAge); err != nil && ctx.Err() == nil {
			log.Warn("Could not sweep the cache", "error", err)
		}
		sweepEnvironments(ctx, parts, log)
		bounds := parts.Config.Execution.Sandbox
		if err := setup.BuildCaches(parts.DataDir).Sweep(ctx, bounds.CacheAge, bounds.CacheSize.Int64()); err != nil && ctx.Err() == nil {
			log.Warn("Could not sweep the build caches", "error", err)
		}
	})
}

// shownOutput is how long output that was shown while it came is kept: the whole
// is an artifact by then.
const shownOutput = time.Hour

// downloadsShare is which part of environment.disk the downloads of all repositories
// may take up, beside it.
const downloadsShare = 4

// sweepEnvironments removes environments of this host that are over its bounds,
// and output that nobody watches any more.
func sweepEnvironments(ctx context.Context, parts *activities.Activities, log *slog.Logger) {
	if _, err := parts.Store.DropOutputs(ctx, shownOutput); err != nil && ctx.Err() == nil {
		log.Warn("Could not remove old output", "error", err)
	}
	used, err := parts.Store.EnvironmentsInUse(ctx)
	if err == nil {
		e := parts.Config.Environment
		err = errors.Join(
			setup.Environments(parts.DataDir).Sweep(ctx, environment.Bounds{Age: e.Age, Bytes: e.Disk.Int64(), Count: e.Count},
				func(digest string) bool { return slices.Contains(used, digest) }),
			setup.Downloads(parts.DataDir).Sweep(ctx, e.Age, e.Disk.Int64()/downloadsShare), removeArchives(ctx, parts, e.Age))
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("Could not sweep the environments", "error", err)
	}
}

// removeArchives removes environments from the artifact store that no run used for
// longer than age. A run that wants one again makes it again.
func removeArchives(ctx context.Context, parts *activities.Activities, age time.Duration) error {
	archives, err := parts.Store.RemoveUnusedEnvironments(ctx, age)
	for _, archive := range archives {
		err = errors.Join(err, parts.Artifacts.Remove(ctx, archive))
	}
	return err
}

// ended reports whether working directories belong to a run that has ended.
// What is no run, or none that the database knows, is left to its age.
func ended(ctx context.Context, db *store.Store, first string) (bool, error) {
	id, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // the name of something else
	}
	run, err := db.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && run.Status.Terminal(), err
}

// every calls f at once and then again and again until ctx ends.
func every(ctx context.Context, pause time.Duration, f func()) error {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
