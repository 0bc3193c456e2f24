-- name: Environment :one
-- Reading an environment counts as its use.
UPDATE orchestrator_environments SET used_at = now() WHERE digest = @digest RETURNING *;

-- name: ListEnvironments :many
SELECT * FROM orchestrator_environments
WHERE (sqlc.narg(repo)::text IS NULL OR repo = sqlc.narg(repo))
ORDER BY used_at DESC, digest
LIMIT @most::int;

-- name: SaveEnvironment :exec
-- The newest archive of a digest counts, because the previous one may be lost.
INSERT INTO orchestrator_environments (digest, repo, base_commit, source, recipe, archive, archive_size, bytes, files, duration_ms, run_id)
VALUES (@digest, @repo, @base_commit, @source, @recipe, @archive, @archive_size, @bytes, @files, @duration_ms, sqlc.narg(run_id))
ON CONFLICT (digest) DO UPDATE
SET archive = excluded.archive, archive_size = excluded.archive_size, bytes = excluded.bytes, files = excluded.files,
    run_id = excluded.run_id, used_at = now();

-- name: RemoveEnvironment :many
DELETE FROM orchestrator_environments WHERE digest = @digest RETURNING archive;
-- name: RemoveUnusedEnvironments :many
-- Environments that were unused for some time and that no unfinished run needs.
DELETE FROM orchestrator_environments e
WHERE e.digest = ANY (ARRAY(SELECT u.digest FROM orchestrator_environments u WHERE u.used_at < now() - make_interval(secs => @age) ORDER BY u.used_at LIMIT @most))
  AND e.used_at < now() - make_interval(secs => @age)
  AND NOT EXISTS (SELECT 1 FROM orchestrator_runs r WHERE r.environment = e.digest AND r.status NOT IN ('done', 'failed', 'cancelled'))
RETURNING e.digest, e.archive;
-- name: EnvironmentsInUse :many
-- Environments of unfinished runs.
SELECT DISTINCT environment FROM orchestrator_runs
WHERE environment <> '' AND status NOT IN ('done', 'failed', 'cancelled');

-- name: AddSetup :one
INSERT INTO orchestrator_setups (repo, source, settings, reason, run_id, created_by, proven)
VALUES (@repo, @source, @settings, @reason, sqlc.narg(run_id), @created_by, @proven)
RETURNING *;

-- name: SetupOf :one
-- The current setup of a repository.
SELECT * FROM orchestrator_setups WHERE repo = @repo AND proven AND revoked_at IS NULL ORDER BY id DESC LIMIT 1;

-- name: SetupByID :one
SELECT * FROM orchestrator_setups WHERE id = @id;

-- name: ListSetups :many
SELECT * FROM orchestrator_setups
WHERE sqlc.narg(repo)::text IS NULL OR repo = sqlc.narg(repo)
ORDER BY id DESC
LIMIT @most::int;

-- name: RevokeSetup :execrows
UPDATE orchestrator_setups SET revoked_at = now(), revoked_by = @revoked_by WHERE id = @id AND revoked_at IS NULL;

-- name: ProveSetup :execrows
UPDATE orchestrator_setups SET proven = true WHERE id = @id AND revoked_at IS NULL;

-- name: SetRunSetup :execrows
UPDATE orchestrator_runs SET setup_id = sqlc.narg(setup_id), updated_at = clock_timestamp() WHERE id = @run_id;

-- name: SetRunEnvironment :execrows
WITH used AS (
    UPDATE orchestrator_environments SET used_at = now() WHERE digest = @environment
)
UPDATE orchestrator_runs
SET environment = @environment, setup_id = sqlc.narg(setup_id), updated_at = clock_timestamp()
WHERE id = @run_id;

-- name: SetRunBaseline :execrows
UPDATE orchestrator_runs SET baseline = @baseline, updated_at = clock_timestamp() WHERE id = @run_id;

-- name: InsertBaseline :exec
-- The first baseline of a key counts; its stages are the ones that run.
INSERT INTO orchestrator_baselines (key, repo, base_commit, tree, environment, stages, commands, run_id)
VALUES (@key, @repo, @base_commit, @tree, @environment, @stages, @commands, sqlc.narg(run_id))
ON CONFLICT (key) DO NOTHING;

-- name: Baseline :one
SELECT * FROM orchestrator_baselines WHERE key = @key;

-- name: BaselineVersion :one
-- What is never the same again once a baseline or one of its checks has changed: which transactions wrote their rows, and
-- when. It reads none of their documents.
SELECT concat_ws(' ', b.xmin, b.created_at, (
    SELECT string_agg(concat_ws(' ', c.check_id, c.xmin, c.created_at), ' ' ORDER BY c.check_id)
    FROM orchestrator_baseline_checks c WHERE c.key = b.key
))::text AS version
FROM orchestrator_baselines b WHERE b.key = @key;

-- name: BaselineChecks :many
SELECT * FROM orchestrator_baseline_checks WHERE key = @key ORDER BY created_at, check_id;

-- name: SaveBaselineCheck :exec
INSERT INTO orchestrator_baseline_checks (key, check_id, result, cases, findings, log_digest)
VALUES (@key, @check_id, @result, @cases, @findings, @log_digest)
ON CONFLICT (key, check_id) DO UPDATE
SET result = excluded.result, cases = excluded.cases, findings = excluded.findings, log_digest = excluded.log_digest, created_at = now();

-- name: DropBaselinesOf :execrows
DELETE FROM orchestrator_baselines WHERE environment = @environment::text AND environment <> '';

-- name: EnvironmentsBegin :many
-- Environments with a digest that starts with a prefix of hexadecimal digits.
SELECT * FROM orchestrator_environments WHERE digest >= @prefix::text AND digest <= @prefix || repeat('f', 64) ORDER BY digest LIMIT @most::int;
