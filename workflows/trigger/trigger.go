// Package trigger is the workflow that the schedule of a trigger starts: it adds a delivery to the
// trigger. Whether and when a run follows is decided elsewhere.
package trigger

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// scheduledStart is the search attribute in which Temporal says for which time of a schedule it started
// a workflow.
var scheduledStart = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// Workflow adds the time for which it was started to its trigger. The time identifies the delivery, so
// that a repeat has no effect.
func Workflow(ctx workflow.Context, in contract.TriggerInput) error {
	at, scheduled := workflow.GetTypedSearchAttributes(ctx).GetTime(scheduledStart)
	if !scheduled { // a person started it
		at = workflow.GetInfo(ctx).WorkflowStartTime
	}
	return workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityTrigger, contract.TriggerTime{
		Trigger: in.Trigger, At: at.UTC().Truncate(time.Second),
	}).Get(ctx, nil)
}
