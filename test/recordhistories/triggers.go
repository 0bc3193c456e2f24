package main

import (
	"context"
	"fmt"
	"path/filepath"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
)

// triggered is the ending of the workflow that the schedule of a trigger starts.
const triggered = "triggered"

// recordTriggered writes the history of a workflow that a schedule starts.
func recordTriggered(ctx context.Context, out, data string) error {
	c, err := startStack(ctx, data, pipelineScenario)
	if err != nil {
		return err
	}
	defer c.Close()
	id := contract.TriggerScheduleID(triggered)
	schedule, err := c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID: id, Spec: client.ScheduleSpec{CronExpressions: []string{"0 0 1 1 *"}}, TriggerImmediately: true,
		Action: &client.ScheduleWorkflowAction{ID: id, Workflow: contract.WorkflowTrigger, Args: []any{contract.TriggerInput{Trigger: triggered}}, TaskQueue: contract.QueueRun},
	})
	if err != nil {
		return fmt.Errorf("create a schedule: %w", err)
	}
	defer func() { _ = schedule.Delete(context.WithoutCancel(ctx)) }()
	for {
		d, err := schedule.Describe(ctx)
		if err != nil {
			return fmt.Errorf("read the schedule: %w", err)
		}
		if len(d.Info.RecentActions) == 0 {
			continue
		}
		workflow := d.Info.RecentActions[0].StartWorkflowResult.WorkflowID
		if err := c.GetWorkflow(ctx, workflow, "").Get(ctx, nil); err != nil {
			return fmt.Errorf("wait for %s: %w", workflow, err)
		}
		h, err := history(ctx, c, workflow)
		if err != nil {
			return err
		}
		return writeHistory(filepath.Join(out, triggered+".json.gz"), h)
	}
}
