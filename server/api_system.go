package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

// mostInterventions is how many open questions are listed, the oldest first.
const mostInterventions = 200

func (s *server) systemOperations(api huma.API) {
	get := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "system", summary)
	}
	handle(s, api, get("/api/agents", "list-agents", "The workers' agents: how they are, what they work on, and the queues that they serve"), func(ctx context.Context, _ *struct{}) (*body[health.Report], error) {
		return answered(s.Health.Report(ctx))
	})
	handle(s, api, get("/api/interventions", "list-interventions", "What waits for a person, over all runs"), func(ctx context.Context, _ *struct{}) (*body[interventions], error) {
		list, err := s.Store.OpenInterventions(ctx, mostInterventions)
		return answered(interventions{notNil(list)}, err)
	})
	handle(s, api, get("/api/models", "list-models", "Providers, what is known of models, and which agent uses which"), func(context.Context, *struct{}) (*body[models], error) {
		return answered(modelsOf(s.Runs.Config), nil)
	})
}

type models struct {
	Providers []provider                              `json:"providers"`
	Agents    map[contract.Agent]contract.ModelChoice `json:"agents"`
	Catalogue []known                                 `json:"catalogue"`
}

type provider struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Key  string `json:"key" doc:"where the key comes from; never the key"`
}

// known is what the catalogue says of a model. Prices are dollars for a million
// tokens.
type known struct {
	Provider      string  `json:"provider"`
	Model         string  `json:"model"`
	ContextWindow int64   `json:"context_window"`
	MaxOutput     int64   `json:"max_output"`
	PriceIn       float64 `json:"price_in"`
	PriceOut      float64 `json:"price_out"`
}

// modelsOf reads what the configuration says of models. An agent without a model
// is left out.
func modelsOf(cfg *config.Config) models {
	out := models{Providers: []provider{}, Catalogue: []known{}}
	for _, p := range setup.Providers(cfg) {
		out.Providers = append(out.Providers, provider{Name: p.Name, Kind: string(p.Kind), Key: p.KeySource()})
	}
	out.Agents, _ = setup.Models(cfg)
	for _, e := range setup.Catalogue(cfg) {
		out.Catalogue = append(out.Catalogue, known{e.Provider, e.Model, e.ContextWindow, e.MaxOutput, e.PriceIn, e.PriceOut})
	}
	return out
}
