package workerhost

import (
	"context"
	"errors"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// reconcilePipelines starts the workflows of pipelines whose creator died after creating the row,
// and ends the rows of pipelines whose workflow ended without recording its end.
func reconcilePipelines(ctx context.Context, c client.Client, db *store.Store, log *slog.Logger) error {
	var looked time.Time
	return every(ctx, reconcileEvery, func() {
		waiting, err := db.UnstartedPipelines(ctx, reconcileAfter, 100)
		if err != nil {
			log.Warn("Could not check for pipelines that have no workflow", "error", err)
			return
		}
		for _, p := range waiting {
			if err := temporal.StartPipeline(ctx, c, db, p); err != nil {
				log.Warn("Could not start a pipeline that has no workflow", "pipeline", p.ID, "error", err)
				continue
			}
			log.Info("Started a pipeline that had no workflow", "pipeline", p.ID)
		}
		if time.Since(looked) < abandonedEvery {
			return
		}
		looked = time.Now()
		closeAbandonedPipelines(ctx, c, db, log)
	})
}

// closeAbandonedPipelines searches the newest unfinished pipelines for workflows that ended without
// recording their end, or were never started by the creator of the pipeline.
func closeAbandonedPipelines(ctx context.Context, c client.Client, db *store.Store, log *slog.Logger) {
	open, err := db.ListPipelines(ctx, store.PipelineFilter{Status: openPipelines(), Limit: abandonedRuns})
	if err != nil {
		log.Warn("Could not check for pipelines whose workflows have ended", "error", err)
		return
	}
	for _, p := range open {
		if p.WorkflowID == "" && madeBy(p) == "" || time.Since(p.UpdatedAt) < abandonedQuiet {
			continue
		}
		if err := closePipelineIfEnded(ctx, latestOf(c), db, p.ID); err != nil {
			log.Warn("Could not check whether a pipeline's workflow still exists", "pipeline", p.ID, "error", err)
		}
	}
}

func openPipelines() (out []contract.PipelineStatus) {
	for _, s := range contract.PipelineStatuses() {
		if !s.Terminal() {
			out = append(out, s)
		}
	}
	return out
}

// closePipelineIfEnded ends the row of a pipeline whose workflow ended without recording its end,
// and its members' executions if the pipeline has its own row for costs; a run closes its own
// executions. It also ends a pipeline that nothing will start any more. Everything that the
// pipeline wrote is kept.
func closePipelineIfEnded(ctx context.Context, look latest, db *store.Store, id int64) error {
	workflow := contract.PipelineWorkflowID(id)
	ended, state, err := look(ctx, workflow)
	never := gone(err)
	if !never && (err != nil || ongoing(state)) {
		return err
	}
	p, err := db.Pipeline(ctx, id) // read after the workflow's state: a workflow records its end before it ends
	if err != nil || p.Status.Terminal() {
		return err
	}
	if never {
		return closeNeverBegan(ctx, look, db, p)
	}
	failure := fault.New(contract.ClassInfra, contract.CodeWorkerLost,
		"the pipeline's workflow ended (%s) without a deliberation result; partial results are kept; spawn the pipeline again", state).Failure
	from := store.Source{WorkflowID: workflow, WorkflowRunID: ended}
	if !p.ForRun {
		if err := closeExecutions(ctx, db, from, p.RunID, &failure); err != nil {
			return err
		}
	}
	return db.ClosePipeline(ctx, from, p, contract.PipelineFailed, failure)
}

// gone reports whether Temporal does not know a workflow: it never existed, or ended so
// long ago that it was deleted.
func gone(err error) bool {
	var none *serviceerror.NotFound
	return errors.As(err, &none)
}

// madeBy returns the workflow that created a pipeline and must start it as its child: the run that
// it plans, or the pipeline that it recovers. It is empty for a pipeline that a person spawned,
// which the reconciler starts.
func madeBy(p store.Pipeline) string {
	switch {
	case p.PriorID != 0:
		return contract.PipelineWorkflowID(p.PriorID)
	case p.ForRun:
		return contract.RunWorkflowID(p.RunID)
	}
	return ""
}

// closeNeverBegan ends a pipeline whose workflow will never start: its creator ended between
// creating the row and starting the workflow.
func closeNeverBegan(ctx context.Context, look latest, db *store.Store, p store.Pipeline) error {
	maker := madeBy(p)
	if p.WorkflowID != "" || maker == "" {
		return nil
	}
	_, state, err := look(ctx, maker)
	if !gone(err) && (err != nil || ongoing(state)) {
		return err
	}
	workflow := contract.PipelineWorkflowID(p.ID)
	if _, _, err := look(ctx, workflow); !gone(err) { // its creator may have started it after the first look
		return err
	}
	status, failure := neverBegan(maker, state)
	return db.ClosePipeline(ctx, store.Source{WorkflowID: workflow, WorkflowRunID: store.NeverStarted}, p, status, failure)
}

// neverBegan returns the end of a pipeline that never began, based on its creator's end: a creator
// that returned, or was cancelled, had most likely been asked to stop. Any other end, such as a
// termination, is not a decision about the pipeline.
func neverBegan(maker string, state enumspb.WorkflowExecutionStatus) (contract.PipelineStatus, contract.Failure) {
	switch state {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		return contract.PipelineStopped, fault.New(contract.ClassHuman, contract.CodeCancelled,
			"the pipeline never started: %s, which created it, ended first", maker).Failure
	default:
		how := state.String()
		if state == enumspb.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED {
			how = "unknown to Temporal"
		}
		return contract.PipelineFailed, fault.New(contract.ClassInfra, contract.CodeWorkerLost,
			"the pipeline never started: workflow %s, which created it, ended first (%s); spawn the pipeline again", maker, how).Failure
	}
}
