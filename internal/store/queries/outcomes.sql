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
