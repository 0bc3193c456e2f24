package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

const (
	propertyRounds   = 250 // take about a minute on two processors
	parallelAttempts = 50
)

// spender makes the calls of one round. Its workers may die between any two steps, take calls over
// from each other, and settle twice, late, or after their calls were given up.
type spender struct {
	*fixture
	turn   int
	scopes []store.Scope
	tokens atomic.Int64 // settled
	micros atomic.Int64
	ended  atomic.Int64 // calls that a budget refused

	mu       sync.Mutex
	lastWord []func(context.Context) error
}

// reservation is one of a random size.
func (s *spender) reservation(e contract.ExecutionRef, random *rand.Rand) store.Reservation {
	prompt := 1 + random.Int64N(60)
	return store.Reservation{
		Execution: e, Turn: s.turn, Provider: "scripted", Model: "m", Prompt: prompt, Output: 50, MinOutput: 10,
		Cost: func(output int64) int64 { return priceOf(prompt, output) }, Scopes: s.scopes,
	}
}

func priceOf(prompt, output int64) int64 { return 3*prompt + 7*output }

// settle books what a provider charges that respects the granted limit: often all of it, sometimes
// for a failed attempt, sometimes twice.
func (s *spender) settle(ctx context.Context, r store.Reservation, got store.Reserved, random *rand.Rand) error {
	u := contract.Usage{Calls: 1, PromptTokens: r.Prompt, CompletionTokens: got.Output}
	if random.IntN(2) == 0 {
		u.PromptTokens, u.CompletionTokens = random.Int64N(r.Prompt+1), random.Int64N(got.Output+1)
	}
	u.MicroUSD = priceOf(u.PromptTokens, u.CompletionTokens)
	fails, times := random.IntN(4) == 0, 1+random.IntN(2)
	for range times {
		if settled := s.end(ctx, got.ID, fails, u); settled != nil && !errors.Is(settled, store.ErrSuperseded) {
			return settled
		}
	}
	s.tokens.Add(u.Tokens())
	s.micros.Add(u.MicroUSD)
	return nil
}

func (s *spender) end(ctx context.Context, id store.CallID, fails bool, u contract.Usage) error {
	if fails {
		return s.FailCall(ctx, id, nil, u)
	}
	return s.CompleteCall(ctx, id, u, 0, raw(`{}`), nil)
}

// work makes attempts of one call until one succeeds, a budget refuses it, or all workers died.
func (s *spender) work(ctx context.Context, e contract.ExecutionRef, random *rand.Rand) error {
	var late []func() error // attempts of workers that were only cut off
	for range 3 {
		r := s.reservation(e, random)
		got, err := s.ReserveCall(ctx, r)
		if errors.Is(err, store.ErrBudgetBusy) {
			continue
		}
		if fault.Is(err, contract.CodeBudgetExceeded) {
			s.ended.Add(1)
			break
		}
		if err != nil {
			return err
		}
		if got.Answer != nil {
			break
		}
		settle := func() error { return s.settle(ctx, r, got, random) }
		switch random.IntN(6) {
		case 0: // dies: nobody learns whether the provider charged
			continue
		case 1:
			late = append(late, settle)
			continue
		case 2: // settles when everything was given up
			s.afterwards(func(ctx context.Context) error { return s.settle(ctx, r, got, random) })
			continue
		case 3: // somebody gives up calls that are being made, perhaps this one
			if _, err := s.GiveUpCalls(ctx, 0, 1+random.IntN(parallelAttempts)); err != nil {
				return err
			}
		}
		if err := settle(); err != nil {
			return err
		}
	}
	for _, settle := range late {
		if err := settle(); err != nil {
			return err
		}
	}
	return nil
}

// afterwards makes an attempt settle after its round.
func (s *spender) afterwards(settle func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastWord = append(s.lastWord, settle)
}

// requireBooked checks that nothing is reserved, and that each budget has spent what was settled and
// what attempts of unknown outcome can have used.
func (s *spender) requireBooked(ctx context.Context, t *testing.T, conn *pgx.Conn) (unknown int64) {
	t.Helper()
	var tokens, micros int64
	require.NoError(t, conn.QueryRow(ctx, `
		SELECT coalesce(sum((h ->> 'tokens')::bigint), 0), coalesce(sum((h ->> 'micros')::bigint), 0)
		FROM orchestrator_model_calls c, jsonb_array_elements(c.given_up) h WHERE c.turn = $1`, s.turn).Scan(&tokens, &micros))
	for _, scope := range s.scopes {
		budget, err := s.Budget(ctx, scope.Kind, scope.Key)
		require.NoError(t, err)
		require.Equal(t, []int64{s.tokens.Load() + tokens, s.micros.Load() + micros, 0, 0},
			[]int64{budget.SpentTokens, budget.SpentMicros, budget.ReservedTokens, budget.ReservedMicros}, "round %d, %s", s.turn, scope.Kind)
	}
	return tokens
}

// guard makes the database reject every statement after which a budget would be overspent.
const guard = `
	CREATE TABLE limits (scope_kind TEXT, scope_key TEXT, tokens BIGINT, micros BIGINT, PRIMARY KEY (scope_kind, scope_key));
	CREATE FUNCTION within_limits() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE most limits;
	BEGIN
		SELECT * INTO most FROM limits l WHERE l.scope_kind = NEW.scope_kind AND l.scope_key = NEW.scope_key;
		IF NEW.spent_tokens + NEW.reserved_tokens > most.tokens OR NEW.spent_micros + NEW.reserved_micros > most.micros THEN
			RAISE EXCEPTION 'overspent: % of %', NEW, most;
		END IF;
		RETURN NEW;
	END $$;
	CREATE TRIGGER within_limits BEFORE UPDATE ON orchestrator_budgets FOR EACH ROW EXECUTE FUNCTION within_limits()`

// TestNoBudgetIsOverspentAtAnyMoment lets 50 workers spend the same budgets in each round, while calls
// are given up. In the end, nothing is reserved, and what is spent is what was settled, and what attempts
// of unknown outcome can have used.
func TestNoBudgetIsOverspentAtAnyMoment(t *testing.T) {
	t.Parallel()
	rounds := propertyRounds
	if testing.Short() {
		rounds /= 10
	}
	b := setup(t)
	var executions []contract.ExecutionRef
	for i := range parallelAttempts / 2 { // two workers for each call
		executions = append(executions, b.begin(t, contract.PhaseBuilder, fmt.Sprint("step-", i)))
	}
	const seed = 20261126
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seeded test
	refused, settled, unknown, late := int64(0), int64(0), int64(0), 0
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, guard)
		require.NoError(t, err)
		for round := range rounds {
			s := &spender{fixture: b, turn: round + 1}
			for _, kind := range store.ScopeKinds() {
				scope := store.Scope{Kind: kind, Key: fmt.Sprint("round ", round), LimitTokens: 200 + random.Int64N(4000), LimitMicros: 1000 + random.Int64N(20_000)}
				s.scopes = append(s.scopes, scope)
				_, err := conn.Exec(ctx, "INSERT INTO limits VALUES ($1, $2, $3, $4)", scope.Kind, scope.Key, scope.LimitTokens, scope.LimitMicros)
				require.NoError(t, err)
			}
			var g errgroup.Group
			for i := range parallelAttempts {
				own := rand.New(rand.NewPCG(seed, uint64(1+round*parallelAttempts+i))) //nolint:gosec // a seeded test
				g.Go(func() error { return s.work(ctx, executions[i/2], own) })
			}
			require.NoError(t, g.Wait(), "round %d", round)
			for n := 1; n > 0; {
				n, err = s.GiveUpCalls(ctx, 0, parallelAttempts)
				require.NoError(t, err)
			}
			s.requireBooked(ctx, t, conn)
			for _, settle := range s.lastWord {
				require.NoError(t, settle(ctx), "round %d", round)
			}
			unknown += s.requireBooked(ctx, t, conn)
			refused, settled, late = refused+s.ended.Load(), settled+s.tokens.Load(), late+len(s.lastWord)
		}
	})
	require.Positive(t, refused, "limits are reached")
	require.Positive(t, settled)
	require.Positive(t, late, "attempts settle after they were given up")
	require.Positive(t, unknown, "attempts never settle")
}

// Runs leave budgets behind. While the table is small, the planner prefers reading all of them to a few
// index lookups, unless a statement leaves it no choice.
func TestAModelCallReadsNoBudgetsOfOtherRuns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ctx := t.Context()
	conn, err := pgx.ConnectConfig(ctx, s.ConnConfig())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
	_, err = conn.Exec(ctx, "INSERT INTO orchestrator_budgets (scope_kind, scope_key) SELECT k, 'other ' || n FROM generate_series(1, 1000) n, unnest(ARRAY['run', 'agent']) k")
	require.NoError(t, err)
	_, err = conn.Exec(ctx, "ANALYZE orchestrator_budgets")
	require.NoError(t, err)

	kinds, keys := []string{"tenant", "run", "agent", "day"}, []string{"acme", "1", "1/builder", "2026-01-01"}
	execution := s.begin(t, contract.PhaseBuilder, "step-001")
	for turn := range int32(10) { // more often than PostgreSQL plans for the values of parameters
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		q := db.New(tx)
		require.NoError(t, q.MakeBudgets(ctx, db.MakeBudgetsParams{Kinds: kinds, Keys: keys}))
		locked, err := q.LockBudgets(ctx, db.LockBudgetsParams{Kinds: kinds, Keys: keys})
		require.NoError(t, err)
		require.Equal(t, []string{"agent", "day", "run", "tenant"}, []string{locked[0].ScopeKind, locked[1].ScopeKind, locked[2].ScopeKind, locked[3].ScopeKind})
		require.NoError(t, q.LockBudgetsOnly(ctx, db.LockBudgetsOnlyParams{Kinds: kinds, Keys: keys}))
		none := make([]int64, len(kinds))
		call, err := q.BeginCall(ctx, db.BeginCallParams{
			RunID: execution.RunID, ExecutionID: execution.ID, Turn: turn + 1, Kinds: kinds, Keys: keys, Tokens: 7, LimitTokens: none, LimitMicros: none,
			Route: []byte("null"), Told: []byte("[]"),
			Scopes: []byte(`[{"kind": "tenant", "key": "acme"}, {"kind": "run", "key": "1"}, {"kind": "agent", "key": "1/builder"}, {"kind": "day", "key": "2026-01-01"}]`),
		})
		require.NoError(t, err)
		_, err = q.CompleteCallFast(ctx, db.CompleteCallFastParams{ID: call, Try: 1, PromptTokens: 5, Answer: []byte("{}"), Messages: []byte("[]")})
		require.NoError(t, err)
		read, err := q.LockBudgets(ctx, db.LockBudgetsParams{Kinds: kinds, Keys: keys})
		require.NoError(t, err)
		require.Len(t, read, len(kinds))
		for i, b := range read {
			require.Equal(t, locked[i].SpentTokens+5, b.SpentTokens)
			require.Zero(t, b.ReservedTokens)
		}
		var all, lookups int
		require.NoError(t, tx.QueryRow(ctx, "SELECT seq_scan, idx_scan FROM pg_stat_xact_user_tables WHERE relname = 'orchestrator_budgets'").Scan(&all, &lookups))
		require.Zero(t, all, "statements read the whole table")
		require.GreaterOrEqual(t, lookups, 4*len(kinds))
		require.NoError(t, tx.Commit(ctx))
	}
}

// TestCallsThatCreateAndShareBudgetsNeverDeadlock starts calls of all kinds at once, each with its budgets in another
// order. Some budgets exist, and some do not: the calls that create them also wait for those that exist.
func TestCallsThatCreateAndShareBudgetsNeverDeadlock(t *testing.T) {
	t.Parallel()
	const rounds, calls, most, size = 60, 9, 6, 100
	s := setup(t)
	var executions []contract.ExecutionRef
	for i := range calls {
		executions = append(executions, s.begin(t, contract.PhaseBuilder, fmt.Sprint("step-", i)))
	}
	const seed = 20261129
	storetest.Query(t, s.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, guard)
		require.NoError(t, err)
		for round := range rounds {
			var scopes []store.Scope
			for i, kind := range store.ScopeKinds() {
				scope := store.Scope{Kind: kind, Key: fmt.Sprint("round ", round), LimitTokens: most * size}
				scopes = append(scopes, scope)
				_, err := conn.Exec(ctx, "INSERT INTO limits VALUES ($1, $2, $3)", scope.Kind, scope.Key, scope.LimitTokens)
				require.NoError(t, err)
				if i < 3 {
					_, err := conn.Exec(ctx, "INSERT INTO orchestrator_budgets (scope_kind, scope_key) VALUES ($1, $2)", scope.Kind, scope.Key)
					require.NoError(t, err)
				}
			}
			var g errgroup.Group
			var spent atomic.Int64
			for i, execution := range executions {
				r := reservation(execution, round+1)
				r.Scopes = slices.Clone(scopes)
				rand.New(rand.NewPCG(seed, uint64(round*calls+i))).Shuffle(len(scopes), func(a, b int) { //nolint:gosec // a seeded test
					r.Scopes[a], r.Scopes[b] = r.Scopes[b], r.Scopes[a]
				})
				call := s.callAtOnce
				switch i % 3 {
				case 1:
					call = s.callStepwise
				case 2:
					call = s.callOutsideRuns
				}
				g.Go(func() error {
					err := call(ctx, r)
					if err == nil {
						spent.Add(size)
					}
					if errors.Is(err, store.ErrBudgetBusy) || fault.Is(err, contract.CodeBudgetExceeded) {
						return nil
					}
					return err
				})
			}
			require.NoError(t, g.Wait(), "round %d", round)
			require.Positive(t, spent.Load())
			for _, scope := range scopes {
				b, err := s.Budget(ctx, scope.Kind, scope.Key)
				require.NoError(t, err)
				require.Equal(t, []int64{spent.Load(), 0}, []int64{b.SpentTokens, b.ReservedTokens}, "round %d, %s", round, scope.Kind)
			}
		}
	})
}

// callAtOnce makes a call with the statements of the fast path, and its budgets in the given order.
func (b *fixture) callAtOnce(ctx context.Context, r store.Reservation) error {
	var p db.BeginCallParams
	for _, scope := range r.Scopes {
		p.Kinds, p.Keys = append(p.Kinds, string(scope.Kind)), append(p.Keys, scope.Key)
		p.LimitTokens, p.LimitMicros = append(p.LimitTokens, scope.LimitTokens), append(p.LimitMicros, scope.LimitMicros)
	}
	p.RunID, p.ExecutionID, p.Turn = r.Execution.RunID, r.Execution.ID, int32(r.Turn)
	p.Tokens, p.WarnAt, p.Route, p.Told = r.Prompt+r.Output, 1, []byte("null"), []byte("[]")
	var err error
	if p.Scopes, err = json.Marshal(scopesOf(r)); err != nil {
		return err
	}
	id, err := b.Queries().BeginCall(ctx, p)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "RG001" {
		return store.ErrBudgetBusy
	}
	if err != nil {
		return err
	}
	return b.CompleteCall(ctx, store.CallID{Call: id, Try: 1}, contract.Usage{PromptTokens: r.Prompt, CompletionTokens: r.Output}, 0, raw(`{}`), nil)
}

func scopesOf(r store.Reservation) []map[string]string {
	var out []map[string]string
	for _, scope := range r.Scopes {
		out = append(out, map[string]string{"kind": string(scope.Kind), "key": scope.Key})
	}
	return out
}

// callStepwise makes a call that locks its budgets before it is admitted.
func (b *fixture) callStepwise(ctx context.Context, r store.Reservation) error {
	r.Retried = true
	got, err := b.ReserveCall(ctx, r)
	if err != nil {
		return err
	}
	return b.CompleteCall(ctx, got.ID, contract.Usage{PromptTokens: r.Prompt, CompletionTokens: got.Output}, 0, raw(`{}`), nil)
}

func (b *fixture) callOutsideRuns(ctx context.Context, r store.Reservation) error {
	got, err := b.HoldBudgets(ctx, r)
	if err != nil {
		return err
	}
	return b.SettleHold(ctx, got.ID.Call, contract.Usage{PromptTokens: r.Prompt, CompletionTokens: got.Output})
}

func TestABudgetOfAnUnknownKindCannotBeCreated(t *testing.T) {
	t.Parallel()
	storetest.Query(t, setup(t).URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "INSERT INTO orchestrator_budgets (scope_kind, scope_key) VALUES ('moon', '1')")
		require.ErrorContains(t, err, "unknown kind of budget: moon")
	})
}
