package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// stateTimeout limits the time of a query for a run's state.
const stateTimeout = 2 * time.Second

// Limits of the page of models, and of the models that forms suggest.
const (
	shownChanges   = 20
	shownCatalogue = 50  // entries of the catalogue at a time
	offeredModels  = 400 // the newest ones; others can be typed
)

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
	p.Used = usedModels(known, agents)
	inUse := map[string]bool{}
	for _, u := range p.Used {
		if inUse[u.Provider] = inUse[u.Provider] || len(u.Agents) > 0; u.Today != nil {
			p.Today = p.Today.Add(u.Today.Usage)
		}
	}
	usable := s.usableProviders(inUse)
	p.Offered = offered(catalogue, usable)
	if err := s.searchCatalogue(r, catalogue, usable, &p); err != nil {
		return nil, err
	}
	if _, _, missing := setup.EveryModel(s.Runs.Config); missing != nil && slices.ContainsFunc(agents, func(m control.AgentModel) bool { return m.Model == nil }) {
		p.Missing = fault.Of(missing).Message
	}
	for _, m := range agents {
		row := ui.AgentModel{AgentModel: m, Option: s.chosenOption(catalogue, m)}
		if m.Model != nil {
			row.Known = known[m.Model.Provider+"/"+m.Model.Model]
		}
		p.Agents = append(p.Agents, row)
	}
	if p.Changes, err = s.Runs.ModelChanges(ctx, "", shownChanges); err != nil {
		return nil, err
	}
	p.Providers = providerRows(s.Runs.Models(ctx, false), p.Used)
	return ui.Models(p), nil
}

// usedModels returns the models of agents, and those that were called today; the most called first.
func usedModels(known map[string]*ui.KnownModel, agents []control.AgentModel) (used []ui.KnownModel) {
	for _, m := range agents {
		if m.Model != nil {
			k := known[m.Model.Provider+"/"+m.Model.Model]
			k.Agents = append(k.Agents, m.Agent)
		}
	}
	for _, k := range known {
		if k.Today != nil || len(k.Agents) > 0 {
			used = append(used, *k)
		}
	}
	slices.SortFunc(used, func(a, b ui.KnownModel) int {
		return cmp.Or(cmp.Compare(calls(b), calls(a)), cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model))
	})
	return used
}

// providerRows returns the states of the providers.
func providerRows(state control.Models, used []ui.KnownModel) (rows []ui.ProviderRow) {
	for _, v := range state.Providers {
		row := providerRow(v.Name, v.Kind, v.Key, used)
		if row.Breaker = state.Breaker(v.Name); row.Breaker == string(providers.Closed) {
			row.Breaker = ""
		} else if state.Unknown == "" {
			row.State, row.Word = ui.Failed, "Out"
		}
		if row.Limits = v.Limits.String(); v.Queue != nil && v.Queue.Waiting > 0 {
			row.Limits += fmt.Sprintf(" · %d waiting", v.Queue.Waiting)
		}
		rows = append(rows, row)
	}
	return rows
}

// usableProviders returns the providers that can be called: those that need no key or have one, and
// those that are in use.
func (s *Server) usableProviders(inUse map[string]bool) []model.Provider {
	return slices.DeleteFunc(setup.Providers(s.Runs.Config), func(p model.Provider) bool {
		_, err := p.Key(os.Getenv)
		return err != nil && !inUse[p.Name]
	})
}

// offered returns the models of providers that an agent can use and that are still offered, the newest
// of each provider first.
func offered(catalogue model.Catalogue, providers []model.Provider) (out []ui.ModelOption) {
	for _, p := range providers {
		var own []model.CatalogueEntry
		seen := map[string]bool{}
		for _, e := range catalogue {
			if e.Model == "*" || seen[e.Model] || !p.Serves(e) {
				continue
			}
			seen[e.Model] = true
			if e, _ = catalogue.Find(p, e.Model); control.CanServe(e, contract.AgentPlanner) && !e.Gone(today().Format(time.DateOnly)) {
				own = append(own, e)
			}
		}
		slices.SortFunc(own, newest)
		for _, e := range own {
			out = append(out, optionOf(e))
		}
	}
	return out[:min(len(out), offeredModels)]
}

// newest orders models: those of the configuration first, then the newest.
func newest(a, b model.CatalogueEntry) int {
	rank := func(e model.CatalogueEntry) int {
		if e.Source == setup.SourceConfig {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), model.Newest(a, b))
}

func optionOf(e model.CatalogueEntry) ui.ModelOption {
	text := []string{"$ " + ui.Price(*knownModel(e))}
	if e.ContextWindow > 0 {
		text = append(text, ui.Count(e.ContextWindow)+" tokens")
	}
	if !control.CanServe(e, contract.AgentBuilder) {
		text = append(text, "no tools")
	}
	if e.Deprecated != "" {
		text = append(text, "until "+e.Deprecated)
	}
	return ui.ModelOption{
		Name: e.Provider + "/" + e.Model, FixedTemperature: e.Can(model.CapabilityFixedTemperature), NoEffort: !e.Can(model.CapabilityEffort), Text: strings.Join(text, " · "),
	}
}

// chosenOption describes the model of an agent. A model that is not in the catalogue may accept both a
// temperature and an effort.
func (s *Server) chosenOption(catalogue model.Catalogue, m control.AgentModel) ui.ModelOption {
	at := m.Model
	if m.Choice != nil {
		at = &m.Choice.Model
	}
	if at == nil {
		return ui.ModelOption{}
	}
	for _, p := range setup.Providers(s.Runs.Config) {
		if p.Name != at.Provider {
			continue
		}
		if e, known := catalogue.Find(p, at.Model); known {
			return optionOf(e)
		}
	}
	return ui.ModelOption{Name: at.Provider + "/" + at.Model}
}

// searchCatalogue reads the requested part of the catalogue.
func (s *Server) searchCatalogue(r *http.Request, catalogue model.Catalogue, usable []model.Provider, p *ui.ModelsPage) error {
	q, err := param.Query(r)
	if err != nil {
		return err
	}
	p.Search = ui.ModelSearch{Text: q.Get("text"), Provider: q.Get("provider")}
	if p.Search.From, err = offset(q, "from"); err != nil {
		return err
	}
	last := map[[2]string]int{} // of two entries for a model, the later one applies
	for i, e := range catalogue {
		last[[2]string{e.Provider, e.Model}] = i
		if !slices.Contains(p.Search.Providers, e.Provider) {
			p.Search.Providers = append(p.Search.Providers, e.Provider)
		}
	}
	slices.Sort(p.Search.Providers)
	words := strings.Fields(strings.ToLower(p.Search.Text))
	var found []model.CatalogueEntry
	for i, e := range catalogue {
		name := strings.ToLower(e.Provider + "/" + e.Model)
		if last[[2]string{e.Provider, e.Model}] != i || !p.Search.Wants(e.Provider, func() bool {
			return slices.ContainsFunc(usable, func(u model.Provider) bool { return u.Serves(e) })
		}) || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(name, w) }) {
			continue
		}
		found = append(found, e)
	}
	slices.SortFunc(found, newest)
	p.Search.Found, p.Search.All = len(found), len(last)
	for _, e := range found[min(p.Search.From, len(found)):min(p.Search.From+shownCatalogue, len(found))] {
		p.Catalogue = append(p.Catalogue, *knownModel(e))
	}
	return nil
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
		Assumed: e.Assumed, Source: strings.TrimSpace(e.Source + " " + e.SourceDate), Released: e.Released, Deprecated: e.Deprecated, Scores: e.Scores,
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
	m.Offered, err = s.offeredTo(ctx, h.Run.Settings.Models, h.Run.Settings.Providers)
	return ui.RunModelsTab(m), err
}

// offeredTo returns the models to suggest instead of others, of the allowed providers; nil: of all.
func (s *Server) offeredTo(ctx context.Context, instead map[contract.Agent]contract.ModelChoice, allowed []string) ([]ui.ModelOption, error) {
	if s.Runs == nil || s.Runs.Config == nil {
		return nil, nil
	}
	catalogue, err := s.Runs.Catalogue(ctx)
	inUse := map[string]bool{}
	for _, m := range instead {
		inUse[m.Provider] = true
	}
	providers := slices.DeleteFunc(s.usableProviders(inUse), func(p model.Provider) bool {
		return len(allowed) > 0 && !slices.Contains(allowed, p.Name)
	})
	return offered(catalogue, providers), err
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
