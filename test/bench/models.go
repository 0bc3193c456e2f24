package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// The targets of conversations with models. The bench fails if a conversation misses one.
const (
	aimCached = 0.85 // share of the prompt tokens that come from the provider's cache
	aimSaved  = 0.60 // share of the cost that caching saves
)

// conversationTurns is the length of the builder's conversation.
const conversationTurns = 20

// talk is a conversation over one API, with a model whose prices count.
type talk struct {
	api      string
	model    string
	provider model.Provider
	plainly  func(ctx context.Context, url, model string, run int64) ([]time.Duration, error) // by the SDK alone; nil: not measured
}

func conversations() []talk {
	return []talk{
		{"OpenAI chat", "gpt-4.1", model.Provider{Kind: model.KindOpenAI, API: model.APIChat}, chatPlainly},
		{"OpenAI Responses", "gpt-6-sol", model.Provider{Kind: model.KindOpenAI, API: model.APIResponses}, respondPlainly},
		{"Anthropic", "claude-sonnet-4-5", model.Provider{Kind: model.KindAnthropic}, nil},
		{"Gemini", "gemini-3.1-pro-preview", model.Provider{Kind: model.KindGemini}, nil},
	}
}

// modelResult is one conversation over one API.
type modelResult struct {
	API      string    `json:"api"`
	Model    string    `json:"model"`
	Calls    int       `json:"calls"`
	Prompt   int64     `json:"prompt_tokens"`
	Cached   int64     `json:"cached_tokens"`
	Share    float64   `json:"cached_share"`
	CostUSD  float64   `json:"cost_usd"`
	FreshUSD float64   `json:"cost_without_cache_usd"`
	Saved    float64   `json:"saved"`
	Ours     callCost  `json:"client"`
	Raw      callCost  `json:"raw"`           // the same requests, sent as they are and not read
	SDK      *callCost `json:"sdk,omitempty"` // the same conversation by the provider's SDK alone
}

// callCost is what a call costs on average, without the scripted model, which is another process.
type callCost struct {
	P50MS float64 `json:"p50_ms"`
	P95MS float64 `json:"p95_ms"`
	CPUMS float64 `json:"cpu_ms"`
}

// missed returns which targets a conversation misses.
func (r modelResult) missed() (out []string) {
	if r.Share < aimCached {
		out = append(out, fmt.Sprintf("%s: %s of the prompt tokens were cached, less than %s", r.API, percent(r.Share), percent(aimCached)))
	}
	if r.Saved < aimSaved {
		out = append(out, fmt.Sprintf("%s: caching saved %s of the cost, less than %s", r.API, percent(r.Saved), percent(aimSaved)))
	}
	return out
}

// missedTargets is the error of a bench in which a conversation misses its targets.
func missedTargets(all []modelResult) error {
	var missed []string
	for _, r := range all {
		missed = append(missed, r.missed()...)
	}
	if len(missed) == 0 {
		return nil
	}
	return errors.New("targets missed: " + strings.Join(missed, "; "))
}

// measureModels lets a builder read files for 20 turns over each API, with the scripted model in the
// provider's place, and compares its client with the same requests sent as they are, and with the
// provider's SDK alone.
func measureModels(ctx context.Context, repeats int, say func(string, ...any)) ([]modelResult, error) {
	var out []modelResult
	for _, t := range conversations() {
		say("Measuring conversations over the API %s", t.api)
		r, err := measureConversation(ctx, t, max(repeats, 1))
		if err != nil {
			return nil, fmt.Errorf("conversation over the API %s: %w", t.api, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// modelScenario is how the scripted model answers conversations.
const modelScenario = "rules:\n  - reply: {text: next, tool_calls: [{name: read_file, arguments: {path: a.go}}, {name: read_file, arguments: {path: b.go}}]}\n"

// serveModel serves the scripted model with a scenario until the input of this program ends.
func serveModel(ctx context.Context, text string) error {
	scenario, err := scripted.Parse("bench", []byte(text))
	if err != nil {
		return err
	}
	model, err := scripted.New(scenario, scripted.Options{})
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: model, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = model.Close()
		_ = srv.Close()
	}()
	fmt.Println(l.Addr())
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// measureConversation repeats a conversation, each time in another run, so that no cache outlives it.
// A first one, which does not count, warms up and records the requests.
func measureConversation(ctx context.Context, t talk, repeats int) (r modelResult, err error) {
	address, _, stop, err := startSelf(ctx, "-serve-model", modelScenario)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	p := t.provider
	p.Name, p.BaseURL, p.APIKeyEnv = string(p.Kind), "http://"+address, "KEY"
	if p.Kind != model.KindGemini {
		p.BaseURL += "/v1"
	}
	recorder := &recorder{on: true}
	client, err := modelclient.New([]model.Provider{p}, model.DefaultCatalogue(), modelclient.Options{Transport: recorder, Getenv: func(string) string { return "key" }})
	if err != nil {
		return r, err
	}
	defer client.Close()
	choice := contract.ModelChoice{Provider: p.Name, Model: t.model}
	entry, known := client.Entry(choice)
	if !known {
		return r, fmt.Errorf("the catalogue has no %s", t.model)
	}
	if _, _, err := converse(ctx, client, choice, 1); err != nil {
		return r, err
	}
	recorder.on = false
	var usage contract.Usage
	var ours, raw, sdk samples
	for i := range repeats {
		run := int64(2 * (i + 1))
		err = errors.Join(
			ours.add(func() ([]time.Duration, error) {
				u, took, err := converse(ctx, client, choice, run)
				usage = usage.Add(u)
				return took, err
			}),
			raw.add(func() ([]time.Duration, error) { return recorder.replay(ctx) }))
		if err == nil && t.plainly != nil {
			err = sdk.add(func() ([]time.Duration, error) { return t.plainly(ctx, p.BaseURL, t.model, run+1) })
		}
		if err != nil {
			return r, err
		}
	}
	fresh := usage
	fresh.CachedTokens, fresh.CacheWriteTokens = 0, 0
	r = modelResult{
		API: t.api, Model: t.model, Calls: usage.Calls, Prompt: usage.PromptTokens, Cached: usage.CachedTokens,
		Share:   float64(usage.CachedTokens) / float64(usage.PromptTokens),
		CostUSD: float64(usage.MicroUSD) / 1e6, FreshUSD: float64(model.Cost(fresh, entry)) / 1e6, Ours: ours.cost(), Raw: raw.cost(),
	}
	r.Saved = 1 - r.CostUSD/r.FreshUSD
	if t.plainly != nil {
		cost := sdk.cost()
		r.SDK = &cost
	}
	return r, nil
}

// samples are the times of calls, and the processor time that they used.
type samples struct {
	took []time.Duration
	cpu  time.Duration
}

// add measures calls.
func (s *samples) add(calls func() ([]time.Duration, error)) error {
	before := processorTime()
	took, err := calls()
	s.cpu += processorTime() - before
	s.took = append(s.took, took...)
	return err
}

func (s *samples) cost() callCost {
	return callCost{P50MS: quantileMS(s.took, 0.5), P95MS: quantileMS(s.took, 0.95), CPUMS: float64(s.cpu.Microseconds()) / 1000 / float64(len(s.took))}
}

// What the builder's conversation consists of.
const (
	userText  = "Add a dark mode."
	maxOutput = 4096
)

var readFileTool = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)

func systemText(run int64) string {
	return fmt.Sprintf("Run %d. ", run) + strings.Repeat("Make the smallest change that fulfils the step, in the style of the code around it. ", 150)
}

func resultText(turn, call int) string {
	return strings.Repeat(fmt.Sprintf("func f%d_%d() error { return nil }\n", turn, call), 40)
}

// converse lets a builder read two files in each turn.
func converse(ctx context.Context, c *modelclient.Client, choice contract.ModelChoice, run int64) (contract.Usage, []time.Duration, error) {
	req := model.Request{
		Choice: choice, MaxOutput: maxOutput, Headers: model.Identity{Run: run, Agent: "builder", Phase: "builder_running", Step: "step-001", Attempt: 1},
		Messages: []model.Message{{Role: model.RoleSystem, Text: systemText(run)}, {Role: model.RoleUser, Text: userText}},
		Tools:    []model.Tool{{Name: "read_file", Description: "Reads a file.", Parameters: readFileTool}},
	}
	var usage contract.Usage
	var took []time.Duration
	for turn := range conversationTurns {
		req.Headers.Turn = turn + 1
		start := time.Now()
		r, err := c.Complete(ctx, req)
		if err != nil {
			return usage, nil, err
		}
		took, usage = append(took, time.Since(start)), usage.Add(r.Usage)
		req.Messages = append(req.Messages, r.Message())
		for i, call := range r.ToolCalls {
			req.Messages = append(req.Messages, model.Message{Role: model.RoleTool, ToolCallID: call.ID, Text: resultText(turn, i)})
		}
	}
	return usage, took, nil
}

// recorder keeps the requests of a conversation, to send them again without the client.
type recorder struct {
	on       bool
	requests []recorded
}

type recorded struct {
	url    string
	header http.Header
	body   []byte
}

// RoundTrip sends a request, and keeps it if the recorder is on.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.on {
		return http.DefaultTransport.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.requests = append(r.requests, recorded{req.URL.String(), req.Header.Clone(), body})
	req.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(req)
}

// replay sends the kept requests again, and reads the responses.
func (r *recorder) replay(ctx context.Context) ([]time.Duration, error) {
	var took []time.Duration
	for _, kept := range r.requests {
		start := time.Now()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, kept.url, bytes.NewReader(kept.body))
		if err != nil {
			return nil, err
		}
		req.Header = kept.header
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("the scripted model responded %s to a repeated request", resp.Status)
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// quantileMS returns a quantile of durations, in milliseconds.
func quantileMS(all []time.Duration, q float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000
}

func (r results) printModels(out io.Writer) error {
	if len(r.Models) == 0 {
		return nil
	}
	t := newTable(out, fmt.Sprintf("A builder's conversation of %d turns, at the providers' prices (targets: %.0f %% cached, %.0f %% cheaper)", conversationTurns, 100*aimCached, 100*aimSaved),
		"API", "MODEL", "CALLS", "PROMPT TOKENS", "CACHED", "SHARE", "COST", "WITHOUT CACHE", "CHEAPER BY")
	for _, m := range r.Models {
		t.row(m.API, m.Model, fmt.Sprint(m.Calls), fmt.Sprint(m.Prompt), fmt.Sprint(m.Cached), percent(m.Share), fmt.Sprintf("$%.4f", m.CostUSD), fmt.Sprintf("$%.4f", m.FreshUSD), percent(m.Saved))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = newTable(out, "A call by the provider's SDK alone (before) and by our client (after), and the same requests sent as they are (raw)",
		"API", "CPU BEFORE", "CPU AFTER", "RATIO", "P95 BEFORE", "P95 AFTER", "RATIO", "RAW CPU", "RAW P95", "WE ADD TO P95")
	for _, m := range r.Models {
		cells := []string{m.API, "-", millis(m.Ours.CPUMS), "-", "-", millis(m.Ours.P95MS), "-"}
		added := m.Ours.P95MS - m.Raw.P95MS
		if m.SDK != nil {
			cells = []string{m.API, millis(m.SDK.CPUMS), millis(m.Ours.CPUMS), ratio(m.Ours.CPUMS / m.SDK.CPUMS), millis(m.SDK.P95MS), millis(m.Ours.P95MS), ratio(m.Ours.P95MS / m.SDK.P95MS)}
			added = m.Ours.P95MS - m.SDK.P95MS
		}
		t.row(append(cells, millis(m.Raw.CPUMS), millis(m.Raw.P95MS), millis(added))...)
	}
	return t.Flush()
}

func millis(ms float64) string { return fmt.Sprintf("%.2f ms", ms) }

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
