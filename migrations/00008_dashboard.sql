-- +goose Up
-- What lists of runs show of plans, kept beside them so that a list reads no
-- document.
ALTER TABLE orchestrator_plans ADD COLUMN step_count INT NOT NULL
    GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(plan -> 'steps') = 'array' THEN jsonb_array_length(plan -> 'steps') ELSE 0 END) STORED;

-- +goose Down
ALTER TABLE orchestrator_plans DROP COLUMN step_count;
