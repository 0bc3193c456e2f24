package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// refusal is a command that cannot be carried out, and what must be said.
type refusal struct {
	dir  string // where it is run; empty: where the stack's configuration lies
	args []string
	says []string
}

func (w *stackTests) badInput(t *testing.T) {
	before := w.made(t)
	refs := harness.Git(t, w.shell, "for-each-ref")
	for name, c := range w.refusals(t) {
		t.Run(name, func(t *testing.T) {
			dir := c.dir
			if dir == "" {
				dir = w.Work
			}
			r := w.Run(t, dir, c.args...)
			require.Equal(t, exitInput, r.Code, "%s", r)
			require.NotContains(t, r.Stderr, "goroutine ", "it panicked")
			for _, says := range c.says {
				require.Contains(t, r.Stderr, says)
			}
			asJSON := w.Run(t, dir, append([]string{"--json"}, c.args...)...)
			require.Equal(t, exitInput, asJSON.Code, "%s", asJSON)
			require.Contains(t, asJSON.Stdout, `"error_message"`)
		})
	}
	require.Equal(t, before, w.made(t), "nothing was made")
	require.Equal(t, refs, harness.Git(t, w.shell, "for-each-ref"), "no branch was made")
}

// refusals are what people get wrong.
func (w *stackTests) refusals(t *testing.T) map[string]refusal {
	t.Helper()
	at := func(parts ...string) string { return filepath.Join(append([]string{w.Dir, "bad"}, parts...)...) }
	create := func(args ...string) []string {
		return append([]string{"run", "create", "--repo", w.shell, "--goal", harness.Goal("quick")}, args...)
	}
	harness.WriteFiles(t, at("folder"), map[string]string{"file.txt": "no repository\n"})
	harness.Git(t, w.Dir, "init", "--quiet", at("empty"))
	harness.WriteFiles(t, at("goals"), map[string]string{
		"long.txt": strings.Repeat("more and more ", 75_000), "nul.txt": "a\x00b", "binary.txt": "a\xff\xfeb", "blank.txt": " \n\t\n",
	})
	harness.WriteFiles(t, at("plans"), map[string]string{
		"text.yaml":  "I would rather write a poem.\n",
		"cycle.yaml": "summary: x\ncomplexity_score: 0.1\nsteps:\n- {id: a, name: A, dependencies: [b]}\n- {id: b, name: B, dependencies: [a]}\n",
		"none.yaml":  "summary: x\ncomplexity_score: 0.1\nsteps: []\n",
	})
	harness.WriteFiles(t, at("config"), map[string]string{"rgpt.yaml": "execution:\n  parallel_steps: lots\n"})
	brokenRepo := harness.Repo(t, at("broken"), map[string]string{"rgpt.yaml": "# broken\nfindings:\n  max_major: many\n"})
	greedyRepo := harness.Repo(t, at("greedy"), map[string]string{"rgpt.yaml": "execution:\n  sandbox:\n    network: [example.com]\n"})
	harness.WriteFiles(t, at("dead"), map[string]string{"rgpt.yaml": provider("dead", closedPort(t))})
	harness.WriteFiles(t, at("locked"), map[string]string{"rgpt.yaml": provider("locked", lockedModel(t))})
	return map[string]refusal{
		"no repository named":      {args: []string{"run", "create", "--goal", "x"}, says: []string{"--repo"}},
		"no such folder":           {args: create("--repo", at("nowhere")), says: []string{"nowhere"}},
		"a folder, no repository":  {args: create("--repo", at("folder")), says: []string{"folder"}},
		"an empty repository":      {args: create("--repo", at("empty")), says: []string{"empty"}},
		"an unknown base":          {args: create("--base", "no-such-branch"), says: []string{"no-such-branch"}},
		"a base like an option":    {args: create("--base", "--upload-pack=touch x")},
		"an empty goal":            {args: create("--goal", ""), says: []string{"--goal"}},
		"a blank goal":             {args: []string{"run", "create", "--repo", w.shell, "--goal-file", at("goals", "blank.txt")}, says: []string{"goal is empty"}},
		"a goal of 1 MB":           {args: []string{"run", "create", "--repo", w.shell, "--goal-file", at("goals", "long.txt")}, says: []string{"execution.max_goal_bytes"}},
		"a goal with NUL":          {args: []string{"run", "create", "--repo", w.shell, "--goal-file", at("goals", "nul.txt")}, says: []string{"NUL"}},
		"a goal that is no text":   {args: []string{"run", "create", "--repo", w.shell, "--goal-file", at("goals", "binary.txt")}, says: []string{"UTF-8"}},
		"no such goal file":        {args: []string{"run", "create", "--repo", w.shell, "--goal-file", at("goals", "none")}, says: []string{"none"}},
		"goal twice":               {args: create("--goal-file", at("goals", "nul.txt")), says: []string{"--goal-file"}},
		"a broken rgpt.yaml here":  {dir: at("config"), args: create(), says: []string{"rgpt.yaml:2", "execution.parallel_steps"}},
		"a broken one in the repo": {args: create("--repo", brokenRepo), says: []string{"rgpt.yaml:3", "findings.max_major"}},
		"a repo that wants more":   {args: create("--repo", greedyRepo), says: []string{"rgpt.yaml:3", "execution.sandbox.network"}},
		"an unreachable model":     {args: create("--config", at("dead", "rgpt.yaml")), says: []string{"dead", "was not created"}},
		"an unauthorised model":    {args: create("--config", at("locked", "rgpt.yaml")), says: []string{"locked", "was not created"}},
		"a file nobody trusted":    {dir: at("dead"), args: create(), says: []string{"rgpt.yaml:", "models.providers", "rgpt trust"}},
		"an unknown provider":      {args: create("--model", "nobody/x"), says: []string{"nobody"}},
		"a model without provider": {args: create("--model", "x"), says: []string{"provider/model"}},
		"a plan that is none":      {args: create("--plan", at("plans", "text.yaml")), says: []string{"text.yaml"}},
		"a plan in a circle":       {args: create("--plan", at("plans", "cycle.yaml")), says: []string{"dependency cycle"}},
		"a plan without steps":     {args: create("--plan", at("plans", "none.yaml")), says: []string{"neither steps nor edits"}},
		"no such plan":             {args: create("--plan", at("plans", "nowhere.yaml")), says: []string{"nowhere.yaml"}},
		"an unknown key":           {args: create("--set", "execution.parallel_step=2"), says: []string{"parallel_step"}},
		"an unknown flag":          {args: create("--gaol", "x"), says: []string{"gaol"}},
		"an unknown command":       {args: []string{"run", "crate"}},
		"an unknown run":           {args: []string{"run", "inspect", "999999999"}, says: []string{"999999999"}},
		"a run that is no number":  {args: []string{"run", "watch", "banana"}, says: []string{"banana"}},
		"a run below zero":         {args: []string{"run", "pause", "--", "-5"}, says: []string{"-5"}},
		"a run beyond numbers":     {args: []string{"run", "inspect", "99999999999999999999999"}},
		"no run":                   {args: []string{"run", "resume"}, says: []string{"ID of one run"}},
		"a port in use":            {args: []string{"dev", "--detach", "--data-dir", at("data"), "--port", usedPort(t)}, says: []string{"in use"}},
		"no such scenario":         {args: []string{"dev", "--detach", "--data-dir", at("data"), "--port", "0", "--scenario", at("none.yaml")}, says: []string{"none.yaml"}},
		"no stack":                 {args: []string{"run", "list", "--data-dir", at("data")}, says: []string{"rgpt dev"}},
	}
}

// provider is a configuration with one model provider.
func provider(name, url string) string {
	return fmt.Sprintf("models:\n  default: {provider: %s, model: some}\n  providers:\n    %s: {kind: compatible, base_url: %q}\n", name, name, url)
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	port, err := freeport.Take(t.Context())
	require.NoError(t, err)
	return fmt.Sprintf("http://127.0.0.1:%d/v1", port)
}

// usedPort is a port on which somebody listens.
func usedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// lockedModel is a provider that lets nobody in.
func lockedModel(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": {"message": "who are you?", "code": "invalid_api_key"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// made counts what runs consist of, in the database and in Temporal.
func (w *stackTests) made(t *testing.T) string {
	t.Helper()
	runs, err := w.Store(t).ListRuns(t.Context(), store.Filter{Limit: 1000})
	require.NoError(t, err)
	workflows, err := w.Temporal(t).CountWorkflow(context.WithoutCancel(t.Context()), &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default"})
	require.NoError(t, err)
	return fmt.Sprintf("%d runs, %d workflows", len(runs), workflows.GetCount())
}
