-- +goose Up

-- The base of a pull request has commits that the branch needs.
ALTER TABLE orchestrator_forge_events DROP CONSTRAINT orchestrator_forge_events_kind_check;
ALTER TABLE orchestrator_forge_events ADD CONSTRAINT orchestrator_forge_events_kind_check
    CHECK (kind IN ('check', 'comment', 'closed', 'merged', 'pushed', 'base'));

-- Whether the forge last said that the pull request conflicts with its base.
ALTER TABLE orchestrator_pull_requests ADD COLUMN conflict BOOLEAN NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE orchestrator_pull_requests DROP COLUMN conflict;
DELETE FROM orchestrator_forge_events WHERE kind = 'base';
ALTER TABLE orchestrator_forge_events DROP CONSTRAINT orchestrator_forge_events_kind_check;
ALTER TABLE orchestrator_forge_events ADD CONSTRAINT orchestrator_forge_events_kind_check
    CHECK (kind IN ('check', 'comment', 'closed', 'merged', 'pushed'));
