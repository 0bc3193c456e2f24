-- name: CountWaitingPipelines :one
-- Pipelines that wait for a person.
SELECT count(*)::int FROM orchestrator_pipelines WHERE status = 'REPORT' AND waiting_for <> '';
