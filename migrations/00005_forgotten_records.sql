-- +goose Up

-- What a record is about, and the workflow task that wrote it, as the length of
-- its history. A record that was written in a task which was never completed is
-- in no history: it is forgotten. When another one comes under its number it
-- gets one below zero, until it comes again itself.
ALTER TABLE orchestrator_records
    ADD COLUMN signature TEXT NOT NULL DEFAULT '', -- empty: unknown
    ADD COLUMN task      BIGINT NOT NULL DEFAULT 0; -- 0: unknown
CREATE INDEX orchestrator_records_forgotten ON orchestrator_records (run_id) WHERE seq < 0;

-- +goose Down
DROP INDEX orchestrator_records_forgotten;
-- Nothing would know these again.
DELETE FROM orchestrator_records WHERE seq < 0;
ALTER TABLE orchestrator_records DROP COLUMN signature, DROP COLUMN task;
