-- +goose Up

-- What the policies read when they decided, so that a verdict can be explained, and other policies can
-- judge the same.
CREATE TABLE orchestrator_gate_inputs (
    verdict_id BIGINT PRIMARY KEY REFERENCES orchestrator_gate_verdicts ON DELETE CASCADE,
    input      JSONB NOT NULL,
    repository TEXT NOT NULL DEFAULT '', -- digest of the repository's policies; '': it has none
    refused    TEXT NOT NULL DEFAULT ''  -- why they were not evaluated
);

-- +goose Down
DROP TABLE orchestrator_gate_inputs;
