-- +goose Up

-- The period of a budget is the last word of its key: a day or a month.
CREATE INDEX orchestrator_budgets_period ON orchestrator_budgets ((substring(scope_key from '[^ ]+$')))
    WHERE scope_kind IN ('day', 'project', 'tenant');

-- +goose Down
DROP INDEX orchestrator_budgets_period;
