package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
)

// steering returns the commands that are updates of a run.
func steering(a *app) []*cobra.Command {
	command := func(name, use, short string, flags func(*cobra.Command, *contract.Command)) *cobra.Command {
		var c contract.Command
		cmd := &cobra.Command{
			Use: use, Short: short, Args: oneRun,
			RunE: func(cmd *cobra.Command, args []string) error { return a.steer(cmd.Context(), args[0], name, c) },
		}
		cmd.Flags().StringVar(&c.Reason, "reason", "", "why, for the record")
		if flags != nil {
			flags(cmd, &c)
		}
		return cmd
	}
	approval := func(cmd *cobra.Command, c *contract.Command) {
		cmd.Flags().StringVar(&c.ApprovalID, "approval", "", "which approval (default: the open one)")
	}
	return []*cobra.Command{
		newRunApprove(a),
		command(contract.UpdateReject, "reject RUN", "Say no to what a run waits for", approval),
		command(contract.UpdatePause, "pause RUN", "Let what is under way finish, and start nothing new", nil),
		command(contract.UpdateStop, "stop RUN", "Stop a run; its partial results are kept", nil),
		newRunAdvance(a),
		newRunSwitchModel(a),
	}
}

func newRunApprove(a *app) *cobra.Command {
	var c contract.Command
	var planFile string
	cmd := &cobra.Command{
		Use: "approve RUN", Short: "Say yes to what a run waits for", Args: oneRun,
		Example: `  rgpt run approve 42 --reason "looks right"
  rgpt run approve 42 --plan edited.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if planFile == "" {
				return a.steer(cmd.Context(), args[0], contract.UpdateApprove, c)
			}
			return a.approveEdited(cmd.Context(), args[0], planFile, c)
		},
	}
	cmd.Flags().StringVar(&c.Reason, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&c.ApprovalID, "approval", "", "which approval (default: the open one)")
	cmd.Flags().StringVar(&planFile, "plan", "", "approve the plan as edited in this file (YAML or JSON)")
	return cmd
}

// approveEdited approves a plan as a person edited it.
func (a *app) approveEdited(ctx context.Context, arg, file string, c contract.Command) error {
	plan, err := a.readPlan(file)
	if err != nil {
		return err
	}
	return a.command(ctx, arg, func(h house, id int64) (contract.Ack, error) { return h.ApproveEdited(ctx, id, *plan, c) })
}

func newRunAdvance(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "advance RUN", Short: "Let a paused run go on as far as the next phase; start one that never started", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.command(cmd.Context(), args[0], func(h house, id int64) (contract.Ack, error) {
				return h.Advance(cmd.Context(), id, contract.Command{By: caller()})
			})
		},
	}
}

func newRunSwitchModel(a *app) *cobra.Command {
	var agent string
	var model modelFlags
	cmd := &cobra.Command{
		Use: "switch-model RUN --model PROVIDER/MODEL", Short: "Let a run use another model from the next call on", Args: oneRun,
		Example: `  rgpt run switch-model 42 --model openai/gpt-5
  rgpt run switch-model 42 --model ollama/qwen3-coder --agent builder --temperature 0.2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if model.model == "" {
				return usageError{errors.New("switch-model needs --model provider/model")}
			}
			if err := model.check(); err != nil {
				return err
			}
			c := contract.Command{Agent: contract.Agent(agent), By: caller()}
			return a.command(cmd.Context(), args[0], func(h house, id int64) (contract.Ack, error) {
				return h.SwitchModel(cmd.Context(), id, model.model, model.warmth(), c)
			})
		},
	}
	model.add(cmd, "the model, as provider/model", "how much answers vary")
	cmd.Flags().StringVar(&agent, "agent", "", "for this agent only: planner, builder, repair, …, or alpha, beta, gamma while they deliberate about the plan")
	return cmd
}

// steer sends a command to a run and says what it answered.
func (a *app) steer(ctx context.Context, arg, name string, c contract.Command) error {
	return a.command(ctx, arg, func(h house, id int64) (contract.Ack, error) {
		c.By = caller()
		return h.Steer(ctx, id, name, c)
	})
}

// command gives a run a command and says what it answered.
func (a *app) command(ctx context.Context, arg string, give func(house, int64) (contract.Ack, error)) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	h, err := a.open(ctx, needTemporal)
	if err != nil {
		return err
	}
	defer h.Close()
	ack, err := give(h, id)
	if err != nil {
		return err
	}
	return a.acknowledge(id, ack)
}

func (a *app) acknowledge(id int64, ack contract.Ack) error {
	if a.json {
		a.printJSON(ack)
		return nil
	}
	fmt.Fprintf(a.out, "Run %d: %s\n", id, clean(ack.Message))
	return nil
}

// caller names who gives a command.
func caller() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "the command line"
}
