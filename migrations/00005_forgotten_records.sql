-- +goose Up

-- The content of a record, and the workflow task that wrote it, as the length
-- of its history. A record from a task that was never completed is not part
-- of any history: it is forgotten. If another record arrives under its
-- number, the forgotten one gets a negative number, until it arrives again
-- itself.
ALTER TABLE orchestrator_records
    ADD COLUMN signature TEXT NOT NULL DEFAULT '', -- empty: unknown
    ADD COLUMN task      BIGINT NOT NULL DEFAULT 0; -- 0: unknown
CREATE INDEX orchestrator_records_forgotten ON orchestrator_records (run_id) WHERE seq < 0;

-- +goose Down
DROP INDEX orchestrator_records_forgotten;
-- These records could not be identified again.
DELETE FROM orchestrator_records WHERE seq < 0;
ALTER TABLE orchestrator_records DROP COLUMN signature, DROP COLUMN task;
