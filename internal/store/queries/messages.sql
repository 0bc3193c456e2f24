-- name: DeliverMessages :exec
-- Marks messages of people as delivered to an agent before a turn, with one event. Nothing happens
-- if an earlier attempt has already stored what the agent gets before this turn: that counts. Runs
-- under the lock of the run, before the messages are added.
WITH delivered AS (
    INSERT INTO orchestrator_message_deliveries (run_id, seq, execution_id, turn)
    SELECT @run_id::bigint, m.seq, @execution_id::bigint, @turn::int
    FROM unnest(@seqs::bigint[]) AS m(seq)
    WHERE NOT EXISTS (
        SELECT FROM orchestrator_transcripts t
        WHERE t.execution_id = @execution_id AND t.turn + 1 = @turn::int AND t."position" >= @added_from::int)
    ON CONFLICT DO NOTHING
    RETURNING seq
), counted AS (
    UPDATE orchestrator_runs r SET event_seq = r.event_seq + 1, updated_at = clock_timestamp()
    WHERE r.id = @run_id AND EXISTS (SELECT FROM delivered) RETURNING r.id, r.event_seq
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT c.id, c.event_seq, @event_type::text, jsonb_build_object(
        'messages', (SELECT jsonb_agg(d.seq ORDER BY d.seq) FROM delivered d),
        'agent', @agent::text, 'step', @step::text, 'turn', @turn::int, 'execution_id', @execution_id::bigint)
    FROM counted c
)
SELECT pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text AS notified FROM counted c;

-- name: PendingMessages :many
-- The messages of people that an agent has not got yet.
SELECT e.seq, e.payload, e.created_at FROM orchestrator_events e
WHERE e.run_id = @run_id AND e.event_type = 'message.added' AND coalesce(e.payload ->> 'step', '') IN ('', @step::text)
  AND NOT EXISTS (
    SELECT FROM orchestrator_message_deliveries d
    WHERE d.run_id = e.run_id AND d.seq = e.seq AND d.execution_id = @execution_id)
ORDER BY e.seq
LIMIT @most::int;

-- name: RunMessages :many
-- The newest messages of people to the agents of a run, with each delivery.
SELECT m.seq, m.payload, m.created_at, coalesce(d.turn, 0)::int AS turn, d.delivered_at,
       coalesce(x.id, 0)::bigint AS execution_id, coalesce(x.agent, '')::text AS agent, coalesce(x.phase, '')::text AS phase,
       coalesce(x.step, '')::text AS step, coalesce(x.attempt, 0)::int AS attempt
FROM (
    SELECT e.run_id, e.seq, e.payload, e.created_at FROM orchestrator_events e
    WHERE e.run_id = @run_id AND e.event_type = 'message.added'
    ORDER BY e.seq DESC LIMIT @most::int) m
LEFT JOIN orchestrator_message_deliveries d ON d.run_id = m.run_id AND d.seq = m.seq
LEFT JOIN orchestrator_executions x ON x.id = d.execution_id
ORDER BY m.seq, d.delivered_at, d.execution_id;
