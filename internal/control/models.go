package control

import (
	"context"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/model/modelsource"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
)

// Models is the configuration of models.
type Models struct {
	Providers []ModelProvider                         `json:"providers"`
	Agents    map[contract.Agent]contract.ModelChoice `json:"agents" doc:"each agent's model; alpha, beta and gamma are the pipeline agents"` // without agents that have no model
	Settings  map[contract.Agent]string               `json:"settings" doc:"what determines each agent's model: a setting such as models.phases.planner, or a choice on the settings page"`
	Prices    map[contract.Agent]ModelPrice           `json:"prices" doc:"prices of each agent's model"`
	Catalogue model.Catalogue                         `json:"catalogue"`
	Missing   string                                  `json:"missing,omitempty" doc:"why the catalogue lacks what the installation has stored"`
	Unset     string                                  `json:"unset,omitempty" doc:"why some agents have no model"`
	Problems  []string                                `json:"problems,omitempty" doc:"models that people chose, but new runs cannot use; new runs fail until they are changed"`
}

// ModelPrice is the price of a model, in US dollars per million tokens.
type ModelPrice struct {
	In        float64 `json:"in"`
	Out       float64 `json:"out"`
	Estimated bool    `json:"estimated,omitempty" doc:"the price is unknown; these are the highest known ones of the provider's kind"`
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
		Providers: []ModelProvider{}, Agents: map[contract.Agent]contract.ModelChoice{}, Settings: map[contract.Agent]string{}, Prices: map[contract.Agent]ModelPrice{},
	}
	var missing error
	if out.Catalogue, missing = r.Catalogue(ctx); missing != nil {
		out.Catalogue, out.Missing = setup.Catalogue(r.Config), fault.Of(missing).Message
	}
	providers := setup.Providers(r.Config)
	for _, p := range providers {
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
	for agent, choice := range out.Agents {
		if i := slices.IndexFunc(providers, func(p model.Provider) bool { return p.Name == choice.Provider }); i >= 0 {
			e, known := out.Catalogue.Find(providers[i], choice.Model)
			out.Prices[agent] = ModelPrice{In: e.PriceIn, Out: e.PriceOut, Estimated: !known}
		}
	}
	return out
}

// Catalogue returns the known properties of models, including what the installation has stored, if
// its database is open.
func (r *Runs) Catalogue(ctx context.Context) (model.Catalogue, error) {
	if r.Store == nil {
		return setup.Catalogue(r.Config), nil
	}
	learned, err := catalogue.New(r.Store).Read(ctx)
	return setup.LearnedCatalogue(r.Config, learned), err
}

// UpdateCatalogue compares a source with the catalogue and, if apply is set, stores what is new or
// differs, for all processes of the installation. Configured entries stay in force.
func (r *Runs) UpdateCatalogue(ctx context.Context, source model.Catalogue, apply bool, by string) ([]modelsource.Change, error) {
	stored := catalogue.New(r.Store)
	learned, err := stored.Read(ctx)
	if err != nil {
		return nil, err
	}
	changes, entries := modelsource.Changes(model.DefaultCatalogue().Learn(learned), source, time.Now().UTC().Format(time.DateOnly))
	if !apply || len(entries) == 0 {
		return changes, nil
	}
	return changes, stored.Update(ctx, entries, by)
}

// ResetCatalogue removes what the installation has stored about models, and returns the number of
// entries.
func (r *Runs) ResetCatalogue(ctx context.Context) (int64, error) {
	return catalogue.New(r.Store).Reset(ctx)
}
