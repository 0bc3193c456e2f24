package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// recorder is a model provider that keeps every request, and lets a stack's scripted model answer.
type recorder struct {
	*httptest.Server
	mu       sync.Mutex
	to       string
	requests []string
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		to := r.to
		r.requests = append(r.requests, string(body))
		r.mu.Unlock()
		out, err := http.NewRequestWithContext(in.Context(), in.Method, strings.TrimSuffix(to, "/v1")+in.URL.RequestURI(), strings.NewReader(string(body)))
		if err != nil {
			return
		}
		out.Header = in.Header.Clone()
		answer, err := http.DefaultClient.Do(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer answer.Body.Close()
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(r.Close)
	return r
}

// TestHiddenTestsDecideAndReachNoAgent evaluates one run that is right and one that is wrong, and
// searches all that was sent to models, and all repositories of the runs, for the hidden tests.
func TestHiddenTestsDecideAndReachNoAgent(t *testing.T) {
	t.Parallel()
	const canary = "hidden-canary-5821"
	provider := newRecorder(t)
	rules := append(
		harness.PlanRules("0s", writes("step-001")).Named("right"),
		harness.PlanRules("0s", writes("step-002")).Named("wrong")...)
	s := harness.Start(t, harness.Options{
		Scenario: rules,
		Config:   "models:\n  providers:\n    own: {kind: compatible, base_url: " + provider.URL + "/v1}\n  default: {provider: own, model: own}\n",
	})
	provider.mu.Lock()
	provider.to = s.State(t).Model
	provider.mu.Unlock()

	repo := harness.ShellRepo(t, filepath.Join(s.Dir, "repo"))
	base := harness.Git(t, repo, "rev-parse", "HEAD")
	harness.WriteFiles(t, repo, map[string]string{"test.sh": "#!/bin/sh\n# " + canary + "\n[ -s step-001.txt ]\n"})
	harness.Git(t, repo, "commit", "--quiet", "--all", "--message", "Later: "+canary)
	blob := harness.Git(t, repo, "rev-parse", "HEAD:test.sh")
	patch := harness.Git(t, repo, "diff", "--binary", "--full-index", base, "HEAD") + "\n"
	var set eval.Set
	for _, name := range []string{"right", "wrong"} {
		set.Tasks = append(set.Tasks, eval.Task{
			ID: name, Repo: repo, Base: base, Goal: eval.Goal{Title: harness.Goal(name)}, Tests: eval.Tests{Patch: patch, Command: "./test.sh", Format: "exit-code"},
		})
	}
	var text strings.Builder
	require.NoError(t, eval.WriteYAML(&text, set))
	harness.WriteFiles(t, s.Dir, map[string]string{"set.yaml": text.String()})

	run := func() report.Report {
		var r report.Report
		s.OK(t, "eval", "run", filepath.Join(s.Dir, "set.yaml"), "--json").JSON(t, &r)
		return r
	}
	r := run()
	require.Equal(t, 1, r.Variants[0].Solved)
	require.True(t, r.Results[0].Solved, "%+v", r.Results)
	require.Equal(t, "hidden_tests", r.Results[1].Reason, "%+v", r.Results[1])
	require.Positive(t, r.Results[0].Turns)

	require.NotEmpty(t, provider.requests)
	for _, request := range provider.requests {
		require.NotContains(t, request, canary)
	}
	repositories, err := filepath.Glob(filepath.Join(s.DataDir, "eval", "runs", "*", "*", "*"))
	require.NoError(t, err)
	require.Len(t, repositories, 2)
	for _, dir := range repositories {
		cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "cat-file", "-e", blob)
		require.Error(t, cmd.Run(), "%s contains a hidden test", dir)
	}
	var again report.Report
	s.OK(t, "eval", "report", "1", "--json").JSON(t, &again)
	require.Equal(t, r.Results, again.Results)
	require.Equal(t, r.Eval.ID+1, run().Eval.ID, "an evaluation that is done is not continued")
	harness.CheckInvariants(t, s, r.Results[0].RunID, r.Results[1].RunID)
}
