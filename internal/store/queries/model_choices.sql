-- name: ModelChoices :many
SELECT agent, provider, model, temperature, effort, version, changed_by, changed_at FROM orchestrator_model_choices ORDER BY agent;

-- name: LockModelChoice :exec
-- Serializes changes of the choice for an agent.
SELECT pg_advisory_xact_lock(hashtextextended('rgpt model choice of ' || @agent::text, 0));

-- name: ModelChoice :one
SELECT agent, provider, model, temperature, effort, version, changed_by, changed_at FROM orchestrator_model_choices WHERE agent = @agent;

-- name: AddModelChoiceChange :one
INSERT INTO orchestrator_model_choice_changes (agent, old_choice, new_choice, changed_by) VALUES (@agent, @old_choice, @new_choice, @changed_by)
RETURNING id;

-- name: TrimModelChoiceChanges :exec
DELETE FROM orchestrator_model_choice_changes WHERE id IN (
    SELECT c.id FROM orchestrator_model_choice_changes c WHERE c.agent = @agent ORDER BY c.id DESC OFFSET @keep::int);

-- name: SetModelChoice :one
INSERT INTO orchestrator_model_choices (agent, provider, model, temperature, effort, version, changed_by)
VALUES (@agent, @provider, @model, @temperature, @effort, @version, @changed_by)
ON CONFLICT (agent) DO UPDATE
SET provider = excluded.provider, model = excluded.model, temperature = excluded.temperature, effort = excluded.effort,
    version = excluded.version, changed_by = excluded.changed_by, changed_at = now()
RETURNING agent, provider, model, temperature, effort, version, changed_by, changed_at;

-- name: DropModelChoice :exec
DELETE FROM orchestrator_model_choices WHERE agent = @agent;

-- name: ModelChoiceChanges :many
SELECT id, agent, old_choice, new_choice, changed_by, changed_at FROM orchestrator_model_choice_changes
WHERE sqlc.narg(agent)::text IS NULL OR agent = sqlc.narg(agent)
ORDER BY id DESC
LIMIT @most::int;
