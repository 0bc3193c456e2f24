-- name: OpenInterventions :many
-- What waits for a person, oldest first.
SELECT sqlc.embed(i), coalesce((SELECT e.payload ->> 'kind' FROM orchestrator_events e
    WHERE e.run_id = i.run_id AND e.event_type IN ('intervention.requested', 'intervention.resolved', 'intervention.expired')
      AND e.payload ->> 'intervention_id' = 'run-' || i.run_id || '/intervention/' || i.number AND e.payload ? 'kind'
    ORDER BY abs(extract(epoch FROM e.created_at - i.created_at)) LIMIT 1), '')::text AS kind
FROM orchestrator_manual_interventions i
WHERE i.status = 'open' ORDER BY i.id LIMIT @most;

-- name: AddReplay :one
-- Runs under the lock of the run. No row: the run's workflow is not the given
-- one any more, or is at work, or somebody else is about to replay it. An order
-- that was not taken for a minute belongs to a replay that never came about.
WITH stale AS (
    DELETE FROM orchestrator_replays o
    WHERE o.run_id = @run_id AND o.execution_id IS NULL AND o.created_at < clock_timestamp() - interval '1 minute'
)
INSERT INTO orchestrator_replays (run_id, phase, replay_order, created_at, request, from_workflow_run)
SELECT r.id, @phase, @replay_order, clock_timestamp(), sqlc.narg(request), @workflow_run_id::text
FROM orchestrator_runs r
WHERE r.id = @run_id AND r.status IN ('done', 'failed', 'cancelled') AND r.workflow_run_id IN ('', @workflow_run_id::text)
  AND NOT EXISTS (SELECT FROM orchestrator_replays o
                  WHERE o.run_id = r.id AND o.execution_id IS NULL AND o.created_at >= clock_timestamp() - interval '1 minute')
RETURNING id;

-- name: ReplayByRequest :one
SELECT id, phase, replay_order, from_workflow_run FROM orchestrator_replays WHERE run_id = @run_id AND request = @request::text;

-- name: DropReplay :exec
-- Forgets a replay that never began.
DELETE FROM orchestrator_replays WHERE id = @id AND execution_id IS NULL;

-- name: TakeReplay :one
-- The order by which an execution began: that which waited for its phase, once.
-- The execution's model is that of the order, if it names one.
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
-- When a run was last told to do something again, or created if never.
SELECT coalesce((SELECT max(o.created_at) FROM orchestrator_replays o WHERE o.run_id = r.id), r.created_at)::timestamptz AS at
FROM orchestrator_runs r WHERE r.id = @run_id;
