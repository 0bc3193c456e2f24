-- +goose Up

-- What this installation knows about models beyond the catalogue of its programs and its
-- configuration: entries from a newer source (update), capabilities tried at a provider (check).
CREATE TABLE orchestrator_model_catalogue (
    provider   TEXT NOT NULL,
    model      TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('update', 'check')),
    content    JSONB NOT NULL,
    changed_by TEXT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider, model, kind)
);

-- Calls whose model has no known price: their cost is an estimate.
ALTER TABLE orchestrator_model_calls ADD COLUMN price_estimated BOOLEAN NOT NULL DEFAULT false;
CREATE INDEX orchestrator_model_calls_estimated ON orchestrator_model_calls (run_id) WHERE price_estimated;

-- +goose Down
DROP INDEX orchestrator_model_calls_estimated;
ALTER TABLE orchestrator_model_calls DROP COLUMN price_estimated;
DROP TABLE orchestrator_model_catalogue;
