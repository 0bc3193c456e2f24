-- +goose Up

-- Parts of the tokens of model calls: of the prompt, what the provider read from its cache and what
-- it wrote to it; of the response, what the model thought.
ALTER TABLE orchestrator_model_calls
    ADD COLUMN cached_tokens      BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN reasoning_tokens   BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE orchestrator_model_calls
    DROP COLUMN cached_tokens,
    DROP COLUMN cache_write_tokens,
    DROP COLUMN reasoning_tokens;
