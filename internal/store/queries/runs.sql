-- name: CreateRun :one
-- Inserts a run with its first event and, if one is given, its plan. No row:
-- the tenant has used the idempotency key before, or the files of the run from which
-- it continues were deleted. The lock lets a clean-up that is about to delete them
-- either finish first or see the new run.
WITH original AS (
    SELECT r.id FROM orchestrator_runs r WHERE r.id = sqlc.narg(fork_of)::bigint AND r.files_deleted_at IS NULL FOR SHARE
), created AS (
    INSERT INTO orchestrator_runs (tenant, project, goal_title, goal_description, repo, base_commit, base_branch,
                                   max_retries, settings, spec, idempotency_key, request_digest, event_seq, plan_id, labels)
    SELECT @tenant, @project, @goal_title, @goal_description, @repo, @base_commit, @base_branch,
           @max_retries, @settings, sqlc.narg(spec), sqlc.narg(idempotency_key), @request_digest, 1,
           CASE WHEN sqlc.narg(plan)::jsonb IS NOT NULL THEN nextval('orchestrator_plans_id_seq') END, @labels::text[]
    WHERE sqlc.narg(fork_of)::bigint IS NULL OR EXISTS (SELECT FROM original)
    ON CONFLICT (tenant, idempotency_key) DO NOTHING
    RETURNING id, plan_id
), event AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT c.id, 1, @event_type::text, @payload::jsonb FROM created c
), given AS (
    INSERT INTO orchestrator_plans (id, run_id, author, plan)
    SELECT c.plan_id, c.id, @plan_author::text, sqlc.narg(plan) FROM created c WHERE c.plan_id IS NOT NULL
)
SELECT c.id, pg_notify('rgpt_events', c.id || ':1')::text AS notified FROM created c;

-- name: RunByKey :one
SELECT id, request_digest FROM orchestrator_runs WHERE tenant = @tenant AND idempotency_key = @idempotency_key::text;

-- name: MarkStarted :execrows
-- Sets the workflow of a run. Records know better which workflow run counts, so one
-- that they have named stays.
UPDATE orchestrator_runs
SET workflow_id = @workflow_id,
    workflow_run_id = CASE WHEN workflow_run_id = '' THEN @workflow_run_id ELSE workflow_run_id END,
    workflow_started_at = coalesce(workflow_started_at, clock_timestamp()), updated_at = clock_timestamp(),
    waiting_for = CASE WHEN queued_at IS NULL THEN waiting_for ELSE '' END, queued_at = NULL
WHERE id = @run_id;

-- name: LockQueue :exec
-- Serializes transactions that count the active runs and admit another one.
SELECT pg_advisory_xact_lock(hashtextextended('rgpt queue of runs', 0));

-- name: QueueRun :execrows
-- Queues a run if the limit of active runs is reached, or others are waiting.
UPDATE orchestrator_runs r
SET queued_at = coalesce(r.queued_at, clock_timestamp()), waiting_for = sqlc.arg(waiting_for), updated_at = clock_timestamp()
WHERE r.id = sqlc.arg(run_id) AND r.workflow_started_at IS NULL AND r.status = 'pending'
  AND ((SELECT count(*) FROM orchestrator_runs q WHERE q.queued_at IS NOT NULL) > 0
       OR (SELECT count(*) FROM orchestrator_runs b
           WHERE b.status NOT IN ('done', 'failed', 'cancelled') AND b.status NOT IN ('paused', 'waiting_for_approval', 'waiting_for_input')
             AND b.waiting_for NOT IN ('choice', 'change_set')
             AND b.kind = 'run' AND b.queued_at IS NULL AND b.id <> sqlc.arg(run_id)) >= sqlc.arg(most)::int);

-- name: AnyQueued :one
SELECT (count(*) > 0)::bool FROM (SELECT 1 FROM orchestrator_runs WHERE queued_at IS NOT NULL LIMIT 1) q;

-- name: UnqueueRuns :many
-- Admits as many runs as the limit allows, the longest waiting first.
UPDATE orchestrator_runs
SET queued_at = NULL, waiting_for = '', updated_at = clock_timestamp()
WHERE id = ANY(ARRAY(
    SELECT p.id FROM (
        SELECT q.id, row_number() OVER (ORDER BY q.queued_at, q.id) AS place FROM orchestrator_runs q WHERE q.queued_at IS NOT NULL
    ) p
    WHERE p.place + (
        SELECT count(*) FROM orchestrator_runs b
        WHERE b.status NOT IN ('done', 'failed', 'cancelled') AND b.status NOT IN ('paused', 'waiting_for_approval', 'waiting_for_input')
          AND b.waiting_for NOT IN ('choice', 'change_set')
          AND b.kind = 'run' AND b.queued_at IS NULL) <= sqlc.arg(most)::int))
RETURNING id;

-- name: PendingUnstarted :many
SELECT id FROM orchestrator_runs
WHERE workflow_started_at IS NULL AND status = 'pending' AND kind = 'run' AND queued_at IS NULL
  AND created_at <= clock_timestamp() - make_interval(secs => @older_than_seconds::float8)
ORDER BY created_at
LIMIT @most::int;

-- name: RunStatus :one
SELECT status FROM orchestrator_runs WHERE id = @id;

-- name: ProjectOf :one
SELECT tenant, project FROM orchestrator_runs WHERE id = @id;

-- name: PendingInputSince :one
-- The status of a paused run says so; orchestrator_events_commands has the other commands. The messages are those of
-- PendingMessages.
SELECT (r.status = 'paused' OR EXISTS (
    SELECT FROM orchestrator_events e
    WHERE e.run_id = r.id AND e.event_type IN ('run.updated', 'model.switched') AND e.created_at > @since
))::boolean AS steered, EXISTS (
    SELECT FROM orchestrator_events e
    WHERE e.run_id = r.id AND e.event_type = 'message.added' AND coalesce(e.payload ->> 'step', '') IN ('', @step::text)
      AND NOT EXISTS (
        SELECT FROM orchestrator_message_deliveries d
        WHERE d.run_id = e.run_id AND d.seq = e.seq AND d.execution_id = @execution_id::bigint)
)::boolean AS messages
FROM orchestrator_runs r WHERE r.id = @id;

-- name: GetRun :one
SELECT id, tenant, project, goal_title, goal_description, repo, base_commit, base_branch, phase, status,
       retry_count, max_retries, last_heal_action, quality_score, waiting_for,
       error_class, error_code, error_message, error_cause, release_branch, release_commit, plan_id,
       settings, spec, workflow_id, workflow_run_id, event_seq, created_at, updated_at, started_at, finished_at, staying_until,
       environment, baseline, setup_id, files_deleted_at, labels
FROM orchestrator_runs WHERE id = @id AND kind = 'run';

-- name: RunOutputs :one
SELECT planner_output, builder_output, tester_output, releaser_output FROM orchestrator_runs WHERE id = @id AND kind = 'run';

-- name: ListRuns :many
-- Newest first. Planned for each call, so that unused filters are dropped and the
-- others use their index.
SELECT id, tenant, project, goal_title, goal_description, repo, base_commit, base_branch, phase, status,
       retry_count, max_retries, last_heal_action, quality_score, waiting_for,
       error_class, error_code, error_message, error_cause, release_branch, release_commit, plan_id,
       settings, NULL::jsonb AS spec, workflow_id, workflow_run_id, event_seq, created_at, updated_at, started_at, finished_at, staying_until,
       environment, baseline, setup_id, files_deleted_at, labels
FROM orchestrator_runs
WHERE kind = 'run'
  AND (sqlc.narg(tenant)::text IS NULL OR tenant = sqlc.narg(tenant))
  AND (sqlc.narg(project)::text IS NULL OR project = sqlc.narg(project))
  AND (sqlc.narg(phase)::text IS NULL OR phase = sqlc.narg(phase))
  AND (sqlc.narg(statuses)::text[] IS NULL OR status = ANY (sqlc.narg(statuses)::text[]))
  AND (sqlc.narg(labels)::text[] IS NULL OR labels @> sqlc.narg(labels)::text[])
  AND (sqlc.narg(error_class)::text IS NULL OR error_class = sqlc.narg(error_class))
  AND (sqlc.narg(text)::text IS NULL OR strpos(lower(goal_title || ' ' || goal_description), lower(sqlc.narg(text))) > 0)
  AND (sqlc.narg(since)::timestamptz IS NULL OR created_at >= sqlc.narg(since))
  AND (sqlc.narg(until)::timestamptz IS NULL OR created_at < sqlc.narg(until))
  AND (sqlc.narg(before_at)::timestamptz IS NULL OR (created_at, id) < (sqlc.narg(before_at), @before_id::bigint))
ORDER BY created_at DESC, id DESC
LIMIT @most::int;

-- name: QuietRuns :many
-- Runs that have a workflow, have not ended or stay with their branch, and have
-- written no records for a while, by id. Two indexes, so two halves.
SELECT id FROM orchestrator_runs
WHERE kind = 'run' AND workflow_id <> '' AND id > @after::bigint AND status NOT IN ('done', 'failed', 'cancelled')
  AND updated_at <= clock_timestamp() - make_interval(secs => @quiet_seconds::float8)
UNION
SELECT id FROM orchestrator_runs
WHERE kind = 'run' AND workflow_id <> '' AND id > @after::bigint AND staying_until IS NOT NULL
  AND updated_at <= clock_timestamp() - make_interval(secs => @quiet_seconds::float8)
ORDER BY id
LIMIT @most::int;

-- name: SelfHealEvents :many
SELECT * FROM orchestrator_self_heal_events WHERE run_id = @run_id ORDER BY id;

-- name: ManualInterventions :many
-- The event of each intervention contains its kind.
SELECT sqlc.embed(i), coalesce((SELECT e.payload ->> 'kind' FROM orchestrator_events e
    WHERE e.run_id = i.run_id AND e.event_type IN ('intervention.requested', 'intervention.resolved', 'intervention.expired')
      AND e.payload ->> 'intervention_id' = 'run-' || i.run_id || '/intervention/' || i.number AND e.payload ? 'kind'
    ORDER BY abs(extract(epoch FROM e.created_at - i.created_at)) LIMIT 1), '')::text AS kind
FROM orchestrator_manual_interventions i
WHERE i.run_id = @run_id ORDER BY i.id;

-- name: Approvals :many
SELECT * FROM orchestrator_approvals WHERE run_id = @run_id ORDER BY created_at, id;

-- name: Phases :many
SELECT * FROM orchestrator_phases WHERE run_id = @run_id ORDER BY started_at, execution_id;

-- name: Executions :many
SELECT * FROM orchestrator_executions WHERE run_id = @run_id ORDER BY id;

-- name: SavePlan :one
-- If an execution already has a plan, returns the existing row unchanged.
INSERT INTO orchestrator_plans (run_id, execution_id, author, plan)
VALUES (@run_id, sqlc.narg(execution_id), @author, @plan)
ON CONFLICT (execution_id) DO UPDATE SET execution_id = excluded.execution_id
RETURNING id;

-- name: PlanThatCounts :one
SELECT p.plan FROM orchestrator_runs r JOIN orchestrator_plans p ON p.id = r.plan_id WHERE r.id = @run_id;

-- name: TakeEdits :execrows
UPDATE orchestrator_plans SET edits_taken_by = @execution_id::bigint
WHERE run_id = @run_id AND id = @id AND coalesce(edits_taken_by, @execution_id) = @execution_id;

-- name: PlanByID :one
SELECT plan FROM orchestrator_plans WHERE run_id = @run_id AND id = @id;

-- name: ChangeLabel :one
-- Adds or removes a label of a run, with its event. Changed is false if the run already has it, or does not
-- have it; full, if the run has as many labels as allowed.
WITH known AS (
    SELECT r.id, coalesce(array_position(r.labels, @label::text), 0) > 0 AS has, cardinality(r.labels) >= @most::int AS full_,
           ARRAY(SELECT l.label FROM unnest(r.labels || @label) AS l (label) ORDER BY l.label COLLATE "C") AS more,
           array_remove(r.labels, @label) AS less
    FROM orchestrator_runs r WHERE r.id = @run_id AND r.kind = 'run' FOR UPDATE
), changed AS (
    UPDATE orchestrator_runs r
    SET labels = CASE WHEN @added::bool THEN k.more ELSE k.less END, event_seq = r.event_seq + 1, updated_at = clock_timestamp()
    FROM known k
    WHERE r.id = k.id AND k.has <> @added AND NOT (@added AND k.full_)
    RETURNING r.id, r.event_seq
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT c.id, c.event_seq, @event_type::text, @payload::jsonb FROM changed c
)
SELECT (c.id IS NOT NULL)::bool AS changed, (@added AND NOT k.has AND k.full_)::bool AS full_of_labels,
       (CASE WHEN c.id IS NULL THEN '' ELSE pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text END)::text AS notified
FROM known k LEFT JOIN changed c ON true;
