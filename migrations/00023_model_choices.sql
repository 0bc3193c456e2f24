-- +goose Up

-- The models that people chose for agents. New runs and pipelines use them;
-- they override the configuration.
CREATE TABLE orchestrator_model_choices (
    agent       TEXT PRIMARY KEY,
    provider    TEXT NOT NULL,
    model       TEXT NOT NULL,
    temperature DOUBLE PRECISION,
    effort      TEXT NOT NULL DEFAULT '',
    version     BIGINT NOT NULL, -- the id of the change that stored it
    changed_by  TEXT NOT NULL,
    changed_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- The last changes of these choices, for each agent.
CREATE TABLE orchestrator_model_choice_changes (
    id         BIGSERIAL PRIMARY KEY,
    agent      TEXT NOT NULL,
    old_choice JSONB, -- null: as configured
    new_choice JSONB, -- null: as configured
    changed_by TEXT NOT NULL,
    changed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_model_choice_changes_agent ON orchestrator_model_choice_changes (agent, id DESC);

-- +goose Down
DROP TABLE orchestrator_model_choice_changes;
DROP TABLE orchestrator_model_choices;
