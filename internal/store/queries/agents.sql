-- name: Heartbeat :exec
INSERT INTO orchestrator_agents (name, type, version, health_status, cpu_usage, memory_usage, last_heartbeat)
VALUES (@name, @type, @version, @health_status, @cpu_usage, @memory_usage, clock_timestamp())
ON CONFLICT (name) DO UPDATE
SET type = excluded.type, version = excluded.version, health_status = excluded.health_status,
    cpu_usage = excluded.cpu_usage, memory_usage = excluded.memory_usage, last_heartbeat = excluded.last_heartbeat;

-- name: Agents :many
SELECT * FROM orchestrator_agents ORDER BY type, name;

-- name: SchemaVersion :one
-- A row for each change; the newest of each version counts.
SELECT coalesce(max(version_id), 0)::bigint FROM goose_db_version v
WHERE is_applied AND NOT EXISTS (
    SELECT FROM goose_db_version later WHERE later.version_id = v.version_id AND later.id > v.id AND NOT later.is_applied);

-- name: Ping :exec
SELECT 1;
