// Package budget computes the most that a model call may use before it is made: the tokens of its
// prompt, the limit of its response, and their cost at the highest prices that can apply. Budgets
// reserve these amounts, so no call that keeps to its output limit uses more than it reserved.
package budget

import (
	"sort"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

const (
	// perRequest covers what providers add to a request, such as instructions for the use of tools.
	perRequest = 1024
	// perPart covers the tokens that separate messages, tool calls and tools.
	perPart = 32
	// perImage covers an image with any model. Most models count a tenth of it at most.
	perImage = 50_000
	// strictForm is how much longer the strict form of a tool's schema can be.
	strictForm = 2
)

// Known is the part of a conversation whose tokens a provider counted.
type Known struct {
	Messages int   // from the start
	Tokens   int64 // of them and everything else in that request, as reported
}

// Prompt returns an upper bound of the prompt tokens of a request. Tokens are at least one byte
// long, so the bound is the number of bytes that the provider's template may contain: JSON is
// counted in its escaped form, and there is an allowance for everything between the texts. If a
// provider counted the beginning of the conversation, its count replaces the bound for this part,
// unless the count is below the usual estimate: some providers do not report cached tokens.
func Prompt(r model.Request, known Known) int64 {
	if known.Messages <= 0 || known.Messages > len(r.Messages) || known.Tokens <= 0 {
		return perRequest + schema(r.Schema) + tools(r) + messages(r.Messages)
	}
	counted := max(known.Tokens, model.EstimateTokens(r.Messages[:known.Messages], r.Tools))
	return counted + schema(r.Schema) + messages(r.Messages[known.Messages:])
}

func schema(s *model.Schema) int64 {
	if s == nil {
		return 0
	}
	return perPart + escaped(string(s.JSON))
}

func tools(r model.Request) int64 {
	var n int64
	for _, t := range r.Tools {
		n += perPart + escaped(t.Name) + escaped(t.Description) + strictForm*escaped(string(t.Parameters))
	}
	return n
}

func messages(all []model.Message) int64 {
	var n int64
	for _, m := range all {
		n += perPart + escaped(m.Text) + escaped(m.ToolCallID) + perImage*int64(len(m.Images))
		if m.Reasoning != nil {
			n += escaped(string(m.Reasoning.Items))
		}
		for _, c := range m.ToolCalls {
			n += perPart + escaped(c.ID) + escaped(c.Name) + escaped(c.Arguments)
		}
	}
	return n
}

// escaped returns the length of a text as a JSON string without its quotes. Templates put some
// texts into JSON.
func escaped(s string) int64 {
	const control = len(`\u0000`)
	n := len(s)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n++
		case c < ' ', c == 0x7f:
			n += control - 1
		}
	}
	return int64(n)
}

// Cost returns the highest cost of a call with at most so many tokens, whatever part of its prompt
// the provider reads from its cache or writes to it, whatever part of its response is reasoning, and
// whether or not its prompt is so long that other prices apply.
func Cost(prompt, output int64, entry model.CatalogueEntry) int64 {
	short := entry
	short.LongContext = nil
	var most int64
	for _, e := range []model.CatalogueEntry{entry, short} {
		for _, u := range []contract.Usage{{}, {CachedTokens: prompt}, {CacheWriteTokens: prompt}} {
			u.PromptTokens, u.CompletionTokens = prompt, output
			most = max(most, model.Cost(u, e))
			u.ReasoningTokens = output
			most = max(most, model.Cost(u, e))
		}
	}
	return most
}

// Output returns the output limit that a call sends: the requested one, at most the model's.
func Output(requested int64, entry model.CatalogueEntry) int64 {
	if entry.MaxOutput > 0 {
		return min(requested, entry.MaxOutput)
	}
	return requested
}

// Affordable returns the largest output limit of at most output tokens whose cost is at most micros,
// or -1 if there is none. The cost must not fall with more tokens.
func Affordable(micros, output int64, cost func(output int64) int64) int64 {
	if output < 0 || cost(output) <= micros {
		return output
	}
	n := sort.Search(int(output), func(n int) bool { return cost(int64(n)) > micros })
	return int64(n) - 1
}
