-- +goose Up

-- One orchestration of one goal for one repository. Everything here except
-- the inputs is a projection of the run's workflow, written by records.
CREATE TABLE orchestrator_runs (
    id                  BIGSERIAL PRIMARY KEY,
    tenant              TEXT NOT NULL DEFAULT 'local',
    project             TEXT NOT NULL,
    goal_title          TEXT NOT NULL,
    goal_description    TEXT NOT NULL DEFAULT '',
    repo                TEXT NOT NULL,
    base_commit         TEXT NOT NULL DEFAULT '',
    base_branch         TEXT NOT NULL DEFAULT '',
    phase               TEXT NOT NULL DEFAULT '' CHECK (phase IN ('', 'planner', 'builder', 'tester', 'releaser')),
    status              TEXT NOT NULL DEFAULT 'pending' CHECK (status IN (
                            'pending',
                            'planner_running', 'planner_error', 'planner_completed',
                            'builder_running', 'builder_error', 'builder_completed',
                            'tester_running', 'tester_error', 'tester_completed',
                            'releaser_running', 'releaser_error',
                            'self_heal', 'paused', 'waiting_for_approval',
                            'done', 'failed', 'cancelled')),
    retry_count         INT NOT NULL DEFAULT 0,
    max_retries         INT NOT NULL DEFAULT 3,
    last_heal_action    TEXT,
    quality_score       NUMERIC CHECK (quality_score BETWEEN 0 AND 1),
    waiting_for         TEXT NOT NULL DEFAULT '',
    error_class         TEXT NOT NULL DEFAULT '' CHECK (error_class IN (
                            '', 'LLM_ERROR', 'INFRA_ERROR', 'ASSERTION_ERROR', 'RUNTIME_ERROR',
                            'LOGIC_ERROR', 'CONFIG_ERROR', 'SAFETY_ERROR', 'HUMAN_ERROR')),
    error_code          TEXT NOT NULL DEFAULT '',
    error_message       TEXT NOT NULL DEFAULT '',
    error_cause         TEXT NOT NULL DEFAULT '',
    planner_output      JSONB,
    builder_output      JSONB,
    tester_output       JSONB,
    releaser_output     JSONB,
    release_branch      TEXT NOT NULL DEFAULT '',
    release_commit      TEXT NOT NULL DEFAULT '',
    settings            JSONB NOT NULL, -- settings of the workflow, frozen when the run is created
    spec                JSONB,          -- other inputs that were resolved once for this run
    workflow_id         TEXT NOT NULL DEFAULT '',
    workflow_run_id     TEXT NOT NULL DEFAULT '',
    workflow_started_at TIMESTAMPTZ,    -- null: the reconciler has to start the workflow
    idempotency_key     TEXT,
    request_digest      TEXT NOT NULL DEFAULT '',
    event_seq           BIGINT NOT NULL DEFAULT 0, -- of the last event; its row lock orders events
    created_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    started_at          TIMESTAMPTZ,
    finished_at         TIMESTAMPTZ,
    UNIQUE (tenant, idempotency_key)
);
CREATE INDEX orchestrator_runs_newest ON orchestrator_runs (created_at DESC, id DESC);
CREATE INDEX orchestrator_runs_status ON orchestrator_runs (status, created_at DESC, id DESC);
CREATE INDEX orchestrator_runs_project ON orchestrator_runs (project, created_at DESC, id DESC);
CREATE INDEX orchestrator_runs_error_class ON orchestrator_runs (error_class, created_at DESC, id DESC) WHERE error_class <> '';
CREATE INDEX orchestrator_runs_unstarted ON orchestrator_runs (created_at) WHERE workflow_started_at IS NULL;

-- One attempt of a phase or, with a step, of a step.
CREATE TABLE orchestrator_executions (
    id                BIGSERIAL PRIMARY KEY,
    run_id            BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    phase             TEXT NOT NULL CHECK (phase IN ('planner', 'builder', 'tester', 'releaser')),
    step              TEXT NOT NULL DEFAULT '',
    agent             TEXT NOT NULL,
    attempt           INT NOT NULL CHECK (attempt > 0),
    status            TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    error_class       TEXT NOT NULL DEFAULT '',
    error_code        TEXT NOT NULL DEFAULT '',
    error_message     TEXT NOT NULL DEFAULT '',
    error_cause       TEXT NOT NULL DEFAULT '',
    provider          TEXT NOT NULL DEFAULT '',
    model             TEXT NOT NULL DEFAULT '',
    prompt_tokens     BIGINT NOT NULL DEFAULT 0,
    completion_tokens BIGINT NOT NULL DEFAULT 0,
    cost_micros       BIGINT NOT NULL DEFAULT 0,
    turns             INT NOT NULL DEFAULT 0,
    output            JSONB,
    started_at        TIMESTAMPTZ NOT NULL,
    finished_at       TIMESTAMPTZ,
    UNIQUE (run_id, phase, step, attempt)
);

-- The timeline of a run: one row per attempt of a phase.
CREATE TABLE orchestrator_phases (
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    phase        TEXT NOT NULL CHECK (phase IN ('planner', 'builder', 'tester', 'releaser')),
    attempt      INT NOT NULL CHECK (attempt > 0),
    execution_id BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    status       TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    started_at   TIMESTAMPTZ NOT NULL,
    finished_at  TIMESTAMPTZ,
    PRIMARY KEY (run_id, phase, attempt)
);
CREATE UNIQUE INDEX orchestrator_phases_execution ON orchestrator_phases (execution_id);

-- Events, ordered per run, each exactly once. A reader of one run orders by
-- seq. A reader of all runs orders by (tx, id) and reads only rows below the
-- oldest open transaction, so that it skips no late commit.
CREATE TABLE orchestrator_events (
    id         BIGSERIAL PRIMARY KEY,
    run_id     BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    seq        BIGINT NOT NULL CHECK (seq > 0),
    event_type TEXT NOT NULL,
    payload    JSONB NOT NULL DEFAULT '{}',
    tx         XID8 NOT NULL DEFAULT pg_current_xact_id(),
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (run_id, seq)
);
CREATE INDEX orchestrator_events_tx ON orchestrator_events (tx, id);

-- Applied records, with their answers: a duplicate changes nothing.
CREATE TABLE orchestrator_records (
    workflow_id     TEXT NOT NULL,
    workflow_run_id TEXT NOT NULL,
    seq             BIGINT NOT NULL,
    run_id          BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    result          JSONB NOT NULL,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (workflow_id, workflow_run_id, seq)
);
CREATE INDEX orchestrator_records_run ON orchestrator_records (run_id);

CREATE TABLE orchestrator_plans (
    id           BIGSERIAL PRIMARY KEY,
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    execution_id BIGINT REFERENCES orchestrator_executions ON DELETE CASCADE, -- null: a person provided or edited it
    author       TEXT NOT NULL DEFAULT '',
    plan         JSONB NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (execution_id)
);
CREATE INDEX orchestrator_plans_run ON orchestrator_plans (run_id, id DESC);

CREATE TABLE orchestrator_artifacts (
    id           BIGSERIAL PRIMARY KEY,
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    execution_id BIGINT REFERENCES orchestrator_executions ON DELETE SET NULL,
    name         TEXT NOT NULL,
    path         TEXT NOT NULL, -- within the run, for people; the content is stored under hash
    type         TEXT NOT NULL CHECK (type IN ('zip', 'screenshot', 'video', 'trace', 'json', 'log', 'patch', 'report', 'file')),
    size         BIGINT NOT NULL CHECK (size >= 0),
    hash         TEXT NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    UNIQUE (run_id, name)
);
CREATE INDEX orchestrator_artifacts_hash ON orchestrator_artifacts (hash);
CREATE INDEX orchestrator_artifacts_execution ON orchestrator_artifacts (execution_id);

-- The outcome of one check of the verification.
CREATE TABLE orchestrator_checks (
    execution_id BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    check_id     TEXT NOT NULL,
    category     TEXT NOT NULL CHECK (category IN ('build', 'test', 'lint', 'security', 'custom')),
    ok           BOOLEAN NOT NULL,
    result       JSONB NOT NULL,
    summary      JSONB NOT NULL,
    cases        JSONB NOT NULL DEFAULT '[]',
    log_digest   TEXT NOT NULL DEFAULT '',
    duration_ms  BIGINT NOT NULL DEFAULT 0,
    started_at   TIMESTAMPTZ NOT NULL,
    finished_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, check_id)
);

CREATE TABLE orchestrator_findings (
    id           BIGSERIAL PRIMARY KEY,
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    execution_id BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    check_id     TEXT NOT NULL,
    severity     TEXT NOT NULL CHECK (severity IN ('major', 'medium', 'minor')),
    category     TEXT NOT NULL CHECK (category IN ('build', 'test', 'lint', 'security', 'custom')),
    message      TEXT NOT NULL,
    location     TEXT NOT NULL DEFAULT '',
    rule         TEXT NOT NULL DEFAULT '',
    resolved     BOOLEAN NOT NULL DEFAULT false,
    resolved_at  TIMESTAMPTZ,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    CHECK (resolved = (resolved_at IS NOT NULL))
);
CREATE INDEX orchestrator_findings_run ON orchestrator_findings (run_id, id);
CREATE INDEX orchestrator_findings_check ON orchestrator_findings (execution_id, check_id);

CREATE TABLE orchestrator_self_heal_events (
    id          BIGSERIAL PRIMARY KEY,
    run_id      BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    phase       TEXT NOT NULL,
    error_type  TEXT NOT NULL,
    heal_action TEXT NOT NULL,
    heal_output JSONB NOT NULL DEFAULT '{}',
    created_at  TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX orchestrator_self_heal_events_run ON orchestrator_self_heal_events (run_id, id);

CREATE TABLE orchestrator_manual_interventions (
    id              BIGSERIAL PRIMARY KEY,
    run_id          BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    reason          TEXT NOT NULL,
    action_required TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved', 'expired')),
    deadline        TIMESTAMPTZ,
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    resolved_at     TIMESTAMPTZ,
    resolved_by     TEXT NOT NULL DEFAULT ''
);
CREATE INDEX orchestrator_manual_interventions_run ON orchestrator_manual_interventions (run_id, id);

CREATE TABLE orchestrator_approvals (
    run_id     BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    id         TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('plan', 'release')),
    status     TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'granted', 'rejected', 'expired')),
    decided_by TEXT NOT NULL DEFAULT '',
    reason     TEXT NOT NULL DEFAULT '',
    deadline   TIMESTAMPTZ,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    decided_at TIMESTAMPTZ,
    PRIMARY KEY (run_id, id)
);

-- The workers' agents as they last reported themselves.
CREATE TABLE orchestrator_agents (
    name           TEXT PRIMARY KEY,
    type           TEXT NOT NULL,
    version        TEXT NOT NULL DEFAULT '',
    health_status  TEXT NOT NULL DEFAULT 'unknown',
    cpu_usage      DOUBLE PRECISION NOT NULL DEFAULT 0, -- share of one core, 0 to number of cores
    memory_usage   BIGINT NOT NULL DEFAULT 0,           -- bytes
    last_heartbeat TIMESTAMPTZ
);

-- Prompts by content: a version is the digest of its text and never changes.
CREATE TABLE orchestrator_prompts (
    name       TEXT NOT NULL,
    version    TEXT NOT NULL,
    text       TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (name, version)
);

-- Conversations with models. Turn 0 is the opening; within a turn the model's
-- messages come first, then the results of its tool calls by their index.
CREATE TABLE orchestrator_transcripts (
    execution_id BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    turn         INT NOT NULL CHECK (turn >= 0),
    position     INT NOT NULL CHECK (position >= 0),
    role         TEXT NOT NULL,
    content      JSONB NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (execution_id, turn, position)
);

CREATE TABLE orchestrator_tool_calls (
    execution_id BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    turn         INT NOT NULL CHECK (turn > 0),
    call_index   INT NOT NULL CHECK (call_index >= 0),
    tool         TEXT NOT NULL,
    ok           BOOLEAN NOT NULL,
    code         TEXT NOT NULL DEFAULT '',
    tree_before  TEXT NOT NULL DEFAULT '',
    tree_after   TEXT NOT NULL DEFAULT '',
    outcome      JSONB NOT NULL,
    duration_ms  BIGINT NOT NULL DEFAULT 0,
    started_at   TIMESTAMPTZ NOT NULL,
    finished_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, turn, call_index)
);

-- One model call per turn of an execution. A call is reserved before it is
-- made and settled after; tries counts reservations, settled lists the
-- settled tries.
CREATE TABLE orchestrator_model_calls (
    id                BIGSERIAL PRIMARY KEY,
    run_id            BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    execution_id      BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    turn              INT NOT NULL CHECK (turn > 0),
    phase             TEXT NOT NULL,
    step              TEXT NOT NULL DEFAULT '',
    agent             TEXT NOT NULL,
    provider          TEXT NOT NULL,
    model             TEXT NOT NULL,
    prompt_version    TEXT NOT NULL DEFAULT '',
    status            TEXT NOT NULL CHECK (status IN ('reserved', 'done', 'failed')),
    tries             INT NOT NULL DEFAULT 1,
    settled           INT[] NOT NULL DEFAULT '{}',
    scopes            JSONB NOT NULL DEFAULT '[]', -- the budgets that hold the reservation
    reserved_tokens   BIGINT NOT NULL DEFAULT 0,
    reserved_micros   BIGINT NOT NULL DEFAULT 0,
    prompt_tokens     BIGINT NOT NULL DEFAULT 0,
    completion_tokens BIGINT NOT NULL DEFAULT 0,
    cost_micros       BIGINT NOT NULL DEFAULT 0,
    latency_ms        BIGINT NOT NULL DEFAULT 0,
    answer            JSONB,
    answer_try        INT NOT NULL DEFAULT 0, -- which try the answer is of
    error_class       TEXT NOT NULL DEFAULT '',
    error_code        TEXT NOT NULL DEFAULT '',
    error_message     TEXT NOT NULL DEFAULT '',
    started_at        TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    finished_at       TIMESTAMPTZ,
    UNIQUE (execution_id, turn)
);
CREATE INDEX orchestrator_model_calls_run ON orchestrator_model_calls (run_id, id);
CREATE INDEX orchestrator_model_calls_open ON orchestrator_model_calls (started_at) WHERE status = 'reserved';

-- Amounts that a run, a tenant or a day has spent and has reserved for calls
-- in flight.
CREATE TABLE orchestrator_budgets (
    scope_kind      TEXT NOT NULL CHECK (scope_kind IN ('run', 'tenant', 'day')),
    scope_key       TEXT NOT NULL,
    spent_tokens    BIGINT NOT NULL DEFAULT 0,
    spent_micros    BIGINT NOT NULL DEFAULT 0,
    reserved_tokens BIGINT NOT NULL DEFAULT 0 CHECK (reserved_tokens >= 0),
    reserved_micros BIGINT NOT NULL DEFAULT 0 CHECK (reserved_micros >= 0),
    warned          BOOLEAN NOT NULL DEFAULT false,
    PRIMARY KEY (scope_kind, scope_key)
);

-- +goose Down
DROP TABLE orchestrator_budgets;
DROP TABLE orchestrator_model_calls;
DROP TABLE orchestrator_tool_calls;
DROP TABLE orchestrator_transcripts;
DROP TABLE orchestrator_prompts;
DROP TABLE orchestrator_agents;
DROP TABLE orchestrator_approvals;
DROP TABLE orchestrator_manual_interventions;
DROP TABLE orchestrator_self_heal_events;
DROP TABLE orchestrator_findings;
DROP TABLE orchestrator_checks;
DROP TABLE orchestrator_artifacts;
DROP TABLE orchestrator_plans;
DROP TABLE orchestrator_records;
DROP TABLE orchestrator_events;
DROP TABLE orchestrator_phases;
DROP TABLE orchestrator_executions;
DROP TABLE orchestrator_runs;
