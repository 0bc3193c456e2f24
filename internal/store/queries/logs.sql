-- name: LogExecutions :many
-- The executions of a run without their output, which may be large.
SELECT id, phase, step, agent, attempt, status, error_class, error_code, left(error_message, 4000)::text AS error_message,
       provider, model, prompt_tokens, completion_tokens, cost_micros, price_estimated, turns, started_at, finished_at
FROM orchestrator_executions WHERE run_id = @run_id ORDER BY started_at, id;

-- name: LogAfter :many
-- The next keys after a position, from conversations of some executions, in order of
-- time. Reads only executions whose next message is among the first ones: later
-- messages of the others lie behind the horizon, which has a separate key without a
-- turn. A key that is not a hit was read without a match.
WITH heads AS MATERIALIZED (
    SELECT e.id, h.created_at FROM unnest(@executions::bigint[]) AS e(id)
    CROSS JOIN LATERAL (
        SELECT t.created_at FROM orchestrator_transcripts t
        WHERE t.execution_id = e.id AND t.created_at >= @at::timestamptz
          AND (t.created_at, t.execution_id, t.turn, t.position) > (@at, @execution_id::bigint, @turn::int, @place::int)
        ORDER BY t.created_at, t.turn, t.position LIMIT 1) h
), horizon AS MATERIALIZED (
    SELECT created_at AS at, id FROM heads ORDER BY created_at, id OFFSET 32 LIMIT 1
), scanned AS MATERIALIZED (
    SELECT k.created_at, k.execution_id, k.turn, k.position
    FROM (SELECT id FROM heads ORDER BY created_at, id LIMIT 32) n
    CROSS JOIN LATERAL (
        SELECT t.created_at, t.execution_id, t.turn, t.position FROM orchestrator_transcripts t
        WHERE t.execution_id = n.id AND t.created_at >= @at AND t.created_at <= coalesce((SELECT at FROM horizon), 'infinity')
          AND (t.created_at, t.execution_id, t.turn, t.position) > (@at, @execution_id, @turn, @place)
        ORDER BY t.created_at, t.turn, t.position LIMIT @most::int) k
    WHERE (k.created_at, k.execution_id) < (coalesce((SELECT at FROM horizon), 'infinity'), coalesce((SELECT id FROM horizon), 0))
    ORDER BY k.created_at, k.execution_id, k.turn, k.position
    LIMIT @most
)
SELECT s.created_at, s.execution_id, s.turn, s.position,
       ((@role::text = '' AND @text::text = '') OR EXISTS (
            SELECT FROM orchestrator_transcripts t
            WHERE t.execution_id = s.execution_id AND t.turn = s.turn AND t.position = s.position
              AND (@role = '' OR t.role = @role)
              AND (@text = '' OR position(lower(@text) IN lower(left(coalesce(t.content ->> 'text', '') || ' ' || coalesce(t.content ->> 'tool_calls', ''), 20000))) > 0)
       ))::bool AS hit
FROM scanned s
UNION ALL
SELECT h.at, h.id, -1, -1, false FROM horizon h
ORDER BY 1, 2, 3, 4;

-- name: LogBefore :many
-- LogAfter in the other direction: the last keys before a position, the last one
-- first.
WITH heads AS MATERIALIZED (
    SELECT e.id, h.created_at FROM unnest(@executions::bigint[]) AS e(id)
    CROSS JOIN LATERAL (
        SELECT t.created_at FROM orchestrator_transcripts t
        WHERE t.execution_id = e.id AND t.created_at <= @at::timestamptz
          AND (t.created_at, t.execution_id, t.turn, t.position) < (@at, @execution_id::bigint, @turn::int, @place::int)
        ORDER BY t.created_at DESC, t.turn DESC, t.position DESC LIMIT 1) h
), horizon AS MATERIALIZED (
    SELECT created_at AS at, id FROM heads ORDER BY created_at DESC, id DESC OFFSET 32 LIMIT 1
), scanned AS MATERIALIZED (
    SELECT k.created_at, k.execution_id, k.turn, k.position
    FROM (SELECT id FROM heads ORDER BY created_at DESC, id DESC LIMIT 32) n
    CROSS JOIN LATERAL (
        SELECT t.created_at, t.execution_id, t.turn, t.position FROM orchestrator_transcripts t
        WHERE t.execution_id = n.id AND t.created_at <= @at AND t.created_at >= coalesce((SELECT at FROM horizon), '-infinity')
          AND (t.created_at, t.execution_id, t.turn, t.position) < (@at, @execution_id, @turn, @place)
        ORDER BY t.created_at DESC, t.turn DESC, t.position DESC LIMIT @most::int) k
    WHERE (k.created_at, k.execution_id) > (coalesce((SELECT at FROM horizon), '-infinity'), coalesce((SELECT id FROM horizon), 0))
    ORDER BY k.created_at DESC, k.execution_id DESC, k.turn DESC, k.position DESC
    LIMIT @most
)
SELECT s.created_at, s.execution_id, s.turn, s.position,
       ((@role::text = '' AND @text::text = '') OR EXISTS (
            SELECT FROM orchestrator_transcripts t
            WHERE t.execution_id = s.execution_id AND t.turn = s.turn AND t.position = s.position
              AND (@role = '' OR t.role = @role)
              AND (@text = '' OR position(lower(@text) IN lower(left(coalesce(t.content ->> 'text', '') || ' ' || coalesce(t.content ->> 'tool_calls', ''), 20000))) > 0)
       ))::bool AS hit
FROM scanned s
UNION ALL
SELECT h.at, h.id, -1, -1, false FROM horizon h
ORDER BY 1 DESC, 2 DESC, 3 DESC, 4 DESC;

-- name: FailedCalls :many
-- The positions in time of tool calls that failed, between two times, from one of
-- them on.
SELECT t.created_at, t.execution_id, t.turn, t.position
FROM orchestrator_tool_calls c
JOIN orchestrator_transcripts t ON t.execution_id = c.execution_id AND t.turn = c.turn AND t.position = c.call_index + @results::int
WHERE NOT c.ok AND c.execution_id = ANY (@executions::bigint[]) AND t.created_at >= @at::timestamptz AND t.created_at <= @upto::timestamptz
ORDER BY CASE WHEN @down::bool THEN -extract(epoch FROM t.created_at) ELSE extract(epoch FROM t.created_at) END
LIMIT @most::int;

-- name: LogChecks :many
SELECT execution_id, check_id, ok, finished_at
FROM orchestrator_checks WHERE execution_id = ANY (@executions::bigint[])
ORDER BY finished_at, execution_id, check_id;

-- name: LogTexts :many
-- Messages by their positions, truncated; messages of tools include the result of
-- the call.
SELECT t.execution_id, t.turn, t.position, t.role, t.created_at,
       left(coalesce(t.content ->> 'text', ''), @cut::int)::text AS text,
       char_length(coalesce(t.content ->> 'text', ''))::int AS length,
       (length(coalesce(t.content ->> 'text', '')) - length(replace(coalesce(t.content ->> 'text', ''), chr(10), '')))::int AS breaks,
       coalesce(CASE WHEN octet_length(t.content ->> 'tool_calls') <= @most_calls::int THEN t.content -> 'tool_calls'
                     ELSE jsonb_path_query_array(t.content, '$.tool_calls[*].name') END, '[]')::jsonb AS calls,
       coalesce(c.tool, '')::text AS tool, coalesce(c.ok, true)::bool AS ok, coalesce(c.code, '')::text AS code,
       coalesce(c.duration_ms, 0)::bigint AS duration_ms, coalesce(c.call_index, -1)::int AS call_index
FROM (SELECT (@executions::bigint[])[n] AS execution_id, (@turns::int[])[n] AS turn, (@places::int[])[n] AS place
      FROM generate_series(1, cardinality(@executions::bigint[])) AS n) k
CROSS JOIN LATERAL (
    SELECT * FROM orchestrator_transcripts m WHERE m.execution_id = k.execution_id AND m.turn = k.turn AND m.position = k.place LIMIT 1) t
LEFT JOIN LATERAL (
    SELECT * FROM orchestrator_tool_calls l WHERE l.execution_id = t.execution_id AND l.turn = t.turn AND l.call_index = t.position - @results::int LIMIT 1) c ON true;

-- name: LogCheckResults :many
SELECT c.execution_id, c.check_id, c.ok, c.result, c.log_digest, c.duration_ms, c.finished_at,
       coalesce((SELECT a.id FROM orchestrator_artifacts a
                 WHERE a.hash = c.log_digest AND a.run_id = @run_id AND c.log_digest <> '' ORDER BY a.id DESC LIMIT 1), 0)::bigint AS artifact_id,
       coalesce((SELECT a.size FROM orchestrator_artifacts a
                 WHERE a.hash = c.log_digest AND a.run_id = @run_id AND c.log_digest <> '' ORDER BY a.id DESC LIMIT 1), 0)::bigint AS size
FROM (SELECT (@executions::bigint[])[n] AS execution_id, (@checks::text[])[n] AS check_id
      FROM generate_series(1, cardinality(@executions::bigint[])) AS n) k
CROSS JOIN LATERAL (
    SELECT * FROM orchestrator_checks h WHERE h.execution_id = k.execution_id AND h.check_id = k.check_id LIMIT 1) c;

-- name: ArtifactsOf :many
-- Artifacts of a run that match the filter, after a given one, with their origin.
SELECT a.id, coalesce(a.execution_id, 0)::bigint AS execution_id, a.name, a.type, a.size, a.hash, a.created_at, a.left_out, a.deleted_at,
       coalesce(e.phase, '')::text AS phase, coalesce(e.step, '')::text AS step, coalesce(e.attempt, 0)::int AS attempt, coalesce(e.agent, '')::text AS agent
FROM orchestrator_artifacts a LEFT JOIN orchestrator_executions e ON e.id = a.execution_id
WHERE a.run_id = @run_id AND a.id > @after_id
  AND (@type::text = '' OR a.type = @type) AND (@phase::text = '' OR coalesce(e.phase, '') = @phase)
  AND (@text::text = '' OR position(lower(@text) IN lower(a.name)) > 0)
ORDER BY a.id LIMIT @most::int;

-- name: ArtifactOf :one
SELECT a.id, coalesce(a.execution_id, 0)::bigint AS execution_id, a.name, a.type, a.size, a.hash, a.created_at, a.left_out, a.deleted_at,
       coalesce(e.phase, '')::text AS phase, coalesce(e.step, '')::text AS step, coalesce(e.attempt, 0)::int AS attempt, coalesce(e.agent, '')::text AS agent,
       coalesce((SELECT max(b.id) FROM orchestrator_artifacts b WHERE b.run_id = a.run_id AND b.id < a.id), 0)::bigint AS before,
       coalesce((SELECT min(b.id) FROM orchestrator_artifacts b WHERE b.run_id = a.run_id AND b.id > a.id), 0)::bigint AS after
FROM orchestrator_artifacts a LEFT JOIN orchestrator_executions e ON e.id = a.execution_id
WHERE a.run_id = @run_id AND a.id = @id;

-- name: EventsBetween :many
-- Events with a number above one and at most another, in order.
SELECT run_id, seq, event_type, left(payload::text, @cut::int)::text AS payload, octet_length(payload::text)::int AS size, created_at
FROM orchestrator_events
WHERE run_id = @run_id AND seq > @above AND seq <= @upto AND starts_with(event_type, @prefix::text)
ORDER BY seq LIMIT @most::int;

-- name: EventsBetweenDown :many
-- EventsBetween, in reverse order.
SELECT run_id, seq, event_type, left(payload::text, @cut::int)::text AS payload, octet_length(payload::text)::int AS size, created_at
FROM orchestrator_events
WHERE run_id = @run_id AND seq > @above AND seq <= @upto AND starts_with(event_type, @prefix::text)
ORDER BY seq DESC LIMIT @most::int;

-- name: ReplaysOf :many
-- Replays of a run, the latest first, each with the execution that it started.
SELECT r.id, r.phase, (r.replay_order - 'kept'::text)::jsonb AS replay_order, jsonb_path_query_array(r.replay_order, '$.kept[*].step')::jsonb AS kept, r.created_at,
       coalesce(r.execution_id, 0)::bigint AS execution_id, coalesce(e.attempt, 0)::int AS attempt, coalesce(e.status, '')::text AS status
FROM orchestrator_replays r LEFT JOIN orchestrator_executions e ON e.id = r.execution_id
WHERE r.run_id = @run_id ORDER BY r.id DESC LIMIT @most::int;
