package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newRunFork(a *app) *cobra.Command {
	var planFile string
	var model modelFlags
	var wait bool
	o := rerun.ForkOrder{}
	cmd := &cobra.Command{
		Use: "fork RUN", Short: "Start a new run from a step of an old one", Args: oneRun,
		Long: `Starts a new run that goes on from a step of an old one: with its plan, the changes of the
steps that it depends on, and its conversation and workspace as they were after a turn.
Nothing of that is paid for again, and the old run stays as it is.`,
		Example: `  rgpt run fork 42 --step step-003
  rgpt run fork 42 --step step-003 --turn 4 --model openai/gpt-5
  rgpt run fork 42 --step step-003 --instructions "Use the standard library only."`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Turn < -1 {
				return usageError{fmt.Errorf("--turn %d: turns count from 0, the opening of the conversation", o.Turn)}
			}
			if planFile != "" {
				plan, err := a.readPlan(planFile)
				if err != nil {
					return err
				}
				o.Plan = plan
			}
			if err := model.check(); err != nil {
				return err
			}
			return a.withTemporal(cmd.Context(), args[0], func(h backend.Backend, run store.Run) error {
				o.RunID = run.ID
				created, err := h.Fork(cmd.Context(), o, model.model, model.warmth())
				if err != nil {
					return err
				}
				return a.reportFork(cmd.Context(), h, created, wait)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Step, "step", "", "the step to go on from (default: the plan's first)")
	f.IntVar(&o.Turn, "turn", -1, "take over the step's conversation and workspace up to this turn (default: the step begins anew)")
	model.add(cmd, "another model for the builder, as provider/model", "how much answers vary")
	f.StringVar(&o.Instructions, "instructions", "", "what the model is told on top")
	f.StringVar(&planFile, "plan", "", "another plan (YAML or JSON) that has the step")
	f.StringVar(&o.Reason, "reason", "", "why, for the record")
	f.BoolVar(&wait, "wait", false, "follow the new run to its end")
	return cmd
}

// reportFork prints where the new run continues from, or follows it.
func (a *app) reportFork(ctx context.Context, h backend.Backend, created control.Created, wait bool) error {
	run := created.Run
	if len(created.Notes) > 0 { // the first note says where it continues from
		if !wait && !a.json {
			fmt.Fprintf(a.out, "Run %d %s\n", run.ID, terminal.Clean(created.Notes[0]))
		}
		created.Notes = created.Notes[1:]
	}
	a.tellCreated(created)
	return a.reportCreated(ctx, h, run, true, wait)
}
