-- +goose Up

-- +goose StatementBegin
-- The first call of a run that each model provider answered, with a response or an error, is an entry of
-- the ledger: it used that provider's credentials. Two first calls at the same time are two entries.
CREATE FUNCTION rgpt_ledger_provider() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM orchestrator_model_calls c
               WHERE c.run_id = NEW.run_id AND c.provider = NEW.provider AND c.status IN ('done', 'failed') AND c.id <> NEW.id) THEN
        RETURN NULL;
    END IF;
    PERFORM rgpt_ledger_append('agent', NEW.agent || ' ' || NEW.provider || '/' || NEW.model, 'provider.used',
                               'credentials of provider ' || NEW.provider, NEW.run_id,
                               jsonb_build_object('provider', NEW.provider, 'call_id', NEW.id)::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_providers AFTER UPDATE OF status ON orchestrator_model_calls
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.status IN ('done', 'failed') AND OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION rgpt_ledger_provider();

-- +goose Down
DROP TRIGGER orchestrator_ledger_providers ON orchestrator_model_calls;
DROP FUNCTION rgpt_ledger_provider;
