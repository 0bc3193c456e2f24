-- +goose Up

-- What happened on forges to the pull requests of runs that watch their branches: an inbox, which the
-- servers work through. Each thing that happened is one row, however often and by which way it was seen.
CREATE TABLE orchestrator_forge_events (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    forge       TEXT NOT NULL, -- name in the configuration
    repo        TEXT NOT NULL, -- path on the forge
    number      BIGINT NOT NULL, -- of the pull request
    event_id    TEXT NOT NULL, -- what happened, in the repository
    kind        TEXT NOT NULL CHECK (kind IN ('check', 'comment', 'closed', 'merged', 'pushed')),
    name        TEXT NOT NULL, -- of the check; path and line of the comment
    result      TEXT NOT NULL, -- of the check
    payload     JSONB NOT NULL,
    received_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    state       TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'ignored', 'failed')),
    reason      TEXT NOT NULL DEFAULT '', -- why it was ignored or failed; while it is pending, why the last attempt failed
    run_id      BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- that it was sent to
    answer      TEXT NOT NULL DEFAULT '', -- address of the answer to a comment
    attempts    INT NOT NULL DEFAULT 0,
    tried_at    TIMESTAMPTZ, -- first attempt
    next_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), -- of the next attempt; during one, when its server counts as dead
    ended_at    TIMESTAMPTZ,
    UNIQUE (forge, repo, event_id)
);
CREATE INDEX orchestrator_forge_events_pending ON orchestrator_forge_events (forge, repo, number, id) WHERE state = 'pending';
CREATE INDEX orchestrator_forge_events_checks ON orchestrator_forge_events (forge, repo, number, name, id) WHERE kind = 'check';
CREATE INDEX orchestrator_forge_events_ended ON orchestrator_forge_events (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX orchestrator_forge_events_run ON orchestrator_forge_events (run_id) WHERE run_id IS NOT NULL;

-- When the pull requests were looked at, and when they are looked at next.
CREATE TABLE orchestrator_forge_watches (
    forge     TEXT NOT NULL,
    repo      TEXT NOT NULL,
    number    BIGINT NOT NULL,
    commit_id TEXT NOT NULL, -- released one at the last look
    since     TIMESTAMPTZ NOT NULL, -- comments up to then were read
    looked_at TIMESTAMPTZ NOT NULL,
    next_at   TIMESTAMPTZ NOT NULL,
    asked_at  TIMESTAMPTZ, -- a webhook asked for a look
    failures  INT NOT NULL, -- in a row
    reason    TEXT NOT NULL, -- of the last failure
    PRIMARY KEY (forge, repo, number)
);
-- For webhooks, which may name a repository in other letters.
CREATE INDEX orchestrator_forge_watches_repo ON orchestrator_forge_watches (forge, lower(repo));

-- Webhooks that forges sent. Neither a delivery nor what it says counts twice.
CREATE TABLE orchestrator_forge_deliveries (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    forge       TEXT NOT NULL,
    delivery    TEXT NOT NULL, -- id that the forge gave it
    repo        TEXT NOT NULL,
    event_id    TEXT NOT NULL, -- what happened, in the repository
    received_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (forge, delivery),
    UNIQUE (forge, repo, event_id)
);
CREATE INDEX orchestrator_forge_deliveries_received ON orchestrator_forge_deliveries (received_at);

-- +goose Down
DROP TABLE orchestrator_forge_deliveries;
DROP TABLE orchestrator_forge_watches;
DROP TABLE orchestrator_forge_events;
