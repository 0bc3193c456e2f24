package route

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// Need is what a call requires of its model.
type Need struct {
	Agent  contract.Agent
	Prompt int64 // expected tokens
	// Bound is the most tokens that the prompt can have. Budgets reserve what these cost.
	Bound int64
	// Cached is the part of the prompt, in tokens, that the provider of Current has probably cached.
	Cached int64
	// Output is the number of response tokens to expect, MinOutput the fewest that are of use.
	Output, MinOutput int64
	// MinReasoning takes the place of MinOutput for models that reason within their response.
	MinReasoning int64
	Tools        bool // a model without tools cannot make the call
	// Schema, Images and Temperature are wishes: a model that lacks the feature gets the schema in
	// words, a note in place of a picture, and no temperature.
	Schema, Images, Temperature bool
	// Importance, from 0 to 1, is how much a better response is worth.
	Importance float64
	// Left is what the budgets have left, in millionths of a US dollar; negative: no limit.
	Left int64
	// Current is the model of the conversation so far; zero: none.
	Current contract.ModelChoice
}

// Candidate is a model that may make a call.
type Candidate struct {
	Choice contract.ModelChoice
	Entry  model.CatalogueEntry
	// Known reports whether the catalogue has the model; otherwise its prices are assumed.
	Known bool
	// Out says why the model cannot be called now, such as an open circuit breaker; empty: it can.
	// OutFor is the time until it may be tried again; 0: time alone does not help.
	Out    string
	OutFor time.Duration
	// Score is how well the model does the agent's work, from 0 to 1; nil: unknown. ScoreSource says
	// who measured it.
	Score       *float64
	ScoreSource string
	// Outcomes count the model's earlier work; zero unless the run learns from it.
	Outcomes Outcomes
}

// Outcomes count how a model's work ended in verified runs: without a heal, or with one.
type Outcomes struct{ Good, Bad int64 }

// same reports whether two choices name the same model.
func same(a, b contract.ModelChoice) bool { return a.Provider == b.Provider && a.Model == b.Model }

// name returns a choice as people write it.
func name(c contract.ModelChoice) string { return c.Provider + "/" + c.Model }

// unfit returns why a candidate cannot make the call, or "" if it can.
func (n Need) unfit(c Candidate) string { return cmp.Or(n.fits(c), c.Out) }

// fits returns why a candidate could not make the call even if it were available, or "" if it could.
func (n Need) fits(c Candidate) string {
	e := c.Entry
	switch {
	case e.Can(model.CapabilityEmbeddings) && !e.Can(model.CapabilityTools) && !e.Can(model.CapabilityJSONSchema):
		return "it only makes embeddings"
	case n.Tools && !e.Can(model.CapabilityTools):
		return "it cannot call tools"
	case e.ContextWindow > 0 && n.Prompt+n.least(e) > e.ContextWindow:
		return fmt.Sprintf("its context window of %s tokens is too small for a prompt of about %s", thousands(e.ContextWindow), thousands(n.Prompt))
	case e.MaxOutput > 0 && n.MinOutput > e.MaxOutput:
		return fmt.Sprintf("its responses have at most %s tokens, and at least %s are needed", thousands(e.MaxOutput), thousands(n.MinOutput))
	}
	return ""
}

// Reasons reports whether a model reasons within the tokens of its response.
func Reasons(e model.CatalogueEntry) bool {
	return e.Can(model.CapabilityEffort) || e.Can(model.CapabilityFixedTemperature)
}

// least returns the fewest response tokens of a model that are of use.
func (n Need) least(e model.CatalogueEntry) int64 {
	least := n.MinOutput
	if Reasons(e) {
		least = max(least, n.MinReasoning)
		if e.MaxOutput > 0 {
			least = min(least, max(e.MaxOutput, n.MinOutput))
		}
	}
	return least
}

// reserves returns the most that the shortest useful response can cost, which budgets must cover.
func (n Need) reserves(c Candidate) int64 {
	return budget.Cost(max(n.Prompt, n.Bound), n.least(c.Entry), c.Entry)
}

// lacks returns the wishes that a candidate does not fulfil.
func (n Need) lacks(c Candidate) []string {
	var out []string
	if n.Schema && !c.Entry.Can(model.CapabilityJSONSchema) {
		out = append(out, "it does not enforce schemas")
	}
	if n.Images && !c.Entry.Can(model.CapabilityVision) {
		out = append(out, "it cannot see pictures")
	}
	if n.Temperature && c.Entry.Can(model.CapabilityFixedTemperature) {
		out = append(out, "it takes no temperature")
	}
	return out
}

// cost returns the expected cost of the call, in millionths of a US dollar.
func (n Need) cost(c Candidate, output int64) int64 {
	u := contract.Usage{PromptTokens: n.Prompt, CompletionTokens: output}
	if same(c.Choice, n.Current) {
		u.CachedTokens = n.Cached
	}
	return model.Cost(u, c.Entry)
}

// thousands writes a number with separators.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// costOf writes what a candidate may cost, for people.
func costOf(micros int64, c Candidate) string {
	return contract.MarkEstimated(dollars(micros), !c.Known)
}

// dollars writes an amount for people.
func dollars(micros int64) string {
	s := strings.TrimRight(fmt.Sprintf("%.6f", float64(micros)/1e6), "0")
	if point := strings.IndexByte(s, '.'); len(s) < point+3 {
		s += strings.Repeat("0", point+3-len(s))
	}
	return "$" + s
}
