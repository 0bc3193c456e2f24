package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
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
			return a.withTemporal(cmd.Context(), args[0], func(p *parts, run store.Run) (err error) {
				o.RunID = run.ID
				if o.Model, err = p.runs().ModelFor(run, contract.AgentBuilder, model.model, model.warmth()); err != nil {
					return err
				}
				return a.fork(cmd.Context(), p, o, wait)
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

// fork makes and starts the new run.
func (a *app) fork(ctx context.Context, p *parts, o rerun.ForkOrder, wait bool) error {
	created, err := p.runs().Fork(ctx, o)
	if err != nil {
		return err
	}
	run := created.Run
	if !wait && !a.json {
		fmt.Fprintf(a.out, "Run %d %s\n", run.ID, created.Notes[0])
	}
	created.Notes = nil
	a.tellCreated(created)
	return a.reportCreated(ctx, p, run, true, wait)
}
