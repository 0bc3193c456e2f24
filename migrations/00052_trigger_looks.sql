-- +goose Up

-- Servers share the looks at the forges of triggers: one at a time looks for a trigger.
ALTER TABLE orchestrator_triggers
    ADD COLUMN looks      BIGINT NOT NULL DEFAULT 0, -- that were begun; only the last one may be ended
    ADD COLUMN looking    BOOL NOT NULL DEFAULT false, -- one is in progress, until next_at
    ADD COLUMN read_until TIMESTAMPTZ, -- by the clock of the forge: looks continue from there
    ADD COLUMN read_for   TEXT NOT NULL DEFAULT '', -- what read_until is about
    ADD COLUMN asked_at   TIMESTAMPTZ; -- a webhook asked for a look

-- +goose Down
ALTER TABLE orchestrator_triggers
    DROP COLUMN looks,
    DROP COLUMN looking,
    DROP COLUMN read_until,
    DROP COLUMN read_for,
    DROP COLUMN asked_at;
