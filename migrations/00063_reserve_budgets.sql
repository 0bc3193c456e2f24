-- +goose Up
-- Reserves tokens and money in all of the given budgets, or fails with the SQLSTATE RG001 if one of them does not
-- exist or its limit (0: none) does not cover that. The rows of a project and a tenant are shared by all their
-- runs, so they are locked for this statement and the rest of its batch only, not while a worker decides.
-- +goose StatementBegin
CREATE FUNCTION rgpt_reserve_budgets(kinds TEXT[], keys TEXT[], tokens BIGINT, micros BIGINT, limit_tokens BIGINT[], limit_micros BIGINT[])
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

-- +goose Down
DROP FUNCTION rgpt_reserve_budgets(TEXT[], TEXT[], BIGINT, BIGINT, BIGINT[], BIGINT[]);
