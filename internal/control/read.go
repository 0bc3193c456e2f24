package control

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/runs/timing"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Conversation contains the messages and tool calls of one execution.
type Conversation struct {
	ExecutionID int64                   `json:"execution_id"`
	Phase       contract.Phase          `json:"phase"`
	Step        string                  `json:"step,omitempty"`
	Attempt     int                     `json:"attempt"`
	Agent       contract.Agent          `json:"agent"`
	Entries     []store.TranscriptEntry `json:"entries"`
}

// Conversations returns the conversations of a run's agents, in the order in which executions
// started, filtered by phase and step if these are set. Secrets are redacted, because tools return
// files and output to agents unchanged.
func (r *Runs) Conversations(ctx context.Context, id int64, phase contract.Phase, step string) ([]Conversation, error) {
	if _, err := r.Store.Run(ctx, id); err != nil {
		return nil, err
	}
	executions, err := r.Store.Executions(ctx, id)
	if err != nil {
		return nil, err
	}
	out := []Conversation{}
	for _, e := range executions {
		if phase != "" && e.Phase != phase || step != "" && e.Step != step {
			continue
		}
		entries, err := r.Store.Transcript(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			entries[i].Content = telemetry.RedactJSON(entries[i].Content)
		}
		if len(entries) > 0 {
			out = append(out, Conversation{e.ID, e.Phase, e.Step, e.Attempt, e.Agent, entries})
		}
	}
	return out, nil
}

// Diff compares two runs, or attempts of one run, and returns the differences of the right side.
func (r *Runs) Diff(ctx context.Context, left, right diff.Ref) (diff.Diff, error) {
	var sides [2]diff.Side
	for i, ref := range []diff.Ref{left, right} {
		side, err := diff.Load(ctx, r.Store, r.Views, r.Artifacts, ref)
		if err != nil {
			return diff.Diff{}, err
		}
		sides[i] = side
	}
	return diff.Compare(sides[0], sides[1]), nil
}

// File opens a file of a run. The caller closes it.
func (r *Runs) File(ctx context.Context, f contract.Artifact) (io.ReadCloser, error) {
	if why := f.Missing(); why != "" {
		return nil, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "cannot read %s of run %d: it was %s", f.Name, f.RunID, why)
	}
	return r.Artifacts.Reader(ctx, f.Digest)
}

// Timing is how a run spent its time.
type Timing struct {
	timing.Timing
	// Note describes missing data for people; Unknown is the reason.
	Note    string `json:"note,omitempty"`
	Unknown error  `json:"-"`
}

// historyTime is the maximum wait for Temporal. A run's timing is useful without the history.
const historyTime = 10 * time.Second

// Timing returns how a run spent its time. Only the run's history contains the time for git and for
// waiting in queues. If Temporal does not respond or has deleted the history, both count as
// orchestration, and a note is added.
func (r *Runs) Timing(ctx context.Context, id int64) (Timing, error) {
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return Timing{}, err
	}
	rows, err := r.Views.Timing(ctx, id)
	if err != nil {
		return Timing{}, err
	}
	plan, err := r.Store.Plan(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Timing{}, err
	}
	history, unknown := r.history(ctx, id, plan)
	out := Timing{Timing: timing.Of(run, plan, rows, history.Git, history.Queue), Unknown: unknown}
	if unknown != nil {
		out.Note = "git and queue time is counted as orchestration because the run history could not be read"
	}
	return out, nil
}

func (r *Runs) history(ctx context.Context, id int64, plan contract.Plan) (timing.History, error) {
	none := timing.History{Git: timing.Group{Name: timing.Git}, Queue: timing.Group{Name: timing.Queue}}
	if r.Temporal == nil {
		return none, fault.New(contract.ClassInfra, contract.CodeUnavailable, "not connected to Temporal")
	}
	ctx, cancel := context.WithTimeout(ctx, historyTime)
	defer cancel()
	h, err := timing.ReadHistory(ctx, r.Temporal, id, plan)
	if err != nil {
		return none, err
	}
	return h, nil
}
