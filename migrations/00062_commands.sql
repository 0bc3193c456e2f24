-- +goose Up
-- What people decided about a run, read before each turn of an agent that follows another one at once.
CREATE INDEX orchestrator_events_commands ON orchestrator_events (run_id, created_at)
    WHERE event_type IN ('run.updated', 'model.switched');

-- +goose Down
DROP INDEX orchestrator_events_commands;
