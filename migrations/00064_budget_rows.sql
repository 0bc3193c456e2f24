-- +goose Up
-- As long as there are only a few thousand budgets, the planner joins by reading all of them, including those of
-- earlier runs. These functions look up each budget by its key, in the order in which all transactions lock them.

-- Reserves tokens and money in all of the given budgets, or fails with the SQLSTATE RG001 if one of them does not
-- exist or its limit (0: none) does not cover that. The rows of a project and a tenant are shared by all their
-- runs, so they are locked for this statement and the rest of its batch only, not while a worker decides.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_reserve_budgets(kinds TEXT[], keys TEXT[], tokens BIGINT, micros BIGINT, limit_tokens BIGINT[], limit_micros BIGINT[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    l RECORD;
BEGIN
    FOR l IN
        SELECT * FROM unnest(kinds, keys, limit_tokens, limit_micros) AS u (kind, key, most_tokens, most_micros) ORDER BY kind, key
    LOOP
        -- If another transaction has the row, the condition is checked again after it.
        UPDATE orchestrator_budgets b
        SET reserved_tokens = b.reserved_tokens + tokens, reserved_micros = b.reserved_micros + micros
        WHERE b.scope_kind = l.kind AND b.scope_key = l.key
          AND (l.most_tokens = 0 OR b.spent_tokens + b.reserved_tokens + tokens <= l.most_tokens)
          AND (l.most_micros = 0 OR b.spent_micros + b.reserved_micros + micros <= l.most_micros);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a budget does not cover a model call' USING ERRCODE = 'RG001';
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Adds to the amounts spent and reserved in the given budgets. A negative amount releases a reservation. Budgets
-- that do not exist are skipped.
-- +goose StatementBegin
CREATE FUNCTION rgpt_add_to_budgets(kinds TEXT[], keys TEXT[], add_spent_tokens BIGINT, add_spent_micros BIGINT,
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

-- +goose Down
DROP FUNCTION rgpt_add_to_budgets(TEXT[], TEXT[], BIGINT, BIGINT, BIGINT, BIGINT, BOOLEAN);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_reserve_budgets(kinds TEXT[], keys TEXT[], tokens BIGINT, micros BIGINT, limit_tokens BIGINT[], limit_micros BIGINT[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    changed INTEGER;
BEGIN
    PERFORM FROM orchestrator_budgets
    WHERE (scope_kind, scope_key) IN (SELECT unnest(kinds), unnest(keys))
    ORDER BY scope_kind, scope_key
    FOR UPDATE;

    UPDATE orchestrator_budgets b
    SET reserved_tokens = b.reserved_tokens + tokens, reserved_micros = b.reserved_micros + micros
    FROM unnest(kinds, keys, limit_tokens, limit_micros) AS l (kind, key, most_tokens, most_micros)
    WHERE b.scope_kind = l.kind AND b.scope_key = l.key
      AND (l.most_tokens = 0 OR b.spent_tokens + b.reserved_tokens + tokens <= l.most_tokens)
      AND (l.most_micros = 0 OR b.spent_micros + b.reserved_micros + micros <= l.most_micros);

    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed <> cardinality(kinds) THEN
        RAISE EXCEPTION 'a budget does not cover a model call' USING ERRCODE = 'RG001';
    END IF;
END
$$;
-- +goose StatementEnd
