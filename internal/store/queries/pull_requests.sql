-- name: SavePullRequest :one
-- Stores the pull request of a run with an event, unless nothing about it has changed. Runs under the
-- lock of the run.
WITH before AS (
    SELECT p.id, p.commit_id, p.state FROM orchestrator_pull_requests p
    WHERE p.run_id = @run_id::bigint AND p.forge = @forge::text AND p.repo = @repo::text AND p.number = @number::bigint
), saved AS (
    INSERT INTO orchestrator_pull_requests AS p (run_id, forge, repo, number, url, title, head, base, commit_id, state, draft, notes)
    VALUES (@run_id, @forge, @repo, @number, @url::text, @title::text, @head::text, @base::text, @commit_id::text, @state::text, @draft::bool, @notes::jsonb)
    ON CONFLICT (run_id, forge, repo, number) DO UPDATE
        SET url = EXCLUDED.url, title = EXCLUDED.title, base = EXCLUDED.base, commit_id = EXCLUDED.commit_id, state = EXCLUDED.state,
            draft = EXCLUDED.draft, notes = EXCLUDED.notes, updated_at = clock_timestamp()
        WHERE (p.url, p.title, p.base, p.commit_id, p.state, p.draft, p.notes)
           IS DISTINCT FROM (EXCLUDED.url, EXCLUDED.title, EXCLUDED.base, EXCLUDED.commit_id, EXCLUDED.state, EXCLUDED.draft, EXCLUDED.notes)
    RETURNING p.id, p.run_id
), changed AS (
    -- An event tells of a new pull request, another commit or another state; not of another title.
    SELECT s.run_id,
           CASE WHEN @state::text <> 'open' THEN CASE @state::text WHEN 'merged' THEN @merged_event::text ELSE @closed_event::text END
                WHEN b.id IS NULL AND @opened::bool THEN @opened_event::text
                ELSE @updated_event::text END AS event_type
    FROM saved s LEFT JOIN before b ON true
    WHERE b.id IS NULL OR b.commit_id <> @commit_id OR b.state <> @state
), counted AS (
    UPDATE orchestrator_runs r SET event_seq = r.event_seq + 1, updated_at = clock_timestamp()
    FROM changed c WHERE r.id = c.run_id
    RETURNING r.id, r.event_seq
), written AS (
    INSERT INTO orchestrator_events (run_id, seq, event_type, payload)
    SELECT n.id, n.event_seq, c.event_type, @payload::jsonb
    FROM counted n JOIN changed c ON c.run_id = n.id
)
SELECT (CASE WHEN n.id IS NULL THEN '' ELSE pg_notify('rgpt_events', n.id || ':' || n.event_seq)::text END)::text AS notified
FROM (SELECT 1) one LEFT JOIN counted n ON true;

-- name: PullRequestsOfRun :many
SELECT * FROM orchestrator_pull_requests WHERE run_id = @run_id ORDER BY id;

-- name: PullRequests :many
-- The newest pull requests before an id, in a state or in any.
SELECT p.* FROM orchestrator_pull_requests p
WHERE p.id < @before::bigint AND (@state::text = '' OR p.state = @state)
ORDER BY p.id DESC LIMIT @most;

-- name: LastRunOfPullRequest :one
-- The last run that has a pull request, whatever the spelling of its repository, 0 if none has.
SELECT coalesce(max(p.run_id), 0)::bigint FROM orchestrator_pull_requests p
WHERE p.forge = @forge AND lower(p.repo) = lower(@repo::text) AND p.number = @number;

-- name: OpenPullRequestsOfBranch :many
-- The pull requests that runs had open from a branch, the newest first, each once.
SELECT b.number FROM (
    SELECT p.number, max(p.id) AS newest FROM orchestrator_pull_requests p
    WHERE p.forge = @forge AND p.repo = @repo AND p.head = @head AND p.state = 'open'
    GROUP BY p.number
) b ORDER BY b.newest DESC LIMIT @most;

-- name: NotePullRequestConflict :exec
-- Stores whether the forge says that a pull request conflicts with its base.
UPDATE orchestrator_pull_requests SET conflict = @conflict::bool
WHERE forge = @forge AND repo = @repo AND number = @number AND conflict <> @conflict::bool;

-- name: PushedTo :one
-- Whether people pushed to the branch of a run.
SELECT EXISTS (SELECT FROM orchestrator_events e WHERE e.run_id = @run_id AND e.event_type = 'stay.pushed')::bool AS pushed;
