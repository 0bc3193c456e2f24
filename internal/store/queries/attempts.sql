-- name: CreateAttemptGroup :one
INSERT INTO orchestrator_attempt_groups (tenant, project, settings, estimate)
VALUES (@tenant, @project, @settings, sqlc.narg(estimate)) RETURNING id;

-- name: AddAttempt :exec
INSERT INTO orchestrator_attempts (group_id, number, run_id) VALUES (@group_id, @number, @run_id);

-- name: GetAttemptGroup :one
SELECT * FROM orchestrator_attempt_groups WHERE id = @id;

-- name: AttemptsOfGroup :many
-- The attempts of a group with what their runs show. A run waits for the choice while its row says so,
-- or while it is paused after that.
SELECT a.number, a.run_id, a.held_at, a.workspace, a.files, a.lines, a.test_lines, a.major, a.medium,
       r.status, r.phase, r.waiting_for, r.error_class, r.error_code, r.error_message, r.settings, r.workflow_id, r.release_branch, r.goal_title,
       r.created_at, r.started_at, r.finished_at,
       coalesce(b.spent_tokens, 0)::bigint AS tokens, coalesce(b.spent_micros, 0)::bigint AS micro_usd,
       coalesce(b.price_estimated, false)::bool AS price_estimated
FROM orchestrator_attempts a JOIN orchestrator_runs r ON r.id = a.run_id
LEFT JOIN orchestrator_budgets b ON b.scope_kind = 'run' AND b.scope_key = r.id::text
WHERE a.group_id = @group_id ORDER BY a.number;

-- name: HoldAttempt :execrows
-- Stores what an attempt consists of when it waits for the choice. A later one, after a replay, replaces
-- it.
UPDATE orchestrator_attempts a
SET held_at = clock_timestamp(), workspace = @workspace::jsonb, files = @files, lines = @lines, test_lines = @test_lines,
    major = @major, medium = @medium
WHERE a.run_id = @run_id;

-- name: LockAttemptGroup :one
SELECT * FROM orchestrator_attempt_groups WHERE id = @id FOR UPDATE;

-- name: DecideAttempts :exec
UPDATE orchestrator_attempt_groups
SET decided_at = clock_timestamp(), winner = sqlc.narg(winner), rule = @rule, reason = @reason, judge_run = sqlc.narg(judge_run)
WHERE id = @id AND decided_at IS NULL;

-- name: TellEndedAttempts :exec
-- The attempts that do not wait for the choice need not learn of it: if a person resumes one of them
-- later, it is released. If none was chosen, this is true of all of them.
UPDATE orchestrator_attempts a
SET told_to = CASE WHEN r.workflow_run_id = '' AND r.status IN ('done', 'failed', 'cancelled') THEN 'ended' ELSE r.workflow_run_id END
FROM orchestrator_runs r
WHERE a.group_id = @group_id AND r.id = a.run_id
  AND (@everyone::boolean OR r.status IN ('done', 'failed', 'cancelled') OR r.waiting_for <> 'choice');

-- name: AttemptToldTo :one
SELECT told_to FROM orchestrator_attempts WHERE run_id = @run_id;

-- name: TellAttempt :exec
UPDATE orchestrator_attempts SET told_to = @told_to WHERE run_id = @run_id;

-- name: StopAttempts :execrows
UPDATE orchestrator_attempt_groups SET stopped_at = clock_timestamp(), stopped_by = @stopped_by
WHERE id = @id AND decided_at IS NULL AND stopped_at IS NULL;

-- name: EarlierRuns :one
-- What the newest released runs of a project cost and took, with the builder model if it is given: their
-- number and medians. The time of a run is that in which any of its executions was in progress, so waits
-- between phases do not count.
SELECT count(*)::int AS runs,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY used.cost_micros), 0)::float8 AS micro_usd,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY used.prompt_tokens), 0)::float8 AS prompt_tokens,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY used.completion_tokens), 0)::float8 AS completion_tokens,
       count(used.seconds)::int AS timed,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY used.seconds), 0)::float8 AS seconds
FROM (
    SELECT (SELECT coalesce(sum(c.cost_micros), 0) FROM orchestrator_model_calls c WHERE c.run_id = run.id)::float8 AS cost_micros,
           (SELECT coalesce(sum(c.prompt_tokens), 0) FROM orchestrator_model_calls c WHERE c.run_id = run.id)::float8 AS prompt_tokens,
           (SELECT coalesce(sum(c.completion_tokens), 0) FROM orchestrator_model_calls c WHERE c.run_id = run.id)::float8 AS completion_tokens,
           (SELECT extract(epoch FROM sum(upper(span) - lower(span)))::float8
            FROM (SELECT unnest(range_agg(tstzrange(e.started_at, greatest(e.started_at, e.finished_at)))) AS span
                  FROM orchestrator_executions e WHERE e.run_id = run.id AND e.finished_at IS NOT NULL) spans) AS seconds
    FROM (
        SELECT r.id FROM orchestrator_runs r
        WHERE r.tenant = @tenant AND r.project = @project AND r.kind = 'run' AND r.status = 'done' AND r.release_commit <> ''
          AND (@model::text = '' OR (r.settings -> 'models' -> 'builder' ->> 'provider' = @provider::text AND r.settings -> 'models' -> 'builder' ->> 'model' = @model::text))
        ORDER BY r.created_at DESC, r.id DESC
        LIMIT @most::int
    ) run
) used;
