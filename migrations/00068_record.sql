-- +goose Up
-- A run makes about 18 records, and each waits for the one before. The query Record covers every case in one statement of
-- about 50 parts, all of which PostgreSQL starts although nearly all do nothing. This function executes only those that a
-- usual record needs.

-- Applies a record as the query Record does, and returns what that returns, or no row, without any change, if the record
-- is not usual: the query then decides. The caller has checked that it does not make its run stay with its branch, and that
-- it has no approval, heal or intervention. It is not usual if
--   - its run does not exist or is over;
--   - it finishes its run, and something of that is left open: another execution, a model call, an approval or an
--     intervention;
--   - its workflow run has a record with the same or a later number, a forgotten one, or one of a later task;
--   - its workflow run was replaced by another one or replaces one, or it comes late to its run;
--   - the execution to end is not a running one of the run, or has model calls whose outcome is unknown.
-- +goose StatementBegin
CREATE FUNCTION rgpt_record(sender TEXT, sender_run TEXT, number BIGINT, its_signature TEXT, its_task BIGINT, run BIGINT, at TIMESTAMPTZ,
                            begin_phase TEXT, begin_step TEXT, begin_agent TEXT, begin_provider TEXT, begin_model TEXT,
                            end_execution BIGINT, end_status TEXT, end_class TEXT, end_code TEXT, end_message TEXT, end_cause TEXT, end_output JSONB,
                            events JSONB, set_run BOOLEAN, its_plan BIGINT, its_phase TEXT, its_status TEXT, its_retries INT, heal_action TEXT,
                            waits_for TEXT, its_class TEXT, its_code TEXT, its_message TEXT, its_cause TEXT, branch TEXT, commit_id TEXT, finishes BOOLEAN)
RETURNS TABLE (answer JSONB, ended_phase TEXT, ended_seconds FLOAT8) LANGUAGE plpgsql AS $$
DECLARE
    of_run RECORD;
    last RECORD;
    used RECORD;
    ended RECORD;
    own BOOLEAN := sender = 'run-' || run;
    added INT := jsonb_array_length(events);
    begun BIGINT := 0;
    attempts INT := 0;
BEGIN
    -- The lock orders the transactions that add events to the run. Each later statement sees what the earlier of these
    -- have committed, so everything else is read after it.
    SELECT r.event_seq, r.status, r.workflow_run_id, r.workflow_seq, r.superseded_runs INTO of_run
    FROM orchestrator_runs r WHERE r.id = run FOR NO KEY UPDATE;
    IF NOT FOUND OR of_run.status IN ('done', 'failed', 'cancelled') OR sender_run = ANY (of_run.superseded_runs)
       OR own AND (of_run.workflow_run_id NOT IN ('', sender_run) OR of_run.workflow_run_id = sender_run AND number <= of_run.workflow_seq) THEN
        RETURN;
    END IF;
    SELECT r.seq, r.task INTO last
    FROM orchestrator_records r WHERE r.workflow_id = sender AND r.workflow_run_id = sender_run ORDER BY r.seq DESC LIMIT 1;
    -- A workflow run that has no records has none that were forgotten.
    IF FOUND AND (last.seq >= number OR its_task > 0 AND last.task > its_task OR EXISTS (
            SELECT FROM orchestrator_records r WHERE r.workflow_id = sender AND r.workflow_run_id = sender_run AND r.seq < 0)) THEN
        RETURN;
    END IF;
    IF finishes AND (
            EXISTS (SELECT FROM orchestrator_executions e WHERE e.run_id = run AND e.status = 'running' AND e.id <> end_execution)
            OR EXISTS (SELECT FROM orchestrator_model_calls c WHERE c.run_id = run AND (c.status = 'reserved' OR c.superseded <> '[]'))
            OR EXISTS (SELECT FROM orchestrator_approvals a WHERE a.run_id = run AND a.status = 'pending')
            OR EXISTS (SELECT FROM orchestrator_manual_interventions i WHERE i.run_id = run AND i.status = 'open')) THEN
        RETURN;
    END IF;

    ended_phase := '';
    ended_seconds := 0;
    IF end_execution <> 0 THEN
        SELECT count(*) FILTER (WHERE c.status = 'done')::int AS turns,
               count(*) FILTER (WHERE c.status = 'reserved' OR c.superseded <> '[]') AS open,
               coalesce(sum(c.prompt_tokens), 0)::bigint AS prompt_tokens,
               coalesce(sum(c.completion_tokens), 0)::bigint AS completion_tokens,
               coalesce(sum(c.cost_micros), 0)::bigint AS cost_micros,
               coalesce(bool_or(c.price_estimated), false) AS price_estimated
        INTO used
        FROM orchestrator_model_calls c WHERE c.execution_id = end_execution;
        IF used.open > 0 THEN
            RETURN;
        END IF;
        UPDATE orchestrator_executions e
        SET status = end_status, error_class = end_class, error_code = end_code, error_message = end_message, error_cause = end_cause,
            output = end_output, turns = used.turns, prompt_tokens = used.prompt_tokens, completion_tokens = used.completion_tokens,
            cost_micros = used.cost_micros, price_estimated = used.price_estimated, finished_at = at
        WHERE e.id = end_execution AND e.run_id = run AND e.status = 'running'
        RETURNING e.phase, e.step, extract(epoch FROM e.finished_at - e.started_at)::float8 AS seconds INTO ended;
        IF NOT FOUND THEN -- so nothing has changed
            RETURN;
        END IF;
        IF ended.step = '' THEN
            ended_phase := ended.phase;
            ended_seconds := ended.seconds;
        END IF;
        UPDATE orchestrator_phases p SET status = end_status, finished_at = at WHERE p.execution_id = end_execution;
    END IF;

    IF begin_phase <> '' THEN
        INSERT INTO orchestrator_executions AS e (run_id, phase, step, agent, attempt, provider, model, started_at)
        VALUES (run, begin_phase, begin_step, begin_agent,
                1 + coalesce((SELECT max(o.attempt) FROM orchestrator_executions o
                              WHERE o.run_id = run AND o.phase = begin_phase AND o.step = begin_step), 0),
                begin_provider, begin_model, at)
        RETURNING e.id, e.attempt INTO begun, attempts;
        IF begin_step = '' THEN
            INSERT INTO orchestrator_phases (run_id, phase, attempt, execution_id, started_at) VALUES (run, begin_phase, attempts, begun, at);
        END IF;
    END IF;

    IF added > 0 THEN
        INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
        SELECT run, of_run.event_seq + n, events -> (n - 1) ->> 'type', coalesce(events -> (n - 1) -> 'payload', '{}')
        FROM generate_series(1, added) AS n ORDER BY n;
        PERFORM pg_notify('rgpt_events', run || ':' || of_run.event_seq + added);
    END IF;

    IF set_run THEN
        UPDATE orchestrator_runs r
        SET event_seq = r.event_seq + added,
            updated_at = clock_timestamp(),
            workflow_started_at = CASE WHEN own THEN coalesce(r.workflow_started_at, at) ELSE r.workflow_started_at END,
            workflow_run_id = CASE WHEN own THEN sender_run ELSE r.workflow_run_id END,
            workflow_id = CASE WHEN own THEN sender ELSE r.workflow_id END,
            workflow_seq = CASE WHEN own THEN number ELSE r.workflow_seq END,
            plan_id = CASE WHEN its_plan <> 0 THEN its_plan ELSE r.plan_id END,
            phase = CASE WHEN its_phase <> '' THEN its_phase ELSE r.phase END,
            status = its_status,
            retry_count = its_retries,
            last_heal_action = CASE WHEN heal_action <> '' THEN heal_action ELSE r.last_heal_action END,
            waiting_for = waits_for,
            error_class = its_class,
            error_code = its_code,
            error_message = its_message,
            error_cause = its_cause,
            release_branch = CASE WHEN branch <> '' THEN branch ELSE r.release_branch END,
            release_commit = CASE WHEN commit_id <> '' THEN commit_id ELSE r.release_commit END,
            started_at = CASE WHEN its_status <> 'pending' THEN coalesce(r.started_at, at) ELSE r.started_at END,
            finished_at = CASE WHEN finishes THEN at END,
            staying_until = NULL
        WHERE r.id = run;
    ELSIF own THEN
        UPDATE orchestrator_runs r
        SET event_seq = r.event_seq + added, updated_at = clock_timestamp(), workflow_started_at = coalesce(r.workflow_started_at, at),
            workflow_run_id = sender_run, workflow_id = sender, workflow_seq = number
        WHERE r.id = run;
    ELSE
        UPDATE orchestrator_runs r SET event_seq = r.event_seq + added, updated_at = clock_timestamp() WHERE r.id = run;
    END IF;
    IF ended_phase <> '' AND end_output IS NOT NULL THEN
        UPDATE orchestrator_runs r
        SET planner_output = CASE ended_phase WHEN 'planner' THEN end_output ELSE r.planner_output END,
            builder_output = CASE ended_phase WHEN 'builder' THEN end_output ELSE r.builder_output END,
            tester_output = CASE ended_phase WHEN 'tester' THEN end_output ELSE r.tester_output END,
            releaser_output = CASE ended_phase WHEN 'releaser' THEN end_output ELSE r.releaser_output END
        WHERE r.id = run;
    END IF;

    answer := jsonb_build_object('execution', CASE WHEN begun = 0
        THEN '{"id": 0, "run_id": 0, "phase": "", "step": "", "agent": "", "attempt": 0}'
        ELSE jsonb_build_object('id', begun, 'run_id', run, 'phase', begin_phase, 'step', begin_step, 'agent', begin_agent, 'attempt', attempts) END);
    IF end_execution <> 0 THEN
        answer := answer || jsonb_build_object('usage', jsonb_build_object(
            'calls', used.turns, 'prompt_tokens', used.prompt_tokens, 'completion_tokens', used.completion_tokens, 'micro_usd', used.cost_micros,
            'estimated_price', used.price_estimated));
    END IF;
    INSERT INTO orchestrator_records (workflow_id, workflow_run_id, seq, run_id, signature, task, result)
    VALUES (sender, sender_run, number, run, its_signature, its_task, answer);
    RETURN NEXT;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION rgpt_record;
