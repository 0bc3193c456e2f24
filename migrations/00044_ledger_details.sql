-- +goose Up

-- For retention, which removes the details of old entries.
CREATE INDEX orchestrator_ledger_details ON orchestrator_ledger (at) WHERE details IS NOT NULL;

-- +goose Down
DROP INDEX orchestrator_ledger_details;
