-- +goose Up
-- Runs that wait for their turn because execution.concurrent_runs runs are
-- active, and since when.
ALTER TABLE orchestrator_runs ADD COLUMN queued_at TIMESTAMPTZ;
CREATE INDEX orchestrator_runs_queued ON orchestrator_runs (queued_at, id) WHERE queued_at IS NOT NULL;

-- +goose Down
DROP INDEX orchestrator_runs_queued;
ALTER TABLE orchestrator_runs DROP COLUMN queued_at;
