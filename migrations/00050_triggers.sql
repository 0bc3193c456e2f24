-- +goose Up

-- What fired triggers, and the outcome. The same thing fires a trigger only once.
CREATE TABLE orchestrator_trigger_firings (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trigger     TEXT NOT NULL, -- name in the configuration
    delivery    TEXT NOT NULL, -- what fired it, such as issue:12
    payload     JSONB NOT NULL,
    occurred_at TIMESTAMPTZ NOT NULL, -- when what fired it happened
    received_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    state       TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'fired', 'skipped', 'failed')),
    reason      TEXT NOT NULL DEFAULT '', -- why it was skipped or failed; while it waits, why
    run_id      BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- that it created
    attempts    INT NOT NULL DEFAULT 0,
    next_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), -- of the next attempt; during one, when its server counts as dead
    ended_at    TIMESTAMPTZ,
    UNIQUE (trigger, delivery)
);
CREATE INDEX orchestrator_trigger_firings_waiting ON orchestrator_trigger_firings (trigger, id) WHERE state = 'waiting';
CREATE INDEX orchestrator_trigger_firings_fired ON orchestrator_trigger_firings (trigger, ended_at) WHERE state = 'fired';
CREATE INDEX orchestrator_trigger_firings_ended ON orchestrator_trigger_firings (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX orchestrator_trigger_firings_run ON orchestrator_trigger_firings (run_id) WHERE run_id IS NOT NULL;

-- What is known of triggers besides their configuration.
CREATE TABLE orchestrator_triggers (
    name      TEXT PRIMARY KEY,
    paused_at TIMESTAMPTZ, -- it does not fire while it is paused
    paused_by TEXT NOT NULL DEFAULT '',
    reason    TEXT NOT NULL DEFAULT '', -- why it was paused
    looked_at TIMESTAMPTZ, -- what happened on its forge up to then was read
    next_at   TIMESTAMPTZ, -- of the next look; during one, when its server counts as dead
    failures  INT NOT NULL DEFAULT 0, -- looks that failed, in a row
    problem   TEXT NOT NULL DEFAULT '' -- of the last failed look
);

-- +goose Down
DROP TABLE orchestrator_triggers;
DROP TABLE orchestrator_trigger_firings;
