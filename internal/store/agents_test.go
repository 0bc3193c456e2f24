package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// beat is a heartbeat of a worker with one agent of each type.
func beat(worker string, health contract.Health, types ...string) store.Beat {
	b := store.Beat{
		Worker: worker, Version: "1.2.3", CPUUsage: 0.5, MemoryUsage: 1 << 30, StartedAt: time.Now(), Every: 5 * time.Second, OfflineAfter: time.Minute,
	}
	for _, kind := range types {
		b.Agents = append(b.Agents, store.AgentBeat{
			Name: kind + "@" + worker, Type: kind, HealthStatus: health, Detail: "as \x00told", TasksDone: 3, TasksFailed: 1,
			Work: []contract.Work{{RunID: 42, Phase: contract.PhaseBuilder, Step: "step-001", Activity: contract.ActivityThink}},
		})
	}
	return b
}

func healths(tb testing.TB, s *store.Store) map[string]contract.Health {
	tb.Helper()
	agents, err := views.New(s).Agents(tb.Context())
	require.NoError(tb, err)
	out := map[string]contract.Health{}
	for _, a := range agents {
		out[a.Name] = a.HealthStatus
	}
	return out
}

// silence makes an agent silent for some time.
func silence(tb testing.TB, b *fixture, name string, seconds float64) {
	tb.Helper()
	storetest.Query(tb, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		tag, err := conn.Exec(ctx, `UPDATE orchestrator_agents SET last_heartbeat = clock_timestamp() - make_interval(secs => $2) WHERE name = $1`, name, seconds)
		require.NoError(tb, err)
		require.EqualValues(tb, 1, tag.RowsAffected())
	})
}

func TestAgentsShowWhatTheirLastHeartbeatSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.Heartbeat(t.Context(), beat("host:1:aa", contract.HealthUnknown, "builder", "tester")))
	require.NoError(t, b.Heartbeat(t.Context(), beat("host:1:aa", contract.HealthDegraded, "builder", "tester")))
	agents, err := b.Agents(t.Context())
	require.NoError(t, err)
	require.Len(t, agents, 2)
	a := agents[0]
	require.WithinDuration(t, time.Now(), *a.LastHeartbeat, time.Minute)
	require.Less(t, a.Silent, 60.0)
	require.NotNil(t, a.StartedAt)
	a.LastHeartbeat, a.StartedAt, a.Silent = nil, nil, 0
	require.Equal(t, views.Agent{
		Name: "builder@host:1:aa", Type: "builder", Version: "1.2.3", HealthStatus: contract.HealthDegraded, Detail: "as \uFFFDtold", CPUUsage: 0.5, MemoryUsage: 1 << 30,
		Worker: "host:1:aa", TasksDone: 3, TasksFailed: 1,
		Work: []contract.Work{{RunID: 42, Phase: contract.PhaseBuilder, Step: "step-001", Activity: contract.ActivityThink}},
	}, a)
}

func TestASilentAgentIsUnhealthyThenOfflineAndWorksOnNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.Heartbeat(t.Context(), beat("w", contract.HealthHealthy, "builder")))
	for _, c := range []struct {
		silent float64
		want   contract.Health
		work   int
	}{{0, contract.HealthHealthy, 1}, {12, contract.HealthHealthy, 1}, {16, contract.HealthUnhealthy, 0}, {58, contract.HealthUnhealthy, 0}, {61, contract.HealthOffline, 0}} {
		silence(t, b, "builder@w", c.silent)
		agents, err := b.Agents(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.want, agents[0].HealthStatus, "silent for %v s", c.silent)
		require.Len(t, agents[0].Work, c.work, "silent for %v s", c.silent)
	}
	require.NoError(t, b.Heartbeat(t.Context(), beat("w", contract.HealthHealthy, "builder")))
	require.Equal(t, contract.HealthHealthy, healths(t, b.Store)["builder@w"], "it was only slow")
}

func TestAnAgentThatSaysThatItStopsIsOfflineAtOnceAndComesLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.NoError(t, b.Heartbeat(t.Context(), beat("gone", contract.HealthOffline, "builder")))
	require.NoError(t, b.Heartbeat(t.Context(), beat("up", contract.HealthHealthy, "tester")))
	agents, err := b.Agents(t.Context())
	require.NoError(t, err)
	require.Equal(t, "tester@up", agents[0].Name)
	require.Equal(t, contract.HealthOffline, agents[1].HealthStatus)
	require.Empty(t, agents[1].Work)
}

func TestAgentsThatAreLongOfflineAreForgottenAndOthersAreNot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, seconds := range map[string]float64{"old": 7200, "young": 3500, "up": 0} {
		require.NoError(t, b.Heartbeat(t.Context(), beat(name, contract.HealthHealthy, "run")))
		silence(t, b, "run@"+name, seconds)
	}
	n, err := b.ForgetAgents(t.Context(), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	require.Equal(t, map[string]contract.Health{"run@young": contract.HealthOffline, "run@up": contract.HealthHealthy}, healths(t, b.Store))

	// A worker that is restarted over and over leaves only the newest.
	for i := range 90 {
		many := beat(fmt.Sprintf("loop-%d", i), contract.HealthOffline, "run", "planner", "builder", "tester", "releaser", "repair")
		require.NoError(t, b.Heartbeat(t.Context(), many))
	}
	n, err = b.ForgetAgents(t.Context(), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 41, n, "540 and the young one, of which 500 stay")
	require.Equal(t, contract.HealthHealthy, healths(t, b.Store)["run@up"])
	require.NotContains(t, healths(t, b.Store), "run@young", "the oldest go first")
}

func TestWhatIsNotOverIsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Create(t, store.NewRun{})
	b.Apply(t, contract.Record{Run: &contract.RunChange{Phase: contract.PhaseBuilder, Status: contract.PhaseBuilder.Running()}})
	open, err := b.Unfinished(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, open.Runs[contract.StatusPending])
	require.EqualValues(t, 1, open.Runs[contract.PhaseBuilder.Running()])
	require.NotContains(t, open.Runs, contract.StatusDone)
	require.Contains(t, open.Runs, contract.StatusPaused, "none is a number too")
	require.Zero(t, open.Interventions)
}

// The metrics of a process are shared by all tests, so these check one that nothing
// else here changes.
func TestARecordThatComesAgainIsCountedOnce(t *testing.T) {
	b := setup(t)
	began := b.begin(t, contract.PhaseReleaser, "")
	end := contract.Record{
		RunID: b.First.ID, Seq: 99,
		End: &contract.ExecutionEnd{ExecutionID: began.ID, Status: contract.ExecutionCancelled},
		Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusCancelled, Finished: true},
		Heals: []contract.HealNote{{
			Number: 1, Status: contract.HealFailed, ErrorType: contract.ClassSafety, Action: contract.HealAction("counted_once"),
		}},
	}
	ended := func() [3]float64 {
		return [3]float64{
			testutil.ToFloat64(telemetry.Runs.WithLabelValues("cancelled")),
			testutil.ToFloat64(telemetry.Heals.WithLabelValues("SAFETY_ERROR", "counted_once", "failed")),
			float64(samples(t, "rgpt_phase_duration_seconds", map[string]string{"phase": "releaser", "status": "cancelled"})),
		}
	}
	before := ended()
	for range 3 {
		_, err := b.Record(t.Context(), b.Source(), end)
		require.NoError(t, err)
	}
	for i, was := range before {
		require.InDelta(t, was+1, ended()[i], 0, "metric %d", i)
	}
}

func TestStatementsAreMeasuredByTheNamesOfTheirQueries(t *testing.T) {
	b := setup(t)
	measured := func(operation, outcome string) uint64 {
		return samples(t, "rgpt_database_duration_seconds", map[string]string{"operation": operation, "outcome": outcome})
	}
	pings, usual, records, failures := measured("Ping", "ok"), measured("RecordUsual", "ok"), measured("Record", "ok"), measured("Ping", "error")
	require.NoError(t, b.Ping(t.Context()))
	b.begin(t, contract.PhasePlanner, "")
	require.Equal(t, pings+1, measured("Ping", "ok"))
	require.Equal(t, usual+1, measured("RecordUsual", "ok"))
	b.Apply(t, over())
	require.Equal(t, records+1, measured("Record", "ok"), "statements of one round trip count once")
	b.Store.Close()
	require.Error(t, b.Ping(t.Context()))
	require.Equal(t, failures, measured("Ping", "error"), "what was never sent took no time")
}

// samples returns how many observations a histogram has.
func samples(tb testing.TB, name string, labels map[string]string) uint64 {
	tb.Helper()
	families, err := telemetry.Registry.Gather()
	require.NoError(tb, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	next:
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; ok && want != l.GetValue() {
					continue next
				}
			}
			return m.GetHistogram().GetSampleCount()
		}
	}
	return 0
}

func TestARoleIsSeenHoweverManyAgentsOthersHave(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for worker, n := range map[string]int{"builder": 1200, "tester": 3} {
		many := beat(worker, contract.HealthHealthy)
		for i := range n {
			many.Agents = append(many.Agents, store.AgentBeat{Name: fmt.Sprintf("%s@%04d", worker, i), Type: worker, HealthStatus: contract.HealthHealthy})
		}
		many.Agents[0].HealthStatus = contract.HealthDegraded
		require.NoError(t, b.Heartbeat(t.Context(), many))
	}
	agents, err := b.Agents(t.Context())
	require.NoError(t, err)
	require.Len(t, agents, 1000)
	count := map[string]int{}
	for _, a := range agents {
		count[a.Type]++
	}
	require.Equal(t, map[string]int{"builder": 997, "tester": 3}, count)
	require.Equal(t, "tester@0002", agents[999].Name, "the order is that of roles and names")
}
