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
	o := rerun.ForkRequest{}
	cmd := &cobra.Command{
		Use: "fork RUN", Short: "Start a new run from a step of an existing run", Args: oneRun,
		Long: `Starts a new run that continues from a step of an existing run. It reuses the plan, the changes from
the steps that this step depends on and, with --turn, this step's conversation and workspace up to
that turn.
None of this is paid for again, and the original run is not changed.`,
		Example: `  rgpt run fork 42 --step step-003
  rgpt run fork 42 --step step-003 --turn 4 --model openai/gpt-5
  rgpt run fork 42 --step step-003 --instructions "Use the standard library only."`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Turn < -1 {
				return usageError{fmt.Errorf("--turn %d is too small; must be at least 0 (the start of the conversation)", o.Turn)}
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
				o.RunID, o.By = run.ID, caller()
				created, err := h.Fork(cmd.Context(), o, model.override())
				if err != nil {
					return err
				}
				return a.reportFork(cmd.Context(), h, created, wait)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Step, "step", "", "step to continue from (default: the first step of the plan)")
	f.IntVar(&o.Turn, "turn", -1, "keep the step's conversation and workspace up to this turn (default: the step starts over)")
	f.Lookup("turn").DefValue = "0" // so that the help does not show -1
	model.add(cmd, "model for the builder, as provider/model", "sampling temperature")
	model.addEffort(cmd, "unchanged, or the provider's with --model")
	f.StringVar(&o.Instructions, "instructions", "", "additional instructions for the model")
	f.StringVar(&planFile, "plan", "", "file (YAML or JSON) with a different plan that contains the step")
	f.StringVar(&o.Reason, "reason", "", "reason to record")
	f.BoolVar(&wait, "wait", false, "follow the new run until it ends")
	return cmd
}

// reportFork prints where the new run continues from, or follows it.
func (a *app) reportFork(ctx context.Context, h backend.Backend, created control.Created, wait bool) error {
	run := created.Run
	if len(created.Notes) > 0 { // the first note states the starting point
		if !wait && !a.json {
			fmt.Fprintf(a.out, "Run %d %s\n", run.ID, terminal.Clean(created.Notes[0]))
		}
		created.Notes = created.Notes[1:]
	}
	a.reportCreation(created)
	return a.reportCreated(ctx, h, run, true, wait)
}
