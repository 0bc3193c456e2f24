-- name: CreateEval :one
INSERT INTO orchestrator_evals (set_name, set_digest, variants, max_cost_micros, created_by)
VALUES (@set_name, @set_digest, @variants, @max_cost_micros, @created_by)
RETURNING id;

-- name: AddEvalResults :exec
-- Adds the rows of tasks and variants, in the order of the evaluation.
INSERT INTO orchestrator_eval_results (eval_id, position, task, variant, repo, title)
SELECT @eval_id::bigint, (r.doc ->> 'position')::int, r.doc ->> 'task', r.doc ->> 'variant', r.doc ->> 'repo', r.doc ->> 'title'
FROM jsonb_array_elements(@results::jsonb) AS r(doc);

-- name: OpenEval :many
-- The newest evaluation of a set that is not done, if there is one.
SELECT id FROM orchestrator_evals
WHERE set_digest = @set_digest AND status <> 'done'
ORDER BY id DESC LIMIT 1;

-- name: GetEval :one
SELECT * FROM orchestrator_evals WHERE id = @id;

-- name: ListEvals :many
-- Evaluations with the numbers of their results, newest first.
SELECT e.*, r.results, r.finished, r.solved, r.cost_micros, r.cost_known
FROM orchestrator_evals e
CROSS JOIN LATERAL (
    SELECT count(*) AS results, count(*) FILTER (WHERE o.status = 'done') AS finished, count(*) FILTER (WHERE o.solved) AS solved,
           coalesce(sum(o.cost_micros), 0)::bigint AS cost_micros,
           coalesce(bool_and(o.cost_known), true)::boolean AS cost_known
    FROM orchestrator_eval_results o WHERE o.eval_id = e.id
) r
WHERE (sqlc.narg(before)::bigint IS NULL OR e.id < sqlc.narg(before))
ORDER BY e.id DESC LIMIT @most;

-- name: EvalResults :many
SELECT * FROM orchestrator_eval_results WHERE eval_id = @eval_id ORDER BY position;

-- name: StartEvalResult :one
-- Notes that a result is being made with a share of the budget, and returns the
-- run and the share of an earlier attempt, which remain.
UPDATE orchestrator_eval_results
SET status = 'running', started_at = coalesce(started_at, now()), cap_micros = CASE WHEN cap_micros = 0 THEN @cap_micros ELSE cap_micros END
WHERE eval_id = @eval_id AND task = @task AND variant = @variant AND status <> 'done'
RETURNING run_id, cap_micros, attempt;

-- name: SetEvalRun :exec
UPDATE orchestrator_eval_results SET run_id = @run_id WHERE eval_id = @eval_id AND task = @task AND variant = @variant;

-- name: FinishEvalResult :exec
UPDATE orchestrator_eval_results
SET status = 'done', solved = @solved, reason = @reason, detail = @detail, cost_micros = @cost_micros, cost_known = @cost_known,
    fresh_tokens = @fresh_tokens, cached_tokens = @cached_tokens, reasoning_tokens = @reasoning_tokens, output_tokens = @output_tokens,
    turns = @turns, heals = @heals, seconds = @seconds, tests = @tests, started_at = coalesce(started_at, now()), finished_at = now()
WHERE eval_id = @eval_id AND task = @task AND variant = @variant;

-- name: ReopenEvalResults :execrows
-- Makes unfinished results pending again, and also those that ended for a reason that is not the
-- variant's, if asked.
UPDATE orchestrator_eval_results
SET status = 'pending', run_id = CASE WHEN status = 'done' THEN 0 ELSE run_id END, cap_micros = CASE WHEN status = 'done' THEN 0 ELSE cap_micros END,
    attempt = CASE WHEN status = 'done' THEN attempt + 1 ELSE attempt END, solved = false, reason = '', detail = '', finished_at = NULL
WHERE eval_id = @eval_id AND (status = 'running' OR status = 'done' AND reason = ANY(@reasons::text[]));

-- name: SetEvalStatus :exec
UPDATE orchestrator_evals
SET status = @status, reason = @reason, max_cost_micros = @max_cost_micros, finished_at = CASE WHEN @status = 'done' THEN now() END
WHERE id = @id;
