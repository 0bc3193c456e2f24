-- +goose Up

-- Destinations of events. The secret is stored in plain text, because it
-- signs.
CREATE TABLE orchestrator_webhooks (
    id              BIGSERIAL PRIMARY KEY,
    tenant          TEXT NOT NULL DEFAULT 'local',
    url             TEXT NOT NULL,
    events          TEXT[] NOT NULL DEFAULT '{}', -- patterns of event types; empty: all
    project         TEXT NOT NULL DEFAULT '',     -- empty: all
    description     TEXT NOT NULL DEFAULT '',
    secret          TEXT NOT NULL,
    enabled         BOOLEAN NOT NULL DEFAULT true,
    disabled_reason TEXT NOT NULL DEFAULT '',
    failing_since   TIMESTAMPTZ, -- the first failure since the last success
    since           PG_SNAPSHOT NOT NULL DEFAULT pg_current_snapshot(), -- events that were visible then are not sent to it
    idempotency_key TEXT,
    request_digest  TEXT NOT NULL DEFAULT '',
    created_at      TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    updated_at      TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (tenant, idempotency_key)
);

-- The position up to which events have been turned into deliveries: one row,
-- which is locked during this step.
CREATE TABLE orchestrator_webhook_feed (
    one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    tx  XID8 NOT NULL,
    id  BIGINT NOT NULL DEFAULT 0
);
INSERT INTO orchestrator_webhook_feed (tx) VALUES (pg_snapshot_xmin(pg_current_snapshot()));

-- One event for one webhook, each pair once. The event itself is in its own
-- table; without a foreign key, so that no lock of a run is waited for.
CREATE TABLE orchestrator_webhook_deliveries (
    id            BIGSERIAL PRIMARY KEY,
    webhook_id    BIGINT NOT NULL REFERENCES orchestrator_webhooks ON DELETE CASCADE,
    event_id      BIGINT, -- null: a test
    run_id        BIGINT NOT NULL DEFAULT 0,
    seq           BIGINT NOT NULL DEFAULT 0,
    event_type    TEXT NOT NULL,
    status        TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'sending', 'delivered', 'failed')),
    attempts      INT NOT NULL DEFAULT 0, -- that were started, in total
    used          INT NOT NULL DEFAULT 0, -- of the allowed ones; a redelivery starts again at 0
    next_try      TIMESTAMPTZ,            -- while it is being sent: when another server may take it over; null: it has ended
    response_code INT NOT NULL DEFAULT 0, -- of the last attempt; 0: there was no response
    duration_ms   BIGINT NOT NULL DEFAULT 0,
    error         TEXT NOT NULL DEFAULT '',
    request       TEXT,                   -- the key under which the test, or the last redelivery, was requested
    created_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    finished_at   TIMESTAMPTZ,
    UNIQUE (webhook_id, event_id),
    UNIQUE (webhook_id, request),
    CHECK ((status IN ('pending', 'sending')) = (next_try IS NOT NULL))
);
CREATE INDEX orchestrator_webhook_deliveries_due ON orchestrator_webhook_deliveries (webhook_id, next_try, id) WHERE next_try IS NOT NULL;
CREATE INDEX orchestrator_webhook_deliveries_newest ON orchestrator_webhook_deliveries (webhook_id, id DESC);
CREATE INDEX orchestrator_webhook_deliveries_age ON orchestrator_webhook_deliveries (created_at);

CREATE TABLE orchestrator_webhook_attempts (
    delivery_id   BIGINT NOT NULL REFERENCES orchestrator_webhook_deliveries ON DELETE CASCADE,
    attempt       INT NOT NULL CHECK (attempt > 0),
    started_at    TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    finished_at   TIMESTAMPTZ, -- null: in progress
    response_code INT NOT NULL DEFAULT 0,
    duration_ms   BIGINT NOT NULL DEFAULT 0,
    error         TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (delivery_id, attempt)
);

-- Requests under an idempotency key, and their answers.
CREATE TABLE orchestrator_requests (
    tenant       TEXT NOT NULL DEFAULT 'local',
    route        TEXT NOT NULL,
    key          TEXT NOT NULL,
    digest       TEXT NOT NULL,
    status       INT NOT NULL DEFAULT 0, -- 0: no answer yet
    content_type TEXT NOT NULL DEFAULT '',
    answer       BYTEA,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, route, key)
);
CREATE INDEX orchestrator_requests_age ON orchestrator_requests (created_at);

-- Replays that were requested under a key, by their result.
ALTER TABLE orchestrator_replays
    ADD COLUMN request           TEXT,
    ADD COLUMN from_workflow_run TEXT NOT NULL DEFAULT ''; -- the workflow run that was reset
CREATE UNIQUE INDEX orchestrator_replays_request ON orchestrator_replays (run_id, request);

CREATE INDEX orchestrator_runs_phase ON orchestrator_runs (phase, created_at DESC, id DESC);

-- +goose Down
DROP INDEX orchestrator_runs_phase;
DROP INDEX orchestrator_replays_request;
ALTER TABLE orchestrator_replays DROP COLUMN request, DROP COLUMN from_workflow_run;
DROP TABLE orchestrator_requests;
DROP TABLE orchestrator_webhook_attempts;
DROP TABLE orchestrator_webhook_deliveries;
DROP TABLE orchestrator_webhook_feed;
DROP TABLE orchestrator_webhooks;
