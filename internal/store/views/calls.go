package views

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// ModelCall is a model call with the reasons for its model.
type ModelCall struct {
	store.ModelCall
	Attempt int `json:"attempt" doc:"of the phase or step"`
	// Route is nil for calls that were made before decisions were recorded.
	Route *contract.RouteDecision `json:"route,omitempty" doc:"why this model made the call"`
}

// ModelCalls returns the model calls of a run after an id, in the order in which they were first
// reserved, at most the given number.
func (v *Views) ModelCalls(ctx context.Context, runID, after int64, most int) ([]ModelCall, error) {
	rows, err := v.q.CallsOfRun(ctx, db.CallsOfRunParams{RunID: runID, After: after, Most: int32(most)})
	if err != nil {
		return nil, dberr.Explain(err, "read the model calls of run %d", runID)
	}
	calls, err := rowconv.ConvertAll(rows, func(r db.CallsOfRunRow) (ModelCall, error) {
		route, err := rowconv.Decode[*contract.RouteDecision](r.Route)
		return ModelCall{ModelCall: callOf(runID, r), Attempt: int(r.Attempt), Route: route}, err
	})
	return calls, dberr.Explain(err, "read why the calls of run %d used their models", runID)
}

func callOf(runID int64, r db.CallsOfRunRow) store.ModelCall {
	call := store.ModelCall{
		ID: r.ID, RunID: runID, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent),
		Provider: r.Provider, Model: r.Model, PromptVersion: r.PromptVersion, Status: r.Status, Tries: int(r.Tries),
		ReservedTokens: r.ReservedTokens, ReservedMicros: r.ReservedMicros, LatencyMS: r.LatencyMs,
		Usage: contract.Usage{
			PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros, CachedTokens: r.CachedTokens,
			CacheWriteTokens: r.CacheWriteTokens, ReasoningTokens: r.ReasoningTokens, EstimatedPrice: r.PriceEstimated,
		},
		Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, ""), StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
	if r.Status == rowconv.CallDone {
		call.Usage.Calls = 1
	}
	return call
}
