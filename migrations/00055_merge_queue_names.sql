-- +goose Up

-- Forges ignore the case of the paths of repositories, so pull requests are found by any spelling.
CREATE INDEX orchestrator_merge_queue_entries_path ON orchestrator_merge_queue_entries (forge, lower(repo), number, id);
DROP INDEX orchestrator_merge_queue_entries_number;
CREATE INDEX orchestrator_pull_requests_path ON orchestrator_pull_requests (forge, lower(repo), number, run_id);

-- For the removal of old rows.
CREATE INDEX orchestrator_merge_queue_entries_age ON orchestrator_merge_queue_entries (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX orchestrator_merge_queue_commands_age ON orchestrator_merge_queue_commands (created_at);

-- +goose Down
DROP INDEX orchestrator_merge_queue_commands_age;
DROP INDEX orchestrator_merge_queue_entries_age;
DROP INDEX orchestrator_pull_requests_path;
CREATE INDEX orchestrator_merge_queue_entries_number ON orchestrator_merge_queue_entries (forge, repo, number, id);
DROP INDEX orchestrator_merge_queue_entries_path;
