package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
)

// maxModelName is the maximum length of the name of a chosen model in bytes.
const maxModelName = 300

// AgentModel is the model that new runs and pipelines use for an agent.
type AgentModel struct {
	Agent  contract.Agent        `json:"agent"`
	Model  *contract.ModelChoice `json:"model,omitempty" doc:"absent: the agent has no model that can be used"`
	Source string                `json:"source,omitempty" doc:"what determines the model: a setting such as models.phases.planner, or a choice on the settings page, with who and when"`
	// Choice also exists if it has no effect.
	Choice   *modelchoices.Choice `json:"choice,omitempty" doc:"the choice that people made for this agent; absent: none, the configuration applies"`
	Problem  string               `json:"problem,omitempty" doc:"why new runs cannot use the choice, and what to do"`
	Warnings []string             `json:"warnings,omitempty" doc:"what to know about the model"`
	Message  string               `json:"message,omitempty" doc:"what the request has changed"`
}

// NewModelChoice is the request to choose the model of an agent.
type NewModelChoice struct {
	Model       string          `json:"model" minLength:"3" maxLength:"400" doc:"model, as provider/model"`
	Temperature *float64        `json:"temperature,omitempty" minimum:"0" maximum:"2" doc:"sampling temperature; default: the provider's"`
	Effort      contract.Effort `json:"effort,omitempty" enum:"low,medium,high" doc:"amount of reasoning; default: the provider's"`
	Version     *int64          `json:"version,omitempty" minimum:"0" doc:"version of the choice that the sender saw, 0 for none; if it has changed, the request is rejected. Default: not compared"`
	By          string          `json:"by,omitempty" maxLength:"200" doc:"who chooses it; default: api"`
}

func (r *Runs) choices() *modelchoices.Store { return modelchoices.New(r.Store) }

// withChoices returns the configuration with the models that people chose. operator is the operator's
// configuration, over which a repository or a request may have set models. Without a database, nobody
// has chosen any.
func withChoices(ctx context.Context, db *store.Store, cfg, operator *config.Config) (*config.Config, error) {
	if db == nil {
		return cfg, nil
	}
	list, err := modelchoices.New(db).List(ctx)
	return setup.WithChoices(cfg, operator, list), err
}

// AgentModels returns the models that new runs and pipelines use, for each agent that calls models.
func (r *Runs) AgentModels(ctx context.Context) ([]AgentModel, error) {
	list, err := r.choices().List(ctx)
	if err != nil {
		return nil, err
	}
	models, _ := r.agentModels(ctx, list)
	return models, nil
}

// agentModels returns the model of each agent. The error explains why some have none. A choice that
// cannot be used is left out, with its problem.
func (r *Runs) agentModels(ctx context.Context, list []modelchoices.Choice) ([]AgentModel, error) {
	usable := slices.DeleteFunc(slices.Clone(list), func(c modelchoices.Choice) bool { return r.unusable(c) != "" })
	models, from, missing := setup.EveryModel(setup.WithChoices(r.Config, r.Config, usable))
	var out []AgentModel
	for _, agent := range setup.ModelAgents() {
		row := AgentModel{Agent: agent, Source: from[agent]}
		if m, ok := models[agent]; ok {
			row.Model = &m
		}
		if i := slices.IndexFunc(list, func(c modelchoices.Choice) bool { return c.Agent == agent }); i >= 0 {
			row.Choice, row.Problem = &list[i], r.unusable(list[i])
			row.Warnings = r.warnings(ctx, list[i].Model)
		}
		out = append(out, row)
	}
	return out, missing
}

// unusable returns why a choice cannot be used; empty if it can.
func (r *Runs) unusable(c modelchoices.Choice) string {
	if _, ok := r.Config.Models.Providers[c.Model.Provider]; ok {
		return ""
	}
	return fmt.Sprintf("%s chose %s/%s for the %s, but provider %q is not configured. New runs fail until another model is chosen, the choice is removed (rgpt models unset %s), or the provider is configured under models.providers",
		c.By, c.Model.Provider, c.Model.Model, c.Agent, c.Model.Provider, c.Agent)
}

// AgentModel returns the model that new runs and pipelines use for an agent.
func (r *Runs) AgentModel(ctx context.Context, agent contract.Agent) (AgentModel, error) {
	if err := CheckModelAgent(agent); err != nil {
		return AgentModel{}, err
	}
	all, err := r.AgentModels(ctx)
	if err != nil {
		return AgentModel{}, err
	}
	return all[slices.IndexFunc(all, func(m AgentModel) bool { return m.Agent == agent })], nil
}

// CheckModelAgent returns an error unless an agent calls models.
func CheckModelAgent(agent contract.Agent) error {
	switch {
	case setup.CallsModels(agent):
		return nil
	case slices.Contains(contract.Agents(), agent):
		return wrong("the %s calls no model; choose a model for one of %v", agent, setup.ModelAgents())
	}
	return wrong("unknown agent %q; must be one of %v", fault.Clip(string(agent), 40), setup.ModelAgents())
}

// SetAgentModel chooses the model of an agent for new runs and pipelines. Runs and pipelines that
// exist keep theirs.
func (r *Runs) SetAgentModel(ctx context.Context, agent contract.Agent, n NewModelChoice) (AgentModel, error) {
	choice, err := r.checkChoice(ctx, agent, n)
	if err != nil {
		return AgentModel{}, err
	}
	if _, err := r.choices().Set(ctx, agent, choice, n.Version, n.By); err != nil {
		return AgentModel{}, err
	}
	out, err := r.AgentModel(ctx, agent)
	out.Message = fmt.Sprintf("New runs use %s for the %s", n.Model, agent)
	if len(out.Warnings) > 0 {
		out.Message += ". Note: " + strings.Join(out.Warnings, "; ")
	}
	return out, err
}

// UnsetAgentModel removes the choice for an agent, so that the configuration applies to new runs. seen
// is the version that the sender saw; nil: not compared.
func (r *Runs) UnsetAgentModel(ctx context.Context, agent contract.Agent, seen *int64, by string) (AgentModel, error) {
	if err := CheckModelAgent(agent); err != nil {
		return AgentModel{}, err
	}
	removed, err := r.choices().Unset(ctx, agent, seen, by)
	if err == nil && !removed {
		err = refused("no model was chosen for the %s; the configuration already applies", agent)
	}
	if err != nil {
		return AgentModel{}, err
	}
	out, err := r.AgentModel(ctx, agent)
	out.Message = fmt.Sprintf("The configuration applies to the %s again", agent)
	return out, err
}

// ModelChanges returns the last changes of the choice for an agent, or of all if agent is empty; the
// newest first.
func (r *Runs) ModelChanges(ctx context.Context, agent contract.Agent, limit int) ([]modelchoices.Change, error) {
	if agent != "" {
		if err := CheckModelAgent(agent); err != nil {
			return nil, err
		}
	}
	return r.choices().Changes(ctx, agent, limit)
}

// checkChoice returns the model of a request, unless the agent could not use it.
func (r *Runs) checkChoice(ctx context.Context, agent contract.Agent, n NewModelChoice) (contract.ModelChoice, error) {
	if err := CheckModelAgent(agent); err != nil {
		return contract.ModelChoice{}, err
	}
	choice, err := Model(r.Config, n.Model)
	if err != nil {
		return choice, err
	}
	if len(choice.Model) > maxModelName || strings.ContainsFunc(choice.Model, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) || c == unicode.ReplacementChar }) {
		return choice, wrong("the name of the model must be at most %d bytes without spaces or control characters", maxModelName)
	}
	choice.Temperature, choice.Effort = n.Temperature, n.Effort
	if err := CheckSampling(choice.Temperature, choice.Effort); err != nil {
		return choice, err
	}
	entry, known := r.modelEntry(ctx, choice)
	switch {
	case !known && entry.Checked == "":
	case embeds(entry):
		return choice, wrong("%s computes embeddings and cannot respond to an agent; choose another model for the %s", n.Model, agent)
	case !CanServe(entry, agent):
		return choice, wrong("the %s works with tools, which %s does not support; choose a model with the capability tools, or correct its entry in models.catalogue", agent, n.Model)
	case choice.Temperature != nil && entry.Can(model.CapabilityFixedTemperature):
		return choice, wrong("%s does not accept a temperature; omit it", n.Model)
	}
	return choice, r.checkEffort(ctx, choice)
}

// checkEffort returns an error if a model has an effort, but the catalogue says that its amount of
// reasoning cannot be set.
func (r *Runs) checkEffort(ctx context.Context, choice contract.ModelChoice) error {
	if choice.Effort == "" {
		return nil
	}
	if entry, known := r.modelEntry(ctx, choice); !known || entry.Can(model.CapabilityEffort) {
		return nil
	}
	return wrong("the amount of reasoning of %s/%s cannot be set; omit the effort, choose another model, or add the capability effort to its entry in models.catalogue", choice.Provider, choice.Model)
}

// setEffort sets the amount of reasoning of agents, unless one of their models does not allow it.
// Agents that call no model are ignored.
func (r *Runs) setEffort(ctx context.Context, models map[contract.Agent]contract.ModelChoice, effort contract.Effort) error {
	if effort == "" {
		return nil
	}
	for _, agent := range setup.ModelAgents() {
		choice, ok := models[agent]
		if !ok {
			continue
		}
		choice.Effort = effort
		if err := r.checkEffort(ctx, choice); err != nil {
			return wrong("the effort %s cannot be used for the %s: %s", effort, agent, fault.Of(err).Message)
		}
		models[agent] = choice
	}
	return nil
}

// CheckSampling returns an error for a temperature or an effort that no model accepts.
func CheckSampling(temperature *float64, effort contract.Effort) error {
	if temperature != nil && !(*temperature >= 0 && *temperature <= 2) {
		return wrong("the temperature %g is invalid; must be from 0 to 2", *temperature)
	}
	if effort == "" || slices.Contains(contract.Efforts(), effort) {
		return nil
	}
	return wrong("the effort %q is invalid; must be low, medium or high", fault.Clip(string(effort), 40))
}

// DescribeModel describes a model with its temperature and effort, such as openai/gpt-5 (effort high).
func DescribeModel(m contract.ModelChoice) string {
	var how []string
	if m.Temperature != nil {
		how = append(how, fmt.Sprintf("temperature %g", *m.Temperature))
	}
	if m.Effort != "" {
		how = append(how, "effort "+string(m.Effort))
	}
	if len(how) == 0 {
		return m.Provider + "/" + m.Model
	}
	return fmt.Sprintf("%s/%s (%s)", m.Provider, m.Model, strings.Join(how, ", "))
}

// CanServe reports whether a model of the catalogue can respond to an agent. The builder and the repair
// agent work with tools; the others respond with JSON.
func CanServe(e model.CatalogueEntry, agent contract.Agent) bool {
	if embeds(e) {
		return false
	}
	return agent != contract.AgentBuilder && agent != contract.AgentRepair || e.Can(model.CapabilityTools)
}

// embeds reports whether a model only computes embeddings.
func embeds(e model.CatalogueEntry) bool {
	return e.Can(model.CapabilityEmbeddings) && !e.Can(model.CapabilityTools)
}

// modelEntry returns what is known about a model, and whether anything is.
func (r *Runs) modelEntry(ctx context.Context, choice contract.ModelChoice) (model.CatalogueEntry, bool) {
	for _, p := range setup.Providers(r.Config) {
		if p.Name == choice.Provider {
			catalogue, err := r.Catalogue(ctx)
			if err != nil { // what the configuration knows is better than nothing
				catalogue = setup.Catalogue(r.Config)
			}
			return catalogue.Find(p, choice.Model)
		}
	}
	return model.CatalogueEntry{}, false
}

// warnings returns what a person should know about a model.
func (r *Runs) warnings(ctx context.Context, choice contract.ModelChoice) []string {
	if _, ok := r.Config.Models.Providers[choice.Provider]; !ok {
		return nil // reported as a problem
	}
	if _, known := r.modelEntry(ctx, choice); known {
		return nil
	}
	return []string{fmt.Sprintf("%s/%s is not in the catalogue: its price and limits are estimates (models.catalogue)", choice.Provider, choice.Model)}
}
