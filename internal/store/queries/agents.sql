-- name: Heartbeats :exec
-- Stores the status that the agents of one worker report, with the database's clock.
INSERT INTO orchestrator_agents (name, type, version, health_status, cpu_usage, memory_usage, last_heartbeat,
                                 worker, detail, work, tasks_done, tasks_failed, started_at, beat_seconds, offline_after)
SELECT a.name, a.type, @version::text, a.health_status, @cpu_usage::float8, @memory_usage::bigint, clock_timestamp(),
       @worker::text, a.detail, a.work, a.tasks_done, a.tasks_failed, @started_at::timestamptz, @beat_seconds::float8, @offline_after::float8
FROM jsonb_to_recordset(@agents::jsonb) AS a (name text, type text, health_status text, detail text, work jsonb, tasks_done bigint, tasks_failed bigint)
ON CONFLICT (name) DO UPDATE
SET type = excluded.type, version = excluded.version, health_status = excluded.health_status, cpu_usage = excluded.cpu_usage,
    memory_usage = excluded.memory_usage, last_heartbeat = excluded.last_heartbeat, worker = excluded.worker, detail = excluded.detail,
    work = excluded.work, tasks_done = excluded.tasks_done, tasks_failed = excluded.tasks_failed, started_at = excluded.started_at,
    beat_seconds = excluded.beat_seconds, offline_after = excluded.offline_after;

-- name: Agents :many
-- Determines the health of agents at the time of the query, because a dead agent
-- cannot report it. The work of a silent agent is omitted: another agent may have it
-- by now. If there are more agents than are shown, each role gets its share, healthy
-- ones first.
WITH heard AS (
    SELECT name, type, version, health_status, cpu_usage, memory_usage, last_heartbeat, worker, detail, work, tasks_done, tasks_failed, started_at,
           offline_after, beat_seconds * @missed::float8 AS patience,
           coalesce(date_part('epoch', clock_timestamp() - last_heartbeat), 0) AS silent
    FROM orchestrator_agents
), judged AS (
    SELECT name, type, version, cpu_usage, memory_usage, last_heartbeat, worker, detail, work, tasks_done, tasks_failed, started_at, silent, CASE
        WHEN health_status = 'offline' OR last_heartbeat IS NULL THEN health_status
        WHEN silent > greatest(offline_after, patience) THEN 'offline'
        WHEN silent > patience THEN 'unhealthy'
        ELSE health_status END AS health
    FROM heard
), ranked AS (
    SELECT name, type, version, cpu_usage, memory_usage, last_heartbeat, worker, detail, work, tasks_done, tasks_failed, started_at, silent, health,
           row_number() OVER (PARTITION BY type ORDER BY health = 'offline', health <> 'healthy', name) AS place
    FROM judged
), shown AS (
    SELECT name, type, version, cpu_usage, memory_usage, last_heartbeat, worker, detail, work, tasks_done, tasks_failed, started_at, silent, health
    FROM ranked
    ORDER BY health = 'offline', CASE WHEN health = 'offline' THEN last_heartbeat END DESC NULLS LAST, place
    LIMIT @most::int
)
SELECT name, type, version, health::text AS health, cpu_usage, memory_usage, last_heartbeat, worker, detail,
       CASE WHEN health IN ('offline', 'unhealthy') THEN '[]' ELSE work END::jsonb AS work,
       tasks_done, tasks_failed, started_at, silent::float8 AS silent
FROM shown
ORDER BY health = 'offline', CASE WHEN health = 'offline' THEN last_heartbeat END DESC NULLS LAST, type, name;

-- name: ForgetAgents :execrows
-- Removes agents that have been silent for long, and the oldest silent ones if a
-- worker that restarts repeatedly leaves too many.
DELETE FROM orchestrator_agents a
WHERE a.last_heartbeat < clock_timestamp() - interval '1 second' * greatest(@retention::float8, a.offline_after)
   OR a.name IN (
       SELECT o.name FROM orchestrator_agents o
       WHERE o.health_status = 'offline' OR o.last_heartbeat < clock_timestamp() - interval '1 second' * greatest(o.offline_after, o.beat_seconds * @missed::float8)
       ORDER BY o.last_heartbeat DESC NULLS LAST
       OFFSET @most::int);

-- name: UnfinishedRuns :many
SELECT status, count(*) AS runs FROM orchestrator_runs
WHERE status NOT IN ('done', 'failed', 'cancelled') AND kind = 'run' GROUP BY status;

-- name: CountInterventions :one
SELECT count(*) FROM orchestrator_manual_interventions WHERE status = 'open';

-- name: SchemaVersion :one
-- One row per change; the newest of each version counts.
SELECT coalesce(max(version_id), 0)::bigint FROM goose_db_version v
WHERE is_applied AND NOT EXISTS (
    SELECT FROM goose_db_version later WHERE later.version_id = v.version_id AND later.id > v.id AND NOT later.is_applied);

-- name: Ping :exec
SELECT 1;
