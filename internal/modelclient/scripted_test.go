package modelclient

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// wires has a provider for each API.
var wires = []model.Provider{chatWire, responsesWire, anthropicWire, bedrockWire, vertexWire, geminiWire}

var (
	chatWire      = model.Provider{Kind: model.KindScripted, API: model.APIChat}
	responsesWire = model.Provider{Kind: model.KindScripted, API: model.APIResponses}
	anthropicWire = model.Provider{Kind: model.KindAnthropic}
	bedrockWire   = model.Provider{Kind: model.KindBedrock, Region: "eu-central-1"}
	vertexWire    = model.Provider{Kind: model.KindVertex, Region: "europe-west1", Project: "a-project"}
	geminiWire    = model.Provider{Kind: model.KindGemini}
)

// overEachWire runs a test with a server of each API that streams, and with one that says it cannot,
// so that the answer comes in one piece.
func overEachWire(t *testing.T, yaml string, test func(t *testing.T, c *Client, log string, streamed bool)) {
	for _, p := range wires {
		t.Run(string(p.Kind)+string(p.API), func(t *testing.T) {
			t.Parallel()
			t.Run("streamed", func(t *testing.T) {
				t.Parallel()
				c, log := wireClient(t, p, yaml)
				test(t, c, log, true)
			})
			t.Run("in one piece", func(t *testing.T) {
				t.Parallel()
				c, log := wireClient(t, p, yaml)
				c.providers["p"].complete.Store("m", true)
				test(t, c, log, false)
			})
		})
	}
}

// ownBase returns the base URL of a kind: some SDKs add the version.
func ownBase(k model.Kind, base string) string {
	if k == model.KindGemini || k.Cloud() {
		return strings.TrimSuffix(base, "/v1")
	}
	return base
}

// wireClient returns a client of a scripted model, called by the API of a provider.
func wireClient(t *testing.T, p model.Provider, yaml string) (c *Client, log string) {
	t.Helper()
	p.Name, p.APIKeyEnv = "p", "KEY"
	p.BaseURL, log = scenario(t, yaml)
	p.BaseURL = ownBase(p.Kind, p.BaseURL)
	c, err := New([]model.Provider{p}, model.Catalogue{{
		Provider: "p", Model: "*", PriceIn: 1, PriceCached: 0.1, PriceCacheWrite: 1.25, PriceOut: 4, MaxOutput: 64000,
		Capabilities: []model.Capability{model.CapabilityTools, model.CapabilityJSONSchema, model.CapabilityVision, model.CapabilityEffort},
	}}, Options{Getenv: func(string) string { return "a-key" }})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, log
}

func TestEveryReplyArrivesAsTheScenarioSaysIt(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		rule   string
		text   string
		calls  []model.ToolCall
		finish string
	}{
		"text":       {rule: `reply: {text: "héllo\nwörld ☃ and a good deal more text so that it takes several pieces"}`, text: "héllo\nwörld ☃ and a good deal more text so that it takes several pieces", finish: "stop"},
		"empty text": {rule: `reply: {text: ""}`, finish: "stop"},
		"json":       {rule: `reply: {json: {summary: done, steps: [{id: step-001, files: []}], n: 1.5}}`, text: `{"summary":"done","steps":[{"id":"step-001","files":[]}],"n":1.5}`, finish: "stop"},
		"one tool call": {
			rule:  `reply: {tool_calls: [{name: edit_file, arguments: {path: a.go, old_text: x, new_text: "y\n"}}]}`,
			calls: []model.ToolCall{{Name: "edit_file", Arguments: `{"path":"a.go","old_text":"x","new_text":"y\n"}`}}, finish: "tool_calls",
		},
		"several tool calls and a word": {
			rule:  `reply: {text: "let me look", tool_calls: [{name: read_file, arguments: {path: a}}, {name: list_files}]}`,
			text:  "let me look",
			calls: []model.ToolCall{{Name: "read_file", Arguments: `{"path":"a"}`}, {Name: "list_files", Arguments: `{}`}}, finish: "tool_calls",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overEachWire(t, "rules:\n  - "+tc.rule+"\n    usage: {prompt_tokens: 1200, completion_tokens: 300}\n",
				func(t *testing.T, c *Client, log string, streamed bool) {
					r, err := c.Complete(t.Context(), question())
					require.NoError(t, err)
					require.Equal(t, tc.text, r.Text)
					require.Len(t, r.ToolCalls, len(tc.calls))
					ids := map[string]bool{}
					for i, want := range tc.calls {
						require.Equal(t, want.Name, r.ToolCalls[i].Name)
						require.Equal(t, want.Arguments, r.ToolCalls[i].Arguments)
						ids[r.ToolCalls[i].ID] = true
					}
					require.Len(t, ids, len(tc.calls), "ids are unique")
					require.Equal(t, tc.finish, r.FinishReason)
					require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 1200, CompletionTokens: 300, MicroUSD: 1200 + 4*300}, r.Usage)
					require.Equal(t, streamed, r.Streamed)
					require.False(t, r.Estimated)
					require.Equal(t, "m", r.Model)
					require.Positive(t, r.Latency)

					lines, err := scripted.ReadLog(log)
					require.NoError(t, err)
					require.Len(t, lines, 1)
					require.WithinDuration(t, time.Now(), lines[0].Time, time.Minute)
					lines[0].Time = time.Time{}
					require.Equal(t, scripted.LogEntry{
						Run: 42, Agent: "planner", Phase: "planner_running", Attempt: 1, Turn: 1, Model: "m",
						Rule: 1, Status: 200, PromptTokens: 1200, CompletionTokens: 300,
					}, lines[0])
				})
		})
	}
}

func TestEveryFaultOfAScenarioIsTypedAndLogged(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fault  string
		class  contract.Class
		code   contract.Code
		status int
		after  time.Duration
		wait   time.Duration // that a run should wait, once and long
	}{
		"400":                {fault: `{status: 400}`, class: contract.ClassConfig, code: contract.CodeBadRequest, status: 400},
		"401":                {fault: `{status: 401}`, class: contract.ClassConfig, code: contract.CodeUnauthorized, status: 401},
		"402":                {fault: `{status: 402}`, class: contract.ClassInfra, code: contract.CodeQuotaExhausted, status: 402},
		"403":                {fault: `{status: 403}`, class: contract.ClassConfig, code: contract.CodeUnauthorized, status: 403},
		"404":                {fault: `{status: 404}`, class: contract.ClassConfig, code: contract.CodeModelNotFound, status: 404},
		"408":                {fault: `{status: 408}`, class: contract.ClassInfra, code: contract.CodeTimeout, status: 408},
		"413":                {fault: `{status: 413}`, class: contract.ClassLLM, code: contract.CodeContextOverflow, status: 413},
		"429":                {fault: `{status: 429}`, class: contract.ClassInfra, code: contract.CodeRateLimited, status: 429},
		"429 with a wait":    {fault: `{status: 429, retry_after: 250ms}`, class: contract.ClassInfra, code: contract.CodeRateLimited, status: 429, after: 250 * time.Millisecond},
		"429 with long wait": {fault: `{status: 429, retry_after: 10m}`, class: contract.ClassInfra, code: contract.CodeRateLimited, status: 429, after: MaxRetryAfter},
		"429 for a quota":    {fault: `{status: 429, code: insufficient_quota}`, class: contract.ClassInfra, code: contract.CodeQuotaExhausted, status: 429},
		"429 for its window": {fault: `{status: 429, code: insufficient_quota, retry_after: 10m}`, class: contract.ClassInfra, code: contract.CodeQuotaExhausted, status: 429, after: MaxRetryAfter, wait: 10 * time.Minute},
		"429 for an instant": {fault: `{status: 429, code: insufficient_quota, retry_after: 1ms}`, class: contract.ClassInfra, code: contract.CodeQuotaExhausted, status: 429, after: time.Millisecond, wait: MinQuotaWait},
		"500":                {fault: `{status: 500}`, class: contract.ClassInfra, code: contract.CodeUnavailable, status: 500},
		"503 with a wait":    {fault: `{status: 503, retry_after: 2s}`, class: contract.ClassInfra, code: contract.CodeUnavailable, status: 503, after: 2 * time.Second},
		"529":                {fault: `{status: 529}`, class: contract.ClassInfra, code: contract.CodeUnavailable, status: 529},
		"truncate":           {fault: `{truncate: true}`, class: contract.ClassLLM, code: contract.CodeTruncated, status: 200},
		"malformed":          {fault: `{malformed: true}`, class: contract.ClassLLM, code: contract.CodeInvalidOutput, status: 200},
		"disconnect":         {fault: `{disconnect: true}`, class: contract.ClassInfra, code: contract.CodeUnavailable, status: scripted.StatusDropped},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overEachWire(t, "rules:\n  - fault: "+tc.fault+"\n    times: 1\n  - reply: {text: second}\n    times: 1\n",
				func(t *testing.T, c *Client, log string, _ bool) {
					req := question()
					req.IdempotencyKey = "execution-1/turn-1"
					r, err := c.Complete(t.Context(), req)
					f := requireFault(t, err, tc.class, tc.code)
					after, wait := tc.after, tc.wait
					if tc.code == contract.CodeQuotaExhausted && c.providers["p"].Kind == model.KindGemini { // whose delay is not that of the day's quota
						after, wait = 0, 0
					}
					require.Equal(t, after, f.RetryAfter)
					require.Equal(t, wait, f.Wait)
					require.Contains(t, f.Message, "model m of provider p (http://127.0.0.1:")

					// Exactly one request was made, and what the client books is what
					// the server says it served.
					lines, err := scripted.ReadLog(log)
					require.NoError(t, err)
					require.Len(t, lines, 1)
					require.Equal(t, tc.status, lines[0].Status)
					require.Equal(t, lines[0].PromptTokens, r.Usage.PromptTokens)
					require.Equal(t, lines[0].CompletionTokens, r.Usage.CompletionTokens)

					again, err := c.Complete(t.Context(), req)
					require.NoError(t, err, "the retry goes on to the next rule")
					require.Equal(t, "second", again.Text)
				})
		})
	}
}

func TestASilentProviderEndsByTheDeadline(t *testing.T) {
	t.Parallel()
	overEachWire(t, "rules:\n  - fault: {timeout: true}\n", func(t *testing.T, c *Client, log string, _ bool) {
		req := question()
		req.Timeout = 50 * time.Millisecond
		_, err := c.Complete(t.Context(), req)
		f := requireFault(t, err, contract.ClassInfra, contract.CodeTimeout)
		require.Contains(t, f.Message, "within 50ms")
		await.Until(t, "the line of a client that left", func() bool {
			lines, err := scripted.ReadLog(log)
			return err == nil && len(lines) == 1 && lines[0].Status == scripted.StatusClientGone
		})
	})
}

func TestASilentStreamEndsByTheIdleTimeout(t *testing.T) {
	t.Parallel()
	url, _ := scenario(t, "rules:\n  - fault: {timeout: true}\n")
	c := newClient(t, model.Provider{BaseURL: url}, Options{IdleTimeout: 40 * time.Millisecond})
	_, err := c.Complete(t.Context(), question())
	f := requireFault(t, err, contract.ClassInfra, contract.CodeTimeout)
	require.Contains(t, f.Message, "no data received for 40ms")
}

func TestAStreamThatKeepsSendingOutlivesTheIdleTimeout(t *testing.T) {
	t.Parallel()
	const idle, pauses = 900 * time.Millisecond, 12
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		tick := time.NewTicker(idle / 6)
		defer tick.Stop()
		for range pauses {
			<-tick.C
			_, _ = w.Write([]byte(": still thinking\n\n"))
			_ = flush.Flush()
		}
		_, _ = w.Write([]byte(`data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"))
	})
	c := newClient(t, model.Provider{BaseURL: url}, Options{IdleTimeout: idle})
	r, err := c.Complete(t.Context(), question())
	require.NoError(t, err)
	require.Equal(t, "ok", r.Text)
	require.Greater(t, r.Latency, idle)
}

func TestACancelledCallEndsAtOnceAndSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	c := newClient(t, model.Provider{BaseURL: url}, Options{})
	_, err := c.Complete(ctx, question())
	_ = requireFault(t, err, contract.ClassInfra, contract.CodeCancelled)
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheCallersDeadlineIsATimeout(t *testing.T) {
	t.Parallel()
	url, _ := scenario(t, "rules:\n  - reply: {text: late}\n    latency: 1h\n")
	c := newClient(t, model.Provider{BaseURL: url}, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := c.Complete(ctx, question())
	_ = requireFault(t, err, contract.ClassInfra, contract.CodeTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestARequestThatNoRuleAnswersSaysWhichItWas(t *testing.T) {
	t.Parallel()
	url, _ := scenario(t, "rules: []\n")
	c := newClient(t, model.Provider{BaseURL: url}, Options{})
	req := question()
	req.Headers = model.Identity{Run: 7, Agent: "builder", Phase: "builder_running", Step: "stream-not-supported", Attempt: 2, Turn: 3}
	_, err := c.Complete(t.Context(), req)
	f := requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
	require.Contains(t, f.Message, `no rule in the scenario matches this request: run 7, agent "builder", phase "builder_running", step "stream-not-supported", attempt 2, turn 3, model "m"`)
}

func TestBrokenToolArgumentsAreInvalidOutputThatIsPaidFor(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]string{"cut off": `{"path": "a`, "a list": `[1]`, "null": `null`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overEachWire(t, "rules:\n  - reply: {tool_calls: [{name: read_file, arguments: '"+arguments+"'}]}\n    usage: {prompt_tokens: 10, completion_tokens: 5}\n",
				func(t *testing.T, c *Client, _ string, streamed bool) {
					r, err := c.Complete(t.Context(), question())
					f := requireFault(t, err, contract.ClassLLM, contract.CodeInvalidOutput)
					if c.providers["p"].Kind == model.KindGemini { // which recognizes such calls itself
						require.Contains(t, f.Message, "a malformed tool call")
						require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 5, MicroUSD: 30}, r.Usage)
						return
					}
					require.Contains(t, f.Message, "tool call 1 (read_file)")
					if streamed || !c.providers["p"].Kind.Messages() { // whose documents hold no broken JSON
						require.Equal(t, arguments, r.ToolCalls[0].Arguments)
					}
					require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 5, MicroUSD: 30}, r.Usage)
				})
		})
	}
}
