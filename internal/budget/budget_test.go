package budget_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/model"
)

func user(text string) model.Message { return model.Message{Role: model.RoleUser, Text: text} }

func TestAPromptIsNeverBoundedBelowItsBytes(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"English": strings.Repeat("The quick brown fox. ", 200), "Chinese": strings.Repeat("模型调用的预算", 300), "base64": strings.Repeat("aGVsbG8gd29ybGQ", 300),
		"code": strings.Repeat("\tif x[i] != nil {\n\t\treturn \"\\\\\"\n\t}\n", 100), "control characters": strings.Repeat("\x00\x1b", 100), "nothing": "",
	} {
		r := model.Request{
			Messages: []model.Message{user(text), {Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "c", Name: "n", Arguments: text}}}},
			Tools:    []model.Tool{{Name: "n", Description: text, Parameters: json.RawMessage(`{}`)}},
			Schema:   &model.Schema{JSON: json.RawMessage(text)},
		}
		inJSON, err := json.Marshal(text)
		require.NoError(t, err)
		require.GreaterOrEqual(t, budget.Prompt(r, budget.Known{}), int64(4*max(len(text), len(strings.ReplaceAll(string(inJSON), `\u003`, "")))), name)
	}
}

func TestEachPartOfARequestRaisesTheBound(t *testing.T) {
	t.Parallel()
	before := budget.Prompt(model.Request{Messages: []model.Message{user("x")}}, budget.Known{})
	for name, r := range map[string]model.Request{
		"an image":  {Messages: []model.Message{{Role: model.RoleUser, Text: "x", Images: []model.Image{{MediaType: "image/png"}}}}},
		"reasoning": {Messages: []model.Message{{Role: model.RoleUser, Text: "x", Reasoning: &model.Reasoning{Items: json.RawMessage(`["thought"]`)}}}},
		"a call id": {Messages: []model.Message{{Role: model.RoleTool, Text: "x", ToolCallID: "call_1"}}},
		"a message": {Messages: []model.Message{user("x"), user("")}},
		"a tool":    {Messages: []model.Message{user("x")}, Tools: []model.Tool{{Name: "t"}}},
		"a schema":  {Messages: []model.Message{user("x")}, Schema: &model.Schema{JSON: json.RawMessage(`{}`)}},
	} {
		require.Greater(t, budget.Prompt(r, budget.Known{}), before, name)
	}
}

func TestACountedBeginningReplacesItsBound(t *testing.T) {
	t.Parallel()
	r := model.Request{Messages: []model.Message{user(strings.Repeat("word ", 10_000)), user("new")}}
	all := budget.Prompt(r, budget.Known{})
	counted := budget.Prompt(r, budget.Known{Messages: 1, Tokens: 20_000})
	require.Less(t, counted, all)
	require.GreaterOrEqual(t, counted, int64(20_000+len("new")))
	require.Equal(t, budget.Prompt(r, budget.Known{Messages: 1, Tokens: 1}), budget.Prompt(r, budget.Known{Messages: 1, Tokens: 2}), "a count that omits cached tokens does not lower it")
	for _, unusable := range []budget.Known{{Messages: 3, Tokens: 5}, {Messages: 1}, {Messages: -1, Tokens: 5}} {
		require.Equal(t, all, budget.Prompt(r, unusable))
	}
}

func TestTheCostIsTheHighestOfAllWaysToCacheAndToReason(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a seeded test
	price := func() float64 { return float64(random.IntN(4)) * random.Float64() * 10 }
	for range 2000 {
		e := model.CatalogueEntry{PriceIn: price(), PriceCached: price(), PriceCacheWrite: price(), PriceOut: price(), PriceReasoning: price()}
		if random.IntN(2) == 0 {
			e.LongContext = &model.LongContext{Above: random.Int64N(10_000), PriceIn: price(), PriceCached: price(), PriceCacheWrite: price(), PriceOut: price()}
		}
		prompt, output := random.Int64N(10_000), random.Int64N(10_000)
		cached := random.Int64N(prompt + 1)
		used := contract.Usage{PromptTokens: prompt, CompletionTokens: random.Int64N(output + 1), CachedTokens: cached, CacheWriteTokens: random.Int64N(prompt - cached + 1)}
		used.ReasoningTokens = random.Int64N(used.CompletionTokens + 1)
		require.LessOrEqual(t, model.Cost(used, e), budget.Cost(prompt, output, e), "%+v at %+v", used, e)
	}
}

func TestTheOutputThatIsAffordableIsTheMostThatFits(t *testing.T) {
	t.Parallel()
	cost := func(n int64) int64 { return 100 + 3*n }
	for micros, most := range map[int64]int64{99: -1, 100: 0, 102: 0, 103: 1, 160: 20, 400: 100, 1000: 100} {
		require.Equal(t, most, budget.Affordable(micros, 100, cost), micros)
	}
	require.EqualValues(t, -1, budget.Affordable(1000, -1, cost))
}

func TestTheOutputLimitIsAtMostTheModels(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 700, budget.Output(16_384, model.CatalogueEntry{MaxOutput: 700}))
	require.EqualValues(t, 300, budget.Output(300, model.CatalogueEntry{MaxOutput: 700}))
	require.EqualValues(t, 300, budget.Output(300, model.CatalogueEntry{}))
}
