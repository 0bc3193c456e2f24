package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
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

// approveEdited stores a plan that a person edited and approves it. Stored it is
// one plan more; it counts once the run has accepted the approval.
func (a *app) approveEdited(ctx context.Context, arg, file string, c contract.Command) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	text, err := a.read(file)
	if err != nil {
		return err
	}
	var plan contract.Plan
	if err := yaml.UnmarshalWithOptions([]byte(text), &plan, yaml.Strict(), yaml.UseJSONUnmarshaler()); err != nil {
		return usageError{fmt.Errorf("%s is no plan: %w", file, err)}
	}
	if err := activities.CheckPlan(plan); err != nil {
		return err
	}
	p, err := a.open(ctx, needTemporal)
	if err != nil {
		return err
	}
	defer p.Close()
	view, err := stateOf(ctx, p.Temporal, id)
	if err != nil {
		return err
	}
	if view.WaitingFor != "plan" {
		return usageError{fmt.Errorf("run %d does not wait for the approval of a plan; it is %s", id, view.Status)}
	}
	if c.PlanID, err = p.Store.SavePlan(ctx, id, 0, caller(), plan); err != nil {
		return err
	}
	return a.send(ctx, p, id, contract.UpdateApprove, c)
}

// stateOf asks a run for its state.
func stateOf(ctx context.Context, c client.Client, id int64) (contract.RunView, error) {
	var view contract.RunView
	value, err := c.QueryWorkflow(ctx, contract.RunWorkflowID(id), "", contract.QueryState)
	if err != nil {
		return view, fmt.Errorf("ask run %d for its state: %w", id, err)
	}
	return view, value.Get(&view)
}

func newRunAdvance(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "advance RUN", Short: "Let a paused run go on as far as the next phase; start one that never started", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			p, err := a.open(cmd.Context(), needTemporal)
			if err != nil {
				return err
			}
			defer p.Close()
			run, err := p.Store.Run(cmd.Context(), id)
			if err != nil {
				return err
			}
			if run.WorkflowID == "" {
				if err := workerhost.Start(cmd.Context(), p.Temporal, p.Store, run); err != nil {
					return err
				}
				return a.acknowledge(id, contract.Ack{Applied: true, Status: run.Status, Message: "was started"})
			}
			return a.send(cmd.Context(), p, id, contract.UpdateAdvance, contract.Command{})
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
			cfg, err := a.config()
			if err != nil {
				return err
			}
			chosen, err := model.choice(cfg, contract.ModelChoice{})
			if err != nil {
				return err
			}
			if chosen == nil || chosen.Model == "" {
				return usageError{errors.New("switch-model needs --model provider/model")}
			}
			c := contract.Command{Agent: contract.Agent(agent), Model: chosen}
			return a.steer(cmd.Context(), args[0], contract.UpdateSwitchModel, c)
		},
	}
	model.add(cmd, "the model, as provider/model", "how much answers vary")
	cmd.Flags().StringVar(&agent, "agent", "", "for this agent only: planner, builder, repair, …")
	return cmd
}

// steer sends a command to a run and waits for its answer.
func (a *app) steer(ctx context.Context, arg, name string, c contract.Command) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	p, err := a.open(ctx, needTemporal)
	if err != nil {
		return err
	}
	defer p.Close()
	return a.send(ctx, p, id, name, c)
}

// answerTime is how long a run may take to answer a command.
const answerTime = 30 * time.Second

func (a *app) send(ctx context.Context, p *parts, id int64, name string, c contract.Command) error {
	if _, err := p.Store.Run(ctx, id); err != nil { // its error is the clearer one
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	c.By = caller()
	ack, err := tell(ctx, p, id, name, c)
	var app *temporal.ApplicationError
	if errors.As(err, &app) && caughtUp(ctx, p, id) {
		ack, err = tell(ctx, p, id, name, c)
	}
	if err != nil {
		return steerError(ctx, p.Store, id, name, err)
	}
	return a.acknowledge(id, ack)
}

// tell sends a command to a run's workflow and returns its answer.
func tell(ctx context.Context, p *parts, id int64, name string, c contract.Command) (contract.Ack, error) {
	c.ID = uuid.NewString()
	var ack contract.Ack
	handle, err := p.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: contract.RunWorkflowID(id), UpdateID: c.ID, UpdateName: name, Args: []any{c}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &ack)
	}
	return ack, err
}

// catchUpPoll is how often a run is asked whether it is where its row says.
const catchUpPoll = 200 * time.Millisecond

// caughtUp waits until a run whose row says that it waits for an answer says so
// itself, and reports whether it does. A worker that died right after it had
// written the row takes its workflow a moment back; what was refused then is
// worth another try.
func caughtUp(ctx context.Context, p *parts, id int64) bool {
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for {
		run, err := p.Store.Run(ctx, id)
		if err != nil || run.Status != contract.StatusWaitingForApproval {
			return false
		}
		if view, err := stateOf(ctx, p.Temporal, id); err == nil && view.Status == run.Status {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// steerError says why a command had no effect.
func steerError(ctx context.Context, db *store.Store, id int64, name string, err error) error {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return fault.New(contract.ClassHuman, contract.CodeRejected, "%s", app.Message())
	}
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		run, lookup := db.Run(context.WithoutCancel(ctx), id)
		if lookup == nil && run.Status.Terminal() {
			return fault.New(contract.ClassHuman, contract.CodeRejected, "run %d has ended (%s); %s changes nothing any more", id, run.Status, name)
		}
		return fault.New(contract.ClassHuman, contract.CodeRejected, "run %d has not started yet; try again in a moment, or start it with rgpt run advance %d", id, id)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(err, contract.ClassInfra, contract.CodeTimeout, "run %d did not answer %s within %s; see that a worker runs (rgpt dev status)", id, name, answerTime)
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "%s could not be sent to run %d", name, id)
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
