-- +goose Up

-- Budgets of agents within runs, and of projects and tenants in a day or a month.
ALTER TABLE orchestrator_budgets
    DROP CONSTRAINT orchestrator_budgets_scope_kind_check,
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('agent', 'run', 'project', 'tenant', 'day'));

-- Reservations of a call's earlier attempts, which another worker took over before they were
-- settled: their providers may still charge for them.
ALTER TABLE orchestrator_model_calls ADD COLUMN superseded JSONB NOT NULL DEFAULT '[]';

DROP INDEX orchestrator_model_calls_open;
CREATE INDEX orchestrator_model_calls_open ON orchestrator_model_calls (started_at) WHERE status = 'reserved' OR superseded <> '[]';

-- +goose Down
DROP INDEX orchestrator_model_calls_open;
CREATE INDEX orchestrator_model_calls_open ON orchestrator_model_calls (started_at) WHERE status = 'reserved';
ALTER TABLE orchestrator_model_calls DROP COLUMN superseded;
DELETE FROM orchestrator_budgets WHERE scope_kind IN ('agent', 'project');
ALTER TABLE orchestrator_budgets
    DROP CONSTRAINT orchestrator_budgets_scope_kind_check,
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('run', 'tenant', 'day'));
