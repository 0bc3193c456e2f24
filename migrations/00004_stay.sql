-- +goose Up
ALTER TABLE orchestrator_runs ADD COLUMN staying_until TIMESTAMPTZ; -- null: it does not stay with its branch

-- Messages about released branches that led to a repair, or would have.
CREATE TABLE orchestrator_branch_messages (
    id              BIGSERIAL PRIMARY KEY,
    run_id          BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    message_id      TEXT NOT NULL, -- the sender's: the same one counts once
    workflow_run_id TEXT NOT NULL, -- that accepted it
    repo            TEXT NOT NULL,
    branch          TEXT NOT NULL,
    repair          INT NOT NULL, -- which of the branch's repairs it led to, from 1; 0: there were enough
    message         JSONB NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (run_id, message_id)
);
CREATE INDEX orchestrator_branch_messages_branch ON orchestrator_branch_messages (repo, branch) WHERE repair > 0;

-- +goose Down
DROP TABLE orchestrator_branch_messages;
ALTER TABLE orchestrator_runs DROP COLUMN staying_until;
