package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
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

// seed makes the random choices of these tests repeatable.
const seed = 20

// limited returns options with limits of the provider.
func limited(l providers.Limits) admission.Options {
	o := options()
	o.Limits = map[string]providers.Limits{own.Provider: l}
	o.Poll, o.Lease = 4*time.Millisecond, 10*time.Second
	return o
}

// of returns a call of a run that the queue need not know.
func of(run int64) admission.Call {
	return admission.Call{Execution: contract.ExecutionRef{ID: run, RunID: run, Agent: contract.AgentBuilder, Step: "step-001", Attempt: 1}, Choice: own}
}

// send makes a call through a worker.
func send(ctx context.Context, g *admission.Gate, c admission.Call, r model.Request, call func() (model.Response, error)) error {
	pass := g.Choose(ctx, c)
	defer pass.Close()
	_, err := pass.Do(ctx, r, func(model.Request) (model.Response, error) { return call() })
	return err
}

// waiting returns the calls of a run that wait.
func (c *cluster) waiting(run int64) []providers.Waiting {
	c.t.Helper()
	list, err := providers.New(c.fixture.Store).WaitingOf(c.t.Context(), run)
	require.NoError(c.t, err)
	return list
}

func TestAllWorkersTogetherSendNoMoreRequestsThanAllowed(t *testing.T) {
	t.Parallel()
	const requests, calls, window = 7, 50, 400 * time.Millisecond
	c := newCluster(t, 3, limited(providers.Limits{Requests: requests, Window: window}))
	storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `CREATE TABLE admissions (at timestamptz);
			CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO admissions VALUES (NEW.admitted_at); RETURN NEW; END $$;
			CREATE TRIGGER note AFTER UPDATE ON orchestrator_provider_calls FOR EACH ROW WHEN (OLD.admitted_at IS NULL AND NEW.admitted_at IS NOT NULL) EXECUTE FUNCTION note()`)
		require.NoError(t, err)
	})
	random := rand.New(rand.NewPCG(seed, 1))
	var all sync.WaitGroup
	for i := range calls {
		run, long := int64(1+random.IntN(4)), time.Duration(random.IntN(20))*time.Millisecond
		all.Go(func() {
			require.NoError(t, send(t.Context(), c.workers[i%3], of(run), model.Request{}, func() (model.Response, error) {
				<-time.After(long)
				return model.Response{}, nil
			}))
		})
	}
	all.Wait()
	storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
		var total, most int
		require.NoError(t, conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM admissions),
			max((SELECT count(*) FROM admissions b WHERE b.at >= a.at AND b.at < a.at + $1::float8 * interval '1 second')) FROM admissions a`, window.Seconds()).Scan(&total, &most))
		require.Equal(t, calls, total)
		require.Equal(t, requests, most, "in any window, and all that is allowed")
	})
}

func TestAllWorkersTogetherMakeNoMoreCallsAtATimeThanAllowed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, limited(providers.Limits{Concurrent: 4}))
	var active, most atomic.Int32
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			require.NoError(t, send(t.Context(), c.workers[i%3], of(int64(i%5)), model.Request{}, func() (model.Response, error) {
				n := active.Add(1)
				defer active.Add(-1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				<-time.After(5 * time.Millisecond)
				return model.Response{}, nil
			}))
		})
	}
	all.Wait()
	require.EqualValues(t, 4, most.Load())
}

func TestTokensAreReservedByEstimateAndCorrectedAfterwards(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, limited(providers.Limits{Tokens: 1000, Window: time.Hour}))
	finish := make(chan int64)
	results := make(chan error, 3)
	begun := make(chan struct{}, 3)
	call := func(worker int) {
		results <- send(t.Context(), c.workers[worker], of(1), model.Request{MaxOutput: 600}, func() (model.Response, error) {
			begun <- struct{}{}
			return model.Response{Usage: contract.Usage{PromptTokens: <-finish}}, nil
		})
	}
	go call(0)
	<-begun
	go call(1)
	await(t, "the second call waits", func() bool { w := c.waiting(1); return len(w) == 1 && w[0].Position == 1 })
	finish <- 350 // far less than the estimate
	require.NoError(t, <-results)
	<-begun
	finish <- 600
	require.NoError(t, <-results)

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- send(ctx, c.workers[0], of(2), model.Request{MaxOutput: 600}, nil) }()
	await(t, "nothing is left for an hour", func() bool { return len(c.waiting(2)) == 1 })
	cancel()
	require.Equal(t, contract.CodeCancelled, fault.Of(<-stopped).Code)
	require.Empty(t, c.waiting(2), "it left the queue")
}

func TestACallLargerThanTheLimitIsMadeAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, limited(providers.Limits{Tokens: 100}))
	require.NoError(t, send(t.Context(), c.workers[0], of(1), model.Request{MaxOutput: 5000}, func() (model.Response, error) { return model.Response{}, nil }))
}

// TestARunWithManyCallsDoesNotStarveTheOthers measures waits in calls that were admitted meanwhile,
// which a busy machine does not change.
func TestARunWithManyCallsDoesNotStarveTheOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, limited(providers.Limits{Concurrent: 2, Window: time.Millisecond}))
	storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `CREATE TABLE turns (n bigserial, id bigint, run bigint, admitted bool);
			CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO turns (id, run, admitted) VALUES (NEW.id, NEW.run_id, NEW.admitted_at IS NOT NULL); RETURN NEW; END $$;
			CREATE TRIGGER queued AFTER INSERT ON orchestrator_provider_calls FOR EACH ROW EXECUTE FUNCTION note();
			CREATE TRIGGER admitted AFTER UPDATE ON orchestrator_provider_calls FOR EACH ROW WHEN (OLD.admitted_at IS NULL AND NEW.admitted_at IS NOT NULL) EXECUTE FUNCTION note()`)
		require.NoError(t, err)
	})
	const flood, others, each = 120, 6, 15
	call := func(worker int, run int64) {
		require.NoError(t, send(t.Context(), c.workers[worker], of(run), model.Request{}, func() (model.Response, error) { return model.Response{}, nil }))
	}
	var all sync.WaitGroup
	for i := range flood {
		all.Go(func() { call(i%3, 1) })
	}
	await(t, "the large run waits", func() bool { return len(c.waiting(1)) > flood/2 })
	for run := range others {
		all.Go(func() {
			for i := range each {
				call((run+i)%3, int64(run+2))
			}
		})
	}
	all.Wait()
	storetest.Query(t, c.fixture.URL, func(ctx context.Context, conn *pgx.Conn) {
		var made, median, most, ofLarge int
		require.NoError(t, conn.QueryRow(ctx, `WITH waits AS (
				SELECT a.run, (SELECT count(*) FROM turns b WHERE b.admitted AND b.n > q.n AND b.n <= a.n) AS waited
				FROM turns a JOIN turns q ON q.id = a.id AND NOT q.admitted WHERE a.admitted)
			SELECT count(*), percentile_disc(0.5) WITHIN GROUP (ORDER BY waited) FILTER (WHERE run > 1), max(waited) FILTER (WHERE run > 1),
				percentile_disc(0.5) WITHIN GROUP (ORDER BY waited) FILTER (WHERE run = 1) FROM waits`).Scan(&made, &median, &most, &ofLarge))
		t.Logf("calls admitted during a wait: median %d, most %d; median of the large run %d", median, most, ofLarge)
		require.Equal(t, flood+others*each, made, "nor is the large run starved")
		require.LessOrEqual(t, most, 3*max(median, 2), "no call waits for many more than usual")
		require.Less(t, most, ofLarge/2, "nor behind the large run")
	})
}

func TestAllWorkersWaitUntilAProviderAcceptsCallsAgain(t *testing.T) {
	t.Parallel()
	const pause = 300 * time.Millisecond
	for name, o := range map[string]outcome{
		"nothing left":   {status: http.StatusOK, header: http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {pause.String()}}},
		"limit exceeded": {status: http.StatusTooManyRequests, err: fault.New(contract.ClassInfra, contract.CodeRateLimited, "HTTP 429").After(pause)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := options()
			settings.Poll = 4 * time.Millisecond
			c := newCluster(t, 2, settings)
			began := time.Now()
			_, _ = do(t.Context(), c.workers[0], c.call(), always(o))
			var sent time.Time
			_, err := do(t.Context(), c.workers[1], c.call(), func(contract.ModelChoice) outcome { sent = time.Now(); return fine })
			require.NoError(t, err)
			require.GreaterOrEqual(t, sent.Sub(began), pause)
		})
	}
}

func TestTheCallsOfADeadWorkerDoNotBlockTheQueue(t *testing.T) {
	t.Parallel()
	o := limited(providers.Limits{Concurrent: 1})
	o.Lease = 400 * time.Millisecond
	f := storetest.Setup(t)
	dies := storetest.Open(t, f.URL)
	c := &cluster{t: t, fixture: f, workers: []*admission.Gate{admission.New(dies, o), admission.New(storetest.Open(t, f.URL), o)}}
	begun, end := make(chan struct{}), make(chan struct{})
	dead := make(chan error, 1)
	go func() {
		dead <- send(t.Context(), c.workers[0], of(1), model.Request{}, func() (model.Response, error) {
			close(begun)
			<-end
			return model.Response{}, nil
		})
	}()
	<-begun
	next := make(chan error, 1)
	go func() {
		next <- send(t.Context(), c.workers[1], of(2), model.Request{}, func() (model.Response, error) { return model.Response{}, nil })
	}()
	await(t, "the second call waits", func() bool { w := c.waiting(2); return len(w) == 1 && w[0].Position == 1 })
	dies.Close() // it cannot renew its lease any more
	require.NoError(t, <-next)
	close(end)
	require.NoError(t, <-dead)
}

func TestAWaitingCallUsesAnotherModelWhenItsOwnGoesOut(t *testing.T) {
	t.Parallel()
	o := limited(providers.Limits{Concurrent: 1})
	o.Pause, o.LongestPause = time.Hour, time.Hour
	c := newCluster(t, 1, o)
	begun, end := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- send(t.Context(), c.workers[0], of(1), model.Request{}, func() (model.Response, error) {
			close(begun)
			<-end
			return model.Response{}, nil
		})
	}()
	<-begun
	waiting := c.call(other)
	second := make(chan error, 1)
	go func() {
		second <- send(t.Context(), c.workers[0], waiting, model.Request{}, func() (model.Response, error) { return model.Response{}, fmt.Errorf("it was made") })
	}()
	await(t, "the second call waits", func() bool { return len(c.waiting(waiting.Execution.RunID)) == 1 })
	rows := providers.New(c.fixture.Store)
	for range 5 {
		_, _, err := rows.Fail(t.Context(), providers.Failure{Provider: own.Provider, Reason: "down", Threshold: 5, Pause: time.Hour, Longest: time.Hour})
		require.NoError(t, err)
	}
	close(end)
	require.NoError(t, <-first)
	require.True(t, admission.ShouldSwitch(<-second), "it is chosen again")
	require.Equal(t, other, c.used(0, other))
}

func TestALongWaitIsOneEventOfItsRun(t *testing.T) {
	t.Parallel()
	o := limited(providers.Limits{Concurrent: 1})
	o.Announce = 20 * time.Millisecond
	c := newCluster(t, 2, o)
	run := c.fixture.First.ID
	begun, end := make(chan struct{}), make(chan struct{})
	results := make(chan error, 3)
	go func() {
		results <- send(t.Context(), c.workers[0], of(99), model.Request{}, func() (model.Response, error) {
			close(begun)
			<-end
			return model.Response{}, nil
		})
	}()
	<-begun
	for _, g := range c.workers {
		go func() {
			results <- send(t.Context(), g, of(run), model.Request{}, func() (model.Response, error) { return model.Response{}, nil })
		}()
	}
	waits := func() (out []string) {
		events, err := c.fixture.Events(t.Context(), run, 0, 0)
		require.NoError(t, err)
		for _, e := range events {
			if e.Type == contract.EventModelWaiting {
				out = append(out, string(e.Payload))
			}
		}
		return out
	}
	await(t, "both calls wait, and an event says so", func() bool { return len(c.waiting(run)) == 2 && len(waits()) > 0 })
	close(end)
	for range 3 {
		require.NoError(t, <-results)
	}
	require.Len(t, waits(), 1)
	require.Contains(t, waits()[0], "builder step-001 waits for provider main, position ")
}

func TestRenewalsAndAdmissionsOfTheSameCallsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const calls, rounds = 300, 60
	c := newCluster(t, 1, options())
	limits := providers.Limits{Concurrent: 1}
	var ids []int64
	rows := providers.New(c.fixture.Store)
	for i := range calls {
		id, err := rows.Enqueue(t.Context(), providers.QueuedCall{Provider: own.Provider, Model: own.Model, RunID: int64(i % 7)}, time.Hour)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range rounds {
			require.NoError(t, rows.Admit(t.Context(), own.Provider, limits))
			require.NoError(t, rows.Leave(t.Context(), ids[i]))
		}
	})
	all.Go(func() {
		other := providers.New(storetest.Open(t, c.fixture.URL))
		for range rounds {
			require.NoError(t, other.Renew(t.Context(), own.Provider, ids[rounds:], time.Hour))
		}
	})
	all.Wait()
}
