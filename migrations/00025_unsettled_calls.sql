-- +goose Up

-- Attempts of a call whose outcome is unknown and whose reservations were given up. They count as
-- used in full in their budgets until their actual usage is known.
ALTER TABLE orchestrator_model_calls ADD COLUMN given_up JSONB NOT NULL DEFAULT '[]';
CREATE INDEX orchestrator_model_calls_given_up ON orchestrator_model_calls (run_id) WHERE given_up <> '[]';

-- +goose Down
UPDATE orchestrator_budgets b
SET spent_tokens = b.spent_tokens - u.tokens, spent_micros = b.spent_micros - u.micros
FROM (
    SELECT s ->> 'kind' AS kind, s ->> 'key' AS key, sum((h ->> 'tokens')::bigint) AS tokens, sum((h ->> 'micros')::bigint) AS micros
    FROM orchestrator_model_calls c, jsonb_array_elements(c.given_up) AS h, jsonb_array_elements(h -> 'scopes') AS s
    GROUP BY 1, 2
) u
WHERE b.scope_kind = u.kind AND b.scope_key = u.key;
DROP INDEX orchestrator_model_calls_given_up;
ALTER TABLE orchestrator_model_calls DROP COLUMN given_up;
