-- name: CountWaitingPipelines :one
-- Pipelines that wait for a person.
SELECT count(*)::int FROM orchestrator_pipelines WHERE status = 'REPORT' AND waiting_for <> '';

-- name: ArtifactNamed :one
SELECT id, run_id, coalesce(execution_id, 0)::bigint AS execution_id, name, type, size, hash, created_at, left_out, deleted_at
FROM orchestrator_artifacts WHERE run_id = @run_id AND name = @name;
