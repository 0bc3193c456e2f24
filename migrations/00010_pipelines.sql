-- +goose Up

-- The costs and events of a pipeline belong to a run: to the one that it
-- plans, or to a row of kind 'pipeline' that only carries it and its
-- recoveries. Such a row is not a run and appears in no list of runs.
ALTER TABLE orchestrator_runs ADD COLUMN kind TEXT NOT NULL DEFAULT 'run' CHECK (kind IN ('run', 'pipeline'));

-- One deliberation of ALPHA, BETA and GAMMA. Everything here except the
-- inputs is a projection of its workflow, pipeline-<id>, written by its
-- records.
CREATE TABLE orchestrator_pipelines (
    id                  BIGSERIAL PRIMARY KEY,
    run_id              BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    for_run             BOOLEAN NOT NULL DEFAULT false,      -- it plans the run
    execution_id        BIGINT REFERENCES orchestrator_executions ON DELETE SET NULL, -- of the planner, where for_run
    tenant              TEXT NOT NULL DEFAULT 'local',
    objective           TEXT NOT NULL,
    task                JSONB NOT NULL,
    settings            JSONB NOT NULL,
    inherited           JSONB,
    mode                TEXT NOT NULL CHECK (mode IN ('openrouter', 'local')),
    auto_continue       BOOLEAN NOT NULL DEFAULT false,
    attempt             INT NOT NULL DEFAULT 1 CHECK (attempt > 0), -- retry_count is one less
    prior_id            BIGINT UNIQUE REFERENCES orchestrator_pipelines ON DELETE SET NULL, -- that this one recovers
    recovered_by        BIGINT,                              -- the one that recovers this one
    status              TEXT NOT NULL DEFAULT 'SPAWNED' CHECK (status IN (
                            'SPAWNED', 'RUNNING', 'REPORT', 'ORCHESTRATING',
                            'COMPLETED', 'FAILED', 'TIMEOUT', 'ORCHESTRATION_FAILED', 'STOPPED')),
    iteration           INT NOT NULL DEFAULT 0,
    waiting_for         TEXT NOT NULL DEFAULT '',
    members             JSONB NOT NULL DEFAULT '[]',
    metrics             JSONB NOT NULL DEFAULT '{}',
    abort_reason        TEXT NOT NULL DEFAULT '' CHECK (abort_reason IN ('', 'stuck', 'iteration_limit', 'timeout')),
    handoff_ref         TEXT NOT NULL DEFAULT '',
    consensus           JSONB,
    failure             JSONB,
    failure_context     JSONB,
    workflow_id         TEXT NOT NULL DEFAULT '',
    workflow_run_id     TEXT NOT NULL DEFAULT '',
    workflow_started_at TIMESTAMPTZ,                         -- null: the reconciler has to start the workflow
    created_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    started_at          TIMESTAMPTZ,
    finished_at         TIMESTAMPTZ
);
CREATE INDEX orchestrator_pipelines_newest ON orchestrator_pipelines (created_at DESC, id DESC);
CREATE INDEX orchestrator_pipelines_status ON orchestrator_pipelines (status, created_at DESC, id DESC);
CREATE INDEX orchestrator_pipelines_run ON orchestrator_pipelines (run_id, id);
CREATE UNIQUE INDEX orchestrator_pipelines_planner ON orchestrator_pipelines (execution_id) WHERE prior_id IS NULL AND execution_id IS NOT NULL;
CREATE INDEX orchestrator_pipelines_unstarted ON orchestrator_pipelines (created_at) WHERE workflow_started_at IS NULL;

-- Every version of every entry of the blackboard.
CREATE TABLE orchestrator_pipeline_entries (
    pipeline_id BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    section     TEXT NOT NULL CHECK (section IN ('problem', 'solutions', 'synthesis', 'consensus')),
    key         TEXT NOT NULL,
    version     INT NOT NULL CHECK (version > 0),
    author      TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT '', -- of the newest version
    entry       JSONB NOT NULL,
    record_seq  BIGINT NOT NULL,          -- of the record that wrote it last
    written_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (pipeline_id, section, key, version)
);

CREATE TABLE orchestrator_pipeline_messages (
    pipeline_id BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    seq         INT NOT NULL CHECK (seq > 0),
    message_id  TEXT NOT NULL, -- ALPHA-3-2
    sender      TEXT NOT NULL CHECK (sender IN ('ALPHA', 'BETA', 'GAMMA')),
    recipient   TEXT NOT NULL DEFAULT '' CHECK (recipient IN ('', 'ALPHA', 'BETA', 'GAMMA')), -- empty: everybody
    message     JSONB NOT NULL,
    sent_at     TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (pipeline_id, seq),
    UNIQUE (pipeline_id, message_id)
);
CREATE INDEX orchestrator_pipeline_messages_sender ON orchestrator_pipeline_messages (pipeline_id, sender, seq DESC);

-- The last vote of a member on a version counts.
CREATE TABLE orchestrator_pipeline_votes (
    pipeline_id BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    key         TEXT NOT NULL,
    version     INT NOT NULL,
    voter       TEXT NOT NULL CHECK (voter IN ('ALPHA', 'BETA', 'GAMMA')),
    accept      BOOLEAN NOT NULL,
    vote        JSONB NOT NULL,
    voted_at    TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (pipeline_id, key, version, voter)
);

-- Rejected moves of members, and rejected signals in their name.
CREATE TABLE orchestrator_pipeline_errors (
    id          BIGSERIAL PRIMARY KEY,
    pipeline_id BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    member      TEXT NOT NULL DEFAULT '',
    error_class TEXT NOT NULL,
    error_code  TEXT NOT NULL DEFAULT '',
    message     TEXT NOT NULL,
    error       JSONB NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL
);
CREATE INDEX orchestrator_pipeline_errors_pipeline ON orchestrator_pipeline_errors (pipeline_id, id);

CREATE TABLE orchestrator_pipeline_reports (
    pipeline_id BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    kind        TEXT NOT NULL CHECK (kind IN ('checkpoint', 'partial', 'final')),
    report      JSONB NOT NULL,
    written_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (pipeline_id, kind)
);

-- Texts of members that are too long for histories, by their digest.
CREATE TABLE orchestrator_pipeline_texts (
    pipeline_id BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    ref         TEXT NOT NULL,
    text        TEXT NOT NULL,
    created_at  TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (pipeline_id, ref)
);

-- Applied records: a duplicate changes nothing.
CREATE TABLE orchestrator_pipeline_records (
    workflow_id     TEXT NOT NULL,
    workflow_run_id TEXT NOT NULL,
    seq             BIGINT NOT NULL,
    pipeline_id     BIGINT NOT NULL REFERENCES orchestrator_pipelines ON DELETE CASCADE,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (workflow_id, workflow_run_id, seq)
);
CREATE INDEX orchestrator_pipeline_records_pipeline ON orchestrator_pipeline_records (pipeline_id);

-- +goose Down
DROP TABLE orchestrator_pipeline_records;
DROP TABLE orchestrator_pipeline_texts;
DROP TABLE orchestrator_pipeline_reports;
DROP TABLE orchestrator_pipeline_errors;
DROP TABLE orchestrator_pipeline_votes;
DROP TABLE orchestrator_pipeline_messages;
DROP TABLE orchestrator_pipeline_entries;
DROP TABLE orchestrator_pipelines;
DELETE FROM orchestrator_runs WHERE kind = 'pipeline';
ALTER TABLE orchestrator_runs DROP COLUMN kind;
