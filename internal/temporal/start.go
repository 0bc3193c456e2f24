package temporal

import (
	"cmp"
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
)

// StartRun starts the workflow of a run, only once even if called repeatedly, and records that it
// is running.
func StartRun(ctx context.Context, c client.Client, db *store.Store, run store.Run) error {
	spec, err := setup.ReadRunSpec(run)
	if err != nil {
		return err
	}
	settings := run.Settings
	settings.Release.Branch = cmp.Or(settings.ContinuedBranch(), spec.Branch(run.ID))
	workflow := contract.RunWorkflowID(run.ID)
	if of := settings.Attempt; of != nil { // the group's workflow must listen to its attempts
		if err := startAttempts(ctx, c, db, of.Group); err != nil {
			return err
		}
	}
	if of := settings.ChangeSet; of != nil { // the set's workflow must listen to its runs
		if err := startChangeSet(ctx, c, of.Set, run.Tenant); err != nil {
			return err
		}
	}
	started, err := startOnce(ctx, c, workflow, contract.WorkflowRun,
		contract.RunInput{RunID: run.ID, Tenant: run.Tenant, Project: run.Project, PlanID: run.PlanID, Settings: settings, Logic: contract.LogicLocalSetup},
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant).ValueSet(run.Tenant),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeProject).ValueSet(run.Project),
		temporal.NewSearchAttributeKeyInt64(contract.AttributeRun).ValueSet(run.ID),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase).ValueSet(string(contract.PhasePlanner)),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus).ValueSet(string(contract.StatusPending)),
	)
	if err != nil {
		return err
	}
	return db.MarkStarted(ctx, run.ID, workflow, started)
}

// startAttempts starts the workflow that chooses among the attempts of a group, only once even if called
// repeatedly.
func startAttempts(ctx context.Context, c client.Client, db *store.Store, group int64) error {
	g, err := attempts.Read(ctx, db, group)
	if err != nil {
		return err
	}
	_, err = startOnce(ctx, c, contract.AttemptsWorkflowID(group), contract.WorkflowAttempts,
		contract.AttemptsInput{Group: group, Tenant: g.Tenant, Settings: g.Settings},
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant).ValueSet(g.Tenant),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeProject).ValueSet(g.Project),
	)
	return err
}

// startChangeSet starts the workflow that releases the runs of a change set together, only once even if
// called repeatedly.
func startChangeSet(ctx context.Context, c client.Client, set int64, tenant string) error {
	_, err := startOnce(ctx, c, contract.ChangeSetWorkflowID(set), contract.WorkflowChangeSet,
		contract.ChangeSetInput{Set: set, Tenant: tenant},
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant).ValueSet(tenant),
	)
	return err
}

// StartPipeline starts the workflow of a pipeline, only once even if called repeatedly, and records
// that it is running.
func StartPipeline(ctx context.Context, c client.Client, db *store.Store, p store.Pipeline) error {
	workflow := contract.PipelineWorkflowID(p.ID)
	started, err := startOnce(ctx, c, workflow, contract.WorkflowDeliberation, p.Input(),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeTenant).ValueSet(p.Tenant),
		temporal.NewSearchAttributeKeyInt64(contract.AttributeRun).ValueSet(p.RunID),
		temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus).ValueSet(string(contract.PipelineSpawned)),
	)
	if err != nil {
		return err
	}
	return db.MarkPipelineStarted(ctx, p.ID, workflow, started)
}

// startOnce starts a workflow at most once per ID, with its search attributes, and returns its
// workflow run ID. If it is called twice, concurrently or after a crash, it starts only one
// workflow; if the workflow has already ended, it returns "".
func startOnce(ctx context.Context, c client.Client, id, kind string, input any, shown ...temporal.SearchAttributeUpdate) (workflowRunID string, err error) {
	started, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                contract.QueueRun,
		WorkflowTaskTimeout:      contract.TaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes:    temporal.NewSearchAttributes(shown...),
	}, kind, input)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("start the workflow %s: %w", id, err)
	}
	return started.GetRunID(), nil
}
