-- name: LearnedModels :many
SELECT kind, content, changed_by, changed_at FROM orchestrator_model_catalogue ORDER BY provider, model, kind LIMIT @most::int;

-- name: LearnModels :exec
-- Stores entries, each in place of an earlier one of the same kind.
INSERT INTO orchestrator_model_catalogue (provider, model, kind, content, changed_by)
SELECT e.content ->> 'provider', e.content ->> 'model', @kind::text, e.content, @changed_by::text
FROM jsonb_array_elements(@entries::jsonb) AS e (content)
ON CONFLICT (provider, model, kind) DO UPDATE
SET content = EXCLUDED.content, changed_by = EXCLUDED.changed_by, changed_at = clock_timestamp();

-- name: ForgetModels :execrows
DELETE FROM orchestrator_model_catalogue;
