package modelclient

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// budgeted is a model whose effort is a budget of tokens.
var budgeted = model.CatalogueEntry{MaxOutput: 64000, Capabilities: []model.Capability{model.CapabilityTools, model.CapabilityEffort, model.CapabilityThinkingBudget}}

// thinks returns the budget of a request; 0: none.
func thinks(t *testing.T, got recorded) float64 {
	t.Helper()
	require.NotContains(t, got.body, "output_config")
	thinking, ok := got.body["thinking"].(map[string]any)
	require.Equal(t, ok, strings.Contains(got.header.Get("Anthropic-Beta"), "interleaved-thinking"), "it also thinks between calls of tools")
	if !ok {
		return 0
	}
	require.Equal(t, "enabled", thinking["type"])
	require.NotContains(t, got.body, "temperature")
	return thinking["budget_tokens"].(float64)
}

func TestTheEffortOfOlderModelsOfAnthropicIsABudgetWithinTheOutputLimit(t *testing.T) {
	t.Parallel()
	ask := func(effort contract.Effort, limit int64) recorded {
		req := question()
		temperature := 0.5
		req.Choice.Effort, req.MaxOutput, req.Choice.Temperature = effort, limit, &temperature
		return sent(t, budgeted, req)
	}
	for effort, want := range map[contract.Effort]float64{"": 0, contract.EffortLow: 1024, contract.EffortMedium: 8192, contract.EffortHigh: 24576} {
		require.InDelta(t, want, thinks(t, ask(effort, 60000)), 0, effort)
	}
	require.InDelta(t, 0.5, ask("", 60000).body["temperature"], 0)
	for limit, want := range map[int64]float64{16000: 8000, 2048: 1024, 1280: 1024, 1279: 0, 100: 0} {
		got := ask(contract.EffortHigh, limit)
		require.InDelta(t, want, thinks(t, got), 0, limit)
		require.InDelta(t, float64(limit), got.body["max_tokens"], 0, "the reservation covers the budget")
	}
	native := budgeted.WithCapability(model.CapabilityThinkingBudget, false)
	req := question()
	req.Choice.Effort = contract.EffortHigh
	body := sent(t, native, req).body
	require.NotContains(t, body, "thinking")
	require.Equal(t, map[string]any{"effort": "high"}, body["output_config"])
}

func TestABudgetIsLeftOutWhereAnthropicWouldRejectIt(t *testing.T) {
	t.Parallel()
	thought := func(text string) *model.Reasoning {
		return &model.Reasoning{API: "anthropic-messages", Model: "m", Items: json.RawMessage(`[{"text":"` + text + `","signature":"s"}]`)}
	}
	turn := func(id string, r *model.Reasoning) []model.Message {
		return []model.Message{
			{Role: model.RoleAssistant, Reasoning: r, ToolCalls: []model.ToolCall{{ID: id, Name: "look", Arguments: "{}"}}},
			{Role: model.RoleTool, ToolCallID: id, Text: "seen"},
		}
	}
	conversation := func(parts ...[]model.Message) model.Request {
		req := question()
		req.Choice.Effort, req.MaxOutput = contract.EffortLow, 4000
		req.Tools = []model.Tool{{Name: "look"}}
		for _, p := range parts {
			req.Messages = append(req.Messages, p...)
		}
		return req
	}
	more := []model.Message{{Role: model.RoleUser, Text: "And now?"}}
	for name, tc := range map[string]struct {
		req  model.Request
		want float64
	}{
		"the first turn":             {conversation(), 1024},
		"begun with thinking":        {conversation(turn("a", thought("hm")), turn("b", nil)), 1024},
		"begun without":              {conversation(turn("a", nil), turn("b", thought("hm"))), 0},
		"by another model":           {conversation(turn("a", &model.Reasoning{API: "anthropic-messages", Model: "other", Items: json.RawMessage(`[{"text":"x","signature":"s"}]`)})), 0},
		"a new turn of a person":     {conversation(turn("a", nil), []model.Message{{Role: model.RoleAssistant, Text: "done"}}, more), 1024},
		"a person between the tools": {conversation(turn("a", nil), more), 0}, // the results and the text are one message
	} {
		require.InDelta(t, tc.want, thinks(t, sent(t, budgeted, tc.req)), 0, name)
	}
	strict := conversation()
	strict.Strict = true
	strict.Tools[0].Parameters = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	require.Zero(t, thinks(t, sent(t, budgeted, strict)), "a tool must be called")
}

func TestABudgetIsKeptAcrossTheTurnsOfTools(t *testing.T) {
	t.Parallel()
	for _, p := range []model.Provider{anthropicWire, bedrockWire, vertexWire} {
		for _, streamed := range []bool{true, false} {
			// The scripted model has no effort, and checks budgets and signatures as the provider does.
			c, _ := wireClient(t, p, "models: [{name: m, lacks: [effort]}]\n"+readsOn)
			entry := budgeted
			entry.Provider, entry.Model = "p", "m"
			c.SetCatalogue(model.Catalogue{entry})
			if !streamed {
				c.providers["p"].complete.Store("m", true)
			}
			req := question()
			req.Choice.Effort, req.MaxOutput, req.Tools = contract.EffortMedium, 20000, []model.Tool{{Name: "read_file"}}
			for range 4 {
				r, err := c.Complete(t.Context(), req)
				require.NoError(t, err)
				require.NotNil(t, r.Reasoning)
				req.Messages = append(req.Messages, r.Message())
				for _, call := range r.ToolCalls {
					req.Messages = append(req.Messages, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: "a"})
				}
			}
		}
	}
}

var openRouterWire = model.Provider{Kind: model.KindOpenRouter}

func TestWhatAModelAtOpenRouterThoughtIsKeptForItselfOnly(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"streamed": true, "in one piece": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := wireClient(t, openRouterWire, strings.Replace(readsOn, "I need another file", strings.Repeat("I need another file. ", 20), 1))
			if !stream {
				c.providers["p"].complete.Store("m", true)
			}
			req := question()
			for range 3 {
				r, err := c.Complete(t.Context(), req)
				require.NoError(t, err, "the provider checks the signature")
				require.Contains(t, string(r.Reasoning.Items), strings.Repeat("I need another file. ", 19), "its pieces are one text")
				req.Messages = append(req.Messages, r.Message())
				for _, call := range r.ToolCalls {
					req.Messages = append(req.Messages, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: "a"})
				}
				stored, err := json.Marshal(req.Messages) // as the database keeps it
				require.NoError(t, err)
				req.Messages = nil
				require.NoError(t, json.Unmarshal(stored, &req.Messages))
			}
			thought := req.Messages[2].Reasoning
			thought.Items = json.RawMessage(strings.Replace(string(thought.Items), "another", "a better", 1))
			_, err := c.Complete(t.Context(), req)
			_ = requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
			req.Choice.Model = "m2"
			_, err = c.Complete(t.Context(), req)
			require.NoError(t, err, "another model gets none of it")
			other, _ := wireClient(t, anthropicWire, readsOn)
			_, err = other.Complete(t.Context(), req)
			require.NoError(t, err)
		})
	}
}

func TestReasoningDetailsGoBackAsTheyCame(t *testing.T) {
	t.Parallel()
	const encrypted = `{"type":"reasoning.encrypted","data":"AbC=","id":"r1","index":1,"new_field":{"b":1,"a":[2]}}`
	const summary = `{"type":"reasoning.summary","summary":"I looked.","id":null,"index":0}`
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		want string
	}{
		"in one piece": {answer(http.StatusOK, `{"choices":[{"message":{"content":"ok","reasoning_details":[`+summary+`,`+encrypted+`]},"finish_reason":"stop"}]}`), `[` + summary + `,` + encrypted + `]`},
		"streamed": {events(
			`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"I ","index":0}]}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"looked.","index":0}]}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"","id":"s","index":0}]}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_details":[`+encrypted+`]}}]}`,
			`{"choices":[{"index":0,"delta":{"reasoning_details":[`+encrypted+`]}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"ok","reasoning_details":null},"finish_reason":"stop"}]}`, "[DONE]",
		), `[{"id":"s","index":0,"summary":"I looked.","type":"reasoning.summary"},` + encrypted + `,` + encrypted + `]`},
		"of another form": {answer(http.StatusOK, `{"choices":[{"message":{"content":"ok","reasoning_details":{"text":"hm"}},"finish_reason":"stop"}]}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sentBack json.RawMessage
			first := true
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if first {
					first = false
					tc.h(w, r)
					return
				}
				var body struct {
					Messages []struct {
						Details json.RawMessage `json:"reasoning_details"`
					} `json:"messages"`
				}
				_ = json.NewDecoder(r.Body).Decode(&body)
				sentBack = body.Messages[2].Details
				answer(http.StatusOK, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
			})
			c := newClient(t, model.Provider{Kind: model.KindOpenRouter, BaseURL: url, APIKeyEnv: "KEY"}, Options{Getenv: func(string) string { return "a-key" }})
			req := question()
			r, err := c.Complete(t.Context(), req)
			require.NoError(t, err)
			req.Messages = append(req.Messages, r.Message(), model.Message{Role: model.RoleUser, Text: "Go on."})
			_, err = c.Complete(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(sentBack), "to the byte")
		})
	}
}

func TestEndlessReasoningDetailsAreBounded(t *testing.T) {
	t.Parallel()
	piece := `{"choices":[{"index":0,"delta":{"reasoning_details":[{},{},{},{},{},{},{},{}]}}]}`
	all := make([]string, 500)
	for i := range all {
		all[i] = piece
	}
	_, err := newClient(t, model.Provider{BaseURL: serve(t, events(all...))}, Options{MaxResponse: 8000}).Complete(t.Context(), question())
	_ = requireFault(t, err, contract.ClassLLM, contract.CodeTruncated)
}
