package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// stateTimeout limits the time of a query for a run's state.
const stateTimeout = 2 * time.Second

// shownChanges is the number of changes of models on their page.
const shownChanges = 20

// today returns the start of the current budget day, in UTC.
func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

func (s *Server) modelsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	ctx := r.Context()
	shell.Section, shell.Title, shell.Live = "models", "Models", "/api/stream"
	p := ui.ModelsPage{Shell: shell, Limit: s.Runs.Config.Models.Budgets.DayCostUSD.Int64()}
	catalogue, err := s.Runs.Catalogue(ctx)
	if err != nil {
		return nil, err
	}
	agents, err := s.Runs.AgentModels(ctx)
	if err != nil {
		return nil, err
	}
	known, err := s.knownModels(ctx, catalogue, agents)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		p.Known = append(p.Known, *k)
		if k.Today != nil {
			p.Spent += k.Today.Usage.MicroUSD
		}
	}
	slices.SortFunc(p.Known, func(a, b ui.KnownModel) int {
		return cmp.Or(cmp.Compare(calls(b), calls(a)), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	if _, _, missing := setup.EveryModel(s.Runs.Config); missing != nil && slices.ContainsFunc(agents, func(m control.AgentModel) bool { return m.Model == nil }) {
		p.Missing = fault.Of(missing).Message
	}
	for _, m := range agents {
		row := ui.AgentModel{AgentModel: m, Groups: modelGroups(s.Runs.Config, catalogue, m.Agent)}
		if m.Model != nil {
			row.Known = known[m.Model.Provider+"/"+m.Model.Model]
		}
		p.Agents = append(p.Agents, row)
	}
	if p.Changes, err = s.Runs.ModelChanges(ctx, "", shownChanges); err != nil {
		return nil, err
	}
	state := s.Runs.Models(ctx, false)
	for _, v := range state.Providers {
		row := providerRow(v.Name, v.Kind, v.Key, p.Known)
		if row.Breaker = state.Breaker(v.Name); row.Breaker == string(providers.Closed) {
			row.Breaker = ""
		} else if state.Unknown == "" {
			row.State, row.Word = ui.Failed, "Out"
		}
		if row.Limits = v.Limits.String(); v.Queue != nil && v.Queue.Waiting > 0 {
			row.Limits += fmt.Sprintf(" · %d waiting", v.Queue.Waiting)
		}
		p.Providers = append(p.Providers, row)
	}
	return ui.Models(p), nil
}

// modelGroups returns the models of the catalogue that an agent can use, by configured provider.
func modelGroups(cfg *config.Config, catalogue model.Catalogue, agent contract.Agent) (out []ui.ModelGroup) {
	for _, p := range setup.Providers(cfg) {
		group := ui.ModelGroup{Provider: p.Name}
		for _, e := range catalogue {
			if e.Model == "*" || e.Provider != p.Name && e.Provider != string(p.Kind) || !control.CanServe(e, agent) {
				continue
			}
			e, _ = catalogue.Find(p, e.Model)
			option := ui.ModelOption{
				Name: p.Name + "/" + e.Model, FixedTemperature: e.Can(model.CapabilityFixedTemperature), Effort: e.Can(model.CapabilityEffort),
				Text: fmt.Sprintf("%s: %s tokens, $ %s", e.Model, ui.Count(e.ContextWindow), ui.Price(*knownModel(e))),
			}
			if !slices.ContainsFunc(group.Models, func(m ui.ModelOption) bool { return m.Name == option.Name }) {
				group.Models = append(group.Models, option)
			}
		}
		if len(group.Models) > 0 {
			out = append(out, group)
		}
	}
	return out
}

func calls(m ui.KnownModel) int {
	if m.Today == nil {
		return 0
	}
	return m.Today.Calls
}

// knownModels returns the models of the catalogue, those of agents and those called today, keyed by
// provider/model.
func (s *Server) knownModels(ctx context.Context, catalogue model.Catalogue, agents []control.AgentModel) (map[string]*ui.KnownModel, error) {
	known := map[string]*ui.KnownModel{}
	add := func(e model.CatalogueEntry) { known[e.Provider+"/"+e.Model] = knownModel(e) }
	for _, e := range catalogue {
		add(e)
	}
	providers := setup.Providers(s.Runs.Config)
	look := func(provider, name string) {
		if known[provider+"/"+name] != nil {
			return
		}
		p := model.Provider{Name: provider}
		if i := slices.IndexFunc(providers, func(p model.Provider) bool { return p.Name == provider }); i >= 0 {
			p = providers[i]
		}
		e, _ := catalogue.Find(p, name)
		add(e)
	}
	for _, a := range agents {
		if a.Model != nil {
			look(a.Model.Provider, a.Model.Model)
		}
	}
	activity, err := s.Views.ModelActivity(ctx, today())
	for i, a := range activity {
		look(a.Provider, a.Model)
		known[a.Provider+"/"+a.Model].Today = &activity[i]
	}
	return known, err
}

// knownModel returns an entry of the catalogue as the page shows it.
func knownModel(e model.CatalogueEntry) *ui.KnownModel {
	return &ui.KnownModel{
		Provider: e.Provider, Model: e.Model, Context: e.ContextWindow, MaxOutput: e.MaxOutput, PriceIn: e.PriceIn, PriceOut: e.PriceOut,
		Assumed: e.Assumed, Source: strings.TrimSpace(e.Source + " " + e.SourceDate), Deprecated: e.Deprecated,
	}
}

// providerRow returns the state of a provider according to its last call today.
func providerRow(name, kind, key string, known []ui.KnownModel) ui.ProviderRow {
	row := ui.ProviderRow{Name: name, Kind: kind, Key: key, State: ui.Queued, Word: "Not used today"}
	var last *views.ModelActivity
	for _, k := range known {
		if k.Provider == name && k.Today != nil && (last == nil || k.Today.LastAt.After(last.LastAt)) {
			last = k.Today
		}
	}
	switch {
	case last == nil:
	case last.LastStatus == "failed":
		row.State, row.Word = ui.Failed, "Last call failed"
	default:
		row.State, row.Word = ui.Done, "Responding"
	}
	return row
}

// modelsTab shows the model of each agent of a run, and lets the user switch it.
func (s *Server) modelsTab(ctx context.Context, _ *http.Request, h *ui.RunHead) (templ.Component, error) {
	m := ui.RunModels{Head: *h, Live: !h.Run.Status.Terminal()}
	usage, err := s.Views.ModelUsage(ctx, h.Run.ID)
	if err != nil {
		return nil, err
	}
	var now map[contract.Agent]contract.ModelChoice
	if m.Live {
		ctx, cancel := context.WithTimeout(ctx, stateTimeout)
		defer cancel()
		if view, err := s.Runs.State(ctx, h.Run.ID); err == nil {
			now = view.Models
		} else {
			m.Live, m.Reason = false, "The run's workflow is not responding, so this page shows the models that the run started with. Nothing is lost; try again shortly."
			if errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
	} else {
		m.Reason = "The run has ended. A replay or a fork may use another model."
	}
	spec, err := setup.ReadRunSpec(h.Run)
	if err != nil {
		return nil, err
	}
	for _, agent := range contract.Agents() {
		at, ok := h.Run.Settings.Models[agent]
		if !ok || !setup.CallsModels(agent) {
			continue
		}
		row := modelOf(agent, at, now, usage)
		row.Source = spec.ModelSources[agent]
		m.Agents = append(m.Agents, row)
	}
	m.Members = membersOf(h.Run, now, usage)
	for i := range m.Members {
		m.Members[i].Source = spec.ModelSources[m.Members[i].Agent]
	}
	catalogue, err := s.Runs.Catalogue(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range catalogue {
		if slices.Contains(h.Run.Settings.Providers, e.Provider) {
			m.Known = append(m.Known, e.Provider+"/"+e.Model)
		}
	}
	return ui.RunModelsTab(m), nil
}

// modelOf returns the model that an agent of a run uses now, if known, and the models that it used.
// For a finished run in which the agent used a single model, it returns that one.
func modelOf(agent contract.Agent, at contract.ModelChoice, now map[contract.Agent]contract.ModelChoice, usage []views.ModelUsage) ui.RunModel {
	row := ui.RunModel{Agent: agent, At: at, Now: cmp.Or(now[agent], at)}
	var asked []contract.ModelChoice
	for _, u := range usage {
		if u.Agent == agent {
			row.Usage = row.Usage.Add(u.Usage)
			asked = append(asked, contract.ModelChoice{Provider: u.Provider, Model: u.Model})
		}
	}
	if _, known := now[agent]; !known && len(asked) == 1 {
		row.Now = asked[0]
	}
	for _, a := range asked {
		if a.Provider != row.Now.Provider || a.Model != row.Now.Model {
			row.Also = append(row.Also, a.Provider+"/"+a.Model)
		}
	}
	return row
}

// membersOf returns the members of the deliberation that plans or planned a run, if there is one.
func membersOf(run store.Run, now map[contract.Agent]contract.ModelChoice, usage []views.ModelUsage) (out []ui.RunModel) {
	d := run.Settings.Deliberation
	if d == nil {
		return nil
	}
	took := run.Settings.PlanBy == contract.PlanByDeliberation
	for _, m := range contract.Members() {
		row := modelOf(m.Agent(), d.Models[m.Agent()], now, usage)
		took = took || row.Usage.Calls > 0
		out = append(out, row)
	}
	if !took {
		return nil
	}
	return out
}
