-- +goose Up

-- When the files of runs expire: at the end of the run, or of the last run that
-- continues from it and has its files, whichever is later. Runs that have not
-- ended or that a person holds never expire.
CREATE VIEW orchestrator_run_expiry AS
WITH RECURSIVE forks AS (
    SELECT f.id, (f.settings #>> '{fork,run_id}')::bigint AS parent
    FROM orchestrator_runs f WHERE f.settings ? 'fork' AND f.files_deleted_at IS NULL
), lineage AS (
    SELECT f.parent AS id, f.id AS fork FROM forks f
    UNION
    SELECT l.id, f.id FROM lineage l JOIN forks f ON f.parent = l.fork
), forked AS (
    SELECT l.id, max(CASE WHEN e.ended_at IS NULL OR e.held THEN 'infinity' ELSE e.ended_at END) AS last
    FROM lineage l JOIN orchestrator_run_ends e ON e.id = l.fork GROUP BY l.id
)
SELECT e.id, e.ended_at, e.held, e.files_deleted_at,
       greatest(CASE WHEN e.ended_at IS NULL OR e.held THEN 'infinity' ELSE e.ended_at END, f.last)::timestamptz AS expires_at
FROM orchestrator_run_ends e LEFT JOIN forked f ON f.id = e.id;

-- The tests that failed in a run, for which young entries of the quarantine do not apply.
CREATE INDEX orchestrator_test_states_failed ON orchestrator_test_states (run_id) WHERE failures + reruns > 0;

-- +goose Down
DROP INDEX orchestrator_test_states_failed;
DROP VIEW orchestrator_run_expiry;
