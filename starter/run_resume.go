package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// resuming returns the commands that continue or repeat a run.
func resuming(a *app) []*cobra.Command {
	return []*cobra.Command{newRunResume(a), newRunReplay(a), newRunHeal(a), newRunInterventions(a)}
}

func newRunResume(a *app) *cobra.Command {
	var c contract.Command
	var wait bool
	cmd := &cobra.Command{
		Use: "resume RUN", Short: "Resume a paused, failed or stopped run from where it left off", Args: oneRun,
		Long: `Resumes a paused run. A failed or stopped run resumes from the phase in which it ended:
finished work is kept and not paid for again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTemporal(cmd.Context(), args[0], func(h backend.Backend, run store.Run) error {
				went, err := h.Resume(cmd.Context(), run.ID, contract.Command{By: caller(), Reason: c.Reason})
				return a.reportResumed(cmd.Context(), h, went, err, run, wait)
			})
		},
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "reason to record")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow the run until it ends")
	a.allAttempts(cmd, contract.UpdateResume, &c, cmd.RunE)
	return cmd
}

// withTemporal calls f with a run and the clients that commands need to steer it.
func (a *app) withTemporal(ctx context.Context, arg string, f func(backend.Backend, store.Run) error) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	return a.with(ctx, backend.NeedTemporal, func(h backend.Backend) error {
		run, err := h.Run(ctx, id)
		if err != nil {
			return err
		}
		return f(h, run)
	})
}

func newRunReplay(a *app) *cobra.Command {
	var phase string
	var model modelFlags
	var wait bool
	o := rerun.Request{}
	cmd := &cobra.Command{
		Use: "replay RUN --phase PHASE", Short: "Repeat a run from a given phase", Args: oneRun,
		Long: `Repeats a finished run from a given phase by resetting its workflow. Earlier phases are not
repeated; earlier executions and artifacts are kept, numbered by attempt.`,
		Example: `  rgpt run replay 42 --phase tester
  rgpt run replay 42 --phase builder --step step-003
  rgpt run replay 42 --phase planner --model openai/gpt-5 --effort high`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Step != "" && phase == "" {
				phase = string(contract.PhaseBuilder)
			}
			o.Phase, o.By = contract.Phase(strings.TrimSuffix(phase, "_running")), caller()
			if !o.Phase.Valid() {
				return usageError{fmt.Errorf("--phase %q is invalid; must be one of %v", phase, contract.Phases())}
			}
			if o.Step != "" && o.Phase != contract.PhaseBuilder {
				return usageError{fmt.Errorf("--step %s: only the builder has steps; omit --phase %s", o.Step, phase)}
			}
			if err := model.check(); err != nil {
				return err
			}
			return a.withTemporal(cmd.Context(), args[0], func(h backend.Backend, run store.Run) error {
				o.RunID = run.ID
				result, err := h.Replay(cmd.Context(), o, model.override())
				if err != nil {
					return err
				}
				return a.reportReplay(cmd.Context(), h, result, run, wait)
			})
		},
	}
	cmd.Flags().StringVar(&phase, "phase", "", "planner, builder, tester or releaser")
	cmd.Flags().StringVar(&o.Step, "step", "", "for the builder: repeat only this step and the steps that depend on it")
	model.add(cmd, "model for the phase, as provider/model", "sampling temperature for the phase")
	model.addEffort(cmd, "unchanged, or the provider's with --model")
	cmd.Flags().StringVar(&o.Reason, "reason", "", "reason to record")
	cmd.Flags().BoolVar(&wait, "wait", false, "follow the run until it ends")
	return cmd
}

// reportResumed prints how a run continued.
func (a *app) reportResumed(ctx context.Context, h backend.Backend, went control.Resumption, err error, run store.Run, wait bool) error {
	switch {
	case err != nil:
		return err
	case went.Replay != nil:
		return a.reportReplay(ctx, h, *went.Replay, run, wait)
	default:
		return a.acknowledge(run.ID, *went.Ack)
	}
}

// reportReplay prints which phase a run continues from, or follows the run.
func (a *app) reportReplay(ctx context.Context, h backend.Backend, result rerun.Result, run store.Run, wait bool) error {
	switch {
	case wait && !result.Started:
		return fault.New(contract.ClassInfra, contract.CodeUnavailable,
			"no worker has picked up run %d yet; it will start when one does (see rgpt dev status); to follow it: rgpt run watch %d --after %d", run.ID, run.ID, run.EventSeq)
	case wait:
		return a.followFrom(ctx, h, run.ID, run.EventSeq)
	case a.json:
		a.printJSON(result)
		return nil
	}
	if !result.Started {
		fmt.Fprintf(a.errs, "No worker has picked up run %d yet; it will start when one does (see rgpt dev status)\n", run.ID)
	}
	fmt.Fprintf(a.out, "Run %d continues from the %s; follow it: rgpt run watch %d --after %d\n", run.ID, result.Phase, run.ID, run.EventSeq)
	if len(result.Kept) > 0 {
		fmt.Fprintf(a.out, "Kept: %s\n", strings.Join(result.Kept, ", "))
	}
	return nil
}

func newRunHeal(a *app) *cobra.Command {
	var c contract.Command
	var action string
	cmd := &cobra.Command{
		Use: "heal RUN", Short: "Continue a run that needs help, or a failed run", Args: oneRun,
		Long: `Responds to a run that requests help: the run heals the failure with the given action or,
without one, tries again, with all actions of its failure class available. A failed run
continues from where it failed; it does not accept an action.`,
		Example: `  rgpt run heal 42
  rgpt run heal 42 --action repair --reason "the helper in math.go is off by one"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Action = contract.HealAction(action)
			if action != "" && !c.Action.Valid() {
				return usageError{fmt.Errorf("--action %q is invalid; must be one of %v", action, contract.HealActions())}
			}
			return a.withTemporal(cmd.Context(), args[0], func(h backend.Backend, run store.Run) error {
				c.By = caller()
				went, err := h.Heal(cmd.Context(), run.ID, c)
				return a.reportResumed(cmd.Context(), h, went, err, run, false)
			})
		},
	}
	cmd.Flags().StringVar(&action, "action", "", "heal action (default: the next action for the failure's class)")
	cmd.Flags().StringVar(&c.Reason, "reason", "", "instructions for the next attempt")
	return cmd
}

func newRunInterventions(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "interventions [RUN]", Short: "List open interventions, or all interventions of a run", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.withRun(cmd.Context(), args[0], 0, func(_ backend.Backend, d views.RunDetails) error {
					a.printInterventions(d.Interventions)
					return nil
				})
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.OpenInterventions(cmd.Context(), shownInterventions)
				if err != nil {
					return err
				}
				a.printInterventions(list)
				return nil
			})
		},
	}
}

// shownInterventions is the maximum number of open interventions that are listed, oldest first.
const shownInterventions = 200

func (a *app) printInterventions(list []views.Intervention) {
	if a.json {
		a.printJSON(map[string]any{"interventions": list})
		return
	}
	if len(list) == 0 {
		fmt.Fprintln(a.out, "No open interventions.")
	}
	for _, i := range list {
		fmt.Fprintf(a.out, "Run %d, %s, %s", i.RunID, contract.InterventionID(i.RunID, i.Number), i.Status)
		switch {
		case i.Status == "open" && i.Deadline != nil:
			fmt.Fprintf(a.out, " until %s", i.Deadline.Local().Format(time.DateTime))
		case i.ResolvedBy != "":
			fmt.Fprintf(a.out, " by %s", terminal.Clean(i.ResolvedBy))
			if i.Answer != "" { // else by a push
				fmt.Fprintf(a.out, " (%s)", i.Answer)
			}
		}
		fmt.Fprintf(a.out, "\n  %s\n  To do: %s\n", terminal.Clean(i.Reason), terminal.Clean(i.ActionRequired))
		if i.Status == "open" {
			fmt.Fprintln(a.out, "  "+helpCommands(i))
		}
	}
}

// helpCommands lists the commands that respond to an open intervention.
func helpCommands(i views.Intervention) string {
	if i.Kind == contract.InterventionQuota { // the next action is fixed
		return fmt.Sprintf("Continue now: rgpt run approve %d   Give up: rgpt run reject %d", i.RunID, i.RunID)
	}
	return fmt.Sprintf("Try again: rgpt run approve %d   Other action: rgpt run heal %d --action ACTION   Give up: rgpt run reject %d", i.RunID, i.RunID, i.RunID)
}
