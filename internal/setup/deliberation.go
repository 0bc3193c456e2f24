package setup

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// Values of deliberation.plan_by.
const (
	planByPlanner      = "planner"
	planByDeliberation = "deliberation"
)

// Deliberation resolves the settings of a deliberation. If mode is empty, it uses the configured
// mode. In local mode, all members use the scripted model; it is also the mode of an installation
// whose agents are all scripted.
func Deliberation(cfg *config.Config, mode contract.PipelineMode) (contract.DeliberationSettings, error) {
	d := cfg.Deliberation
	models, err := MemberModels(cfg, cmp.Or(mode, contract.PipelineMode(d.Mode)))
	if err != nil {
		return contract.DeliberationSettings{}, err
	}
	fallbacks, err := memberFallbacks(cfg, models)
	if err != nil {
		return contract.DeliberationSettings{}, err
	}
	return contract.DeliberationSettings{
		Mode: ModeOf(cfg, models), AutoContinue: d.AutoContinue, Models: models, ModelSources: memberSources(cfg, cmp.Or(mode, contract.PipelineMode(d.Mode))),
		Budget: runBudget(cfg), ModelTimeout: cfg.Models.Timeout,
		GammaStuckAfter: d.GammaStuckAfter, GammaConflictAt: d.GammaConflictAt, GammaComplexityOver: d.GammaComplexityOver,
		AbortAfter: d.AbortAfter, Iterations: d.Iterations, Timeout: d.Timeout, OpeningTimeout: d.OpeningTimeout, ContinueWait: d.ContinueWait,
		Recoveries: d.Recoveries, ErrorLimit: d.ErrorLimit, RepeatLimit: d.RepeatLimit, ViolationLimit: d.ViolationLimit,
		MovesPerTurn: d.MovesPerTurn, TextLimit: int(d.TextLimit.Int64()), Entries: d.Entries,
		Fallbacks: fallbacks,
	}, nil
}

// memberFallbacks returns the models that members use while their own is out: the configured
// fallbacks, then the models of the other members. Scripted deliberations have none, because their
// responses must come from the scenario.
func memberFallbacks(cfg *config.Config, models map[contract.Agent]contract.ModelChoice) ([]contract.ModelChoice, error) {
	if ModeOf(cfg, models) == contract.ModeLocal {
		return nil, nil
	}
	out, err := Fallbacks(cfg)
	for _, member := range contract.Members() {
		m := models[member.Agent()]
		if !slices.ContainsFunc(out, func(o contract.ModelChoice) bool { return o.Provider == m.Provider && o.Model == m.Model }) {
			out = append(out, m)
		}
	}
	return out, err
}

// MemberModels returns the model of each member of a deliberation: its own, else the planner's; in
// local mode, the scripted model.
func MemberModels(cfg *config.Config, mode contract.PipelineMode) (map[contract.Agent]contract.ModelChoice, error) {
	if !slices.Contains(contract.PipelineModes(), mode) {
		return nil, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "invalid deliberation mode %q; use openrouter or local", mode)
	}
	scripted, err := scriptedModel(cfg)
	if mode == contract.ModeLocal && err != nil {
		return nil, err
	}
	out := map[contract.Agent]contract.ModelChoice{}
	for _, member := range contract.Members() {
		agent := member.Agent()
		if mode == contract.ModeLocal {
			out[agent] = scripted
			continue
		}
		if out[agent], err = modelOf(cfg, agent, contract.AgentPlanner); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scriptedModel returns the model that responds according to a scenario.
func scriptedModel(cfg *config.Config) (contract.ModelChoice, error) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Models.Providers)) {
		if cfg.Models.Providers[name].Kind != string(model.KindScripted) {
			continue
		}
		choice := contract.ModelChoice{Provider: name, Model: Scripted}
		if own := cfg.Models.Default; own.Provider == name && own.Model != "" {
			choice.Model, choice.Temperature, choice.Effort = own.Model, own.Temperature, contract.Effort(own.Effort)
		}
		return WithTimeout(cfg, choice), nil
	}
	return contract.ModelChoice{}, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
		"local mode requires a provider of kind \"scripted\", and none is configured; use openrouter mode, or start the stack with a scenario: rgpt dev --scenario FILE")
}

// ModeOf returns the mode in which models deliberate.
func ModeOf(cfg *config.Config, models map[contract.Agent]contract.ModelChoice) contract.PipelineMode {
	for _, m := range models {
		if cfg.Models.Providers[m.Provider].Kind != string(model.KindScripted) {
			return contract.ModeOpenRouter
		}
	}
	return contract.ModeLocal
}

// planBy resolves whether the planner or a deliberation plans a run, and the settings of the
// deliberation.
func planBy(cfg *config.Config, s *contract.Settings) error {
	if cfg.Deliberation.PlanBy == planByPlanner {
		return nil
	}
	d, err := Deliberation(cfg, "")
	if err != nil {
		return err
	}
	d.AutoContinue = true // a run's phases follow one another automatically
	s.Deliberation = &d
	if cfg.Deliberation.PlanBy == planByDeliberation {
		s.PlanBy = contract.PlanByDeliberation
	}
	return nil
}
