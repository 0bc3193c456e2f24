-- +goose Up
-- One statement changes all budgets of a model call, not one each: it creates or locks their rows one after the other, in
-- the order of their keys. ON CONFLICT changes the current version of a row, so a wait for another transaction is no
-- reason to evaluate the statement again, as it is for an UPDATE.

-- Does the same as before, without a statement for each budget.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_begin_call(run BIGINT, execution BIGINT, its_turn INT, its_phase TEXT, its_step TEXT, its_agent TEXT,
                                           its_provider TEXT, its_model TEXT, its_prompt_version TEXT, its_route JSONB, its_scopes JSONB,
                                           kinds TEXT[], keys TEXT[], limit_tokens BIGINT[], limit_micros BIGINT[], tokens BIGINT, micros BIGINT,
                                           warn_at FLOAT8, told JSONB, told_from INT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE
    call BIGINT;
    covered INT;
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
    -- A condition on a budget is checked when its row is locked. A new one has spent nothing.
    INSERT INTO orchestrator_budgets AS b (scope_kind, scope_key, reserved_tokens, reserved_micros)
    SELECT kind, key, tokens, micros
    FROM unnest(kinds, keys, limit_tokens, limit_micros) AS l (kind, key, most_tokens, most_micros)
    WHERE (most_tokens = 0 OR tokens <= most_tokens) AND (most_micros = 0 OR micros <= most_micros)
    ORDER BY kind, key
    ON CONFLICT (scope_kind, scope_key) DO UPDATE
    SET reserved_tokens = b.reserved_tokens + tokens, reserved_micros = b.reserved_micros + micros
    WHERE EXISTS (
        SELECT FROM unnest(kinds, keys, limit_tokens, limit_micros) AS l (kind, key, most_tokens, most_micros)
        WHERE l.kind = b.scope_kind AND l.key = b.scope_key
          AND (l.most_tokens = 0 OR b.spent_tokens < l.most_tokens AND b.spent_tokens + b.reserved_tokens + tokens <= l.most_tokens
                                    AND (b.warned OR b.spent_tokens < warn_at * l.most_tokens))
          AND (l.most_micros = 0 OR b.spent_micros < l.most_micros AND b.spent_micros + b.reserved_micros + micros <= l.most_micros
                                    AND (b.warned OR b.spent_micros < warn_at * l.most_micros)));
    GET DIAGNOSTICS covered = ROW_COUNT;
    IF covered <> cardinality(kinds) THEN
        RAISE EXCEPTION 'a budget does not cover a model call' USING ERRCODE = 'RG001';
    END IF;
    RETURN call;
END
$$;
-- +goose StatementEnd

-- Adds to the amounts spent and reserved in the given budgets, which are created if need be. A negative amount releases a
-- reservation.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_add_to_budgets(kinds TEXT[], keys TEXT[], add_spent_tokens BIGINT, add_spent_micros BIGINT,
                                               add_reserved_tokens BIGINT, add_reserved_micros BIGINT, estimated BOOLEAN)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orchestrator_budgets AS b (scope_kind, scope_key, spent_tokens, spent_micros, reserved_tokens, reserved_micros, price_estimated)
    SELECT DISTINCT kind, key, add_spent_tokens, add_spent_micros, greatest(0, add_reserved_tokens), greatest(0, add_reserved_micros), estimated
    FROM unnest(kinds, keys) AS u (kind, key) ORDER BY kind, key
    ON CONFLICT (scope_kind, scope_key) DO UPDATE
    SET spent_tokens = b.spent_tokens + add_spent_tokens, spent_micros = b.spent_micros + add_spent_micros,
        reserved_tokens = greatest(0, b.reserved_tokens + add_reserved_tokens),
        reserved_micros = greatest(0, b.reserved_micros + add_reserved_micros),
        price_estimated = b.price_estimated OR estimated;
END
$$;
-- +goose StatementEnd

-- A trigger before each row would run for all budgets of each call, and one before an UPDATE, even if it is of other
-- columns, locks and logs each row in advance. No statement changes the kind of a budget.
DROP TRIGGER orchestrator_budgets_scope_kind ON orchestrator_budgets;
CREATE TRIGGER orchestrator_budgets_scope_kind AFTER INSERT ON orchestrator_budgets
    FOR EACH ROW EXECUTE FUNCTION rgpt_check_scope_kind();

-- +goose Down
DROP TRIGGER orchestrator_budgets_scope_kind ON orchestrator_budgets;
CREATE TRIGGER orchestrator_budgets_scope_kind BEFORE INSERT OR UPDATE OF scope_kind ON orchestrator_budgets
    FOR EACH ROW EXECUTE FUNCTION rgpt_check_scope_kind();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_add_to_budgets(kinds TEXT[], keys TEXT[], add_spent_tokens BIGINT, add_spent_micros BIGINT,
                                               add_reserved_tokens BIGINT, add_reserved_micros BIGINT, estimated BOOLEAN)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l RECORD;
BEGIN
    FOR l IN SELECT DISTINCT kind, key FROM unnest(kinds, keys) AS u (kind, key) ORDER BY kind, key LOOP
        UPDATE orchestrator_budgets b
        SET spent_tokens = b.spent_tokens + add_spent_tokens, spent_micros = b.spent_micros + add_spent_micros,
            reserved_tokens = greatest(0, b.reserved_tokens + add_reserved_tokens),
            reserved_micros = greatest(0, b.reserved_micros + add_reserved_micros),
            price_estimated = b.price_estimated OR estimated
        WHERE b.scope_kind = l.kind AND b.scope_key = l.key;
    END LOOP;
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_begin_call(run BIGINT, execution BIGINT, its_turn INT, its_phase TEXT, its_step TEXT, its_agent TEXT,
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
