-- +goose Up

-- Several runs may attempt the same goal. One of them is chosen and released; until then, those that
-- have passed their verification wait.
CREATE TABLE orchestrator_attempt_groups (
    id         BIGSERIAL PRIMARY KEY,
    tenant     TEXT NOT NULL DEFAULT 'local',
    project    TEXT NOT NULL DEFAULT '',
    settings   JSONB NOT NULL,
    estimate   JSONB,                      -- what all attempts will probably cost
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    stopped_at TIMESTAMPTZ,                -- when a person stopped all of them
    stopped_by TEXT NOT NULL DEFAULT '',
    decided_at TIMESTAMPTZ,                -- null: the choice was not made yet
    winner     BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- null: none
    rule       TEXT NOT NULL DEFAULT '' CHECK (rule IN ('', 'only', 'findings', 'same', 'size', 'judge', 'none', 'stopped')),
    reason     TEXT NOT NULL DEFAULT '',
    judge_run  BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL -- whose row has the judge's call
);

CREATE TABLE orchestrator_attempts (
    group_id      BIGINT NOT NULL REFERENCES orchestrator_attempt_groups ON DELETE CASCADE,
    number        INT NOT NULL CHECK (number > 0),
    run_id        BIGINT NOT NULL UNIQUE REFERENCES orchestrator_runs ON DELETE CASCADE,
    held_at       TIMESTAMPTZ,             -- when it first passed its verification and waited
    workspace     JSONB,                   -- what it then consisted of
    files         INT NOT NULL DEFAULT 0,  -- changed ones
    lines         INT NOT NULL DEFAULT 0,  -- added and deleted ones, without those of tests
    test_lines    INT NOT NULL DEFAULT 0,
    major         INT NOT NULL DEFAULT 0,  -- findings
    medium        INT NOT NULL DEFAULT 0,
    told_to       TEXT NOT NULL DEFAULT '', -- workflow run that knows that another attempt was chosen
    PRIMARY KEY (group_id, number)
);

ALTER TABLE orchestrator_budgets
    DROP CONSTRAINT orchestrator_budgets_scope_kind_check,
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('agent', 'run', 'attempts', 'project', 'tenant', 'day'));

-- +goose Down
DELETE FROM orchestrator_budgets WHERE scope_kind = 'attempts';
ALTER TABLE orchestrator_budgets
    DROP CONSTRAINT orchestrator_budgets_scope_kind_check,
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('agent', 'run', 'project', 'tenant', 'day'));
DROP TABLE orchestrator_attempts;
DROP TABLE orchestrator_attempt_groups;
