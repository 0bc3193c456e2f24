package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Execution is one attempt of a phase or, with a step, of a step.
type Execution struct {
	contract.ExecutionRef
	Status     contract.ExecutionStatus `json:"status"`
	Failure    *contract.Failure        `json:"failure,omitempty"`
	Provider   string                   `json:"provider,omitempty"`
	Model      string                   `json:"model,omitempty"`
	Turns      int                      `json:"turns"`
	Usage      contract.Usage           `json:"usage"` // set when it has ended
	Output     json.RawMessage          `json:"output,omitempty"`
	StartedAt  time.Time                `json:"started_at"`
	FinishedAt *time.Time               `json:"finished_at"`
}

// Executions returns the executions of a run in the order in which they began.
func (s *Store) Executions(ctx context.Context, runID int64) ([]Execution, error) {
	rows, err := s.q.Executions(ctx, runID)
	return rowconv.Convert(rows, executionOf), dberr.Explain(err, "read the executions of run %d", runID)
}

// Execution returns an execution of a run, or ErrNotFound.
func (s *Store) Execution(ctx context.Context, runID, id int64) (Execution, error) {
	r, err := s.q.ExecutionOfRun(ctx, db.ExecutionOfRunParams{ID: id, RunID: runID})
	return executionOf(r), dberr.Explain(err, "read execution %d of run %d", id, runID)
}

func executionOf(r db.Execution) Execution {
	return Execution{
		ExecutionRef: contract.ExecutionRef{
			ID: r.ID, RunID: r.RunID, Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent), Attempt: int(r.Attempt),
		},
		Status: contract.ExecutionStatus(r.Status), Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, r.ErrorCause),
		Provider: r.Provider, Model: r.Model, Turns: int(r.Turns),
		Usage: contract.Usage{
			Calls: int(r.Turns), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros, EstimatedPrice: r.PriceEstimated,
		},
		Output: r.Output, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
}
