-- +goose Up

-- The current plan: the one that the run was created with, that of its
-- planner, or one that a person edited and whose approval the run has
-- accepted. Plans are never overwritten. No foreign key, because each
-- deletion of a plan would check it.
ALTER TABLE orchestrator_runs ADD COLUMN plan_id BIGINT;
UPDATE orchestrator_runs r SET plan_id = (SELECT max(p.id) FROM orchestrator_plans p WHERE p.run_id = r.id);

-- The number of the last record of workflow_run_id, and the replaced workflow
-- run ids: records from these are late.
ALTER TABLE orchestrator_runs ADD COLUMN workflow_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE orchestrator_runs ADD COLUMN superseded_runs TEXT[] NOT NULL DEFAULT '{}';
UPDATE orchestrator_runs r SET workflow_seq = coalesce((
    SELECT max(s.seq) FROM orchestrator_records s
    WHERE s.workflow_id = r.workflow_id AND s.workflow_run_id = r.workflow_run_id), 0);

-- +goose Down
ALTER TABLE orchestrator_runs DROP COLUMN superseded_runs;
ALTER TABLE orchestrator_runs DROP COLUMN workflow_seq;
ALTER TABLE orchestrator_runs DROP COLUMN plan_id;
