-- +goose Up

-- Circuit breakers of model providers, shared by all workers. A provider or model without a row has
-- not failed since its last success.
CREATE TABLE orchestrator_breakers (
    provider    TEXT NOT NULL,
    model       TEXT NOT NULL DEFAULT '',   -- empty: the provider as a whole
    failures    INT NOT NULL DEFAULT 0,     -- in a row
    trips       INT NOT NULL DEFAULT 0,     -- how often it has opened since it was closed
    opened_at   TIMESTAMPTZ,                -- when it opened first; NULL: it is closed
    open_until  TIMESTAMPTZ,                -- from then on, one call at a time may try; NULL: it is closed
    tripped_at  TIMESTAMPTZ,                -- when it opened last
    probe       TEXT NOT NULL DEFAULT '',   -- token of the call that tries
    probe_until TIMESTAMPTZ,                -- the end of its lease
    reason      TEXT NOT NULL DEFAULT '',   -- the last failure
    failed_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, model)
);

-- Models that agents of runs use in place of one whose breaker is open.
CREATE TABLE orchestrator_model_fallbacks (
    id          BIGSERIAL PRIMARY KEY,
    run_id      BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    agent       TEXT NOT NULL,
    provider    TEXT NOT NULL,              -- what the run is configured to use
    model       TEXT NOT NULL,
    to_provider TEXT NOT NULL,              -- what it uses instead
    to_model    TEXT NOT NULL,
    reason      TEXT NOT NULL DEFAULT '',
    started_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    ended_at    TIMESTAMPTZ                 -- NULL: the model is still out
);
CREATE UNIQUE INDEX orchestrator_model_fallbacks_open ON orchestrator_model_fallbacks (run_id, agent, provider, model) WHERE ended_at IS NULL;
CREATE INDEX orchestrator_model_fallbacks_provider ON orchestrator_model_fallbacks (provider, model) WHERE ended_at IS NULL;

-- Times until which providers accept no calls, as they reported themselves.
CREATE TABLE orchestrator_provider_pauses (
    provider     TEXT PRIMARY KEY,
    paused_until TIMESTAMPTZ NOT NULL,
    reason       TEXT NOT NULL DEFAULT '',
    updated_at   TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- Calls that wait for their turn at a provider with limits, and those that were admitted within the
-- last minute or are being made. A row whose lease has expired belonged to a worker that died.
CREATE TABLE orchestrator_provider_calls (
    id          BIGSERIAL PRIMARY KEY,
    provider    TEXT NOT NULL,
    model       TEXT NOT NULL,
    run_id      BIGINT NOT NULL,
    agent       TEXT NOT NULL DEFAULT '',
    step        TEXT NOT NULL DEFAULT '',
    tokens      BIGINT NOT NULL,            -- an estimate until the call ends
    queued_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    admitted_at TIMESTAMPTZ,                -- NULL: waiting
    finished_at TIMESTAMPTZ,                -- NULL: waiting or being made
    lease_until TIMESTAMPTZ NOT NULL,
    position    INT NOT NULL DEFAULT 0      -- in the queue, from 1; 0: unknown or not waiting
);
CREATE INDEX orchestrator_provider_calls_provider ON orchestrator_provider_calls (provider, id);
CREATE INDEX orchestrator_provider_calls_run ON orchestrator_provider_calls (run_id) WHERE admitted_at IS NULL;

-- +goose Down
DROP TABLE orchestrator_provider_calls;
DROP TABLE orchestrator_provider_pauses;
DROP TABLE orchestrator_model_fallbacks;
DROP TABLE orchestrator_breakers;
