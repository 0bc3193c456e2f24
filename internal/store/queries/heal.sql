-- name: OpenInterventions :many
-- Questions that wait for a person, oldest first.
SELECT sqlc.embed(i), coalesce((SELECT e.payload ->> 'kind' FROM orchestrator_events e
    WHERE e.run_id = i.run_id AND e.event_type IN ('intervention.requested', 'intervention.resolved', 'intervention.expired')
      AND e.payload ->> 'intervention_id' = 'run-' || i.run_id || '/intervention/' || i.number AND e.payload ? 'kind'
    ORDER BY abs(extract(epoch FROM e.created_at - i.created_at)) LIMIT 1), '')::text AS kind
FROM orchestrator_manual_interventions i
WHERE i.status = 'open' ORDER BY i.id LIMIT @most;

-- name: AddReplay :one
-- Runs under the lock of the run. No row: the run's workflow is no longer the given
-- one, or is active, or another caller is about to replay the run. An order that was
-- not taken for a minute belongs to a replay that never started.
WITH stale AS (
    DELETE FROM orchestrator_replays o
    WHERE o.run_id = @run_id AND o.execution_id IS NULL AND o.created_at < clock_timestamp() - interval '1 minute'
)
INSERT INTO orchestrator_replays (run_id, phase, replay_order, created_at, request, from_workflow_run)
SELECT r.id, @phase, @replay_order, clock_timestamp(), sqlc.narg(request), @workflow_run_id::text
FROM orchestrator_runs r
WHERE r.id = @run_id AND r.status IN ('done', 'failed', 'cancelled') AND r.workflow_run_id IN ('', @workflow_run_id::text)
  AND r.files_deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM orchestrator_replays o
                  WHERE o.run_id = r.id AND o.execution_id IS NULL AND o.created_at >= clock_timestamp() - interval '1 minute')
RETURNING id;

-- name: ReplayByRequest :one
SELECT id, phase, replay_order, from_workflow_run FROM orchestrator_replays WHERE run_id = @run_id AND request = @request::text;

-- name: DropReplay :exec
-- Deletes a replay that never started.
DELETE FROM orchestrator_replays WHERE id = @id AND execution_id IS NULL;

-- name: TakeReplay :one
-- The order that started an execution: the one that waited for its phase, used once.
-- The execution gets the model of the order, if the order names one.
WITH taken AS (
    UPDATE orchestrator_replays r
    SET execution_id = @execution_id::bigint
    WHERE r.id = (SELECT o.id FROM orchestrator_replays o
                  WHERE o.run_id = @run_id AND o.phase = @phase
                    AND (o.execution_id IS NULL OR o.execution_id = @execution_id::bigint)
                  ORDER BY o.id DESC LIMIT 1)
    RETURNING r.replay_order
), shown AS (
    UPDATE orchestrator_executions e
    SET provider = t.replay_order #>> '{model,provider}', model = t.replay_order #>> '{model,model}'
    FROM taken t
    WHERE e.id = @execution_id::bigint AND t.replay_order #>> '{model,model}' IS NOT NULL
)
SELECT t.replay_order FROM taken t;

-- name: RunTimeFrom :one
-- The last time that a run was started again, or its creation if it never was.
SELECT coalesce((SELECT max(o.created_at) FROM orchestrator_replays o WHERE o.run_id = r.id), r.created_at)::timestamptz AS at
FROM orchestrator_runs r WHERE r.id = @run_id;
