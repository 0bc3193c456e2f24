-- +goose Up

ALTER TABLE orchestrator_trigger_firings
    ADD COLUMN accepted_at TIMESTAMPTZ, -- when it was found to be in time; from then on, it waits as long as it must
    ADD COLUMN tried_at    TIMESTAMPTZ, -- first attempt to create its run
    ADD COLUMN creating    BOOLEAN NOT NULL DEFAULT false; -- a server creates its run, until next_at
CREATE INDEX orchestrator_trigger_firings_newest ON orchestrator_trigger_firings (trigger, id);

-- +goose StatementBegin
-- What people and clients do with triggers. What a trigger does itself is an event of its run.
CREATE FUNCTION rgpt_ledger_trigger_firing() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    sender TEXT := coalesce(current_setting('rgpt.by', true), '');
BEGIN
    IF sender <> '' THEN
        PERFORM rgpt_ledger_command(sender, CASE WHEN TG_OP = 'INSERT' THEN 'trigger.requested' ELSE 'trigger.redelivered' END,
            'trigger ' || NEW.trigger, 0, jsonb_build_object('id', NEW.id, 'delivery', rgpt_ledger_text(NEW.delivery)));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_trigger_firings AFTER INSERT ON orchestrator_trigger_firings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_trigger_firing();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_trigger_firings_again AFTER UPDATE OF state ON orchestrator_trigger_firings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.state IN ('skipped', 'failed') AND NEW.state = 'waiting')
    EXECUTE FUNCTION rgpt_ledger_trigger_firing();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_trigger_pause() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.paused_at IS NOT NULL THEN
        PERFORM rgpt_ledger_command(NEW.paused_by, 'trigger.paused', 'trigger ' || NEW.name, 0, jsonb_build_object('reason', rgpt_ledger_text(NEW.reason)));
    ELSE
        PERFORM rgpt_ledger_command(current_setting('rgpt.by', true), 'trigger.resumed', 'trigger ' || NEW.name, 0, '{}');
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_triggers AFTER INSERT ON orchestrator_triggers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.paused_at IS NOT NULL) EXECUTE FUNCTION rgpt_ledger_trigger_pause();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_triggers_change AFTER UPDATE OF paused_at ON orchestrator_triggers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((OLD.paused_at IS NULL) <> (NEW.paused_at IS NULL)) EXECUTE FUNCTION rgpt_ledger_trigger_pause();

-- +goose StatementBegin
-- A run that a trigger created was not created by a person. contract.Nameless has the same list.
CREATE OR REPLACE FUNCTION rgpt_ledger_actor(sender TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN lower(btrim(sender)) IN ('', 'api', 'dashboard', 'the command line', 'unnamed', 'the system', 'the forge')
                  OR starts_with(lower(btrim(sender)), 'trigger ') THEN 'client' ELSE 'person' END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_ledger_actor(sender TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN lower(btrim(sender)) IN ('', 'api', 'dashboard', 'the command line', 'unnamed', 'the system', 'the forge') THEN 'client' ELSE 'person' END
$$;
-- +goose StatementEnd
DROP TRIGGER orchestrator_ledger_triggers_change ON orchestrator_triggers;
DROP TRIGGER orchestrator_ledger_triggers ON orchestrator_triggers;
DROP TRIGGER orchestrator_ledger_trigger_firings_again ON orchestrator_trigger_firings;
DROP TRIGGER orchestrator_ledger_trigger_firings ON orchestrator_trigger_firings;
DROP FUNCTION rgpt_ledger_trigger_pause, rgpt_ledger_trigger_firing;
DROP INDEX orchestrator_trigger_firings_newest;
ALTER TABLE orchestrator_trigger_firings DROP COLUMN creating, DROP COLUMN tried_at, DROP COLUMN accepted_at;
