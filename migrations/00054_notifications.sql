-- +goose Up

-- Channels on which people are notified, as far as servers have seen them in their configuration: how
-- far each has read the events, and the server that sends on it.
CREATE TABLE orchestrator_notification_channels (
    channel TEXT PRIMARY KEY, -- name in the configuration
    tx      XID8 NOT NULL DEFAULT pg_snapshot_xmin(pg_current_snapshot()), -- position in the events
    id      BIGINT NOT NULL DEFAULT 0,
    since   PG_SNAPSHOT NOT NULL DEFAULT pg_current_snapshot(), -- nobody is notified of events that were visible then
    holder  TEXT NOT NULL DEFAULT '', -- the server that sends on it
    next_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp() -- when a server may send on it; while one does, when it counts as dead
);

-- One event for one channel, each pair once. The event itself is in its own table; without a foreign
-- key, so that no lock of a run is waited for.
CREATE TABLE orchestrator_notifications (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel     TEXT NOT NULL,
    event_id    BIGINT NOT NULL,
    run_id      BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    event_type  TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('waits', 'failed', 'done', 'budget')),
    state       TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'failed', 'dropped')),
    message_id  BIGINT, -- the message that contains it, by its first notification; null: still to be put into one
    attempts    INT NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '', -- of the last failure
    created_at  TIMESTAMPTZ NOT NULL,
    composed_at TIMESTAMPTZ, -- when the message was put together
    next_at     TIMESTAMPTZ, -- of the message's next attempt
    sent_at     TIMESTAMPTZ,
    UNIQUE (channel, event_id),
    CHECK ((message_id IS NULL) = (composed_at IS NULL)),
    CHECK ((state = 'sent') = (sent_at IS NOT NULL))
);
CREATE INDEX orchestrator_notifications_pending ON orchestrator_notifications (channel, id) WHERE state = 'pending';
CREATE INDEX orchestrator_notifications_message ON orchestrator_notifications (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX orchestrator_notifications_sent ON orchestrator_notifications (channel, sent_at) WHERE state = 'sent';
CREATE INDEX orchestrator_notifications_newest ON orchestrator_notifications (channel, id DESC);
CREATE INDEX orchestrator_notifications_age ON orchestrator_notifications (created_at);

-- +goose Down
DROP TABLE orchestrator_notifications;
DROP TABLE orchestrator_notification_channels;
