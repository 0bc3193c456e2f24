package drivers

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/runner"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

const key = "sk-canary-0123456789"

// provider is a model's server that records requests.
type provider struct {
	url string
	mu  sync.Mutex
	got []string // bodies
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		p.got = append(p.got, string(body))
		p.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		const usage = `"usage":{"prompt_tokens":100,"completion_tokens":30,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":10}}`
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[]}\n\ndata: {\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"42"}}],%s}`, usage)
	}))
	t.Cleanup(web.Close)
	p.url = web.URL + "/v1"
	return p
}

func (p *provider) config(t *testing.T) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
	cfg := config.Default()
	cfg.Models.Providers = map[string]config.Provider{
		"own": {Kind: string(model.KindCompatible), BaseURL: p.url, APIKeyFile: file, MaxConcurrent: 4}, "claude": {Kind: string(model.KindAnthropic), MaxConcurrent: 4},
	}
	return cfg
}

func (p *provider) catalogue() model.Catalogue {
	return model.Catalogue{}.With(model.CatalogueEntry{Provider: "own", Model: "m", PriceIn: 10, PriceCached: 1, PriceOut: 20})
}

func TestTokensOfAnotherAgentAreCounted(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	g, err := newGate(p.config(t), p.catalogue(), "own/m", 2000)
	require.NoError(t, err)
	defer g.client.CloseIdleConnections()
	web := httptest.NewServer(g)
	defer web.Close()
	ask := func(body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NotContains(t, string(text)+fmt.Sprint(answer.Header), key)
		return answer.StatusCode, string(text)
	}
	status, text := ask(`{"model":"another","messages":[]}`)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "42")
	status, text = ask(`{"model":"another","stream":true,"messages":[]}`)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "[DONE]")
	o := g.outcome()
	require.Equal(t, []int64{80, 120, 20, 40}, []int64{o.FreshTokens, o.CachedTokens, o.ReasoningTokens, o.OutputTokens})
	require.Equal(t, 2, o.Turns)
	// 40 fresh, 60 cached and 30 completion tokens cost 400 + 60 + 600 millionths, twice.
	require.Equal(t, int64(2120), o.CostMicros)
	status, text = ask(`{"messages":[]}`)
	require.Equal(t, http.StatusPaymentRequired, status)
	require.Contains(t, text, "budget")
	require.Len(t, p.got, 2)
	for _, body := range p.got {
		var doc struct{ Model string }
		require.NoError(t, json.Unmarshal([]byte(body), &doc))
		require.Equal(t, "m", doc.Model)
	}
	require.Contains(t, p.got[1], "include_usage")
	_, err = newGate(p.config(t), p.catalogue(), "claude/x", 0)
	require.ErrorContains(t, err, "OpenAI's API")
}

func TestAnotherAgentWorksInTheSandbox(t *testing.T) {
	t.Parallel()
	sandboxtest.Executable(t)
	p := newProvider(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "answer"), []byte("41\n"), 0o644))
	git("add", "-A")
	git("commit", "-qm", "First")
	base := git("rev-parse", "HEAD")
	cfg := p.config(t)
	d := New(cfg, p.catalogue(), t.TempDir(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	variant := eval.Variant{Name: "other", Model: "own/m", Driver: &eval.Driver{
		Install: `echo 'cp "$RGPT_GOAL_FILE" goal' > "$RGPT_DRIVER_HOME/agent"`,
		Command: `set -e
. "$RGPT_DRIVER_HOME/agent"
env > environment
python3 - <<'END'
import json, os, urllib.request
r = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=json.dumps({"model": os.environ["RGPT_MODEL"], "messages": []}).encode())
open("answer", "w").write(json.load(urllib.request.urlopen(r))["choices"][0]["message"]["content"] + "\n")
try:
    urllib.request.urlopen("http://example.com/")
    open("reached", "w").write("the network")
except Exception:
    pass
END
! echo x > "$RGPT_DRIVER_HOME/agent"`,
	}}
	job := runner.Drive{Task: eval.Task{ID: "one", Base: base, Goal: eval.Goal{Title: "Find the answer", Description: "It is a number."}}, Variant: variant, Repo: dir, Key: "k"}
	out, err := d.Drive(t.Context(), job)
	require.NoError(t, err)
	require.NotEmpty(t, out.Commit, out.Outcome.Detail)
	require.Equal(t, "42", git("show", out.Commit+":answer"))
	require.Equal(t, "Find the answer\n\nIt is a number.", git("show", out.Commit+":goal"))
	require.NotContains(t, git("show", out.Commit+":environment"), key)
	require.NotContains(t, git("ls-tree", "--name-only", out.Commit), "reached")
	require.Equal(t, 1, out.Outcome.Turns)
	require.Equal(t, int64(40), out.Outcome.FreshTokens)
	require.Equal(t, base, git("rev-parse", "HEAD"))

	idle := variant
	idle.Driver = &eval.Driver{Command: "true"}
	job.Variant = idle
	out, err = d.Drive(t.Context(), job)
	require.NoError(t, err)
	require.Empty(t, out.Commit)
	require.Equal(t, runner.ReasonNotReleased, out.Outcome.Reason)
}

func TestAFlagNamesAKnownDriver(t *testing.T) {
	t.Parallel()
	v, err := Variant("mini-swe-agent=own/m")
	require.NoError(t, err)
	require.NoError(t, eval.CheckVariants([]eval.Variant{v}))
	for _, flag := range []string{"mini-swe-agent", "unknown=own/m", "mini-swe-agent="} {
		_, err := Variant(flag)
		require.ErrorContains(t, err, "mini-swe-agent")
	}
}
