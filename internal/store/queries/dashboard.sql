-- name: RunCards :many
-- Data that a list shows next to the rows of runs. For a step of the current plan,
-- the latest execution counts.
SELECT r.id, coalesce(p.step_count, 0)::int AS steps,
       (SELECT count(*) FROM (
            SELECT DISTINCT ON (e.step) e.step, e.status FROM orchestrator_executions e
            WHERE e.run_id = r.id AND e.phase = 'builder' AND e.step <> '' AND e.step <> 'repair'
            ORDER BY e.step, e.attempt DESC) latest
        JOIN jsonb_array_elements(CASE jsonb_typeof(p.plan -> 'steps') WHEN 'array' THEN p.plan -> 'steps' END) AS planned (step) ON planned.step ->> 'id' = latest.step
        WHERE latest.status = 'completed')::int AS steps_done,
       t.passed, t.failed, t.skipped, t.flaky, t.quarantined,
       (SELECT count(*) FROM orchestrator_self_heal_events h WHERE h.run_id = r.id)::int AS heals,
       coalesce(b.spent_tokens - unknown.tokens, 0)::bigint AS tokens, coalesce(b.spent_micros - unknown.micros, 0)::bigint AS micros,
       EXISTS (SELECT FROM orchestrator_model_calls c WHERE c.run_id = r.id AND c.price_estimated) AS price_estimated
FROM unnest(@ids::bigint[]) AS wanted(id)
JOIN orchestrator_runs r ON r.id = wanted.id AND r.kind = 'run'
LEFT JOIN orchestrator_plans p ON p.id = r.plan_id
LEFT JOIN orchestrator_budgets b ON b.scope_kind = 'run' AND b.scope_key = r.id::text
CROSS JOIN LATERAL (
    SELECT coalesce(sum((h ->> 'tokens')::bigint), 0) AS tokens, coalesce(sum((h ->> 'micros')::bigint), 0) AS micros
    FROM orchestrator_model_calls c, jsonb_array_elements(c.given_up) AS h
    WHERE c.run_id = r.id AND c.given_up <> '[]'
) unknown
CROSS JOIN LATERAL (
    SELECT coalesce(sum((c.summary ->> 'passed')::int), 0)::int AS passed, coalesce(sum((c.summary ->> 'failed')::int), 0)::int AS failed,
           coalesce(sum((c.summary ->> 'skipped')::int), 0)::int AS skipped, coalesce(sum((c.summary ->> 'flaky')::int), 0)::int AS flaky,
           coalesce(sum((c.summary ->> 'quarantined')::int), 0)::int AS quarantined
    FROM orchestrator_checks c
    WHERE (coalesce((c.result #>> '{check,retest}')::int, 0) = 0 OR NOT c.ok) AND c.execution_id = (
        SELECT e.id FROM orchestrator_executions e
        WHERE e.run_id = r.id AND e.phase = 'tester' AND e.step = '' ORDER BY e.attempt DESC LIMIT 1)) t;

-- name: Questions :many
-- Questions of runs to people, the most urgent first. A run has one open question:
-- an approval, or an intervention.
SELECT r.id, r.project, r.goal_title, r.phase, r.waiting_for,
       coalesce(a.id, '')::text AS approval_id,
       coalesce(i.number, 0)::int AS intervention,
       coalesce(i.reason, a.reason, '')::text AS reason, coalesce(i.action_required, '')::text AS action_required,
       a.deadline AS approve_by, i.deadline AS help_by,
       coalesce(i.created_at, a.created_at, r.updated_at)::timestamptz AS since
FROM orchestrator_runs r
LEFT JOIN LATERAL (
    SELECT * FROM orchestrator_approvals a WHERE a.run_id = r.id AND a.status = 'pending' ORDER BY a.created_at DESC LIMIT 1) a ON true
LEFT JOIN LATERAL (
    SELECT * FROM orchestrator_manual_interventions i WHERE i.run_id = r.id AND i.status = 'open' ORDER BY i.id DESC LIMIT 1) i ON a.id IS NULL
WHERE r.status IN ('waiting_for_approval', 'waiting_for_input') AND r.kind = 'run' AND (sqlc.narg(run_id)::bigint IS NULL OR r.id = sqlc.narg(run_id))
ORDER BY coalesce(i.deadline, a.deadline) NULLS LAST, r.id
LIMIT @most::int;

-- name: CountWaiting :one
SELECT count(*)::int FROM orchestrator_runs WHERE status IN ('waiting_for_approval', 'waiting_for_input') AND kind = 'run';

-- name: Projects :many
-- Skips through the index: there are few projects and many runs.
WITH RECURSIVE named AS (
    (SELECT project FROM orchestrator_runs WHERE kind = 'run' ORDER BY project LIMIT 1)
    UNION ALL
    SELECT (SELECT r.project FROM orchestrator_runs r WHERE r.kind = 'run' AND r.project > n.project ORDER BY r.project LIMIT 1)
    FROM named n WHERE n.project IS NOT NULL
)
SELECT project::text FROM named WHERE project IS NOT NULL LIMIT @most::int;

-- name: RunCounts :one
SELECT (SELECT count(*) FROM orchestrator_findings f WHERE f.run_id = @run_id AND NOT f.resolved)::int AS findings,
       (SELECT count(*) FROM orchestrator_artifacts a WHERE a.run_id = @run_id)::int AS artifacts;

-- name: ModelActivity :many
-- Calls of each model since a given time.
SELECT provider, model, count(*)::int AS calls, count(*) FILTER (WHERE status = 'failed')::int AS failed,
       count(*) FILTER (WHERE status = 'reserved')::int AS under_way,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt_tokens, coalesce(sum(completion_tokens), 0)::bigint AS completion_tokens,
       coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,
       coalesce(sum(cost_micros), 0)::bigint AS micros, coalesce(bool_or(price_estimated), false)::bool AS price_estimated,
       coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE status = 'done'), 0)::bigint AS latency_ms,
       max(started_at)::timestamptz AS last_at,
       (array_agg(status ORDER BY started_at DESC))[1]::text AS last_status,
       coalesce((array_agg(error_class || ' ' || error_code ORDER BY started_at DESC) FILTER (WHERE status = 'failed'))[1], '')::text AS last_error
FROM orchestrator_model_calls
WHERE started_at >= @since::timestamptz
GROUP BY provider, model;

-- name: CheckRows :many
-- The checks of an execution without their cases, which may be many.
SELECT execution_id, check_id, result, log_digest, started_at, finished_at
FROM orchestrator_checks WHERE execution_id = @execution_id ORDER BY started_at, check_id;

-- name: Cases :many
-- Test cases, failed and skipped ones first. Cases of a passed re-test were counted
-- before and are omitted, as everywhere. Materialized, so that each document is
-- unpacked once.
WITH cases AS MATERIALIZED (
    SELECT c.check_id, t.nr, t.doc, CASE t.doc ->> 'status' WHEN 'failed' THEN 0 WHEN 'quarantined' THEN 1 WHEN 'flaky' THEN 2 WHEN 'skipped' THEN 3 ELSE 4 END AS rank
    FROM orchestrator_checks c CROSS JOIN LATERAL jsonb_array_elements(c.cases) WITH ORDINALITY AS t(doc, nr)
    WHERE c.execution_id = @execution_id AND (coalesce((c.result #>> '{check,retest}')::int, 0) = 0 OR NOT c.ok)
      AND (@status::text = '' OR t.doc ->> 'status' = @status::text)
      AND (@text::text = '' OR position(lower(@text::text) IN lower(t.doc ->> 'test_case')) > 0)
)
SELECT check_id, doc::jsonb AS doc, (SELECT count(*) FROM cases)::int AS matching FROM cases
ORDER BY rank, check_id, nr LIMIT @most::int OFFSET @from_row::int;

-- name: CasesNamed :many
-- The outcomes of the test cases with these names in an execution.
SELECT c.check_id, (t.doc ->> 'test_case')::text AS name, (t.doc ->> 'status')::text AS status
FROM orchestrator_checks c CROSS JOIN LATERAL jsonb_array_elements(c.cases) AS t(doc)
WHERE c.execution_id = @execution_id AND (coalesce((c.result #>> '{check,retest}')::int, 0) = 0 OR NOT c.ok)
  AND t.doc ->> 'test_case' = ANY (@names::text[]);

-- name: ArtifactsOfExecution :many
SELECT id, run_id, coalesce(execution_id, 0)::bigint AS execution_id, name, type, size, hash, created_at, left_out, deleted_at
FROM orchestrator_artifacts WHERE execution_id = @execution_id AND run_id = @run_id ORDER BY id LIMIT @most::int;

-- name: Patches :many
SELECT id, run_id, coalesce(execution_id, 0)::bigint AS execution_id, name, type, size, hash, created_at, left_out, deleted_at
FROM orchestrator_artifacts WHERE run_id = @run_id AND type = 'patch' ORDER BY id;

-- name: Interventions :many
SELECT * FROM orchestrator_manual_interventions WHERE run_id = @run_id ORDER BY id;

-- name: FindingCounts :many
SELECT severity, category, check_id, resolved, (coalesce(status, '') = 'known')::boolean AS known, count(*)::int AS n FROM orchestrator_findings
WHERE run_id = @run_id GROUP BY severity, category, check_id, resolved, known ORDER BY check_id;

-- name: FindingsPage :many
-- Open ones first, the most severe of them first.
SELECT * FROM orchestrator_findings
WHERE run_id = @run_id AND (@severity::text = '' OR severity = @severity::text) AND (@category::text = '' OR category = @category::text)
  AND (@check_id::text = '' OR check_id = @check_id::text) AND (sqlc.narg(resolved)::boolean IS NULL OR resolved = sqlc.narg(resolved))
ORDER BY resolved, CASE severity WHEN 'major' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, id
LIMIT @most::int OFFSET @from_row::int;

-- name: NeighbourRun :one
-- The previous run of the same project; for the first run, the next one.
SELECT coalesce(
    (SELECT o.id FROM orchestrator_runs o WHERE o.kind = 'run' AND o.project = r.project AND (o.created_at, o.id) < (r.created_at, r.id) ORDER BY o.created_at DESC, o.id DESC LIMIT 1),
    (SELECT o.id FROM orchestrator_runs o WHERE o.kind = 'run' AND o.project = r.project AND (o.created_at, o.id) > (r.created_at, r.id) ORDER BY o.created_at, o.id LIMIT 1), 0)::bigint AS id
FROM orchestrator_runs r WHERE r.id = @id AND r.kind = 'run';
