-- +goose Up
-- Data of plans that lists of runs show, stored separately so that a list
-- reads no documents.
ALTER TABLE orchestrator_plans ADD COLUMN step_count INT NOT NULL
    GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(plan -> 'steps') = 'array' THEN jsonb_array_length(plan -> 'steps') ELSE 0 END) STORED;
-- Model calls of the last hours.
CREATE INDEX orchestrator_model_calls_started ON orchestrator_model_calls (started_at);

-- +goose Down
DROP INDEX orchestrator_model_calls_started;
ALTER TABLE orchestrator_plans DROP COLUMN step_count;
