-- name: AnswerOfTurn :one
SELECT answer FROM orchestrator_model_calls WHERE execution_id = @execution_id AND turn = @turn AND status = 'done';
