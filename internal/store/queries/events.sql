-- name: Events :many
SELECT run_id, seq, event_type, payload, created_at
FROM orchestrator_events
WHERE run_id = @run_id AND seq > @after_seq
ORDER BY seq
LIMIT @most::int;

-- name: Feed :many
-- Events of all runs. Rows that an open transaction may still add lie above the
-- limit, so a cursor that has passed a row has passed all earlier rows.
SELECT tx::text::bigint AS tx, id, run_id, seq, event_type, payload, created_at
FROM orchestrator_events
WHERE (tx, id) > (CAST(@after_tx::text AS xid8), @after_id::bigint)
  AND tx < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY orchestrator_events.tx, id
LIMIT @most::int;

-- name: FeedEnd :one
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS tx;

-- name: EventsSince :many
-- The runs with events of transactions from a given one on, the last event of each,
-- and the transaction from which to continue: all earlier ones have ended. One row
-- without a run if there are none.
SELECT n.upto::text::bigint AS upto, coalesce(e.run_id, 0)::bigint AS run_id, coalesce(e.seq, 0)::bigint AS seq
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS upto) n
LEFT JOIN (
    SELECT run_id, max(seq) AS seq FROM orchestrator_events
    WHERE tx >= CAST(@after_tx::text AS xid8)
    GROUP BY run_id) e ON true;

-- name: EventSeq :one
SELECT event_seq FROM orchestrator_runs WHERE id = @run_id;

-- name: AddArtifacts :one
-- Inserts the artifacts that the run does not have under their name yet, and with
-- replace also replaces different ones of the same execution, each with its event.
-- Runs under the lock of the run.
WITH given AS (
    SELECT n, @artifacts::jsonb -> (n - 1) AS a FROM generate_series(1, jsonb_array_length(@artifacts)) AS n
), inserted AS (
    INSERT INTO orchestrator_artifacts (run_id, execution_id, name, path, type, size, hash, left_out)
    SELECT @run_id::bigint, (g.a ->> 'execution_id')::bigint, g.a ->> 'name', g.a ->> 'name', g.a ->> 'type',
           (g.a ->> 'size')::bigint, g.a ->> 'digest', coalesce(g.a ->> 'left_out', '')
    FROM given g
    ORDER BY g.n
    ON CONFLICT (run_id, name) DO NOTHING
    RETURNING id, run_id, execution_id, name, type, size, hash, left_out
), replaced AS (
    UPDATE orchestrator_artifacts o
    SET type = g.a ->> 'type', size = (g.a ->> 'size')::bigint, hash = g.a ->> 'digest', left_out = coalesce(g.a ->> 'left_out', '')
    FROM given g
    WHERE @replace::bool AND o.run_id = @run_id AND o.name = g.a ->> 'name' AND o.execution_id = (g.a ->> 'execution_id')::bigint
      AND o.hash <> g.a ->> 'digest'
    RETURNING o.id, o.run_id, o.execution_id, o.name, o.type, o.size, o.hash, o.left_out
), added AS (
    SELECT * FROM inserted UNION ALL SELECT * FROM replaced
), numbered AS (
    SELECT a.id, a.run_id, a.execution_id, a.name, a.type, a.size, a.hash, a.left_out, row_number() OVER (ORDER BY a.id) AS n FROM added a
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT r.id, r.event_seq + a.n, @event_type::text, jsonb_strip_nulls(jsonb_build_object(
        'id', a.id, 'execution_id', a.execution_id, 'name', a.name, 'type', a.type, 'size', a.size, 'digest', nullif(a.hash, ''), 'left_out', nullif(a.left_out, '')))
    FROM numbered a JOIN orchestrator_runs r ON r.id = @run_id
    ORDER BY a.n
), counted AS (
    UPDATE orchestrator_runs r
    SET event_seq = r.event_seq + (SELECT count(*) FROM added), updated_at = clock_timestamp()
    WHERE r.id = @run_id
    RETURNING r.id, r.event_seq
)
SELECT (SELECT count(*) FROM added)::int AS added,
       (CASE WHEN EXISTS (SELECT FROM added)
             THEN pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text ELSE '' END)::text AS notified
FROM counted c;

-- name: AddEvent :exec
-- Writes one event. Runs under the lock of the run.
WITH counted AS (
    UPDATE orchestrator_runs r SET event_seq = r.event_seq + 1, updated_at = clock_timestamp()
    WHERE r.id = @run_id RETURNING r.id, r.event_seq
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT c.id, c.event_seq, @event_type::text, @payload::jsonb FROM counted c
)
SELECT pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text AS notified FROM counted c;

-- name: Artifacts :many
SELECT id, run_id, coalesce(execution_id, 0)::bigint AS execution_id, name, type, size, hash, created_at, left_out, deleted_at
FROM orchestrator_artifacts WHERE run_id = @run_id ORDER BY id;

-- name: DropFindings :exec
DELETE FROM orchestrator_findings WHERE execution_id = @execution_id AND check_id = @check_id;

-- name: ResolveEarlierFindings :exec
-- Findings of an earlier execution of the same check are superseded.
UPDATE orchestrator_findings
SET resolved = true, resolved_at = clock_timestamp()
WHERE run_id = @run_id AND check_id = @check_id AND execution_id < @execution_id AND NOT resolved;

-- name: SaveCheck :one
-- Stores a check with its findings. Its events are written with the first
-- insert of its row. Runs under the lock of the run, after DropFindings.
WITH known AS (
    SELECT EXISTS (SELECT FROM orchestrator_checks k
                   WHERE k.execution_id = @execution_id::bigint AND k.check_id = @check_id::text) AS before
), saved AS (
    INSERT INTO orchestrator_checks (execution_id, check_id, category, ok, result, summary, cases, log_digest,
                                     duration_ms, started_at, finished_at)
    VALUES (@execution_id, @check_id, @category::text, @ok::bool, @result::jsonb, @summary::jsonb, @cases::jsonb,
            @log_digest::text, @duration_ms::bigint, @started_at::timestamptz, @finished_at::timestamptz)
    ON CONFLICT (execution_id, check_id) DO UPDATE
    SET category = excluded.category, ok = excluded.ok, result = excluded.result, summary = excluded.summary,
        cases = excluded.cases, log_digest = excluded.log_digest, duration_ms = excluded.duration_ms,
        started_at = excluded.started_at, finished_at = excluded.finished_at
), given AS (
    SELECT n, @findings::jsonb -> (n - 1) AS f FROM generate_series(1, jsonb_array_length(@findings)) AS n
), found AS (
    INSERT INTO orchestrator_findings (run_id, execution_id, check_id, severity, category, message, location, rule, status, resolved, resolved_at)
    SELECT @run_id::bigint, @execution_id, @check_id, g.f ->> 'severity', g.f ->> 'category', g.f ->> 'message',
           coalesce(g.f ->> 'location', ''), coalesce(g.f ->> 'rule', ''), coalesce(nullif(g.f ->> 'status', ''), 'new'),
           coalesce((g.f ->> 'resolved')::bool, false),
           CASE WHEN (g.f ->> 'resolved')::bool THEN coalesce((g.f ->> 'resolved_at')::timestamptz, clock_timestamp()) END
    FROM given g
    ORDER BY g.n
    RETURNING id, severity, category, message, location, rule, status
), numbered AS (
    SELECT f.id, f.severity, f.category, f.message, f.location, f.rule, f.status, row_number() OVER (ORDER BY f.id) AS n
    FROM found f
    WHERE NOT (SELECT k.before FROM known k)
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT r.id, r.event_seq + f.n, @event_type::text, jsonb_build_object(
        'id', f.id, 'execution_id', @execution_id, 'check_id', @check_id, 'severity', f.severity, 'category', f.category,
        'message', left(f.message, 2000), 'location', f.location, 'rule', f.rule, 'status', f.status)
    FROM numbered f JOIN orchestrator_runs r ON r.id = @run_id
    ORDER BY f.n
), counted AS (
    UPDATE orchestrator_runs r
    SET event_seq = r.event_seq + (SELECT count(*) FROM numbered), updated_at = clock_timestamp()
    WHERE r.id = @run_id
    RETURNING r.id, r.event_seq
)
SELECT (SELECT count(*) FROM numbered)::int AS added,
       (CASE WHEN EXISTS (SELECT FROM numbered)
             THEN pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text ELSE '' END)::text AS notified
FROM counted c;

-- name: Checks :many
SELECT * FROM orchestrator_checks WHERE execution_id = @execution_id ORDER BY started_at, check_id;

-- name: Findings :many
SELECT * FROM orchestrator_findings WHERE run_id = @run_id ORDER BY id;

-- name: EventsOf :many
-- Events of some types, in order.
SELECT run_id, seq, event_type, payload, created_at FROM orchestrator_events
WHERE run_id = @run_id AND event_type = ANY(@types::text[])
ORDER BY seq
LIMIT @most::int;

-- name: TestDurations :many
-- The newest duration of each test in the newest runs of a repository, and on
-- their base commits, of the checks whose id begins with a prefix. A test that
-- was skipped has none.
WITH recent AS (
    SELECT id, baseline FROM orchestrator_runs
    WHERE project = @project AND repo = @repo ORDER BY created_at DESC, id DESC LIMIT @runs::int
), results AS (
    SELECT c.cases, c.finished_at AS at
    FROM orchestrator_checks c JOIN orchestrator_executions e ON e.id = c.execution_id JOIN recent r ON r.id = e.run_id
    WHERE starts_with(c.check_id, @prefix::text)
    UNION ALL
    SELECT c.cases, c.created_at
    FROM (SELECT DISTINCT baseline FROM recent WHERE baseline <> '') b CROSS JOIN LATERAL (
        SELECT * FROM orchestrator_baseline_checks WHERE key = b.baseline OFFSET 0 -- by its index, however small
    ) c
    WHERE starts_with(c.check_id, @prefix::text)
)
SELECT DISTINCT ON (t.doc ->> 'test_case') (t.doc ->> 'test_case')::text AS name, (t.doc ->> 'duration_ms')::bigint AS ms
FROM results CROSS JOIN LATERAL jsonb_array_elements(results.cases) AS t(doc)
WHERE t.doc ->> 'status' <> 'skipped' AND (t.doc ->> 'duration_ms')::bigint > 0
ORDER BY t.doc ->> 'test_case', results.at DESC
LIMIT @most::int;

-- name: Reminders :many
-- The questions of a run to people with their planned reminders, and the reminders that were sent.
SELECT e.event_type, e.payload, e.created_at FROM orchestrator_events e
WHERE e.run_id = @run_id AND e.event_type IN (
    'approval.requested', 'approval.reminded', 'approval.escalated', 'intervention.requested', 'intervention.reminded',
    'intervention.escalated', 'input.requested', 'input.reminded', 'input.escalated')
ORDER BY e.seq;
