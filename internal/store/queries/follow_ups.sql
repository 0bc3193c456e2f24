-- name: LockContinuedBranch :exec
-- Serializes transactions that create runs on a branch.
SELECT pg_advisory_xact_lock(hashtextextended('rgpt branch ' || @branch::text || ' of ' || @repo::text, 0));

-- name: OpenRunOnBranch :many
-- The oldest run that may still add commits to a branch: it is in progress, or watches the branch.
SELECT r.id, r.status FROM orchestrator_runs r
WHERE r.repo = @repo AND r.kind = 'run'
  AND (r.status NOT IN ('done', 'failed', 'cancelled') OR r.staying_until IS NOT NULL)
  AND (r.release_branch = @branch::text OR EXISTS (SELECT FROM orchestrator_follow_ups f WHERE f.run_id = r.id AND f.branch = @branch::text))
ORDER BY r.id LIMIT 1;

-- name: LastReleaseOnBranch :many
-- The newest run that continued a branch and released commits to it.
SELECT r.id FROM orchestrator_follow_ups f JOIN orchestrator_runs r ON r.id = f.run_id
WHERE f.repo = @repo AND f.branch = @branch::text AND f.branch <> '' AND r.release_commit <> ''
ORDER BY r.id DESC LIMIT 1;

-- name: AddFollowUp :exec
INSERT INTO orchestrator_follow_ups (run_id, of_run, repo, branch, work) VALUES (@run_id, @of_run, @repo, @branch, @work);

-- name: WorkBefore :one
SELECT work FROM orchestrator_follow_ups WHERE run_id = @run_id;

-- name: RunsAfter :many
-- Runs that continue from a run: follow-ups and forks, oldest first.
SELECT r.id, r.status, r.goal_title, r.release_commit, TRUE AS follows FROM orchestrator_follow_ups f JOIN orchestrator_runs r ON r.id = f.run_id
WHERE f.of_run = @run_id::bigint AND f.branch <> ''
UNION ALL
SELECT r.id, r.status, r.goal_title, r.release_commit, FALSE AS follows FROM orchestrator_runs r
WHERE r.settings ? 'fork' AND (r.settings #>> '{fork,run_id}')::bigint = @run_id::bigint
ORDER BY id LIMIT @most::int;

-- name: RunTitle :one
SELECT id, status, goal_title, release_commit FROM orchestrator_runs WHERE id = @run_id;
