-- name: SpawnPipeline :one
-- Inserts a pipeline with the row that carries it and its first event. No row: the
-- tenant has used the idempotency key before.
WITH carrier AS (
    INSERT INTO orchestrator_runs (kind, tenant, project, goal_title, goal_description, repo, settings, max_retries,
                                   idempotency_key, request_digest, event_seq)
    VALUES ('pipeline', @tenant, @project, @goal_title, @objective::text, '', @carrier_settings::jsonb, 0,
            sqlc.narg(idempotency_key), @request_digest, 1)
    ON CONFLICT (tenant, idempotency_key) DO NOTHING
    RETURNING id, tenant
), spawned AS (
    INSERT INTO orchestrator_pipelines (run_id, tenant, objective, task, settings, mode, auto_continue)
    SELECT c.id, c.tenant, @objective, @task::jsonb, @settings::jsonb, @mode::text, @auto_continue::bool FROM carrier c
    RETURNING id, run_id
), event AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT s.run_id, 1, @event_type::text, @payload::jsonb || jsonb_build_object('pipeline_id', s.id) FROM spawned s
)
SELECT s.id, pg_notify('rgpt_events', s.run_id || ':1')::text AS notified FROM spawned s;

-- name: PipelineByKey :one
-- The pipeline that a key created; 0 if it created something else.
SELECT r.id AS run_id, r.request_digest, coalesce(p.id, 0)::bigint AS id
FROM orchestrator_runs r LEFT JOIN orchestrator_pipelines p ON p.run_id = r.id AND p.attempt = 1 AND NOT p.for_run
WHERE r.tenant = @tenant AND r.idempotency_key = @idempotency_key::text;

-- name: CreatePipeline :one
-- Inserts the pipeline of a run's planner, or one that recovers another, with its
-- event. The row that carries a recovery becomes active again. No row: the pipeline
-- already exists. Runs under the lock of the run.
WITH created AS (
    INSERT INTO orchestrator_pipelines (run_id, for_run, execution_id, tenant, objective, task, settings, inherited, mode,
                                        auto_continue, attempt, prior_id)
    SELECT r.id, @for_run::bool, sqlc.narg(execution_id), r.tenant, @objective::text, @task::jsonb, @settings::jsonb,
           sqlc.narg(inherited)::jsonb, @mode::text, @auto_continue::bool, @attempt::int, sqlc.narg(prior_id)
    FROM orchestrator_runs r
    WHERE r.id = @run_id::bigint
    ON CONFLICT DO NOTHING
    RETURNING id, run_id, for_run, prior_id
), linked AS (
    UPDATE orchestrator_pipelines p SET recovered_by = c.id, updated_at = clock_timestamp() FROM created c WHERE p.id = c.prior_id
), event AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT r.id, r.event_seq + 1, @event_type::text, @payload::jsonb || jsonb_build_object('pipeline_id', c.id)
    FROM created c JOIN orchestrator_runs r ON r.id = c.run_id
), counted AS (
    UPDATE orchestrator_runs r
    SET event_seq = r.event_seq + 1, updated_at = clock_timestamp(),
        status = CASE WHEN r.kind = 'pipeline' THEN 'planner_running' ELSE r.status END,
        waiting_for = CASE WHEN r.kind = 'pipeline' THEN '' ELSE r.waiting_for END,
        finished_at = CASE WHEN r.kind = 'pipeline' THEN NULL ELSE r.finished_at END
    FROM created c
    WHERE r.id = c.run_id
    RETURNING r.id, r.event_seq
)
SELECT c.id, pg_notify('rgpt_events', n.id || ':' || n.event_seq)::text AS notified FROM created c JOIN counted n ON n.id = c.run_id;

-- name: PipelineOfPrior :one
SELECT id FROM orchestrator_pipelines WHERE prior_id = @prior_id::bigint;

-- name: PipelineOfExecution :one
SELECT id FROM orchestrator_pipelines WHERE execution_id = @execution_id::bigint AND prior_id IS NULL;

-- name: AccountOfPipeline :one
-- The row that carries a pipeline, of any kind.
SELECT id, kind, tenant, project, goal_title, goal_description, settings, status FROM orchestrator_runs WHERE id = @run_id;

-- name: GetPipeline :one
SELECT * FROM orchestrator_pipelines WHERE id = @id;

-- name: ListPipelines :many
-- Newest first. Planned for each call, like lists of runs.
SELECT * FROM orchestrator_pipelines
WHERE (sqlc.narg(statuses)::text[] IS NULL OR status = ANY (sqlc.narg(statuses)::text[]))
  AND (sqlc.narg(run_id)::bigint IS NULL OR run_id = sqlc.narg(run_id)::bigint)
  AND (sqlc.narg(text)::text IS NULL OR strpos(lower(objective), lower(sqlc.narg(text))) > 0)
  AND (sqlc.narg(abort)::text IS NULL OR abort_reason = sqlc.narg(abort))
  AND (sqlc.narg(for_run)::bool IS NULL OR for_run = sqlc.narg(for_run))
  AND (sqlc.narg(since)::timestamptz IS NULL OR created_at >= sqlc.narg(since))
  AND (sqlc.narg(before_at)::timestamptz IS NULL OR (created_at, id) < (sqlc.narg(before_at), @before_id::bigint))
ORDER BY created_at DESC, id DESC
LIMIT @most::int;

-- name: UnstartedPipelines :many
-- A run's planner and a recovered pipeline start their pipelines themselves.
SELECT id FROM orchestrator_pipelines
WHERE workflow_started_at IS NULL AND status = 'SPAWNED' AND attempt = 1 AND NOT for_run
  AND created_at <= clock_timestamp() - make_interval(secs => @older_than_seconds::float8)
ORDER BY created_at
LIMIT @most::int;

-- name: MarkPipelineStarted :execrows
UPDATE orchestrator_pipelines
SET workflow_id = @workflow_id,
    workflow_run_id = CASE WHEN workflow_run_id = '' THEN @workflow_run_id ELSE workflow_run_id END,
    workflow_started_at = coalesce(workflow_started_at, clock_timestamp()), updated_at = clock_timestamp()
WHERE id = @id;

-- name: PipelineRecord :one
-- Applies a record, once per number. Runs under the lock of the run, so that records
-- and events are in order. No row: the pipeline does not exist.
WITH known AS (
    SELECT p.id, p.run_id, p.for_run, p.status IN ('COMPLETED', 'FAILED', 'TIMEOUT', 'ORCHESTRATION_FAILED', 'STOPPED') AND p.status <> @status::text AS over,
           p.finished_at IS NULL AS open, coalesce(p.started_at, p.created_at) AS began,
           coalesce((p.metrics ->> 'refused')::int, 0) AS refused, coalesce((p.metrics ->> 'gamma_spawned')::bool, false) AS gamma
    FROM orchestrator_pipelines p
    WHERE p.id = @pipeline_id::bigint AND p.run_id = @run_id::bigint
), fresh AS (
    INSERT INTO orchestrator_pipeline_records (workflow_id, workflow_run_id, seq, pipeline_id)
    SELECT @workflow_id::text, @workflow_run_id::text, @seq::bigint, k.id FROM known k
    ON CONFLICT DO NOTHING
    RETURNING pipeline_id
), entries AS (
    INSERT INTO orchestrator_pipeline_entries (pipeline_id, section, key, version, author, state, entry, record_seq, written_at)
    SELECT f.pipeline_id, g.e ->> 'section', g.e ->> 'key', (g.e ->> 'version')::int, g.e ->> 'author', coalesce(g.e ->> 'state', ''),
           g.e, @seq, (g.e ->> 'timestamp')::timestamptz
    FROM fresh f CROSS JOIN jsonb_array_elements(@entries::jsonb) AS g (e)
    ON CONFLICT (pipeline_id, section, key, version) DO UPDATE
    SET author = excluded.author, state = excluded.state, entry = excluded.entry, record_seq = excluded.record_seq, written_at = excluded.written_at
    WHERE orchestrator_pipeline_entries.record_seq <= excluded.record_seq
), messages AS (
    INSERT INTO orchestrator_pipeline_messages (pipeline_id, seq, message_id, sender, recipient, message, sent_at)
    SELECT f.pipeline_id, (g.m ->> 'seq')::int, g.m ->> 'id', g.m ->> 'from', coalesce(g.m ->> 'to', ''), g.m, (g.m ->> 'at')::timestamptz
    FROM fresh f CROSS JOIN jsonb_array_elements(@messages::jsonb) AS g (m)
    ON CONFLICT DO NOTHING
), votes AS (
    INSERT INTO orchestrator_pipeline_votes (pipeline_id, key, version, voter, accept, vote, voted_at)
    SELECT f.pipeline_id, g.v ->> 'key', (g.v ->> 'version')::int, g.v ->> 'voter', (g.v ->> 'accept')::bool, g.v, (g.v ->> 'at')::timestamptz
    FROM fresh f CROSS JOIN jsonb_array_elements(@votes::jsonb) AS g (v)
    ON CONFLICT (pipeline_id, key, version, voter) DO UPDATE
    SET accept = excluded.accept, vote = excluded.vote, voted_at = excluded.voted_at
    WHERE orchestrator_pipeline_votes.voted_at <= excluded.voted_at
), errors AS (
    INSERT INTO orchestrator_pipeline_errors (pipeline_id, member, error_class, error_code, severity, message, error, created_at)
    SELECT f.pipeline_id, coalesce(g.e ->> 'member', ''), g.e ->> 'class', coalesce(g.e ->> 'code', ''), coalesce(g.e ->> 'severity', 'medium'), coalesce(g.e ->> 'message', ''), g.e, @at::timestamptz
    FROM fresh f CROSS JOIN jsonb_array_elements(@errors::jsonb) WITH ORDINALITY AS g (e, n)
    ORDER BY g.n
), report AS (
    INSERT INTO orchestrator_pipeline_reports (pipeline_id, kind, report, written_at)
    SELECT f.pipeline_id, sqlc.narg(report)::jsonb ->> 'kind', sqlc.narg(report)::jsonb, @at
    FROM fresh f
    WHERE sqlc.narg(report)::jsonb IS NOT NULL
    ON CONFLICT (pipeline_id, kind) DO UPDATE SET report = excluded.report, written_at = excluded.written_at
), changed AS (
    UPDATE orchestrator_pipelines p
    SET updated_at = clock_timestamp(), workflow_id = @workflow_id, workflow_run_id = @workflow_run_id,
        workflow_started_at = coalesce(p.workflow_started_at, @at),
        status = CASE WHEN c.yes THEN @status ELSE p.status END,
        iteration = CASE WHEN c.yes THEN @iteration::int ELSE p.iteration END,
        waiting_for = CASE WHEN c.yes THEN @waiting_for::text ELSE p.waiting_for END,
        members = CASE WHEN c.yes THEN @members::jsonb ELSE p.members END,
        metrics = CASE WHEN c.yes THEN @metrics::jsonb ELSE p.metrics END,
        abort_reason = CASE WHEN c.yes AND @abort_reason::text <> '' THEN @abort_reason ELSE p.abort_reason END,
        handoff_ref = CASE WHEN c.yes AND @handoff_ref::text <> '' THEN @handoff_ref ELSE p.handoff_ref END,
        recovered_by = CASE WHEN c.yes AND @recovered_by::bigint <> 0 THEN @recovered_by ELSE p.recovered_by END,
        consensus = CASE WHEN c.yes THEN coalesce(sqlc.narg(consensus)::jsonb, p.consensus) ELSE p.consensus END,
        failure = CASE WHEN c.yes THEN coalesce(sqlc.narg(failure)::jsonb, p.failure) ELSE p.failure END,
        settings = CASE WHEN c.yes THEN coalesce(sqlc.narg(settings)::jsonb, p.settings) ELSE p.settings END,
        mode = CASE WHEN c.yes THEN coalesce(sqlc.narg(settings)::jsonb ->> 'mode', p.mode) ELSE p.mode END,
        failure_context = CASE WHEN c.yes THEN coalesce(sqlc.narg(failure_context)::jsonb, p.failure_context) ELSE p.failure_context END,
        started_at = CASE WHEN c.yes AND @status <> 'SPAWNED' THEN coalesce(p.started_at, @at) ELSE p.started_at END,
        finished_at = CASE WHEN c.yes AND @finished::bool THEN coalesce(p.finished_at, @at) ELSE p.finished_at END
    FROM fresh f JOIN known k ON k.id = f.pipeline_id CROSS JOIN LATERAL (SELECT @set_change::bool AND NOT k.over AS yes) c
    WHERE p.id = f.pipeline_id
    RETURNING p.id, c.yes
), drafts AS (
    SELECT row_number() OVER (ORDER BY g.n) AS n, g.d ->> 'type' AS event_type, coalesce(g.d -> 'payload', '{}') AS payload
    FROM fresh f CROSS JOIN jsonb_array_elements(@events::jsonb) WITH ORDINALITY AS g (d, n)
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT r.id, r.event_seq + d.n, d.event_type, d.payload || jsonb_build_object('pipeline_id', @pipeline_id)
    FROM drafts d JOIN orchestrator_runs r ON r.id = @run_id
    ORDER BY d.n
), follows AS (
    -- The row that carries pipelines has the status of the newest one.
    SELECT NOT @for_run::bool AND c.yes AND NOT EXISTS (SELECT FROM orchestrator_pipelines n WHERE n.run_id = @run_id AND n.id > c.id) AS yes
    FROM changed c
), counted AS (
    UPDATE orchestrator_runs r
    SET event_seq = r.event_seq + (SELECT count(*) FROM drafts), updated_at = clock_timestamp(),
        status = CASE WHEN f.yes AND r.kind = 'pipeline' THEN @carrier_status::text ELSE r.status END,
        waiting_for = CASE WHEN f.yes AND r.kind = 'pipeline' THEN @waiting_for ELSE r.waiting_for END,
        started_at = CASE WHEN f.yes AND r.kind = 'pipeline' AND @status <> 'SPAWNED' THEN coalesce(r.started_at, @at) ELSE r.started_at END,
        finished_at = CASE WHEN f.yes AND r.kind = 'pipeline' THEN CASE WHEN @finished THEN coalesce(r.finished_at, @at) END ELSE r.finished_at END
    FROM follows f
    WHERE r.id = @run_id
    RETURNING r.event_seq
)
SELECT EXISTS (SELECT FROM fresh) AS fresh, coalesce(h.yes, false)::bool AS changed,
       k.open::bool AS was_open, k.began::timestamptz AS began, k.refused::int AS was_refused, k.gamma::bool AS had_gamma,
       (CASE WHEN c.event_seq IS NOT NULL AND EXISTS (SELECT FROM drafts)
             THEN pg_notify('rgpt_events', k.run_id || ':' || c.event_seq)::text ELSE '' END)::text AS notified
FROM known k LEFT JOIN counted c ON true LEFT JOIN changed h ON true;

-- name: PipelineEntries :many
-- The newest version of each entry, or all versions.
SELECT e.entry FROM orchestrator_pipeline_entries e
WHERE e.pipeline_id = @pipeline_id AND (@every_version::bool OR NOT EXISTS (
    SELECT FROM orchestrator_pipeline_entries n
    WHERE n.pipeline_id = e.pipeline_id AND n.section = e.section AND n.key = e.key AND n.version > e.version))
ORDER BY e.section, e.key, e.version;

-- name: PipelineMessages :many
SELECT message FROM orchestrator_pipeline_messages
WHERE pipeline_id = @pipeline_id AND seq > @after_seq::int
ORDER BY seq
LIMIT @most::int;

-- name: LastPipelineMessages :many
-- The last messages of each member, in the order in which they were accepted.
SELECT l.message FROM unnest(@senders::text[]) AS s (sender) CROSS JOIN LATERAL (
    SELECT m.seq, m.message FROM orchestrator_pipeline_messages m
    WHERE m.pipeline_id = @pipeline_id AND m.sender = s.sender
    ORDER BY m.seq DESC LIMIT @most::int) l
ORDER BY l.seq;

-- name: PipelineVotes :many
SELECT vote FROM orchestrator_pipeline_votes WHERE pipeline_id = @pipeline_id ORDER BY voted_at, key, version, voter;

-- name: PipelineErrors :many
SELECT id, error, created_at FROM orchestrator_pipeline_errors WHERE pipeline_id = @pipeline_id ORDER BY id LIMIT @most::int;

-- name: PipelineReport :one
SELECT report FROM orchestrator_pipeline_reports WHERE pipeline_id = @pipeline_id AND kind = @kind;

-- name: PipelineEvents :many
-- The events of the account that name the pipeline.
SELECT e.run_id, e.seq, e.event_type, e.payload, e.created_at
FROM orchestrator_pipelines p JOIN orchestrator_events e ON e.run_id = p.run_id
WHERE p.id = @pipeline_id AND e.seq > @after_seq::bigint AND e.payload ->> 'pipeline_id' = p.id::text
ORDER BY e.seq
LIMIT @most::int;

-- name: SavePipelineTexts :exec
INSERT INTO orchestrator_pipeline_texts (pipeline_id, ref, text)
SELECT @pipeline_id, unnest(@refs::text[]), unnest(@texts::text[])
ON CONFLICT DO NOTHING;

-- name: PipelineTexts :many
-- Inherited texts are stored with the pipeline that wrote them.
SELECT DISTINCT ON (t.ref) t.ref, t.text
FROM orchestrator_pipelines p JOIN orchestrator_pipelines o ON o.run_id = p.run_id AND o.id <= p.id
JOIN orchestrator_pipeline_texts t ON t.pipeline_id = o.id AND t.ref = ANY (@refs::text[])
WHERE p.id = @pipeline_id
ORDER BY t.ref, o.id DESC;

-- name: NewestReport :one
-- The newest pipeline that has a report of a kind.
SELECT p.id FROM orchestrator_pipelines p
WHERE EXISTS (SELECT FROM orchestrator_pipeline_reports r WHERE r.pipeline_id = p.id AND r.kind = @kind)
ORDER BY p.created_at DESC, p.id DESC
LIMIT 1;

-- name: UnfinishedPipelines :many
SELECT status, count(*) AS pipelines, count(*) FILTER (WHERE waiting_for <> '') AS waiting FROM orchestrator_pipelines
WHERE status IN ('SPAWNED', 'RUNNING', 'REPORT', 'ORCHESTRATING') GROUP BY status;
