package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestTheCommandLineWorksThroughAServer does by --server what is done without it.
func TestTheCommandLineWorksThroughAServer(t *testing.T) {
	t.Parallel()
	var rules harness.Rules
	for name, r := range map[string]harness.Rules{
		"quick": quickRules("20ms"), "steered": quickRules("20ms"), "slow": quickRules("2s"), "stumble": failingStepRules(), "other": forkRules("20ms"),
		"helped": first(makes("right"), rule(on("agent", "builder"), status(401), 0)),
	} {
		rules = append(rules, r.Named(name)...)
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	t.Run("side by side", func(t *testing.T) {
		t.Run("a run is steered, and a lost answer changes nothing", parallel(w.steeredRemotely))
		t.Run("runs are done again", parallel(w.againRemotely))
		t.Run("a command that was carried out is not another one later", parallel(w.answeredBeforeItEnded))
		t.Run("runs are done again once whose answers are lost", w.againDespiteLosses)
		t.Run("what cannot be used is refused as it is without a server", parallel(w.refusedRemotely))
	})
	t.Run("what is read is the same", w.readRemotely)
	t.Run("webhooks are kept by a server, once although an answer is lost", w.webhooksRemotely)
	t.Run("watching goes on after the server was killed", w.watchedRemotely)
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

// remote runs rgpt by a server.
func (w *stackTests) remote(t *testing.T, server string, args ...string) harness.Result {
	t.Helper()
	// Nothing of this machine is at hand: no data folder, no database.
	env := []string{"RGPT_SERVER=" + server}
	return w.RunWith(t, w.Work, env, "", append([]string{"--data-dir", filepath.Join(w.Dir, "nothing")}, args...)...)
}

// byServer runs rgpt by a server and requires that it worked.
func (w *stackTests) byServer(t *testing.T, server string, args ...string) string {
	t.Helper()
	r := w.remote(t, server, args...)
	require.Zero(t, r.Code, "rgpt %s: %s", strings.Join(args, " "), r)
	return r.Stdout
}

// createdBy makes a run by a server.
func (w *stackTests) createdBy(t *testing.T, server, scenario string, args ...string) int64 {
	t.Helper()
	var made struct {
		RunID   int64 `json:"runId"`
		Created bool  `json:"created"`
	}
	r := w.remote(t, server, append([]string{"run", "create", "--json", "--repo", w.shell, "--goal", harness.Goal(scenario)}, args...)...)
	require.Zero(t, r.Code, "%s", r)
	r.JSON(t, &made)
	require.True(t, made.Created)
	return w.note(made.RunID)
}

// lossy is a proxy that lets every command through and loses the answer to it the
// first time: the connection just ends. With a patience it ends after that, on
// both sides, however far the command has come.
type lossy struct {
	*httptest.Server
	mu   sync.Mutex
	keys map[string]int // how often each command was sent, by its key
}

func newLossy(t *testing.T, server string, patience ...time.Duration) *lossy {
	t.Helper()
	to, err := url.Parse(server)
	require.NoError(t, err)
	l := &lossy{keys: map[string]int{}}
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			through.ServeHTTP(w, r)
			return
		}
		key := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
		l.mu.Lock()
		l.keys[key]++
		first := l.keys[key] == 1
		l.mu.Unlock()
		if !first {
			through.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		for _, d := range patience {
			defer time.AfterFunc(d, cancel).Stop()
		}
		through.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// sentTwice requires that each command was sent twice, under a key of its own.
func (l *lossy) sentTwice(t *testing.T, commands int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.keys, commands)
	for key, times := range l.keys {
		require.Equal(t, 2, times, key)
		_, own, _ := strings.Cut(key, " ")
		require.NotEmpty(t, own, key)
	}
}

func (w *stackTests) steeredRemotely(t *testing.T) {
	proxy := newLossy(t, w.State(t).Server)
	db := w.Store(t)
	before, err := db.ListRuns(t.Context(), store.Filter{Text: "scenario steered", Limit: 1000})
	require.NoError(t, err)
	id := w.createdBy(t, proxy.URL, "steered", "--approve-plan", "--approve-release", "--stay", "1h", "--set", "findings.max_major=7")
	after, err := db.ListRuns(t.Context(), store.Filter{Text: "scenario steered", Limit: 1000})
	require.NoError(t, err)
	require.Len(t, after, len(before)+1, "the lost answer made no second run")

	w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
	run, err := db.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 7, run.Settings.Thresholds.MaxMajor)
	plan := filepath.Join(w.Dir, "edited.yaml")
	require.NoError(t, os.WriteFile(plan, []byte("summary: edited\nsteps:\n- {id: step-001, name: Edited by hand, description: Edited}\n"), 0o600))
	require.Contains(t, w.byServer(t, proxy.URL, "run", "approve", arg(id), "--plan", plan, "--reason", "shorter"), "plan granted")
	w.AwaitRun(t, db, id, "the question of its release", longest, func(r store.Run) bool {
		return r.Status == contract.StatusWaitingForApproval && r.WaitingFor == "release"
	})
	require.Contains(t, w.byServer(t, proxy.URL, "run", "approve", arg(id)), "release granted")
	w.AwaitRun(t, db, id, "its stay", longest, func(r store.Run) bool { return r.Status == contract.StatusDone && r.StayingUntil != nil })
	w.byServer(t, proxy.URL, "run", "check", arg(id), "--name", "ci", "--passed")
	w.byServer(t, proxy.URL, "run", "stop", arg(id))
	w.AwaitRun(t, db, id, "the end of its stay", longest, func(r store.Run) bool { return r.StayingUntil == nil })
	proxy.sentTwice(t, 5)
	details := w.Inspect(t, id)
	count := map[contract.EventType]int{}
	for _, e := range details.Events {
		count[e.Type]++
	}
	require.Equal(t, 2, count[contract.EventApprovalGranted])
	require.Equal(t, 1, count[contract.EventCheckPassed]+count[contract.EventCheckIgnored], "the check counts once")
	var got contract.Plan
	got, err = db.Plan(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "Edited by hand", got.Steps[0].Name)

	id = w.createdBy(t, proxy.URL, "slow")
	w.asking(t, id, 1)
	require.Contains(t, w.byServer(t, proxy.URL, "run", "pause", arg(id), "--reason", "lunch"), "paused")
	w.AwaitStatus(t, db, id, contract.StatusPaused, longest)
	w.byServer(t, proxy.URL, "run", "resume", arg(id))
	w.byServer(t, proxy.URL, "run", "pause", arg(id))
	w.byServer(t, proxy.URL, "run", "switch-model", arg(id), "--model", "scripted/other", "--agent", "builder", "--temperature", "0.5")
	w.byServer(t, proxy.URL, "run", "advance", arg(id))
	w.AwaitRun(t, db, id, "paused before the next phase", longest, func(r store.Run) bool {
		return r.Status == contract.StatusPaused && strings.HasPrefix(r.WaitingFor, "advanced")
	})
	w.byServer(t, proxy.URL, "run", "stop", arg(id), "--reason", "enough")
	w.end(t, id, contract.StatusCancelled)

	id = w.createdBy(t, proxy.URL, "steered", "--approve-plan")
	w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
	w.byServer(t, proxy.URL, "run", "reject", arg(id), "--reason", "no")
	w.end(t, id, contract.StatusFailed)
}

func (w *stackTests) againRemotely(t *testing.T) {
	server, db := w.State(t).Server, w.Store(t)
	id := w.createdBy(t, server, "helped")
	w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
	w.sameOutput(t, 0, "run", "interventions", arg(id), "--json") // other runs ask at any moment
	w.byServer(t, server, "run", "heal", arg(id), "--reason", "there is a key now")
	w.AwaitRun(t, db, id, "its second question", longest, func(r store.Run) bool {
		d := w.Inspect(t, r.ID)
		return r.Status == contract.StatusWaitingForApproval && len(d.Interventions) > 1
	})
	w.byServer(t, server, "run", "reject", arg(id))
	w.end(t, id, contract.StatusFailed)

	id = w.createdBy(t, server, "stumble", "--set", "execution.max_retries=0")
	r := w.remote(t, server, "run", "watch", arg(id))
	require.Equal(t, exitFailed, r.Code, "%s", r)
	out := w.byServer(t, server, "run", "resume", arg(id), "--wait")
	require.Contains(t, out, "is done")
	require.Contains(t, w.byServer(t, server, "run", "replay", arg(id), "--phase", "tester", "--model", "scripted/third"), "continues from the tester")
	w.end(t, id, contract.StatusDone)

	id = w.createdBy(t, server, "other")
	w.end(t, id, contract.StatusDone)
	like := store.Filter{Text: "scenario other", Limit: 100}
	before, err := db.ListRuns(t.Context(), like)
	require.NoError(t, err)
	out = w.byServer(t, server, "run", "fork", arg(id), "--step", "step-002", "--model", "scripted/other", "--wait")
	require.Contains(t, out, "is done")
	runs, err := db.ListRuns(t.Context(), like)
	require.NoError(t, err)
	require.Len(t, runs, len(before)+1)
	w.note(runs[0].ID)
	require.Equal(t, "made otherwise", w.shows(t, runs[0], "step-002.txt"))
}

// againDespiteLosses does runs again by a proxy that loses every first answer:
// after the whole of it, or as soon as the server has begun.
func (w *stackTests) againDespiteLosses(t *testing.T) {
	for name, patience := range map[string][]time.Duration{"answered": nil, "at once": {20 * time.Millisecond}, "on the way": {150 * time.Millisecond}} {
		t.Run(name, parallel(func(t *testing.T) {
			proxy, db := newLossy(t, w.State(t).Server, patience...), w.Store(t)
			conn, err := pgx.Connect(t.Context(), w.State(t).Database)
			require.NoError(t, err)
			defer conn.Close(context.Background())
			count := func(query string, args ...any) (n int) {
				t.Helper()
				require.NoError(t, conn.QueryRow(t.Context(), query, args...).Scan(&n))
				return n
			}
			replays := func(id int64) int {
				return count("SELECT count(*) FROM orchestrator_replays WHERE run_id = $1", id)
			}
			create := func(scenario string, args ...string) int64 {
				return w.createdBy(t, w.State(t).Server, scenario, args...)
			}

			id := create("helped")
			w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
			w.byServer(t, proxy.URL, "run", "heal", arg(id), "--reason", "there is a key now")
			w.AwaitRun(t, db, id, "its second question", longest, func(r store.Run) bool {
				return r.Status == contract.StatusWaitingForApproval && len(w.Inspect(t, r.ID).Interventions) > 1
			})
			w.byServer(t, proxy.URL, "run", "reject", arg(id))
			w.end(t, id, contract.StatusFailed)
			require.Len(t, w.Inspect(t, id).Interventions, 2)
			require.Zero(t, replays(id))

			for i, again := range []string{"heal", "resume"} {
				id := create("stumble", "--set", "execution.max_retries=0")
				w.end(t, id, contract.StatusFailed)
				w.byServer(t, proxy.URL, "run", again, arg(id))
				w.end(t, id, contract.StatusDone)
				require.Equal(t, 1, replays(id), again)
				if i == 0 {
					continue
				}
				w.byServer(t, proxy.URL, "run", "replay", arg(id), "--phase", "tester", "--model", "scripted/third", "--wait")
				w.end(t, id, contract.StatusDone)
				require.Equal(t, 2, replays(id))
				require.Equal(t, 2, count("SELECT count(*) FROM orchestrator_executions WHERE run_id = $1 AND phase = 'tester' AND step = ''", id))
			}

			id = create("other")
			w.end(t, id, contract.StatusDone)
			forks := func() int {
				return count("SELECT count(*) FROM orchestrator_runs WHERE settings -> 'fork' ->> 'run_id' = $1", arg(id))
			}
			require.Zero(t, forks())
			out := w.byServer(t, proxy.URL, "run", "fork", arg(id), "--step", "step-002", "--model", "scripted/other", "--wait", "--json")
			require.Contains(t, out, `"done"`)
			require.Equal(t, 1, forks())
			var fork int64
			require.NoError(t, conn.QueryRow(t.Context(), "SELECT id FROM orchestrator_runs WHERE settings -> 'fork' ->> 'run_id' = $1", arg(id)).Scan(&fork))
			w.note(fork)
			proxy.sentTwice(t, 6)
		}))
	}
}

// answeredBeforeItEnded asks by the same key again after the run has gone on, on a
// server that died before it could keep what it answered.
func (w *stackTests) answeredBeforeItEnded(t *testing.T) {
	db := w.Store(t)
	conn, err := pgx.Connect(t.Context(), w.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	id := w.createdBy(t, w.State(t).Server, "helped")
	w.AwaitStatus(t, db, id, contract.StatusWaitingForApproval, longest)
	path := "/api/runs/" + arg(id) + "/heal"
	heal := func() (answer struct {
		Answer *contract.Ack   `json:"answer"`
		Replay json.RawMessage `json:"replay"`
	}) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.State(t).Server+path, strings.NewReader(`{"reason": "there is a key now"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", "k")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", raw)
		require.NoError(t, json.Unmarshal(raw, &answer))
		return answer
	}
	first := heal()
	require.NotNil(t, first.Answer)
	w.AwaitRun(t, db, id, "its second question", longest, func(r store.Run) bool {
		return r.Status == contract.StatusWaitingForApproval && len(w.Inspect(t, r.ID).Interventions) > 1
	})
	w.OK(t, "run", "reject", arg(id))
	w.end(t, id, contract.StatusFailed)
	tag, err := conn.Exec(t.Context(), "UPDATE orchestrator_requests SET status = 0, answer = NULL WHERE route = $1", path)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	require.Equal(t, first, heal(), "the run is not done again by a command that was carried out")
	var replays int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM orchestrator_replays WHERE run_id = $1", id).Scan(&replays))
	require.Zero(t, replays)
}

// retrying runs a command again, a few times, while a part of a busy machine does
// not answer it in time.
func retrying(run func() harness.Result) (r harness.Result) {
	for range 10 {
		if r = run(); r.Code != exitError {
			break
		}
	}
	return r
}

// sameOutput requires that a command prints the same and ends the same with a
// server as without.
func (w *stackTests) sameOutput(t *testing.T, code int, args ...string) {
	t.Helper()
	here := retrying(func() harness.Result { return w.RGPT(t, args...) })
	there := retrying(func() harness.Result { return w.remote(t, w.State(t).Server, args...) })
	require.Equal(t, code, here.Code, "rgpt %s: %s", strings.Join(args, " "), here)
	require.Equal(t, code, there.Code, "rgpt %s by the server: %s", strings.Join(args, " "), there)
	require.Equal(t, here.Stdout, there.Stdout, "rgpt %s", strings.Join(args, " "))
	require.Equal(t, here.Stderr, there.Stderr, "rgpt %s", strings.Join(args, " "))
}

func (w *stackTests) refusedRemotely(t *testing.T) {
	server := w.State(t).Server
	done := w.done(t, "quick")
	id := arg(done.ID)
	for _, args := range [][]string{
		{"run", "inspect", "abc"}, {"run", "inspect", "0"}, {"run", "inspect", "999999"}, {"run", "inspect", "999999", "--json"}, {"run", "watch", "999999"},
		{"run", "logs", "999999"}, {"run", "logs", id, "--phase", "nonsense"}, {"run", "timing", "999999"}, {"run", "artifacts", "999999"}, {"run", "export", "999999"},
		{"run", "artifacts", id, "--get", "nothing"}, {"run", "diff", id, "999999"}, {"run", "diff", id + "@7", id}, {"run", "rejudge", "999999"}, {"policy", "explain", "999999"}, {"run", "rejudge", id, "--max-major", "-1"},
		{"run", "approve", "999999"}, {"run", "approve", id}, {"run", "approve", id, "--json"}, {"run", "reject", id}, {"run", "pause", id}, {"run", "stop", id}, {"run", "resume", id}, {"run", "heal", id},
		{"run", "heal", id, "--action", "nonsense"}, {"run", "advance", id}, {"run", "switch-model", id, "--model", "nobody/x"}, {"run", "switch-model", id, "--model", "x"},
		{"run", "replay", id, "--phase", "tester", "--model", "nobody/x"}, {"run", "replay", "999999", "--phase", "tester"}, {"run", "replay", id, "--step", "nonsense"},
		{"run", "fork", id, "--step", "nonsense"}, {"run", "fork", "999999"}, {"run", "check", id, "--name", "ci", "--failed"},
		{"run", "list", "--status", "nonsense"}, {"run", "list", "--limit", "0"}, {"run", "nonsense"}, {"run", "interventions", "999999"},
		{"run", "create", "--repo", filepath.Join(w.Dir, "no-such-folder"), "--goal", "x"}, {"run", "create", "--repo", w.shell, "--goal", ""}, {"run", "create", "--repo", w.shell, "--goal", "x", "--base", "no-such-branch"},
		{"run", "create", "--repo", w.shell, "--goal", "x", "--model", "nobody/x"},
	} {
		w.sameOutput(t, exitInput, args...)
	}
	// What is the operator's cannot be set by a request, nor anything that is none.
	for key, says := range map[string]string{
		"models.providers.scripted.base_url=http://127.0.0.1:1": "providers, keys and budgets belong to the operator", "execution.sandbox.network=example.com": "the sandbox protects",
		"no.such_key=1": "no", "findings.max_major=many": "findings.max_major", "database.url=postgres://x/y": "operator",
	} {
		r := w.remote(t, server, "run", "create", "--repo", w.shell, "--goal", "x", "--set", key)
		require.Equal(t, exitInput, r.Code, "%s: %s", key, r)
		require.Contains(t, r.Stderr, says, key)
	}
	relative := w.remote(t, server, "run", "create", "--repo", ".", "--goal", "x")
	require.Equal(t, exitInput, relative.Code)
	require.Contains(t, relative.Stderr, "with --server, specify the absolute path of a directory on the server's host")
	for _, args := range [][]string{{"dev"}, {"dev", "status"}, {"dev", "stop"}, {"doctor"}, {"server"}, {"migrate"}} {
		r := w.RGPT(t, append([]string{"--server", server}, args...)...)
		require.Equal(t, exitInput, r.Code, "%s", r)
		require.Contains(t, r.Stderr, "works only on this machine")
	}
	for address, says := range map[string]string{"ftp://localhost": "must be http or https", "localhost:8080": "expected a URL", "http://": "expected a URL", "http://ann:hunter2secret@[::1": "expected a URL", "http://localhost?x=1": "query"} {
		r := w.RGPT(t, "--server", address, "run", "list")
		require.Equal(t, exitInput, r.Code, "%s", r)
		require.Contains(t, r.Stderr, says)
		require.NotContains(t, r.String(), "hunter2secret")
	}
	gone := w.RGPT(t, "--server", "http://ann:hunter2secret@127.0.0.1:1/below", "run", "list")
	require.Equal(t, exitError, gone.Code)
	require.Contains(t, gone.Stderr, "the server at http://127.0.0.1:1/below is not responding")
	require.NotContains(t, gone.String(), "hunter2secret")
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	r := w.RGPT(t, "--server", other.URL, "run", "list")
	require.Equal(t, exitInput, r.Code)
	require.Contains(t, r.Stderr, "is not an rgpt server")
	require.Equal(t, 0, w.RunWith(t, w.Work, []string{"RGPT_SERVER=" + other.URL}, "", "--server", "", "run", "list").Code, "an empty flag is this machine")
	require.NotContains(t, w.RunWith(t, w.Work, []string{"RGPT_SERVER=" + other.URL}, "", "dev", "status").Stderr, "only on this machine")
}

func (w *stackTests) webhooksRemotely(t *testing.T) {
	server := w.State(t).Server
	proxy := newLossy(t, server)
	var made struct {
		ID     int64
		Secret string
	}
	r := w.remote(t, proxy.URL, "webhook", "add", "https://hooks.invalid/x", "--event", "run.*", "--project", "app", "--json")
	require.Zero(t, r.Code, "%s", r)
	r.JSON(t, &made)
	require.Contains(t, made.Secret, "whsec_")
	proxy.sentTwice(t, 1)
	id := strconv.FormatInt(made.ID, 10)
	sent := w.remote(t, server, "webhook", "test", id)
	require.Equal(t, exitError, sent.Code, "%s", sent)
	require.Contains(t, sent.Stdout, "Not delivered: ")
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"deliveries", id}, {"deliveries", id, "--json"}, {"deliveries", id, "--status", "delivered"}, {"deliveries", id, "--before", "1"}} {
		args = append([]string{"webhook"}, args...)
		require.Equal(t, w.OK(t, args...).Stdout, w.byServer(t, server, args...), args)
	}
	require.Equal(t, 1, strings.Count(w.OK(t, "webhook", "list").Stdout, "hooks.invalid"))
	refused := w.remote(t, server, "webhook", "add", "ftp://hooks.invalid/x")
	require.Equal(t, w.RGPT(t, "webhook", "add", "ftp://hooks.invalid/x").Stderr, refused.Stderr)
	require.Equal(t, exitInput, refused.Code, "%s", refused)
	require.Equal(t, "Removed webhook "+id+"\n", w.byServer(t, server, "webhook", "remove", id))
	none := w.remote(t, server, "webhook", "remove", id)
	require.Equal(t, w.RGPT(t, "webhook", "remove", id).Code, none.Code, "%s", none)
}

func (w *stackTests) readRemotely(t *testing.T) {
	done, failed := w.done(t, "other"), w.start(t, "stumble", "--set", "execution.max_retries=0")
	w.end(t, failed, contract.StatusFailed)
	w.again(t, done.ID, "replay", "--phase", "tester")
	for code, list := range map[int][][]string{
		exitDone: {
			{"run", "list", "--json"}, {"run", "list", "--json", "--status", "done", "--limit", "2"}, {"run", "list", "--json", "--phase", "builder"},
			{"run", "list", "--json", "--error", "LLM_ERROR"}, {"run", "list", "--json", "--text", "stumble"}, {"run", "list", "--json", "--project", "shell"},
			{"run", "list", "--text", "there is none of these"}, {"run", "interventions"}, {"run", "interventions", "--json"}, {"models"}, {"models", "--json"}, {"models", "--check"},
			{"run", "diff", arg(failed), arg(done.ID)}, {"run", "diff", arg(done.ID) + "@1", arg(done.ID) + "@2", "--patch"}, {"run", "diff", arg(failed), arg(done.ID), "--json"},
			{"run", "rejudge", arg(done.ID)}, {"policy", "explain", arg(done.ID)}, {"run", "rejudge", arg(done.ID), "--json", "--max-major", "3", "--pinned-tests", "off"},
			{"run", "watch", arg(done.ID)}, {"run", "watch", arg(done.ID), "--json"}, {"run", "watch", arg(done.ID), "--after", "5"}, {"run", "watch", "--after", "100000", arg(done.ID)},
		},
		exitFailed: {{"run", "watch", arg(failed)}, {"run", "watch", arg(failed), "--json"}, {"run", "diff", arg(done.ID), arg(failed), "--exit-code"}},
	} {
		for _, args := range list {
			w.sameOutput(t, code, args...)
		}
	}
	for _, id := range []string{arg(done.ID), arg(failed)} {
		for _, args := range [][]string{
			{"inspect"}, {"inspect", "--json"}, {"logs"}, {"logs", "--json"}, {"logs", "--phase", "builder", "--step", "step-002"}, {"logs", "--phase", "tester"}, {"export"}, {"export", "--format", "json"},
			{"artifacts"}, {"artifacts", "--json"}, {"interventions"}, {"timing"}, {"timing", "--json"},
		} {
			w.sameOutput(t, exitDone, append([]string{"run", args[0], id}, args[1:]...)...)
		}
	}
	harness.Await(t, "a list that is printed twice within a second", longest, func() (bool, string) {
		here, there := w.RGPT(t, "run", "list").Stdout, w.byServer(t, w.State(t).Server, "run", "list")
		return here == there, here + there // ages count on
	})
	for _, f := range w.Inspect(t, done.ID).Artifacts {
		w.sameOutput(t, exitDone, "run", "artifacts", arg(done.ID), "--get", f.Name)
	}
	here, there := filepath.Join(w.Dir, "files-here"), filepath.Join(w.Dir, "files-there")
	w.OK(t, "run", "artifacts", arg(done.ID), "--folder", here)
	w.byServer(t, w.State(t).Server, "run", "artifacts", arg(done.ID), "--folder", there)
	require.Equal(t, tree(t, here), tree(t, there))
}

// tree returns the files below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, dir)] = string(text)
		return err
	}))
	require.NotEmpty(t, out)
	return out
}

// watchedRemotely kills the server while a run is watched through it.
func (w *stackTests) watchedRemotely(t *testing.T) {
	id, db := w.start(t, "slow"), w.Store(t)
	server := w.State(t).Server
	ended := make(chan harness.Result, 1)
	go func() { ended <- w.remote(t, server, "run", "watch", arg(id), "--json") }()
	w.asking(t, id, 2)
	w.Kill(t, devstack.RoleServer)
	w.end(t, id, contract.StatusDone)
	w.Up(t)
	require.Equal(t, server, w.State(t).Server, "it is where it was")
	got := <-ended
	require.Zero(t, got.Code, "%s", got)
	require.Equal(t, w.OK(t, "run", "watch", arg(id), "--json").Stdout, got.Stdout, "each event once and in order, then the run")
	events, err := db.Events(t.Context(), id, 0, 1000)
	require.NoError(t, err)
	require.Equal(t, len(events), bytes.Count([]byte(got.Stdout), []byte(`{"run_id":`)), "%s", got.Stdout)
}
