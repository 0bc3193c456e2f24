-- +goose Up

-- The execution that began with the edits of a plan: they are made once. NULL: none has.
ALTER TABLE orchestrator_plans ADD COLUMN edits_taken_by BIGINT;

-- +goose Down
ALTER TABLE orchestrator_plans DROP COLUMN edits_taken_by;
