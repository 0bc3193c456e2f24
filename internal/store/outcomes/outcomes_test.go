package outcomes_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/route"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/outcomes"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// past is an earlier run of a project.
type past struct {
	project, status, language, model string
	complexity                       float64
	healed                           string // phase and class of a failure, "" for none
}

// live writes a run that is over as the statements of workflows leave it behind.
func live(t *testing.T, f *storetest.Fixture, p past) {
	t.Helper()
	run := f.Create(t, store.NewRun{Project: p.project})
	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		exec := func(sql string, args ...any) {
			_, err := conn.Exec(ctx, sql, args...)
			require.NoError(t, err)
		}
		exec(`UPDATE orchestrator_runs SET status = $2, planner_output = jsonb_build_object('complexity_score', $3::float8) WHERE id = $1`, run.ID, p.status, p.complexity)
		var execution int64
		require.NoError(t, conn.QueryRow(ctx, `INSERT INTO orchestrator_executions (run_id, phase, step, agent, attempt, started_at)
			VALUES ($1, 'builder', 'step-001', 'builder', 1, now()) RETURNING id`, run.ID).Scan(&execution))
		for turn := range 3 { // a conversation counts once
			exec(`INSERT INTO orchestrator_model_calls (run_id, execution_id, turn, phase, agent, provider, model, status)
				VALUES ($1, $2, $3, 'builder', 'builder', 'p', $4, 'done')`, run.ID, execution, turn+1, p.model)
		}
		exec(`INSERT INTO orchestrator_checks (execution_id, check_id, category, ok, result, summary, started_at, finished_at)
			VALUES ($1, $2, 'test', true, '{}', '{}', now(), now())`, execution, "test-"+p.language+"-1")
		if p.healed != "" {
			exec(`INSERT INTO orchestrator_self_heal_events (run_id, phase, error_type, heal_action, number) VALUES ($1, 'tester', $2, 'repair', 1)`, run.ID, p.healed)
		}
	})
}

func TestOutcomesAreThoseOfTheSameProjectLanguageAndComplexity(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	for _, p := range []past{
		{"shop", "done", "go", "good", 0.5, ""},
		{"shop", "done", "go", "good", 0.4, ""},
		{"shop", "done", "go", "good", 0.4, "ASSERTION_ERROR"},
		{"shop", "failed", "go", "bad", 0.4, "LLM_ERROR"},
		{"shop", "failed", "go", "unlucky", 0.4, "INFRA_ERROR"}, // no model could have done better
		{"shop", "cancelled", "go", "good", 0.4, ""},
		{"shop", "done", "python", "good", 0.4, ""},
		{"shop", "done", "go", "good", 0.9, ""},
		{"bank", "done", "go", "good", 0.4, ""},
	} {
		live(t, f, p)
	}
	now := f.Create(t, store.NewRun{Project: "shop"})
	count := func(agent contract.Agent) map[contract.ModelChoice]route.Outcomes {
		got, err := outcomes.Of(t.Context(), f.Store, now.ID, agent)
		require.NoError(t, err)
		return got
	}
	choice := func(model string) contract.ModelChoice { return contract.ModelChoice{Provider: "p", Model: model} }
	require.Equal(t, route.Outcomes{Good: 4, Bad: 1}, count(contract.AgentBuilder)[choice("good")], "neither language nor complexity is known yet")

	storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
		for _, sql := range []string{
			`INSERT INTO orchestrator_baselines (key, repo, base_commit, tree, stages) VALUES ('b', 'r', 'c', 't', '[[{"id": "build-go-1", "category": "build"}], [{"id": "test-go-1", "category": "test"}]]')`,
			`UPDATE orchestrator_runs SET baseline = 'b', planner_output = '{"complexity_score": 0.6}' WHERE project = 'shop' AND status = 'pending'`,
		} {
			_, err := conn.Exec(ctx, sql)
			require.NoError(t, err)
		}
	})
	require.Equal(t, map[contract.ModelChoice]route.Outcomes{
		choice("good"): {Good: 2, Bad: 1}, choice("bad"): {Bad: 1}, choice("unlucky"): {},
	}, count(contract.AgentBuilder))
	require.Empty(t, count(contract.AgentPlanner))
}

func TestWhatStepsTookIsReadFromReleasedRunsOfTheSameProject(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	step := func(project, status, model, complexity string, micro int64, seconds int) {
		t.Helper()
		run := f.Create(t, store.NewRun{Project: project})
		storetest.Query(t, f.URL, func(ctx context.Context, conn *pgx.Conn) {
			_, err := conn.Exec(ctx, `WITH p AS (INSERT INTO orchestrator_plans (run_id, plan) VALUES ($1, jsonb_build_object('steps', jsonb_build_array(jsonb_build_object('id', 'step-001', 'estimated_complexity', $3::text)))) RETURNING id),
				e AS (INSERT INTO orchestrator_executions (run_id, phase, step, agent, attempt, status, provider, model, prompt_tokens, completion_tokens, cost_micros, started_at, finished_at)
					VALUES ($1, 'builder', 'step-001', 'builder', 1, 'completed', 'p', $4, 1000, 10, $5, now(), now() + make_interval(secs => $6)),
					       ($1, 'builder', 'step-001', 'builder', 2, 'failed', 'p', $4, 1, 1, 1, now(), now()),
					       ($1, 'tester', '', 'tester', 1, 'completed', '', '', 0, 0, 0, now(), now() + make_interval(secs => $6)))
				UPDATE orchestrator_runs SET status = $2, plan_id = p.id FROM p WHERE orchestrator_runs.id = $1`, run.ID, status, complexity, model, micro, seconds)
			require.NoError(t, err)
		})
	}
	step("shop", "done", "small", "low", 100, 10)
	step("shop", "done", "small", "low", 300, 30)
	step("shop", "done", "small", "low", 200, 20)
	step("shop", "done", "small", "high", 9000, 90)
	step("shop", "done", "big", "low", 5000, 5)
	step("shop", "failed", "small", "low", 1, 1)
	step("bank", "done", "small", "low", 1, 1)
	now := f.Create(t, store.NewRun{Project: "shop"})
	work, tests, err := outcomes.Took(t.Context(), f.Store, now.ID, contract.ModelChoice{Provider: "p", Model: "small"})
	require.NoError(t, err)
	require.Equal(t, outcomes.Tests{Runs: 5, Seconds: 20}, tests)
	found := map[string][3]float64{}
	for _, w := range work {
		key := string(w.Complexity)
		if w.Same {
			key += " same"
		}
		found[key] = [3]float64{float64(w.Steps), w.MicroUSD, w.Seconds}
		require.InDelta(t, 1000, w.PromptTokens, 0.1)
	}
	require.Equal(t, map[string][3]float64{
		"low same": {3, 200, 20}, "high same": {1, 9000, 90}, " same": {4, 250, 25},
		"low": {4, 250, 15}, "high": {1, 9000, 90}, "": {5, 300, 20},
	}, found)
}
