-- name: AddTriggerFiring :execrows
-- What is known already is not added again.
INSERT INTO orchestrator_trigger_firings (trigger, delivery, payload, occurred_at)
VALUES (@trigger, @delivery, @payload, @occurred_at)
ON CONFLICT (trigger, delivery) DO NOTHING;
