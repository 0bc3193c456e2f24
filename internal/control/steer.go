package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/planning"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// answerTime is the maximum time for a run's response to a command.
const answerTime = 30 * time.Second

// ErrNoAnswer is the error if a run or pipeline did not respond to a command in time.
var ErrNoAnswer = errors.New("no response in time")

// Steer sends a command as the named update to a run and waits for the response. Commands with the
// same ID count as one. If the run rejects the command, the error is a HUMAN_ERROR with the reason,
// and the run is unchanged. Secrets are removed from the sender and the reason before they become
// part of a history.
func (r *Runs) Steer(ctx context.Context, id int64, name string, c contract.Command) (contract.Ack, error) {
	run, err := r.Store.Run(ctx, id)
	if err != nil { // it is clearer
		return contract.Ack{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if name == contract.UpdateStop && run.WorkflowID == "" && !run.Status.Terminal() {
		// A queued run also ends through its workflow.
		if err := temporal.StartRun(ctx, r.Temporal, r.Store, run); err != nil {
			return contract.Ack{}, err
		}
	}
	c.ID = cmp.Or(c.ID, uuid.NewString())
	c.By, c.Reason = telemetry.Redact(c.By), telemetry.Redact(c.Reason)
	ack, err := r.update(ctx, id, name, c.ID, c)
	var app *sdktemporal.ApplicationError
	if errors.As(err, &app) && r.awaitCaughtUp(ctx, id) {
		// Temporal always returns the same result for a rejected update, so the same command is
		// sent as a new update.
		ack, err = r.update(ctx, id, name, uuid.NewString(), c)
	}
	if err != nil {
		return ack, r.commandFailure(ctx, id, name, err)
	}
	return ack, nil
}

// update sends an update to a run's workflow and returns the response.
func (r *Runs) update(ctx context.Context, id int64, name, updateID string, args any) (contract.Ack, error) {
	var ack contract.Ack
	err := update(ctx, r.Temporal, contract.RunWorkflowID(id), name, updateID, args, &ack)
	if errors.Is(err, errSentWithoutAnswer) {
		run, err := r.Store.Run(ctx, id)
		return contract.Ack{Applied: true, Status: run.Status, Message: sentWithoutAnswer(name)}, err
	}
	return ack, err
}

// storedAck returns the run's response to an update that was sent earlier and accepted, if there is
// one.
func (r *Runs) storedAck(ctx context.Context, id int64, updateID string) (ack contract.Ack, ok bool) {
	if updateID == "" {
		return ack, false
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	handle := r.Temporal.GetWorkflowUpdateHandle(client.GetWorkflowUpdateHandleOptions{WorkflowID: contract.RunWorkflowID(id), UpdateID: updateID})
	ok = handle.Get(ctx, &ack) == nil
	return ack, ok
}

// catchUpPoll is the interval of queries for whether a run has reached the state in its row.
const catchUpPoll = 200 * time.Millisecond

// awaitCaughtUp waits until the workflow of a run has reached the waiting state in the run's row,
// and reports whether it has. If a worker died right after it wrote the row, the workflow is
// briefly behind the row, and a command that it rejected should be sent again.
func (r *Runs) awaitCaughtUp(ctx context.Context, id int64) bool {
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for {
		run, err := r.Store.Run(ctx, id)
		if err != nil || !run.Status.WaitsForPerson() {
			return false
		}
		if view, err := r.State(ctx, id); err == nil && view.Status == run.Status {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// State queries the state of a run's workflow.
func (r *Runs) State(ctx context.Context, id int64) (contract.RunView, error) {
	var view contract.RunView
	value, err := r.Temporal.QueryWorkflow(ctx, contract.RunWorkflowID(id), "", contract.QueryState)
	if err != nil {
		return view, fmt.Errorf("query the state of run %d: %w", id, err)
	}
	return view, value.Get(&view)
}

// isTimeout reports whether an error means that a workflow did not respond in time, including the
// error types of Temporal's client.
func isTimeout(err error) bool {
	var late *serviceerror.DeadlineExceeded
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late)
}

// commandFailure returns why a command had no effect.
func (r *Runs) commandFailure(ctx context.Context, id int64, name string, err error) error {
	return sendFailure(err, fmt.Sprintf("run %d", id), name, func() error {
		run, lookup := r.Store.Run(context.WithoutCancel(ctx), id)
		if lookup == nil && run.Status.Terminal() {
			return refused("run %d has ended (%s); %s has no effect", id, run.Status, name)
		}
		return refused("run %d has not started yet; try again in a moment, or start it with rgpt run advance %d", id, id)
	})
}

// sendFailure returns why a command to a workflow had no effect; gone is the message for a
// workflow that does not exist.
func sendFailure(err error, target, name string, gone func() error) error {
	var app *sdktemporal.ApplicationError
	if errors.As(err, &app) {
		return refused("%s", app.Message())
	}
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return gone()
	}
	if isTimeout(err) {
		return fault.Wrap(ErrNoAnswer, contract.ClassInfra, contract.CodeTimeout,
			"%s did not respond to %s within %s and may still accept it; check that a worker is running (rgpt dev status)", target, name, answerTime)
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable, "cannot send %s to %s", name, target)
}

// ApproveEdited stores a plan that a person edited and approves it. The edited plan is stored as a
// new plan, and becomes the current one when the run accepts the approval.
func (r *Runs) ApproveEdited(ctx context.Context, id int64, plan contract.Plan, c contract.Command) (contract.Ack, error) {
	plan = plan.Completed()
	if err := verdict.Plan(plan); err != nil {
		return contract.Ack{}, err
	}
	if _, err := r.Store.Run(ctx, id); err != nil {
		return contract.Ack{}, err
	}
	view, err := r.State(ctx, id)
	if err != nil {
		return contract.Ack{}, r.commandFailure(ctx, id, contract.UpdateApprove, err)
	}
	if view.WaitingFor != "plan" {
		if ack, ok := r.storedAck(ctx, id, c.ID); ok {
			return ack, nil
		}
		return contract.Ack{}, refused("run %d is not waiting for plan approval; it is %s", id, view.Status)
	}
	before, err := r.Store.PlanByID(ctx, id, view.PlanID)
	if err != nil {
		return contract.Ack{}, err
	}
	plan.Edits = planning.KeptEdits(before, plan)
	if c.PlanID, err = r.Store.SavePlan(ctx, id, 0, c.By, plan); err != nil {
		return contract.Ack{}, err
	}
	return r.Steer(ctx, id, contract.UpdateApprove, c)
}

// Advance resumes a paused run until the next phase, or starts a run that never started.
func (r *Runs) Advance(ctx context.Context, id int64, c contract.Command) (contract.Ack, error) {
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return contract.Ack{}, err
	}
	if run.WorkflowID != "" {
		return r.Steer(ctx, id, contract.UpdateAdvance, c)
	}
	if err := temporal.StartRun(ctx, r.Temporal, r.Store, run); err != nil {
		return contract.Ack{}, err
	}
	return contract.Ack{Applied: true, Status: run.Status, Message: "started"}, nil
}

// SwitchModel switches the model of a run, or of one of its agents, starting with the next call.
// The model is named as provider/model.
func (r *Runs) SwitchModel(ctx context.Context, id int64, name string, temperature *float64, effort contract.Effort, c contract.Command) (contract.Ack, error) {
	choice, err := Model(r.Config, name)
	if err != nil {
		return contract.Ack{}, err
	}
	if err := CheckSampling(temperature, effort); err != nil {
		return contract.Ack{}, err
	}
	choice.Temperature, choice.Effort = temperature, effort
	if err := r.checkEffort(ctx, choice); err != nil {
		return contract.Ack{}, err
	}
	c.Model = &choice
	return r.Steer(ctx, id, contract.UpdateSwitchModel, c)
}

// Tell sends a message to the agents of a run; c has its text. Each agent gets it with its next turn.
// Secrets are removed before the message becomes part of a history.
func (r *Runs) Tell(ctx context.Context, id int64, c contract.Command) (contract.Ack, error) {
	c.Text = telemetry.Redact(c.Text)
	return r.Steer(ctx, id, contract.UpdateTell, c)
}

// Check sends the message of a check or a review to a run that watches its branch. Secrets are
// removed before the message becomes part of a history.
func (r *Runs) Check(ctx context.Context, id int64, m contract.CheckMessage) (contract.Ack, error) {
	m.ID = cmp.Or(m.ID, uuid.NewString())
	for _, text := range []*string{&m.Name, &m.URL, &m.Summary, &m.Details} {
		*text = telemetry.Redact(*text) // before truncation, because a truncated secret is not recognized
	}
	if bad := m.Problem(); bad != "" {
		return contract.Ack{}, wrong("the message %s", bad)
	}
	if _, err := r.Store.Run(ctx, id); err != nil {
		return contract.Ack{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	ack, err := r.update(ctx, id, contract.UpdateCheck, "", m.Truncate())
	if err != nil {
		return ack, r.commandFailure(ctx, id, contract.UpdateCheck, err)
	}
	return ack, nil
}
