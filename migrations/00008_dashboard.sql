-- +goose Up
-- What lists of runs show of large documents, kept beside them so that a list
-- reads no document.
ALTER TABLE orchestrator_runs ADD COLUMN tests JSONB
    GENERATED ALWAYS AS (tester_output -> 'summary') STORED;
ALTER TABLE orchestrator_plans ADD COLUMN step_count INT NOT NULL
    GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(plan -> 'steps') = 'array' THEN jsonb_array_length(plan -> 'steps') ELSE 0 END) STORED;

-- +goose Down
ALTER TABLE orchestrator_plans DROP COLUMN step_count;
ALTER TABLE orchestrator_runs DROP COLUMN tests;
