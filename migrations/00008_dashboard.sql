-- +goose Up
-- What lists of runs show of plans, kept beside them so that a list reads no
-- document.
ALTER TABLE orchestrator_plans ADD COLUMN step_count INT NOT NULL
    GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(plan -> 'steps') = 'array' THEN jsonb_array_length(plan -> 'steps') ELSE 0 END) STORED;
-- What was asked of models in the last hours.
CREATE INDEX orchestrator_model_calls_started ON orchestrator_model_calls (started_at);

-- +goose Down
DROP INDEX orchestrator_model_calls_started;
ALTER TABLE orchestrator_plans DROP COLUMN step_count;
