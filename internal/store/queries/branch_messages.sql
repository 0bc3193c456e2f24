-- name: LockBranch :exec
-- Repairs of a branch are counted one after the other, for all runs.
SELECT pg_advisory_xact_lock(hashtextextended(@branch::text, 0));

-- name: AddBranchMessage :one
-- Runs under the lock of the branch. A message that already exists returns its first
-- answer.
WITH prior AS (
    SELECT m.id, m.repair, m.workflow_run_id
    FROM orchestrator_branch_messages m
    WHERE m.run_id = @run_id AND m.message_id = @message_id
), used AS (
    SELECT count(*)::int AS n FROM orchestrator_branch_messages m WHERE m.repo = @repo AND m.branch = @branch AND m.repair > 0
), added AS (
    INSERT INTO orchestrator_branch_messages (run_id, message_id, workflow_run_id, repo, branch, repair, message, created_at)
    SELECT @run_id, @message_id, @workflow_run_id, @repo, @branch, CASE WHEN u.n < @most::int THEN u.n + 1 ELSE 0 END, @message, clock_timestamp()
    FROM used u
    WHERE NOT EXISTS (SELECT FROM prior)
    RETURNING id, repair, workflow_run_id
)
SELECT id, repair, workflow_run_id FROM added
UNION ALL
SELECT id, repair, workflow_run_id FROM prior;

-- name: BranchMessage :one
SELECT message FROM orchestrator_branch_messages WHERE id = @id;
