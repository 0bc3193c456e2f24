package trigger_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/trigger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// world creates and cancels the runs of triggers in a real database; nothing carries them out.
type world struct {
	*storetest.Fixture
	settings map[string]config.Trigger

	mu      sync.Mutex
	tried   []control.Creation
	refuse  func(ctx context.Context, c control.Creation) error // called before a run is created
	stopped []int64
	most    int // runs of triggers in progress at the same time
}

// newWorld has one trigger with the name t.
func newWorld(t *testing.T, change func(*config.Trigger)) *world {
	t.Helper()
	s := config.Trigger{
		On: config.OnCommand, Repo: "/repos/app", Goal: "Fix it", Overlap: config.OverlapQueue, Concurrent: 1, Waiting: 100, PerDay: 1000, CatchUp: time.Hour,
	}
	if change != nil {
		change(&s)
	}
	return &world{Fixture: storetest.Setup(t), settings: map[string]config.Trigger{"t": s}}
}

func (w *world) Create(ctx context.Context, c control.Creation) (control.Created, error) {
	w.mu.Lock()
	w.tried = append(w.tried, c)
	w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(ctx, c); err != nil {
			return control.Created{}, err
		}
	}
	run, fresh, err := w.CreateRun(ctx, storetest.Filled(store.NewRun{IdempotencyKey: c.Key, RequestDigest: c.Goal}))
	if err != nil {
		return control.Created{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.number(ctx, "SELECT count(*) FROM orchestrator_runs WHERE idempotency_key LIKE 'trigger:%' AND status = 'pending'")
	w.most = max(w.most, n)
	return control.Created{Run: run, Fresh: fresh}, err
}

func (w *world) Stop(ctx context.Context, run int64, c contract.Command) error {
	if c.By != contract.ByTrigger("t") {
		return fmt.Errorf("stopped by %s", c.By)
	}
	w.mu.Lock()
	w.stopped = append(w.stopped, run)
	w.mu.Unlock()
	return w.exec(ctx, "UPDATE orchestrator_runs SET status = 'cancelled' WHERE id = $1", run)
}

func (w *world) exec(ctx context.Context, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, w.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

func (w *world) number(ctx context.Context, sql string, args ...any) (n int, err error) {
	conn, err := pgx.Connect(ctx, w.URL)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.Background())
	return n, conn.QueryRow(ctx, sql, args...).Scan(&n)
}

func (w *world) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	n, err := w.number(t.Context(), sql, args...)
	require.NoError(t, err)
	return n
}

// runs returns how many runs triggers created.
func (w *world) runs(t *testing.T) int {
	t.Helper()
	return w.count(t, "SELECT count(*) FROM orchestrator_runs WHERE idempotency_key LIKE 'trigger:%'")
}

// finishes ends all runs of triggers that are in progress.
func (w *world) finishes(t *testing.T) {
	t.Helper()
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_runs SET status = 'done' WHERE idempotency_key LIKE 'trigger:%' AND status = 'pending'"))
}

func (w *world) service(change ...func(*trigger.Options)) *trigger.Service {
	o := trigger.Options{
		Store: w.Store, Runs: w, Triggers: w.settings, MaxGoal: 10_000, Log: slog.New(slog.DiscardHandler),
		Tick: 20 * time.Millisecond, FirstWait: 10 * time.Millisecond, LongestWait: 50 * time.Millisecond,
	}
	for _, c := range change {
		c(&o)
	}
	return trigger.New(o)
}

// serves runs servers until the test or the returned function ends.
func (w *world) serves(t *testing.T, servers ...*trigger.Service) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() { s.Run(ctx) })
	}
	stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(stop)
	return stop
}

// adds adds a delivery that happened some time ago.
func (w *world) adds(t *testing.T, key string, ago time.Duration) {
	t.Helper()
	_, err := triggers.Add(t.Context(), w.Store, triggers.Delivery{Trigger: "t", Key: key, OccurredAt: time.Now().Add(-ago)})
	require.NoError(t, err)
}

func (w *world) firings(t *testing.T, state triggers.State) []triggers.Firing {
	t.Helper()
	list, err := triggers.List(t.Context(), w.Store, triggers.Filter{State: state, Limit: 1000})
	require.NoError(t, err)
	return list
}

// settled waits until no firing waits, and returns the firings by delivery.
func (w *world) settled(t *testing.T, n int) map[string]triggers.Firing {
	t.Helper()
	await.Until(t, "all deliveries to end", func() bool { return len(w.firings(t, "")) == n && len(w.firings(t, triggers.Waiting)) == 0 })
	return w.byKey(t)
}

func (w *world) byKey(t *testing.T) map[string]triggers.Firing {
	t.Helper()
	out := map[string]triggers.Firing{}
	for _, f := range w.firings(t, "") {
		out[f.Delivery] = f
	}
	return out
}

// atOnce adds twenty deliveries at the same time.
func (w *world) atOnce(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for n := range deliveries {
		all.Go(func() {
			_, err := triggers.Add(context.Background(), w.Store, triggers.Delivery{Trigger: "t", Key: fmt.Sprint("event:", n), OccurredAt: time.Now()})
			if err != nil {
				t.Errorf("add a delivery: %v", err)
			}
		})
	}
	all.Wait()
}

const deliveries = 20

func TestOverlapSkipMakesOneRunOfManyDeliveriesToTwoServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Overlap = config.OverlapSkip })
	w.serves(t, w.service(), w.service())
	w.atOnce(t)
	w.settled(t, deliveries)
	require.Len(t, w.firings(t, triggers.Fired), 1)
	require.Equal(t, 1, w.runs(t))
	skipped := w.firings(t, triggers.Skipped)
	require.Len(t, skipped, deliveries-1)
	require.Contains(t, skipped[0].Reason, "overlap: skip")
}

func TestOverlapQueueRunsAllDeliveriesToTwoServersOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.serves(t, w.service(), w.service())
	w.atOnce(t)
	await.Until(t, "all deliveries to fire", func() bool {
		if len(w.firings(t, triggers.Fired)) == deliveries {
			return true
		}
		w.finishes(t)
		return false
	})
	require.Equal(t, deliveries, w.runs(t))
	require.Equal(t, 1, w.most, "runs at the same time")
	fired := w.firings(t, triggers.Fired)
	for i := 1; i < len(fired); i++ {
		require.Greater(t, fired[i-1].RunID, fired[i].RunID, "in order")
	}
}

func TestOverlapCancelLeavesTheNewestOfManyDeliveriesToTwoServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Overlap = config.OverlapCancel })
	w.serves(t, w.service(), w.service())
	w.adds(t, "event:first", 0)
	await.Until(t, "the first run", func() bool { return w.runs(t) == 1 })
	w.atOnce(t)
	w.settled(t, deliveries+1)
	newest := w.firings(t, "")[0]
	require.Equal(t, triggers.Fired, newest.State)
	require.Equal(t, 1, w.most, "runs at the same time")
	var left int64
	storetest.Query(t, w.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT id FROM orchestrator_runs WHERE idempotency_key LIKE 'trigger:%' AND status = 'pending'").Scan(&left))
	})
	require.Equal(t, newest.RunID, left, "only the newest one is in progress")
	require.NotEmpty(t, w.stopped)
}

func TestSeveralRunsOfATriggerAreInProgressIfItMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Concurrent = 3 })
	w.serves(t, w.service(), w.service())
	w.atOnce(t)
	await.Until(t, "three runs", func() bool { return len(w.firings(t, triggers.Fired)) == 3 })
	await.Until(t, "the others to wait for these", func() bool {
		waiting := w.firings(t, triggers.Waiting)
		return len(waiting) == deliveries-3 && strings.HasSuffix(waiting[0].Reason, "are in progress") && waiting[0].Position == deliveries-3
	})
	require.Equal(t, 3, w.most)
}

func TestADeliveryThatComesAHundredTimesFiresOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.serves(t, w.service(), w.service())
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 10 {
				if _, err := triggers.Add(context.Background(), w.Store, triggers.Delivery{Trigger: "t", Key: "event:1", OccurredAt: time.Now()}); err != nil {
					t.Errorf("add a delivery: %v", err)
				}
			}
		})
	}
	all.Wait()
	w.settled(t, 1)
	w.finishes(t)
	w.adds(t, "event:1", 0)
	require.Len(t, w.settled(t, 1), 1)
	require.Equal(t, 1, w.runs(t))
}

// dies begins a delivery as a server does that dies before it stores the outcome.
func (w *world) dies(t *testing.T) triggers.Firing {
	t.Helper()
	var f triggers.Firing
	_, err := triggers.InTurn(t.Context(), w.Store, "t", 10, func(turn *triggers.Turn) (err error) {
		require.Len(t, turn.Waiting, 1)
		f, err = turn.Begin(t.Context(), turn.Waiting[0], 0)
		return err
	})
	require.NoError(t, err)
	return f
}

func TestAServerThatDiesAfterItCreatedARunLeavesNoSecondOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Goal = "Changed since" })
	w.adds(t, "event:1", 0)
	w.dies(t)
	made, err := w.Create(t.Context(), control.Creation{Key: trigger.Key("t", triggers.Place{}, "event:1"), Goal: "Fix it"})
	require.NoError(t, err)
	w.adds(t, "event:2", 0)
	w.serves(t, w.service(), w.service())
	await.Until(t, "the run to be found", func() bool { return len(w.firings(t, triggers.Fired)) == 1 })
	require.Equal(t, made.Run.ID, w.byKey(t)["event:1"].RunID)
	await.Until(t, "the next one to wait for it", func() bool { return w.byKey(t)["event:2"].Reason == fmt.Sprintf("run %d is in progress", made.Run.ID) })
	require.Equal(t, 1, w.runs(t))
	events, err := w.Events(t.Context(), made.Run.ID, 0, 10)
	require.NoError(t, err)
	require.Equal(t, contract.EventTriggerFired, events[len(events)-1].Type)
	require.JSONEq(t, `{"trigger": "t", "delivery": "event:1", "delivery_id": 1}`, string(events[len(events)-1].Payload))
}

func TestAServerThatDiesBeforeItCreatedARunIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.adds(t, "event:1", 0)
	dead := w.dies(t)
	w.serves(t, w.service(), w.service())
	f := w.settled(t, 1)["event:1"]
	require.Equal(t, triggers.Fired, f.State)
	require.Equal(t, 2, f.Attempts)
	ended, err := triggers.EndFailed(t.Context(), w.Store, dead, "late")
	require.NoError(t, err)
	require.False(t, ended, "the dead server comes back too late")
}

func TestADeliveryWhoseServerDiedBeforeALongDowntimeIsNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.adds(t, "event:1", 0)
	w.dies(t)
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_trigger_firings SET tried_at = now() - interval '3 days', next_at = now() - interval '3 days'"))
	w.serves(t, w.service())
	f := w.settled(t, 1)["event:1"]
	require.Equal(t, triggers.Fired, f.State, f.Reason)
}

func TestOverlapCancelBeginsOnlyTheNewestOfThoseThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Overlap = config.OverlapCancel; s.PerDay = 1 })
	for _, key := range []string{"event:1", "event:2", "event:3"} {
		w.adds(t, key, 0)
	}
	w.serves(t, w.service())
	all := w.settled(t, 3)
	require.Equal(t, triggers.Fired, all["event:3"].State)
	require.Equal(t, triggers.Skipped, all["event:1"].State)
	require.Equal(t, 1, w.runs(t))
}

func TestAnAttemptKeepsItsLeaseForAsLongAsItTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	begun := make(chan struct{})
	release := make(chan struct{})
	w.refuse = func(context.Context, control.Creation) error { close(begun); <-release; return nil }
	short := func(o *trigger.Options) { o.Lease = 200 * time.Millisecond }
	w.serves(t, w.service(short), w.service(short))
	w.adds(t, "event:1", 0)
	<-begun
	const ahead = "SELECT count(*) FROM orchestrator_trigger_firings WHERE tried_at + 5 * interval '200 milliseconds' < next_at"
	await.Until(t, "several renewals", func() bool { return w.count(t, ahead) == 1 })
	close(release)
	require.Equal(t, 1, w.settled(t, 1)["event:1"].Attempts)
}

func TestAServerThatIsStoppedPassesItsDeliveryOnAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	begun := make(chan struct{})
	w.refuse = func(ctx context.Context, _ control.Creation) error { close(begun); <-ctx.Done(); return ctx.Err() }
	stop := w.serves(t, w.service())
	w.adds(t, "event:1", 0)
	<-begun
	stop()
	require.Equal(t, 1, w.count(t, "SELECT count(*) FROM orchestrator_trigger_firings WHERE next_at <= clock_timestamp()"), "it is due")
	w.refuse = nil
	w.serves(t, w.service())
	require.Equal(t, triggers.Fired, w.settled(t, 1)["event:1"].State)
}

func TestAfterAnHourOfDowntimeWhatIsTooOldIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.CatchUp, s.Concurrent = 30*time.Minute, 10 })
	for _, minutes := range []int{59, 45, 31, 29, 15, 0} {
		w.adds(t, fmt.Sprint("schedule:", minutes), time.Duration(minutes)*time.Minute)
	}
	w.serves(t, w.service(), w.service())
	all := w.settled(t, 6)
	for key, f := range all {
		want := map[string]triggers.State{"schedule:59": triggers.Skipped, "schedule:45": triggers.Skipped, "schedule:31": triggers.Skipped}[key]
		if want == "" {
			want = triggers.Fired
		}
		require.Equal(t, want, f.State, key)
	}
	require.Contains(t, all["schedule:59"].Reason, "catch_up")
}

func TestWhatWaitsForRunsOfItsTriggerDoesNotGetTooOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.adds(t, "event:1", 0)
	w.adds(t, "event:2", 0)
	w.serves(t, w.service())
	await.Until(t, "the second one to wait", func() bool { return strings.HasSuffix(w.byKey(t)["event:2"].Reason, "is in progress") })
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_trigger_firings SET occurred_at = now() - interval '2 hours', received_at = now() - interval '2 hours'"))
	w.finishes(t)
	require.Equal(t, triggers.Fired, w.settled(t, 2)["event:2"].State)
}

func TestAPausedTriggerWaitsAndThenSkipsWhatIsTooOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Waiting = 3 })
	done, err := triggers.Pause(t.Context(), w.Store, "t", "release week", "ann")
	require.NoError(t, err)
	require.True(t, done)
	for n, ago := range []time.Duration{2 * time.Hour, 0, 0, 0} {
		w.adds(t, fmt.Sprint("event:", n), ago)
	}
	w.serves(t, w.service())
	await.Until(t, "one more than may wait to be skipped", func() bool { return w.byKey(t)["event:3"].State == triggers.Skipped })
	require.Equal(t, "the trigger is paused: release week", w.byKey(t)["event:0"].Reason)
	require.Zero(t, w.runs(t))
	done, err = triggers.Resume(t.Context(), w.Store, "t", "ann")
	require.NoError(t, err)
	require.True(t, done)
	await.Until(t, "a run", func() bool { return w.byKey(t)["event:1"].State == triggers.Fired })
	require.Equal(t, triggers.Skipped, w.byKey(t)["event:0"].State)
}

func TestATriggerCreatesNoMoreRunsADayThanItMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.PerDay, s.Concurrent = 3, 10 })
	w.serves(t, w.service(), w.service())
	w.atOnce(t)
	w.settled(t, deliveries)
	require.Equal(t, 3, w.runs(t))
	skipped := w.firings(t, triggers.Skipped)
	require.Contains(t, skipped[0].Reason, "per_day")
	// A day later it may again, and a person can repeat what was skipped.
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_trigger_firings SET ended_at = now() - interval '25 hours' WHERE state = 'fired'"))
	done, err := triggers.Redeliver(t.Context(), w.Store, skipped[0].ID, "ann")
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, triggers.Fired, w.settled(t, deliveries)[skipped[0].Delivery].State)
}

func TestATriggerSpendsNoMoreADayThanItMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.CostPerDay, s.Concurrent = 2_000_000, 10 })
	w.adds(t, "event:1", 0)
	w.serves(t, w.service())
	run := w.settled(t, 1)["event:1"].RunID
	require.NoError(t, w.exec(t.Context(), "INSERT INTO orchestrator_budgets (scope_kind, scope_key, spent_micros) VALUES ('run', $1::text, 2000000)", fmt.Sprint(run)))
	w.adds(t, "event:2", 0)
	f := w.settled(t, 2)["event:2"]
	require.Equal(t, triggers.Skipped, f.State)
	require.Contains(t, f.Reason, "cost_per_day")
}

func TestATriggerThatFailsDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.settings["slow"] = w.settings["t"]
	release := make(chan struct{})
	w.refuse = func(_ context.Context, c control.Creation) error {
		if strings.HasPrefix(c.Key, "trigger:slow:") {
			<-release
			return fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge does not respond")
		}
		return nil
	}
	stop := w.serves(t, w.service())
	defer stop()
	defer close(release)
	_, err := triggers.Add(t.Context(), w.Store, triggers.Delivery{Trigger: "slow", Key: "event:1", OccurredAt: time.Now()})
	require.NoError(t, err)
	await.Until(t, "the slow trigger to begin", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.tried) == 1 })
	w.adds(t, "event:1", 0)
	await.Until(t, "the other trigger to fire", func() bool { return len(w.firings(t, triggers.Fired)) == 1 })
}

func TestATemporaryFailureIsRetriedAndAnotherIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Concurrent = 10 })
	failures := map[string]int{}
	w.refuse = func(_ context.Context, c control.Creation) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		failures[c.Key]++
		switch {
		case strings.HasSuffix(c.Key, "bad"):
			return fault.New(contract.ClassHuman, contract.CodeRepository, "the branch does not exist")
		case strings.HasSuffix(c.Key, "model") && failures[c.Key] < 4:
			return fault.New(contract.ClassConfig, contract.CodeUnavailable, "the model does not respond")
		}
		return nil
	}
	w.serves(t, w.service())
	w.adds(t, "event:bad", 0)
	w.adds(t, "event:model", 0)
	all := w.settled(t, 2)
	require.Equal(t, []any{triggers.Failed, 1, "the branch does not exist"}, []any{all["event:bad"].State, all["event:bad"].Attempts, all["event:bad"].Reason})
	require.Equal(t, []any{triggers.Fired, 4}, []any{all["event:model"].State, all["event:model"].Attempts})
}

func TestAFailureIsNotRetriedForLongerThanCatchUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.refuse = func(context.Context, control.Creation) error {
		return fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge does not respond")
	}
	w.adds(t, "event:1", 0)
	w.serves(t, w.service())
	await.Until(t, "a failure", func() bool { return w.byKey(t)["event:1"].Reason != "" })
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_trigger_firings SET tried_at = now() - interval '61 minutes'"))
	f := w.settled(t, 1)["event:1"]
	require.Equal(t, triggers.Failed, f.State)
	require.Equal(t, "the forge does not respond", f.Reason)
}

func TestDeliveriesOfAnUnknownTriggerAreSkippedAfterAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	delete(w.settings, "t")
	w.adds(t, "event:1", 0)
	stop := w.serves(t, w.service())
	await.Until(t, "the reason", func() bool { return w.byKey(t)["event:1"].Reason != "" })
	require.Equal(t, triggers.Waiting, w.byKey(t)["event:1"].State, "another server may know the trigger")
	stop()
	w.serves(t, w.service(func(o *trigger.Options) { o.Unknown = time.Millisecond }))
	require.Equal(t, triggers.Skipped, w.settled(t, 1)["event:1"].State)
}

func TestOldDeliveriesAreRemovedButNotThoseThatCouldFireAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Concurrent = 10 })
	for _, key := range []string{"event:old", "event:running", "issue:1", "comment:1", "check:1", "event:new"} {
		w.adds(t, key, 0)
	}
	stop := w.serves(t, w.service())
	all := w.settled(t, 6)
	stop()
	w.finishes(t)
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_runs SET status = 'pending' WHERE id = $1", all["event:running"].RunID))
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_trigger_firings SET ended_at = now() - interval '100 days' WHERE delivery <> 'event:new'"))
	removed, err := triggers.Sweep(t.Context(), w.Store, 90*24*time.Hour, 365*24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 1, removed)
	require.NotContains(t, w.byKey(t), "event:old")
	require.NoError(t, w.exec(t.Context(), "UPDATE orchestrator_trigger_firings SET ended_at = now() - interval '2 years'"))
	_, err = triggers.Sweep(t.Context(), w.Store, 90*24*time.Hour, 365*24*time.Hour)
	require.NoError(t, err)
	left := w.byKey(t)
	require.Len(t, left, 2)
	require.Contains(t, left, "issue:1")
	require.Contains(t, left, "event:running")
}

func TestWhatHappenedInAnEarlierRepositoryOfATriggerCreatesNoRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Forge, s.Repository = "work", "Team/App" })
	add := func(at triggers.Place, key string) {
		_, err := triggers.Add(t.Context(), w.Store, triggers.Delivery{Trigger: "t", At: at, Key: key, OccurredAt: time.Now()})
		require.NoError(t, err)
	}
	add(triggers.PlaceOf("work", "team/old"), "issue:1")
	stop := w.serves(t, w.service())
	const waits = "it happened in work/team/old, and the trigger has another repository since then"
	await.Until(t, "it to wait for a server with that repository", func() bool { return w.byKey(t)["issue:1"].Reason == waits })
	stop()
	add(triggers.PlaceOf("other", "team/app"), "issue:2")
	add(triggers.PlaceOf("work", "team/app"), "issue:3")
	w.adds(t, "command:4", 0)
	w.serves(t, w.service(func(o *trigger.Options) { o.Unknown = time.Millisecond }))
	await.Until(t, "the run of its own issue", func() bool { return w.byKey(t)["issue:3"].State == triggers.Fired })
	w.finishes(t)
	all := w.settled(t, 4)
	require.Equal(t, []triggers.State{triggers.Skipped, triggers.Skipped, triggers.Fired, triggers.Fired},
		[]triggers.State{all["issue:1"].State, all["issue:2"].State, all["issue:3"].State, all["command:4"].State})
	require.Equal(t, waits, all["issue:1"].Reason)
	require.Equal(t, []string{"trigger:t:work/team/app:issue:3", "trigger:t:command:4"}, []string{w.tried[0].Key, w.tried[1].Key})
}

func TestEqualNumbersOfTwoRepositoriesAreTwoRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *config.Trigger) { s.Forge, s.Repository, s.Concurrent = "work", "team/old", 2 })
	for _, repository := range []string{"team/old", "team/app"} {
		s := w.settings["t"]
		s.Repository = repository
		w.settings["t"] = s
		stop := w.serves(t, w.service())
		_, err := triggers.Add(t.Context(), w.Store, triggers.Delivery{Trigger: "t", At: triggers.PlaceOf("work", repository), Key: "issue:1", OccurredAt: time.Now()})
		require.NoError(t, err)
		await.Until(t, "a run of "+repository, func() bool {
			newest := w.firings(t, triggers.Fired)
			return len(newest) > 0 && newest[0].Repository == repository
		})
		stop()
	}
	require.Equal(t, 2, w.runs(t))
}
