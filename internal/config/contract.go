package config

import (
	"cmp"
	"strconv"

	"github.com/rocketgpt/orchestrator/contract"
)

// StepBudget returns the limits of one agent loop in the form that runs carry.
func (c *Config) StepBudget() contract.StepBudget {
	s := c.Execution.Step
	return contract.StepBudget{
		Turns: s.Turns, Tokens: s.Tokens, MicroUSD: s.CostUSD.Int64(), Time: s.Time,
		LoopLimit: s.LoopLimit, ErrorLimit: s.ErrorLimit,
	}
}

// RunBudget returns the limits of a run in the form that runs carry.
func (c *Config) RunBudget() contract.RunBudget {
	r := c.Execution.Run
	return contract.RunBudget{Tokens: r.Tokens, MicroUSD: r.CostUSD.Int64(), Time: r.Time}
}

// Thresholds returns how many findings a run may have.
func (c *Config) Thresholds() contract.Thresholds {
	return contract.Thresholds{MaxMajor: c.Findings.MaxMajor, MaxMedium: c.Findings.MaxMedium}
}

// Release returns where the branch of a run goes.
func (c *Config) Release(runID int64) contract.ReleaseSettings {
	return contract.ReleaseSettings{
		Branch: c.Git.BranchPrefix + strconv.FormatInt(runID, 10),
		Push:   c.Git.Push, Remote: c.Git.Remote,
		AuthorName: c.Git.AuthorName, AuthorEmail: c.Git.AuthorEmail,
	}
}

// ModelFor returns the model of an agent. It is the zero value when neither the
// agent nor models.default has one.
func (c *Config) ModelFor(agent contract.Agent) contract.ModelChoice {
	own, byDefault := c.Models.Phases[string(agent)], c.Models.Default
	choice := contract.ModelChoice{Provider: byDefault.Provider, Model: byDefault.Model, Temperature: byDefault.Temperature}
	if own.Model != "" {
		choice = contract.ModelChoice{Provider: cmp.Or(own.Provider, byDefault.Provider), Model: own.Model}
	}
	if own.Temperature != nil {
		choice.Temperature = own.Temperature
	}
	return choice
}
