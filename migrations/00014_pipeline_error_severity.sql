-- +goose Up
-- The severity of a member's error.
ALTER TABLE orchestrator_pipeline_errors ADD COLUMN severity TEXT NOT NULL DEFAULT 'medium' CHECK (severity IN ('major', 'medium', 'minor'));
UPDATE orchestrator_pipeline_errors SET severity = 'major' WHERE error_class = 'SAFETY_ERROR';

-- +goose Down
ALTER TABLE orchestrator_pipeline_errors DROP COLUMN severity;
