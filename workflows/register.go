// Package workflows is the deterministic core: it decides the next actions of a run from its
// history. All side effects are in activities, which are called by the names in package contract.
package workflows

import (
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/agentloop"
	groupflow "github.com/rocketgpt/orchestrator/workflows/attempts"
	"github.com/rocketgpt/orchestrator/workflows/changeset"
	"github.com/rocketgpt/orchestrator/workflows/deliberation"
	"github.com/rocketgpt/orchestrator/workflows/mergequeue"
	"github.com/rocketgpt/orchestrator/workflows/run"
	"github.com/rocketgpt/orchestrator/workflows/selfheal"
	"github.com/rocketgpt/orchestrator/workflows/trigger"
)

// RegisterRun registers the workflow that a worker of the run queue serves.
func RegisterRun(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(run.Workflow, workflow.RegisterOptions{Name: contract.WorkflowRun})
}

// RegisterSelfHeal registers the workflow that heals a failure. It runs on the Repair
// agent's queue.
func RegisterSelfHeal(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(selfheal.Workflow, workflow.RegisterOptions{Name: contract.WorkflowSelfHeal})
}

// RegisterStep registers the workflow of an agent that writes code. It runs on the
// agent's own queue, where the worker can do its short work as local activities.
func RegisterStep(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(agentloop.Workflow, workflow.RegisterOptions{Name: contract.WorkflowStep})
}

// RegisterDeliberation registers the workflow of a pipeline, which a worker of the run
// queue serves.
func RegisterDeliberation(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(deliberation.Workflow, workflow.RegisterOptions{Name: contract.WorkflowDeliberation})
}

// RegisterMember registers the workflow of ALPHA, BETA and GAMMA. It runs on the
// planner's queue, where the worker can do its short work as local activities.
func RegisterMember(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(deliberation.Member, workflow.RegisterOptions{Name: contract.WorkflowMember})
}

// RegisterAttempts registers the workflow that chooses among several attempts at a goal, which a worker
// of the run queue serves.
func RegisterAttempts(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(groupflow.Workflow, workflow.RegisterOptions{Name: contract.WorkflowAttempts})
}

// RegisterChangeSet registers the workflow that releases the runs of a change set together, which a worker
// of the run queue serves.
func RegisterChangeSet(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(changeset.Workflow, workflow.RegisterOptions{Name: contract.WorkflowChangeSet})
}

// RegisterMergeQueue registers the workflow that merges the pull requests of a branch, which a worker of
// the run queue serves.
func RegisterMergeQueue(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(mergequeue.Workflow, workflow.RegisterOptions{Name: contract.WorkflowMergeQueue})
}

// RegisterTrigger registers the workflow that the schedules of triggers start, which a worker of the run
// queue serves.
func RegisterTrigger(r worker.WorkflowRegistry) {
	r.RegisterWorkflowWithOptions(trigger.Workflow, workflow.RegisterOptions{Name: contract.WorkflowTrigger})
}
