package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// The targets of conversations with models.
const (
	aimCached = 0.85 // share of the prompt tokens that come from the provider's cache
	aimSaved  = 0.60 // share of the cost that caching saves
)

// conversationTurns is the length of the builder's conversation.
const conversationTurns = 20

// conversations are the APIs to measure, each with a model whose prices count.
func conversations() []model.Provider {
	return []model.Provider{
		{Name: "gpt-4.1", Kind: model.KindOpenAI},
		{Name: "claude-sonnet-4-5", Kind: model.KindAnthropic},
	}
}

// modelResult is one conversation over one API.
type modelResult struct {
	API       string  `json:"api"`
	Model     string  `json:"model"`
	Calls     int     `json:"calls"`
	Prompt    int64   `json:"prompt_tokens"`
	Cached    int64   `json:"cached_tokens"`
	Share     float64 `json:"cached_share"`
	CostUSD   float64 `json:"cost_usd"`
	FreshUSD  float64 `json:"cost_without_cache_usd"`
	Saved     float64 `json:"saved"`
	RawP50MS  float64 `json:"raw_p50_ms"` // of the same requests, sent without the client
	RawP95MS  float64 `json:"raw_p95_ms"`
	P50MS     float64 `json:"p50_ms"`
	P95MS     float64 `json:"p95_ms"`
	AddedMS   float64 `json:"added_p95_ms"`
	RawCPUMS  float64 `json:"raw_cpu_ms"` // each call, of the scripted model and of plain HTTP
	CPUMS     float64 `json:"cpu_ms"`     // each call, with the client
	AddedCPU  float64 `json:"added_cpu_ms"`
	BodyBytes int64   `json:"request_bytes"` // of all requests
}

// measureModels lets a builder read files for 20 turns over each API, with the scripted model in the
// provider's place, and compares its client with the same requests sent as they are.
func measureModels(ctx context.Context, repeats int, say func(string, ...any)) ([]modelResult, error) {
	scenario, err := scripted.Parse("bench", []byte("rules:\n  - reply: {text: next, tool_calls: [{name: read_file, arguments: {path: a.go}}, {name: read_file, arguments: {path: b.go}}]}\n"))
	if err != nil {
		return nil, err
	}
	var out []modelResult
	for _, p := range conversations() {
		say("Measuring conversations over the API of %s", p.Kind)
		r, err := measureConversation(ctx, scenario, p, max(repeats, 1))
		if err != nil {
			return nil, fmt.Errorf("conversation over the API of %s: %w", p.Kind, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// measureConversation repeats a conversation, each time in another run, so that no cache outlives it.
func measureConversation(ctx context.Context, scenario *scripted.Scenario, p model.Provider, repeats int) (r modelResult, err error) {
	server, err := scripted.New(scenario, scripted.Options{})
	if err != nil {
		return r, err
	}
	h := httptest.NewServer(server)
	defer func() { err = errors.Join(err, server.Close()); h.Close() }()
	name := p.Name
	p.Name, p.BaseURL, p.APIKeyEnv = string(p.Kind), h.URL+"/v1", "KEY"
	recorder := &recorder{}
	client, err := modelclient.New([]model.Provider{p}, model.DefaultCatalogue(), modelclient.Options{Transport: recorder, Getenv: func(string) string { return "key" }})
	if err != nil {
		return r, err
	}
	defer client.Close()
	entry, known := client.Entry(contract.ModelChoice{Provider: p.Name, Model: name})
	if !known {
		return r, fmt.Errorf("the catalogue has no %s", name)
	}
	r = modelResult{API: string(p.Kind), Model: name}
	var ours, raw []time.Duration
	var usage contract.Usage
	for i := range repeats {
		before := ownSeconds()
		u, took, err := converse(ctx, client, contract.ModelChoice{Provider: p.Name, Model: name}, int64(i+1))
		if err != nil {
			return r, err
		}
		r.CPUMS += (ownSeconds() - before) * 1000
		usage, ours = usage.Add(u), append(ours, took...)
		before = ownSeconds()
		took, err = recorder.replay(ctx)
		if err != nil {
			return r, err
		}
		r.RawCPUMS += (ownSeconds() - before) * 1000
		raw = append(raw, took...)
	}
	fresh := usage
	fresh.CachedTokens, fresh.CacheWriteTokens = 0, 0
	r.Calls, r.Prompt, r.Cached, r.BodyBytes = usage.Calls, usage.PromptTokens, usage.CachedTokens, recorder.bytes
	r.Share = float64(usage.CachedTokens) / float64(usage.PromptTokens)
	r.CostUSD, r.FreshUSD = float64(usage.MicroUSD)/1e6, float64(model.Cost(fresh, entry))/1e6
	r.Saved = 1 - r.CostUSD/r.FreshUSD
	r.CPUMS, r.RawCPUMS = r.CPUMS/float64(r.Calls), r.RawCPUMS/float64(r.Calls)
	r.P50MS, r.P95MS = quantileMS(ours, 0.5), quantileMS(ours, 0.95)
	r.RawP50MS, r.RawP95MS = quantileMS(raw, 0.5), quantileMS(raw, 0.95)
	r.AddedMS, r.AddedCPU = r.P95MS-r.RawP95MS, r.CPUMS-r.RawCPUMS
	return r, nil
}

// converse lets a builder read two files in each turn.
func converse(ctx context.Context, c *modelclient.Client, choice contract.ModelChoice, run int64) (contract.Usage, []time.Duration, error) {
	req := model.Request{
		Choice: choice, MaxOutput: 4096, Headers: model.Identity{Run: run, Agent: "builder", Phase: "builder_running", Step: "step-001", Attempt: 1},
		Messages: []model.Message{
			{Role: model.RoleSystem, Text: fmt.Sprintf("Run %d. ", run) + strings.Repeat("Make the smallest change that fulfils the step, in the style of the code around it. ", 150)},
			{Role: model.RoleUser, Text: "Add a dark mode."},
		},
		Tools: []model.Tool{{Name: "read_file", Description: "Reads a file.", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)}},
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
			req.Messages = append(req.Messages, model.Message{
				Role: model.RoleTool, ToolCallID: call.ID, Text: strings.Repeat(fmt.Sprintf("func f%d_%d() error { return nil }\n", turn, i), 40),
			})
		}
	}
	return usage, took, nil
}

// recorder keeps the requests of a conversation, to send them again without the client.
type recorder struct {
	requests []recorded
	bytes    int64
}

type recorded struct {
	url    string
	header http.Header
	body   []byte
}

// RoundTrip keeps a request and sends it.
func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.requests = append(r.requests, recorded{req.URL.String(), req.Header.Clone(), body})
	r.bytes += int64(len(body))
	req.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(req)
}

// replay sends the kept requests again, reads the responses, and forgets the requests.
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
	r.requests = nil
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
	t = newTable(out, "Time and CPU of the client for each call (plain: the same requests sent as they are; the CPU includes the scripted model)",
		"API", "PLAIN P50", "P50", "PLAIN P95", "P95", "ADDED P95", "PLAIN CPU", "CPU", "ADDED CPU")
	for _, m := range r.Models {
		var cells []string
		for _, n := range []float64{m.RawP50MS, m.P50MS, m.RawP95MS, m.P95MS, m.AddedMS, m.RawCPUMS, m.CPUMS, m.AddedCPU} {
			cells = append(cells, fmt.Sprintf("%.2f ms", n))
		}
		t.row(append([]string{m.API}, cells...)...)
	}
	return t.Flush()
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }
