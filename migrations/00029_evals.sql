-- +goose Up

-- Evaluations: the same tasks, solved by one or more variants. Hidden tests and solutions are only
-- in the set's file, never in the database, so no agent and no page can show them.
CREATE TABLE orchestrator_evals (
    id              BIGSERIAL PRIMARY KEY,
    set_name        TEXT NOT NULL,
    set_digest      TEXT NOT NULL,            -- of tasks and variants
    variants        JSONB NOT NULL,
    max_cost_micros BIGINT NOT NULL DEFAULT 0, -- 0: no limit
    status          TEXT NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'stopped', 'done')),
    reason          TEXT NOT NULL DEFAULT '',  -- why it stopped
    created_by      TEXT NOT NULL DEFAULT '',
    created_at      TIMESTAMPTZ NOT NULL DEFAULT now(),
    finished_at     TIMESTAMPTZ
);
CREATE INDEX orchestrator_evals_open ON orchestrator_evals (set_digest, id DESC) WHERE status <> 'done';

-- One row for each task and variant of an evaluation. The row exists from the start, so an
-- interrupted evaluation continues where it was.
CREATE TABLE orchestrator_eval_results (
    eval_id          BIGINT NOT NULL REFERENCES orchestrator_evals ON DELETE CASCADE,
    position         INT NOT NULL,              -- in the order of the evaluation
    task             TEXT NOT NULL,
    variant          TEXT NOT NULL,
    repo             TEXT NOT NULL DEFAULT '',
    title            TEXT NOT NULL DEFAULT '',
    run_id           BIGINT NOT NULL DEFAULT 0, -- 0: no run of the product (yet)
    attempt          INT NOT NULL DEFAULT 1,    -- higher if it was made again
    cap_micros       BIGINT NOT NULL DEFAULT 0, -- share of the budget, fixed when it starts; 0: no limit
    status           TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'done')),
    solved           BOOLEAN NOT NULL DEFAULT false,
    reason           TEXT NOT NULL DEFAULT '',  -- code of why it is not solved
    detail           TEXT NOT NULL DEFAULT '',
    cost_micros      BIGINT NOT NULL DEFAULT 0,
    cost_known       BOOLEAN NOT NULL DEFAULT true,
    fresh_tokens     BIGINT NOT NULL DEFAULT 0, -- of prompts, not read from a cache
    cached_tokens    BIGINT NOT NULL DEFAULT 0,
    reasoning_tokens BIGINT NOT NULL DEFAULT 0, -- of responses, what the model thought
    output_tokens    BIGINT NOT NULL DEFAULT 0, -- of responses, without reasoning
    turns            INT NOT NULL DEFAULT 0,
    heals            INT NOT NULL DEFAULT 0,
    seconds          DOUBLE PRECISION NOT NULL DEFAULT 0,
    tests            JSONB,                     -- outcome of the hidden tests, in numbers
    started_at       TIMESTAMPTZ,
    finished_at      TIMESTAMPTZ,
    PRIMARY KEY (eval_id, task, variant)
);
CREATE INDEX orchestrator_eval_results_order ON orchestrator_eval_results (eval_id, position);

-- +goose Down
DROP TABLE orchestrator_eval_results;
DROP TABLE orchestrator_evals;
