package control

import (
	"context"
	"errors"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

// Resumption is the result of continuing a run: its workflow accepted a command, or the run is
// replayed from a phase.
type Resumption struct {
	Ack    *contract.Ack // of a run that is running
	Replay *rerun.Result // of one that was over
}

// Resume continues a paused run, or a failed or stopped run from the point where it ended.
func (r *Runs) Resume(ctx context.Context, id int64, c contract.Command) (Resumption, error) {
	return r.resume(ctx, id, contract.UpdateResume, c, contract.StatusFailed, contract.StatusCancelled)
}

// Heal responds to a run that requests help from a person. A failed run continues from the point of
// failure; it rejects a command with an action.
func (r *Runs) Heal(ctx context.Context, id int64, c contract.Command) (Resumption, error) {
	return r.resume(ctx, id, contract.UpdateHeal, c, contract.StatusFailed)
}

func (r *Runs) resume(ctx context.Context, id int64, name string, c contract.Command, over ...contract.Status) (Resumption, error) {
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return Resumption{}, err
	}
	replay := slices.Contains(over, run.Status)
	replayed := false
	if c.ID != "" { // the same command may already have been executed, and the run may have changed since
		_, err := r.Store.ReplayByKey(ctx, id, c.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return Resumption{}, err
		}
		replayed = err == nil
		if replay && !replayed {
			if ack, ok := r.storedAck(ctx, id, c.ID); ok {
				return Resumption{Ack: &ack}, nil
			}
		}
		replay = replay || replayed
	}
	if replay {
		if c.Action != "" && !replayed {
			return Resumption{}, refused("run %d has failed and is not waiting for help, so it cannot carry out the action %s; "+
				"omit the action to continue from where the run failed", id, c.Action)
		}
		result, err := r.Replay(ctx, rerun.Request{RunID: id, OnlyMissing: true, By: c.By, Reason: c.Reason, Key: c.ID})
		return Resumption{Replay: &result}, err
	}
	ack, err := r.Steer(ctx, id, name, c)
	return Resumption{Ack: &ack}, err
}

// Replay repeats a finished run from a given phase.
func (r *Runs) Replay(ctx context.Context, o rerun.Request) (rerun.Result, error) {
	return rerun.Replay(ctx, rerun.Temporal{Client: r.Temporal, Namespace: r.Config.Temporal.Namespace, Converter: temporal.Converter()}, r.Store, o)
}

// ModelOverride is another model for repeating work. What is absent stays as it was.
type ModelOverride struct {
	Model       string          `json:"model,omitempty" doc:"model, as provider/model"`
	Temperature *float64        `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"sampling temperature"`
	Effort      contract.Effort `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning"`
}

// ModelFor returns the model for repeating an agent's work in a run: the model named as
// provider/model, else the run's model, with the given temperature and effort, if any. It returns nil
// if nothing changes.
func (r *Runs) ModelFor(ctx context.Context, run store.Run, agent contract.Agent, o ModelOverride) (*contract.ModelChoice, error) {
	if o == (ModelOverride{}) {
		return nil, nil
	}
	if err := CheckSampling(o.Temperature, o.Effort); err != nil {
		return nil, err
	}
	choice := run.Settings.Models[agent]
	if o.Model != "" {
		var err error
		if choice, err = Model(r.Config, o.Model); err != nil {
			return nil, err
		}
	}
	if o.Temperature != nil {
		choice.Temperature = o.Temperature
	}
	if o.Effort == "" {
		return &choice, nil
	}
	if !setup.CallsModels(agent) {
		return nil, wrong("the %s calls no model, so it has no amount of reasoning; omit the effort", agent)
	}
	choice.Effort = o.Effort
	return &choice, r.checkEffort(ctx, choice)
}

// Fork creates and starts a new run that continues from a step of an existing run.
func (r *Runs) Fork(ctx context.Context, o rerun.ForkRequest) (Created, error) {
	digest, err := digestOf(o)
	if err != nil {
		return Created{}, err
	}
	if known, err := r.known(ctx, o.Key, digest); known != nil || err != nil {
		return describeFork(deref(known)), err
	}
	fork, err := rerun.Fork(ctx, r.Store, o)
	if err != nil {
		return Created{}, err
	}
	fork.IdempotencyKey, fork.RequestDigest = o.Key, digest
	now, err := r.current()
	if err != nil {
		return Created{}, err
	}
	if fork.Settings.Gate, err = now.gateOfFork(ctx, fork.Settings.Gate); err != nil {
		return Created{}, err
	}
	if err := now.noteGate(ctx, now.Config, fork.Settings.Gate); err != nil {
		return Created{}, err
	}
	var out Created
	if out.Run, out.Fresh, err = r.Store.CreateRun(ctx, fork); err != nil {
		return Created{}, err
	}
	r.start(ctx, &out)
	return describeFork(out), nil
}

// describeFork adds a note about the point from which a fork continues.
func describeFork(c Created) Created {
	if c.Run.Settings.Fork != nil {
		c.Notes = append(c.Notes, rerun.Describe(*c.Run.Settings.Fork))
	}
	return c
}
