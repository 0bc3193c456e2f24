-- +goose Up

-- What calls outside runs have reserved in budgets. If such a call is not settled, its process died: from
-- then on, its budgets count it as used in full.
CREATE TABLE orchestrator_budget_holds (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scopes     JSONB NOT NULL,
    tokens     BIGINT NOT NULL,
    micros     BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_budget_holds_created ON orchestrator_budget_holds (created_at);

-- +goose Down
DROP TABLE orchestrator_budget_holds;
