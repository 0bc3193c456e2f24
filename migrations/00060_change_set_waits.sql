-- +goose Up

-- A change set of which some runs are ready and others are not may wait for a person, several times:
-- its number of waits, and since when it waits now.
ALTER TABLE orchestrator_change_sets
    ADD COLUMN waits         INT NOT NULL DEFAULT 0,
    ADD COLUMN waiting_since TIMESTAMPTZ; -- null: it does not wait for a person
-- The last wait of which an event of the run tells.
ALTER TABLE orchestrator_change_set_runs ADD COLUMN told_wait INT NOT NULL DEFAULT 0;
CREATE INDEX orchestrator_change_sets_waiting ON orchestrator_change_sets (tenant, waiting_since) WHERE waiting_since IS NOT NULL;

-- +goose Down
DROP INDEX orchestrator_change_sets_waiting;
ALTER TABLE orchestrator_change_set_runs DROP COLUMN told_wait;
ALTER TABLE orchestrator_change_sets DROP COLUMN waiting_since, DROP COLUMN waits;
