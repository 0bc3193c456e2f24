-- name: BrainBlobs :many
SELECT key, data FROM orchestrator_brain_blobs WHERE key = ANY(@keys::bytea[]);

-- name: TouchBrainBlobs :exec
-- Records the use of blobs, at most once a day, to write little.
UPDATE orchestrator_brain_blobs SET used_at = clock_timestamp()
WHERE key = ANY(@keys::bytea[]) AND used_at < clock_timestamp() - INTERVAL '1 day';

-- name: KeepBrainBlobs :exec
INSERT INTO orchestrator_brain_blobs (key, data)
SELECT unnest(@keys::bytea[]), unnest(@data::bytea[])
ON CONFLICT (key) DO NOTHING;

-- name: UnusedBrainBlobs :one
SELECT count(*) AS count, coalesce(sum(octet_length(data)), 0)::bigint AS bytes
FROM orchestrator_brain_blobs WHERE used_at < clock_timestamp() - make_interval(secs => @age_seconds::float8);

-- name: DropUnusedBrainBlobs :one
-- Removes a number of blobs that were not used for long.
WITH unused AS (
    SELECT key FROM orchestrator_brain_blobs
    WHERE used_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
    ORDER BY used_at LIMIT @most::int FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM orchestrator_brain_blobs b USING unused u WHERE b.key = u.key RETURNING octet_length(b.data) AS size
)
SELECT count(*) AS count, coalesce(sum(size), 0)::bigint AS bytes FROM gone;

-- name: BrainBlobBytes :one
-- The size on disk, which takes no reading of the table.
SELECT pg_total_relation_size('orchestrator_brain_blobs')::bigint AS bytes;
