-- name: AppendOutput :exec
INSERT INTO orchestrator_outputs (run_id, source, text) VALUES (@run_id, @source, @text);

-- name: Outputs :many
-- A piece is settled when no piece with a lower id can follow: some time after it
-- was stored, or at once if the run has ended.
SELECT o.id, o.source, o.text, o.created_at,
       (r.status IN ('done', 'failed', 'cancelled') OR o.created_at < now() - make_interval(secs => @delay_seconds::float8))::bool AS settled
FROM orchestrator_outputs o JOIN orchestrator_runs r ON r.id = o.run_id
WHERE o.run_id = @run_id AND o.id > @after
ORDER BY o.id
LIMIT @most::int;

-- name: LastOutputs :many
SELECT o.id, o.source, o.text, o.created_at
FROM (SELECT l.id, l.source, l.text, l.created_at FROM orchestrator_outputs l
      WHERE l.run_id = @run_id
      ORDER BY l.id DESC
      LIMIT @most::int) o
ORDER BY o.id;

-- name: DropOutputs :execrows
DELETE FROM orchestrator_outputs WHERE created_at < now() - make_interval(secs => @older_than_seconds::float8);

-- name: ShowText :execrows
-- The readers of a run's texts share its lock. If there are none, the statement gets the lock, and
-- writes nothing.
SELECT pg_notify(@channel::text, @payload::text) WHERE NOT pg_try_advisory_xact_lock(hashtextextended(@lock::text, 0));
