-- name: CachedResponse :one
-- The response to an identical request, if the phase or step that it was part of has completed.
SELECT m.id, m.run_id, m.answer
FROM orchestrator_cached_responses c
JOIN orchestrator_model_calls m ON m.id = c.call_id AND m.status = 'done'
JOIN orchestrator_executions e ON e.id = m.execution_id AND e.status = 'completed'
WHERE c.tenant = @tenant AND c.project = @project AND c.repo = @repo AND c.provider = @provider AND c.model = @model AND c.digest = @digest
  AND c.expires_at > clock_timestamp() AND c.stored_at > clock_timestamp() - make_interval(secs => @age_seconds::float8);

-- name: CacheResponse :execrows
-- Keeps the response of a call that a model answered, unless it is too large.
INSERT INTO orchestrator_cached_responses (tenant, project, repo, provider, model, digest, call_id, expires_at)
SELECT @tenant, @project, @repo, @provider, @model, @digest, m.id, clock_timestamp() + make_interval(secs => @age_seconds::float8)
FROM orchestrator_model_calls m
WHERE m.id = @call_id AND m.status = 'done' AND m.cached_response IS NULL AND octet_length(m.answer::text) <= @most_bytes::bigint
ON CONFLICT (tenant, project, repo, provider, model, digest) DO UPDATE
SET call_id = excluded.call_id, stored_at = excluded.stored_at, expires_at = excluded.expires_at;

-- name: TrimResponses :execrows
-- Removes the oldest responses of a project, except the newest one and a number of others.
DELETE FROM orchestrator_cached_responses c
WHERE c.tenant = @tenant AND c.project = @project AND c.repo = @repo
  AND c.stored_at < (SELECT k.stored_at FROM orchestrator_cached_responses k
                     WHERE k.tenant = @tenant AND k.project = @project AND k.repo = @repo
                     ORDER BY k.stored_at DESC OFFSET @others::int LIMIT 1);

-- name: ExpiredResponses :one
SELECT count(*) FROM orchestrator_cached_responses WHERE expires_at <= clock_timestamp();

-- name: DropExpiredResponses :execrows
DELETE FROM orchestrator_cached_responses WHERE expires_at <= clock_timestamp();
