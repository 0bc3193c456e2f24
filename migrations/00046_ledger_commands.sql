-- +goose Up

-- The settings of the policy gate that apply to new runs, as they were when a server started or a run was
-- created the last time. A row that does not change makes no entry, however many servers write it.
CREATE TABLE orchestrator_gate_settings (
    one        BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    digest     TEXT NOT NULL,
    settings   JSONB NOT NULL, -- by key
    changed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);

-- +goose StatementBegin
-- A client whose user gave no name is not a person. contract.Nameless has the same list.
CREATE FUNCTION rgpt_ledger_actor(sender TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN lower(btrim(sender)) IN ('', 'api', 'dashboard', 'the command line', 'unnamed', 'the system', 'the forge') THEN 'client' ELSE 'person' END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Text of an entry: short, and an address in it without credentials, query and fragment.
CREATE FUNCTION rgpt_ledger_text(t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT left(CASE WHEN t ~ '^[A-Za-z][A-Za-z0-9+.-]*://' THEN
        regexp_replace(regexp_replace(t, '[?#].*$', ''), '^([A-Za-z][A-Za-z0-9+.-]*://)[^/]*@', '\1') ELSE coalesce(t, '') END, 500)
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Appends a command of a person or a client. The statement that changes something without a column for
-- the sender sets rgpt.by in its transaction.
CREATE FUNCTION rgpt_ledger_command(sender TEXT, action TEXT, object TEXT, run_id BIGINT, details JSONB) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
    PERFORM rgpt_ledger_append(rgpt_ledger_actor(coalesce(sender, '')), CASE WHEN btrim(coalesce(sender, '')) = '' THEN 'unnamed' ELSE left(sender, 200) END,
                               action, object, coalesce(run_id, 0), jsonb_strip_nulls(details)::text);
END
$$;
-- +goose StatementEnd
REVOKE EXECUTE ON FUNCTION rgpt_ledger_command FROM PUBLIC;

-- +goose StatementBegin
-- Events that say who did what become entries, in their own transaction, at its end: the lock of the
-- chain is the last that a transaction takes, and the shortest.
CREATE OR REPLACE FUNCTION rgpt_ledger_event() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    by_whom TEXT := coalesce(nullif(NEW.payload ->> 'by', 'the clock'), '');
    done_step TEXT := coalesce(NEW.payload ->> 'step', '');
    object TEXT := 'run ' || NEW.run_id;
    author TEXT;
BEGIN
    IF by_whom = '' AND NEW.payload ? 'by' AND NEW.payload ->> 'by' = '' AND NEW.event_type IN (
        'run.updated', 'approval.granted', 'approval.rejected', 'message.added', 'model.switched', 'label.added', 'label.removed',
        'pipeline.spawned', 'pipeline.commanded', 'models_switched') THEN
        by_whom := 'unnamed'; -- a command whose sender gave no name
    END IF;
    IF NEW.event_type = 'run.updated' AND by_whom = '' THEN
        RETURN NULL; -- a state, not an act
    END IF;
    IF NEW.event_type IN ('pipeline.spawned', 'pipeline.commanded', 'models_switched') THEN
        object := 'pipeline ' || coalesce(NEW.payload ->> 'pipeline_id', '0');
    ELSIF done_step <> '' THEN
        object := object || ' ' || done_step;
    END IF;
    IF by_whom <> '' THEN
        PERFORM rgpt_ledger_append(rgpt_ledger_actor(by_whom), by_whom, NEW.event_type, object, NEW.run_id, NEW.payload::text);
        RETURN NULL;
    END IF;
    IF NEW.event_type IN ('planner.completed', 'step.completed', 'step.error') THEN
        SELECT e.agent || ' ' || e.provider || '/' || e.model INTO author
        FROM orchestrator_executions e
        WHERE e.run_id = NEW.run_id AND e.phase = CASE WHEN NEW.event_type = 'planner.completed' THEN 'planner' ELSE e.phase END
          AND e.step = done_step AND e.model <> ''
        ORDER BY e.id DESC LIMIT 1;
    END IF;
    PERFORM rgpt_ledger_append(CASE WHEN author IS NULL THEN 'system' ELSE 'agent' END, coalesce(author, 'rgpt'),
                               NEW.event_type, object, NEW.run_id, NEW.payload::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
-- This trigger is one of its own, so that the lists of the other ones stay as they are.
CREATE CONSTRAINT TRIGGER orchestrator_ledger_pipelines AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type IN ('pipeline.spawned', 'pipeline.commanded', 'models_switched'))
    EXECUTE FUNCTION rgpt_ledger_event();

-- +goose StatementBegin
-- Attempts at a goal: a person stops all of them, or the system chooses one.
CREATE FUNCTION rgpt_ledger_attempts() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.stopped_at IS NULL AND NEW.stopped_at IS NOT NULL THEN
        PERFORM rgpt_ledger_command(NEW.stopped_by, 'attempts.stopped', 'attempts ' || NEW.id, 0, '{}');
    END IF;
    IF OLD.decided_at IS NULL AND NEW.decided_at IS NOT NULL THEN
        PERFORM rgpt_ledger_append('system', 'rgpt', 'attempts.decided', 'attempts ' || NEW.id, coalesce(NEW.winner, 0),
            jsonb_strip_nulls(jsonb_build_object('winner', NEW.winner, 'rule', NEW.rule, 'reason', rgpt_ledger_text(NEW.reason), 'judge_run', NEW.judge_run))::text);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_attempts AFTER UPDATE ON orchestrator_attempt_groups
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.stopped_at IS DISTINCT FROM NEW.stopped_at OR OLD.decided_at IS DISTINCT FROM NEW.decided_at)
    EXECUTE FUNCTION rgpt_ledger_attempts();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_model_choice() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rgpt_ledger_command(NEW.changed_by, 'model_choice.changed', 'agent ' || NEW.agent, 0,
                                jsonb_build_object('from', NEW.old_choice, 'to', NEW.new_choice));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_model_choices AFTER INSERT ON orchestrator_model_choice_changes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_model_choice();

-- +goose StatementBegin
-- The stored catalogue of models: one entry for each transaction, with the number of models that it wrote.
-- rgpt.catalogue is the transaction that has its entry.
CREATE FUNCTION rgpt_ledger_catalogue() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    own TEXT := pg_current_xact_id()::text;
    written BIGINT;
BEGIN
    IF current_setting('rgpt.catalogue', true) = own THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('rgpt.catalogue', own, true);
    IF TG_OP = 'DELETE' THEN
        PERFORM rgpt_ledger_command(current_setting('rgpt.by', true), 'models.reset', 'catalogue of models', 0, '{}');
        RETURN NULL;
    END IF;
    SELECT count(*) INTO written FROM orchestrator_model_catalogue c WHERE c.xmin = pg_current_xact_id()::xid;
    PERFORM rgpt_ledger_command(NEW.changed_by, CASE WHEN NEW.kind = 'check' THEN 'models.checked' ELSE 'models.updated' END,
        CASE WHEN written = 1 THEN 'model ' || NEW.provider || '/' || NEW.model ELSE 'catalogue of models' END, 0, jsonb_build_object('models', written));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_catalogue AFTER INSERT OR UPDATE OR DELETE ON orchestrator_model_catalogue
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_catalogue();

-- +goose StatementBegin
-- An entry of the quarantine that another one replaces in the same transaction is not removed by a
-- command of its own.
CREATE FUNCTION rgpt_ledger_quarantine() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    object TEXT := 'test ' || rgpt_ledger_text(NEW.name);
    about JSONB := jsonb_build_object('id', NEW.id, 'repo', rgpt_ledger_text(NEW.repo), 'check', nullif(NEW.check_id, ''), 'reason', rgpt_ledger_text(NEW.reason));
BEGIN
    IF TG_OP = 'INSERT' AND NEW.source = 'policy' THEN
        PERFORM rgpt_ledger_append('system', NEW.created_by, 'quarantine.added', object, 0, jsonb_strip_nulls(about || jsonb_build_object('expires_at', NEW.expires_at))::text);
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM rgpt_ledger_command(NEW.created_by, 'quarantine.added', object, 0, about || jsonb_build_object('expires_at', NEW.expires_at));
    ELSIF NOT EXISTS (SELECT FROM orchestrator_quarantine q WHERE q.repo = NEW.repo AND q.name = NEW.name AND q.check_id = NEW.check_id
                      AND q.id > NEW.id AND q.created_at = NEW.removed_at) THEN
        PERFORM rgpt_ledger_command(NEW.removed_by, 'quarantine.removed', object, 0, about);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_quarantine AFTER INSERT ON orchestrator_quarantine
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_quarantine();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_quarantine_end AFTER UPDATE OF removed_at ON orchestrator_quarantine
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.removed_at IS NULL AND NEW.removed_at IS NOT NULL)
    EXECUTE FUNCTION rgpt_ledger_quarantine();

-- +goose StatementBegin
-- Setups of repositories. Their settings may contain variables, so only their digest is an entry's detail.
CREATE FUNCTION rgpt_ledger_setup() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    object TEXT := 'setup ' || NEW.id;
    about JSONB := jsonb_build_object('repo', rgpt_ledger_text(NEW.repo), 'source', NEW.source, 'reason', rgpt_ledger_text(NEW.reason),
                                      'settings', 'sha256:' || encode(sha256(convert_to(NEW.settings::text, 'UTF8')), 'hex'));
BEGIN
    IF TG_OP = 'INSERT' AND NEW.source = 'agent' THEN
        PERFORM rgpt_ledger_append('agent', left(NEW.created_by, 200), 'setup.added', object, coalesce(NEW.run_id, 0), about::text);
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM rgpt_ledger_command(NEW.created_by, 'setup.added', object, NEW.run_id, about);
    ELSIF OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL AND NEW.source = 'agent' AND NOT NEW.proven AND starts_with(NEW.revoked_by, 'the baseline: ') THEN
        PERFORM rgpt_ledger_append('system', 'rgpt', 'setup.revoked', object, coalesce(NEW.run_id, 0), (about || jsonb_build_object('why', rgpt_ledger_text(NEW.revoked_by)))::text);
    ELSIF OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL THEN
        PERFORM rgpt_ledger_command(NEW.revoked_by, 'setup.revoked', object, NEW.run_id, about);
    ELSE
        PERFORM rgpt_ledger_append('system', 'rgpt', 'setup.proven', object, coalesce(NEW.run_id, 0), about::text);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_setups AFTER INSERT ON orchestrator_setups
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_setup();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_setups_change AFTER UPDATE OF revoked_at, proven ON orchestrator_setups
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL OR NOT OLD.proven AND NEW.proven)
    EXECUTE FUNCTION rgpt_ledger_setup();

-- +goose StatementBegin
-- An environment that a person removes. What a clean-up removes is in its report.
CREATE FUNCTION rgpt_ledger_environment() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF coalesce(current_setting('rgpt.by', true), '') <> '' THEN
        PERFORM rgpt_ledger_command(current_setting('rgpt.by', true), 'environment.removed', 'environment ' || OLD.digest, 0,
                                    jsonb_build_object('repo', rgpt_ledger_text(OLD.repo)));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_environments AFTER DELETE ON orchestrator_environments
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_environment();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_hold() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM rgpt_ledger_command(NEW.held_by, 'hold.added', 'run ' || NEW.run_id, NEW.run_id, jsonb_build_object('reason', rgpt_ledger_text(NEW.reason)));
    ELSE
        PERFORM rgpt_ledger_command(NEW.released_by, 'hold.released', 'run ' || NEW.run_id, NEW.run_id, jsonb_build_object('reason', rgpt_ledger_text(NEW.reason)));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_holds AFTER INSERT ON orchestrator_holds
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_hold();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_holds_end AFTER UPDATE OF released_at ON orchestrator_holds
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.released_at IS NULL AND NEW.released_at IS NOT NULL)
    EXECUTE FUNCTION rgpt_ledger_hold();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_cleanup() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rgpt_ledger_command(NEW.asked_by, 'cleanup.started', 'clean-up ' || NEW.id, 0, jsonb_build_object('policy', NEW.policy));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_cleanups AFTER INSERT ON orchestrator_cleanups
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.origin = 'person') EXECUTE FUNCTION rgpt_ledger_cleanup();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_eval() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rgpt_ledger_command(NEW.created_by, 'evaluation.started', 'evaluation ' || NEW.id, 0,
                                jsonb_build_object('set', rgpt_ledger_text(NEW.set_name), 'digest', NEW.set_digest));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_evals AFTER INSERT ON orchestrator_evals
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_eval();

-- +goose StatementBegin
-- Webhooks, without their secrets: of a new secret, only that there is one. The path of a URL may be one,
-- too, as with chat services, so an entry has its scheme and host, and a digest that tells URLs apart.
CREATE FUNCTION rgpt_ledger_webhook() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    sender TEXT := current_setting('rgpt.by', true);
    hook orchestrator_webhooks := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    object TEXT := 'webhook ' || hook.id;
    about JSONB := jsonb_build_object('url', rgpt_ledger_text(substring(hook.url FROM '^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*')),
                                      'url_digest', 'sha256:' || encode(sha256(convert_to(hook.url, 'UTF8')), 'hex'),
                                      'name', nullif(hook.name, ''), 'events', to_jsonb(hook.events),
                                      'project', nullif(hook.project, ''), 'enabled', hook.enabled);
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM rgpt_ledger_command(sender, 'webhook.added', object, 0, about);
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM rgpt_ledger_command(sender, 'webhook.removed', object, 0, about);
    ELSIF OLD.enabled AND NOT NEW.enabled AND NEW.disabled_reason <> '' THEN -- its receiver failed for too long
        PERFORM rgpt_ledger_append('system', 'rgpt', 'webhook.disabled', object, 0, (about || jsonb_build_object('reason', rgpt_ledger_text(NEW.disabled_reason)))::text);
    ELSE
        PERFORM rgpt_ledger_command(sender, 'webhook.changed', object, 0, about || jsonb_build_object('changed', to_jsonb(array_remove(ARRAY[
            CASE WHEN OLD.url <> NEW.url THEN 'url' END, CASE WHEN OLD.name <> NEW.name THEN 'name' END, CASE WHEN OLD.events <> NEW.events THEN 'events' END,
            CASE WHEN OLD.project <> NEW.project THEN 'project' END, CASE WHEN OLD.description <> NEW.description THEN 'description' END,
            CASE WHEN OLD.secret <> NEW.secret THEN 'secret' END, CASE WHEN OLD.enabled <> NEW.enabled THEN 'enabled' END], NULL))));
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_webhooks AFTER INSERT OR DELETE ON orchestrator_webhooks
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_webhook();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_webhooks_change AFTER UPDATE ON orchestrator_webhooks
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.url, OLD.name, OLD.events, OLD.project, OLD.description, OLD.secret, OLD.enabled)
          IS DISTINCT FROM (NEW.url, NEW.name, NEW.events, NEW.project, NEW.description, NEW.secret, NEW.enabled))
    EXECUTE FUNCTION rgpt_ledger_webhook();

-- +goose StatementBegin
-- The settings of the policy gate: at first all of them, then those that changed. If they are too long,
-- only their names.
CREATE FUNCTION rgpt_ledger_gate_settings() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    changed JSONB;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT jsonb_object_agg(n.key, jsonb_build_object('to', n.value)) INTO changed FROM jsonb_each(NEW.settings) n;
    ELSE
        SELECT jsonb_object_agg(coalesce(n.key, o.key), jsonb_build_object('from', o.value, 'to', n.value)) INTO changed
        FROM jsonb_each(NEW.settings) n FULL JOIN jsonb_each(OLD.settings) o ON o.key = n.key
        WHERE n.value IS DISTINCT FROM o.value;
    END IF;
    IF octet_length(changed::text) > 16384 THEN
        SELECT to_jsonb(array_agg(k ORDER BY k)) INTO changed FROM jsonb_object_keys(changed) k;
    END IF;
    PERFORM rgpt_ledger_append('system', 'configuration', 'gate.configured', 'settings of the policy gate', 0,
                               jsonb_build_object('digest', NEW.digest, 'changed', coalesce(changed, '{}'))::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_gate_settings AFTER INSERT ON orchestrator_gate_settings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_gate_settings();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_gate_settings_change AFTER UPDATE ON orchestrator_gate_settings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.digest <> NEW.digest) EXECUTE FUNCTION rgpt_ledger_gate_settings();

-- +goose Down
DROP TABLE orchestrator_gate_settings;
DROP TRIGGER orchestrator_ledger_webhooks_change ON orchestrator_webhooks;
DROP TRIGGER orchestrator_ledger_webhooks ON orchestrator_webhooks;
DROP TRIGGER orchestrator_ledger_evals ON orchestrator_evals;
DROP TRIGGER orchestrator_ledger_cleanups ON orchestrator_cleanups;
DROP TRIGGER orchestrator_ledger_holds_end ON orchestrator_holds;
DROP TRIGGER orchestrator_ledger_holds ON orchestrator_holds;
DROP TRIGGER orchestrator_ledger_environments ON orchestrator_environments;
DROP TRIGGER orchestrator_ledger_setups_change ON orchestrator_setups;
DROP TRIGGER orchestrator_ledger_setups ON orchestrator_setups;
DROP TRIGGER orchestrator_ledger_quarantine_end ON orchestrator_quarantine;
DROP TRIGGER orchestrator_ledger_quarantine ON orchestrator_quarantine;
DROP TRIGGER orchestrator_ledger_catalogue ON orchestrator_model_catalogue;
DROP TRIGGER orchestrator_ledger_model_choices ON orchestrator_model_choice_changes;
DROP TRIGGER orchestrator_ledger_attempts ON orchestrator_attempt_groups;
DROP TRIGGER orchestrator_ledger_pipelines ON orchestrator_events;
DROP FUNCTION rgpt_ledger_gate_settings, rgpt_ledger_webhook, rgpt_ledger_eval, rgpt_ledger_cleanup, rgpt_ledger_hold, rgpt_ledger_environment,
    rgpt_ledger_setup, rgpt_ledger_quarantine, rgpt_ledger_catalogue, rgpt_ledger_model_choice, rgpt_ledger_attempts;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION rgpt_ledger_event() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    by_whom TEXT := coalesce(nullif(NEW.payload ->> 'by', 'the clock'), '');
    done_step TEXT := coalesce(NEW.payload ->> 'step', '');
    object TEXT := 'run ' || NEW.run_id;
    author TEXT;
BEGIN
    IF by_whom = '' AND NEW.payload ? 'by' AND NEW.payload ->> 'by' = '' AND NEW.event_type IN (
        'run.updated', 'approval.granted', 'approval.rejected', 'message.added', 'model.switched', 'label.added', 'label.removed') THEN
        by_whom := 'unnamed'; -- a command whose sender gave no name
    END IF;
    IF NEW.event_type = 'run.updated' AND by_whom = '' THEN
        RETURN NULL; -- a state, not an act
    END IF;
    IF done_step <> '' THEN
        object := object || ' ' || done_step;
    END IF;
    IF by_whom <> '' THEN
        PERFORM rgpt_ledger_append(rgpt_ledger_actor(by_whom), by_whom, NEW.event_type, object, NEW.run_id, NEW.payload::text);
        RETURN NULL;
    END IF;
    IF NEW.event_type IN ('planner.completed', 'step.completed', 'step.error') THEN
        SELECT e.agent || ' ' || e.provider || '/' || e.model INTO author
        FROM orchestrator_executions e
        WHERE e.run_id = NEW.run_id AND e.phase = CASE WHEN NEW.event_type = 'planner.completed' THEN 'planner' ELSE e.phase END
          AND e.step = done_step AND e.model <> ''
        ORDER BY e.id DESC LIMIT 1;
    END IF;
    PERFORM rgpt_ledger_append(CASE WHEN author IS NULL THEN 'system' ELSE 'agent' END, coalesce(author, 'rgpt'),
                               NEW.event_type, object, NEW.run_id, NEW.payload::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
DROP FUNCTION rgpt_ledger_command, rgpt_ledger_text, rgpt_ledger_actor;
