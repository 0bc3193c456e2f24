-- name: LockRun :exec
-- The first statement of every transaction that adds events to a run, except
-- rgpt_record, which begins with the same lock. The row lock orders the
-- transactions, and later statements see what earlier transactions have committed.
SELECT id FROM orchestrator_runs WHERE id = @run_id FOR NO KEY UPDATE;

-- name: ForgetRecords :exec
-- Moves stored records to negative numbers if a different record arrives under the
-- number of one of them: that record and all later ones. Their workflow task was
-- never completed; otherwise its history would contain them, and the sender would
-- know them. If a later record comes from a later task, or from the same one, the
-- sender itself was overtaken. If there is no such record, this is one lookup of the
-- primary key.
WITH stored AS (
    SELECT r.seq
    FROM orchestrator_records r
    WHERE r.workflow_id = @workflow_id::text AND r.workflow_run_id = @workflow_run_id::text AND r.seq = @seq::bigint
      AND r.signature NOT IN ('', @signature::text) AND r.task BETWEEN 1 AND @task::bigint
      AND NOT EXISTS (
          SELECT FROM orchestrator_records h
          WHERE h.workflow_id = @workflow_id AND h.workflow_run_id = @workflow_run_id AND h.seq > @seq
            AND (h.task = 0 OR h.task >= @task::bigint))
), counted_back AS (
    UPDATE orchestrator_runs r
    SET workflow_seq = s.seq - 1
    FROM stored s
    WHERE r.id = @run_id::bigint AND r.workflow_id = @workflow_id AND r.workflow_run_id = @workflow_run_id
), forgotten AS MATERIALIZED (
    SELECT r.seq, row_number() OVER (ORDER BY r.seq) AS n, (
        SELECT coalesce(min(f.seq), 0)
        FROM orchestrator_records f
        WHERE f.workflow_id = @workflow_id AND f.workflow_run_id = @workflow_run_id AND f.seq < 0) AS last
    FROM orchestrator_records r
    -- A value, not a join: without a value this reads no rows.
    WHERE r.workflow_id = @workflow_id AND r.workflow_run_id = @workflow_run_id AND r.seq >= (SELECT s.seq FROM stored s)
)
UPDATE orchestrator_records r
SET seq = f.last - f.n
FROM forgotten f
WHERE r.workflow_id = @workflow_id AND r.workflow_run_id = @workflow_run_id AND r.seq = f.seq
  AND r.seq >= (SELECT s.seq FROM stored s);

-- name: Record :one
-- Applies a record under the lock of its run, or returns its first answer, or
-- reports that its sender was overtaken. No row: the run does not exist, or does not
-- have the execution to end.
--
-- The run's own workflow numbers its records. A late record (with a lower number, or
-- from a workflow run that another one has replaced) starts and ends its executions,
-- but no longer changes the run. A workflow run that was not seen before takes over:
-- the run was reset. A terminal status is left only in this case, by a run's own
-- workflow that stays with its branch, and by one whose end was forgotten.
--
-- A forgotten record that arrives again has already published its events and started
-- its executions. It passes its answer, and its number, to the arriving record.
WITH prior AS (
    SELECT r.result
    FROM orchestrator_records r
    WHERE r.workflow_id = @workflow_id::text AND r.workflow_run_id = @workflow_run_id::text AND r.seq = @seq::bigint
), again AS (
    SELECT f.seq, f.result, (f.result -> 'execution' ->> 'id')::bigint AS execution_id
    FROM orchestrator_records f
    WHERE f.workflow_id = @workflow_id AND f.workflow_run_id = @workflow_run_id AND f.seq < 0
      AND split_part(f.signature, '|', 2) = split_part(@signature::text, '|', 2) AND split_part(@signature, '|', 2) <> ''
      AND NOT EXISTS (SELECT FROM prior)
    ORDER BY f.seq DESC
    LIMIT 1
), overtaken AS (
    -- A later task has written records: the sender's task no longer counts.
    SELECT l.seq
    FROM (SELECT r.seq, r.task FROM orchestrator_records r
          WHERE r.workflow_id = @workflow_id AND r.workflow_run_id = @workflow_run_id AND r.seq > 0 AND r.seq < @seq
          ORDER BY r.seq DESC LIMIT 1) AS l
    WHERE @task::bigint > 0 AND l.task > @task AND NOT EXISTS (SELECT FROM prior)
    UNION ALL
    -- A step begins although a later task of its run's workflow has ended the run.
    SELECT r.workflow_seq
    FROM orchestrator_runs r
    WHERE @begin_step::text <> '' AND @task::bigint > 0 AND NOT EXISTS (SELECT FROM prior)
      AND r.id = @run_id AND r.status IN ('done', 'failed', 'cancelled') AND r.workflow_run_id = @workflow_run_id AND r.workflow_id <> @workflow_id
      AND EXISTS (SELECT FROM orchestrator_records o
                  WHERE o.workflow_id = r.workflow_id AND o.workflow_run_id = r.workflow_run_id AND o.seq = r.workflow_seq AND o.task > @task)
), fresh AS (
    SELECT r.id AS run_id, r.event_seq
    FROM orchestrator_runs r
    WHERE r.id = @run_id AND NOT EXISTS (SELECT FROM prior) AND NOT EXISTS (SELECT FROM overtaken)
      AND (@end_execution::bigint = 0
           OR EXISTS (SELECT FROM orchestrator_executions e WHERE e.id = @end_execution AND e.run_id = r.id))
), sender AS (
    SELECT f.run_id, f.event_seq, @workflow_id = 'run-' || r.id AS own,
           r.status IN ('done', 'failed', 'cancelled') AND NOT EXISTS (
               SELECT FROM orchestrator_records o
               WHERE o.workflow_id = @workflow_id AND o.workflow_run_id = @workflow_run_id AND o.seq < 0
                 AND o.signature LIKE 'over %') AS over,
           @workflow_run_id = ANY (r.superseded_runs)
               OR (@workflow_run_id = r.workflow_run_id AND @seq <= r.workflow_seq) AS late,
           @workflow_id = 'run-' || r.id AND r.workflow_run_id NOT IN ('', @workflow_run_id)
               AND @workflow_run_id <> ALL (r.superseded_runs) AS takes_over
    FROM fresh f JOIN orchestrator_runs r ON r.id = f.run_id
), timely AS (
    SELECT s.run_id, s.event_seq, s.own, s.takes_over,
           @set_run::bool AND (NOT s.over OR s.takes_over OR (s.own AND @staying::bool)) AS set_run
    FROM sender s
    WHERE NOT (s.own AND s.late)
), begun AS (
    INSERT INTO orchestrator_executions (run_id, phase, step, agent, attempt, provider, model, started_at)
    SELECT f.run_id, @begin_phase::text, @begin_step::text, @begin_agent::text,
           1 + coalesce((SELECT max(e.attempt) FROM orchestrator_executions e
                         WHERE e.run_id = f.run_id AND e.phase = @begin_phase AND e.step = @begin_step), 0),
           @begin_provider::text, @begin_model::text, @at::timestamptz
    FROM fresh f
    WHERE @begin_phase <> '' AND NOT EXISTS (SELECT FROM again)
    RETURNING id, run_id, phase, step, agent, attempt, started_at
), phase_begun AS (
    INSERT INTO orchestrator_phases (run_id, phase, attempt, execution_id, started_at)
    SELECT b.run_id, b.phase, b.attempt, b.id, b.started_at FROM begun b WHERE b.step = ''
), taken_up AS (
    -- A started execution continues, with the current model.
    UPDATE orchestrator_executions e
    SET provider = @begin_provider, model = @begin_model, status = CASE e.status WHEN 'cancelled' THEN 'running' ELSE e.status END,
        finished_at = CASE e.status WHEN 'cancelled' THEN NULL ELSE e.finished_at END
    FROM fresh f
    WHERE e.id = (SELECT a.execution_id FROM again a) AND e.run_id = f.run_id
    RETURNING e.id, e.status
), phase_taken_up AS (
    UPDATE orchestrator_phases p
    SET status = u.status, finished_at = CASE u.status WHEN 'running' THEN NULL ELSE p.finished_at END
    FROM taken_up u
    WHERE p.execution_id = u.id
), known AS (
    DELETE FROM orchestrator_records r
    USING fresh f
    WHERE r.workflow_id = @workflow_id AND r.workflow_run_id = @workflow_run_id AND r.seq = (SELECT a.seq FROM again a)
), used AS (
    SELECT count(*) FILTER (WHERE c.status = 'done')::int AS turns,
           count(*) FILTER (WHERE c.status = 'reserved' OR c.superseded <> '[]')::int AS open,
           coalesce(sum(c.prompt_tokens), 0)::bigint AS prompt_tokens,
           coalesce(sum(c.completion_tokens), 0)::bigint AS completion_tokens,
           coalesce(sum(c.cost_micros), 0)::bigint AS cost_micros,
           coalesce(bool_or(c.price_estimated), false)::bool AS price_estimated
    FROM orchestrator_model_calls c
    WHERE c.execution_id = @end_execution
), ended AS (
    UPDATE orchestrator_executions e
    SET status = @end_status::text, error_class = @end_class::text, error_code = @end_code::text,
        error_message = @end_message::text, error_cause = @end_cause::text, output = sqlc.narg(end_output)::jsonb,
        turns = u.turns, prompt_tokens = u.prompt_tokens, completion_tokens = u.completion_tokens,
        cost_micros = u.cost_micros, price_estimated = u.price_estimated, finished_at = @at
    FROM fresh f, used u
    WHERE e.id = @end_execution AND e.run_id = f.run_id AND e.status = 'running'
    RETURNING e.id, e.phase, e.step, extract(epoch FROM e.finished_at - e.started_at) AS seconds
), phase_ended AS (
    UPDATE orchestrator_phases p
    SET status = @end_status, finished_at = @at
    FROM ended e
    WHERE p.execution_id = e.id
), unneeded AS (
    -- Work that forgotten records started and that did not arrive again before the
    -- run ended, and the steps that number their records by themselves: they end
    -- before the run, unless no history knows of them. Executions that have ended
    -- are not closed again.
    SELECT (f.result -> 'execution' ->> 'id')::bigint AS id
    FROM orchestrator_records f
    WHERE @finished::bool AND f.run_id = @run_id
      AND (f.seq < 0 OR f.workflow_id LIKE 'run-' || @run_id || '/step/%')
      AND NOT EXISTS (SELECT FROM again a WHERE f.workflow_id = @workflow_id AND f.workflow_run_id = @workflow_run_id AND f.seq = a.seq)
), open_unneeded AS (
    SELECT coalesce(array_agg(DISTINCT c.execution_id), '{}')::bigint[] AS executions
    FROM orchestrator_model_calls c
    WHERE @finished AND NOT EXISTS (SELECT FROM overtaken) AND c.run_id = @run_id AND (c.status = 'reserved' OR c.superseded <> '[]') AND c.execution_id = ANY (ARRAY(SELECT n.id FROM unneeded n))
), unneeded_ended AS (
    UPDATE orchestrator_executions e
    SET status = 'cancelled', finished_at = @at
    FROM timely t
    WHERE t.own AND t.set_run AND e.id = ANY (ARRAY(SELECT n.id FROM unneeded n)) AND e.id <> @end_execution AND e.status = 'running'
    RETURNING e.id
), unneeded_phases AS (
    UPDATE orchestrator_phases p
    SET status = 'cancelled', finished_at = @at
    WHERE p.run_id = @run_id AND p.execution_id = ANY (ARRAY(SELECT e.id FROM unneeded_ended e))
), asked_subject AS (
    -- The subject of the row: what is asked about now, or what the open question is about, which the
    -- answer may change. An answered question is not opened again: the same subject is asked about once more.
    SELECT s.subject, coalesce(
        (SELECT o.asked + CASE WHEN @approval_status = 'pending' AND o.status IN ('granted', 'rejected') THEN 1 ELSE 0 END
         FROM orchestrator_approvals o WHERE o.run_id = s.run_id AND o.id = @approval_id AND o.subject = s.subject
         ORDER BY o.asked DESC LIMIT 1), 1) AS asked
    FROM (
    SELECT f.run_id, CASE WHEN @approval_status::text = 'pending' THEN @approval_subject::text ELSE coalesce(
        (SELECT o.subject FROM orchestrator_approvals o
         WHERE o.run_id = f.run_id AND o.id = @approval_id::text AND o.status IN ('pending', 'expired')
         ORDER BY o.status = 'pending' DESC, o.created_at DESC LIMIT 1),
        nullif(@approval_subject, ''),
        (SELECT o.subject FROM orchestrator_approvals o
         WHERE o.run_id = f.run_id AND o.id = @approval_id ORDER BY o.created_at DESC LIMIT 1), '') END AS subject
    FROM timely f
    WHERE @approval_id <> '') AS s
), approval AS (
    INSERT INTO orchestrator_approvals AS a (run_id, id, kind, status, decided_by, reason, deadline, created_at, decided_at, subject,
                                             decided_subject, verdict_id, asked)
    SELECT f.run_id, @approval_id,
           coalesce(nullif(@approval_kind::text, ''),
                    (SELECT o.kind FROM orchestrator_approvals o WHERE o.run_id = f.run_id AND o.id = @approval_id LIMIT 1)),
           @approval_status, @approval_by::text, @approval_reason::text, sqlc.narg(approval_deadline)::timestamptz,
           @at, CASE WHEN @approval_status = 'pending' THEN NULL ELSE @at END, s.subject,
           CASE WHEN @approval_status = 'granted' THEN @approval_subject ELSE '' END, @approval_verdict::bigint, s.asked
    FROM timely f CROSS JOIN asked_subject s
    ON CONFLICT (run_id, id, subject, asked) DO UPDATE
    SET status = excluded.status, decided_by = excluded.decided_by, reason = excluded.reason,
        deadline = coalesce(excluded.deadline, a.deadline), decided_at = excluded.decided_at,
        created_at = CASE WHEN excluded.status = 'pending' THEN excluded.created_at ELSE a.created_at END,
        decided_subject = excluded.decided_subject,
        verdict_id = CASE WHEN excluded.verdict_id <> 0 THEN excluded.verdict_id ELSE a.verdict_id END
    -- A heal or a replay reaches the same question again, which reopens it unless a
    -- person answered it. A question that expired with its run is answered if that
    -- end was forgotten.
    WHERE a.status IN ('pending', 'expired')
), replaced_approvals AS (
    -- A question about something else replaces the open one about what came before.
    UPDATE orchestrator_approvals a
    SET status = 'expired', decided_at = @at
    FROM asked_subject s, timely f
    WHERE @approval_status = 'pending' AND a.run_id = f.run_id AND a.id = @approval_id
      AND (a.subject, a.asked) <> (s.subject, s.asked) AND a.status = 'pending'
), healed AS (
    INSERT INTO orchestrator_self_heal_events AS h (run_id, number, execution_id, phase, step, error_type, error_code, heal_action,
                                                    root_cause, asked_by, status, heal_output, created_at, finished_at)
    SELECT f.run_id, n.number, coalesce(n.execution_id, 0), n.phase, coalesce(n.step, ''), n.error_type, coalesce(n.error_code, ''), n.heal_action,
           coalesce(n.root_cause, ''), coalesce(n.asked_by, ''), n.status, n.heal_output, @at, NULL
    FROM fresh f
    CROSS JOIN jsonb_to_recordset(@heals::jsonb) AS n (number int, execution_id bigint, phase text, step text, error_type text,
        error_code text, heal_action text, root_cause text, asked_by text, status text, heal_output jsonb)
    WHERE n.status = 'started'
    ON CONFLICT (run_id, number, execution_id) DO NOTHING
), heal_changed AS (
    UPDATE orchestrator_self_heal_events h
    SET status = n.status, heal_output = h.heal_output || n.heal_output,
        finished_at = CASE WHEN n.status IN ('success', 'failed') THEN @at ELSE h.finished_at END
    FROM fresh f
    CROSS JOIN jsonb_to_recordset(@heals::jsonb) AS n (number int, status text, heal_output jsonb)
    CROSS JOIN LATERAL (SELECT l.id FROM orchestrator_self_heal_events l
                        WHERE l.run_id = f.run_id AND l.number = n.number ORDER BY l.id DESC LIMIT 1) AS newest
    WHERE n.status <> 'started' AND h.run_id = f.run_id AND h.number = n.number AND h.id = newest.id AND h.status IN ('started', 'applied')
), asked AS (
    -- A question, or a task for a person although the run no longer waits.
    INSERT INTO orchestrator_manual_interventions (run_id, number, workflow_run_id, phase, reason, action_required, status, deadline,
                                                   answer, words, resolved_by, created_at, resolved_at)
    SELECT f.run_id, n.number, @workflow_run_id, coalesce(n.phase, ''), n.reason, coalesce(n.action_required, ''), n.status, n.deadline,
           coalesce(n.answer, ''), coalesce(n.words, ''), coalesce(n.resolved_by, ''), @at, CASE WHEN n.status = 'open' THEN NULL ELSE @at END
    FROM fresh f
    CROSS JOIN jsonb_to_recordset(@interventions::jsonb) AS n (number int, phase text, reason text, action_required text, status text,
        deadline timestamptz, answer text, words text, resolved_by text)
    WHERE n.reason IS NOT NULL
    ON CONFLICT (run_id, number, workflow_run_id) DO NOTHING
), answered AS (
    UPDATE orchestrator_manual_interventions i
    SET status = n.status, answer = coalesce(n.answer, ''), words = coalesce(n.words, ''), resolved_by = coalesce(n.resolved_by, ''), resolved_at = @at
    FROM fresh f
    CROSS JOIN jsonb_to_recordset(@interventions::jsonb) AS n (number int, status text, answer text, words text, resolved_by text)
    WHERE n.status <> 'open' AND i.run_id = f.run_id AND i.number = n.number AND i.workflow_run_id = @workflow_run_id AND i.status = 'open'
), abandoned AS (
    -- After the end of the run, no question waits for an answer.
    UPDATE orchestrator_manual_interventions i
    SET status = 'expired', resolved_at = @at
    FROM timely t
    WHERE t.set_run AND @finished AND i.run_id = t.run_id AND i.status = 'open' AND jsonb_array_length(@interventions) = 0
), abandoned_approvals AS (
    UPDATE orchestrator_approvals a
    SET status = 'expired', decided_at = @at
    FROM timely t
    WHERE t.set_run AND @finished AND a.run_id = t.run_id AND a.status = 'pending' AND a.id <> @approval_id
), drafts AS (
    SELECT row_number() OVER (ORDER BY n) AS n, @events::jsonb -> (n - 1) ->> 'type' AS event_type,
           coalesce(@events -> (n - 1) -> 'payload', '{}') AS payload
    FROM generate_series(1, jsonb_array_length(@events)) AS n
    -- The end of an execution is announced once, even if a reset workflow reaches it
    -- again.
    WHERE CASE WHEN n > @end_events::int THEN NOT EXISTS (SELECT FROM again)
               -- Without an end, what they are about was before the phase that a reset workflow begins with.
               WHEN @end_execution = 0 THEN NOT EXISTS (SELECT FROM timely t WHERE t.takes_over) AND NOT EXISTS (
                   SELECT FROM orchestrator_records f
                   WHERE f.workflow_id = @workflow_id AND f.workflow_run_id = @workflow_run_id AND f.seq < 0
                     AND split_part(f.signature, '|', 1) = split_part(@signature, '|', 1))
               ELSE NOT EXISTS (SELECT FROM orchestrator_executions e WHERE e.id = @end_execution AND e.status <> 'running') END
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT t.run_id, t.event_seq + d.n, d.event_type, d.payload
    FROM timely t CROSS JOIN drafts d
    ORDER BY d.n
), changed AS (
    UPDATE orchestrator_runs r
    SET event_seq = r.event_seq + (SELECT count(*) FROM drafts),
        updated_at = clock_timestamp(),
        workflow_started_at = CASE WHEN t.own THEN coalesce(r.workflow_started_at, @at) ELSE r.workflow_started_at END,
        workflow_run_id = CASE WHEN t.own THEN @workflow_run_id ELSE r.workflow_run_id END,
        workflow_id = CASE WHEN t.own THEN @workflow_id ELSE r.workflow_id END,
        workflow_seq = CASE WHEN t.own THEN @seq ELSE r.workflow_seq END,
        superseded_runs = CASE WHEN t.takes_over THEN array_append(r.superseded_runs, r.workflow_run_id) ELSE r.superseded_runs END,
        plan_id = CASE WHEN t.set_run AND @plan_id::bigint <> 0 THEN @plan_id ELSE r.plan_id END,
        phase = CASE WHEN t.set_run AND @phase::text <> '' THEN @phase ELSE r.phase END,
        status = CASE WHEN t.set_run THEN @status::text ELSE r.status END,
        retry_count = CASE WHEN t.set_run THEN @retry_count::int ELSE r.retry_count END,
        last_heal_action = CASE WHEN t.set_run AND @last_heal_action::text <> '' THEN @last_heal_action ELSE r.last_heal_action END,
        waiting_for = CASE WHEN t.set_run THEN @waiting_for::text ELSE r.waiting_for END,
        error_class = CASE WHEN t.set_run THEN @error_class::text ELSE r.error_class END,
        error_code = CASE WHEN t.set_run THEN @error_code::text ELSE r.error_code END,
        error_message = CASE WHEN t.set_run THEN @error_message::text ELSE r.error_message END,
        error_cause = CASE WHEN t.set_run THEN @error_cause::text ELSE r.error_cause END,
        release_branch = CASE WHEN t.set_run AND @branch::text <> '' THEN @branch ELSE r.release_branch END,
        release_commit = CASE WHEN t.set_run AND @commit::text <> '' THEN @commit ELSE r.release_commit END,
        started_at = CASE WHEN t.set_run AND @status <> 'pending' THEN coalesce(r.started_at, @at) ELSE r.started_at END,
        -- A run that stays and has the same status has not ended again.
        finished_at = CASE WHEN NOT t.set_run THEN r.finished_at
                           WHEN @finished AND @staying AND r.status = @status THEN coalesce(r.finished_at, @at)
                           WHEN @finished THEN @at END,
        staying_until = CASE WHEN t.set_run THEN sqlc.narg(staying_until)::timestamptz ELSE r.staying_until END,
        planner_output = CASE WHEN e.phase = 'planner' THEN coalesce(sqlc.narg(end_output), r.planner_output) ELSE r.planner_output END,
        builder_output = CASE WHEN e.phase = 'builder' THEN coalesce(sqlc.narg(end_output), r.builder_output) ELSE r.builder_output END,
        tester_output = CASE WHEN e.phase = 'tester' THEN coalesce(sqlc.narg(end_output), r.tester_output) ELSE r.tester_output END,
        releaser_output = CASE WHEN e.phase = 'releaser' THEN coalesce(sqlc.narg(end_output), r.releaser_output) ELSE r.releaser_output END
    FROM timely t LEFT JOIN ended e ON e.step = ''
    WHERE r.id = t.run_id
    RETURNING r.event_seq
), kept AS (
    INSERT INTO orchestrator_records (workflow_id, workflow_run_id, seq, run_id, signature, task, result)
    SELECT @workflow_id, @workflow_run_id, @seq, f.run_id, @signature, @task, coalesce(a.result, jsonb_build_object('execution', jsonb_build_object(
        'id', coalesce(b.id, 0), 'run_id', coalesce(b.run_id, 0), 'phase', coalesce(b.phase, ''),
        'step', coalesce(b.step, ''), 'agent', coalesce(b.agent, ''), 'attempt', coalesce(b.attempt, 0))))
           || CASE WHEN @end_execution = 0 THEN '{}' ELSE jsonb_build_object('usage', jsonb_build_object(
                  'calls', u.turns, 'prompt_tokens', u.prompt_tokens, 'completion_tokens', u.completion_tokens, 'micro_usd', u.cost_micros,
                  'estimated_price', u.price_estimated)) END
    FROM fresh f CROSS JOIN used u LEFT JOIN begun b ON true LEFT JOIN again a ON true
    RETURNING result
)
-- Metrics count what was applied here, once: a change of the run, an ended phase.
SELECT k.result::jsonb AS result,
       u.open::int AS open_calls,
       o.executions::bigint[] AS unneeded,
       false AS overtaken,
       true AS fresh,
       coalesce(t.set_run, false)::bool AS run_set,
       coalesce(e.phase, '')::text AS ended_phase,
       coalesce(e.seconds, 0)::float8 AS ended_seconds,
       (CASE WHEN c.event_seq IS NOT NULL AND jsonb_array_length(@events) > 0
             THEN pg_notify('rgpt_events', @run_id || ':' || c.event_seq)::text ELSE '' END)::text AS notified
FROM kept k CROSS JOIN used u CROSS JOIN open_unneeded o LEFT JOIN changed c ON true LEFT JOIN timely t ON true LEFT JOIN ended e ON e.step = ''
UNION ALL
SELECT p.result::jsonb, u.open, o.executions, false, false, false, '', 0, '' FROM prior p CROSS JOIN used u CROSS JOIN open_unneeded o
UNION ALL
SELECT '{}', 0, '{}', true, false, false, '', 0, '' FROM overtaken;

-- name: RecordUsual :one
-- What Record does with a usual record, without LockRun and ForgetRecords. No row: nothing has changed, and Record
-- decides.
SELECT answer::jsonb AS result, ended_phase::text AS ended_phase, ended_seconds::float8 AS ended_seconds
FROM rgpt_record(@workflow_id::text, @workflow_run_id::text, @seq::bigint, @signature::text, @task::bigint, @run_id::bigint, @at::timestamptz,
                 @begin_phase::text, @begin_step::text, @begin_agent::text, @begin_provider::text, @begin_model::text,
                 @end_execution::bigint, @end_status::text, @end_class::text, @end_code::text, @end_message::text, @end_cause::text,
                 sqlc.narg(end_output)::jsonb, @events::jsonb, @set_run::boolean, @plan_id::bigint, @phase::text, @status::text, @retry_count::int,
                 @last_heal_action::text, @waiting_for::text, @error_class::text, @error_code::text, @error_message::text, @error_cause::text,
                 @branch::text, @commit::text, @finishes::boolean);
