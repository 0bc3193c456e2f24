-- +goose Up

-- Environments: the installed files of a repository, by the digest of the
-- inputs. The content is an archive in the artifact store, and is unpacked on
-- each host that has used it.
CREATE TABLE orchestrator_environments (
    digest       TEXT PRIMARY KEY,
    repo         TEXT NOT NULL,
    base_commit  TEXT NOT NULL DEFAULT '',
    source       TEXT NOT NULL CHECK (source IN ('detected', 'configured', 'agent', 'person')),
    recipe       JSONB NOT NULL,
    archive      TEXT NOT NULL,              -- digest of the artifact
    archive_size BIGINT NOT NULL CHECK (archive_size >= 0),
    bytes        BIGINT NOT NULL CHECK (bytes >= 0),   -- on disk, unpacked
    files        BIGINT NOT NULL CHECK (files >= 0),
    duration_ms  BIGINT NOT NULL CHECK (duration_ms >= 0),
    run_id       BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- that made it
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    used_at      TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_environments_repo ON orchestrator_environments (repo, created_at DESC);
CREATE INDEX orchestrator_environments_used ON orchestrator_environments (used_at);

-- How to set up a repository whose files do not define it: found by an agent
-- and proven by a baseline, or defined by a person. The newest setup that is
-- proven and not revoked counts.
CREATE TABLE orchestrator_setups (
    id         BIGSERIAL PRIMARY KEY,
    repo       TEXT NOT NULL,
    source     TEXT NOT NULL CHECK (source IN ('agent', 'person')),
    settings   JSONB NOT NULL,
    reason     TEXT NOT NULL DEFAULT '',
    proven     BOOLEAN NOT NULL DEFAULT true, -- false: proposed by an agent, and tried by its run alone
    run_id     BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL,
    created_by TEXT NOT NULL DEFAULT '',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    revoked_at TIMESTAMPTZ,
    revoked_by TEXT NOT NULL DEFAULT ''
);
CREATE INDEX orchestrator_setups_repo ON orchestrator_setups (repo, id DESC) WHERE revoked_at IS NULL;

-- Results of a project's own checks on a base commit, by the digest of its
-- tree, its environment and the verification settings.
CREATE TABLE orchestrator_baselines (
    key         TEXT PRIMARY KEY,
    repo        TEXT NOT NULL,
    base_commit TEXT NOT NULL,
    tree        TEXT NOT NULL,
    environment TEXT NOT NULL DEFAULT '',
    stages      JSONB NOT NULL,
    commands    JSONB NOT NULL DEFAULT '{}',
    run_id      BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- that began it
    created_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_baselines_repo ON orchestrator_baselines (repo, created_at DESC);
CREATE INDEX orchestrator_baselines_environment ON orchestrator_baselines (environment);

CREATE TABLE orchestrator_baseline_checks (
    key        TEXT NOT NULL REFERENCES orchestrator_baselines ON DELETE CASCADE,
    check_id   TEXT NOT NULL,
    result     JSONB NOT NULL,
    cases      JSONB NOT NULL DEFAULT '[]',
    findings   JSONB NOT NULL DEFAULT '[]',
    log_digest TEXT NOT NULL DEFAULT '',
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (key, check_id)
);

-- The environment and baseline of a run, and the setup that it uses.
ALTER TABLE orchestrator_runs
    ADD COLUMN environment TEXT NOT NULL DEFAULT '',
    ADD COLUMN baseline TEXT NOT NULL DEFAULT '',
    ADD COLUMN setup_id BIGINT REFERENCES orchestrator_setups ON DELETE SET NULL;
CREATE INDEX orchestrator_runs_environment ON orchestrator_runs (environment) WHERE environment <> '';

-- A finding that the base commit also had is known, and does not count
-- against the change.
ALTER TABLE orchestrator_findings
    ADD COLUMN status TEXT NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'known'));

-- Live output of set-ups, checks and commands. After their end, the whole
-- output is an artifact; these rows are removed after an hour.
CREATE TABLE orchestrator_outputs (
    id         BIGSERIAL PRIMARY KEY,
    run_id     BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    source     TEXT NOT NULL, -- environment, the id of a check, or a step
    text       TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_outputs_run ON orchestrator_outputs (run_id, id);
CREATE INDEX orchestrator_outputs_age ON orchestrator_outputs (created_at);

-- +goose Down
DROP TABLE orchestrator_outputs;
ALTER TABLE orchestrator_findings DROP COLUMN status;
DROP INDEX orchestrator_runs_environment;
ALTER TABLE orchestrator_runs DROP COLUMN environment, DROP COLUMN baseline, DROP COLUMN setup_id;
DROP TABLE orchestrator_baseline_checks;
DROP TABLE orchestrator_baselines;
DROP TABLE orchestrator_setups;
DROP TABLE orchestrator_environments;
