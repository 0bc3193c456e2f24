package workerhost

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/workflows"
)

const (
	// reconcileEvery is how often runs are looked for that have a row but no workflow.
	reconcileEvery = 2 * time.Second
	// reconcileAfter leaves the one who made the row the time to start the workflow.
	reconcileAfter = 5 * time.Second
	// abandonedAfter is when a model call that was never settled counts as
	// abandoned: longer than any call may take, with all its retries.
	abandonedAfter = 2 * time.Hour
	// sweepEvery is how often working directories are looked for whose run has ended.
	sweepEvery = 10 * time.Minute
	// cacheAge is how long what nobody used stays in the cache.
	cacheAge = 14 * 24 * time.Hour
)

// Start starts the workflow of a run and notes that it runs. Called twice, at
// the same time or after a crash in between, it starts one.
func Start(ctx context.Context, c client.Client, db *store.Store, run store.Run) error {
	var spec setup.RunSpec
	if err := json.Unmarshal(run.Spec, &spec); err != nil {
		return fmt.Errorf("read the inputs of run %d: %w", run.ID, err)
	}
	settings := run.Settings
	settings.Release.Branch = spec.BranchPrefix + fmt.Sprint(run.ID)
	started, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       contract.RunWorkflowID(run.ID),
		TaskQueue:                contract.QueueRun,
		WorkflowTaskTimeout:      workflows.TaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant).ValueSet(run.Tenant),
			temporal.NewSearchAttributeKeyKeyword(contract.AttributeProject).ValueSet(run.Project),
			temporal.NewSearchAttributeKeyInt64(contract.AttributeRun).ValueSet(run.ID),
			temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus).ValueSet(string(contract.StatusPending)),
		),
		StaticSummary: run.GoalTitle,
	}, contract.WorkflowRun, contract.RunInput{RunID: run.ID, Tenant: run.Tenant, Project: run.Project, Settings: settings})
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return db.MarkStarted(ctx, run.ID, contract.RunWorkflowID(run.ID), "") // it ran, and has ended already
	}
	if err != nil {
		return fmt.Errorf("start the workflow of run %d: %w", run.ID, err)
	}
	return db.MarkStarted(ctx, run.ID, started.GetID(), started.GetRunID())
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
			if err := Start(ctx, c, db, run); err != nil {
				log.Warn("Could not start a run that had no workflow", "run", run.ID, "error", err)
				continue
			}
			log.Info("Started a run that had no workflow", "run", run.ID)
		}
	})
}

// sweep removes what ended runs and old repositories left in the cache.
func sweep(ctx context.Context, parts *activities.Activities, log *slog.Logger) error {
	return every(ctx, sweepEvery, func() {
		if err := parts.Workspaces.Prune(ctx, cacheAge); err != nil && ctx.Err() == nil {
			log.Warn("Could not sweep the cache", "error", err)
		}
	})
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
