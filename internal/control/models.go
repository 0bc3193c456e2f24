package control

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
)

// Models is the configuration of models.
type Models struct {
	Providers []ModelProvider                         `json:"providers"`
	Agents    map[contract.Agent]contract.ModelChoice `json:"agents" doc:"each agent's model; alpha, beta and gamma are the pipeline agents"` // without agents that have no model
	Settings  map[contract.Agent]string               `json:"settings" doc:"what determines each agent's model: a setting such as models.phases.planner, or a choice on the settings page"`
	Catalogue model.Catalogue                         `json:"catalogue"`
	Unset     string                                  `json:"unset,omitempty" doc:"why some agents have no model"`
	Problems  []string                                `json:"problems,omitempty" doc:"models that people chose, but new runs cannot use; new runs fail until they are changed"`
}

// ModelProvider is one provider of models.
type ModelProvider struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Address string `json:"address"`
	Key     string `json:"key" doc:"source of the key; never the key itself"`
	State   string `json:"state,omitempty" doc:"\"ok\", or why the provider is not responding; present only if the provider was checked"`
}

// Models returns the configuration of models. With check, it verifies that each provider responds
// and accepts its key; this uses no tokens.
func (r *Runs) Models(ctx context.Context, check bool) Models {
	out := Models{
		Providers: []ModelProvider{}, Agents: map[contract.Agent]contract.ModelChoice{}, Settings: map[contract.Agent]string{}, Catalogue: setup.Catalogue(r.Config),
	}
	for _, p := range setup.Providers(r.Config) {
		row := ModelProvider{Name: p.Name, Kind: string(p.Kind), Address: p.Address(), Key: p.KeySource()}
		if check {
			row.State = "ok"
			if err := modelclient.Probe(ctx, p); err != nil {
				row.State = fault.Of(err).Message
			}
		}
		out.Providers = append(out.Providers, row)
	}
	var chosen []modelchoices.Choice
	if r.Store != nil {
		var err error
		if chosen, err = r.choices().List(ctx); err != nil {
			out.Problems = append(out.Problems, "The models that people chose are unknown, so only the configuration is shown: "+fault.Of(err).Message)
		}
	}
	models, unset := r.agentModels(chosen)
	for _, m := range models {
		if m.Model != nil {
			out.Agents[m.Agent], out.Settings[m.Agent] = *m.Model, m.Source
		}
		if m.Problem != "" {
			out.Problems = append(out.Problems, m.Problem)
		}
	}
	if unset != nil {
		out.Unset = fault.Of(unset).Message
	}
	return out
}
