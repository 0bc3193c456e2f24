-- name: AddForgeEvent :execrows
-- What is known already is not added again.
INSERT INTO orchestrator_forge_events (forge, repo, number, event_id, kind, name, result, payload)
VALUES (@forge, @repo, @number, @event_id, @kind, @name, @result, @payload)
ON CONFLICT (forge, repo, event_id) DO NOTHING;

-- name: ClaimForgeEvents :many
-- Leases the first pending event of each pull request that is due: a pull request's events are handled
-- one after the other, and those of one never wait for those of another. Only its end goes past those
-- that have failed before. An event whose server died is due again when the lease ends. Some forges may
-- be left out.
WITH heads AS (
    SELECT DISTINCT ON (p.forge, p.repo, p.number) p.id, p.next_at
    FROM orchestrator_forge_events p
    WHERE p.state = 'pending'
    ORDER BY p.forge, p.repo, p.number,
             (p.kind IN ('closed', 'merged') AND EXISTS (
                 SELECT FROM orchestrator_forge_events f
                 WHERE f.forge = p.forge AND f.repo = p.repo AND f.number = p.number AND f.state = 'pending' AND f.id < p.id AND f.reason <> '')) DESC,
             p.id
), due AS (
    SELECT e.id
    FROM heads h JOIN orchestrator_forge_events e ON e.id = h.id
    WHERE e.state = 'pending' AND e.next_at <= clock_timestamp() AND e.forge <> ALL (@without::text[])
    ORDER BY e.next_at, e.id
    LIMIT @most::int
    FOR UPDATE OF e SKIP LOCKED
)
UPDATE orchestrator_forge_events e
SET attempts = e.attempts + 1, tried_at = coalesce(e.tried_at, clock_timestamp()), next_at = clock_timestamp() + make_interval(secs => @lease_seconds::float8)
FROM due
WHERE e.id = due.id
RETURNING e.*;

-- name: EndForgeEvent :execrows
-- Only the server that holds an event may end it.
UPDATE orchestrator_forge_events
SET state = @state, reason = @reason, run_id = sqlc.narg(run_id), ended_at = clock_timestamp()
WHERE id = @id AND attempts = @attempt AND state = 'pending';

-- name: RetryForgeEvent :execrows
UPDATE orchestrator_forge_events
SET reason = @reason, next_at = clock_timestamp() + make_interval(secs => @wait_seconds::float8)
WHERE id = @id AND attempts = @attempt AND state = 'pending';

-- name: AnswerForgeEvent :exec
UPDATE orchestrator_forge_events SET answer = @answer WHERE forge = @forge AND repo = @repo AND event_id = @event_id;

-- name: ForgeEvents :many
-- The newest events of a pull request.
SELECT * FROM orchestrator_forge_events
WHERE forge = @forge AND repo = @repo AND number = @number
ORDER BY id DESC LIMIT @most;

-- name: LastForgeChecks :many
-- The last results of the checks of a pull request.
SELECT DISTINCT ON (name) name, result
FROM orchestrator_forge_events
WHERE forge = @forge AND repo = @repo AND number = @number AND kind = 'check'
ORDER BY name, id DESC;

-- name: SweepForgeEvents :execrows
DELETE FROM orchestrator_forge_events WHERE id IN (
    SELECT e.id FROM orchestrator_forge_events e
    WHERE e.ended_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
      AND NOT EXISTS (SELECT FROM orchestrator_pull_requests p JOIN orchestrator_runs r ON r.id = p.run_id
                      WHERE p.forge = e.forge AND p.repo = e.repo AND p.number = e.number AND r.staying_until IS NOT NULL)
    ORDER BY e.ended_at LIMIT @most::int);

-- name: SweepForgeDeliveries :execrows
DELETE FROM orchestrator_forge_deliveries WHERE id IN (
    SELECT d.id FROM orchestrator_forge_deliveries d
    WHERE d.received_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
    ORDER BY d.received_at LIMIT @most::int);

-- name: SweepForgeWatches :execrows
DELETE FROM orchestrator_forge_watches w
WHERE w.looked_at < clock_timestamp() - make_interval(secs => @age_seconds::float8)
  AND NOT EXISTS (SELECT FROM orchestrator_pull_requests p JOIN orchestrator_runs r ON r.id = p.run_id
                  WHERE p.forge = w.forge AND p.repo = w.repo AND p.number = w.number AND r.staying_until IS NOT NULL);

-- name: DueForgeWatches :many
-- The open pull requests of runs that watch their branches, of one forge, that are to be looked at
-- now, each with the newest of those runs. One that was never looked at, and one with another released
-- commit than at the last look, is due at once.
SELECT t.repo, t.number, t.run_id, t.commit_id, t.status, t.opened_at, coalesce(w.since, t.created_at)::timestamptz AS since,
       coalesce(w.failures, 0)::int AS failures, clock_timestamp()::timestamptz AS now
FROM (
    SELECT DISTINCT ON (p.repo, p.number) p.forge, p.repo, p.number, p.run_id, p.commit_id, p.created_at, r.status,
           (min(p.created_at) OVER (PARTITION BY p.repo, p.number))::timestamptz AS opened_at
    FROM orchestrator_runs r JOIN orchestrator_pull_requests p ON p.run_id = r.id
    WHERE r.staying_until IS NOT NULL AND p.forge = @forge::text AND p.state = 'open'
    ORDER BY p.repo, p.number, p.run_id DESC
) t LEFT JOIN orchestrator_forge_watches w ON w.forge = t.forge AND w.repo = t.repo AND w.number = t.number
WHERE w.number IS NULL OR w.next_at <= clock_timestamp() OR w.commit_id <> t.commit_id
ORDER BY w.next_at NULLS FIRST, t.number
LIMIT @most::int;

-- name: EndForgeLook :exec
-- A webhook that came during the look asks for another one, unless the look failed.
INSERT INTO orchestrator_forge_watches AS w (forge, repo, number, commit_id, since, looked_at, next_at, failures, reason)
VALUES (@forge::text, @repo::text, @number::bigint, @commit_id::text, @since::timestamptz, clock_timestamp(),
        CASE WHEN @wait_seconds::float8 < 0 THEN 'infinity'::timestamptz ELSE clock_timestamp() + make_interval(secs => @wait_seconds) END,
        @failures::int, @reason::text)
ON CONFLICT (forge, repo, number) DO UPDATE
SET commit_id = EXCLUDED.commit_id, since = EXCLUDED.since, looked_at = EXCLUDED.looked_at, failures = EXCLUDED.failures, reason = EXCLUDED.reason,
    next_at = CASE WHEN EXCLUDED.failures = 0 AND w.asked_at > @began::timestamptz THEN least(EXCLUDED.next_at, clock_timestamp() + make_interval(secs => @gap_seconds::float8))
                   ELSE EXCLUDED.next_at END;

-- name: AddForgeDelivery :execrows
-- No row: this delivery, or another one that says the same, was received before.
INSERT INTO orchestrator_forge_deliveries (forge, delivery, repo, event_id)
VALUES (@forge, @delivery, @repo, @event_id)
ON CONFLICT DO NOTHING;

-- name: AskForgeLook :execrows
-- Asks for a look at the watched pull requests that a webhook concerns: by their number, else by their
-- branch or released commit.
UPDATE orchestrator_forge_watches w
SET asked_at = clock_timestamp(),
    next_at = CASE WHEN w.failures > 0 THEN w.next_at ELSE least(w.next_at, greatest(clock_timestamp(), w.looked_at + make_interval(secs => @gap_seconds::float8))) END
WHERE w.forge = @forge::text AND lower(w.repo) = lower(@repo::text)
  AND EXISTS (SELECT FROM orchestrator_pull_requests p
              WHERE p.forge = w.forge AND p.repo = w.repo AND p.number = w.number
                AND (p.number = @number::bigint
                     OR @number = 0 AND (@branch::text <> '' AND p.head = @branch OR @commit_id::text <> '' AND p.commit_id = @commit_id)));

-- name: PullRequestHolders :many
-- The runs that have a pull request, newest first, with whether each watches its branch.
SELECT sqlc.embed(p), (r.staying_until IS NOT NULL)::bool AS staying, r.status
FROM orchestrator_pull_requests p JOIN orchestrator_runs r ON r.id = p.run_id
WHERE p.forge = @forge AND p.repo = @repo AND p.number = @number
ORDER BY p.run_id DESC;
