package modelclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

const fineResponse = `{"id":"r","object":"response","status":"completed","model":"m-1","output":[{"type":"message","id":"msg","role":"assistant","content":[{"type":"output_text","text":"ok"}]}],"usage":{"input_tokens":1,"output_tokens":1}}`

// askedOf returns the request that a provider gets.
func askedOf(t *testing.T, p model.Provider, entry model.CatalogueEntry, response string, req model.Request) recorded {
	t.Helper()
	var got recorded
	p.BaseURL = serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.path, got.header = r.URL.Path, r.Header.Clone()
		_ = json.NewDecoder(r.Body).Decode(&got.body)
		answer(http.StatusOK, response)(w, r)
	})
	p.Name, p.APIKeyEnv = "p", "KEY"
	entry.Provider, entry.Model = "p", "m"
	c, err := New([]model.Provider{p}, model.Catalogue{entry}, Options{Getenv: func(string) string { return "the-key" }})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.Complete(t.Context(), req)
	require.NoError(t, err)
	return got
}

func responsesClient(t *testing.T, url string, opts Options) *Client {
	t.Helper()
	return newClient(t, model.Provider{Kind: model.KindCompatible, API: model.APIResponses, BaseURL: url}, opts)
}

var (
	openAI    = model.Provider{Kind: model.KindOpenAI, API: model.APIResponses}
	reasoning = model.CatalogueEntry{MaxOutput: 700, Capabilities: []model.Capability{model.CapabilityEffort, model.CapabilityFixedTemperature, model.CapabilityJSONSchema}}
)

func TestResponsesKeepsNothingAtTheProvider(t *testing.T) {
	t.Parallel()
	temperature := 0.3
	req := question()
	req.Choice.Temperature, req.Choice.Effort = &temperature, contract.EffortHigh
	req.IdempotencyKey = "run-42/turn-1"
	got := askedOf(t, openAI, reasoning, fineResponse, req)
	require.Equal(t, "/v1/responses", got.path)
	require.Equal(t, "Bearer the-key", got.header.Get("Authorization"))
	require.Equal(t, "run-42/turn-1", got.header.Get("Idempotency-Key"))
	require.Equal(t, "42", got.header.Get("X-RGPT-Run"))
	require.Equal(t, false, got.body["store"])
	require.Equal(t, []any{"reasoning.encrypted_content"}, got.body["include"])
	require.Equal(t, map[string]any{"effort": "high"}, got.body["reasoning"])
	require.NotContains(t, got.body, "temperature")
	require.NotContains(t, got.body, "max_output_tokens", "no limit was asked for")
	require.Equal(t, true, got.body["stream"])
	require.NotContains(t, got.body, "stream_options")
	require.Equal(t, "You are a planner.", got.body["instructions"])
	require.Equal(t, []any{map[string]any{"role": "user", "content": "Add a dark mode."}}, got.body["input"])

	req.MaxOutput = 5000
	got = askedOf(t, openAI, model.CatalogueEntry{MaxOutput: 700}, fineResponse, req)
	require.EqualValues(t, 700, got.body["max_output_tokens"], "no more than the model can do")
	require.NotContains(t, got.body, "include", "a model that does not reason rejects it")
	require.NotContains(t, got.body, "reasoning")
	require.InDelta(t, 0.3, got.body["temperature"], 1e-9)
}

func TestAzureGetsItsKeyInAHeaderOfItsOwn(t *testing.T) {
	t.Parallel()
	for api, path := range map[model.API]string{"": "/v1/responses", model.APIChat: "/v1/chat/completions"} {
		response := map[bool]string{true: fineResponse, false: `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`}[api == ""]
		req := question()
		req.MaxOutput, req.Strict = 500, true
		req.Tools = []model.Tool{{Name: "read"}}
		got := askedOf(t, model.Provider{Kind: model.KindAzure, API: api}, model.CatalogueEntry{}, response, req)
		require.Equal(t, path, got.path)
		require.Equal(t, "the-key", got.header.Get("Api-Key"))
		require.Empty(t, got.header.Get("Authorization"))
		require.Equal(t, false, got.body["parallel_tool_calls"])
		if api == model.APIChat {
			require.EqualValues(t, 500, got.body["max_completion_tokens"])
		}
	}
}

func TestAllTurnsOfAConversationShareACacheKey(t *testing.T) {
	t.Parallel()
	key := func(change func(*model.Identity)) any {
		req := question()
		change(&req.Headers)
		return askedOf(t, openAI, reasoning, fineResponse, req).body["prompt_cache_key"]
	}
	first := key(func(*model.Identity) {})
	require.Len(t, first, len("rgpt-")+32)
	require.Equal(t, first, key(func(i *model.Identity) { i.Turn = 9 }))
	for name, change := range map[string]func(*model.Identity){
		"run": func(i *model.Identity) { i.Run++ }, "agent": func(i *model.Identity) { i.Agent = "builder" }, "step": func(i *model.Identity) { i.Step = "step-001" },
		"attempt": func(i *model.Identity) { i.Attempt++ }, "phase": func(i *model.Identity) { i.Phase = "" },
	} {
		require.NotEqual(t, first, key(change), name)
	}
	require.Nil(t, key(func(i *model.Identity) { *i = model.Identity{Turn: 3} }), "nothing is known about the caller")
}

func TestResponsesEnforcesSchemas(t *testing.T) {
	t.Parallel()
	schema := model.SchemaOf[struct {
		Zebra string `json:"zebra"`
		Apple int    `json:"apple"`
	}]()
	req := question()
	req.Schema, req.Strict = &schema, true
	req.Tools = []model.Tool{{Name: "read", Description: "reads", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","maxLength":9}}}`)}}
	var raw json.RawMessage
	for _, strict := range []bool{true, false} {
		req.Strict = strict
		got := askedOf(t, openAI, reasoning, fineResponse, req)
		format := got.body["text"].(map[string]any)["format"].(map[string]any)
		require.Equal(t, "json_schema", format["type"])
		require.Equal(t, true, format["strict"])
		tool := got.body["tools"].([]any)[0].(map[string]any)
		require.Equal(t, []any{"function", "read", "reads"}, []any{tool["type"], tool["name"], tool["description"]})
		require.Equal(t, strict, tool["strict"], "without a value, the API decides by itself")
		if !strict {
			require.NotContains(t, got.body, "tool_choice")
			continue
		}
		require.Equal(t, []any{"path"}, tool["parameters"].(map[string]any)["required"])
		require.Equal(t, "required", got.body["tool_choice"])
		require.Equal(t, false, got.body["parallel_tool_calls"])
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Text struct {
				Format struct{ Schema json.RawMessage }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		raw = body.Text.Format.Schema
		answer(http.StatusOK, fineResponse)(w, r)
	})
	_, err := responsesClient(t, url, Options{}).Complete(t.Context(), req)
	require.NoError(t, err)
	require.Less(t, strings.Index(string(raw), "zebra"), strings.Index(string(raw), "apple"), "the order in which the model writes: %s", raw)

	got := askedOf(t, openAI, model.CatalogueEntry{}, fineResponse, req)
	require.NotContains(t, got.body, "text")
	require.Contains(t, got.body["instructions"], "Respond with one JSON document")
	req.Schema.JSON = json.RawMessage(`[]`)
	_, err = responsesClient(t, url, Options{}).Complete(t.Context(), req)
	_ = requireFault(t, err, contract.ClassRuntime, contract.CodeUnknown)
}

// itemsOf returns what identifies each item of a request's input.
func itemsOf(got recorded) []string {
	var out []string
	for _, i := range got.body["input"].([]any) {
		item := i.(map[string]any)
		switch item["type"] {
		case "function_call", "function_call_output":
			out = append(out, fmt.Sprint(item["type"], " ", item["call_id"]))
		case "reasoning":
			out = append(out, fmt.Sprint("reasoning ", item["id"]))
		default:
			phase := ""
			if p, ok := item["phase"]; ok {
				phase = fmt.Sprint(" (", p, ")")
			}
			out = append(out, fmt.Sprint(item["role"], phase, ": ", item["content"]))
		}
	}
	return out
}

func TestAConversationBecomesItems(t *testing.T) {
	t.Parallel()
	call := func(id string) model.ToolCall { return model.ToolCall{ID: id, Name: "read", Arguments: "{}"} }
	long := strings.Repeat("x", 100)
	req := question()
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, Text: "let me look", ToolCalls: []model.ToolCall{call("call_0"), call("b")}},
		model.Message{Role: model.RoleTool, ToolCallID: "b", Text: "two"}, model.Message{Role: model.RoleTool, ToolCallID: "call_0", Text: "one"},
		model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{call("call_0"), call(long)}},
		model.Message{Role: model.RoleTool, ToolCallID: "call_0"}, model.Message{Role: model.RoleTool, ToolCallID: long},
		model.Message{Role: model.RoleAssistant}, model.Message{Role: model.RoleSystem, Text: "a later rule"}, model.Message{Role: model.RoleUser, Text: "go on"})
	items := itemsOf(askedOf(t, openAI, reasoning, fineResponse, req))
	short := strings.TrimPrefix(items[7], "function_call ")
	require.Len(t, short, len("call_")+32, "the API accepts 64 characters")
	require.Equal(t, []string{
		"user: Add a dark mode.", "assistant: let me look", "function_call call_0", "function_call b", "function_call_output b", "function_call_output call_0",
		"function_call call_0_2", "function_call " + short, "function_call_output call_0_2", "function_call_output " + short,
		"system: a later rule", "user: go on",
	}, items, "ids that other providers repeat are unique")
}

func TestWhatAModelThoughtIsReturnedToItUnchanged(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]bool{"streamed": true, "in one piece": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := wireClient(t, responsesWire, readsOn)
			if !stream {
				c.providers["p"].complete.Store("m", true)
			}
			req := question()
			for turn := range 4 { // the scripted model verifies each
				req.Headers.Turn = turn + 1
				r, err := c.Complete(t.Context(), req)
				require.NoError(t, err)
				require.Positive(t, r.Usage.ReasoningTokens)
				require.Len(t, r.ToolCalls, 2)
				require.NotContains(t, string(r.Reasoning.Items), "another file", "it is encrypted")
				stored, err := json.Marshal(append(req.Messages, r.Message(), // as the database keeps it
					model.Message{Role: model.RoleTool, ToolCallID: r.ToolCalls[0].ID, Text: "a"}, model.Message{Role: model.RoleTool, ToolCallID: r.ToolCalls[1].ID, Text: "b"}))
				require.NoError(t, err)
				req.Messages = nil
				require.NoError(t, json.Unmarshal(stored, &req.Messages))
			}
			other := req
			other.Choice.Model = "m2"
			_, err := c.Complete(t.Context(), other)
			require.NoError(t, err, "another model gets none of it")
			for _, wire := range []model.Provider{chatWire, anthropicWire} {
				c, _ := wireClient(t, wire, readsOn)
				_, err = c.Complete(t.Context(), req)
				require.NoError(t, err, "another API gets none of it")
			}
			req.Messages[2].Reasoning.Items = json.RawMessage(strings.Replace(string(req.Messages[2].Reasoning.Items), "gAAAA", "gAAAAb", 1))
			_, err = c.Complete(t.Context(), req)
			_ = requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
		})
	}
}

// responsesStream is a response with every kind of event, and items in an order of their own.
var responsesStream = []string{
	`{"type":"response.created","sequence_number":0,"response":{"id":"r","object":"response","status":"in_progress","model":"m-1","error":null,"output":[]}}`,
	`{"type":"response.in_progress","sequence_number":1,"response":{"id":"r","object":"response","status":"in_progress","model":"m-1","output":[]}}`,
	`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`,
	`{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"hm"}`,
	`{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"AAA"}}`,
	`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","phase":"commentary","content":[]}}`,
	`{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`,
	`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Let me "}`,
	`{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"look."}`,
	`{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"Let me look."}`,
	`{"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"Let me look.","annotations":[]}]}}`,
	`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"","status":"in_progress"}}`,
	`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\"p\":"}`,
	`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"1}"}`,
	`{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,"arguments":"{\"p\":1}"}`,
	`{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"read","arguments":"{\"p\":1}","status":"completed"}}`,
	`{"type":"response.output_item.added","output_index":3,"item":{"type":"reasoning","id":"rs_2","summary":[]}}`,
	`{"type":"response.output_item.done","output_index":3,"item":{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"BBB","status":null}}`,
	`{"type":"response.output_item.added","output_index":4,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"read","arguments":"","status":"in_progress"}}`,
	`{"type":"response.output_item.done","output_index":4,"item":{"type":"function_call","id":"fc_2","call_id":"c2","name":"read","arguments":"{}","status":"completed"}}`,
	`{"type":"response.output_item.added","output_index":5,"item":{"type":"message","id":"msg_2","role":"assistant","content":[]}}`,
	`{"type":"response.output_item.done","output_index":5,"item":{"type":"message","id":"msg_2","role":"assistant","content":[{"type":"output_text","text":"Both."}]}}`,
	`{"type":"response.something_new","x":1}`,
	`{"type":"response.completed","response":{"id":"r","object":"response","status":"completed","model":"m-1","error":null,"output":[],"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20,"cache_write_tokens":3},"output_tokens":30,"output_tokens_details":{"reasoning_tokens":12},"total_tokens":60}}}`,
}

func TestAStreamOfResponsesIsReadEventByEvent(t *testing.T) {
	t.Parallel()
	var second recorded
	first := true
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if first {
			first = false
			namedEvents(responsesStream...)(w, r)
			return
		}
		_ = json.NewDecoder(r.Body).Decode(&second.body)
		answer(http.StatusOK, fineResponse)(w, r)
	})
	c := responsesClient(t, url, Options{})
	req := question()
	r, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "Let me look.\n\nBoth.", r.Text)
	require.Equal(t, "m-1", r.Model)
	require.Equal(t, []model.ToolCall{{ID: "c1", Name: "read", Arguments: `{"p":1}`}, {ID: "c2", Name: "read", Arguments: `{}`}}, r.ToolCalls)
	require.Equal(t, "tool_calls", r.FinishReason)
	r.Usage.MicroUSD = 0
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 30, CachedTokens: 20, CacheWriteTokens: 3, CompletionTokens: 30, ReasoningTokens: 12, EstimatedPrice: true}, r.Usage)

	results := []model.Message{{Role: model.RoleTool, ToolCallID: "c1", Text: "1"}, {Role: model.RoleTool, ToolCallID: "c2", Text: "2"}}
	ask := func(m model.Message) []string {
		next := req
		next.Messages = append(append(append([]model.Message{}, req.Messages...), m), results...)
		_, err := c.Complete(t.Context(), next)
		require.NoError(t, err)
		return itemsOf(second)[1:]
	}
	outputs := []string{"function_call_output c1", "function_call_output c2"}
	require.Equal(t, append([]string{
		"reasoning rs_1", "assistant (commentary): Let me look.", "function_call c1", "reasoning rs_2", "function_call c2", "assistant: Both.",
	}, outputs...), ask(r.Message()), "in the model's own order")
	thought := second.body["input"].([]any)[1].(map[string]any)
	require.Equal(t, map[string]any{"type": "reasoning", "id": "rs_1", "summary": []any{map[string]any{"type": "summary_text", "text": "hm"}}, "encrypted_content": "AAA"}, thought)

	require.Equal(t, "openai-responses p", r.Reasoning.API)
	foreign := r.Message()
	foreign.Reasoning = &model.Reasoning{API: "openai-responses q", Model: "m", Items: r.Reasoning.Items}
	require.Equal(t, append([]string{"assistant: Let me look.\n\nBoth.", "function_call c1", "function_call c2"}, outputs...), ask(foreign), "another provider cannot decrypt it")
	shortened := r.Message()
	shortened.Text = "Let me"
	require.Equal(t, append([]string{
		"reasoning rs_1", "assistant (commentary): Let me", "function_call c1", "reasoning rs_2", "function_call c2",
	}, outputs...), ask(shortened), "a text that was changed since")
	results = results[:1]
	fewer := r.Message()
	fewer.Text, fewer.ToolCalls = "", fewer.ToolCalls[:1]
	items := ask(fewer)
	require.NotContains(t, items, "reasoning rs_2", "the API rejects thoughts that nothing follows")
	require.Contains(t, items, "reasoning rs_1")
}

func TestThoughtsThatTheProviderWouldLookUpAreNotKept(t *testing.T) {
	t.Parallel()
	const message = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}`
	for thought, kept := range map[string]bool{
		`{"type":"reasoning","id":"rs_1","summary":[]}`:                                                     false,
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":null}`:                            false,
		`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"}`:                           true,
		`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"open"}]}`: true,
	} {
		url := serve(t, answer(http.StatusOK, `{"status":"completed","output":[`+thought+`,`+message+`]}`))
		r, err := responsesClient(t, url, Options{}).Complete(t.Context(), question())
		require.NoError(t, err)
		require.Equal(t, "ok", r.Text)
		require.Equal(t, kept, r.Reasoning != nil, thought)
	}
}

func TestAStreamOfResponsesThatBreaksIsNeverAnAnswer(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		rest  []string
		class contract.Class
		code  contract.Code
	}{
		"ends":          {nil, contract.ClassInfra, contract.CodeUnavailable},
		"reports":       {[]string{`{"type":"error","code":"server_error","message":"The server had an error","param":null,"sequence_number":9}`}, contract.ClassInfra, contract.CodeUnavailable},
		"reports, old":  {[]string{`{"type":"error","error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"slow"}}`}, contract.ClassInfra, contract.CodeRateLimited},
		"fails":         {[]string{`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"An error occurred"},"output":[]}}`}, contract.ClassInfra, contract.CodeUnavailable},
		"is cancelled":  {[]string{`{"type":"response.completed","response":{"status":"cancelled","output":[]}}`}, contract.ClassLLM, contract.CodeInvalidOutput},
		"garbage":       {[]string{`{"type":"response.output_item.added","output_index":`}, contract.ClassLLM, contract.CodeInvalidOutput},
		"is done early": {[]string{`[DONE]`}, contract.ClassInfra, contract.CodeUnavailable},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range responsesStream {
				stream := append(append([]string{}, responsesStream[:n]...), tc.rest...)
				_, err := responsesClient(t, serve(t, events(stream...)), Options{}).Complete(t.Context(), question())
				_ = requireFault(t, err, tc.class, tc.code)
			}
		})
	}
	t.Run("the connection breaks", func(t *testing.T) {
		t.Parallel()
		for n := range responsesStream {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				events(responsesStream[:n]...)(w, r)
				_ = http.NewResponseController(w).Flush()
				breakConnection(w, r)
			})
			_, err := responsesClient(t, url, Options{}).Complete(t.Context(), question())
			_ = requireFault(t, err, contract.ClassInfra, contract.CodeUnavailable)
		}
	})
}

func TestTheFinalResponseCompletesAStreamThatLeftItemsOpen(t *testing.T) {
	t.Parallel()
	const full = `{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"all of it"}]}],"usage":{"input_tokens":1,"output_tokens":1}}}`
	added := strings.Replace(responsesStream[5], `"output_index":1`, `"output_index":0`, 1)
	for name, stream := range map[string][]string{"nothing but the end": {full}, "an open item": {added, full}} {
		r, err := responsesClient(t, serve(t, events(stream...)), Options{}).Complete(t.Context(), question())
		require.NoError(t, err, name)
		require.Equal(t, "all of it", r.Text, name)
		require.Nil(t, r.Reasoning)
	}
	_, err := responsesClient(t, serve(t, events(added, `{"type":"response.completed","response":{"status":"completed","output":[]}}`)), Options{}).Complete(t.Context(), question())
	_ = requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
}

func TestAResponseThatIsNotCompleteIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	item := `{"type":"message","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"half"}]}`
	refusal := `{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"I can't"}]}`
	response := func(status, details, output string) string {
		return `{"object":"response","status":"` + status + `","incomplete_details":` + details + `,"output":[` + output + `],"usage":{"input_tokens":5,"output_tokens":7}}`
	}
	for name, tc := range map[string]struct {
		response string
		code     contract.Code
		text     string
	}{
		"the output limit": {response("incomplete", `{"reason":"max_output_tokens"}`, item), contract.CodeTruncated, "half"},
		"a filter":         {response("incomplete", `{"reason":"content_filter"}`, item), contract.CodeRefusal, "half"},
		"another reason":   {response("incomplete", `{"reason":"steered"}`, item), contract.CodeTruncated, "half"},
		"no reason":        {response("incomplete", `null`, item), contract.CodeTruncated, "half"},
		"a refusal":        {response("completed", `null`, refusal), contract.CodeRefusal, "I can't"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := map[bool]string{true: "response.completed", false: "response.incomplete"}[strings.Contains(tc.response, `"completed"`)]
			for _, h := range []http.HandlerFunc{answer(http.StatusOK, tc.response), events(`{"type":"` + kind + `","response":` + tc.response + `}`)} {
				r, err := responsesClient(t, serve(t, h), Options{}).Complete(t.Context(), question())
				_ = requireFault(t, err, contract.ClassLLM, tc.code)
				require.Equal(t, tc.text, r.Text)
				require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 5, CompletionTokens: 7, EstimatedPrice: true}, r.Usage, "it costs as much as a good one")
			}
		})
	}
	streamed := append(append([]string{}, responsesStream[:5]...),
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"message","role":"assistant","content":[]}}`,
		`{"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"I ca"}`, `{"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"n't"}`,
		`{"type":"response.output_item.done","output_index":1,"item":`+refusal+`}`, `{"type":"response.completed","response":{"status":"completed","output":[]}}`)
	r, err := responsesClient(t, serve(t, events(streamed...)), Options{}).Complete(t.Context(), question())
	_ = requireFault(t, err, contract.ClassLLM, contract.CodeRefusal)
	require.Equal(t, "I can't", r.Text)
}

func TestAnErrorInsideAResponseDecidesItsCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		class contract.Class
		code  contract.Code
	}{
		"server_error":                   {contract.ClassInfra, contract.CodeUnavailable},
		"server_is_overloaded":           {contract.ClassInfra, contract.CodeUnavailable},
		"rate_limit_exceeded":            {contract.ClassInfra, contract.CodeRateLimited},
		"insufficient_quota":             {contract.ClassInfra, contract.CodeQuotaExhausted},
		"context_length_exceeded":        {contract.ClassLLM, contract.CodeContextOverflow},
		"invalid_prompt":                 {contract.ClassLLM, contract.CodeRefusal},
		"bio_policy":                     {contract.ClassLLM, contract.CodeRefusal},
		"image_content_policy_violation": {contract.ClassLLM, contract.CodeRefusal},
		"invalid_image_format":           {contract.ClassConfig, contract.CodeBadRequest},
		"model_not_found":                {contract.ClassConfig, contract.CodeModelNotFound},
		"something_new":                  {contract.ClassInfra, contract.CodeUnavailable},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			failed := `{"status":"failed","object":"response","error":{"code":"` + code + `","message":"it went wrong"},"output":[]}`
			for _, h := range []http.HandlerFunc{
				answer(http.StatusOK, failed), answer(http.StatusOK, `{"error":{"code":"`+code+`","message":"it went wrong"}}`),
				events(`{"type":"response.failed","response":` + failed + `}`), events(`{"type":"error","code":"` + code + `","message":"it went wrong"}`),
			} {
				var requests atomic.Int32
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					requests.Add(1)
					h(w, r)
				})
				_, err := responsesClient(t, url, Options{}).Complete(t.Context(), question())
				f := requireFault(t, err, want.class, want.code)
				require.Contains(t, f.Message, "it went wrong")
				require.EqualValues(t, 1, requests.Load())
			}
		})
	}
}

func TestHostileResponsesAreBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":{"type":"message","content":[]}}`, i))
	}
	added := `{"type":"response.output_item.added","output_index":0,"item":{"type":"%s","content":[],"summary":[]}}`
	delta := `{"type":"response.%s.delta","output_index":0,"delta":"` + strings.Repeat("x", 9000) + `"}`
	done := `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}`
	long := strings.Replace(done, `"a"`, `"`+strings.Repeat("x", 9000)+`"`, 1)
	whole := func(output string) http.HandlerFunc {
		return answer(http.StatusOK, `{"status":"completed","output":[`+output+`]}`)
	}
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		code contract.Code
	}{
		"endless items":          {events(many...), contract.CodeTruncated},
		"a long text":            {events(fmt.Sprintf(added, "message"), fmt.Sprintf(delta, "output_text")), contract.CodeTruncated},
		"a long refusal":         {events(fmt.Sprintf(added, "message"), fmt.Sprintf(delta, "refusal")), contract.CodeTruncated},
		"long arguments":         {events(fmt.Sprintf(added, "function_call"), fmt.Sprintf(delta, "function_call_arguments")), contract.CodeTruncated},
		"endless thoughts":       {events(fmt.Sprintf(added, "reasoning"), fmt.Sprintf(delta, "reasoning_text")), contract.CodeTruncated},
		"a long item":            {events(long), contract.CodeTruncated},
		"a long final response":  {events(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"` + strings.Repeat("x", 9000) + `"}]}]}}`), contract.CodeTruncated},
		"long, in one piece":     {whole(`{"type":"message","content":[{"type":"output_text","text":"` + strings.Repeat("x", 9000) + `"}]}`), contract.CodeTruncated},
		"a piece of no item":     {events(fmt.Sprintf(delta, "output_text")), contract.CodeInvalidOutput},
		"a piece after the end":  {events(done, fmt.Sprintf(delta, "output_text")), contract.CodeInvalidOutput},
		"an item twice":          {events(done, done), contract.CodeInvalidOutput},
		"an item of two kinds":   {events(fmt.Sprintf(added, "function_call"), done), contract.CodeInvalidOutput},
		"a call without a name":  {whole(`{"type":"function_call","call_id":"c","arguments":"{}"}`), contract.CodeInvalidOutput},
		"arguments that are cut": {whole(`{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a"}`), contract.CodeInvalidOutput},
		"in progress":            {answer(http.StatusOK, `{"status":"in_progress","output":[]}`), contract.CodeInvalidOutput},
		"no response":            {answer(http.StatusOK, `{"choices":[]}`), contract.CodeInvalidOutput},
		"HTML":                   {answer(http.StatusOK, `<html>login</html>`), contract.CodeInvalidOutput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := responsesClient(t, serve(t, tc.h), Options{MaxResponse: 8000}).Complete(t.Context(), question())
			_ = requireFault(t, err, contract.ClassLLM, tc.code)
		})
	}
	absurd := `{"status":"completed","output":[],"usage":{"input_tokens":-4,"input_tokens_details":{"cached_tokens":9223372036854775807},"output_tokens":9223372036854775807,"output_tokens_details":{"reasoning_tokens":9223372036854775807}}}`
	r, err := responsesClient(t, serve(t, answer(http.StatusOK, absurd)), Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.Zero(t, r.Usage.PromptTokens)
	require.EqualValues(t, 1<<40, r.Usage.CompletionTokens)
	require.Zero(t, r.Usage.CachedTokens)
}

// eachAPI runs a test with a client of each API of a server.
func eachAPI(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c *Client)) {
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			p.BaseURL, p.APIKeyEnv = ownBase(p.Kind, serve(t, h)), "KEY"
			test(t, newClient(t, p, Options{Getenv: func(string) string { return "a-key" }}))
		})
	}
}

func TestEachAPIHonoursEveryFormOfRetryAfter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header, value string
		least, most   time.Duration
	}{
		"seconds":        {"Retry-After", "7", 7 * time.Second, 7 * time.Second},
		"a fraction":     {"Retry-After", "0.5", 500 * time.Millisecond, 500 * time.Millisecond},
		"milliseconds":   {"Retry-After-Ms", "1500", 1500 * time.Millisecond, 1500 * time.Millisecond},
		"a date":         {"Retry-After", time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat), time.Second, 30 * time.Second},
		"a window's end": {"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(30 * time.Second).Unix()), time.Second, 30 * time.Second},
		"too long":       {"Retry-After", "9000", MaxRetryAfter, MaxRetryAfter},
		"none":           {"X-Nothing", "1", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachAPI(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(tc.header, tc.value)
				answer(http.StatusTooManyRequests, `{"error":{"type":"requests","code":"rate_limit_exceeded","message":"Rate limit reached"}}`)(w, r)
			}, func(t *testing.T, c *Client) {
				_, err := c.Complete(t.Context(), question())
				f := requireFault(t, err, contract.ClassInfra, contract.CodeRateLimited)
				require.GreaterOrEqual(t, f.RetryAfter, tc.least)
				require.LessOrEqual(t, f.RetryAfter, tc.most)
				require.Zero(t, f.Wait)
			})
		})
	}
}

func TestEachAPITellsErrorsApart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		class  contract.Class
		code   contract.Code
	}{
		"a quota is no rate limit": {429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, contract.ClassInfra, contract.CodeQuotaExhausted},
		"a full context":           {400, `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}`, contract.ClassLLM, contract.CodeContextOverflow},
		"a content filter":         {400, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter"}}`, contract.ClassLLM, contract.CodeRefusal},
		"a prompt of bad intent":   {400, `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","code":"invalid_prompt"}}`, contract.ClassLLM, contract.CodeRefusal},
		"a wrong key":              {401, `{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`, contract.ClassConfig, contract.CodeUnauthorized},
		"no such model":            {404, `{"error":{"message":"The model m does not exist","code":"model_not_found"}}`, contract.ClassConfig, contract.CodeModelNotFound},
		"a bad request":            {400, `{"error":{"message":"Unknown parameter: 'x'.","type":"invalid_request_error"}}`, contract.ClassConfig, contract.CodeBadRequest},
		"a server that fails":      {503, `{"error":{"message":"overloaded"}}`, contract.ClassInfra, contract.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachAPI(t, answer(tc.status, tc.body), func(t *testing.T, c *Client) {
				_, err := c.Complete(t.Context(), question())
				f := requireFault(t, err, tc.class, tc.code)
				require.Zero(t, f.RetryAfter)
			})
		})
	}
}

func TestOpenRouterPassesAnthropicsCacheBreakpointsOn(t *testing.T) {
	t.Parallel()
	const response = `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":2000,"cache_write_tokens":900}}}`
	req := question()
	req.Tools = []model.Tool{{Name: "look"}, {Name: "read"}}
	calls := []model.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}, {ID: "b", Name: "read", Arguments: "{}"}}
	for range 3 {
		req.Messages = append(req.Messages, model.Message{Role: model.RoleAssistant, Text: "let me look", ToolCalls: calls},
			model.Message{Role: model.RoleTool, ToolCallID: "a", Text: "one", Images: []model.Image{{MediaType: "image/png", Data: []byte("x")}}},
			model.Message{Role: model.RoleTool, ToolCallID: "b", Text: "two"})
	}
	vision := model.CatalogueEntry{Capabilities: []model.Capability{model.CapabilityVision}}
	marks := func(kind model.Kind, name string) []string {
		asked := req
		asked.Choice.Model = name
		var got recorded
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got.body = nil
			_ = json.NewDecoder(r.Body).Decode(&got.body)
			answer(http.StatusOK, response)(w, r)
		})
		entry := vision
		entry.Provider, entry.Model, entry.PriceIn, entry.PriceCached, entry.PriceCacheWrite = "p", "*", 10, 1, 20
		c, err := New([]model.Provider{{Name: "p", Kind: kind, BaseURL: url, APIKeyEnv: "KEY"}}, model.Catalogue{entry}, Options{Getenv: func(string) string { return "k" }})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		r, err := c.Complete(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 3000, CachedTokens: 2000, CacheWriteTokens: 900, CompletionTokens: 5, MicroUSD: 2000 + 18000 + 1000}, r.Usage)
		require.Equal(t, kind == model.KindOpenRouter, got.body["session_id"] != nil)
		var at []string
		for i, tool := range got.body["tools"].([]any) {
			if _, ok := tool.(map[string]any)["cache_control"]; ok {
				at = append(at, fmt.Sprint("tool ", i))
			}
		}
		for i, m := range got.body["messages"].([]any) {
			parts, _ := m.(map[string]any)["content"].([]any)
			for j, p := range parts {
				if control, ok := p.(map[string]any)["cache_control"]; ok {
					require.Equal(t, map[string]any{"type": "ephemeral"}, control)
					require.NotEmpty(t, p.(map[string]any)["text"])
					at = append(at, fmt.Sprintf("message %d, part %d", i, j))
				}
			}
		}
		return at
	}
	// The messages: system, user, and three times assistant, two results and their picture.
	require.Equal(t, []string{"tool 1", "message 0, part 0", "message 9, part 0", "message 13, part 0"}, marks(model.KindOpenRouter, "anthropic/claude-sonnet-4.5"))
	require.Empty(t, marks(model.KindOpenRouter, "openai/gpt-5"))
	require.Empty(t, marks(model.KindCompatible, "anthropic/claude-sonnet-4.5"))
	vision = model.CatalogueEntry{}
	require.Equal(t, []string{"tool 1", "message 0, part 0", "message 7, part 0", "message 10, part 0"}, marks(model.KindOpenRouter, "anthropic/claude-sonnet-4.5"))
	req.Messages = req.Messages[:2]
	require.Equal(t, []string{"tool 1", "message 0, part 0", "message 1, part 0"}, marks(model.KindOpenRouter, "anthropic/claude-sonnet-4.5"))
	req.Messages = append(req.Messages, model.Message{Role: model.RoleAssistant, ToolCalls: calls}, model.Message{Role: model.RoleTool, ToolCallID: "a"}, model.Message{Role: model.RoleTool, ToolCallID: "b"})
	require.Equal(t, []string{"tool 1", "message 0, part 0", "message 1, part 0"}, marks(model.KindOpenRouter, "anthropic/claude-sonnet-4.5"), "Anthropic rejects a breakpoint at an empty text")
}

func TestAModelThatIsServedByResponsesAloneIsCalledByThem(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.Kind{model.KindOpenAI, model.KindCompatible, model.KindScripted} {
		for api, path := range map[string]string{"": "/v1/chat/completions", "responses": "/v1/responses"} {
			var asked string
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Path
				w.WriteHeader(http.StatusTeapot)
			})
			c, err := New([]model.Provider{{Name: "p", Kind: kind, API: model.APIChat, BaseURL: url, APIKeyEnv: "KEY"}},
				model.Catalogue{{Provider: "p", Model: "m", API: api}}, Options{Getenv: func(string) string { return "a-key" }})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			_, err = c.Complete(t.Context(), question())
			require.Error(t, err)
			require.Equal(t, path, asked, "%s %q", kind, api)
		}
	}
}

func TestAModelThatWasFoundUnableToStreamIsAskedForOnePieceAtOnce(t *testing.T) {
	t.Parallel()
	for _, p := range wires {
		base, log := scenario(t, "models: [{name: m, lacks: [streaming]}]\nrules:\n  - reply: {text: whole}\n")
		p.Name, p.BaseURL, p.APIKeyEnv = "p", ownBase(p.Kind, base), "KEY"
		catalogue := model.Catalogue{{Provider: "p", Model: "m"}}.Correct([]model.Checked{{Provider: "p", Model: "m", Found: map[model.Capability]bool{model.CapabilityStreaming: false}}}, []model.Provider{p})
		c, err := New([]model.Provider{p}, catalogue, Options{Getenv: func(string) string { return "a-key" }})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		r, err := c.Complete(t.Context(), question())
		require.NoError(t, err)
		require.Equal(t, "whole", r.Text)
		lines, err := scripted.ReadLog(log)
		require.NoError(t, err)
		require.Len(t, lines, 1, "%s: no request to stream comes first", p.Kind)
	}
}
