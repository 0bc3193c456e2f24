-- +goose Up
ALTER TABLE orchestrator_self_heal_events
    ADD COLUMN number       INT NOT NULL DEFAULT 0, -- of the run's heals, from 1
    ADD COLUMN step         TEXT NOT NULL DEFAULT '',
    ADD COLUMN execution_id BIGINT NOT NULL DEFAULT 0, -- that failed
    ADD COLUMN error_code   TEXT NOT NULL DEFAULT '',
    ADD COLUMN root_cause   TEXT NOT NULL DEFAULT '',
    ADD COLUMN asked_by     TEXT NOT NULL DEFAULT '', -- empty: the run itself
    ADD COLUMN status       TEXT NOT NULL DEFAULT 'started' CHECK (status IN ('started', 'applied', 'success', 'failed')),
    ADD COLUMN finished_at  TIMESTAMPTZ;
-- A replay restarts the count of a run's heals from where it begins, so the
-- failed execution is part of the identity of a heal.
DROP INDEX orchestrator_self_heal_events_run;
CREATE UNIQUE INDEX orchestrator_self_heal_events_run ON orchestrator_self_heal_events (run_id, number, execution_id);

ALTER TABLE orchestrator_manual_interventions
    ADD COLUMN number          INT NOT NULL DEFAULT 0, -- of the run's interventions, from 1
    ADD COLUMN workflow_run_id TEXT NOT NULL DEFAULT '',
    ADD COLUMN phase           TEXT NOT NULL DEFAULT '',
    ADD COLUMN answer          TEXT NOT NULL DEFAULT '' CHECK (answer IN ('', 'retry', 'give_up')),
    ADD COLUMN words           TEXT NOT NULL DEFAULT '';
DROP INDEX orchestrator_manual_interventions_run;
CREATE UNIQUE INDEX orchestrator_manual_interventions_run ON orchestrator_manual_interventions (run_id, number, workflow_run_id);
-- Questions that wait for a person, across all runs.
CREATE INDEX orchestrator_manual_interventions_open ON orchestrator_manual_interventions (id) WHERE status = 'open';

-- Replays: the phase from which a run was repeated, and the differences.
CREATE TABLE orchestrator_replays (
    id           BIGSERIAL PRIMARY KEY,
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    phase        TEXT NOT NULL,
    replay_order JSONB NOT NULL DEFAULT '{}',
    execution_id BIGINT, -- that it started; null: not started yet
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_replays_run ON orchestrator_replays (run_id, phase, id);

-- +goose Down
DROP TABLE orchestrator_replays;
DROP INDEX orchestrator_manual_interventions_open;
DROP INDEX orchestrator_manual_interventions_run;
CREATE INDEX orchestrator_manual_interventions_run ON orchestrator_manual_interventions (run_id, id);
ALTER TABLE orchestrator_manual_interventions
    DROP COLUMN number, DROP COLUMN workflow_run_id, DROP COLUMN phase, DROP COLUMN answer, DROP COLUMN words;
DROP INDEX orchestrator_self_heal_events_run;
CREATE INDEX orchestrator_self_heal_events_run ON orchestrator_self_heal_events (run_id, id);
ALTER TABLE orchestrator_self_heal_events
    DROP COLUMN number, DROP COLUMN step, DROP COLUMN execution_id, DROP COLUMN error_code, DROP COLUMN root_cause,
    DROP COLUMN asked_by, DROP COLUMN status, DROP COLUMN finished_at;
