package views

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// ModelUsage is one agent's usage of one model.
type ModelUsage struct {
	Agent    contract.Agent `json:"agent"`
	Provider string         `json:"provider"`
	Model    string         `json:"model"`
	contract.Usage
}

// ModelUsage returns each agent's usage of each model in a run.
func (v *Views) ModelUsage(ctx context.Context, runID int64) ([]ModelUsage, error) {
	usage, err := v.q.UsageByModel(ctx, runID)
	return rowconv.Convert(usage, func(u db.UsageByModelRow) ModelUsage {
		return ModelUsage{Agent: contract.Agent(u.Agent), Provider: u.Provider, Model: u.Model, Usage: contract.Usage{
			Calls: int(u.Calls), FromCache: int(u.FromCache), PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, MicroUSD: u.CostMicros,
			CachedTokens: u.CachedTokens, CacheWriteTokens: u.CacheWriteTokens, ReasoningTokens: u.ReasoningTokens, EstimatedPrice: u.PriceEstimated,
		}}
	}), dberr.Explain(err, "read the model usage of run %d", runID)
}

// ModelActivity is the use of a model in a period.
type ModelActivity struct {
	Provider, Model         string
	Calls, Failed, UnderWay int
	Usage                   contract.Usage
	Latency                 time.Duration // median of the calls that got a response
	LastAt                  time.Time
	LastStatus              string // reserved, done or failed
	LastError               string // class and code of the last call that failed
}

// ModelActivity returns the use of each model since a time.
func (v *Views) ModelActivity(ctx context.Context, since time.Time) ([]ModelActivity, error) {
	rows, err := v.q.ModelActivity(ctx, since)
	return rowconv.Convert(rows, func(r db.ModelActivityRow) ModelActivity {
		return ModelActivity{
			Provider: r.Provider, Model: r.Model, Calls: int(r.Calls), Failed: int(r.Failed), UnderWay: int(r.UnderWay),
			Usage: contract.Usage{
				Calls: int(r.Calls), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.Micros, CachedTokens: r.CachedTokens, EstimatedPrice: r.PriceEstimated,
			},
			Latency: time.Duration(r.LatencyMs) * time.Millisecond, LastAt: r.LastAt, LastStatus: r.LastStatus, LastError: r.LastError,
		}
	}), dberr.Explain(err, "read the model requests")
}

// Spending is one execution's usage of one model.
type Spending struct {
	ExecutionID int64
	Provider    string
	Model       string
	Open        int // calls in flight
	contract.Usage
}

// Spending returns a run's usage, by execution and model.
func (v *Views) Spending(ctx context.Context, runID int64) ([]Spending, error) {
	rows, err := v.q.CallSums(ctx, runID)
	return rowconv.Convert(rows, func(r db.CallSumsRow) Spending {
		return Spending{ExecutionID: r.ExecutionID, Provider: r.Provider, Model: r.Model, Open: int(r.Open), Usage: contract.Usage{
			Calls: int(r.Calls), FromCache: int(r.FromCache), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros,
			CachedTokens: r.CachedTokens, CacheWriteTokens: r.CacheWriteTokens, ReasoningTokens: r.ReasoningTokens, EstimatedPrice: r.PriceEstimated,
		}}
	}), dberr.Explain(err, "total the usage of run %d", runID)
}

// SpentBy divides a period into equal parts and returns a run's cumulative spending, in money and
// tokens, at the end of each part.
func (v *Views) SpentBy(ctx context.Context, runID int64, from, to time.Time, parts int) (micros, tokens []int64, err error) {
	rows, err := v.q.CostOverTime(ctx, db.CostOverTimeParams{RunID: runID, WindowBegin: from, WindowEnd: to, Parts: int32(parts)})
	micros, tokens = make([]int64, parts), make([]int64, parts)
	for _, r := range rows {
		part := min(max(int(r.Part), 1), parts) - 1
		micros[part] += r.CostMicros
		tokens[part] += r.Tokens
	}
	for i := 1; i < parts; i++ {
		micros[i] += micros[i-1]
		tokens[i] += tokens[i-1]
	}
	return micros, tokens, dberr.Explain(err, "total the spending of run %d over time", runID)
}

// DearestCalls returns the most expensive model calls of a run, at most the given number.
func (v *Views) DearestCalls(ctx context.Context, runID int64, most int) ([]store.ModelCall, error) {
	rows, err := v.q.DearestCalls(ctx, db.DearestCallsParams{RunID: runID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.DearestCallsRow) store.ModelCall {
		return store.ModelCall{
			ID: r.ID, RunID: runID, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent),
			Provider: r.Provider, Model: r.Model, Usage: contract.Usage{Calls: 1, PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, CachedTokens: r.CachedTokens, MicroUSD: r.CostMicros, EstimatedPrice: r.PriceEstimated},
			StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		}
	}), dberr.Explain(err, "read the most expensive model calls of run %d", runID)
}
