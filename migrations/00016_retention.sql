-- +goose Up

-- A file whose content is not stored has a row all the same: it was left out
-- because a limit was reached, or retention has deleted its content.
ALTER TABLE orchestrator_artifacts
    ADD COLUMN left_out   TEXT NOT NULL DEFAULT '', -- why the content was not stored; then there is no hash
    ADD COLUMN deleted_at TIMESTAMPTZ;              -- when retention deleted the content
-- When retention deleted all files of a run: it can no longer be repeated.
ALTER TABLE orchestrator_runs ADD COLUMN files_deleted_at TIMESTAMPTZ;
CREATE INDEX orchestrator_runs_fork_of ON orchestrator_runs (((settings #>> '{fork,run_id}')::bigint)) WHERE settings ? 'fork';

-- Other references to the content of files.
CREATE INDEX orchestrator_environments_archive ON orchestrator_environments (archive);
CREATE INDEX orchestrator_baseline_checks_log ON orchestrator_baseline_checks (log_digest) WHERE log_digest <> '';

-- People who keep the files of a run, and why.
CREATE TABLE orchestrator_holds (
    id          BIGSERIAL PRIMARY KEY,
    run_id      BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    reason      TEXT NOT NULL,
    held_by     TEXT NOT NULL DEFAULT '',
    created_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    released_at TIMESTAMPTZ, -- null: in force
    released_by TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX orchestrator_holds_run ON orchestrator_holds (run_id) WHERE released_at IS NULL;

-- Clean-ups, and what each deleted.
CREATE TABLE orchestrator_cleanups (
    id          BIGSERIAL PRIMARY KEY,
    origin      TEXT NOT NULL CHECK (origin IN ('schedule', 'person')),
    asked_by    TEXT NOT NULL DEFAULT '',
    policy      JSONB NOT NULL,
    report      JSONB, -- null: in progress, or its process died
    started_at  TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    finished_at TIMESTAMPTZ
);
CREATE INDEX orchestrator_cleanups_schedule ON orchestrator_cleanups (started_at DESC) WHERE origin = 'schedule';
CREATE TABLE orchestrator_deletions (
    id         BIGSERIAL PRIMARY KEY,
    cleanup_id BIGINT NOT NULL REFERENCES orchestrator_cleanups ON DELETE CASCADE,
    kind       TEXT NOT NULL CHECK (kind IN ('files', 'logs', 'environments', 'blobs')),
    run_id     BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- of files and logs
    name       TEXT NOT NULL DEFAULT '',                               -- digest of an environment
    count      BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    deleted_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX orchestrator_deletions_cleanup ON orchestrator_deletions (cleanup_id, id);
CREATE INDEX orchestrator_deletions_run ON orchestrator_deletions (run_id) WHERE run_id IS NOT NULL;

-- When the runs that have files ended, as far as retention is concerned. A run
-- has no end while it works, waits, is paused or queued, stays with its branch
-- or is about to be repeated, or while a pipeline of it can go on. It is kept
-- while a person holds it, or while a run that continues from it has its
-- files.
CREATE VIEW orchestrator_run_ends AS
SELECT r.id, r.created_at, r.files_deleted_at,
       (CASE
           WHEN r.kind = 'pipeline' THEN (
               SELECT CASE WHEN bool_and(p.finished_at IS NOT NULL AND p.waiting_for = '') THEN max(p.updated_at) END
               FROM orchestrator_pipelines p WHERE p.run_id = r.id)
           WHEN r.status IN ('done', 'failed', 'cancelled') AND r.staying_until IS NULL
               AND NOT EXISTS (SELECT FROM orchestrator_replays o
                               WHERE o.run_id = r.id AND o.execution_id IS NULL AND o.created_at > clock_timestamp() - interval '7 days')
               THEN coalesce(r.finished_at, r.updated_at)
       END)::timestamptz AS ended_at,
       EXISTS (SELECT FROM orchestrator_holds h WHERE h.run_id = r.id AND h.released_at IS NULL)::boolean AS held,
       EXISTS (SELECT FROM orchestrator_runs f
               WHERE f.settings ? 'fork' AND (f.settings #>> '{fork,run_id}')::bigint = r.id AND f.files_deleted_at IS NULL)::boolean AS continued
FROM orchestrator_runs r;

-- +goose Down
DROP VIEW orchestrator_run_ends;
DROP TABLE orchestrator_deletions;
DROP TABLE orchestrator_cleanups;
DROP TABLE orchestrator_holds;
DROP INDEX orchestrator_baseline_checks_log;
DROP INDEX orchestrator_environments_archive;
DROP INDEX orchestrator_runs_fork_of;
ALTER TABLE orchestrator_runs DROP COLUMN files_deleted_at;
DELETE FROM orchestrator_artifacts WHERE left_out <> '';
ALTER TABLE orchestrator_artifacts DROP COLUMN left_out, DROP COLUMN deleted_at;
