-- +goose Up

-- The status that an agent reports with each heartbeat. It includes the
-- intervals for judging it, so a reader does not need the worker's settings.
ALTER TABLE orchestrator_agents
    ADD COLUMN worker        TEXT NOT NULL DEFAULT '',               -- identity of its process: host:pid:3f9a
    ADD COLUMN detail        TEXT NOT NULL DEFAULT '',               -- why it is not healthy, in words
    ADD COLUMN work          JSONB NOT NULL DEFAULT '[]',            -- what it works on
    ADD COLUMN tasks_done    BIGINT NOT NULL DEFAULT 0,              -- since it started
    ADD COLUMN tasks_failed  BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN started_at    TIMESTAMPTZ,
    ADD COLUMN beat_seconds  DOUBLE PRECISION NOT NULL DEFAULT 5,    -- time between heartbeats
    ADD COLUMN offline_after DOUBLE PRECISION NOT NULL DEFAULT 60;   -- seconds without one

-- Unfinished runs: a few, regardless of the total.
CREATE INDEX orchestrator_runs_unfinished ON orchestrator_runs (status) WHERE status NOT IN ('done', 'failed', 'cancelled');

-- +goose Down
DROP INDEX orchestrator_runs_unfinished;
ALTER TABLE orchestrator_agents
    DROP COLUMN worker, DROP COLUMN detail, DROP COLUMN work, DROP COLUMN tasks_done, DROP COLUMN tasks_failed,
    DROP COLUMN started_at, DROP COLUMN beat_seconds, DROP COLUMN offline_after;
