-- name: RecordTests :exec
-- Adds the outcomes of one check to the history, once per source. Passes at a
-- state are recorded only for tests that failed recently, or fail now where they
-- passed the last time; all other tests need one row each. Rows are sorted so
-- that concurrent checks lock them in the same order.
WITH recorded AS (
    INSERT INTO orchestrator_test_recordings (source, repo, check_id, run_id)
    VALUES (@source::text, @repo::text, @check_id::text, @run_id::bigint)
    ON CONFLICT (source) DO NOTHING
    RETURNING source
), seen AS (
    SELECT decode(t.doc ->> 'key', 'hex') AS key, t.doc ->> 'name' AS name, (t.doc ->> 'passes')::bigint AS passes, (t.doc ->> 'failures')::bigint AS failures,
           (t.doc ->> 'reruns')::bigint AS reruns, (t.doc ->> 'duration_ms')::bigint AS duration_ms
    FROM recorded CROSS JOIN LATERAL jsonb_array_elements(@tests::jsonb) AS t(doc)
), before AS (
    SELECT o.key, o.passed_state, o.failed_at FROM seen s JOIN orchestrator_tests o ON o.key = s.key
), saved AS (
    INSERT INTO orchestrator_tests AS o (key, repo, check_id, name, passes, failures, reruns, base_failures, streak, duration_ms, passed_state, failed_at)
    SELECT s.key, @repo, @check_id, s.name, s.passes, s.failures, s.reruns, CASE WHEN @of_base::bool THEN s.failures + s.reruns ELSE 0 END, s.passes, s.duration_ms,
           CASE WHEN s.passes > 0 THEN @state::text ELSE '' END, CASE WHEN s.failures + s.reruns > 0 THEN now() END
    FROM seen s
    ORDER BY s.key
    ON CONFLICT (key) DO UPDATE
    SET passes = o.passes + excluded.passes, failures = o.failures + excluded.failures, reruns = o.reruns + excluded.reruns,
        base_failures = o.base_failures + excluded.base_failures,
        streak = CASE WHEN excluded.failed_at IS NULL THEN o.streak + excluded.passes ELSE 0 END,
        duration_ms = excluded.duration_ms,
        passed_state = CASE WHEN excluded.passes > 0 THEN excluded.passed_state ELSE o.passed_state END,
        failed_at = coalesce(excluded.failed_at, o.failed_at), seen_at = now()
    RETURNING o.key
)
INSERT INTO orchestrator_test_states AS o (key, state, passes, failures, reruns, run_id)
SELECT s.key, @state, s.passes + CASE WHEN s.failures > 0 AND b.passed_state = @state THEN 1 ELSE 0 END, s.failures, s.reruns, @run_id
FROM seen s JOIN saved v ON v.key = s.key LEFT JOIN before b ON b.key = s.key
WHERE s.passes + s.failures + s.reruns > 0
  AND (s.failures + s.reruns > 0 OR b.failed_at > now() - make_interval(secs => @window_seconds::float8))
  AND @with_states::bool
ORDER BY s.key
ON CONFLICT (key, state) DO UPDATE
SET passes = CASE WHEN excluded.failures > 0 THEN greatest(o.passes, excluded.passes) ELSE o.passes + excluded.passes END,
    failures = o.failures + excluded.failures, reruns = o.reruns + excluded.reruns, run_id = excluded.run_id, last_at = now();

-- name: FlakyTests :many
-- Tests that are flaky: a state has both outcomes, or a re-run passed. The epoch
-- stands for a time that is unknown.
WITH flaky AS (
    SELECT t.key, t.repo, t.check_id, t.name, t.passes, t.failures, t.reruns, t.base_failures, t.streak, t.duration_ms, t.failed_at, t.seen_at,
           f.flips, f.flipped_at, f.run_id
    FROM orchestrator_tests t
    CROSS JOIN LATERAL (
        SELECT count(*)::int AS flips, max(s.last_at)::timestamptz AS flipped_at, max(s.run_id)::bigint AS run_id FROM orchestrator_test_states s
        WHERE s.key = t.key AND s.last_at > now() - make_interval(secs => @window_seconds::float8) AND (s.reruns > 0 OR s.passes > 0 AND s.failures > 0)) f
    WHERE t.failed_at > now() - make_interval(secs => @window_seconds::float8) AND (sqlc.narg(repo)::text IS NULL OR t.repo = sqlc.narg(repo)) AND f.flips > 0
)
SELECT flaky.repo, flaky.check_id, flaky.name, flaky.passes, flaky.failures, flaky.reruns, flaky.base_failures, flaky.streak, flaky.duration_ms,
       flaky.failed_at, flaky.seen_at, flaky.flips, flaky.flipped_at::timestamptz AS flipped_at, flaky.run_id::bigint AS run_id, coalesce(q.id, 0)::bigint AS quarantine_id,
       coalesce(q.expires_at, to_timestamp(0))::timestamptz AS expires_at
FROM flaky
LEFT JOIN LATERAL (
    SELECT e.id, e.expires_at FROM orchestrator_quarantine e
    WHERE e.repo = flaky.repo AND e.name = flaky.name AND e.check_id IN ('', flaky.check_id) AND e.removed_at IS NULL AND e.expires_at > now()
    ORDER BY e.expires_at DESC LIMIT 1) q ON true
ORDER BY flaky.flips DESC, flaky.failed_at DESC, flaky.name
LIMIT @most::int;

-- name: QuarantineFlaky :many
-- Quarantines the tests of a repository that are flaky at enough states, each in a
-- run of its own, and are not quarantined: one change is not enough, because it may be
-- what makes the test flaky. States from before the removal or the expiry of an
-- earlier entry do not count again.
WITH ended AS (
    SELECT e.name, max(least(e.expires_at, coalesce(e.removed_at, e.expires_at))) AS ended_at FROM orchestrator_quarantine e WHERE e.repo = @repo::text GROUP BY e.name
), flips AS (
    SELECT t.repo, t.check_id, t.name, t.failed_at, count(*)::int AS n
    FROM orchestrator_tests t JOIN orchestrator_test_states s ON s.key = t.key LEFT JOIN ended e ON e.name = t.name
    WHERE t.repo = @repo AND t.failed_at > now() - make_interval(secs => @window_seconds::float8)
      AND (s.reruns > 0 OR s.passes > 0 AND s.failures > 0) AND s.last_at > now() - make_interval(secs => @window_seconds::float8) AND s.last_at > coalesce(e.ended_at, '-infinity')
    GROUP BY t.repo, t.check_id, t.name, t.failed_at
    HAVING count(DISTINCT s.run_id) >= @least_flips::int
)
INSERT INTO orchestrator_quarantine (repo, check_id, name, source, reason, created_by, expires_at)
SELECT f.repo, f.check_id, f.name, 'policy', 'passed and failed at ' || f.n || @within::text,
       'verification.flaky.quarantine', now() + make_interval(secs => @expiry_seconds::float8)
FROM flips f
WHERE NOT EXISTS (SELECT 1 FROM orchestrator_quarantine e
                  WHERE e.repo = f.repo AND e.name = f.name AND e.check_id IN ('', f.check_id) AND e.removed_at IS NULL AND e.expires_at > now())
ORDER BY f.n DESC, f.failed_at DESC
LIMIT @most::int
RETURNING *;

-- name: CountQuarantine :one
SELECT count(*)::int FROM orchestrator_quarantine WHERE repo = @repo AND removed_at IS NULL AND expires_at > now();

-- name: LockQuarantine :exec
-- Serializes transactions that add to the quarantine of a repository.
SELECT pg_advisory_xact_lock(hashtextextended('rgpt quarantine of ' || @repo::text, 0));

-- name: AddQuarantine :one
-- Replaces the current entry for the same test. Nothing is added if the
-- repository has enough other entries.
WITH room AS (
    SELECT count(*) < @most::int AS left_over FROM orchestrator_quarantine e
    WHERE e.repo = @repo::text AND e.removed_at IS NULL AND e.expires_at > now() AND (e.name, e.check_id) <> (@name::text, @check_id::text)
), replaced AS (
    UPDATE orchestrator_quarantine SET removed_at = now(), removed_by = @created_by::text
    WHERE repo = @repo AND name = @name AND check_id = @check_id AND removed_at IS NULL AND expires_at > now() AND (SELECT left_over FROM room)
)
INSERT INTO orchestrator_quarantine (repo, check_id, name, source, reason, created_by, expires_at)
SELECT @repo, @check_id, @name, 'person', @reason::text, @created_by, @expires_at::timestamptz FROM room WHERE left_over
RETURNING *;

-- name: RemoveQuarantine :one
UPDATE orchestrator_quarantine SET removed_at = now(), removed_by = @removed_by WHERE id = @id AND removed_at IS NULL RETURNING *;

-- name: QuarantineByID :one
SELECT * FROM orchestrator_quarantine WHERE id = @id;

-- name: QuarantinedTests :many
-- The current entries for a run. An entry of the policy that is younger than the run
-- does not apply if the test failed in the run: its evidence may be the run's change.
SELECT * FROM orchestrator_quarantine q
WHERE q.repo = @repo AND q.removed_at IS NULL AND q.expires_at > now()
  AND NOT (q.source = 'policy' AND q.created_at > @run_created_at::timestamptz
           AND EXISTS (SELECT FROM orchestrator_tests t JOIN orchestrator_test_states s ON s.key = t.key
                       WHERE md5(t.name) = md5(q.name) AND t.name = q.name AND t.repo = q.repo
                         AND s.run_id = @run_id::bigint AND s.failures + s.reruns > 0))
ORDER BY q.id LIMIT @most::int;

-- name: ListQuarantine :many
-- Entries with the history of their tests, current ones first. A test is missing
-- if its check has run since in several runs, without it.
SELECT q.id, q.repo, q.check_id, q.name, q.source, q.reason, q.created_by, q.created_at, q.expires_at, q.removed_at, q.removed_by,
       (q.removed_at IS NULL AND q.expires_at > now())::bool AS active,
       coalesce(t.passes, 0)::bigint AS passes, coalesce(t.failures, 0)::bigint AS failures, coalesce(t.reruns, 0)::bigint AS reruns,
       coalesce(t.streak, 0)::bigint AS streak, t.failed_at, coalesce(t.seen_at, to_timestamp(0))::timestamptz AS seen_at,
       (SELECT count(DISTINCT r.run_id) FROM orchestrator_test_recordings r
        WHERE r.repo = t.repo AND r.check_id = t.check_id AND r.created_at > t.seen_at)::int AS runs_without
FROM orchestrator_quarantine q
LEFT JOIN LATERAL (
    SELECT o.repo, o.check_id, o.passes, o.failures, o.reruns, o.streak, o.failed_at, o.seen_at FROM orchestrator_tests o
    WHERE md5(o.name) = md5(q.name) AND o.name = q.name AND o.repo = q.repo AND q.check_id IN ('', o.check_id)
    ORDER BY o.seen_at DESC LIMIT 1) t ON true
WHERE (sqlc.narg(repo)::text IS NULL OR q.repo = sqlc.narg(repo)) AND (@with_ended::bool OR (q.removed_at IS NULL AND q.expires_at > now()))
ORDER BY active DESC, q.id DESC
LIMIT @most::int;

-- name: UseQuarantine :one
-- The first list that is stored for an execution counts.
INSERT INTO orchestrator_quarantine_uses AS u (execution_id, tests) VALUES (@execution_id, @tests)
ON CONFLICT (execution_id) DO UPDATE SET tests = u.tests
RETURNING u.tests;

-- name: UsedQuarantine :one
SELECT tests FROM orchestrator_quarantine_uses WHERE execution_id = @execution_id;

-- name: DropOldTests :execrows
DELETE FROM orchestrator_tests WHERE key = ANY (ARRAY(
    SELECT t.key FROM orchestrator_tests t WHERE t.seen_at < now() - make_interval(secs => @age_seconds::float8)
    ORDER BY t.seen_at LIMIT @most::int));

-- name: DropExcessTests :execrows
-- Removes the tests of a repository that were seen the longest time ago, beyond a
-- number of them.
DELETE FROM orchestrator_tests WHERE key IN (
    SELECT t.key FROM orchestrator_tests t WHERE t.repo = @repo::text ORDER BY t.seen_at DESC, t.key OFFSET @keep::int LIMIT @most::int);

-- name: RepositoriesWithTests :many
SELECT repo FROM orchestrator_tests GROUP BY repo HAVING count(*) > @over::int;

-- name: DropOldTestStates :execrows
DELETE FROM orchestrator_test_states WHERE last_at < now() - make_interval(secs => @age_seconds::float8);

-- name: DropOldTestRecordings :execrows
DELETE FROM orchestrator_test_recordings WHERE created_at < now() - make_interval(secs => @age_seconds::float8);
