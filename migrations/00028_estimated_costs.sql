-- +goose Up

-- A cost is estimated if some of it is of calls of models whose price is unknown.
ALTER TABLE orchestrator_executions ADD COLUMN price_estimated BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE orchestrator_budgets ADD COLUMN price_estimated BOOLEAN NOT NULL DEFAULT false;
UPDATE orchestrator_executions e SET price_estimated = true
WHERE EXISTS (SELECT FROM orchestrator_model_calls c WHERE c.run_id = e.run_id AND c.execution_id = e.id AND c.price_estimated);
UPDATE orchestrator_budgets b SET price_estimated = true
WHERE EXISTS (SELECT FROM orchestrator_model_calls c, jsonb_array_elements(c.scopes) AS s
              WHERE c.price_estimated AND s ->> 'kind' = b.scope_kind AND s ->> 'key' = b.scope_key);

-- +goose Down
ALTER TABLE orchestrator_budgets DROP COLUMN price_estimated;
ALTER TABLE orchestrator_executions DROP COLUMN price_estimated;
