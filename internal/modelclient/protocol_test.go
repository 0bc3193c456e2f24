package modelclient

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// answer writes one JSON document with a status.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// events writes a stream of events.
func events(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, d := range data {
			_, _ = io.WriteString(w, "data: "+d+"\n\n")
		}
	}
}

func TestWhatProvidersSayOfAnErrorDecidesItsCode(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		h     http.HandlerFunc
		class contract.Class
		code  contract.Code
		says  string
	}{
		"OpenAI: quota": {
			h:     answer(429, `{"error":{"message":"You exceeded your current quota, please check your plan","type":"insufficient_quota","code":"insufficient_quota"}}`),
			class: contract.ClassInfra, code: contract.CodeQuotaExhausted, says: "quota is used up",
		},
		"Anthropic: no credit": {
			h:     answer(400, `{"error":{"message":"Your credit balance is too low to access the API","type":"invalid_request_error"}}`),
			class: contract.ClassInfra, code: contract.CodeQuotaExhausted,
		},
		"OpenAI: window": {
			h:     answer(400, `{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}`),
			class: contract.ClassLLM, code: contract.CodeContextOverflow, says: "8192",
		},
		"Anthropic: window": {
			h:     answer(400, `{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum","type":"invalid_request_error"}}`),
			class: contract.ClassLLM, code: contract.CodeContextOverflow,
		},
		"Gemini: window, as a list": {
			h:     answer(400, `[{"error":{"code":400,"message":"The input token count (1100000) exceeds the maximum number of tokens allowed","status":"INVALID_ARGUMENT"}}]`),
			class: contract.ClassLLM, code: contract.CodeContextOverflow,
		},
		"Gemini: key": {
			h:     answer(400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`),
			class: contract.ClassConfig, code: contract.CodeUnauthorized, says: "the API key comes from",
		},
		"Azure: filter": {
			h:     answer(400, `{"error":{"message":"The response was filtered","code":"content_filter"}}`),
			class: contract.ClassLLM, code: contract.CodeRefusal,
		},
		"OpenRouter: model": {
			h:     answer(400, `{"error":{"message":"foo/bar is not a valid model ID","code":400}}`),
			class: contract.ClassConfig, code: contract.CodeModelNotFound,
		},
		"Groq: JSON":    {h: answer(400, `{"error":{"message":"Failed to generate JSON.","code":"json_validate_failed"}}`), class: contract.ClassLLM, code: contract.CodeInvalidOutput},
		"plain text":    {h: answer(500, "upstream fell over"), class: contract.ClassInfra, code: contract.CodeUnavailable, says: "HTTP 500"},
		"error as text": {h: answer(404, `{"error":"model \"m\" not found, try pulling it first"}`), class: contract.ClassConfig, code: contract.CodeModelNotFound, says: "try pulling it"},
		"a redirect": {h: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, class: contract.ClassConfig, code: contract.CodeInvalidConfig, says: "redirects"},
		"200 with an error":          {h: answer(200, `{"error":{"message":"rate limited upstream","code":429}}`), class: contract.ClassInfra, code: contract.CodeRateLimited},
		"200 with no choice":         {h: answer(200, `{"choices":[]}`), class: contract.ClassLLM, code: contract.CodeInvalidOutput},
		"200 with HTML":              {h: answer(200, `<html>login</html>`), class: contract.ClassLLM, code: contract.CodeInvalidOutput},
		"stream with an error":       {h: events(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"error":{"message":"overloaded","code":503}}`), class: contract.ClassInfra, code: contract.CodeUnavailable, says: "overloaded"},
		"stream without an end":      {h: events(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`), class: contract.ClassInfra, code: contract.CodeUnavailable},
		"a refusal, streamed":        {h: events(`{"choices":[{"index":0,"delta":{"refusal":"I can't"},"finish_reason":"stop"}]}`, "[DONE]"), class: contract.ClassLLM, code: contract.CodeRefusal},
		"a refusal, in one piece":    {h: answer(200, `{"choices":[{"message":{"role":"assistant","refusal":"I can't"},"finish_reason":"stop"}]}`), class: contract.ClassLLM, code: contract.CodeRefusal},
		"a filter, after some text":  {h: events(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"content_filter"}]}`, "[DONE]"), class: contract.ClassLLM, code: contract.CodeRefusal},
		"a tool call without a name": {h: events(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"1","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`), class: contract.ClassLLM, code: contract.CodeInvalidOutput},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				tc.h(w, r)
			})
			_, err := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{}).Complete(t.Context(), question())
			f := requireFault(t, err, tc.class, tc.code)
			require.Contains(t, f.Message, tc.says)
			require.EqualValues(t, 1, requests.Load(), "the client never tries again")
		})
	}
}

func TestUnreachableProvidersAreUnavailable(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, url := range map[string]string{"refused": gone.URL + "/v1", "no such host": "http://model.invalid/v1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, model.Provider{BaseURL: url}, Options{})
			_, err := c.Complete(t.Context(), question())
			_ = requireFault(t, err, contract.ClassInfra, contract.CodeUnavailable)
			_ = requireFault(t, c.Probe(t.Context(), "p"), contract.ClassInfra, contract.CodeUnavailable)
		})
	}
}

func TestABrokenReusedConnectionIsNotRetriedByTheTransport(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	var key atomic.Value
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			answer(200, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
			return
		}
		key.Store(r.Header.Get("Idempotency-Key"))
		breakConnection(w, r)
	})
	c := newClient(t, model.Provider{BaseURL: url}, Options{})
	req := question()
	req.IdempotencyKey = "k"
	_, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	_, err = c.Complete(t.Context(), req)
	_ = requireFault(t, err, contract.ClassInfra, contract.CodeUnavailable)
	require.EqualValues(t, 2, requests.Load())
	require.Equal(t, "k", key.Load())
}

func TestAProviderThatCannotStreamIsAskedForOnePiece(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]http.HandlerFunc{
		"by param":   answer(400, `{"error":{"message":"bad value","param":"stream"}}`),
		"by words":   answer(422, `{"error":{"message":"Streaming is not supported for this model."}}`),
		"by options": answer(400, `{"error":{"message":"Unrecognized request argument supplied: stream_options","param":"stream_options"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var streamed, whole atomic.Int32
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				var body struct{ Stream bool }
				_ = json.NewDecoder(r.Body).Decode(&body)
				if body.Stream {
					streamed.Add(1)
					refusal(w, r)
					return
				}
				whole.Add(1)
				answer(200, `{"model":"real-name","choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`)(w, r)
			})
			c := newClient(t, model.Provider{BaseURL: url}, Options{})
			for range 3 {
				r, err := c.Complete(t.Context(), question())
				require.NoError(t, err)
				require.Equal(t, "ok", r.Text)
				require.Equal(t, "real-name", r.Model)
				require.False(t, r.Streamed)
			}
			require.EqualValues(t, 1, streamed.Load(), "asked once only")
			require.EqualValues(t, 3, whole.Load())
		})
	}
}

func TestAnUnstreamedAnswerToAStreamedRequestIsAccepted(t *testing.T) {
	t.Parallel()
	url := serve(t, answer(200, `{"choices":[{"message":{"content":"ok","tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]},"finish_reason":"stop"}]}`))
	r, err := newClient(t, model.Provider{BaseURL: url}, Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, "ok", r.Text)
	require.Equal(t, []model.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}, r.ToolCalls)
	require.Equal(t, "tool_calls", r.FinishReason)
	require.True(t, r.Estimated, "no usage was told")
	require.Positive(t, r.Usage.PromptTokens)
	require.Positive(t, r.Usage.MicroUSD)
}

func TestToolCallsThatShareAnIndexStayApart(t *testing.T) {
	t.Parallel()
	url := serve(t, events(
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}`,
		`{"choices":[{"index":1,"delta":{"content":"another choice"}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":9223372036854775807}}`, "[DONE]"))
	r, err := newClient(t, model.Provider{BaseURL: url}, Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, []model.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}, {ID: "b", Name: "g", Arguments: "{}"}}, r.ToolCalls)
	require.Empty(t, r.Text)
	require.EqualValues(t, 0, r.Usage.PromptTokens, "hostile numbers are bounded")
	require.Equal(t, int64(1)<<40, r.Usage.CompletionTokens)
	require.Positive(t, r.Usage.MicroUSD)
}

func TestTheRequestHoldsWhatTheProtocolAsksFor(t *testing.T) {
	t.Parallel()
	type wire struct {
		header http.Header
		body   map[string]any
	}
	send := func(t *testing.T, kind model.Kind, catalogue model.Catalogue, req model.Request) wire {
		var got wire
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got.header = r.Header.Clone()
			_ = json.NewDecoder(r.Body).Decode(&got.body)
			events(`{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]")(w, r)
		})
		c, err := New([]model.Provider{{Name: "p", Kind: kind, BaseURL: url, APIKeyEnv: "KEY", Headers: map[string]string{"X-Title": "rocket"}}}, catalogue,
			Options{Getenv: func(string) string { return "the-key" }})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		_, err = c.Complete(t.Context(), req)
		require.NoError(t, err)
		return got
	}
	full := func() model.Request {
		temperature := 0.2
		schema := model.SchemaOf[struct {
			A string `json:"a"`
		}]()
		req := question()
		req.Choice.Temperature = &temperature
		req.Schema = &schema
		req.MaxOutput = 5000
		req.IdempotencyKey = "run-42/turn-1\n"
		req.Headers.Step = "step-001"
		req.Tools = []model.Tool{{Name: "finish", Description: "ends", Parameters: json.RawMessage(`{"type":"object","properties":{"summary":{"type":"string"}}}`)}, {Name: "bare"}}
		req.Messages = append(req.Messages,
			model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "c1", Name: "finish", Arguments: "{}"}}},
			model.Message{Role: model.RoleTool, ToolCallID: "c1", Text: "done"})
		return req
	}
	t.Run("headers, tools, schema, temperature", func(t *testing.T) {
		t.Parallel()
		got := send(t, model.KindCompatible, nil, full())
		for name, want := range map[string]string{
			"X-RGPT-Run": "42", "X-RGPT-Agent": "planner", "X-RGPT-Phase": "planner_running", "X-RGPT-Step": "step-001",
			"X-RGPT-Attempt": "1", "X-RGPT-Turn": "1", "Idempotency-Key": "run-42/turn-1?", "Authorization": "Bearer the-key", "X-Title": "rocket",
		} {
			require.Equal(t, want, got.header.Get(name), name)
		}
		require.Equal(t, true, got.body["stream"])
		require.Equal(t, map[string]any{"include_usage": true}, got.body["stream_options"])
		require.InDelta(t, 0.2, got.body["temperature"], 1e-9)
		require.EqualValues(t, 5000, got.body["max_tokens"])
		format := got.body["response_format"].(map[string]any)
		require.Equal(t, "json_schema", format["type"])
		require.Equal(t, true, format["json_schema"].(map[string]any)["strict"])
		require.Len(t, got.body["tools"], 2)
		messages := got.body["messages"].([]any)
		require.Len(t, messages, 4)
		require.Equal(t, "c1", messages[3].(map[string]any)["tool_call_id"])
		require.NotContains(t, messages[2], "content", "an assistant that only calls tools says nothing")
	})
	t.Run("OpenAI's names and reasoning models", func(t *testing.T) {
		t.Parallel()
		got := send(t, model.KindOpenAI, model.Catalogue{{Provider: "p", Model: "m", MaxOutput: 100, Capabilities: []model.Capability{model.CapabilityJSONSchema, model.CapabilityFixedTemperature}}}, full())
		require.NotContains(t, got.body, "temperature")
		require.NotContains(t, got.body, "max_tokens")
		require.EqualValues(t, 100, got.body["max_completion_tokens"], "no more than the model can do")
	})
	t.Run("a schema in words where none is enforced", func(t *testing.T) {
		t.Parallel()
		got := send(t, model.KindCompatible, model.Catalogue{{Provider: "p", Model: "m", MaxOutput: 7}}, full())
		require.NotContains(t, got.body, "response_format")
		require.EqualValues(t, 7, got.body["max_tokens"])
		system := got.body["messages"].([]any)[0].(map[string]any)["content"].(string)
		require.Contains(t, system, "You are a planner.\n\nRespond with one JSON document")
		require.Contains(t, system, `"additionalProperties":false`)
	})
}

func TestAnAnswerOver50MegabytesIsCutWithoutBeingHeld(t *testing.T) {
	// Not parallel: it measures the process's memory.
	const size = 50 << 20
	word := strings.Repeat("x", 1<<20)
	answers := map[string]http.HandlerFunc{
		"streamed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for sent := 0; sent < size; sent += len(word) {
				if _, err := fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		},
		"streamed in one event": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"`)
			for sent := 0; sent < size; sent += len(word) {
				if _, err := io.WriteString(w, word+"\ndata: "); err != nil {
					return
				}
			}
		},
		"in one piece": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"stop","message":{"content":"`)
			for sent := 0; sent < size; sent += len(word) {
				if _, err := io.WriteString(w, word); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `"}}]}`)
		},
		"endless blank lines in one piece": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for sent := 0; sent < size; sent += len(word) {
				if _, err := io.WriteString(w, strings.Repeat("\n", len(word))); err != nil {
					return
				}
			}
		},
	}
	for name, h := range answers {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, model.Provider{BaseURL: serve(t, h)}, Options{MaxResponse: 2 << 20})
			peak := peakHeap(t)
			_, err := c.Complete(t.Context(), question())
			f := requireFault(t, err, contract.ClassLLM, contract.CodeTruncated)
			require.Contains(t, f.Message, "exceeds 2097152 bytes")
			require.Less(t, peak(), uint64(40<<20), "bytes of heap at the most")
		})
	}
}

// peakHeap samples the heap's growth until the returned function is called.
func peakHeap(t *testing.T) func() uint64 {
	t.Helper()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	start, peak := m.HeapAlloc, m.HeapAlloc
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapAlloc)
			}
		}
	}()
	return sync.OnceValue(func() uint64 {
		close(quit)
		<-done
		return peak - start
	})
}

func TestNoMoreCallsThanAllowedAreUnderWayAtOnce(t *testing.T) {
	t.Parallel()
	const most, calls = 3, 12
	var now, peak atomic.Int32
	var proceed sync.Cond
	proceed.L = &sync.Mutex{}
	waiting, open := 0, false
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		proceed.L.Lock()
		waiting++
		proceed.Broadcast()
		for !open {
			proceed.Wait()
		}
		proceed.L.Unlock()
		now.Add(-1)
		events(`{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`, "[DONE]")(w, r)
	})
	c := newClient(t, model.Provider{BaseURL: url, MaxConcurrent: most}, Options{})
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			_, err := c.Complete(t.Context(), question())
			require.NoError(t, err)
		})
	}
	proceed.L.Lock()
	for waiting < most {
		proceed.Wait()
	}
	proceed.L.Unlock()

	// All slots are taken: a call that cannot wait any longer says so.
	release := func() {
		proceed.L.Lock()
		open = true
		proceed.L.Unlock()
		proceed.Broadcast()
	}
	defer release() // also if an assertion fails: otherwise, the server waits for its requests for ever
	req := question()
	ctx, cancel := contextWithTimeout(t, 20*time.Millisecond)
	defer cancel()
	_, err := c.Complete(ctx, req)
	f := requireFault(t, err, contract.ClassInfra, contract.CodeTimeout)
	require.Contains(t, f.Message, "all 3 of the provider's slots")

	release()
	wg.Wait()
	require.EqualValues(t, most, peak.Load())
}

func TestATextInPartsIsReadWithoutTheThoughts(t *testing.T) {
	t.Parallel()
	const thought = `{"type":"thinking","thinking":[{"type":"text","text":"Let me see."}]}`
	for name, h := range map[string]http.HandlerFunc{
		"in one piece": answer(200, `{"choices":[{"message":{"role":"assistant","content":[`+thought+`,{"type":"text","text":"Use "},{"type":"text","text":"CSS."}]},"finish_reason":"stop"}]}`),
		"streamed": events(`{"choices":[{"index":0,"delta":{"role":"assistant","content":[`+thought+`]}}]}`,
			`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Use "}]}}]}`, `{"choices":[{"index":0,"delta":{"content":"CSS."},"finish_reason":"stop"}]}`, "[DONE]"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := question()
			var deltas []string
			req.Delta = func(kind model.DeltaKind, text string) { deltas = append(deltas, fmt.Sprint(kind, ":", text)) }
			r, err := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: serve(t, h)}, Options{}).Complete(t.Context(), req)
			require.NoError(t, err)
			require.Equal(t, "Use CSS.", r.Text)
			require.NotContains(t, strings.Join(deltas, " "), "Let me see")
			if name == "streamed" {
				require.Equal(t, []string{fmt.Sprint(model.DeltaReasoning, ":"), fmt.Sprint(model.DeltaText, ":Use "), fmt.Sprint(model.DeltaText, ":CSS.")}, deltas)
			}
		})
	}
	url := serve(t, answer(200, `{"choices":[{"message":{"content":[1,{"text":2}]},"finish_reason":"stop"}]}`))
	r, err := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{}).Complete(t.Context(), question())
	require.NoError(t, err)
	require.JSONEq(t, `[1,{"text":2}]`, r.Text, "parts in another form are the text")
}

func TestLongIDsOfAnotherProvidersCallsAreShortenedForChat(t *testing.T) {
	t.Parallel()
	long := "toolu_" + strings.Repeat("a", 60)
	var sent []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		answer(200, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
	})
	client := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{})
	req := question()
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: long + "1", Name: "read", Arguments: "{}"}, {ID: long + "2", Name: "read", Arguments: "{}"}, {ID: "call_short", Name: "read", Arguments: "{}"}}},
		model.Message{Role: model.RoleTool, ToolCallID: long + "1", Text: "one"}, model.Message{Role: model.RoleTool, ToolCallID: long + "2", Text: "two"}, model.Message{Role: model.RoleTool, ToolCallID: "call_short", Text: "three"})
	for range 2 {
		_, err := client.Complete(t.Context(), req)
		require.NoError(t, err)
	}
	require.Equal(t, sent[0], sent[1], "each time the same, so that it is read from the cache")
	var body struct {
		Messages []struct {
			ToolCallID string                `json:"tool_call_id"`
			ToolCalls  []struct{ ID string } `json:"tool_calls"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(sent[0]), &body))
	calls, results := body.Messages[2].ToolCalls, body.Messages[3:]
	ids := map[string]bool{}
	for i, c := range calls {
		require.LessOrEqual(t, len(c.ID), 40)
		require.Equal(t, c.ID, results[i].ToolCallID, "each result belongs to its call")
		ids[c.ID] = true
	}
	require.Len(t, ids, 3)
	require.Equal(t, "call_short", calls[2].ID)
}

func TestModelsOfMistralGetIDsOfTheirOwnForm(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"mistral-large-latest": "^[a-zA-Z0-9]{9}$", "mistralai/devstral-2512": "^[a-zA-Z0-9]{9}$", "pixtral-large": "^[a-zA-Z0-9]{9}$", "gpt-5": "^call_[12]$"} {
		var sent string
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			answer(200, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`)(w, r)
		})
		client := newClient(t, model.Provider{Kind: model.KindCompatible, BaseURL: url}, Options{})
		req := question()
		req.Choice.Model = name
		req.Messages = append(req.Messages,
			model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "call_1", Name: "read", Arguments: "{}"}, {ID: "call_2", Name: "read", Arguments: "{}"}, {ID: "aB3dE6gH9", Name: "read", Arguments: "{}"}}},
			model.Message{Role: model.RoleTool, ToolCallID: "call_1", Text: "one"}, model.Message{Role: model.RoleTool, ToolCallID: "call_2", Text: "two"}, model.Message{Role: model.RoleTool, ToolCallID: "aB3dE6gH9", Text: "three"})
		_, err := client.Complete(t.Context(), req)
		require.NoError(t, err)
		var body struct {
			Messages []struct {
				ToolCallID string                `json:"tool_call_id"`
				ToolCalls  []struct{ ID string } `json:"tool_calls"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(sent), &body))
		calls := body.Messages[2].ToolCalls
		require.NotEqual(t, calls[0].ID, calls[1].ID, name)
		for i, c := range calls[:2] {
			require.Regexp(t, want, c.ID, name)
			require.Equal(t, c.ID, body.Messages[3+i].ToolCallID, name)
		}
		require.Equal(t, "aB3dE6gH9", calls[2].ID, name)
	}
}

func TestAModelsOwnLongIDsStayAsItsThoughtsReferToThem(t *testing.T) {
	t.Parallel()
	long := "tool_" + strings.Repeat("b", 60)
	var sent []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, string(body))
		answer(200, `{"choices":[{"message":{"reasoning_details":[{"type":"reasoning.encrypted","data":"x","id":"`+long+`"}],"tool_calls":[{"id":"`+long+`","type":"function","function":{"name":"read","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`)(w, r)
	})
	client := newClient(t, model.Provider{Kind: model.KindOpenRouter, BaseURL: url, APIKeyEnv: "KEY"}, Options{Getenv: func(string) string { return "key" }})
	req := question()
	req.Tools = []model.Tool{{Name: "read", Parameters: json.RawMessage(`{"type":"object"}`)}}
	r, err := client.Complete(t.Context(), req)
	require.NoError(t, err)
	req.Messages = append(req.Messages, r.Message(), model.Message{Role: model.RoleTool, ToolCallID: r.ToolCalls[0].ID, Text: "one"})
	_, err = client.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(sent[1], long), "in the thoughts, the call and its result")
}
