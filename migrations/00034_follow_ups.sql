-- +goose Up

-- Runs that continue the branch of an earlier run, and what they know about its work. The text is
-- fixed when the run is created: nothing that happens to the earlier run later changes it.
CREATE TABLE orchestrator_follow_ups (
    run_id BIGINT PRIMARY KEY REFERENCES orchestrator_runs ON DELETE CASCADE,
    of_run BIGINT NOT NULL,
    repo   TEXT NOT NULL,
    branch TEXT NOT NULL, -- '': a fork of such a run, which has a branch of its own
    work   JSONB NOT NULL -- of the earlier runs, the oldest first
);
CREATE INDEX orchestrator_follow_ups_of ON orchestrator_follow_ups (of_run);
CREATE INDEX orchestrator_follow_ups_branch ON orchestrator_follow_ups (repo, branch) WHERE branch <> '';

-- +goose Down
DROP TABLE orchestrator_follow_ups;
