-- +goose Up

-- The pull requests that runs opened or updated: one row for each run and pull request. Runs that
-- continue a branch share its pull request.
CREATE TABLE orchestrator_pull_requests (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    forge      TEXT NOT NULL, -- name in the configuration
    repo       TEXT NOT NULL, -- path on the forge
    number     BIGINT NOT NULL,
    url        TEXT NOT NULL,
    title      TEXT NOT NULL,
    head       TEXT NOT NULL,
    base       TEXT NOT NULL,
    commit_id  TEXT NOT NULL, -- that the run released last
    state      TEXT NOT NULL, -- open, closed, merged
    draft      BOOLEAN NOT NULL,
    notes      JSONB NOT NULL, -- what could not be done
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (run_id, forge, repo, number)
);

-- For webhooks and polling, which know a pull request.
CREATE INDEX orchestrator_pull_requests_number ON orchestrator_pull_requests (forge, repo, number, run_id);

-- Pull requests are entries of the ledger.
CREATE CONSTRAINT TRIGGER orchestrator_ledger_pull_requests AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type IN ('pr.opened', 'pr.updated', 'pr.merged', 'pr.closed'))
    EXECUTE FUNCTION rgpt_ledger_event();

-- +goose Down
DROP TRIGGER orchestrator_ledger_pull_requests ON orchestrator_events;
DROP TABLE orchestrator_pull_requests;
