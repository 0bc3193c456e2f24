-- +goose Up
-- Each worker queries every minute which runs stay with their branch.
CREATE INDEX orchestrator_runs_staying ON orchestrator_runs (id) WHERE staying_until IS NOT NULL;

-- +goose Down
DROP INDEX orchestrator_runs_staying;
