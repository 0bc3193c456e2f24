-- name: TimelineExecutions :many
-- Without outputs.
SELECT e.id, e.phase, e.step, e.agent, e.attempt, e.status, e.error_class, e.error_code, left(e.error_message, 400)::text AS error_message,
       e.provider, e.model, e.turns, e.prompt_tokens, e.completion_tokens, e.cost_micros, e.price_estimated, e.started_at, e.finished_at
FROM orchestrator_executions e WHERE e.run_id = @run_id ORDER BY e.started_at, e.id LIMIT @most::int;

-- name: TimelineCalls :many
-- Without answers, for a window of time; the longest first.
SELECT c.id, c.execution_id, c.turn, c.agent, c.provider, c.model, c.status, c.tries, c.prompt_tokens, c.completion_tokens, c.cost_micros, c.price_estimated,
       c.reserved_tokens, c.reserved_micros, c.error_class, c.started_at, c.finished_at, count(*) OVER () AS total
FROM orchestrator_model_calls c
WHERE c.run_id = @run_id AND c.started_at <= sqlc.arg(window_end)::timestamptz AND (c.finished_at IS NULL OR c.finished_at >= sqlc.arg(window_begin)::timestamptz)
ORDER BY c.finished_at - c.started_at DESC NULLS FIRST, c.id
LIMIT @most::int;

-- name: CallsOfRun :many
-- Without answers, in the order in which they were first reserved.
SELECT c.id, c.execution_id, c.turn, c.phase, c.step, e.attempt, c.agent, c.provider, c.model, c.prompt_version, c.route, c.status, c.tries,
       c.reserved_tokens, c.reserved_micros, c.prompt_tokens, c.completion_tokens, c.cached_tokens, c.cache_write_tokens, c.reasoning_tokens,
       c.cost_micros, c.price_estimated, c.latency_ms, c.error_class, c.error_code, left(c.error_message, 400)::text AS error_message, c.started_at, c.finished_at
FROM orchestrator_model_calls c JOIN orchestrator_executions e ON e.id = c.execution_id
WHERE c.run_id = @run_id AND c.id > @after::bigint ORDER BY c.id LIMIT @most::int;

-- name: TimelineTools :many
SELECT c.execution_id, c.turn, c.call_index, c.tool, c.ok, c.code, c.started_at, c.finished_at, count(*) OVER () AS total
FROM orchestrator_executions e JOIN orchestrator_tool_calls c ON c.execution_id = e.id
WHERE e.run_id = @run_id AND c.started_at <= sqlc.arg(window_end)::timestamptz AND c.finished_at >= sqlc.arg(window_begin)::timestamptz
ORDER BY c.finished_at - c.started_at DESC, c.execution_id, c.turn, c.call_index
LIMIT @most::int;

-- name: TimelineChecks :many
SELECT c.execution_id, c.check_id, c.category, c.ok, c.summary, left(coalesce(c.result #>> '{check,name}', ''), 200)::text AS name,
       left(coalesce(c.result ->> 'message', ''), 400)::text AS message, c.started_at, c.finished_at, count(*) OVER () AS total
FROM orchestrator_executions e JOIN orchestrator_checks c ON c.execution_id = e.id
WHERE e.run_id = @run_id AND c.started_at <= sqlc.arg(window_end)::timestamptz AND c.finished_at >= sqlc.arg(window_begin)::timestamptz
ORDER BY c.finished_at - c.started_at DESC, c.execution_id, c.check_id
LIMIT @most::int;

-- name: TimelineHeals :many
SELECT h.id, h.number, h.phase, h.step, h.execution_id, h.error_type, h.heal_action, left(h.root_cause, 400)::text AS root_cause, h.status, h.created_at, h.finished_at,
       left(coalesce(h.heal_output ->> 'message', ''), 400)::text AS message,
       (coalesce((h.heal_output #>> '{cost,prompt_tokens}')::bigint, 0) + coalesce((h.heal_output #>> '{cost,completion_tokens}')::bigint, 0))::bigint AS tokens,
       coalesce((h.heal_output #>> '{cost,micro_usd}')::bigint, 0)::bigint AS micros,
       coalesce((h.heal_output #>> '{cost,estimated_price}')::boolean, false)::boolean AS price_estimated
FROM orchestrator_self_heal_events h WHERE h.run_id = @run_id ORDER BY h.id LIMIT @most::int;

-- name: TimelineWaits :many
-- The times when a run waited for people, or for a provider's limit.
SELECT 'approval'::text AS kind, a.id::text AS id, a.kind AS about, a.status, ''::text AS phase, left(a.reason, 400)::text AS reason, a.decided_by AS answered_by, a.created_at AS since, a.decided_at AS until
FROM orchestrator_approvals a WHERE a.run_id = @run_id
UNION ALL
SELECT 'intervention', i.id::text, left(i.action_required, 400), i.status, i.phase, left(i.reason, 400), i.resolved_by, i.created_at, i.resolved_at
FROM orchestrator_manual_interventions i WHERE i.run_id = @run_id
ORDER BY since
LIMIT @most::int;

-- name: TimelineReplays :many
SELECT p.id, p.phase, p.execution_id, left(coalesce(p.replay_order ->> 'step', ''), 64)::text AS step, left(coalesce(p.replay_order ->> 'by', ''), 80)::text AS asked_by, p.created_at
FROM orchestrator_replays p WHERE p.run_id = @run_id ORDER BY p.id LIMIT @most::int;

-- name: CallOfRun :one
SELECT * FROM orchestrator_model_calls WHERE id = @id AND run_id = @run_id;

-- name: ExecutionOfRun :one
SELECT * FROM orchestrator_executions WHERE id = @id AND run_id = @run_id;

-- name: HealOfRun :one
SELECT * FROM orchestrator_self_heal_events WHERE id = @id AND run_id = @run_id;

-- name: CheckOfRun :one
SELECT c.* FROM orchestrator_checks c JOIN orchestrator_executions e ON e.id = c.execution_id
WHERE e.run_id = @run_id AND c.execution_id = @execution_id AND c.check_id = @check_id;

-- name: ToolCallOfRun :one
SELECT c.* FROM orchestrator_tool_calls c JOIN orchestrator_executions e ON e.id = c.execution_id
WHERE e.run_id = @run_id AND c.execution_id = @execution_id AND c.turn = @turn AND c.call_index = @call_index;

-- name: PatchBefore :one
-- The patch of the workspace before a tool call, as the previous call left it.
SELECT coalesce(c.outcome #>> '{workspace,patch}', '')::text AS patch FROM orchestrator_tool_calls c
WHERE c.execution_id = @execution_id AND (c.turn, c.call_index) < (@turn::int, @call_index::int)
ORDER BY c.turn DESC, c.call_index DESC LIMIT 1;

-- name: SpokenInTurn :many
-- The input of a model before a turn and its answer, truncated.
SELECT t.turn, t.position, t.role, left(coalesce(t.content ->> 'text', ''), 20000)::text AS text,
       octet_length(coalesce(t.content ->> 'text', ''))::bigint AS size, coalesce(t.content -> 'tool_calls', '[]')::jsonb AS tool_calls
FROM orchestrator_transcripts t
WHERE t.execution_id = @execution_id AND (
    (t.turn = sqlc.arg(turn_before)::int AND (t.position >= sqlc.arg(results)::int OR t.turn = 0))
    OR (t.turn = sqlc.arg(turn)::int AND t.position < sqlc.arg(results)::int))
ORDER BY t.turn, t.position LIMIT @most::int;

-- name: PlansOfRun :many
-- Without the plans themselves.
SELECT p.id, p.author, p.step_count, coalesce(p.execution_id, 0)::bigint AS execution_id, p.created_at
FROM orchestrator_plans p WHERE p.run_id = @run_id ORDER BY p.id DESC LIMIT @most::int;

-- name: CallSums :many
SELECT c.execution_id, c.provider, c.model, count(*) FILTER (WHERE c.status = 'done')::bigint AS calls, count(*) FILTER (WHERE c.status = 'reserved')::bigint AS open,
       count(*) FILTER (WHERE c.cached_response IS NOT NULL)::bigint AS from_cache,
       coalesce(sum(c.prompt_tokens), 0)::bigint AS prompt_tokens, coalesce(sum(c.completion_tokens), 0)::bigint AS completion_tokens,
       coalesce(sum(c.cached_tokens), 0)::bigint AS cached_tokens, coalesce(sum(c.cache_write_tokens), 0)::bigint AS cache_write_tokens,
       coalesce(sum(c.reasoning_tokens), 0)::bigint AS reasoning_tokens,
       coalesce(sum(c.cost_micros), 0)::bigint AS cost_micros, coalesce(bool_or(c.price_estimated), false)::bool AS price_estimated
FROM orchestrator_model_calls c WHERE c.run_id = @run_id
GROUP BY c.execution_id, c.provider, c.model ORDER BY c.execution_id, c.provider, c.model;

-- name: CostOverTime :many
SELECT width_bucket(extract(epoch FROM coalesce(c.finished_at, c.started_at))::float8, extract(epoch FROM sqlc.arg(window_begin)::timestamptz)::float8,
                    extract(epoch FROM sqlc.arg(window_end)::timestamptz)::float8, @parts::int)::int AS part,
       sum(c.cost_micros)::bigint AS cost_micros, sum(c.prompt_tokens + c.completion_tokens)::bigint AS tokens
FROM orchestrator_model_calls c WHERE c.run_id = @run_id AND c.cost_micros + c.prompt_tokens + c.completion_tokens > 0
GROUP BY 1 ORDER BY 1;

-- name: DearestCalls :many
SELECT c.id, c.execution_id, c.turn, c.agent, c.phase, c.step, c.provider, c.model, c.prompt_tokens, c.completion_tokens, c.cached_tokens,
       c.cost_micros, c.price_estimated, c.started_at, c.finished_at
FROM orchestrator_model_calls c WHERE c.run_id = @run_id AND c.cost_micros > 0 ORDER BY c.cost_micros DESC, c.id LIMIT @most::int;
