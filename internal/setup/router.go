package setup

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/route"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/outcomes"
)

// Router returns the router of a worker's model calls.
func Router(st *store.Store, models *modelclient.Client, gate *admission.Gate) *route.Router {
	return &route.Router{
		Settings: func(ctx context.Context, runID int64) (contract.Settings, error) {
			return outcomes.Settings(ctx, st, runID)
		},
		Entry: models.Entry,
		Out:   gate.Out,
		Outcomes: func(ctx context.Context, runID int64, agent contract.Agent) (map[contract.ModelChoice]route.Outcomes, error) {
			return outcomes.Of(ctx, st, runID, agent)
		},
	}
}
