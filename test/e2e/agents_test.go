package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/freeport"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestAgentsQueuesAndMetricsShowTheCurrentState follows a worker through its life: it
// works, is killed, comes back and is stopped. Beside it what is told of it.
func TestAgentsQueuesAndMetricsShowTheCurrentState(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take(t.Context())
	require.NoError(t, err)
	workerAddress := fmt.Sprint("127.0.0.1:", port)
	flaky := rule(on("agent", "planner"), status(500), 0)
	flaky["times"] = 1
	w := &stackTests{Stack: harness.Start(t, harness.Options{
		Scenario: append(
			first(makes(wrong), flaky, repairs(wrong, "right")).Named("agents-healed"),
			append(makes("right").Named("agents-waits"), metricsRules().Named("agents-deliberate")...)...),
		Config: fmt.Sprintf("worker: {heartbeat: 1s, offline_after: 12s, probe_interval: 1s, metrics_address: %q}\nserver: {watch_interval: 1s}\ndeliberation: {iterations: 1, recoveries: 1}\n", workerAddress),
	})}
	repo := harness.Repo(t, filepath.Join(w.Dir, "mendable"), healableRepo())

	w.awaitAgents(t, "every role to have a healthy agent", func(r health.Report) bool {
		return !slices.ContainsFunc(contract.WorkerRoles(), func(role contract.WorkerRole) bool { return r.Roles[role.Name] != health.OK })
	})
	require.Equal(t, "ready", w.readiness(t, http.StatusOK))

	for _, line := range []string{ // before there is any pipeline
		`rgpt_pipelines_total{abort="iteration_limit",status="ORCHESTRATION_FAILED"} 0`, `rgpt_pipelines_total{abort="none",status="FAILED"} 0`,
		`rgpt_pipeline_recoveries_total{abort="none"} 0`, "rgpt_pipeline_refused_total 0", `rgpt_pipeline_gamma_total{reason="STUCK"} 0`,
	} {
		require.Contains(t, w.metrics(t, "http://"+workerAddress), line)
		require.NotContains(t, w.metrics(t, w.State(t).Server), line, "the server counts none")
	}
	id := w.Create(t, "--repo", repo, "--goal", harness.Goal("agents-healed"), "--project", "hostile-project")
	require.Equal(t, contract.StatusDone, w.AwaitEnd(t, w.Store(t), id, longest).Status)
	recovered := w.RGPT(t, "pipeline", "spawn", "--objective", harness.Goal("agents-deliberate"), "--auto-continue", "--wait")
	require.Equal(t, exitAborted, recovered.Code, "%s", recovered)
	w.documented(t, workerAddress)
	done := w.awaitAgents(t, "what was done to be told", func(r health.Report) bool {
		return slices.ContainsFunc(r.Agents, func(a views.Agent) bool { return a.Type == "builder" && a.TasksDone > 0 })
	})
	for _, a := range done.Agents {
		require.Positive(t, a.MemoryUsage)
		require.Regexp(t, `^`+a.Type+`@.+:\d+:`, a.Name)
	}

	w.killed(t)
	w.stopped(t)
	harness.CheckInvariants(t, w.Stack, id)
}

// metricsRules is a deliberation of which each of its metrics has something to tell:
// they talk until their rounds are over, ALPHA does what is not its to do, and the
// recovery, with GAMMA, does not get further.
func metricsRules() harness.Rules {
	return harness.Rules{
		rule(on("agent", "alpha", "attempt", 1, "turn", 1), moves(move("message", "to", "BETA", "text", "why?"), move("verdict", "key", "mine", "text", "it is mine")), 100),
		rule(on("agent", "alpha"), moves(move("message", "to", "BETA", "text", "why?")), 100),
		rule(on("agent", "beta"), moves(move("message", "to", "ALL", "text", "why not?")), 100),
		rule(on("agent", "gamma"), moves(move("message", "to", "ALL", "text", "go on")), 100),
	}
}

// killed sees what is told when the worker dies without a word, and that work
// that comes meanwhile is counted.
func (w *stackTests) killed(t *testing.T) {
	t.Helper()
	w.Kill(t, devstack.RoleWorker)
	all := func(h contract.Health) func(health.Report) bool {
		return func(r health.Report) bool {
			return len(r.Agents) > 0 && !slices.ContainsFunc(r.Agents, func(a views.Agent) bool { return a.HealthStatus != h })
		}
	}
	w.awaitAgents(t, "the agents of a dead worker to be unhealthy", all(contract.HealthUnhealthy))
	require.Equal(t, "degraded", w.readiness(t, http.StatusOK))
	w.awaitAgents(t, "them to be offline", all(contract.HealthOffline))

	id := w.Create(t, "--repo", harness.ShellRepo(t, filepath.Join(w.Dir, "waits")), "--goal", harness.Goal("agents-waits"))
	r := w.awaitAgents(t, "the waiting task to be counted", func(r health.Report) bool { return r.Queues[0].Backlog > 0 })
	require.Equal(t, contract.QueueRun, r.Queues[0].Name)
	require.Greater(t, len(r.Queues[0].History), 3)
	// Runs are counted once for all who ask within a while.
	harness.Await(t, "the run that nobody takes to be counted", longest, func() (bool, string) {
		said := w.metrics(t, w.State(t).Server)
		return strings.Contains(said, `rgpt_runs_unfinished{status="pending"} 1`+"\n"), regexp.MustCompile(`(?m)^rgpt_runs_unfinished.*$`).FindString(said)
	})
	table := w.OK(t, "agents").Stdout
	require.Regexp(t, `rgpt-run +[1-9]`, table)
	require.Contains(t, table, "builder: no agent; start a worker with this role")

	w.Up(t)
	require.Equal(t, contract.StatusDone, w.AwaitEnd(t, w.Store(t), id, longest).Status)
	w.awaitAgents(t, "the new worker to be healthy", func(r health.Report) bool { return r.Roles["tester"] == health.OK && r.Queues[0].Backlog == 0 })
	require.Regexp(t, `tester +healthy`, w.OK(t, "agents").Stdout)
}

// stopped sees that a worker that is told to stop says so.
func (w *stackTests) stopped(t *testing.T) {
	t.Helper()
	p, ok := w.State(t).Process(devstack.RoleWorker)
	require.True(t, ok)
	require.NoError(t, syscall.Kill(p.PID, syscall.SIGTERM))
	w.awaitAgents(t, "the stopped worker to say that it is gone", func(r health.Report) bool {
		mine := slices.DeleteFunc(r.Agents, func(a views.Agent) bool { return !strings.Contains(a.Worker, ":"+strconv.Itoa(p.PID)+":") })
		for _, a := range mine {
			require.NotEqual(t, contract.HealthUnhealthy, a.HealthStatus, "it did not fall silent")
		}
		return len(mine) == len(contract.WorkerRoles()) && !slices.ContainsFunc(mine, func(a views.Agent) bool {
			return a.HealthStatus != contract.HealthOffline || a.Detail != "it was stopped"
		})
	})
	harness.Await(t, "the worker to end", longest, func() (bool, string) { return !p.ID.Alive(), "alive" })
	w.Up(t)
}

// documented sees that a metric is served exactly where the documents say, and
// that no name from outside is in a label.
func (w *stackTests) documented(t *testing.T, workerAddress string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "OPERATIONS.md"))
	require.NoError(t, err)
	table := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(rgpt_[a-z_]+)` \\| [^|]*\\| ([a-z, ]+) \\|").FindAllStringSubmatch(string(text), -1) {
		for _, by := range strings.Split(row[2], ", ") {
			table[by] = append(table[by], row[1])
		}
	}
	require.Len(t, table, 2)
	for by, address := range map[string]string{"server": w.State(t).Server, "worker": "http://" + workerAddress} {
		var said string
		// What a record says is counted after it was written: a reader of the database
		// may be there first.
		harness.Await(t, "each metric of the "+by+" to be served that is documented, and no other", longest, func() (bool, string) {
			said = w.metrics(t, address)
			var names []string
			for _, m := range regexp.MustCompile(`(?m)^# TYPE (rgpt_\w+) `).FindAllStringSubmatch(said, -1) {
				names = append(names, m[1])
			}
			missing, more := difference(table[by], names), difference(names, table[by])
			return len(missing)+len(more) == 0, fmt.Sprintf("not served: %v; not documented: %v", missing, more)
		})
		require.NotContains(t, said, "hostile-project")
		require.NotContains(t, said, w.Dir)
	}
}

// difference returns what is in a and not in b.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func (w *stackTests) get(t *testing.T, url string, status int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%s: %s", url, text)
	return string(text)
}

func (w *stackTests) metrics(t *testing.T, address string) string {
	t.Helper()
	return w.get(t, address+"/metrics", http.StatusOK)
}

func (w *stackTests) readiness(t *testing.T, status int) string {
	t.Helper()
	var said struct{ Status string }
	require.NoError(t, json.Unmarshal([]byte(w.get(t, w.State(t).Server+"/readyz", status)), &said))
	return said.Status
}

// awaitAgents waits until the API says of agents and queues what it should.
func (w *stackTests) awaitAgents(t *testing.T, what string, ok func(health.Report) bool) health.Report {
	t.Helper()
	var r health.Report
	harness.Await(t, what, longest, func() (bool, string) {
		text := w.get(t, w.State(t).Server+"/api/agents", http.StatusOK)
		r = health.Report{}
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		return ok(r), text
	})
	return r
}
