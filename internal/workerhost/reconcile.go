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
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

const (
	// reconcileEvery is how often to look for runs that have a row but no workflow.
	reconcileEvery = 2 * time.Second
	// startEvery is how often queued runs are started.
	startEvery = 500 * time.Millisecond
	// reconcileAfter is the time that the creator of a row has to start the workflow.
	reconcileAfter = 5 * time.Second
	// abandonedAfter is the age at which an unsettled model call counts as abandoned: the longest
	// call that models.timeout allows (config.LongestModelCall), and the same time again for
	// waiting for the provider.
	abandonedAfter = 2 * config.LongestModelCall
	// abandonedEvery is how often unfinished runs are searched for workflows that ended without
	// recording their end, abandonedRuns of them at a time; those that changed within
	// abandonedQuiet are skipped.
	abandonedEvery = time.Minute
	abandonedRuns  = 1000
	abandonedQuiet = 30 * time.Second
	// lookedUpTogether is the number of such runs from which they are looked up with one query.
	lookedUpTogether = 20
	// sweepEvery is how often working directories of ended runs are removed.
	sweepEvery = 10 * time.Minute
)

// startQueued starts waiting runs as other runs end, up to the maximum number of concurrent runs.
func startQueued(ctx context.Context, c client.Client, db *store.Store, most int, log *slog.Logger) error {
	return every(ctx, startEvery, func() {
		ids, err := db.Dequeue(ctx, most)
		if err != nil {
			log.Warn("Could not find the next runs in the queue", "error", err)
			return
		}
		for _, id := range ids {
			run, err := db.Run(ctx, id)
			if err == nil {
				err = temporal.StartRun(ctx, c, db, run)
			}
			if err != nil { // it is no longer queued, so reconcile starts it
				log.Warn("Could not start the next run in the queue; it will be retried", "run", id, "error", err)
			}
		}
	})
}

// reconcile starts the workflows of runs whose creator died after creating the row.
func reconcile(ctx context.Context, c client.Client, db *store.Store, log *slog.Logger) error {
	return every(ctx, reconcileEvery, func() {
		runs, err := db.PendingUnstarted(ctx, reconcileAfter, 100)
		if err != nil {
			log.Warn("Could not check for runs that have no workflow", "error", err)
			return
		}
		// Release budgets that workers held when they died.
		if _, err := db.GiveUpCalls(ctx, abandonedAfter, 100); err != nil {
			log.Warn("Could not release the reservations of abandoned model calls", "error", err)
		}
		if _, err := db.GiveUpHolds(ctx, abandonedAfter, 100); err != nil {
			log.Warn("Could not release the reservations of abandoned model calls outside runs", "error", err)
		}
		for _, run := range runs {
			if err := temporal.StartRun(ctx, c, db, run); err != nil {
				log.Warn("Could not start a run that has no workflow", "run", run.ID, "error", err)
				continue
			}
			log.Info("Started a run that had no workflow", "run", run.ID)
		}
	})
}

// closeAbandoned ends the rows of runs whose workflow ended without recording its end, for example
// because it was terminated. Otherwise, clients would wait for these runs forever. It also completes
// what workers that died have left in the state of the model providers.
func closeAbandoned(ctx context.Context, c client.Client, db *store.Store, log *slog.Logger) error {
	return every(ctx, abandonedEvery, func() {
		closeQuiet(ctx, latestOf(c), runningOf(c), db, abandonedQuiet, log)
		if err := providers.New(db).Tidy(ctx); err != nil && ctx.Err() == nil {
			log.Warn("Could not tidy the state of the model providers", "error", err)
		}
	})
}

// closeQuiet checks all unfinished runs that have written nothing for a while. Many of them, which usually wait
// for a person, are looked up together: only those that are not in Temporal's list are looked at one by one.
func closeQuiet(ctx context.Context, look latest, listed running, db *store.Store, quiet time.Duration, log *slog.Logger) {
	for after := int64(0); ; {
		ids, err := db.QuietRuns(ctx, quiet, after, abandonedRuns)
		if err != nil {
			return // the other loop reports it
		}
		var alive map[string]bool
		if len(ids) >= lookedUpTogether {
			if alive, err = listed(ctx, ids[0], ids[len(ids)-1]); err != nil && ctx.Err() == nil {
				log.Warn("Could not list the workflows of runs; looking at each", "runs", len(ids), "error", err)
			}
		}
		for _, id := range ids {
			if alive[contract.RunWorkflowID(id)] {
				after = id
				continue
			}
			if err := closeIfEnded(ctx, look, db, id); err != nil {
				log.Warn("Could not check whether a run's workflow still exists", "run", id, "error", err)
			}
			after = id
		}
		if len(ids) < abandonedRuns {
			return
		}
	}
}

// lastRecord is the number of the record that closes a run in place of its workflow: any later
// record of the workflow counts as late. The numbers just below it, one for each execution, are
// used for the ends of executions.
const lastRecord = math.MaxInt64

// latest returns the state of a workflow id's newest workflow run, according to Temporal.
type latest func(ctx context.Context, workflowID string) (workflowRunID string, state enumspb.WorkflowExecutionStatus, err error)

// latestOf asks Temporal.
func latestOf(c client.Client) latest {
	return func(ctx context.Context, id string) (string, enumspb.WorkflowExecutionStatus, error) {
		answer, err := c.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return "", 0, fmt.Errorf("describe workflow %s: %w", id, err)
		}
		info := answer.GetWorkflowExecutionInfo()
		return info.GetExecution().GetRunId(), info.GetStatus(), nil
	}
}

// running returns the ids of the running workflows of runs whose numbers are in a range, according to
// Temporal's index, which may lag: what it does not contain may be running, too.
type running func(ctx context.Context, first, last int64) (map[string]bool, error)

// runningOf asks Temporal.
func runningOf(c client.Client) running {
	return func(ctx context.Context, first, last int64) (map[string]bool, error) {
		found := map[string]bool{}
		query := fmt.Sprintf("WorkflowType = %q AND ExecutionStatus = %q AND %s BETWEEN %d AND %d",
			contract.WorkflowRun, "Running", contract.AttributeRun, first, last)
		for page := []byte(nil); ; {
			answer, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: abandonedRuns, Query: query, NextPageToken: page})
			if err != nil {
				return nil, fmt.Errorf("list the running workflows of runs: %w", err)
			}
			for _, e := range answer.GetExecutions() {
				found[e.GetExecution().GetWorkflowId()] = true
			}
			if page = answer.GetNextPageToken(); len(page) == 0 {
				return found, nil
			}
		}
	}
}

// ongoing reports whether a workflow in a state will still write records.
func ongoing(state enumspb.WorkflowExecutionStatus) bool {
	return state == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || state == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
}

// closeIfEnded ends the row of a run whose workflow ended without recording its end, and everything
// that the run had begun. A run that has ended properly in the meantime, or is being replayed, is
// skipped.
func closeIfEnded(ctx context.Context, look latest, db *store.Store, id int64) error {
	workflow := contract.RunWorkflowID(id)
	ended, state, err := look(ctx, workflow)
	if err != nil || ongoing(state) {
		return err
	}
	run, err := db.Run(ctx, id) // read after the workflow's state: a workflow records its end before it ends
	if err != nil || isFinished(run) {
		return err
	}
	// It is still the newest, so the run was not replayed between the two reads.
	if now, _, err := look(ctx, workflow); err != nil || now != ended {
		return err
	}
	failure := fault.New(contract.ClassInfra, contract.CodeWorkerLost,
		"the run's workflow ended (%s) without a result; partial results are kept; start the run again", state).Failure
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

// isFinished reports whether a run will write nothing more: a run that watches its branch is done,
// but still has a workflow.
func isFinished(run store.Run) bool { return run.Status.Terminal() && run.StayingUntil == nil }

// closeStay records that a released run no longer watches its branch. Its release is kept.
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

// closeExecutions ends the open executions of a run whose workflow has ended.
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

// openHeals records that the run ended before the result of its open heals was known.
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

// sweep removes this host's cache of ended runs, because a run cleans up on only one host, and
// everything that has been unused for setup.CacheAge.
func sweep(ctx context.Context, parts *activities.Activities, log *slog.Logger) error {
	return every(ctx, sweepEvery, func() {
		err := parts.Workspaces.Sweep(ctx, func(ctx context.Context, first string) (bool, error) { return ended(ctx, parts.Store, first) })
		if err != nil && ctx.Err() == nil {
			log.Warn("Could not clean up the working directories of finished runs", "error", err)
		}
		if err := parts.Workspaces.Prune(ctx, setup.CacheAge); err != nil && ctx.Err() == nil {
			log.Warn("Could not clean up the cache", "error", err)
		}
		sweepEnvironments(ctx, parts, log)
		if err := setup.SweepBuildCaches(ctx, parts.Config, parts.DataDir); err != nil && ctx.Err() == nil {
			log.Warn("Could not clean up the build caches", "error", err)
		}
		if err := setup.SweepBrain(parts.Config, parts.DataDir); err != nil {
			log.Warn("Could not clean up the indexes of repositories", "error", err)
		}
	})
}

// shownOutput is how long live output is kept. By then, the whole output is an artifact.
const shownOutput = time.Hour

// sweepEnvironments removes environments of this host that exceed its limits, expired live output and
// the old history of tests.
func sweepEnvironments(ctx context.Context, parts *activities.Activities, log *slog.Logger) {
	if _, err := parts.Store.DropOutputs(ctx, shownOutput); err != nil && ctx.Err() == nil {
		log.Warn("Could not remove old output", "error", err)
	}
	if err := flaky.New(parts.Store).Clean(ctx, parts.Config.Verification.Flaky.History); err != nil && ctx.Err() == nil {
		log.Warn("Could not clean up the history of tests", "error", err)
	}
	used, err := parts.Store.EnvironmentsInUse(ctx)
	if err == nil {
		err = errors.Join(
			setup.SweepEnvironments(ctx, parts.Config, parts.DataDir, func(digest string) bool { return slices.Contains(used, digest) }),
			removeArchives(ctx, parts, parts.Config.Environment.Age))
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("Could not clean up the environments", "error", err)
	}
}

// removeArchives removes environments from the artifact store that no run has used for
// longer than age. A run that needs one again creates it again.
func removeArchives(ctx context.Context, parts *activities.Activities, age time.Duration) error {
	archives, err := parts.Store.RemoveUnusedEnvironments(ctx, age)
	return errors.Join(err, retention.New(parts.Store, parts.Artifacts, parts.Log).Reclaim(ctx, archives))
}

// ended reports whether working directories belong to a run that has ended. Directories with other
// names, or of runs unknown to the database, are removed by age.
func ended(ctx context.Context, db *store.Store, first string) (bool, error) {
	id, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // not the name of a run's directory
	}
	run, err := db.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && run.Status.Terminal(), err
}

// every calls f immediately and then repeatedly until ctx ends.
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
