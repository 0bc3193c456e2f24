package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/proc"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// perMinute is the number of calls that the metered provider accepts in a minute.
const perMinute = 6

// fairLatency is the time that crowded takes for a call.
const fairLatency = 150 * time.Millisecond

// providerTests is a stack of three worker processes, which call four providers: main, which all runs
// use unless they say otherwise, and spare while main is out; crowded, which takes one call at a time;
// metered, which takes a few a minute.
type providerTests struct {
	*stackTests
	main, spare, crowded, metered *harness.Provider

	extra map[string]proc.ID // workers beside the stack's own, which is "w1"
}

// TestThreeWorkersLoseNoRunToProvidersThatAreOutOrLimited shares one stack: its runs go through an
// outage, the death of the worker that probes, and limits, which all workers keep together.
func TestThreeWorkersLoseNoRunToProvidersThatAreOutOrLimited(t *testing.T) {
	t.Parallel()
	w := newProviderTests(t)
	var metered []int64 // these wait in the background
	for range 3 {
		metered = append(metered, w.start(t, "metered", "--model", "metered/m"))
	}
	t.Run("an outage costs no run and no heal", w.outage)
	t.Run("a worker that dies while it probes holds nobody up", w.deadProbe)
	t.Run("no call waits much longer than the others", w.fair)
	t.Run("no more calls a minute than allowed, and those that wait are shown", func(t *testing.T) { w.limited(t, metered) })
	harness.CheckInvariants(t, w.Stack, w.runs...)
}

func newProviderTests(t *testing.T) *providerTests {
	t.Helper()
	w := &providerTests{
		main: harness.NewProvider(t), spare: harness.NewProvider(t), crowded: harness.NewProvider(t), metered: harness.NewProvider(t),
		extra: map[string]proc.ID{},
	}
	var rules harness.Rules
	for name, r := range map[string]harness.Rules{
		"outage":  harness.PlanRules("200ms", turnsOf("step-001", 5), turnsOf("step-002", 5)),
		"long":    harness.PlanRules("200ms", turnsOf("step-001", 8), turnsOf("step-002", 8, "step-001")),
		"fair":    harness.PlanRules(fairLatency.String(), turnsOf("step-001", 6)),
		"large":   harness.PlanRules(fairLatency.String(), turnsOf("step-001", 3), turnsOf("step-002", 3), turnsOf("step-003", 3), turnsOf("step-004", 3)),
		"metered": harness.PlanRules("20ms", turnsOf("step-001", 12)), // more than any run makes before it is looked at
	} {
		rules = append(rules, r.Named(name)...)
	}
	w.stackTests = &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: fmt.Sprintf(`models:
  default: {provider: main, model: large}
  fallback: [{provider: spare, model: small}]
  breaker: {failures: 5, pause: 300ms, longest_pause: 600ms, probe_lease: 1s}
  providers:
    main: {kind: compatible, base_url: %q}
    spare: {kind: compatible, base_url: %q}
    crowded: {kind: compatible, base_url: %q, max_concurrent_total: 1}
    metered: {kind: compatible, base_url: %q, requests_per_minute: %d}
verification: {baseline: "off"}
`, w.main.For("w1"), w.spare.For("w1"), w.crowded.For("w1"), w.metered.For("w1"), perMinute)})}
	for _, p := range w.providers() {
		p.Forward(t, w.Stack)
	}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	for _, name := range []string{"w2", "w3"} {
		var env []string
		for provider, p := range w.providers() {
			env = append(env, "RGPT_MODELS__PROVIDERS__"+provider+"__BASE_URL="+p.For(name))
		}
		w.extra[name], _ = w.StartWorker(t, w.Program("rgpt-worker"), env...)
	}
	return w
}

func (w *providerTests) providers() map[string]*harness.Provider {
	return map[string]*harness.Provider{"MAIN": w.main, "SPARE": w.spare, "CROWDED": w.crowded, "METERED": w.metered}
}

// turnsOf is a step of a number of turns.
func turnsOf(id string, turns int, needs ...string) harness.Step {
	s := harness.Step{ID: id, Needs: needs}
	for i := range turns - 1 {
		s.Turns = append(s.Turns, []harness.Call{call("create_file", "path", fmt.Sprintf("%s-%d.txt", id, i+1), "content", "made by "+id+"\n")})
	}
	s.Turns = append(s.Turns, []harness.Call{harness.Finish("made by " + id)})
	return s
}

// ended requires that runs are done without a heal, and returns them.
func (w *providerTests) ended(t *testing.T, ids []int64) (all []views.RunDetails) {
	t.Helper()
	for _, id := range ids {
		w.end(t, id, contract.StatusDone)
		run := w.Inspect(t, id)
		require.Empty(t, healsOf(run), "run %d", id)
		all = append(all, run)
	}
	return all
}

// breakers returns the breakers of main.
func (w *providerTests) breakers(t *testing.T) []providers.Breaker {
	t.Helper()
	all, err := providers.New(w.Store(t)).Breakers(t.Context())
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(b providers.Breaker) bool { return b.Provider != "main" })
}

// switches returns the changes of models that the events of a run report, sorted.
func switches(t *testing.T, run views.RunDetails) (out []string) {
	t.Helper()
	for _, e := range run.Events {
		if e.Type != contract.EventModelFallback && e.Type != contract.EventModelRestored {
			continue
		}
		var p struct {
			Agent       contract.Agent
			Model, From contract.ModelChoice
		}
		require.NoError(t, json.Unmarshal(e.Payload, &p))
		out = append(out, fmt.Sprintf("%s %s: %s/%s for %s/%s", e.Type, p.Agent, p.Model.Provider, p.Model.Model, p.From.Provider, p.From.Model))
	}
	slices.Sort(out)
	return out
}

// workersOf counts requests by worker.
func workersOf(arrivals []harness.Arrival) map[string]int {
	out := map[string]int{}
	for _, a := range arrivals {
		out[a.Worker]++
	}
	return out
}

// requireOneAtATime requires that no two requests were at a provider at the same time.
func requireOneAtATime(t *testing.T, arrivals []harness.Arrival) {
	t.Helper()
	for i := 1; i < len(arrivals); i++ {
		before, next := arrivals[i-1], arrivals[i]
		require.False(t, before.End.IsZero() || next.At.Before(before.End), "%v arrived while %v was there", next, before)
	}
}

// outage lets main fail for the whole time of several runs.
func (w *providerTests) outage(t *testing.T) {
	w.main.Fail(100 * time.Millisecond)
	ids := []int64{w.start(t, "outage")} // its calls open the breaker
	harness.Await(t, "the breaker to open", longest, func() (bool, string) {
		all := w.breakers(t)
		return slices.ContainsFunc(all, func(b providers.Breaker) bool { return b.State != providers.Closed }), fmt.Sprint(all)
	})
	opened := time.Now()
	harness.Await(t, "all workers to know that the breaker is open", longest, func() (bool, string) { return time.Since(opened) > admission.DefaultRefresh, "" })
	known := time.Now()
	for range 4 {
		ids = append(ids, w.start(t, "outage"))
	}
	for _, run := range w.ended(t, ids) {
		require.Equal(t, []string{"model.fallback builder: spare/small for main/large", "model.fallback planner: spare/small for main/large"}, switches(t, run), "run %d: each switch is one event", run.ID)
	}
	probes := w.main.Arrivals(known)
	require.GreaterOrEqual(t, len(probes), 3, "main is probed as long as it is out")
	requireOneAtATime(t, probes)
	served := workersOf(w.spare.Arrivals(opened))
	require.Len(t, served, 3, "all workers make calls: %v", served)
	t.Logf("%d requests before all knew of the outage, probes by worker: %v, calls of the other provider: %v", len(w.main.Arrivals(time.Time{}))-len(probes), workersOf(probes), served)
}

// deadProbe kills the worker whose call finds out whether main is back.
func (w *providerTests) deadProbe(t *testing.T) {
	began := time.Now()
	w.main.Hold(nil)
	ids := []int64{w.start(t, "long"), w.start(t, "long")}
	var probe harness.Arrival
	harness.Await(t, "a worker to probe, and another call to use the other model", longest, func() (bool, string) {
		i := slices.IndexFunc(w.main.Arrivals(began), func(a harness.Arrival) bool { return a.End.IsZero() })
		if i >= 0 {
			probe = w.main.Arrivals(began)[i]
		}
		meanwhile := slices.ContainsFunc(w.spare.Arrivals(began), func(a harness.Arrival) bool { return slices.Contains(ids, a.Run) })
		return i >= 0 && meanwhile, fmt.Sprint(i >= 0, meanwhile)
	})
	w.main.Serve() // from the next request on
	w.kill(t, probe.Worker)
	var restored []string
	for _, run := range w.ended(t, ids) {
		restored = append(restored, slices.DeleteFunc(switches(t, run), func(s string) bool { return !strings.HasPrefix(s, string(contract.EventModelRestored)) })...)
	}
	require.NotEmpty(t, restored, "the runs returned to their model")
	require.Empty(t, w.breakers(t), "the breaker is closed")
	after := w.main.Arrivals(probe.At)
	require.Greater(t, len(after), 1, "another worker probed")
	require.NotEqual(t, probe.Worker, after[1].Worker)
	requireOneAtATime(t, after[:2])
	t.Logf("%s died while it probed; %s probed %s later", probe.Worker, after[1].Worker, after[1].At.Sub(after[0].End).Round(10*time.Millisecond))
}

// kill kills one of the workers. The stack's own is started again.
func (w *providerTests) kill(t *testing.T, worker string) {
	t.Helper()
	id, extra := w.extra[worker]
	if !extra {
		w.Kill(t, devstack.RoleWorker)
		w.Up(t)
		return
	}
	at := time.Now()
	require.NoError(t, syscall.Kill(id.PID, syscall.SIGKILL))
	harness.Await(t, worker+" to be gone", longest, func() (bool, string) { return !id.Alive(), "alive" })
	w.NoteKill(devstack.RoleWorker, at)
}

// fair compares how long the calls of small runs and of one with parallel steps wait for crowded.
func (w *providerTests) fair(t *testing.T) {
	release := w.crowded.Hold(nil)
	ids := []int64{w.start(t, "large", "--model", "crowded/m")}
	for range 4 {
		ids = append(ids, w.start(t, "fair", "--model", "crowded/m"))
	}
	var released time.Time
	harness.Await(t, "all runs to wait for their turn", longest, func() (bool, string) {
		var runs int
		w.query(t, `SELECT count(DISTINCT run_id), now() FROM orchestrator_provider_calls WHERE provider = 'crowded'`, nil, &runs, &released)
		return runs == len(ids), fmt.Sprint(runs, " wait")
	})
	release()
	large := ids[0]
	w.ended(t, ids)
	arrivals := w.crowded.Arrivals(time.Time{})
	for i := 1; i < len(arrivals); i++ {
		require.GreaterOrEqual(t, arrivals[i].At.Sub(arrivals[i-1].At), fairLatency, "one call at a time: %v after %v", arrivals[i], arrivals[i-1])
	}
	waits := map[int64][]float64{}
	var small []float64
	var listed []struct {
		Run  int64
		Wait float64
	}
	w.query(t, `SELECT jsonb_agg(jsonb_build_object('run', run_id, 'wait', extract(epoch FROM admitted_at - queued_at)))
		FROM orchestrator_provider_calls WHERE provider = 'crowded' AND queued_at > $1 AND admitted_at IS NOT NULL`, []any{released}, &listed)
	for _, l := range listed {
		if waits[l.Run] = append(waits[l.Run], l.Wait); l.Run != large {
			small = append(small, l.Wait)
		}
	}
	for _, run := range slices.Sorted(maps.Keys(waits)) {
		all := small
		if run == large {
			all = waits[large] // as many turns as the others, for more calls
		}
		median, most := medianOf(all), slices.Max(waits[run])
		t.Logf("run %d: %d calls, of which one waited %.2f s at most; the median is %.2f s", run, len(waits[run]), most, median)
		require.LessOrEqual(t, most, 3*median, "run %d", run)
	}
	require.Len(t, waits, len(ids))
}

func medianOf(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// query reads one row.
func (w *providerTests) query(t *testing.T, sql string, args []any, into ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(into...))
}

// limited requires that metered got no more requests than allowed in any minute, for as long as the
// other tests took, and that what waits for it is shown. With RGPT_STRESS=full, the runs continue to
// their end, for minutes.
func (w *providerTests) limited(t *testing.T, ids []int64) {
	var waiting []string
	var id int64
	harness.Await(t, "runs that wait for metered", longest, func() (bool, string) {
		waiting = nil
		for _, run := range ids {
			for _, c := range w.Inspect(t, run).WaitingCalls {
				require.Equal(t, "metered", c.Provider)
				waiting, id = append(waiting, c.String()), run
			}
		}
		slices.Sort(waiting)
		return len(waiting) == len(ids), fmt.Sprint(waiting)
	})
	require.Equal(t, perMinute, busiestMinute(w.metered.Arrivals(time.Time{})), "all that is allowed")
	require.Contains(t, w.page(t, fmt.Sprintf("/runs/%d", id)), "waits for provider metered, position ")
	if os.Getenv("RGPT_STRESS") == "full" {
		w.ended(t, ids)
	} else {
		for _, run := range ids {
			w.OK(t, "run", "stop", arg(run))
		}
		for _, run := range ids {
			w.end(t, run, contract.StatusCancelled)
			require.Empty(t, w.Inspect(t, run).WaitingCalls, "it left the queue")
			require.Contains(t, w.RGPT(t, "run", "watch", arg(run)).Stdout, "waits for provider metered, position ", "an event says so")
		}
	}
	arrivals := w.metered.Arrivals(time.Time{})
	require.Equal(t, perMinute, busiestMinute(arrivals))
	t.Logf("%d calls in %s, waiting: %v", len(arrivals), arrivals[len(arrivals)-1].At.Sub(arrivals[0].At).Round(time.Second), waiting)
}

// busiestMinute returns the highest number of requests within a minute.
func busiestMinute(arrivals []harness.Arrival) (most int) {
	slices.SortFunc(arrivals, func(a, b harness.Arrival) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	for first, last := 0, 0; last < len(arrivals); last++ {
		for arrivals[last].At.Sub(arrivals[first].At) >= time.Minute {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// page reads a page of the dashboard.
func (w *providerTests) page(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.State(t).Server+path, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
	return string(text)
}
