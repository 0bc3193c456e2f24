-- +goose Up

-- Responses that answer identical requests of later runs of the same project. The response itself is
-- in the row of the call that got it from the model.
CREATE TABLE orchestrator_cached_responses (
    tenant     TEXT NOT NULL,
    project    TEXT NOT NULL,
    repo       TEXT NOT NULL,
    provider   TEXT NOT NULL,
    model      TEXT NOT NULL,
    digest     TEXT NOT NULL, -- of the complete request
    call_id    BIGINT NOT NULL REFERENCES orchestrator_model_calls ON DELETE CASCADE,
    stored_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    expires_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (tenant, project, repo, provider, model, digest)
);
CREATE INDEX orchestrator_cached_responses_age ON orchestrator_cached_responses (tenant, project, repo, stored_at DESC);
CREATE INDEX orchestrator_cached_responses_expiry ON orchestrator_cached_responses (expires_at);
CREATE INDEX orchestrator_cached_responses_call ON orchestrator_cached_responses (call_id);

-- The call whose response answered this one: {"run_id": 1, "call_id": 2}; NULL: a model answered it.
ALTER TABLE orchestrator_model_calls ADD COLUMN cached_response JSONB;

-- +goose Down
ALTER TABLE orchestrator_model_calls DROP COLUMN cached_response;
DROP TABLE orchestrator_cached_responses;
