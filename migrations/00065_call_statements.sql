-- +goose Up
-- A run makes many model calls. These functions do in one statement what nearly all of them need. Workers of the
-- version before still call rgpt_reserve_budgets until they are replaced.

-- Creates a model call that nobody has begun, adds the messages to its model before the turn, and reserves tokens and
-- money for it in all of the given budgets, which are created if need be. Returns the id of the call, or NULL if it
-- exists.
--
-- It does nothing, and fails with the SQLSTATE RG001, if a limit (0: none) of a budget does not cover the whole call,
-- or if a budget has reached the fraction warn_at of a limit and nobody was warned: then the budgets must be read.
-- Budgets are updated last, in the order of their keys, because runs share some of them: their rows are locked for as
-- short a time as possible.
-- +goose StatementBegin
CREATE FUNCTION rgpt_begin_call(run BIGINT, execution BIGINT, its_turn INT, its_phase TEXT, its_step TEXT, its_agent TEXT,
                                its_provider TEXT, its_model TEXT, its_prompt_version TEXT, its_route JSONB, its_scopes JSONB,
                                kinds TEXT[], keys TEXT[], limit_tokens BIGINT[], limit_micros BIGINT[], tokens BIGINT, micros BIGINT,
                                warn_at FLOAT8, told JSONB, told_from INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    call BIGINT;
    l RECORD;
BEGIN
    INSERT INTO orchestrator_model_calls (run_id, execution_id, turn, phase, step, agent, provider, model, prompt_version, route,
                                          status, tries, scopes, reserved_tokens, reserved_micros)
    VALUES (run, execution, its_turn, its_phase, its_step, its_agent, its_provider, its_model, its_prompt_version, its_route,
            'reserved', 1, its_scopes, tokens, micros)
    ON CONFLICT (execution_id, turn) DO NOTHING
    RETURNING id INTO call;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF jsonb_array_length(told) > 0 THEN
        INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content)
        SELECT execution, its_turn - 1, told_from + m.n - 1, coalesce(m.value ->> 'role', ''), m.value -> 'content'
        FROM (SELECT n, told -> (n - 1) AS value FROM generate_series(1, jsonb_array_length(told)) AS n) m
        ON CONFLICT (execution_id, turn, position) DO NOTHING;
    END IF;
    FOR l IN
        SELECT * FROM unnest(kinds, keys, limit_tokens, limit_micros) AS u (kind, key, most_tokens, most_micros) ORDER BY kind, key
    LOOP
        FOR attempt IN 1..2 LOOP
            -- If another transaction has the row, the condition is checked again after it.
            UPDATE orchestrator_budgets b
            SET reserved_tokens = b.reserved_tokens + tokens, reserved_micros = b.reserved_micros + micros
            WHERE b.scope_kind = l.kind AND b.scope_key = l.key
              AND (l.most_tokens = 0 OR b.spent_tokens < l.most_tokens AND b.spent_tokens + b.reserved_tokens + tokens <= l.most_tokens
                                        AND (b.warned OR b.spent_tokens < warn_at * l.most_tokens))
              AND (l.most_micros = 0 OR b.spent_micros < l.most_micros AND b.spent_micros + b.reserved_micros + micros <= l.most_micros
                                        AND (b.warned OR b.spent_micros < warn_at * l.most_micros));
            EXIT WHEN FOUND;
            INSERT INTO orchestrator_budgets (scope_kind, scope_key) VALUES (l.kind, l.key) ON CONFLICT (scope_kind, scope_key) DO NOTHING;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'a budget does not cover a model call' USING ERRCODE = 'RG001';
            END IF;
        END LOOP;
    END LOOP;
    RETURN call;
END
$$;
-- +goose StatementEnd

-- Completes the current attempt of a model call: stores its response and the messages that it adds to the
-- conversation, and replaces its reservation by what it has used. Returns the status of its run. It does nothing, and
-- fails with the SQLSTATE RG001, if the attempt is not the current one or has ended, or if other attempts are open.
-- +goose StatementBegin
CREATE FUNCTION rgpt_complete_call(call BIGINT, attempt INT, used_prompt BIGINT, used_completion BIGINT, used_cached BIGINT,
                                   used_cache_write BIGINT, used_reasoning BIGINT, used_micros BIGINT, estimated BOOLEAN,
                                   its_latency_ms BIGINT, response JSONB, messages JSONB)
RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
    c RECORD;
BEGIN
    UPDATE orchestrator_model_calls m
    SET status = 'done', answer_try = attempt, settled = array_append(m.settled, attempt), reserved_tokens = 0, reserved_micros = 0,
        prompt_tokens = m.prompt_tokens + used_prompt, completion_tokens = m.completion_tokens + used_completion,
        cached_tokens = m.cached_tokens + used_cached, cache_write_tokens = m.cache_write_tokens + used_cache_write,
        reasoning_tokens = m.reasoning_tokens + used_reasoning, price_estimated = m.price_estimated OR estimated,
        cost_micros = m.cost_micros + used_micros, latency_ms = its_latency_ms, answer = response,
        error_class = '', error_code = '', error_message = '', finished_at = clock_timestamp()
    FROM (
        SELECT id, scopes, reserved_tokens, reserved_micros FROM orchestrator_model_calls
        WHERE id = call AND status = 'reserved' AND tries = attempt AND superseded = '[]' AND given_up = '[]' AND NOT attempt = ANY (settled)
        FOR UPDATE) AS before
    WHERE m.id = before.id
    RETURNING m.run_id, m.execution_id, m.turn, before.scopes, before.reserved_tokens, before.reserved_micros INTO c;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the attempt is not the only open one of its model call' USING ERRCODE = 'RG001';
    END IF;
    INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content)
    SELECT c.execution_id, c.turn, a.n - 1, coalesce(a.value ->> 'role', ''), a.value -> 'content'
    FROM (SELECT n, messages -> (n - 1) AS value FROM generate_series(1, jsonb_array_length(messages)) AS n) a
    ON CONFLICT (execution_id, turn, position) DO NOTHING;
    PERFORM rgpt_add_to_budgets(
        ARRAY (SELECT s ->> 'kind' FROM jsonb_array_elements(c.scopes) AS s), ARRAY (SELECT s ->> 'key' FROM jsonb_array_elements(c.scopes) AS s),
        used_prompt + used_completion, used_micros, -c.reserved_tokens, -c.reserved_micros, estimated);
    RETURN (SELECT r.status FROM orchestrator_runs r WHERE r.id = c.run_id);
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION rgpt_begin_call, rgpt_complete_call;
