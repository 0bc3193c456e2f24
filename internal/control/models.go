package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/model/modelsource"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
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
	States    map[contract.Agent]string               `json:"states,omitempty" doc:"whether the provider has each agent's model: \"ok\", or why not; present only if the providers were checked"`

	Budgets  []views.BudgetState `json:"budgets" doc:"budgets with a limit that all runs share: of the day, and of the projects and tenants that were charged today or this month"`
	Breakers []ModelBreaker      `json:"breakers" doc:"circuit breakers with a failure since the last success; all others are closed"`
	Unknown  string              `json:"unknown,omitempty" doc:"why breakers and queues are not known"`
}

// ModelBreaker is the circuit breaker of a model, or of a provider as a whole.
type ModelBreaker struct {
	Provider string          `json:"provider"`
	Model    string          `json:"model,omitempty" doc:"empty: the provider as a whole"`
	State    providers.State `json:"state" doc:"closed, open or half_open"`
	Failures int             `json:"failures" doc:"in a row"`
	RetryIn  float64         `json:"retry_in_seconds" doc:"until one call tries whether it is back"`
	Reason   string          `json:"reason" doc:"the last failure"`
	OpenedAt *time.Time      `json:"opened_at,omitempty"`
}

// ProviderLimits are the limits of all workers together; 0 means none.
type ProviderLimits struct {
	RequestsPerMinute int64 `json:"requests_per_minute"`
	TokensPerMinute   int64 `json:"tokens_per_minute"`
	MaxConcurrent     int64 `json:"max_concurrent_total"`
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

	Limits ProviderLimits   `json:"limits"`
	Queue  *providers.Queue `json:"queue,omitempty" doc:"its calls now; absent if there are none"`
}

// Models returns the configuration of models. With check, it verifies that each provider responds,
// accepts its key, and has the models of the agents; this uses no tokens.
func (r *Runs) Models(ctx context.Context, check bool) Models {
	out := Models{
		Providers: []ModelProvider{}, Agents: map[contract.Agent]contract.ModelChoice{}, Settings: map[contract.Agent]string{}, Prices: map[contract.Agent]ModelPrice{},
		Budgets: []views.BudgetState{}, Breakers: []ModelBreaker{}, Unknown: "no database is connected",
	}
	var missing error
	if out.Catalogue, missing = r.Catalogue(ctx); missing != nil {
		out.Catalogue, out.Missing = setup.Catalogue(r.Config), fault.Of(missing).Message
	}
	all := setup.Providers(r.Config)
	for _, p := range all {
		row := ModelProvider{Name: p.Name, Kind: string(p.Kind), Address: p.Address(), Key: p.KeySource()}
		own := r.Config.Models.Providers[p.Name]
		row.Limits = ProviderLimits{RequestsPerMinute: own.RequestsPerMinute, TokensPerMinute: own.TokensPerMinute, MaxConcurrent: int64(own.MaxConcurrentTotal)}
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
	models, unset := r.agentModels(ctx, chosen)
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
	if check {
		out.checkChosen(ctx, all)
	}
	for agent, choice := range out.Agents {
		if i := slices.IndexFunc(all, func(p model.Provider) bool { return p.Name == choice.Provider }); i >= 0 {
			e, known := out.Catalogue.Find(all[i], choice.Model)
			out.Prices[agent] = ModelPrice{In: e.PriceIn, Out: e.PriceOut, Estimated: !known}
		}
	}
	if r.Views != nil {
		out.Unknown = ""
		if err := r.addProviderState(ctx, &out); err != nil {
			out.Unknown = fault.Of(err).Message
		}
		var err error
		if out.Budgets, err = r.currentBudgets(ctx); err != nil {
			out.Problems = append(out.Problems, "What the budgets have left is unknown: "+fault.Of(err).Message)
		}
	}
	return out
}

// checkChosen checks whether the providers have the models of the agents.
func (m *Models) checkChosen(ctx context.Context, all []model.Provider) {
	m.States = map[contract.Agent]string{}
	states := map[[2]string]string{}
	for agent, choice := range m.Agents {
		key := [2]string{choice.Provider, choice.Model}
		if _, done := states[key]; !done {
			states[key] = m.stateOf(ctx, all, choice)
		}
		m.States[agent] = states[key]
	}
}

// stateOf returns whether a model can be called, as far as its provider says.
func (m *Models) stateOf(ctx context.Context, all []model.Provider, choice contract.ModelChoice) string {
	i := slices.IndexFunc(all, func(p model.Provider) bool { return p.Name == choice.Provider })
	if i < 0 {
		return "the provider " + choice.Provider + " is not configured under models.providers"
	}
	if state := m.Providers[i].State; state != "ok" {
		return state
	}
	if err := modelclient.ProbeModel(ctx, all[i], choice.Model); err != nil {
		return fault.Of(err).Message
	}
	return "ok"
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
	today := time.Now().UTC().Format(time.DateOnly)
	return r.updateCatalogue(ctx, apply, by, func(known model.Catalogue) ([]modelsource.Change, model.Catalogue) {
		return modelsource.Changes(known, source, today)
	})
}

// UpdateScores compares results of a benchmark with the catalogue and, if apply is set, stores the
// scores that are new or differ, as UpdateCatalogue does. From then on, the installation does not use
// the scores that makers published.
func (r *Runs) UpdateScores(ctx context.Context, results []modelsource.Result, apply bool, by string) ([]modelsource.Change, error) {
	return r.updateCatalogue(ctx, apply, by, func(known model.Catalogue) ([]modelsource.Change, model.Catalogue) {
		return modelsource.ScoreChanges(known, results)
	})
}

func (r *Runs) updateCatalogue(ctx context.Context, apply bool, by string, compare func(model.Catalogue) ([]modelsource.Change, model.Catalogue)) ([]modelsource.Change, error) {
	stored := catalogue.New(r.Store)
	learned, err := stored.Read(ctx)
	if err != nil {
		return nil, err
	}
	changes, entries := compare(model.DefaultCatalogue().Learn(learned))
	if !apply || len(entries) == 0 {
		return changes, nil
	}
	return changes, stored.Update(ctx, entries, by)
}

// ResetCatalogue removes what the installation has stored about models, and returns the number of
// entries. by is who removes it.
func (r *Runs) ResetCatalogue(ctx context.Context, by string) (int64, error) {
	return catalogue.New(r.Store).Reset(ctx, by)
}

// maxBudgets is the number of budgets that are looked up for the state of the installation.
const maxBudgets = 1000

// currentBudgets returns the budgets with a limit that all runs share.
func (r *Runs) currentBudgets(ctx context.Context) ([]views.BudgetState, error) {
	now := time.Now()
	charged, err := r.Store.CurrentBudgets(ctx, now, maxBudgets)
	if err != nil {
		return []views.BudgetState{}, err
	}
	return r.Views.Budgets(ctx, setup.CurrentScopes(r.Config.Models.Budgets, charged, now))
}

// addProviderState adds what all workers know about the providers.
func (r *Runs) addProviderState(ctx context.Context, out *Models) error {
	breakers, err := r.Views.Breakers(ctx)
	if err != nil {
		return err
	}
	for _, b := range breakers {
		out.Breakers = append(out.Breakers, ModelBreaker{
			Provider: b.Provider, Model: b.Model, State: b.State, Failures: b.Failures, RetryIn: b.RetryIn.Seconds(), Reason: b.Reason, OpenedAt: b.OpenedAt,
		})
	}
	queues, err := r.Views.ProviderQueues(ctx)
	for i, q := range queues {
		for p := range out.Providers {
			if out.Providers[p].Name == q.Provider {
				out.Providers[p].Queue = &queues[i]
			}
		}
	}
	return err
}

// Breaker describes the breakers of a provider and its models in a few words.
func (m Models) Breaker(provider string) string {
	if m.Unknown != "" {
		return "unknown"
	}
	var out []string
	for _, b := range m.Breakers {
		if b.Provider != provider || b.State == providers.Closed {
			continue
		}
		text := string(b.State)
		if b.Model != "" {
			text = b.Model + " " + text
		}
		if b.RetryIn > 0 {
			text += fmt.Sprintf(", next call in %.0fs", b.RetryIn)
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return string(providers.Closed)
	}
	return strings.Join(out, "; ")
}

// String describes the limits in a few words.
func (l ProviderLimits) String() string {
	var out []string
	for _, part := range []struct {
		n    int64
		what string
	}{{l.RequestsPerMinute, "requests/min"}, {l.TokensPerMinute, "tokens/min"}, {l.MaxConcurrent, "at a time"}} {
		if part.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}
