-- name: SaveMergeQueue :exec
-- Stores the state of a merge queue, unless a later one is stored.
INSERT INTO orchestrator_merge_queues AS q (forge, repo, base, version, paused_at, paused_by, pause_reason, check_runs, decided)
VALUES (@forge, @repo, @base, @version, sqlc.narg(paused_at)::timestamptz, @paused_by, @pause_reason, @check_runs, @decided)
ON CONFLICT (forge, repo, base) DO UPDATE
    SET version = EXCLUDED.version, paused_at = EXCLUDED.paused_at, paused_by = EXCLUDED.paused_by, pause_reason = EXCLUDED.pause_reason,
        check_runs = q.check_runs + EXCLUDED.check_runs, decided = q.decided + EXCLUDED.decided, updated_at = clock_timestamp()
    WHERE q.version < EXCLUDED.version;

-- name: AbandonMergeQueueEntries :execrows
-- Ends the entries that an earlier execution left behind, because it was terminated.
UPDATE orchestrator_merge_queue_entries
SET state = 'returned', reason = @reason::text, ended_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE forge = @forge AND repo = @repo AND base = @base AND ended_at IS NULL AND version < @version;

-- name: SaveMergeQueueEntry :one
-- Stores an entry of a merge queue, unless a later state of it is stored. It returns whether the entry has
-- ended with this.
WITH before AS (
    SELECT e.ended_at FROM orchestrator_merge_queue_entries e
    WHERE e.forge = @forge::text AND e.repo = @repo::text AND e.base = @base::text AND e.key = @key::text
), saved AS (
    INSERT INTO orchestrator_merge_queue_entries AS e
        (forge, repo, base, key, number, title, url, run_id, added_by, added_at, place, state, reason, head_commit, batch, merge_commit, version, ended_at)
    VALUES (@forge, @repo, @base, @key, @number::bigint, @title::text, @url::text,
            (SELECT r.id FROM orchestrator_runs r WHERE r.id = @run_id::bigint),
            @added_by::text, @added_at::timestamptz, @place::bigint, @state::text, @reason::text, @head_commit::text, @batch::text, @merge_commit::text, @version::bigint,
            CASE WHEN @state::text IN ('merged', 'returned') THEN clock_timestamp() END)
    ON CONFLICT (forge, repo, base, key) DO UPDATE
        SET place = EXCLUDED.place, state = EXCLUDED.state, reason = EXCLUDED.reason, head_commit = EXCLUDED.head_commit, batch = EXCLUDED.batch,
            merge_commit = EXCLUDED.merge_commit, version = EXCLUDED.version, ended_at = EXCLUDED.ended_at, updated_at = clock_timestamp()
        WHERE e.version < EXCLUDED.version
    RETURNING e.ended_at
)
SELECT (EXISTS (SELECT 1 FROM saved WHERE ended_at IS NOT NULL) AND NOT EXISTS (SELECT 1 FROM before WHERE ended_at IS NOT NULL))::bool AS ended;

-- name: AddMergeQueueCommand :exec
INSERT INTO orchestrator_merge_queue_commands (forge, repo, base, key, action, number, by_whom, reason)
VALUES (@forge, @repo, @base, @key, @action, nullif(@number::bigint, 0), @by_whom, @reason)
ON CONFLICT DO NOTHING;

-- name: MergeQueues :many
-- Merge queues, of a forge and a repository in any spelling or of all, that changed last first.
SELECT q.forge, q.repo, q.base, q.paused_at, q.paused_by, q.pause_reason, q.check_runs, q.decided, q.updated_at
FROM orchestrator_merge_queues q
WHERE (@forge::text = '' OR q.forge = @forge) AND (@repo::text = '' OR lower(q.repo) = lower(@repo)) AND (@base::text = '' OR q.base = @base)
ORDER BY q.updated_at DESC LIMIT @most;

-- name: OpenMergeQueueEntries :many
-- The entries of a merge queue that have not ended, in the order in which they are taken.
SELECT * FROM orchestrator_merge_queue_entries
WHERE forge = @forge AND repo = @repo AND base = @base AND ended_at IS NULL
ORDER BY place;

-- name: EndedMergeQueueEntries :many
-- The entries of merge queues that ended last.
SELECT * FROM orchestrator_merge_queue_entries
WHERE forge = @forge AND repo = @repo AND base = @base AND ended_at IS NOT NULL
ORDER BY id DESC LIMIT @most;

-- name: LastMergeQueueEntry :one
-- The last entry of a pull request, whatever the spelling of its repository.
SELECT * FROM orchestrator_merge_queue_entries
WHERE forge = @forge AND lower(repo) = lower(@repo::text) AND number = @number
ORDER BY id DESC LIMIT 1;

-- name: HasMergeQueueEntry :one
-- Reports whether a command has added an entry.
SELECT EXISTS (SELECT 1 FROM orchestrator_merge_queue_entries WHERE forge = @forge AND repo = @repo AND base = @base AND key = @key);

-- name: SweepMergeQueueEntries :execrows
-- Removes entries that ended long ago. Those of runs that watch their branches show that a commit was added
-- already.
DELETE FROM orchestrator_merge_queue_entries WHERE id IN (
    SELECT e.id FROM orchestrator_merge_queue_entries e
    WHERE e.ended_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
      AND NOT EXISTS (SELECT FROM orchestrator_runs r WHERE r.id = e.run_id AND r.staying_until IS NOT NULL)
    ORDER BY e.ended_at LIMIT @most::int);

-- name: OldMergeQueueEntries :one
-- The number of entries that SweepMergeQueueEntries would remove.
SELECT count(*) FROM orchestrator_merge_queue_entries e
WHERE e.ended_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
  AND NOT EXISTS (SELECT FROM orchestrator_runs r WHERE r.id = e.run_id AND r.staying_until IS NOT NULL);

-- name: SweepMergeQueueCommands :execrows
DELETE FROM orchestrator_merge_queue_commands WHERE (forge, repo, base, key) IN (
    SELECT c.forge, c.repo, c.base, c.key FROM orchestrator_merge_queue_commands c
    WHERE c.created_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
    ORDER BY c.created_at LIMIT @most::int);

-- name: OldMergeQueueCommands :one
-- The number of commands that SweepMergeQueueCommands would remove.
SELECT count(*) FROM orchestrator_merge_queue_commands
WHERE created_at < clock_timestamp() - make_interval(secs => @age_seconds::float8);
