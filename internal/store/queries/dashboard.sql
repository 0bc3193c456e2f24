-- name: RunCards :many
-- What a list shows of runs beside their rows. The latest execution of a step counts.
SELECT r.id, coalesce(p.step_count, 0)::int AS steps,
       (SELECT count(*) FROM (
            SELECT DISTINCT ON (e.step) e.status FROM orchestrator_executions e
            WHERE e.run_id = r.id AND e.phase = 'builder' AND e.step <> '' AND e.step <> 'repair'
            ORDER BY e.step, e.attempt DESC) latest
        WHERE latest.status = 'completed')::int AS steps_done,
       t.passed, t.failed, t.skipped, t.flaky,
       (SELECT count(*) FROM orchestrator_self_heal_events h WHERE h.run_id = r.id)::int AS heals,
       coalesce(b.spent_tokens, 0)::bigint AS tokens, coalesce(b.spent_micros, 0)::bigint AS micros
FROM unnest(@ids::bigint[]) AS wanted(id)
JOIN orchestrator_runs r ON r.id = wanted.id
LEFT JOIN orchestrator_plans p ON p.id = r.plan_id
LEFT JOIN orchestrator_budgets b ON b.scope_kind = 'run' AND b.scope_key = r.id::text
CROSS JOIN LATERAL (
    SELECT coalesce(sum((c.summary ->> 'passed')::int), 0)::int AS passed, coalesce(sum((c.summary ->> 'failed')::int), 0)::int AS failed,
           coalesce(sum((c.summary ->> 'skipped')::int), 0)::int AS skipped, coalesce(sum((c.summary ->> 'flaky')::int), 0)::int AS flaky
    FROM orchestrator_checks c
    WHERE (coalesce((c.result #>> '{check,retest}')::int, 0) = 0 OR NOT c.ok) AND c.execution_id = (
        SELECT e.id FROM orchestrator_executions e
        WHERE e.run_id = r.id AND e.phase = 'tester' AND e.step = '' ORDER BY e.attempt DESC LIMIT 1)) t;

-- name: Questions :many
-- What runs ask people, the most pressing first. A run has one open question:
-- an approval, or an intervention.
SELECT r.id, r.project, r.goal_title, r.phase, r.waiting_for,
       coalesce(a.id, '')::text AS approval_id,
       coalesce(i.number, 0)::int AS intervention,
       coalesce(i.reason, '')::text AS reason, coalesce(i.action_required, '')::text AS action_required,
       a.deadline AS approve_by, i.deadline AS help_by,
       coalesce(i.created_at, a.created_at, r.updated_at)::timestamptz AS since
FROM orchestrator_runs r
LEFT JOIN LATERAL (
    SELECT * FROM orchestrator_approvals a WHERE a.run_id = r.id AND a.status = 'pending' ORDER BY a.created_at DESC LIMIT 1) a ON true
LEFT JOIN LATERAL (
    SELECT * FROM orchestrator_manual_interventions i WHERE i.run_id = r.id AND i.status = 'open' ORDER BY i.id DESC LIMIT 1) i ON a.id IS NULL
WHERE r.status = 'waiting_for_approval' AND (sqlc.narg(run_id)::bigint IS NULL OR r.id = sqlc.narg(run_id))
ORDER BY coalesce(i.deadline, a.deadline) NULLS LAST, r.id
LIMIT @most::int;

-- name: CountWaiting :one
SELECT count(*)::int FROM orchestrator_runs WHERE status = 'waiting_for_approval';

-- name: Projects :many
-- By steps through the index: there are few projects and many runs.
WITH RECURSIVE named AS (
    (SELECT project FROM orchestrator_runs ORDER BY project LIMIT 1)
    UNION ALL
    SELECT (SELECT r.project FROM orchestrator_runs r WHERE r.project > n.project ORDER BY r.project LIMIT 1)
    FROM named n WHERE n.project IS NOT NULL
)
SELECT project::text FROM named WHERE project IS NOT NULL LIMIT @most::int;

-- name: RunCounts :one
SELECT (SELECT count(*) FROM orchestrator_findings f WHERE f.run_id = @run_id AND NOT f.resolved)::int AS findings,
       (SELECT count(*) FROM orchestrator_artifacts a WHERE a.run_id = @run_id)::int AS artifacts;

-- name: ModelActivity :many
-- What was asked of each model since a moment.
SELECT provider, model, count(*)::int AS calls, count(*) FILTER (WHERE status = 'failed')::int AS failed,
       count(*) FILTER (WHERE status = 'reserved')::int AS under_way,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt_tokens, coalesce(sum(completion_tokens), 0)::bigint AS completion_tokens,
       coalesce(sum(cost_micros), 0)::bigint AS micros,
       coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE status = 'done'), 0)::bigint AS latency_ms,
       max(started_at)::timestamptz AS last_at,
       (array_agg(status ORDER BY started_at DESC))[1]::text AS last_status,
       coalesce((array_agg(error_class || ' ' || error_code ORDER BY started_at DESC) FILTER (WHERE status = 'failed'))[1], '')::text AS last_error
FROM orchestrator_model_calls
WHERE started_at >= @since::timestamptz
GROUP BY provider, model;
