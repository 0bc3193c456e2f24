-- +goose Up

-- Webhooks also get events that belong to no run.
ALTER TABLE orchestrator_webhook_deliveries
    ADD COLUMN message TEXT NOT NULL DEFAULT '', -- ID of such an event, the same for all webhooks
    ADD COLUMN subject TEXT NOT NULL DEFAULT '', -- what it is about
    ADD COLUMN payload JSONB; -- its content; null: an event of a run, or a test

-- +goose StatementBegin
-- What a trigger skipped, or could not create a run for, has no run, so its event goes directly to the
-- webhooks that select it, in the same transaction. Those of one project get events of its runs only.
CREATE FUNCTION rgpt_trigger_event() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO orchestrator_webhook_deliveries (webhook_id, event_type, next_try, message, subject, payload)
    SELECT w.id, 'trigger.' || NEW.state, clock_timestamp(),
           'trigger-delivery-' || NEW.id || '/' || (extract(epoch FROM NEW.ended_at) * 1000000)::bigint, 'trigger-' || NEW.trigger,
           jsonb_build_object('trigger', NEW.trigger, 'delivery', NEW.delivery, 'delivery_id', NEW.id, 'reason', NEW.reason,
                              'occurred_at', NEW.occurred_at, 'received_at', NEW.received_at)
               || CASE WHEN coalesce(NEW.payload ->> 'url', '') = '' THEN '{}' ELSE jsonb_build_object('url', NEW.payload ->> 'url') END
    FROM orchestrator_webhooks w
    WHERE w.enabled AND w.project = ''
      AND (w.events = '{}' OR EXISTS (SELECT FROM unnest(w.events) AS p (pattern)
                                      WHERE 'trigger.' || NEW.state LIKE replace(replace(p.pattern, '_', '\_'), '*', '%')));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER orchestrator_trigger_events AFTER UPDATE OF state ON orchestrator_trigger_firings
    FOR EACH ROW WHEN (OLD.state = 'waiting' AND NEW.state IN ('skipped', 'failed')) EXECUTE FUNCTION rgpt_trigger_event();

-- +goose Down
DROP TRIGGER orchestrator_trigger_events ON orchestrator_trigger_firings;
DROP FUNCTION rgpt_trigger_event;
DELETE FROM orchestrator_webhook_deliveries WHERE payload IS NOT NULL;
ALTER TABLE orchestrator_webhook_deliveries DROP COLUMN payload, DROP COLUMN subject, DROP COLUMN message;
