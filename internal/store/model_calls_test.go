package store_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// reservation is one of 100 tokens and 10 millionths, for a run of 1000 tokens.
func reservation(execution contract.ExecutionRef, turn int) store.Reservation {
	return store.Reservation{
		Execution: execution, Turn: turn, Provider: "scripted", Model: "m", PromptVersion: "v1", Prompt: 60, Output: 40, MinOutput: 40,
		Cost:   func(int64) int64 { return 10 },
		Scopes: []store.Scope{store.RunScope(execution.RunID, contract.RunBudget{Tokens: 1000})},
	}
}

func used(tokens int64) contract.Usage {
	return contract.Usage{PromptTokens: tokens - 1, CompletionTokens: 1, MicroUSD: tokens / 10}
}

func (b *fixture) requireBudget(tb testing.TB, spent, reserved int64) {
	tb.Helper()
	budget, err := b.Budget(tb.Context(), store.ScopeRun, "1")
	require.NoError(tb, err)
	require.Equal(tb, []int64{spent, reserved}, []int64{budget.SpentTokens, budget.ReservedTokens}, "spent and reserved tokens")
}

func TestTheBudgetsOfADayFollowTheDatabasesClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() + interval '48 hours' $$`)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
		require.NoError(t, err)
	})
	ahead := storetest.Open(t, b.URL)
	basis, err := ahead.CallBasis(t.Context(), execution, 1)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(48*time.Hour), basis.Now(), 5*time.Minute)
}

func TestTheFirstCallOfEachProviderInARunIsInTheLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	for turn, provider := range []string{"down", "scripted", "scripted", "other", "scripted", "other"} {
		r := reservation(execution, turn+1)
		r.Provider = provider
		call, err := b.ReserveCall(t.Context(), r)
		require.NoError(t, err)
		if turn > 0 { // nobody answered the first
			require.NoError(t, b.CompleteCall(t.Context(), call.ID, used(10), time.Second, []byte(`{}`), nil))
		}
	}
	entries, err := chain.List(t.Context(), b.Store, chain.Filter{Action: "provider.used"})
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, string(e.Actor)+" "+e.Name+": "+e.Object)
	}
	agent := "agent " + string(execution.Agent)
	require.Equal(t, []string{agent + " other/m: credentials of provider other", agent + " scripted/m: credentials of provider scripted"}, got)
}

func TestAReservationTakenOverIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	first, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.Equal(t, 1, first.ID.Try)
	r := reservation(execution, 1)
	r.Prompt = 110
	r.Scopes = append(r.Scopes, store.DayScope(time.Now(), 0, 0)) // a day may begin in between
	second, err := b.ReserveCall(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, store.CallID{Call: first.ID.Call, Try: 2}, second.ID)
	b.requireBudget(t, 0, 250)

	// The first worker was only slow. Both calls cost money, one answer counts.
	messages := func(text string) []store.Message {
		return []store.Message{{Role: "assistant", Content: raw("%q", text)}}
	}
	require.NoError(t, b.CompleteCall(t.Context(), first.ID, used(40), time.Second, raw(`"first"`), messages("first")))
	b.requireBudget(t, 40, 150)
	err = b.CompleteCall(t.Context(), second.ID, used(50), time.Second, raw(`"second"`), messages("second"))
	require.ErrorIs(t, err, store.ErrSuperseded)
	require.ErrorIs(t, b.CompleteCall(t.Context(), second.ID, used(50), time.Second, raw(`"second"`), nil), store.ErrSuperseded, "a repeat hears the same")
	require.NoError(t, b.CompleteCall(t.Context(), first.ID, used(40), time.Second, raw(`"first"`), nil))
	b.requireBudget(t, 90, 0)
	done, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.Equal(t, `"first"`, string(done.Answer.Answer))
	conversation, err := b.Conversation(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Len(t, conversation, 1)
	require.Equal(t, `"first"`, string(conversation[0].Content))
}

func TestACallCompletedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	reserved, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	b.requireBudget(t, 0, 100)
	var g errgroup.Group
	for range 20 {
		g.Go(func() error {
			return b.CompleteCall(t.Context(), reserved.ID, used(60), 1500*time.Millisecond, raw(`{"text":"hi"}`),
				[]store.Message{{Role: "assistant", Content: raw(`"hi"`)}, {Role: "user", Content: raw(`"go on"`)}})
		})
	}
	require.NoError(t, g.Wait())
	b.requireBudget(t, 60, 0)
	transcript, err := b.Transcript(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Len(t, transcript, 2)
	require.Equal(t, []int{1, 1}, []int{transcript[1].Turn, transcript[1].Position})
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, calls, 1)
	require.Equal(t, "done", calls[0].Status)
	require.EqualValues(t, 1500, calls[0].LatencyMS)
	require.NotNil(t, calls[0].FinishedAt)

	again, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.Equal(t, &store.StoredAnswer{Answer: raw(`{"text": "hi"}`), Usage: contract.Usage{Calls: 1, PromptTokens: 59, CompletionTokens: 1, MicroUSD: 6}}, again.Answer)
	b.requireBudget(t, 60, 0)
}

func TestFailedCallGivesItsReservationBackAndCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	first, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	failure := &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeTruncated, Message: "cut"}
	for range 2 {
		require.NoError(t, b.FailCall(t.Context(), first.ID, failure, used(20)))
		b.requireBudget(t, 20, 0)
	}
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "failed", calls[0].Status)
	require.Equal(t, failure, calls[0].Failure)
	second, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	b.requireBudget(t, 20, 100)
	require.NoError(t, b.FailCall(t.Context(), first.ID, failure, used(20)), "a late repeat")
	b.requireBudget(t, 20, 100)
	require.NoError(t, b.CompleteCall(t.Context(), second.ID, used(30), 0, raw(`{}`), nil))
	require.NoError(t, b.FailCall(t.Context(), second.ID, failure, used(30)), "settled is settled")
	b.requireBudget(t, 50, 0)
	usage, err := b.Usage(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 48, CompletionTokens: 2, MicroUSD: 5}, usage, "the failed try was paid for too")
}

func TestPartsOfTheTokensAreAddedUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	failed := contract.Usage{PromptTokens: 100, CachedTokens: 40, CacheWriteTokens: 10, CompletionTokens: 9, ReasoningTokens: 3, MicroUSD: 5}
	first, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.NoError(t, b.FailCall(t.Context(), first.ID, &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeTruncated}, failed))
	second, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	done := contract.Usage{PromptTokens: 200, CachedTokens: 150, CacheWriteTokens: 20, CompletionTokens: 7, ReasoningTokens: 1, MicroUSD: 6}
	require.NoError(t, b.CompleteCall(t.Context(), second.ID, done, 0, raw(`{}`), nil))
	all := contract.Usage{Calls: 1, PromptTokens: 300, CachedTokens: 190, CacheWriteTokens: 30, CompletionTokens: 16, ReasoningTokens: 4, MicroUSD: 11}
	usage, err := b.Usage(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, all, usage)
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, all, calls[0].Usage)
	again, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.Equal(t, all, again.Answer.Usage)
}

func TestABudgetThatAPipelineUsedUpIsReportedAsThePipelines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "o")
	opened, err := b.Record(t.Context(), pipelineSource(p), contract.Record{
		RunID: p.RunID, Seq: 1, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentAlpha},
	})
	require.NoError(t, err)
	r := reservation(opened.Execution, 1)
	first, err := b.ReserveCall(t.Context(), r)
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), first.ID, used(850), 0, raw(`{}`), nil))
	r.Turn = 2
	second, err := b.ReserveCall(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, second.Warnings, 1)
	require.Equal(t, "the budget for this pipeline and its recoveries is nearly used up: 850 tokens of 1000 tokens spent (execution.run.tokens)", second.Warnings[0].Text)
	require.NoError(t, b.CompleteCall(t.Context(), second.ID, used(350), 0, raw(`{}`), nil))
	r.Turn = 3
	_, err = b.ReserveCall(t.Context(), r)
	require.ErrorContains(t, err, "the budget for this pipeline and its recoveries is used up: 1200 tokens of 1000 tokens spent; raise execution.run.tokens and spawn the pipeline again")
}

func TestEachBudgetNamesWhatItIsForAndTheSettingToRaise(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	frozen := contract.RunBudget{Tokens: 50, MicroUSD: 5, Agents: map[contract.Agent]contract.AgentBudget{contract.AgentBuilder: {Tokens: 50, MicroUSD: 5}}}
	for whose, scope := range map[string]store.Scope{
		"run 1; execution.run.":                                         store.RunScope(1, frozen),
		"the agent builder in run 1; execution.agents.builder.":         store.AgentScope(1, contract.AgentBuilder, frozen),
		"the project my app in 2026-01-02; models.budgets.project_day_": store.PeriodScope(store.ScopeProject, "my app", at, store.Daily, 50, 5),
		"the project my app in 2026-01; models.budgets.project_month_":  store.PeriodScope(store.ScopeProject, "my app", at, store.Monthly, 50, 5),
		"the tenant local in 2026-01-02; models.budgets.tenant_day_":    store.PeriodScope(store.ScopeTenant, "local", at, store.Daily, 50, 5),
		"the tenant local in 2026-01; models.budgets.tenant_month_":     store.PeriodScope(store.ScopeTenant, "local", at, store.Monthly, 50, 5),
		"the day 2026-01-02; models.budgets.day_":                       store.DayScope(at, 50, 5),
	} {
		name, setting, _ := strings.Cut(whose, "; ")
		require.Equal(t, name, scope.Whose())
		r := reservation(b.begin(t, contract.PhaseBuilder, string(scope.Kind)+scope.Key), 1)
		r.Scopes = []store.Scope{scope}
		r.Scopes[0].LimitMicros = 0
		_, err := b.ReserveCall(t.Context(), r)
		require.ErrorContains(t, err, "the budget for "+name+" does not cover the next model call: 0 tokens of 50 tokens spent, and the call can use up to 100 tokens; raise "+setting+"tokens and resume the run")
		require.True(t, fault.Is(err, contract.CodeBudgetExceeded))
		r.Scopes[0].LimitTokens, r.Scopes[0].LimitMicros = 0, 5
		_, err = b.ReserveCall(t.Context(), r)
		require.ErrorContains(t, err, "and the call can use up to 0.0000 USD; raise "+setting+"cost_usd")
	}
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Empty(t, calls, "what was refused leaves nothing behind")
}

func TestACallAsksForLessIfABudgetDoesNotCoverItsOutput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := reservation(b.begin(t, contract.PhaseBuilder, "one"), 1)
	r.Output, r.MinOutput, r.Cost = 5000, 40, func(output int64) int64 { return 2 * output }
	first, err := b.ReserveCall(t.Context(), r)
	require.NoError(t, err)
	require.EqualValues(t, 940, first.Output, "the limit without the prompt")
	require.Equal(t, "the budget for run 1 (0 tokens of 1000 tokens spent, 0 tokens reserved; execution.run.tokens)", first.Limited)
	require.Equal(t, []int64{1000, 1880}, []int64{first.Tokens, first.MicroUSD})
	b.requireBudget(t, 0, 1000)

	other := r
	other.Execution = b.begin(t, contract.PhaseBuilder, "two")
	_, err = b.ReserveCall(t.Context(), other)
	require.ErrorIs(t, err, store.ErrBudgetBusy)
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	require.NoError(t, b.CompleteCall(t.Context(), first.ID, used(200), 0, raw(`{}`), nil))
	other.Scopes = []store.Scope{store.RunScope(1, contract.RunBudget{Tokens: 1000, MicroUSD: 20 + 901})}
	second, err := b.ReserveCall(t.Context(), other)
	require.NoError(t, err)
	require.EqualValues(t, 450, second.Output, "901 millionths are left, at 2 each")
	require.Contains(t, second.Limited, "execution.run.cost_usd")
	require.NoError(t, b.CompleteCall(t.Context(), second.ID, used(705), 0, raw(`{}`), nil))
	third := r
	third.Turn = 2
	_, err = b.ReserveCall(t.Context(), third)
	require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "95 are left, and the least is 100")
}

func TestABudgetWarnsOnceWhenSpendingReachesTheThreshold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.begin(t, contract.PhaseBuilder, "step-001")
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	call := func(turn int, tokens int64, day time.Time) []store.Warning {
		r := reservation(e, turn)
		r.Scopes = append(r.Scopes, store.DayScope(day, 1000, 0))
		reserved, err := b.ReserveCall(t.Context(), r)
		require.NoError(t, err)
		require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, used(tokens), 0, raw(`{}`), nil))
		return reserved.Warnings
	}
	require.Empty(t, call(1, 799, at))
	require.Empty(t, call(2, 2, at), "799 of 1000 are not 80 %")
	warnings := call(3, 2, at)
	require.Len(t, warnings, 2)
	require.Equal(t, []store.ScopeKind{store.ScopeDay, store.ScopeRun}, []store.ScopeKind{warnings[0].Kind, warnings[1].Kind})
	require.Equal(t, "the budget for the day 2026-01-02 is nearly used up: 801 tokens of 1000 tokens spent (models.budgets.day_tokens)", warnings[0].Text)
	require.Empty(t, call(4, 2, at))
	require.Empty(t, call(5, 2, at.AddDate(0, 0, 1)), "the next day has spent nothing")
	events, err := b.Events(t.Context(), b.First.ID, 0, 100)
	require.NoError(t, err)
	events = slices.DeleteFunc(events, func(e contract.Event) bool { return e.Type != contract.EventBudgetWarning })
	require.Len(t, events, 2)
	require.Contains(t, string(events[0].Payload), `"scope": "day"`)
	require.Contains(t, string(events[1].Payload), `"budget": "1"`)
}

func TestMessagesAddedBeforeATurnAreStoredWithTheReservationAndKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.begin(t, contract.PhaseBuilder, "one"), b.begin(t, contract.PhaseBuilder, "two")
	telling := func(execution contract.ExecutionRef, text string) store.Reservation {
		r := reservation(execution, 2)
		r.NewMessages = []store.Message{{Role: "user", Content: raw("%q", text)}}
		return r
	}
	for _, text := range []string{"news", "other news"} { // the second attempt is by another worker
		_, err := b.ReserveCall(t.Context(), telling(one, text))
		require.NoError(t, err)
	}
	all, err := b.Transcript(t.Context(), one.ID)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.JSONEq(t, `"news"`, string(all[0].Content))
	require.True(t, all[0].AddedBefore(2))
	require.False(t, all[0].AddedBefore(1))
	require.False(t, all[0].AddedBefore(3))

	full := telling(two, "news")
	full.Prompt = 900
	_, err = b.ReserveCall(t.Context(), full)
	require.ErrorIs(t, err, store.ErrBudgetBusy)
	all, err = b.Transcript(t.Context(), two.ID)
	require.NoError(t, err)
	require.Empty(t, all, "a call that may not be made tells nothing")
}

func TestALostAttemptsReservationIsKeptWhileItMaySettle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.begin(t, contract.PhaseBuilder, "one"), b.begin(t, contract.PhaseBuilder, "two")
	dead, err := b.ReserveCall(t.Context(), reservation(one, 1))
	require.NoError(t, err)
	other, err := b.ReserveCall(t.Context(), reservation(two, 1))
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), other.ID, used(850), 0, raw(`{}`), nil))
	_, err = b.ReserveCall(t.Context(), reservation(one, 1))
	require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "both attempts may be charged for")
	require.ErrorContains(t, err, "100 tokens reserved for an attempt of this call whose worker was lost")
	b.requireBudget(t, 850, 100)
	require.NoError(t, b.CompleteCall(t.Context(), dead.ID, used(70), 0, raw(`{}`), nil), "it was alive after all")
	b.requireBudget(t, 920, 0)
}

func TestTheEndOfAnExecutionCountsItsLostAttemptsAsUsedUntilTheySettle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.begin(t, contract.PhaseBuilder, "step-001")
	var last store.Reserved
	for try := range 3 {
		var err error
		last, err = b.ReserveCall(t.Context(), reservation(e, 1))
		require.NoError(t, err)
		b.requireBudget(t, 0, 100*int64(try+1))
	}
	require.NoError(t, b.CompleteCall(t.Context(), last.ID, used(50), 0, raw(`{}`), nil))
	b.requireBudget(t, 50, 200)
	b.Apply(t, contract.Record{End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted}})
	b.requireBudget(t, 250, 0) // their providers may charge for them
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "done", calls[0].Status)
	require.Equal(t, store.Unsettled{Tokens: 200, MicroUSD: 20}, calls[0].Unsettled)
	first := store.CallID{Call: last.ID.Call, Try: 1}
	for range 2 {
		require.ErrorIs(t, b.CompleteCall(t.Context(), first, used(30), 0, raw(`{}`), nil), store.ErrSuperseded)
		b.requireBudget(t, 180, 0)
	}
	require.NoError(t, b.FailCall(t.Context(), store.CallID{Call: last.ID.Call, Try: 2}, nil, contract.Usage{}))
	b.requireBudget(t, 80, 0)
	calls, err = b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Zero(t, calls[0].Unsettled)
	require.Equal(t, int64(80), calls[0].Usage.Tokens())
}

func TestCallsThatNobodyFinishesAreGivenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ended, lost := b.begin(t, contract.PhaseBuilder, "ended"), b.begin(t, contract.PhaseBuilder, "lost")
	call, err := b.ReserveCall(t.Context(), reservation(ended, 1))
	require.NoError(t, err)
	_, err = b.ReserveCall(t.Context(), reservation(lost, 1))
	require.NoError(t, err)
	b.requireBudget(t, 0, 200)
	b.Apply(t, contract.Record{End: &contract.ExecutionEnd{ExecutionID: ended.ID, Status: contract.ExecutionCancelled}})
	b.requireBudget(t, 100, 100)
	n, err := b.GiveUpCalls(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = b.GiveUpCalls(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.requireBudget(t, 200, 0)
	require.NoError(t, b.CompleteCall(t.Context(), call.ID, used(30), 0, raw(`{}`), nil), "it is paid for all the same")
	b.requireBudget(t, 130, 0)
}

func TestACallThatSettlesAfterItWasGivenUpExceedsNoBudget(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.begin(t, contract.PhaseBuilder, "one"), b.begin(t, contract.PhaseBuilder, "two")
	slow := reservation(one, 1)
	slow.Prompt = 860
	given, err := b.ReserveCall(t.Context(), slow)
	require.NoError(t, err)
	b.Apply(t, contract.Record{End: &contract.ExecutionEnd{ExecutionID: one.ID, Status: contract.ExecutionCancelled}})
	b.requireBudget(t, 900, 0)
	full := reservation(two, 1)
	full.Prompt = 860
	_, err = b.ReserveCall(t.Context(), full)
	require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "the first call may have used its part: %v", err)
	small, err := b.ReserveCall(t.Context(), reservation(two, 1))
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), given.ID, used(900), 0, raw(`{}`), nil))
	require.NoError(t, b.CompleteCall(t.Context(), small.ID, used(100), 0, raw(`{}`), nil))
	b.requireBudget(t, 1000, 0)
}

func TestAnExecutionThatEndsSaysWhatWasPaidInIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhasePlanner, "alpha")
	for turn := 1; turn <= 3; turn++ {
		reserved, err := b.ReserveCall(t.Context(), reservation(execution, turn))
		require.NoError(t, err)
		if turn < 3 { // the last one is cancelled
			require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, used(40), 0, raw(`{}`), nil))
		}
	}
	end := contract.Record{RunID: b.First.ID, Seq: 2, End: &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCancelled}}
	for range 2 {
		ended, err := b.Record(t.Context(), b.Source(), end)
		require.NoError(t, err)
		require.Equal(t, contract.Usage{Calls: 2, PromptTokens: 78, CompletionTokens: 2, MicroUSD: 8}, ended.Usage)
	}
	other, err := b.Record(t.Context(), b.Source(), contract.Record{RunID: b.First.ID, Seq: 3, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Agent: contract.AgentBuilder}})
	require.NoError(t, err)
	require.Zero(t, other.Usage)
}

func TestTakeoversAndCompletionsInAnyOrderKeepBudgetsConsistent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	var g errgroup.Group
	for range 16 {
		g.Go(func() error {
			for turn := 1; turn <= 5; turn++ {
				r := reservation(execution, turn)
				r.Scopes[0].LimitTokens = 0
				r.Scopes = append([]store.Scope{{Kind: store.ScopeTenant, Key: "local"}}, r.Scopes...)
				reserved, err := b.ReserveCall(t.Context(), r)
				if err != nil {
					return err
				}
				if reserved.Answer != nil {
					continue
				}
				err = b.CompleteCall(t.Context(), reserved.ID, used(10), 0, raw(`{}`), nil)
				if err != nil && !errors.Is(err, store.ErrSuperseded) {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	usage, err := b.Usage(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, 5, usage.Calls)
	b.requireBudget(t, usage.Tokens(), 0)
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		var booked int64
		require.NoError(t, conn.QueryRow(ctx, "SELECT 10 * sum(cardinality(settled)) FROM orchestrator_model_calls").Scan(&booked))
		require.Equal(t, booked, usage.Tokens(), "every try that was settled is booked, each once")
	})
}

func TestACostWithoutAKnownPriceStaysMarkedAsEstimated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	v := views.New(b.Store)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	for turn, estimated := range []bool{false, true, false} {
		reserved, err := b.ReserveCall(t.Context(), reservation(execution, turn+1))
		require.NoError(t, err)
		usage := used(20)
		usage.EstimatedPrice = estimated
		require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, usage, 0, raw(`{}`), nil))
		total, err := b.Usage(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, turn > 0, total.EstimatedPrice)
		calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, estimated, calls[turn].Usage.EstimatedPrice)
		again, err := b.ReserveCall(t.Context(), reservation(execution, turn+1))
		require.NoError(t, err)
		require.Equal(t, estimated, again.Answer.Usage.EstimatedPrice)
		spending, err := v.Spending(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, turn > 0, spending[0].EstimatedPrice)
		byModel, err := v.ModelUsage(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, turn > 0, byModel[0].EstimatedPrice)
		activity, err := v.ModelActivity(t.Context(), time.Now().Add(-time.Hour))
		require.NoError(t, err)
		require.Equal(t, turn > 0, activity[0].Usage.EstimatedPrice)
		cards, err := v.Cards(t.Context(), []int64{b.First.ID})
		require.NoError(t, err)
		require.Equal(t, turn > 0, cards[b.First.ID].Estimated)
	}
	last, err := b.LastUsage(t.Context(), execution.ID)
	require.NoError(t, err)
	require.False(t, last.EstimatedPrice)
	spent, err := b.Budget(t.Context(), store.ScopeRun, strconv.FormatInt(b.First.ID, 10))
	require.NoError(t, err)
	require.True(t, spent.Estimated)
	ended, err := b.Record(t.Context(), b.Source(), contract.Record{
		RunID: b.First.ID, Seq: 99, End: &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCompleted},
	})
	require.NoError(t, err)
	require.True(t, ended.Usage.EstimatedPrice, "the run's workflow adds it to the cost of heals")
	dearest, err := v.DearestCalls(t.Context(), b.First.ID, 3)
	require.NoError(t, err)
	estimated := 0
	for _, c := range dearest {
		if c.Usage.EstimatedPrice {
			estimated++
		}
	}
	require.Equal(t, 1, estimated)
}

func TestACallOutsideRunsThatIsLostCountsAsUsedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	scope := store.DayScope(time.Now(), 100, 0)
	reserve := func(tokens int64) (store.Reserved, error) {
		return b.HoldBudgets(t.Context(), store.Reservation{Prompt: tokens, Scopes: []store.Scope{scope, scope}})
	}
	settled, err := reserve(40)
	require.NoError(t, err)
	require.EqualValues(t, 40, settled.Tokens)
	lost, err := reserve(50)
	require.NoError(t, err)
	_, err = reserve(20)
	require.ErrorIs(t, err, store.ErrBudgetBusy, "others hold the rest")
	_, err = reserve(101)
	require.True(t, fault.Is(err, contract.CodeBudgetExceeded), "%v", err)

	for range 2 {
		require.NoError(t, b.SettleHold(t.Context(), settled.ID.Call, contract.Usage{PromptTokens: 10}))
	}
	n, err := b.GiveUpHolds(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Zero(t, n, "it may still be made")
	n, err = b.GiveUpHolds(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, b.SettleHold(t.Context(), lost.ID.Call, contract.Usage{PromptTokens: 1}), "too late")
	left, err := b.Budget(t.Context(), scope.Kind, scope.Key)
	require.NoError(t, err)
	require.Equal(t, []int64{60, 0}, []int64{left.SpentTokens, left.ReservedTokens})
}

func TestACompletedTurnTellsTheStatusOfItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	run, err := b.Run(t.Context(), execution.RunID)
	require.NoError(t, err)
	call, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	status, err := b.CompleteTurn(t.Context(), call.ID, used(10), time.Second, []byte(`{}`), nil)
	require.NoError(t, err)
	require.Equal(t, run.Status, status)
	status, err = b.CompleteTurn(t.Context(), call.ID, used(10), time.Second, []byte(`{}`), nil)
	require.NoError(t, err, "a repeat is accepted")
	require.Empty(t, status, "it takes the slow path, which does not read it")
	b.requireBudget(t, 10, 0)
}

func TestOfManyThatReserveACallAtOnceEachHoldsItsOwnReservation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	tries := make([]int, 8)
	var g errgroup.Group
	for i := range tries {
		g.Go(func() error {
			r := reservation(execution, 1)
			r.Scopes = append(r.Scopes, store.DayScope(time.Now(), 0, 0)) // no such budget exists yet
			call, err := b.ReserveCall(t.Context(), r)
			tries[i] = call.ID.Try
			return err
		})
	}
	require.NoError(t, g.Wait())
	slices.Sort(tries)
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, tries)
	b.requireBudget(t, 0, 800)
}
