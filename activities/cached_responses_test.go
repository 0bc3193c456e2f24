package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

const planHello = `
  - when: {agent: planner}
    reply: {json: {summary: s, complexity_score: 0.1, steps: [
      {id: a, name: a, description: a, dependencies: [], estimated_complexity: low, risk_level: low, verification_criteria: [], files: []}]}}
    usage: {prompt_tokens: 100, completion_tokens: 10}
`

// cold returns the model of the fixture with a temperature.
func cold(temperature float64) contract.ModelChoice {
	out := choice
	out.Temperature = &temperature
	return out
}

// nextRun makes the fixture's run another one of the same goal, whose settings are adapted.
func (h *fixture) nextRun(project string, adapt func(*contract.Settings)) {
	h.t.Helper()
	h.Config.Models.CacheIdentical = true
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(h.t, err)
	settings.Release.Branch = "rgpt/run-test"
	if adapt != nil {
		adapt(&settings)
	}
	h.run, _, err = h.Store.CreateRun(h.t.Context(), store.NewRun{
		Project: project, GoalTitle: "Say more", Settings: settings, Spec: spec, MaxRetries: 3,
		GivenPlan: &contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "Say it", Description: "d"}}},
	})
	require.NoError(h.t, err)
}

// end ends an execution, like a workflow with a record.
func (h *fixture) end(e contract.ExecutionRef, status contract.ExecutionStatus) {
	h.t.Helper()
	h.seq++
	_, err := h.Store.Record(h.t.Context(), store.Source{WorkflowID: "w", WorkflowRunID: "r"}, contract.Record{
		RunID: e.RunID, Seq: h.seq, End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: status},
	})
	require.NoError(h.t, err)
}

// planOnce plans the fixture's run once, in an execution that ends as given.
func (h *fixture) planOnce(model contract.ModelChoice, status contract.ExecutionStatus) contract.PlanResult {
	h.t.Helper()
	e := h.begin(contract.PhasePlanner, "")
	out, failure := do[contract.PlanResult](h, h.Plan, contract.PlanInput{Execution: e, Repo: h.repo, Model: model})
	require.Nil(h.t, failure)
	if status != contract.ExecutionRunning {
		h.end(e, status)
	}
	return out
}

// call returns the only model call of the fixture's run.
func (h *fixture) call() store.ModelCall {
	h.t.Helper()
	calls, err := h.Store.ModelCalls(h.t.Context(), h.run.ID)
	require.NoError(h.t, err)
	require.Len(h.t, calls, 1)
	return calls[0]
}

func TestASecondRunOfTheSameGoalCostsNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	h := newFixture(t, planHello+editHello)
	both := func() (contract.PlanResult, contract.ThinkResult) {
		h.nextRun("p", nil)
		plan := h.planOnce(cold(0), contract.ExecutionCompleted)
		e, _ := h.openStep()
		turn, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: cold(0)})
		require.Nil(t, failure)
		h.end(e, contract.ExecutionCompleted)
		return plan, turn
	}
	plan, turn := both()
	paid, err := h.Store.ModelCalls(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, 2, h.served())
	require.Equal(t, int64(220), plan.Usage.Add(turn.Usage).Tokens())

	again, turnAgain := both()
	require.Equal(t, 2, h.served(), "nothing was sent to the model")
	require.Equal(t, plan.Plan, again.Plan)
	require.Equal(t, turn.Calls, turnAgain.Calls)
	free := contract.Usage{Calls: 1, FromCache: 1}
	require.Equal(t, []contract.Usage{free, free}, []contract.Usage{again.Usage, turnAgain.Usage})
	calls, err := h.Store.ModelCalls(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	for i, c := range calls {
		require.Equal(t, &store.CachedResponse{RunID: paid[i].RunID, CallID: paid[i].ID}, c.CachedResponse)
		require.Equal(t, free, c.Usage)
		require.Nil(t, paid[i].CachedResponse)
	}
	usage, err := h.Store.Usage(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Equal(t, contract.Usage{Calls: 2, FromCache: 2}, usage)
	budget, err := h.Store.Budget(t.Context(), store.ScopeRun, store.RunScope(h.run.ID, contract.RunBudget{}).Key)
	require.NoError(t, err)
	require.Zero(t, budget.SpentTokens+budget.ReservedTokens)

	h.nextRun("p", nil)
	h.planOnce(cold(0), contract.ExecutionCompleted)
	require.Equal(t, &store.CachedResponse{RunID: paid[0].RunID, CallID: paid[0].ID}, h.call().CachedResponse, "always the call that a model answered")
}

func TestAnEarlierResponseThatItsReaderWouldRejectNowIsNotUsed(t *testing.T) {
	t.Parallel()
	h := newFixture(t, planHello)
	h.nextRun("p", nil)
	first := h.planOnce(cold(0), contract.ExecutionCompleted)
	storetest.Query(t, h.url, func(ctx context.Context, conn *pgx.Conn) {
		tag, err := conn.Exec(ctx, `UPDATE orchestrator_model_calls SET answer = '{"text": "{}", "finish_reason": "stop"}' WHERE run_id = $1`, h.run.ID)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	})
	h.nextRun("p", nil)
	require.Equal(t, first.Plan, h.planOnce(cold(0), contract.ExecutionCompleted).Plan)
	require.Equal(t, 2, h.served())
	require.Nil(t, h.call().CachedResponse)
}

func TestARequestGoesToTheModelUnlessAnEarlierResponseMayAnswerIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second contract.ModelChoice
		ended         contract.ExecutionStatus // of the first
		between       func(h *fixture)
	}{
		"another project":            {between: func(h *fixture) { h.nextRun("q", nil) }},
		"another repository":         {between: func(h *fixture) { h.nextRun("p", func(s *contract.Settings) { s.Repo.URL += "/" }) }},
		"not wanted":                 {between: func(h *fixture) { h.nextRun("p", func(s *contract.Settings) { s.Cache = nil }) }},
		"too old":                    {between: func(h *fixture) { h.nextRun("p", func(s *contract.Settings) { s.Cache.Retention = time.Nanosecond }) }},
		"a temperature above 0":      {first: cold(0.1), second: cold(0.1)},
		"the default temperature":    {first: choice, second: choice},
		"another effort":             {second: contract.ModelChoice{Provider: choice.Provider, Model: choice.Model, Temperature: cold(0).Temperature, Effort: contract.EffortLow}},
		"the first one failed":       {ended: contract.ExecutionFailed},
		"the first one is under way": {ended: contract.ExecutionRunning},
		"another output limit":       {between: func(h *fixture) { h.Config.Models.MaxOutputTokens++; h.nextRun("p", nil) }},
		"another address": {between: func(h *fixture) {
			p := h.Config.Models.Providers[setup.Scripted]
			p.Headers = map[string]string{"X-Region": "eu"}
			h.Config.Models.Providers[setup.Scripted] = p
			h.nextRun("p", nil)
		}},
		"a healed attempt": {between: func(h *fixture) {
			h.nextRun("p", nil)
			e := h.begin(contract.PhasePlanner, "")
			h.end(e, contract.ExecutionFailed)
		}},
		"too large": {between: func(h *fixture) { h.nextRun("p", nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, planHello)
			if name == "too large" {
				h.Config.Models.CacheMaxSize = 10
			}
			if c.first.Model == "" {
				c.first = cold(0)
			}
			if c.second.Model == "" {
				c.second = cold(0)
			}
			if c.ended == "" {
				c.ended = contract.ExecutionCompleted
			}
			h.nextRun("p", nil)
			h.planOnce(c.first, c.ended)
			if c.between == nil {
				h.nextRun("p", nil)
			} else {
				c.between(h)
			}
			h.planOnce(c.second, contract.ExecutionCompleted)
			require.Equal(t, 2, h.served())
			require.Nil(t, h.call().CachedResponse)
		})
	}
}

func TestAResponseThatItsReaderRejectsAnswersNoOtherRequest(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"a plan with a circle": `
  - when: {agent: planner}
    reply: {json: {summary: s, complexity_score: 0.1, steps: [{id: a, name: a, description: a, dependencies: [a], estimated_complexity: low, risk_level: low, verification_criteria: [], files: []}]}}
`,
		"not JSON": `
  - when: {agent: planner}
    reply: {text: "Roses are red"}
`,
		"cut off": `
  - when: {agent: planner}
    fault: {truncate: true}
    reply: {json: {summary: "a long plan that is cut", complexity_score: 0.1, steps: []}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t, rule)
			for range 2 {
				h.nextRun("p", nil)
				e := h.begin(contract.PhasePlanner, "")
				_, failure := do[contract.PlanResult](h, h.Plan, contract.PlanInput{Execution: e, Repo: h.repo, Model: cold(0)})
				require.NotNil(t, failure)
				h.end(e, contract.ExecutionCompleted) // whatever becomes of the phase
			}
			require.Equal(t, 2, h.served())
		})
	}
}

func TestATurnWithAToolThatTheAgentLacksAnswersNoOtherRequest(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "\n  - when: {agent: builder}\n    reply: {tool_calls: [{name: launch_rocket, arguments: {}}]}\n")
	for range 2 {
		h.nextRun("p", nil)
		e, _ := h.openStep()
		_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: cold(0)})
		require.Nil(t, failure)
		h.end(e, contract.ExecutionCompleted)
	}
	require.Equal(t, 2, h.served())
}

func TestAWorkerThatDiesBetweenTheLookupAndTheCompletionRepeatsNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, planHello)
	h.nextRun("p", nil)
	h.planOnce(cold(0), contract.ExecutionCompleted)
	h.nextRun("p", nil)
	e := h.begin(contract.PhasePlanner, "")
	scope := store.RunScope(h.run.ID, contract.RunBudget{})
	_, err := h.Store.ReserveCall(t.Context(), store.Reservation{
		Execution: e, Turn: 1, Provider: choice.Provider, Model: choice.Model, Prompt: 50, Output: 50, Scopes: []store.Scope{scope},
	})
	require.NoError(t, err, "the worker that dies has reserved the call")
	in := contract.PlanInput{Execution: e, Repo: h.repo, Model: cold(0)}
	first, failure := do[contract.PlanResult](h, h.Plan, in)
	require.Nil(t, failure)
	second, failure := do[contract.PlanResult](h, h.Plan, in)
	require.Nil(t, failure)
	require.Equal(t, first, second)
	require.Equal(t, 1, h.served())
	require.NotNil(t, h.call().CachedResponse)
	transcript, err := h.Store.Transcript(t.Context(), e.ID)
	require.NoError(t, err)
	require.Len(t, transcript, 3, "system, task, one answer")
	h.end(e, contract.ExecutionCompleted)
	budget, err := h.Store.Budget(t.Context(), scope.Kind, scope.Key)
	require.NoError(t, err)
	require.Zero(t, budget.ReservedTokens)
}

func TestAProjectKeepsItsNewestResponses(t *testing.T) {
	t.Parallel()
	h := newFixture(t, planHello)
	h.Config.Models.CacheEntries = 2
	for _, limit := range []int{1000, 2000, 3000, 3000, 1000} {
		h.Config.Models.MaxOutputTokens = limit
		h.nextRun("p", nil)
		h.planOnce(cold(0), contract.ExecutionCompleted)
	}
	require.Equal(t, 4, h.served(), "the second request with 3000 tokens was answered; the first response was forgotten")
	storetest.Query(t, h.url, func(ctx context.Context, conn *pgx.Conn) {
		var n int
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM orchestrator_cached_responses").Scan(&n))
		require.Equal(t, 2, n)
	})
}
