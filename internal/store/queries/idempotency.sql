-- name: BeginRequest :one
-- Stores a request under a key, and returns what is known about it. An expired
-- request counts as a new one.
WITH stale AS (
    SELECT r.created_at < clock_timestamp() - make_interval(secs => @keep_seconds::float8) AS old FROM orchestrator_requests r
    WHERE r.tenant = 'local' AND r.route = @route AND r.key = @key
)
INSERT INTO orchestrator_requests AS r (route, key, digest)
VALUES (@route, @key, @digest)
ON CONFLICT (tenant, route, key) DO UPDATE
SET digest = CASE WHEN (SELECT s.old FROM stale s) THEN excluded.digest ELSE r.digest END,
    status = CASE WHEN (SELECT s.old FROM stale s) THEN 0 ELSE r.status END,
    answer = CASE WHEN (SELECT s.old FROM stale s) THEN NULL ELSE r.answer END,
    created_at = CASE WHEN (SELECT s.old FROM stale s) THEN excluded.created_at ELSE r.created_at END
RETURNING r.digest, r.status, r.content_type, r.answer;

-- name: AnswerRequest :exec
UPDATE orchestrator_requests SET status = @status, content_type = @content_type, answer = @answer
WHERE tenant = 'local' AND route = @route AND key = @key AND status = 0;

-- name: ForgetRequest :exec
DELETE FROM orchestrator_requests WHERE tenant = 'local' AND route = @route AND key = @key AND status = 0;

-- name: SweepRequests :execrows
DELETE FROM orchestrator_requests
WHERE ctid = ANY (ARRAY(SELECT r.ctid FROM orchestrator_requests r
                        WHERE r.created_at < now() - make_interval(secs => @older_than_seconds::float8) LIMIT @most::int));
