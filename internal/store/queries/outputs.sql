-- name: AppendOutput :exec
INSERT INTO orchestrator_outputs (run_id, source, text) VALUES (@run_id, @source, @text);

-- name: Outputs :many
SELECT id, source, text, created_at FROM orchestrator_outputs
WHERE run_id = @run_id AND id > @after
ORDER BY id
LIMIT @most::int;

-- name: DropOutputs :execrows
DELETE FROM orchestrator_outputs WHERE created_at < now() - make_interval(secs => @older_than_seconds::float8);
