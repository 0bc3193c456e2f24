package model

import "github.com/rocketgpt/orchestrator/contract"

// tier is a class of models.
type tier int

const (
	tierSmall     tier = iota // cheap and fast
	tierCoding                // strong at writing code with tools
	tierReasoning             // strong at planning and judging
)

// tiers are the classes of the agents that ask models; the others use small ones.
var tiers = map[contract.Agent]tier{
	contract.AgentPlanner: tierReasoning, contract.AgentAnalyzer: tierReasoning,
	contract.AgentAlpha: tierReasoning, contract.AgentBeta: tierReasoning, contract.AgentGamma: tierReasoning,
	contract.AgentBuilder: tierCoding, contract.AgentRepair: tierCoding,
}

// defaultModels are the models of a kind of provider, by tier, as a starting point. Providers of other
// kinds serve whatever their operator installs.
var defaultModels = map[Kind][3]string{
	KindOpenAI:     {"gpt-6-luna", "gpt-6-sol", "gpt-6-sol"},
	KindAnthropic:  {"claude-haiku-4-5", "claude-sonnet-5", "claude-opus-5-5"},
	KindGemini:     {"gemini-3.5-flash-lite", "gemini-3.1-pro-preview", "gemini-3.1-pro-preview"},
	KindOpenRouter: {"anthropic/claude-haiku-4.5", "anthropic/claude-sonnet-5", "anthropic/claude-opus-5.5"},
}

// DefaultModel returns the model that an agent uses at a kind of provider if none is configured; ""
// if the kind has no default.
func DefaultModel(kind Kind, agent contract.Agent) string { return defaultModels[kind][tiers[agent]] }
