-- +goose Up

-- By which the reminders of questions name a webhook as a receiver. Empty: they cannot.
ALTER TABLE orchestrator_webhooks ADD COLUMN name TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX orchestrator_webhooks_name ON orchestrator_webhooks (tenant, name) WHERE name <> '';

-- +goose Down
DROP INDEX orchestrator_webhooks_name;
ALTER TABLE orchestrator_webhooks DROP COLUMN name;
