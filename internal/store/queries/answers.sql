-- name: LastUsage :one
SELECT prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, reasoning_tokens, cost_micros, price_estimated
FROM orchestrator_model_calls WHERE execution_id = @execution_id ORDER BY turn DESC LIMIT 1;

-- name: AnswerOfTurn :one
SELECT answer FROM orchestrator_model_calls WHERE execution_id = @execution_id AND turn = @turn AND status = 'done';

-- name: AnsweredTurns :one
SELECT coalesce(max(turn), 0)::int FROM orchestrator_model_calls WHERE execution_id = @execution_id AND status = 'done';
