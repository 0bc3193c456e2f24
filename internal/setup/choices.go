package setup

import (
	"cmp"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
)

// ModelAgents returns the agents that call models. The tester, releaser and analyzer never do.
func ModelAgents() []contract.Agent {
	out := []contract.Agent{contract.AgentPlanner, contract.AgentBuilder, contract.AgentRepair}
	for _, m := range contract.Members() {
		out = append(out, m.Agent())
	}
	return out
}

// CallsModels reports whether an agent calls models.
func CallsModels(agent contract.Agent) bool { return slices.Contains(ModelAgents(), agent) }

// WithChoices returns the configuration with the models that people chose for agents. They override
// the operator's settings, but not what a repository or a request has set over them.
func WithChoices(cfg, operator *config.Config, chosen []modelchoices.Choice) *config.Config {
	for _, c := range chosen {
		own := config.Choice{Provider: c.Model.Provider, Model: c.Model.Model, Temperature: c.Model.Temperature, Effort: string(c.Model.Effort)}
		cfg = cfg.WithChoice(operator, string(c.Agent), own, config.Origin{Source: config.SourceSettings, Name: "by " + c.By + " at " + c.At.UTC().Format(time.RFC3339)})
	}
	return cfg
}

// EveryModel returns the model of each agent that calls models, with deliberations in the configured
// mode, and what determined it: a setting such as models.phases.planner, or a choice on the settings
// page. The error explains why some agents have no model; the others are still returned.
func EveryModel(cfg *config.Config) (models map[contract.Agent]contract.ModelChoice, from map[contract.Agent]string, err error) {
	models, from = map[contract.Agent]contract.ModelChoice{}, map[contract.Agent]string{}
	runs, err := Models(cfg)
	for agent, choice := range runs {
		if CallsModels(agent) {
			models[agent], from[agent] = choice, sourceOf(cfg, agent)
		}
	}
	mode := contract.PipelineMode(cfg.Deliberation.Mode)
	members, missing := MemberModels(cfg, mode)
	sources := memberSources(cfg, mode)
	for agent, choice := range members {
		models[agent], from[agent] = choice, sources[agent]
	}
	return models, from, cmp.Or(err, missing)
}

// Sources returns what determines the model of each agent that calls models.
func Sources(cfg *config.Config) map[contract.Agent]string {
	out := memberSources(cfg, contract.PipelineMode(cfg.Deliberation.Mode))
	for _, agent := range agents {
		if CallsModels(agent) {
			out[agent] = sourceOf(cfg, agent)
		}
	}
	return out
}

// memberSources returns what determines the model of each member of a deliberation in this mode.
func memberSources(cfg *config.Config, mode contract.PipelineMode) map[contract.Agent]string {
	out := map[contract.Agent]string{}
	for _, m := range contract.Members() {
		if out[m.Agent()] = sourceOf(cfg, m.Agent(), contract.AgentPlanner); mode == contract.ModeLocal {
			out[m.Agent()] = "deliberation.mode"
		}
	}
	return out
}

// sourceOf returns what modelOf reads an agent's model from: the name of a setting, with its place if
// a repository sets it; or the choice on the settings page.
func sourceOf(cfg *config.Config, agent contract.Agent, others ...contract.Agent) string {
	for _, a := range append([]contract.Agent{agent}, others...) {
		if cfg.Models.Phases[string(a)].Model == "" {
			continue
		}
		key := "models.phases." + string(a)
		switch origin := cfg.Origin(key + ".model"); {
		case origin.Source == config.SourceSettings && a != agent:
			return origin.String() + ", for the " + string(a)
		case origin.Source == config.SourceSettings, origin.Source == config.SourceRequest:
			return origin.String()
		case origin.Source == config.SourceFile && origin.Repository:
			return key + " in " + origin.String()
		}
		return key
	}
	if cfg.Models.Default.Model == "" {
		return "models.default.provider, with the default for the " + string(agent)
	}
	return "models.default"
}

// notConfigured explains that the provider of an agent's model is not configured, and what to do.
func notConfigured(cfg *config.Config, agent contract.Agent, choice contract.ModelChoice, others ...contract.Agent) error {
	for _, a := range append([]contract.Agent{agent}, others...) {
		origin := cfg.Origin("models.phases." + string(a) + ".model")
		if cfg.Models.Phases[string(a)].Model == "" {
			continue
		}
		if origin.Source == config.SourceSettings {
			return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
				"the model of the %s (%s) uses provider %q, which is not configured; choose another model (rgpt models set %s, or the settings page), remove the choice (rgpt models unset %s), or configure the provider under models.providers",
				a, origin, choice.Provider, a, a)
		}
		break
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
		"the model of the %s uses provider %q, which is not configured under models.providers", agent, choice.Provider)
}
