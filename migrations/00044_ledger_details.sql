-- +goose Up

-- For retention, which removes the details of old entries.
CREATE INDEX orchestrator_ledger_details ON orchestrator_ledger (at) WHERE details IS NOT NULL;

-- +goose StatementBegin
-- Removes the details of the oldest entries before a time, and notes that in the ledger. Roles that may not
-- update the ledger may call it: it removes nothing else.
CREATE FUNCTION rgpt_ledger_remove_details(before TIMESTAMPTZ, most INT) RETURNS BIGINT
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    removed BIGINT;
    last BIGINT;
BEGIN
    WITH old AS (
        SELECT o.seq FROM orchestrator_ledger o WHERE o.details IS NOT NULL AND o.at < before ORDER BY o.at LIMIT most FOR UPDATE SKIP LOCKED
    ), gone AS (
        UPDATE orchestrator_ledger l SET details = NULL FROM old WHERE l.seq = old.seq RETURNING l.seq
    )
    SELECT count(*), coalesce(max(seq), 0) INTO removed, last FROM gone;
    IF removed > 0 THEN
        PERFORM rgpt_ledger_append('system', 'retention', 'details.removed', 'entries up to ' || last, 0,
                                   jsonb_build_object('entries', removed, 'before', before)::text);
    END IF;
    RETURN removed;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION rgpt_ledger_remove_details;
DROP INDEX orchestrator_ledger_details;
