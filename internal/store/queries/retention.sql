-- name: ExpiredRuns :many
-- Runs whose files of a type expired at the given time or before, with what they
-- have, in the order in which they may be deleted: forks before the runs from which
-- they continue. An empty type selects all files, and also runs that have none but
-- can still be repeated.
SELECT x.id, x.ended_at, x.expires_at, a.files, a.bytes
FROM (
    SELECT e.id, e.ended_at::timestamptz AS ended_at, e.expires_at
    FROM orchestrator_run_expiry e
    WHERE e.expires_at <= @before::timestamptz
      AND (e.expires_at > @after::timestamptz OR e.expires_at = @after::timestamptz AND e.id < @after_id::bigint)
      AND (@type::text = '' AND e.files_deleted_at IS NULL
           OR EXISTS (SELECT FROM orchestrator_artifacts a
                      WHERE a.run_id = e.id AND a.deleted_at IS NULL AND a.left_out = '' AND (@type::text = '' OR a.type = @type::text)))
    ORDER BY e.expires_at, e.id DESC LIMIT @most::int
) x CROSS JOIN LATERAL (
    SELECT count(*) AS files, coalesce(sum(a.size), 0)::bigint AS bytes FROM orchestrator_artifacts a
    WHERE a.run_id = x.id AND a.deleted_at IS NULL AND a.left_out = '' AND (@type::text = '' OR a.type = @type::text)
) a
ORDER BY x.expires_at, x.id DESC;

-- name: KeptRuns :one
-- Runs with files that ended at the given time or before, but that are kept.
SELECT count(*) FILTER (WHERE e.held) AS held, count(*) FILTER (WHERE NOT e.held) AS continued
FROM orchestrator_run_expiry e
WHERE e.ended_at <= @before::timestamptz AND e.expires_at > @before::timestamptz AND e.files_deleted_at IS NULL
  AND EXISTS (SELECT FROM orchestrator_artifacts a WHERE a.run_id = e.id AND a.deleted_at IS NULL AND a.left_out = '');

-- name: ContinuedRuns :many
-- Runs that ended at the given time or before and are not on hold, but from which a
-- run continues that has not expired by then.
SELECT e.id FROM orchestrator_run_expiry e
WHERE e.ended_at <= @before::timestamptz AND e.expires_at > @before::timestamptz AND NOT e.held;

-- name: LockRuns :exec
-- Like LockRun, for several runs.
SELECT id FROM orchestrator_runs WHERE id = ANY (@runs::bigint[]) ORDER BY id FOR NO KEY UPDATE;

-- name: DeleteRunFiles :many
-- Marks the files of runs as deleted, and notes it. Runs under the locks of the runs,
-- and checks again that they may be deleted: it returns those of which this is true.
-- A run that has just begun to continue from another needs its files, but not its logs.
WITH may AS (
    SELECT e.id FROM orchestrator_run_ends e
    WHERE e.id = ANY (@runs::bigint[]) AND e.ended_at <= @before::timestamptz AND NOT e.held AND (@type::text <> '' OR NOT e.continued)
), gone AS (
    UPDATE orchestrator_artifacts a SET deleted_at = clock_timestamp()
    FROM may
    WHERE a.run_id = may.id AND a.deleted_at IS NULL AND a.left_out = '' AND (@type::text = '' OR a.type = @type::text)
    RETURNING a.run_id, a.size
), marked AS (
    UPDATE orchestrator_runs r SET files_deleted_at = coalesce(r.files_deleted_at, clock_timestamp())
    FROM may WHERE r.id = may.id AND @type::text = ''
), noted AS (
    INSERT INTO orchestrator_deletions (cleanup_id, kind, run_id, count, bytes)
    SELECT @cleanup_id::bigint, @kind::text, g.run_id, count(*), sum(g.size) FROM gone g GROUP BY g.run_id
)
SELECT m.id, count(g.size) AS files, coalesce(sum(g.size), 0)::bigint AS bytes
FROM may m LEFT JOIN gone g ON g.run_id = m.id
GROUP BY m.id;

-- name: SizeCutoff :one
-- The time at which the newest run expires whose files do not fit, if files are kept
-- from the last to expire to the first. A file belongs to the last of the runs that
-- have it; what never expires comes first, and its size is also returned. The epoch
-- if all files fit.
WITH kept AS (
    SELECT a.hash, max(a.size) AS size, max(e.expires_at) AS last
    FROM orchestrator_artifacts a JOIN orchestrator_run_expiry e ON e.id = a.run_id
    WHERE a.deleted_at IS NULL AND a.left_out = ''
    GROUP BY a.hash
), ranked AS (
    SELECT k.last, sum(sum(k.size)) OVER (ORDER BY k.last DESC) AS total FROM kept k GROUP BY k.last
)
SELECT least(coalesce(max(r.last) FILTER (WHERE r.total > @most::bigint), 'epoch'), clock_timestamp())::timestamptz AS cutoff,
       coalesce(max(r.total), 0)::bigint AS total,
       coalesce(max(r.total) FILTER (WHERE r.last = 'infinity'), 0)::bigint AS fixed
FROM ranked r;

-- name: LiveSince :one
-- The creation of the oldest run that has not ended; now if there is none.
SELECT coalesce(min(e.created_at), clock_timestamp())::timestamptz AS since FROM orchestrator_run_ends e WHERE e.ended_at IS NULL;

-- name: Windows :many
-- When the runs were active that may still need what they stored.
SELECT e.created_at, coalesce(e.ended_at, clock_timestamp())::timestamptz AS ended_at
FROM orchestrator_run_ends e
WHERE e.files_deleted_at IS NULL OR e.continued OR e.files_deleted_at > clock_timestamp() - make_interval(secs => @grace::float8)
ORDER BY e.created_at;

-- name: Referenced :many
-- Those of the given digests that a row refers to.
SELECT d.digest::text AS digest FROM unnest(@digests::text[]) AS d (digest)
WHERE EXISTS (SELECT FROM orchestrator_artifacts a WHERE a.hash = d.digest AND a.deleted_at IS NULL)
   OR EXISTS (SELECT FROM orchestrator_environments e WHERE e.archive = d.digest)
   OR EXISTS (SELECT FROM orchestrator_baseline_checks b WHERE b.log_digest = d.digest AND b.log_digest <> '')
   OR EXISTS (SELECT FROM orchestrator_ledger_checkpoints c WHERE c.artifact = d.digest);

-- name: ReferencedAfter :many
-- Those of the given digests that a row would still refer to if the files of runs that
-- ended by a time were deleted, and the logs of those that ended by another, except of
-- the given runs, and the given environments.
SELECT d.digest::text AS digest FROM unnest(@digests::text[]) AS d (digest)
WHERE EXISTS (
        SELECT FROM orchestrator_artifacts a
        WHERE a.hash = d.digest AND a.deleted_at IS NULL
          AND NOT EXISTS (
              SELECT FROM orchestrator_run_ends e
              WHERE e.id = a.run_id AND NOT e.held
                AND (e.ended_at <= @files_before::timestamptz AND e.id <> ALL (@files_kept::bigint[])
                     OR a.type = 'log' AND e.ended_at <= @logs_before::timestamptz AND e.id <> ALL (@logs_kept::bigint[]))))
   OR EXISTS (SELECT FROM orchestrator_environments e WHERE e.archive = d.digest AND e.digest <> ALL (@environments::text[]))
   OR EXISTS (SELECT FROM orchestrator_baseline_checks b WHERE b.log_digest = d.digest AND b.log_digest <> '')
   OR EXISTS (SELECT FROM orchestrator_ledger_checkpoints c WHERE c.artifact = d.digest);

-- name: OnlyFiles :many
-- Those of the given digests that were files of runs and nothing else. A patch may
-- also be part of a workspace.
SELECT a.hash FROM orchestrator_artifacts a
WHERE a.hash = ANY (@digests::text[])
GROUP BY a.hash HAVING bool_and(a.type <> 'patch');

-- name: UnusedEnvironments :many
-- The environments that RemoveUnusedEnvironments removes.
SELECT e.digest, e.archive_size FROM orchestrator_environments e
WHERE e.used_at < now() - make_interval(secs => @age::float8)
  AND NOT EXISTS (SELECT 1 FROM orchestrator_runs r WHERE r.environment = e.digest AND r.status NOT IN ('done', 'failed', 'cancelled'))
ORDER BY e.used_at;

-- name: AddHold :one
-- Runs under the lock of the run. The first hold counts.
INSERT INTO orchestrator_holds (run_id, reason, held_by)
VALUES (@run_id, @reason, @held_by)
ON CONFLICT (run_id) WHERE released_at IS NULL DO UPDATE SET run_id = excluded.run_id
RETURNING *;

-- name: ReleaseHold :many
UPDATE orchestrator_holds SET released_at = clock_timestamp(), released_by = @released_by
WHERE run_id = @run_id AND released_at IS NULL RETURNING *;

-- name: HoldOf :one
SELECT * FROM orchestrator_holds WHERE run_id = @run_id AND released_at IS NULL;

-- name: BeginCleanup :one
INSERT INTO orchestrator_cleanups (origin, asked_by, policy) VALUES (@origin, @asked_by, @policy) RETURNING id;

-- name: EndCleanup :exec
UPDATE orchestrator_cleanups SET report = @report, finished_at = clock_timestamp() WHERE id = @id;

-- name: AddDeletion :exec
INSERT INTO orchestrator_deletions (cleanup_id, kind, name, count, bytes) VALUES (@cleanup_id, @kind, @name, @count, @bytes);

-- name: ScheduledSince :one
-- Seconds since the last scheduled clean-up started; a large number if there was none.
SELECT coalesce(extract(epoch FROM clock_timestamp() - max(started_at)), 1e9)::float8 AS seconds
FROM orchestrator_cleanups WHERE origin = 'schedule';

-- name: Cleanups :many
SELECT * FROM orchestrator_cleanups ORDER BY id DESC LIMIT @most::int;

-- name: CleanupExists :one
SELECT EXISTS (SELECT FROM orchestrator_cleanups WHERE id = @id)::boolean AS known;

-- name: Deletions :many
SELECT * FROM orchestrator_deletions WHERE cleanup_id = @cleanup_id ORDER BY id LIMIT @most::int;
