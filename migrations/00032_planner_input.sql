-- +goose Up

-- A run may wait for the answer to a question of its planner. It is stored like an approval: while it
-- is open, its reason is the question as JSON; afterwards, the option that was chosen.
ALTER TABLE orchestrator_runs DROP CONSTRAINT orchestrator_runs_status_check;
ALTER TABLE orchestrator_runs ADD CONSTRAINT orchestrator_runs_status_check CHECK (status IN (
    'pending',
    'planner_running', 'planner_error', 'planner_completed',
    'builder_running', 'builder_error', 'builder_completed',
    'tester_running', 'tester_error', 'tester_completed',
    'releaser_running', 'releaser_error',
    'self_heal', 'paused', 'waiting_for_approval', 'waiting_for_input',
    'done', 'failed', 'cancelled'));
ALTER TABLE orchestrator_approvals DROP CONSTRAINT orchestrator_approvals_kind_check;
ALTER TABLE orchestrator_approvals ADD CONSTRAINT orchestrator_approvals_kind_check CHECK (kind IN ('plan', 'release', 'input'));

-- +goose Down

DELETE FROM orchestrator_approvals WHERE kind = 'input';
ALTER TABLE orchestrator_approvals DROP CONSTRAINT orchestrator_approvals_kind_check;
ALTER TABLE orchestrator_approvals ADD CONSTRAINT orchestrator_approvals_kind_check CHECK (kind IN ('plan', 'release'));
UPDATE orchestrator_runs SET status = 'planner_running' WHERE status = 'waiting_for_input';
ALTER TABLE orchestrator_runs DROP CONSTRAINT orchestrator_runs_status_check;
ALTER TABLE orchestrator_runs ADD CONSTRAINT orchestrator_runs_status_check CHECK (status IN (
    'pending',
    'planner_running', 'planner_error', 'planner_completed',
    'builder_running', 'builder_error', 'builder_completed',
    'tester_running', 'tester_error', 'tester_completed',
    'releaser_running', 'releaser_error',
    'self_heal', 'paused', 'waiting_for_approval',
    'done', 'failed', 'cancelled'));
