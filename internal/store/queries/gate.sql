-- name: SaveGateVerdict :one
-- Stores a verdict with its event, unless this change has been judged by the same policies before.
-- Runs under the lock of the run.
WITH added AS (
    INSERT INTO orchestrator_gate_verdicts (run_id, execution_id, stage, step, author, subject, from_tree, tree, policies, policy,
                                            decision, reasons, findings, automerge, files, files_total)
    VALUES (@run_id::bigint, @execution_id::bigint, @stage::text, @step::text, @author::text, @subject::text, @from_tree::text, @tree::text,
            @policies::jsonb, @policy::text, @decision::text, @reasons::jsonb, @findings::jsonb, @automerge::bool,
            @files::jsonb, @files_total::int)
    ON CONFLICT (run_id, stage, subject, policy) DO NOTHING
    RETURNING id, run_id
), kept AS (
    INSERT INTO orchestrator_gate_inputs (verdict_id, input, repository, refused)
    SELECT a.id, @input::jsonb, @repository::text, @refused::text FROM added a
), counted AS (
    UPDATE orchestrator_runs r SET event_seq = r.event_seq + 1, updated_at = clock_timestamp()
    FROM added a WHERE r.id = a.run_id
    RETURNING r.id, r.event_seq
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT c.id, c.event_seq, @event_type::text, @payload::jsonb || jsonb_build_object('verdict_id', a.id)
    FROM counted c JOIN added a ON a.run_id = c.id
)
SELECT coalesce((SELECT a.id FROM added a), 0)::bigint AS id,
       (CASE WHEN c.id IS NULL THEN '' ELSE pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text END)::text AS notified
FROM (SELECT 1) one LEFT JOIN counted c ON true;

-- name: GateVerdict :one
-- The verdict about a change by the same policies, if there is one.
SELECT * FROM orchestrator_gate_verdicts
WHERE run_id = @run_id AND stage = @stage AND subject = @subject AND policy = @policy;

-- name: LastGateVerdict :one
-- The last verdict about a change at a stage, by any policies.
SELECT * FROM orchestrator_gate_verdicts
WHERE run_id = @run_id AND stage = @stage AND subject = @subject
ORDER BY id DESC LIMIT 1;

-- name: GateVerdicts :many
-- All verdicts of a run, each with the person who approved its subject; the last answer counts.
SELECT sqlc.embed(v), coalesce((SELECT CASE a.status WHEN 'granted' THEN a.decided_by END FROM orchestrator_approvals a
                 WHERE a.run_id = v.run_id AND a.status IN ('granted', 'rejected') AND v.subject <> '' AND a.subject = v.subject
                 ORDER BY a.asked DESC LIMIT 1), '')::text AS approved_by
FROM orchestrator_gate_verdicts v
WHERE v.run_id = @run_id ORDER BY v.id;

-- name: ApprovedSubject :one
-- The person who approved exactly this, if the last answer about it is an approval, and if a verdict is
-- given, one of what it said.
SELECT a.decided_by FROM (
    SELECT o.decided_by, o.status, o.verdict_id FROM orchestrator_approvals o
    WHERE o.run_id = @run_id AND o.kind = @kind AND o.status IN ('granted', 'rejected') AND o.subject = @subject AND o.subject <> ''
    ORDER BY o.asked DESC LIMIT 1) AS a
WHERE a.status = 'granted' AND (@verdict_id::bigint = 0 OR a.verdict_id = @verdict_id::bigint);

-- name: Steerers :many
-- The people who steered the agents of a run or edited its change, in that order: they sent messages or
-- comments that agents carried out, answered its planner, helped with instructions, approved a plan that
-- they had edited, reported an error to a member of the deliberation about its plan, or pushed commits to
-- its branch.
WITH steered AS (
SELECT (e.payload ->> 'by')::text AS steered_by, e.seq FROM orchestrator_events e
WHERE e.run_id = @run_id AND coalesce(e.payload ->> 'by', '') <> '' AND (
    e.event_type IN ('message.added', 'input.answered')
    OR e.event_type = 'approval.granted' AND e.payload ? 'plan_id'
    OR e.event_type = 'intervention.resolved' AND e.payload ->> 'answer' = 'retry' AND coalesce(e.payload ->> 'reason', '') <> ''
    OR e.event_type = 'pipeline.commanded' AND e.payload ->> 'command' = 'record_error'
    OR e.event_type = 'check.received' AND e.payload ->> 'check_kind' = 'comment')
UNION ALL
SELECT p.name, e.seq FROM orchestrator_events e
CROSS JOIN LATERAL jsonb_array_elements_text(CASE jsonb_typeof(e.payload -> 'people') WHEN 'array' THEN e.payload -> 'people' ELSE '[]' END) AS p (name)
WHERE e.run_id = @run_id AND e.event_type = 'stay.pushed' AND p.name <> ''
)
SELECT s.steered_by::text AS steered_by FROM steered s GROUP BY s.steered_by ORDER BY min(s.seq), s.steered_by;

-- name: SaveGatePolicies :exec
INSERT INTO orchestrator_gate_policies (digest, files) VALUES (@digest, @files::jsonb) ON CONFLICT DO NOTHING;

-- name: SaveGateSettings :exec
-- The row changes, and the ledger gets an entry, only if the settings differ from those that were stored last.
INSERT INTO orchestrator_gate_settings AS s (digest, settings) VALUES (@digest, @settings::jsonb)
ON CONFLICT (one) DO UPDATE SET digest = excluded.digest, settings = excluded.settings, changed_at = clock_timestamp()
WHERE s.digest <> excluded.digest;

-- name: GatePolicies :one
SELECT files FROM orchestrator_gate_policies WHERE digest = @digest;

-- name: GateInput :one
-- What the policies read for a verdict of a run.
SELECT i.* FROM orchestrator_gate_inputs i JOIN orchestrator_gate_verdicts v ON v.id = i.verdict_id
WHERE v.id = @id AND v.run_id = @run_id;

-- name: SaveGateReview :one
-- Stores a review with its event, unless this execution has stored one before. Runs under the lock of
-- the run.
WITH added AS (
    INSERT INTO orchestrator_gate_reviews (run_id, execution_id, round, from_tree, tree, model, same_model, prompt, failed, summary,
                                           findings, omitted, unshown)
    VALUES (@run_id::bigint, @execution_id::bigint, @round::int, @from_tree::text, @tree::text, @model::text, @same_model::bool, @prompt::text,
            @failed::text, @summary::text, @findings::jsonb, @omitted::int, @unshown::jsonb)
    ON CONFLICT (run_id, execution_id) DO NOTHING
    RETURNING id, run_id
), counted AS (
    UPDATE orchestrator_runs r SET event_seq = r.event_seq + 1, updated_at = clock_timestamp()
    FROM added a WHERE r.id = a.run_id
    RETURNING r.id, r.event_seq
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT c.id, c.event_seq, @event_type::text, @payload::jsonb || jsonb_build_object('review_id', a.id)
    FROM counted c JOIN added a ON a.run_id = c.id
)
SELECT coalesce((SELECT a.id FROM added a), 0)::bigint AS id,
       (CASE WHEN c.id IS NULL THEN '' ELSE pg_notify('rgpt_events', c.id || ':' || c.event_seq)::text END)::text AS notified
FROM (SELECT 1) one LEFT JOIN counted c ON true;

-- name: GateReviews :many
-- All reviews of a run, oldest first.
SELECT * FROM orchestrator_gate_reviews WHERE run_id = @run_id ORDER BY id;
