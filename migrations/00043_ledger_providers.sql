-- +goose Up

-- +goose StatementBegin
-- A run's first call of a model provider, which uses that provider's credentials, is an entry of the
-- ledger.
CREATE FUNCTION rgpt_ledger_provider() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM orchestrator_model_calls c WHERE c.run_id = NEW.run_id AND c.provider = NEW.provider AND c.id < NEW.id) THEN
        RETURN NULL;
    END IF;
    PERFORM rgpt_ledger_append('agent', NEW.agent || ' ' || NEW.provider || '/' || NEW.model, 'provider.used',
                               'credentials of provider ' || NEW.provider, NEW.run_id,
                               jsonb_build_object('provider', NEW.provider, 'call_id', NEW.id)::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_providers AFTER INSERT ON orchestrator_model_calls
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_provider();

-- +goose Down
DROP TRIGGER orchestrator_ledger_providers ON orchestrator_model_calls;
DROP FUNCTION rgpt_ledger_provider;
