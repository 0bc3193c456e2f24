package modelclient

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// wireAt returns a client of a test's own server, called by the API of a provider.
func wireAt(t *testing.T, p model.Provider, h http.HandlerFunc, opts Options) *Client {
	t.Helper()
	p.BaseURL, p.APIKeyEnv = serve(t, h), "KEY"
	opts.Getenv = func(string) string { return "a-key" }
	return newClient(t, p, opts)
}

func TestAnAnswerOfMillionsOfEmptyItemsDoesNotFillTheMemory(t *testing.T) {
	// Not parallel: it measures the process's memory.
	const many = 100_000
	list := strings.Repeat("{},", many) + "{}"
	numbers := strings.Repeat("1,", many) + "1"
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat, streamed":           {chatWire, events(`{"choices":[` + list + `]}`)},
		"chat, calls":              {chatWire, events(`{"choices":[{"index":0,"delta":{"tool_calls":[` + numbers + `]}}]}`)},
		"chat, in one piece":       {chatWire, answer(http.StatusOK, `{"choices":[`+list+`]}`)},
		"responses, streamed":      {responsesWire, events(`{"type":"response.completed","response":{"status":"completed","output":[` + list + `]}}`)},
		"responses, in one piece":  {responsesWire, answer(http.StatusOK, `{"status":"completed","output":[`+list+`]}`)},
		"anthropic, streamed":      {anthropicWire, namedEvents(`{"type":"message_start","message":{"type":"message","content":[` + list + `]}}`)},
		"anthropic, in one piece":  {anthropicWire, answer(http.StatusOK, `{"type":"message","content":[`+list+`]}`)},
		"gemini, streamed":         {geminiWire, events(`{"candidates":[{"index":0,"content":{"parts":[` + list + `]}}]}`)},
		"gemini, in one piece":     {geminiWire, answer(http.StatusOK, `{"candidates":[`+list+`]}`)},
		"gemini, a list of events": {geminiWire, answer(http.StatusOK, `[`+list+`]`)},
	} {
		t.Run(name, func(t *testing.T) {
			client := wireAt(t, c.wire, c.h, Options{})
			peak := peakHeap(t)
			_, err := client.Complete(t.Context(), question())
			f := requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
			require.Contains(t, f.Cause, "JSON values")
			require.Less(t, peak(), uint64(20<<20), "bytes of heap at the most")
		})
	}
}

func TestAnAnswerThatIsLongButPlainIsRead(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(`{[\"a\\\",`, 50_000) // JSON inside a text
	for _, c := range []struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		{chatWire, answer(http.StatusOK, `{"choices":[{"finish_reason":"stop","message":{"content":"`+text+`"}}]}`)},
		{geminiWire, answer(http.StatusOK, `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":"`+text+`"}]}}]}`)},
	} {
		r, err := wireAt(t, c.wire, c.h, Options{}).Complete(t.Context(), question())
		require.NoError(t, err)
		require.Len(t, r.Text, 50_000*len(`{["a\",`))
	}
}

func TestCallsOfOneAnswerHaveDifferentIDs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat":      {chatWire, answer(http.StatusOK, `{"choices":[{"finish_reason":"stop","message":{"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"a","function":{"name":"f"}},{"id":"a_2","function":{"name":"f"}},{"function":{"name":"f"}}]}}]}`)},
		"responses": {responsesWire, answer(http.StatusOK, `{"status":"completed","output":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call","call_id":"call_2","name":"f","arguments":"{}"}]}`)},
		"anthropic": {anthropicWire, answer(http.StatusOK, `{"type":"message","stop_reason":"tool_use","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a_2","name":"f","input":{}}]}`)},
		"gemini":    {geminiWire, answer(http.StatusOK, `{"candidates":[{"finishReason":"STOP","content":{"parts":[{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"id":"a","name":"f"}},{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]}}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := wireAt(t, c.wire, c.h, Options{}).Complete(t.Context(), question())
			require.NoError(t, err)
			require.Len(t, r.ToolCalls, 4)
			ids := map[string]bool{}
			for _, call := range r.ToolCalls {
				require.NotEmpty(t, call.ID)
				ids[call.ID] = true
			}
			require.Len(t, ids, 4, "%+v", r.ToolCalls)
		})
	}
}

func TestAConversationWithRepeatedIDsIsAccepted(t *testing.T) {
	t.Parallel()
	// Some servers restart their numbering of calls in each turn.
	req := question()
	for range 3 {
		req.Messages = append(req.Messages,
			model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "call:0", Name: "look", Arguments: "{}"}, {ID: "call.0", Name: "look", Arguments: "{}"}}},
			model.Message{Role: model.RoleTool, ToolCallID: "call:0", Text: "one"}, model.Message{Role: model.RoleTool, ToolCallID: "call.0", Text: "two"})
	}
	overEachWire(t, "rules:\n  - reply: {text: fine}\n", func(t *testing.T, c *Client, _ string, _ bool) {
		r, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, "fine", r.Text)
	})
	messages := sent(t, model.CatalogueEntry{}, req).body["messages"].([]any)
	var got []string
	for _, m := range messages[1:] {
		for _, b := range m.(map[string]any)["content"].([]any) {
			block := b.(map[string]any)
			got = append(got, fmt.Sprint(block["id"], block["tool_use_id"]))
		}
	}
	require.Equal(t, []string{
		"call_0<nil>", "call_0_2<nil>", "<nil>call_0", "<nil>call_0_2", "call_0_3<nil>", "call_0_4<nil>", "<nil>call_0_3", "<nil>call_0_4",
		"call_0_5<nil>", "call_0_6<nil>", "<nil>call_0_5", "<nil>call_0_6",
	}, got)
}

func TestATurnOfCallsAloneIsSentWithoutAText(t *testing.T) {
	t.Parallel()
	var second recorded
	asked := 0
	c := wireAt(t, responsesWire, func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			answer(http.StatusOK, `{"status":"completed","output":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"AAA"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]}`)(w, r)
			return
		}
		_ = json.NewDecoder(r.Body).Decode(&second.body)
		answer(http.StatusOK, fineResponse)(w, r)
	}, Options{})
	req := question()
	r, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	req.Messages = append(req.Messages, r.Message(), model.Message{Role: model.RoleTool, ToolCallID: "c1", Text: "1"})
	_, err = c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, []string{"reasoning rs_1", "function_call c1", "function_call_output c1"}, itemsOf(second)[1:])
}

func TestAnErrorOfNullInAnEventIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat":      {chatWire, events(`{"error":null,"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, `[DONE]`)},
		"responses": {responsesWire, events(`{"type":"response.completed","error":null,"response":` + fineResponse + `}`)},
		"gemini":    {geminiWire, events(`{"error":null,"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := wireAt(t, c.wire, c.h, Options{}).Complete(t.Context(), question())
			require.NoError(t, err)
			require.Equal(t, "ok", r.Text)
		})
	}
}

func TestAConnectionThatBreaksAfterTheLastEventLosesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat":      {chatWire, events(`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}`, `[DONE]`)},
		"responses": {responsesWire, events(fmt.Sprintf(`{"type":"response.completed","response":%s}`, strings.Replace(fineResponse, `"ok"`, `"Hello"`, 1)))},
		"anthropic": {anthropicWire, namedEvents(anthropicStream...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan struct{})
			for _, after := range []http.HandlerFunc{
				breakConnection,
				func(http.ResponseWriter, *http.Request) { <-ended }, // never ends
			} {
				client := wireAt(t, c.wire, func(w http.ResponseWriter, r *http.Request) {
					c.h(w, r)
					_ = http.NewResponseController(w).Flush()
					after(w, r)
				}, Options{})
				t.Cleanup(func() { // before the server is closed, which waits for it
					select {
					case <-ended:
					default:
						close(ended)
					}
				})
				r, err := client.Complete(t.Context(), question())
				require.NoError(t, err)
				require.Equal(t, "Hello", r.Text)
			}
		})
	}
}

func TestAnAnswerThatItsProviderCutShortIsNoAnswer(t *testing.T) {
	t.Parallel()
	type want struct {
		class contract.Class
		code  contract.Code
	}
	down, cut := want{contract.ClassInfra, contract.CodeUnavailable}, want{contract.ClassLLM, contract.CodeTruncated}
	refused, unusable := want{contract.ClassLLM, contract.CodeRefusal}, want{contract.ClassLLM, contract.CodeInvalidOutput}
	for reason, want := range map[string]want{
		"error": down, "network_error": down, "insufficient_system_resource": down, "model_length": cut, "max_tokens": cut, "MAX_TOKENS": cut,
		"sensitive": refused, "SAFETY": refused, "refusal": refused,
	} {
		t.Run("chat, "+reason, func(t *testing.T) {
			t.Parallel()
			for _, h := range []http.HandlerFunc{
				answer(http.StatusOK, `{"choices":[{"index":0,"finish_reason":"`+reason+`","message":{"content":"half"}}]}`),
				events(`{"choices":[{"index":0,"delta":{"content":"half"},"finish_reason":"`+reason+`"}]}`, `[DONE]`),
			} {
				_, err := wireAt(t, chatWire, h, Options{}).Complete(t.Context(), question())
				_ = requireFault(t, err, want.class, want.code)
			}
		})
	}
	t.Run("chat, with an error in the choice", func(t *testing.T) {
		t.Parallel()
		_, err := wireAt(t, chatWire, answer(http.StatusOK, `{"choices":[{"index":0,"finish_reason":"error","error":{"code":429,"message":"slow down"},"message":{"content":"half"}}]}`), Options{}).Complete(t.Context(), question())
		require.Contains(t, requireFault(t, err, contract.ClassInfra, contract.CodeRateLimited).Message, "slow down")
	})
	t.Run("chat, a reason of a server's own", func(t *testing.T) {
		t.Parallel()
		r, err := wireAt(t, chatWire, answer(http.StatusOK, `{"choices":[{"index":0,"finish_reason":"eos_token","message":{"content":"all"}}]}`), Options{}).Complete(t.Context(), question())
		require.NoError(t, err)
		require.Equal(t, "stop", r.FinishReason)
	})
	t.Run("anthropic, a new reason", func(t *testing.T) {
		t.Parallel()
		_, err := wireAt(t, anthropicWire, answer(http.StatusOK, `{"type":"message","stop_reason":"something_new","content":[{"type":"text","text":"half"}]}`), Options{}).Complete(t.Context(), question())
		_ = requireFault(t, err, unusable.class, unusable.code)
	})
}

func TestTokensThatOnlyATotalHasAreCounted(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]contract.Usage{
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":269}}`: {PromptTokens: 32, CompletionTokens: 278, ReasoningTokens: 269}, // xAI
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":310}`:                                                      {PromptTokens: 32, CompletionTokens: 278},                       // Gemini, for OpenAI clients
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":41}`:                                                       {PromptTokens: 32, CompletionTokens: 9},
		`{"prompt_tokens":32,"completion_tokens":9}`:                                                                         {PromptTokens: 32, CompletionTokens: 9},
		`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":-9223372036854775808}`:                                     {PromptTokens: 32, CompletionTokens: 9},
		`{"prompt_tokens":-9223372036854775808,"completion_tokens":9,"total_tokens":9223372036854775807}`:                    {CompletionTokens: 1 << 40},
	} {
		h := answer(http.StatusOK, `{"choices":[{"finish_reason":"stop","message":{"content":"ok"}}],"usage":`+usage+`}`)
		r, err := wireAt(t, chatWire, h, Options{}).Complete(t.Context(), question())
		require.NoError(t, err)
		want.Calls, want.EstimatedPrice, want.MicroUSD = 1, r.Usage.EstimatedPrice, r.Usage.MicroUSD
		require.Equal(t, want, r.Usage, usage)
	}
}

func TestWhatAProviderNamesItsModelIsShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("m", 100_000)
	for name, c := range map[string]struct {
		wire model.Provider
		h    http.HandlerFunc
	}{
		"chat":      {chatWire, answer(http.StatusOK, `{"model":"`+long+`","choices":[{"finish_reason":"stop","message":{"content":"ok"}}]}`)},
		"responses": {responsesWire, answer(http.StatusOK, strings.Replace(fineResponse, "m-1", long, 1))},
		"anthropic": {anthropicWire, answer(http.StatusOK, `{"type":"message","model":"`+long+`","stop_reason":"end_turn","content":[]}`)},
		"gemini":    {geminiWire, answer(http.StatusOK, `{"modelVersion":"`+long+`","candidates":[{"finishReason":"STOP"}]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := wireAt(t, c.wire, c.h, Options{}).Complete(t.Context(), question())
			require.NoError(t, err)
			require.LessOrEqual(t, len(r.Model), 200)
		})
	}
}

func TestAnthropicGetsNoTextOfWhiteSpaceAlone(t *testing.T) {
	t.Parallel()
	req := question()
	req.Messages = append(req.Messages, model.Message{Role: model.RoleUser, Text: " \n"},
		model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}, {ID: "b", Name: "f", Arguments: "{}"}}},
		model.Message{Role: model.RoleTool, ToolCallID: "a"}, model.Message{Role: model.RoleTool, ToolCallID: "b", Text: "\n"})
	messages := sent(t, model.CatalogueEntry{}, req).body["messages"].([]any)
	require.Len(t, messages[0].(map[string]any)["content"], 1)
	for _, b := range messages[2].(map[string]any)["content"].([]any) {
		require.Equal(t, "tool_result", b.(map[string]any)["type"])
		require.Empty(t, b.(map[string]any)["content"])
	}
}

func TestAMessageOutsideOfAnErrorIsShown(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"object":"error","message":"top_p is wrong","type":"invalid_request_error","param":null,"code":null}`, // Mistral and vLLM
		`{"detail":"top_p is wrong"}`, // servers in Python
		`{"error":null,"message":"top_p is wrong"}`,
	} {
		eachAPI(t, answer(http.StatusBadRequest, body), func(t *testing.T, c *Client) {
			_, err := c.Complete(t.Context(), question())
			require.Contains(t, requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest).Message, "top_p is wrong")
		})
	}
}

func TestAWaitThatGeminiAsksForInAStreamIsKept(t *testing.T) {
	t.Parallel()
	_, err := wireAt(t, geminiWire, events(`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"slow down","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`), Options{}).Complete(t.Context(), question())
	require.Equal(t, 7*time.Second, requireFault(t, err, contract.ClassInfra, contract.CodeRateLimited).RetryAfter)
}
