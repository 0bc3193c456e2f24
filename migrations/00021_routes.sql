-- +goose Up

-- Why a call used its model: the strategy, the reasons, and the models that could not make it.
ALTER TABLE orchestrator_model_calls ADD COLUMN route JSONB;

-- +goose Down

ALTER TABLE orchestrator_model_calls DROP COLUMN route;
