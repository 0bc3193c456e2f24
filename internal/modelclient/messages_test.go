package modelclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// recorded is a request as a provider got it.
type recorded struct {
	path   string
	header http.Header
	body   map[string]any
}

// sent returns the request that a client of Anthropic's API makes.
func sent(t *testing.T, entry model.CatalogueEntry, req model.Request) recorded {
	t.Helper()
	var got recorded
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.path, got.header = r.URL.Path, r.Header.Clone()
		_ = json.NewDecoder(r.Body).Decode(&got.body)
		answer(http.StatusOK, `{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)(w, r)
	})
	entry.Provider, entry.Model = "p", "m"
	c, err := New([]model.Provider{{Name: "p", Kind: model.KindAnthropic, BaseURL: url, APIKeyEnv: "KEY", Headers: map[string]string{"X-Title": "rocket"}}},
		model.Catalogue{entry}, Options{Getenv: func(string) string { return "the-key" }})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.Complete(t.Context(), req)
	require.NoError(t, err)
	return got
}

func TestAnthropicGetsItsOwnHeadersAndLimits(t *testing.T) {
	t.Parallel()
	req := question()
	req.IdempotencyKey = "run-42/turn-1"
	temperature := 1.7
	req.Choice.Temperature = &temperature
	got := sent(t, model.CatalogueEntry{MaxOutput: 700}, req)
	require.Equal(t, "/v1/messages", got.path)
	for name, want := range map[string]string{
		"X-Api-Key": "the-key", "Authorization": "", "Anthropic-Version": "2023-06-01", "X-Title": "rocket", "X-RGPT-Run": "42",
		"Idempotency-Key": "run-42/turn-1", "User-Agent": "rocketgpt-orchestrator",
	} {
		require.Equal(t, want, got.header.Get(name), name)
	}
	require.EqualValues(t, 700, got.body["max_tokens"], "the API requires a limit")
	require.InDelta(t, 1, got.body["temperature"], 0, "its scale ends at 1")
	require.Equal(t, true, got.body["stream"])
	require.Equal(t, []any{map[string]any{"type": "text", "text": "You are a planner.", "cache_control": map[string]any{"type": "ephemeral"}}}, got.body["system"])

	req.MaxOutput = 300
	got = sent(t, model.CatalogueEntry{MaxOutput: 700, Capabilities: []model.Capability{model.CapabilityFixedTemperature}}, req)
	require.EqualValues(t, 300, got.body["max_tokens"])
	require.NotContains(t, got.body, "temperature")
	req.MaxOutput = 0
	require.EqualValues(t, 8192, sent(t, model.CatalogueEntry{}, req).body["max_tokens"], "an unknown model")
}

func TestAnthropicGetsSchemasInTheFormThatItEnforces(t *testing.T) {
	t.Parallel()
	schema := model.SchemaOf[struct {
		Text  string `json:"text" jsonschema:"maxLength=5,description=a word"`
		Count int    `json:"count" jsonschema:"minimum=1"`
	}]()
	req := question()
	req.Schema, req.Strict = &schema, true
	req.Tools = []model.Tool{{Name: "read", Parameters: json.RawMessage(`{"type":"object","properties":{"maximum":{"type":"string","maxLength":9}}}`)}}
	got := sent(t, model.CatalogueEntry{Capabilities: []model.Capability{model.CapabilityJSONSchema}}, req)
	format := got.body["output_config"].(map[string]any)["format"].(map[string]any)
	require.Equal(t, "json_schema", format["type"])
	properties := format["schema"].(map[string]any)["properties"].(map[string]any)
	require.Equal(t, map[string]any{"type": "string", "description": "a word (maxLength: 5)"}, properties["text"])
	require.Equal(t, map[string]any{"type": "integer", "description": "(minimum: 1)"}, properties["count"])
	tool := got.body["tools"].([]any)[0].(map[string]any)
	require.Equal(t, true, tool["strict"])
	input := tool["input_schema"].(map[string]any)
	require.Equal(t, []any{"maximum"}, input["required"], "the strict form, whatever a property is called")
	require.Equal(t, false, input["additionalProperties"])
	require.Equal(t, "any", got.body["tool_choice"].(map[string]any)["type"])

	got = sent(t, model.CatalogueEntry{}, req)
	require.NotContains(t, got.body, "output_config")
	require.Contains(t, got.body["system"].([]any)[0].(map[string]any)["text"], "Respond with one JSON document")
}

func TestAConversationTakesTheFormThatAnthropicRequires(t *testing.T) {
	t.Parallel()
	req := question()
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, Text: " ", ToolCalls: []model.ToolCall{{ID: "functions.read:0", Name: "read", Arguments: "{}"}, {ID: "b", Name: "read", Arguments: `{"z":1,"a":2}`}}},
		model.Message{Role: model.RoleTool, ToolCallID: "functions.read:0", Text: "one"}, model.Message{Role: model.RoleTool, ToolCallID: "b"},
		model.Message{Role: model.RoleUser, Text: ""}, model.Message{Role: model.RoleUser, Text: "go on"}, model.Message{Role: model.RoleSystem, Text: "a later rule"})
	messages := sent(t, model.CatalogueEntry{}, req).body["messages"].([]any)
	require.Len(t, messages, 3, "both sides in turn")
	calls := messages[1].(map[string]any)["content"].([]any)
	require.Len(t, calls, 2, "no text of white space")
	require.Equal(t, "functions_read_0", calls[0].(map[string]any)["id"])
	require.Equal(t, map[string]any{"z": 1.0, "a": 2.0}, calls[1].(map[string]any)["input"])
	var kinds []any
	for _, b := range messages[2].(map[string]any)["content"].([]any) {
		kinds = append(kinds, b.(map[string]any)["type"])
	}
	require.Equal(t, []any{"tool_result", "tool_result", "text", "text"}, kinds)
	require.Equal(t, "functions_read_0", messages[2].(map[string]any)["content"].([]any)[0].(map[string]any)["tool_use_id"])
}

// chat lets a builder call a tool for some turns, and returns the usage and the prompts in all.
func chat(t *testing.T, c *Client, turns int) contract.Usage {
	t.Helper()
	req := question()
	req.Messages[0].Text = strings.Repeat("You build software with care. ", 400) // a system prompt with facts of a repository
	req.Tools = []model.Tool{{Name: "read_file", Description: "reads", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}}
	var all contract.Usage
	for turn := range turns {
		req.Headers.Turn = turn + 1
		r, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		all = all.Add(r.Usage)
		req.Messages = append(req.Messages, r.Message())
		for _, call := range r.ToolCalls {
			req.Messages = append(req.Messages, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: fmt.Sprintf("file %d: %s", turn, strings.Repeat("package main ", 120))})
		}
	}
	return all
}

const readsOn = "rules:\n  - reply: {text: next, reasoning: I need another file, tool_calls: [{name: read_file, arguments: {path: a}}, {name: read_file, arguments: {path: b}}]}\n"

func TestALongConversationIsReadFromTheCache(t *testing.T) {
	t.Parallel()
	overEachWire(t, readsOn, func(t *testing.T, c *Client, log string, _ bool) {
		u := chat(t, c, 20)
		require.GreaterOrEqual(t, float64(u.CachedTokens), 0.85*float64(u.PromptTokens), "%+v", u)
		entry, _ := c.Entry(contract.ModelChoice{Provider: "p", Model: "m"})
		fresh := u
		fresh.CachedTokens, fresh.CacheWriteTokens = 0, 0
		require.Less(t, float64(model.Cost(u, entry)), 0.4*float64(model.Cost(fresh, entry)), "%+v", u)
		lines, err := scripted.ReadLog(log)
		require.NoError(t, err)
		var cached, written int64
		for _, l := range lines {
			cached, written = cached+l.CachedTokens, written+l.CacheWriteTokens
		}
		require.Equal(t, []int64{cached, written}, []int64{u.CachedTokens, u.CacheWriteTokens}, "as the provider counts")
	})
}

func TestWhatAnthropicThoughtIsKeptForItselfOnly(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"streamed": true, "in one piece": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := wireClient(t, anthropicWire, readsOn)
			if !stream {
				c.providers["p"].complete.Store("m", true)
			}
			req := question()
			r, err := c.Complete(t.Context(), req)
			require.NoError(t, err)
			require.Contains(t, string(r.Reasoning.Items), "I need another file")
			results := []model.Message{{Role: model.RoleTool, ToolCallID: r.ToolCalls[0].ID, Text: "a"}, {Role: model.RoleTool, ToolCallID: r.ToolCalls[1].ID, Text: "b"}}
			stored, err := json.Marshal(append(append(req.Messages, r.Message()), results...)) // as the database keeps it
			require.NoError(t, err)
			req.Messages = nil
			require.NoError(t, json.Unmarshal(stored, &req.Messages))
			_, err = c.Complete(t.Context(), req)
			require.NoError(t, err, "the provider checks the signature")

			req.Messages[2].Reasoning.Items = json.RawMessage(strings.Replace(string(r.Reasoning.Items), "another", "a better", 1))
			_, err = c.Complete(t.Context(), req)
			_ = requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
			req.Choice.Model = "m2"
			_, err = c.Complete(t.Context(), req)
			require.NoError(t, err, "another model gets none of it")
			other, _ := wireClient(t, chatWire, readsOn)
			_, err = other.Complete(t.Context(), req)
			require.NoError(t, err)
		})
	}
}

// anthropicStream is a response with every kind of event.
var anthropicStream = []string{
	`{"type":"message_start","message":{"type":"message","role":"assistant","model":"m-1","content":[],"usage":{"input_tokens":7,"cache_read_input_tokens":20,"cache_creation_input_tokens":3,"output_tokens":1}}}`,
	`{"type":"ping"}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"abc"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"secret"}}`,
	`{"type":"content_block_stop","index":1}`,
	`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hello"}}`,
	`{"type":"content_block_stop","index":2}`,
	`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"read","input":{}}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"p\":"}}`,
	`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
	`{"type":"content_block_stop","index":3}`,
	`{"type":"something_new","x":1}`,
	`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":30,"output_tokens_details":{"thinking_tokens":12}}}`,
	`{"type":"message_stop"}`,
}

// namedEvents responds with events that have names, as Anthropic's API does.
func namedEvents(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			var e struct {
				Type string `json:"type"`
			}
			_ = json.Unmarshal([]byte(d), &e)
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, d)
		}
	}
}

func anthropicClient(t *testing.T, url string, opts Options) *Client {
	t.Helper()
	opts.Getenv = func(string) string { return "a-key" }
	return newClient(t, model.Provider{Kind: model.KindAnthropic, BaseURL: url, APIKeyEnv: "KEY"}, opts)
}

func TestAStreamOfAnthropicIsReadEventByEvent(t *testing.T) {
	t.Parallel()
	r, err := anthropicClient(t, serve(t, namedEvents(anthropicStream...)), Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, "Hello", r.Text)
	require.Equal(t, "m-1", r.Model)
	require.Equal(t, []model.ToolCall{{ID: "t1", Name: "read", Arguments: `{"p":1}`}}, r.ToolCalls)
	require.Equal(t, "tool_calls", r.FinishReason)
	require.JSONEq(t, `[{"text":"hm","signature":"abc"},{"redacted":"secret"}]`, string(r.Reasoning.Items))
	r.Usage.MicroUSD = 0
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 30, CachedTokens: 20, CacheWriteTokens: 3, CompletionTokens: 30, ReasoningTokens: 12, EstimatedPrice: true}, r.Usage)
}

func TestThoughtsBetweenTextsAndCallsGoBackToAnthropicInTheirPlaces(t *testing.T) {
	t.Parallel()
	const content = `{"type":"thinking","thinking":"one","signature":"s1"},{"type":"text","text":"Let me "},{"type":"text","text":"look."},
		{"type":"thinking","thinking":"two","signature":"s2"},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"redacted_thinking","data":"s3"},
		{"type":"text","text":"And"},{"type":"tool_use","id":"b","name":"f","input":{}}`
	var second recorded
	asked := 0
	c := anthropicClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			answer(http.StatusOK, `{"type":"message","stop_reason":"tool_use","content":[`+content+`]}`)(w, r)
			return
		}
		second = recorded{}
		_ = json.NewDecoder(r.Body).Decode(&second.body)
		answer(http.StatusOK, `{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"ok"}]}`)(w, r)
	}), Options{})
	req := question()
	r, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "Let me look.And", r.Text)
	ask := func(m model.Message, choice string) (blocks []string) {
		next := req
		next.Choice.Model = choice
		next.Messages = append(append([]model.Message{}, req.Messages...), m)
		for _, call := range m.ToolCalls {
			next.Messages = append(next.Messages, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: "1"})
		}
		_, err := c.Complete(t.Context(), next)
		require.NoError(t, err)
		for _, b := range second.body["messages"].([]any)[1].(map[string]any)["content"].([]any) {
			f := b.(map[string]any)
			for _, name := range []string{"text", "signature", "data", "id"} {
				if v, ok := f[name]; ok {
					blocks = append(blocks, fmt.Sprint(v))
				}
			}
		}
		return blocks
	}
	stored, err := json.Marshal(r.Message()) // as the database keeps it
	require.NoError(t, err)
	var m model.Message
	require.NoError(t, json.Unmarshal(stored, &m))
	require.Equal(t, []string{"s1", "Let me look.", "s2", "a", "s3", "And", "b"}, ask(m, "m"))
	require.Equal(t, []string{"Let me look.And", "a", "b"}, ask(m, "m2"), "another model gets none of it")
	shorter := m
	shorter.Text, shorter.ToolCalls = "Let …", m.ToolCalls[:1]
	require.Equal(t, []string{"s1", "Let …", "s2", "a", "s3"}, ask(shorter, "m"), "a turn that was changed since")
	longer := m
	longer.ToolCalls = append(append([]model.ToolCall{}, m.ToolCalls...), model.ToolCall{ID: "c", Name: "f", Arguments: "{}"})
	require.Equal(t, []string{"s1", "Let me look.", "s2", "a", "s3", "And", "b", "c"}, ask(longer, "m"))
}

func TestAStreamOfAnthropicThatBreaksIsNeverAnAnswer(t *testing.T) {
	t.Parallel()
	const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for n := range anthropicStream {
		for name, c := range map[string]struct {
			rest  []string
			class contract.Class
			code  contract.Code
		}{
			"ends":       {nil, contract.ClassInfra, contract.CodeUnavailable},
			"overloaded": {[]string{overloaded}, contract.ClassInfra, contract.CodeUnavailable},
			"garbage":    {[]string{`{"type":"content_block_start","index":`}, contract.ClassLLM, contract.CodeInvalidOutput},
		} {
			if n < 2 && name == "garbage" { // what has no name is skipped
				continue
			}
			events := append(append([]string{}, anthropicStream[:n]...), c.rest...)
			_, err := anthropicClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if name == "garbage" {
					var out bytes.Buffer
					w.Header().Set("Content-Type", "text/event-stream")
					for _, e := range events {
						fmt.Fprintf(&out, "event: content_block_start\ndata: %s\n\n", e)
					}
					_, _ = w.Write(out.Bytes())
					return
				}
				namedEvents(events...)(w, r)
			}), Options{}).Complete(t.Context(), question())
			_ = requireFault(t, err, c.class, c.code)
		}
	}
}

func TestHostileAnswersOfAnthropicAreBounded(t *testing.T) {
	t.Parallel()
	start := anthropicStream[0]
	many := []string{start}
	for i := range 200 {
		many = append(many, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i))
	}
	block := anthropicStream[8]
	for name, c := range map[string]struct {
		events []string
		code   contract.Code
	}{
		"endless blocks":      {many, contract.CodeTruncated},
		"a long text":         {[]string{start, strings.Replace(block, `"index":2`, `"index":0`, 1), `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + strings.Repeat("x", 9000) + `"}}`}, contract.CodeTruncated},
		"a block out of turn": {[]string{start, block}, contract.CodeInvalidOutput},
		"a piece of no block": {[]string{start, `{"type":"content_block_delta","index":-1,"delta":{"type":"text_delta","text":"x"}}`}, contract.CodeInvalidOutput},
		"cut at the limit":    {[]string{start, `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`}, contract.CodeTruncated},
		"a full window":       {[]string{start, `{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`}, contract.CodeTruncated},
		"a refusal":           {[]string{start, `{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":3}}`, `{"type":"message_stop"}`}, contract.CodeRefusal},
	} {
		_, err := anthropicClient(t, serve(t, namedEvents(c.events...)), Options{MaxResponse: 8000}).Complete(t.Context(), question())
		f := requireFault(t, err, contract.ClassLLM, c.code)
		require.NotEmpty(t, f.Message, name)
	}
	absurd := `{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":-4,"cache_read_input_tokens":9223372036854775807,"cache_creation_input_tokens":9223372036854775807,"output_tokens":9223372036854775807}}`
	r, err := anthropicClient(t, serve(t, answer(http.StatusOK, absurd)), Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.EqualValues(t, 1<<40, r.Usage.CachedTokens)
	require.LessOrEqual(t, r.Usage.CachedTokens+r.Usage.CacheWriteTokens, r.Usage.PromptTokens)
	require.Positive(t, r.Usage.MicroUSD)
}
