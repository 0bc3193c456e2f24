package admission_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

var (
	own   = contract.ModelChoice{Provider: "main", Model: "large"}
	other = contract.ModelChoice{Provider: "spare", Model: "small"}
)

// outcome is how a provider responds to a call.
type outcome struct {
	status int // 0: no response
	err    error
	header http.Header
}

var (
	fine     = outcome{status: http.StatusOK}
	down     = outcome{err: fault.New(contract.ClassInfra, contract.CodeUnavailable, "connection refused")}
	crashed  = outcome{status: http.StatusInternalServerError, err: fault.New(contract.ClassInfra, contract.CodeUnavailable, "HTTP 500")}
	overload = outcome{status: 529, err: fault.New(contract.ClassInfra, contract.CodeUnavailable, "HTTP 529")}
)

// cluster is a number of workers that share a database.
type cluster struct {
	t       *testing.T
	fixture *storetest.Fixture
	workers []*admission.Gate
}

// options are so short that a test need not wait.
func options() admission.Options {
	return admission.Options{
		Failures: 5, Pause: 50 * time.Millisecond, LongestPause: 200 * time.Millisecond, ProbeLease: 2 * time.Second, Refresh: time.Millisecond,
		Log: slog.New(slog.DiscardHandler),
	}
}

func newCluster(t *testing.T, workers int, o admission.Options) *cluster {
	t.Helper()
	c := &cluster{t: t, fixture: storetest.Setup(t)}
	for range workers {
		c.workers = append(c.workers, admission.New(storetest.Open(t, c.fixture.URL), o))
	}
	return c
}

// call is a call of the builder of the fixture's run.
func (c *cluster) call(fallbacks ...contract.ModelChoice) admission.Call {
	return admission.Call{
		Execution: contract.ExecutionRef{ID: 1, RunID: c.fixture.First.ID, Agent: contract.AgentBuilder, Attempt: 1}, Choice: own, Fallbacks: fallbacks,
	}
}

// do makes a call through a worker, and returns the model that was used.
func do(ctx context.Context, g *admission.Gate, c admission.Call, respond func(contract.ModelChoice) outcome) (contract.ModelChoice, error) {
	pass := g.Choose(ctx, c)
	defer pass.Close()
	_, err := pass.Do(ctx, model.Request{}, func(r model.Request) (model.Response, error) {
		o := respond(pass.Choice)
		if o.status != 0 && r.Observe != nil {
			r.Observe(o.status, o.header)
		}
		return model.Response{}, o.err
	})
	return pass.Choice, err
}

// always responds to every call in the same way.
func always(o outcome) func(contract.ModelChoice) outcome {
	return func(contract.ModelChoice) outcome { return o }
}

// open lets n calls fail.
func (c *cluster) open(o outcome, n int) {
	c.t.Helper()
	for i := range n {
		_, err := do(c.t.Context(), c.workers[i%len(c.workers)], c.call(), always(o))
		require.Error(c.t, err)
	}
}

// used returns the model that a call through a worker uses.
func (c *cluster) used(worker int, fallbacks ...contract.ModelChoice) contract.ModelChoice {
	c.t.Helper()
	choice, err := do(c.t.Context(), c.workers[worker], c.call(fallbacks...), always(fine))
	require.NoError(c.t, err)
	return choice
}

// events returns the run's events about fallbacks.
func (c *cluster) events() (out []string) {
	c.t.Helper()
	events, err := c.fixture.Events(c.t.Context(), c.fixture.First.ID, 0, 0)
	require.NoError(c.t, err)
	for _, e := range events {
		if e.Type != contract.EventModelFallback && e.Type != contract.EventModelRestored {
			continue
		}
		var p struct {
			Agent       string
			Model, From contract.ModelChoice
		}
		require.NoError(c.t, json.Unmarshal(e.Payload, &p))
		out = append(out, fmt.Sprintf("%s %s: %s/%s for %s/%s", e.Type, p.Agent, p.Model.Provider, p.Model.Model, p.From.Provider, p.From.Model))
	}
	return out
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-limit:
			require.Fail(t, "it did not happen: "+what)
		case <-tick.C:
		}
	}
}

func TestFailuresOfAllWorkersTogetherOpenABreaker(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]outcome{"unreachable": down, "crashed": crashed, "overloaded": overload} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := options()
			long.Pause, long.LongestPause = time.Hour, time.Hour
			c := newCluster(t, 3, long)
			c.open(o, 4)
			require.Equal(t, own, c.used(0, other), "four failures are not enough")
			c.open(o, 5)
			for worker := range c.workers {
				require.Equal(t, other, c.used(worker, other), "worker %d knows", worker)
			}
		})
	}
}

func TestOnlyAnOutageOfTheProviderConcernsItsOtherModels(t *testing.T) {
	t.Parallel()
	long := options()
	long.Pause, long.LongestPause = time.Hour, time.Hour
	sibling := contract.ModelChoice{Provider: own.Provider, Model: "small"}
	c := newCluster(t, 1, long)
	c.open(overload, 5)
	require.Equal(t, sibling, c.used(0, sibling, other), "one model is overloaded")
	c = newCluster(t, 1, long)
	c.open(down, 5)
	require.Equal(t, other, c.used(0, sibling, other), "the provider is unreachable")
}

func TestAProviderThatRespondsIsNotOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options())
	for name, o := range map[string]outcome{
		"rejected":  {status: http.StatusBadRequest, err: fault.New(contract.ClassConfig, contract.CodeBadRequest, "HTTP 400")},
		"limited":   {status: http.StatusTooManyRequests, err: fault.New(contract.ClassInfra, contract.CodeRateLimited, "HTTP 429")},
		"no key":    {status: http.StatusUnauthorized, err: fault.New(contract.ClassConfig, contract.CodeUnauthorized, "HTTP 401")},
		"conflict":  {status: http.StatusConflict, err: fault.New(contract.ClassInfra, contract.CodeUnavailable, "HTTP 409")},
		"unusable":  {status: http.StatusOK, err: fault.New(contract.ClassLLM, contract.CodeInvalidOutput, "no JSON")},
		"cancelled": {err: fault.Wrap(context.Canceled, contract.ClassInfra, contract.CodeCancelled, "stopped")},
		"too late":  {err: fault.Wrap(context.DeadlineExceeded, contract.ClassInfra, contract.CodeTimeout, "no slot")},
	} {
		for range 10 {
			_, err := do(t.Context(), c.workers[0], c.call(other), always(o))
			require.Error(t, err)
			require.False(t, admission.ShouldSwitch(err), name)
		}
		require.Equal(t, own, c.used(1, other), name)
	}
}

func TestATimeLimitOfTheCallCountsAsAFailure(t *testing.T) {
	t.Parallel()
	long := options()
	long.Pause, long.LongestPause = time.Hour, time.Hour
	c := newCluster(t, 1, long)
	c.open(outcome{err: fault.New(contract.ClassInfra, contract.CodeTimeout, "no data received")}, 5)
	require.Equal(t, other, c.used(0, other))
}

func TestTheFailureThatOpensABreakerLetsTheCallSwitchAtOnce(t *testing.T) {
	t.Parallel()
	long := options()
	long.Pause, long.LongestPause = time.Hour, time.Hour
	c := newCluster(t, 1, long)
	c.open(down, 4)
	_, err := do(t.Context(), c.workers[0], c.call(other), always(down))
	require.True(t, admission.ShouldSwitch(err))
	require.Equal(t, contract.CodeUnavailable, fault.Of(err).Code, "it is still the failure")

	_, err = do(t.Context(), c.workers[0], c.call(), always(fine))
	require.False(t, admission.ShouldSwitch(err), "the run has only this model")
	var refused *fault.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, contract.ClassInfra, refused.Class)
	require.ErrorContains(t, err, "failed 5 times in a row, most recently: connection refused")
	delay, again := refused.RetryDelay(1)
	require.True(t, again)
	require.Greater(t, delay, 50*time.Minute, "until the pause is over")
}

func TestAFallbackWithoutAKeyOrThatIsOutIsNotUsed(t *testing.T) {
	t.Parallel()
	o := options()
	o.Pause, o.LongestPause = time.Hour, time.Hour
	keyless := contract.ModelChoice{Provider: "keyless", Model: "m"}
	o.Configured = func(provider string) error {
		if provider == keyless.Provider {
			return fault.New(contract.ClassConfig, contract.CodeUnauthorized, "no key")
		}
		return nil
	}
	c := newCluster(t, 1, o)
	c.open(down, 5)
	require.Equal(t, other, c.used(0, keyless, own, other))
	for range 5 {
		_, err := do(t.Context(), c.workers[0], c.call(other), always(down))
		require.Error(t, err)
	}
	_, err := do(t.Context(), c.workers[0], c.call(keyless, own, other), always(fine))
	require.Error(t, err, "all are out")
}

func TestAtMostOneCallOfAllWorkersProbesAtATime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, options())
	c.open(down, 5)
	var active, most, probes atomic.Int32
	var back atomic.Bool
	respond := func(choice contract.ModelChoice) outcome {
		if choice == other {
			return fine
		}
		n := active.Add(1)
		defer active.Add(-1)
		for {
			seen := most.Load()
			if n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		if probes.Add(1) == 4 {
			back.Store(true)
		}
		if back.Load() && probes.Load() > 4 {
			return fine
		}
		return down
	}
	var all sync.WaitGroup
	var restored atomic.Bool
	for i := range 24 {
		all.Go(func() {
			for !restored.Load() {
				choice, err := do(t.Context(), c.workers[i%4], c.call(other), respond)
				if err == nil && choice == own {
					restored.Store(true)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, most.Load(), "probes at a time, until one succeeded")
	require.GreaterOrEqual(t, probes.Load(), int32(5))
	for worker := range c.workers {
		await(t, "the worker returns to its own model", func() bool { return c.used(worker, other) == own })
	}
}

func TestTheProbeOfADeadWorkerExpires(t *testing.T) {
	t.Parallel()
	o := options()
	o.ProbeLease = 300 * time.Millisecond
	c := newCluster(t, 2, o)
	c.open(down, 5)
	alive, kill := context.WithCancel(t.Context())
	await(t, "a worker probes", func() bool { return c.workers[0].Choose(alive, c.call(other)).Choice == own })
	kill()
	require.Equal(t, other, c.used(1, other), "the worker may still be alive")
	await(t, "another worker probes", func() bool { return c.used(1, other) == own })
}

func TestTheLeaseOfALongProbeIsExtended(t *testing.T) {
	t.Parallel()
	o := options()
	o.ProbeLease = 150 * time.Millisecond
	c := newCluster(t, 2, o)
	c.open(down, 5)
	await(t, "a worker probes", func() bool {
		choice, err := do(t.Context(), c.workers[0], c.call(other), func(choice contract.ModelChoice) outcome {
			if choice == own {
				for until := time.Now().Add(4 * o.ProbeLease); time.Now().Before(until); {
					require.Equal(t, other, c.used(1, other), "the probe is not over")
				}
			}
			return fine
		})
		require.NoError(t, err)
		return choice == own
	})
	require.Equal(t, own, c.used(1, other))
}

func TestAProbeThatWaitsForItsBudgetRemainsTheOnlyOne(t *testing.T) {
	t.Parallel()
	o := options()
	o.ProbeLease = 150 * time.Millisecond
	c := newCluster(t, 2, o)
	c.open(down, 5)
	var probe *admission.Pass
	await(t, "a worker probes", func() bool {
		probe = c.workers[0].Choose(t.Context(), c.call(other))
		return probe.Choice == own
	})
	for until := time.Now().Add(4 * o.ProbeLease); time.Now().Before(until); {
		require.Equal(t, other, c.used(1, other), "the call of the probe is not over")
	}
	probe.Close()
	require.Equal(t, own, c.used(1, other))
}

func TestAFailedProbeOpensItsBreakerAgainHoweverItFails(t *testing.T) {
	t.Parallel()
	late := outcome{err: fault.New(contract.ClassInfra, contract.CodeTimeout, "no data received")}
	for name, tt := range map[string]struct {
		before, now outcome
		model       string
	}{
		"the model was overloaded, and its provider crashes":     {overload, crashed, own.Model},
		"the provider was out, and the model does not respond":   {down, late, ""},
		"the provider was out, and only the model is overloaded": {down, overload, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, options())
			c.open(tt.before, 5)
			var probes int
			var switches bool
			for probes == 0 {
				_, err := do(t.Context(), c.workers[0], c.call(other), func(choice contract.ModelChoice) outcome {
					if choice == other {
						return fine
					}
					probes++
					return tt.now
				})
				switches = admission.ShouldSwitch(err)
			}
			require.True(t, switches, "the other model can make the call")
			storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
				var trips int
				var pause float64
				require.NoError(t, conn.QueryRow(ctx, `SELECT trips, extract(epoch FROM open_until - tripped_at)::float8 FROM orchestrator_breakers
					WHERE model = $1 AND probe = ''`, tt.model).Scan(&trips, &pause))
				require.Equal(t, 2, trips)
				require.InDelta(t, 0.1, pause, 0.001, "twice the first pause")
			})
		})
	}
}

func TestACallWithoutAFallbackWaitsForTheProbeOfAnother(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options())
	c.open(down, 5)
	probing, finish := make(chan struct{}), make(chan struct{})
	var once sync.Once
	probe := make(chan error, 1)
	go func() {
		for {
			choice, err := do(t.Context(), c.workers[0], c.call(other), func(choice contract.ModelChoice) outcome {
				if choice == own {
					once.Do(func() { close(probing) })
					<-finish
				}
				return fine
			})
			if choice == own {
				probe <- err
				return
			}
		}
	}()
	<-probing
	waits := make(chan error, 1)
	go func() {
		_, err := do(t.Context(), c.workers[1], c.call(), always(fine))
		waits <- err
	}()
	require.Equal(t, other, c.used(1, other), "the probe is not over")
	select {
	case err := <-waits:
		require.Fail(t, "it did not wait", "%v", err)
	default:
	}
	close(finish)
	require.NoError(t, <-probe)
	require.NoError(t, <-waits, "the model is back")
}

func TestEachFailedProbeDoublesThePauseUpToAMaximum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, options())
	c.open(down, 5)
	var pauses []time.Duration
	for len(pauses) < 4 {
		storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
			var trips int
			var pause float64
			require.NoError(t, conn.QueryRow(ctx, `SELECT trips, extract(epoch FROM open_until - tripped_at)::float8 FROM orchestrator_breakers`).Scan(&trips, &pause))
			if trips > len(pauses) {
				pauses = append(pauses, time.Duration(pause*1000)*time.Millisecond)
			}
		})
		_, err := do(t.Context(), c.workers[0], c.call(), always(down))
		require.Error(t, err)
	}
	require.Equal(t, []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 200 * time.Millisecond}, pauses)
}

func TestASwitchIsOneEventHoweverManyCallsItConcerns(t *testing.T) {
	t.Parallel()
	o := options()
	o.Pause, o.LongestPause = 400*time.Millisecond, 400*time.Millisecond
	c := newCluster(t, 3, o)
	c.open(down, 5)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			_, err := do(t.Context(), c.workers[i%3], c.call(other), always(fine))
			require.NoError(t, err)
		})
	}
	all.Wait()
	away := "model.fallback builder: spare/small for main/large"
	await(t, "the model is back", func() bool { return c.used(1, other) == own })
	require.Equal(t, []string{away, "model.restored builder: main/large for spare/small"}, c.events())

	c.open(crashed, 5)
	require.Equal(t, other, c.used(2, other))
	require.Len(t, slices.DeleteFunc(c.events(), func(e string) bool { return e != away }), 2, "another outage is another switch")
}

func TestARunReturnsToItsModelEvenIfTheWorkerThatFoundItBackHasDied(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, options())
	c.open(down, 5)
	require.Equal(t, other, c.used(0, other))
	rows := providers.New(c.fixture.Store)
	await(t, "the pause is over", func() bool {
		taken, err := rows.TakeProbe(t.Context(), own.Provider, own.Model, "of a worker that dies", time.Minute)
		require.NoError(t, err)
		return taken == 1
	})
	require.NoError(t, rows.Tidy(t.Context()))
	require.Len(t, c.events(), 1, "the model is still out")
	closed, err := rows.Succeed(t.Context(), own.Provider, own.Model, "of a worker that dies")
	require.NoError(t, err)
	require.True(t, closed)
	require.NoError(t, rows.Tidy(t.Context()))
	require.NoError(t, rows.Tidy(t.Context()))
	require.Equal(t, []string{"model.fallback builder: spare/small for main/large", "model.restored builder: main/large for spare/small"}, c.events())
}

func TestWhatIsKnownOfAModelThatIsNotUsedAnyMoreIsForgotten(t *testing.T) {
	t.Parallel()
	o := limited(providers.Limits{Concurrent: 1})
	o.Pause, o.LongestPause = time.Hour, time.Hour
	c := newCluster(t, 1, o)
	c.open(down, 5)
	rows := providers.New(c.fixture.Store)
	counts := func() (breakers, calls int) {
		storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
			require.NoError(t, conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM orchestrator_breakers), (SELECT count(*) FROM orchestrator_provider_calls)`).Scan(&breakers, &calls))
		})
		return breakers, calls
	}
	age := func(by time.Duration) {
		storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
			_, err := conn.Exec(ctx, `UPDATE orchestrator_breakers SET failed_at = failed_at - $1::float8 * interval '1 second', open_until = open_until - $1::float8 * interval '1 second'`, by.Seconds())
			require.NoError(t, err)
			_, err = conn.Exec(ctx, `UPDATE orchestrator_provider_calls SET admitted_at = admitted_at - $1::float8 * interval '1 second'`, by.Seconds())
			require.NoError(t, err)
		})
	}
	require.NoError(t, rows.Tidy(t.Context()))
	breakers, calls := counts()
	require.Equal(t, []int{1, 5}, []int{breakers, calls}, "all of it counts")
	age(2 * time.Hour)
	require.NoError(t, rows.Tidy(t.Context()))
	breakers, calls = counts()
	require.Equal(t, []int{1, 0}, []int{breakers, calls}, "nobody has tried whether the model is back")
	age(providers.BreakerAge)
	require.NoError(t, rows.Tidy(t.Context()))
	breakers, _ = counts()
	require.Zero(t, breakers)
}

func TestCallsCostNoStatementWhileAllIsWell(t *testing.T) {
	t.Parallel()
	o := options()
	o.Refresh = time.Hour
	db := storetest.New(t)
	var complaints atomic.Int32
	o.Log = slog.New(counting{slog.DiscardHandler, &complaints})
	g := admission.New(db, o)
	call := admission.Call{Choice: own, Fallbacks: []contract.ModelChoice{other}}
	_, err := do(t.Context(), g, call, always(fine))
	require.NoError(t, err)
	db.Close()
	for range 100 {
		choice, err := do(t.Context(), g, call, always(fine))
		require.NoError(t, err)
		require.Equal(t, own, choice)
	}
	require.Zero(t, complaints.Load(), "nothing was read or written")
	_, err = do(t.Context(), g, call, always(down))
	require.Error(t, err)
	require.NotZero(t, complaints.Load(), "a failure is written")
}

func TestAStoppedCallDoesNotWaitForADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	o := options()
	o.Refresh = time.Hour
	c := newCluster(t, 1, o)
	storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		_, err = tx.Exec(ctx, "LOCK TABLE orchestrator_breakers")
		require.NoError(t, err)
		call := func(ctx context.Context, done chan<- struct{}) {
			defer close(done)
			_, _ = do(ctx, c.workers[0], c.call(), always(outcome{err: fault.Wrap(context.Canceled, contract.ClassInfra, contract.CodeCancelled, "stopped")}))
		}
		// waits identifies the statement that waits for the table.
		waits := func() (since string) {
			storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
				require.NoError(t, conn.QueryRow(ctx, "SELECT coalesce(max(waitstart::text), '') FROM pg_locks WHERE NOT granted AND relation = 'orchestrator_breakers'::regclass").Scan(&since))
			})
			return since
		}
		first, second := make(chan struct{}), make(chan struct{})
		go call(t.Context(), first)
		await(t, "the first call reads the state", func() bool { return waits() != "" })
		reading := waits()
		stopped, stop := context.WithCancel(t.Context())
		stop()
		go call(stopped, second)
		<-second
		require.Equal(t, reading, waits(), "the stopped call did not wait for the other one")
		require.NoError(t, tx.Rollback(ctx))
		<-first
	})
}

// counting counts log entries.
type counting struct {
	slog.Handler
	n *atomic.Int32
}

func (c counting) Enabled(context.Context, slog.Level) bool { return true }
func (c counting) Handle(context.Context, slog.Record) error {
	c.n.Add(1)
	return nil
}

func TestWithoutABreakerEveryCallIsMade(t *testing.T) {
	t.Parallel()
	o := options()
	o.Failures = 0
	c := newCluster(t, 1, o)
	c.open(down, 20)
	require.Equal(t, own, c.used(0, other))
	var none *admission.Gate
	choice, err := do(t.Context(), none, c.call(other), always(fine))
	require.NoError(t, err)
	require.Equal(t, own, choice)
}
