-- +goose Up

-- Browsers that are notified by web push, each a channel of its own below the one that the configuration
-- has. The endpoint is a secret: who knows it and the server's key can send to it.
CREATE TABLE orchestrator_browsers (
    name       TEXT PRIMARY KEY, -- CHANNEL.ID, its channel; the ID is a digest of the endpoint
    channel    TEXT NOT NULL, -- name in the configuration
    endpoint   TEXT NOT NULL,
    p256dh     TEXT NOT NULL, -- public key of the browser
    auth       TEXT NOT NULL, -- secret of the browser
    server_key TEXT NOT NULL, -- public key of the server for which it subscribed
    person     TEXT NOT NULL DEFAULT '', -- who uses it, as far as they said so
    browser    TEXT NOT NULL DEFAULT '', -- what it says of itself
    kinds      TEXT[] NOT NULL DEFAULT '{}', -- what it is notified of; empty: all
    projects   TEXT[] NOT NULL DEFAULT '{}', -- patterns for LIKE; empty: all
    mine       BOOLEAN NOT NULL DEFAULT false, -- only runs that the person created
    quiet      JSONB, -- hours of its own; null: those of the channel
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    CHECK (NOT mine OR person <> '')
);
CREATE INDEX orchestrator_browsers_channel ON orchestrator_browsers (channel);

ALTER TABLE orchestrator_notifications ADD COLUMN resent_at TIMESTAMPTZ; -- when a person asked for it again

-- +goose StatementBegin
-- Browsers, without the endpoint and the keys.
CREATE FUNCTION rgpt_ledger_browser() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    sender TEXT := coalesce(current_setting('rgpt.by', true), '');
    one orchestrator_browsers := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    about JSONB := jsonb_build_object('service', rgpt_ledger_text(substring(one.endpoint FROM '^https://[^/?#]*')), 'person', nullif(rgpt_ledger_text(one.person), ''),
                                      'on', to_jsonb(one.kinds), 'projects', to_jsonb(one.projects), 'mine', nullif(one.mine, false), 'quiet', one.quiet);
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM rgpt_ledger_command(sender, 'browser.subscribed', 'browser ' || one.name, 0, about);
    ELSIF TG_OP = 'UPDATE' THEN
        PERFORM rgpt_ledger_command(sender, 'browser.changed', 'browser ' || one.name, 0, about);
    ELSIF sender = '' THEN -- its push service says that it has gone
        PERFORM rgpt_ledger_append('system', 'rgpt', 'browser.removed', 'browser ' || one.name, 0, jsonb_strip_nulls(about)::text);
    ELSE
        PERFORM rgpt_ledger_command(sender, 'browser.removed', 'browser ' || one.name, 0, about);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_browsers AFTER INSERT OR DELETE ON orchestrator_browsers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_browser();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_browsers_change AFTER UPDATE ON orchestrator_browsers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.p256dh, OLD.auth, OLD.server_key, OLD.person, OLD.kinds, OLD.projects, OLD.mine, OLD.quiet)
          IS DISTINCT FROM (NEW.p256dh, NEW.auth, NEW.server_key, NEW.person, NEW.kinds, NEW.projects, NEW.mine, NEW.quiet))
    EXECUTE FUNCTION rgpt_ledger_browser();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_notification() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rgpt_ledger_command(current_setting('rgpt.by', true), 'notification.resent', 'notification ' || NEW.id, NEW.run_id,
        jsonb_build_object('channel', NEW.channel, 'event', NEW.event_type));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_notifications AFTER UPDATE OF resent_at ON orchestrator_notifications
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.resent_at IS DISTINCT FROM NEW.resent_at)
    EXECUTE FUNCTION rgpt_ledger_notification();

-- +goose Down
DROP TRIGGER orchestrator_ledger_notifications ON orchestrator_notifications;
DROP FUNCTION rgpt_ledger_notification;
ALTER TABLE orchestrator_notifications DROP COLUMN resent_at;
DROP TABLE orchestrator_browsers;
DROP FUNCTION rgpt_ledger_browser;
