-- +goose Up

-- Outcomes of a project's tests over its runs: one row per test. A test is
-- identified by its repository, the check that runs it (without the shard) and
-- the name that its runner reports, including parameters.
CREATE TABLE orchestrator_tests (
    key           BYTEA PRIMARY KEY, -- SHA-256 of repository, check and name
    repo          TEXT NOT NULL,
    check_id      TEXT NOT NULL,
    name          TEXT NOT NULL,
    passes        BIGINT NOT NULL DEFAULT 0, -- without a re-run
    failures      BIGINT NOT NULL DEFAULT 0, -- in each re-run
    reruns        BIGINT NOT NULL DEFAULT 0, -- failed, then passed in a re-run
    base_failures BIGINT NOT NULL DEFAULT 0, -- of failures and reruns, those on base commits
    streak        BIGINT NOT NULL DEFAULT 0, -- passes since the last failure or re-run
    duration_ms   BIGINT NOT NULL DEFAULT 0, -- the last time
    passed_state  TEXT NOT NULL DEFAULT '',  -- where it passed the last time
    failed_at     TIMESTAMPTZ,               -- the last failure or re-run
    seen_at       TIMESTAMPTZ NOT NULL DEFAULT now(),
    created_at    TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_tests_seen ON orchestrator_tests (repo, seen_at DESC);
CREATE INDEX orchestrator_tests_age ON orchestrator_tests (seen_at);
CREATE INDEX orchestrator_tests_failed ON orchestrator_tests (repo, failed_at DESC) WHERE failed_at IS NOT NULL;
CREATE INDEX orchestrator_tests_failed_at ON orchestrator_tests (failed_at DESC) WHERE failed_at IS NOT NULL;
CREATE INDEX orchestrator_tests_name ON orchestrator_tests (md5(name));

-- Outcomes of tests that failed recently, by state: a digest of the tree, the
-- environment and the tools. A state with both outcomes proves that a test is
-- flaky.
CREATE TABLE orchestrator_test_states (
    key      BYTEA NOT NULL REFERENCES orchestrator_tests ON DELETE CASCADE,
    state    TEXT NOT NULL,
    passes   BIGINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    reruns   BIGINT NOT NULL DEFAULT 0,
    run_id   BIGINT NOT NULL DEFAULT 0, -- the last one
    first_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    last_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (key, state)
);
CREATE INDEX orchestrator_test_states_age ON orchestrator_test_states (last_at);

-- Checks whose outcomes are part of the history, each once.
CREATE TABLE orchestrator_test_recordings (
    source     TEXT PRIMARY KEY, -- execution and check
    repo       TEXT NOT NULL,
    check_id   TEXT NOT NULL,
    run_id     BIGINT NOT NULL DEFAULT 0,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_test_recordings_repo ON orchestrator_test_recordings (repo, check_id, created_at DESC);
CREATE INDEX orchestrator_test_recordings_age ON orchestrator_test_recordings (created_at);

-- Quarantined tests: their failures do not count until the entry expires or is
-- removed. Rows are never changed otherwise, so they also tell who quarantined
-- which test, when and why.
CREATE TABLE orchestrator_quarantine (
    id         BIGSERIAL PRIMARY KEY,
    repo       TEXT NOT NULL,
    check_id   TEXT NOT NULL DEFAULT '', -- empty: any check
    name       TEXT NOT NULL,
    source     TEXT NOT NULL CHECK (source IN ('person', 'policy')),
    reason     TEXT NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    expires_at TIMESTAMPTZ NOT NULL,
    removed_at TIMESTAMPTZ,
    removed_by TEXT NOT NULL DEFAULT '',
    CHECK (expires_at > created_at)
);
CREATE INDEX orchestrator_quarantine_repo ON orchestrator_quarantine (repo, expires_at) WHERE removed_at IS NULL;
CREATE INDEX orchestrator_quarantine_name ON orchestrator_quarantine (repo, name, expires_at);

-- The quarantined tests that all checks of an execution use, as they were when
-- its checks were planned.
CREATE TABLE orchestrator_quarantine_uses (
    execution_id BIGINT PRIMARY KEY REFERENCES orchestrator_executions ON DELETE CASCADE,
    tests        JSONB NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE orchestrator_quarantine_uses;
DROP TABLE orchestrator_quarantine;
DROP TABLE orchestrator_test_recordings;
DROP TABLE orchestrator_test_states;
DROP TABLE orchestrator_tests;
