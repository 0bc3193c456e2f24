-- name: RunSettings :one
-- The frozen settings of a run, also of one that only carries a pipeline.
SELECT settings FROM orchestrator_runs WHERE id = @id;

-- name: ModelOutcomes :many
-- Counts, for each model that an agent used in the newest runs of the same project, language and
-- complexity, the runs that needed no heal of the agent's work, and those that did.
WITH this AS (
    SELECT r.id, r.tenant, r.project, width_bucket((r.planner_output ->> 'complexity_score')::float8, 0, 1, 3) AS level,
           ARRAY(SELECT DISTINCT split_part(c ->> 'id', '-', 2)
                 FROM orchestrator_baselines b, jsonb_array_elements(b.stages) AS s, jsonb_array_elements(s) AS c
                 WHERE b.key = r.baseline AND c ->> 'category' = 'test') AS languages
    FROM orchestrator_runs r WHERE r.id = @run_id
),
earlier AS (
    SELECT run.id, run.status
    FROM this, LATERAL (
        SELECT r.id, r.status
        FROM orchestrator_runs r
        WHERE r.project = this.project AND r.tenant = this.tenant AND r.id < this.id AND r.kind = 'run' AND r.status IN ('done', 'failed')
          AND (this.level IS NULL OR this.level = width_bucket((r.planner_output ->> 'complexity_score')::float8, 0, 1, 3))
          AND (cardinality(this.languages) = 0 OR EXISTS (
                SELECT FROM orchestrator_executions e JOIN orchestrator_checks c ON c.execution_id = e.id
                WHERE e.run_id = r.id AND c.category = 'test' AND split_part(c.check_id, '-', 2) = ANY (this.languages)))
        ORDER BY r.created_at DESC, r.id DESC
        LIMIT @most::int
    ) run
),
used AS (
    SELECT DISTINCT m.run_id, m.provider, m.model
    FROM earlier JOIN orchestrator_model_calls m ON m.run_id = earlier.id
    WHERE m.agent = @agent AND m.status = 'done'
),
judged AS (
    SELECT used.provider, used.model, earlier.status,
           EXISTS (SELECT FROM orchestrator_self_heal_events h
                   WHERE h.run_id = used.run_id AND h.phase = ANY (@phases::text[]) AND h.error_type = ANY (@errors::text[])) AS healed
    FROM used JOIN earlier ON earlier.id = used.run_id
)
SELECT provider, model, count(*) FILTER (WHERE status = 'done' AND NOT healed)::bigint AS good, count(*) FILTER (WHERE healed)::bigint AS bad
FROM judged GROUP BY provider, model ORDER BY provider, model;

-- name: EarlierSteps :many
-- What steps of the newest released runs of the same project took: medians by estimated complexity
-- and by whether a model carried them out, and over all of them. An empty complexity or a model that
-- is null stands for all.
WITH this AS (SELECT r.tenant, r.project FROM orchestrator_runs r WHERE r.id = @run_id),
earlier AS (
    SELECT run.id, run.plan_id
    FROM this, LATERAL (
        SELECT r.id, r.plan_id
        FROM orchestrator_runs r
        WHERE r.project = this.project AND r.tenant = this.tenant AND r.id < @run_id AND r.kind = 'run' AND r.status = 'done'
        ORDER BY r.created_at DESC, r.id DESC
        LIMIT @most::int
    ) run
),
steps AS (
    SELECT coalesce((SELECT s ->> 'estimated_complexity' FROM jsonb_array_elements(p.plan -> 'steps') AS s WHERE s ->> 'id' = e.step LIMIT 1), '') AS complexity,
           e.provider = @provider AND e.model = @model AS same, e.cost_micros, e.prompt_tokens, e.completion_tokens,
           extract(epoch FROM e.finished_at - e.started_at)::float8 AS seconds
    FROM earlier JOIN orchestrator_executions e ON e.run_id = earlier.id LEFT JOIN orchestrator_plans p ON p.id = earlier.plan_id
    WHERE e.phase = 'builder' AND e.agent = 'builder' AND e.step <> '' AND e.status = 'completed' AND e.finished_at IS NOT NULL
      AND e.prompt_tokens + e.completion_tokens > 0 -- none that the edits of its plan completed
)
SELECT coalesce(complexity, '')::text AS complexity, coalesce(same, false)::bool AS same, count(*)::int AS steps,
       (percentile_cont(0.5) WITHIN GROUP (ORDER BY cost_micros))::float8 AS micro_usd,
       (percentile_cont(0.5) WITHIN GROUP (ORDER BY prompt_tokens))::float8 AS prompt_tokens,
       (percentile_cont(0.5) WITHIN GROUP (ORDER BY completion_tokens))::float8 AS completion_tokens,
       (percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds))::float8 AS seconds
FROM steps
GROUP BY GROUPING SETS ((complexity, same), (complexity), (same), ())
HAVING count(*) > 0 AND (GROUPING(same) = 1 OR bool_and(same)) AND (GROUPING(complexity) = 1 OR max(complexity) <> '')
ORDER BY 1, 2;

-- name: EarlierTests :one
-- What the verification of the newest released runs of the same repository took: the number of
-- executions of the tester that passed, and their median.
SELECT count(*)::int AS tests, coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY took.seconds), 0)::float8 AS seconds
FROM orchestrator_runs this, LATERAL (
    SELECT extract(epoch FROM e.finished_at - e.started_at)::float8 AS seconds
    FROM orchestrator_runs r JOIN orchestrator_executions e ON e.run_id = r.id
    WHERE r.project = this.project AND r.tenant = this.tenant AND r.repo = this.repo AND r.id < this.id AND r.kind = 'run' AND r.status = 'done'
      AND e.phase = 'tester' AND e.step = '' AND e.status = 'completed' AND e.finished_at IS NOT NULL
    ORDER BY r.created_at DESC, r.id DESC
    LIMIT @most::int
) took
WHERE this.id = @run_id;
