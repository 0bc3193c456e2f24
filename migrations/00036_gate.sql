-- +goose Up

-- What the policy gate decided about changes: one row for each change, stage and set of policies.
CREATE TABLE orchestrator_gate_verdicts (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    execution_id BIGINT NOT NULL DEFAULT 0,
    stage        TEXT NOT NULL CHECK (stage IN ('step', 'repair', 'release')),
    step         TEXT NOT NULL DEFAULT '',
    author       TEXT NOT NULL,
    subject      TEXT NOT NULL, -- digest of all that was judged
    from_tree    TEXT NOT NULL,
    tree         TEXT NOT NULL,
    policies     JSONB NOT NULL, -- digests of the policies by name
    policy       TEXT NOT NULL,  -- digest of the policies, guards and settings that decided
    decision     TEXT NOT NULL CHECK (decision IN ('allow', 'needs_approval', 'deny')),
    reasons      JSONB NOT NULL,
    findings     JSONB NOT NULL,
    automerge    BOOLEAN NOT NULL DEFAULT false,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (run_id, stage, subject, policy)
);

-- The operator's policies by their digest, as runs use them: a run keeps those that it began with.
CREATE TABLE orchestrator_gate_policies (
    digest     TEXT PRIMARY KEY,
    files      JSONB NOT NULL, -- contents by name
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- What exactly a person was asked to approve. '': an approval of an earlier version.
ALTER TABLE orchestrator_approvals ADD COLUMN subject TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE orchestrator_approvals DROP COLUMN subject;
DROP TABLE orchestrator_gate_policies;
DROP TABLE orchestrator_gate_verdicts;
