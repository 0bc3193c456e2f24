-- +goose Up
-- Which runs stay with their branch is asked every minute by each worker.
CREATE INDEX orchestrator_runs_staying ON orchestrator_runs (id) WHERE staying_until IS NOT NULL;

-- +goose Down
DROP INDEX orchestrator_runs_staying;
