-- name: OpenCall :exec
-- Creates the row of a call that is about to be reserved for the first time.
INSERT INTO orchestrator_model_calls (run_id, execution_id, turn, phase, step, agent, provider, model, status, tries)
VALUES (@run_id, @execution_id, @turn, @phase, @step, @agent, @provider, @model, 'failed', 0)
ON CONFLICT (execution_id, turn) DO NOTHING;

-- name: LockCallOfTurn :one
SELECT id, status, tries, settled, scopes, superseded, reserved_tokens, reserved_micros, prompt_tokens, completion_tokens,
       cached_tokens, cache_write_tokens, reasoning_tokens, cost_micros, price_estimated, answer,
       EXISTS (SELECT FROM orchestrator_runs r WHERE r.id = orchestrator_model_calls.run_id AND r.kind = 'pipeline')::bool AS carried
FROM orchestrator_model_calls WHERE execution_id = @execution_id AND turn = @turn FOR UPDATE;

-- name: LockCall :one
SELECT id, execution_id, turn, status, tries, settled, answer_try, scopes, superseded, given_up, reserved_tokens, reserved_micros
FROM orchestrator_model_calls WHERE id = @id FOR UPDATE;

-- name: MakeBudgets :exec
-- Creates the budgets that do not exist, and locks the others, in the order of their keys: a transaction that created
-- some before it locks the others could deadlock with rgpt_begin_call. The condition leaves it at locking.
INSERT INTO orchestrator_budgets AS b (scope_kind, scope_key)
SELECT k, v FROM (SELECT unnest(@kinds::text[]) AS k, unnest(@keys::text[]) AS v) s ORDER BY k, v
ON CONFLICT (scope_kind, scope_key) DO UPDATE SET warned = b.warned WHERE false;

-- name: LockBudgets :many
-- Locks budgets in the order of their keys. The subquery makes the planner look up each of them: it would join all rows
-- with the keys while the table is small.
SELECT b.* FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@keys::text[]) AS key ORDER BY 1, 2) AS k
CROSS JOIN LATERAL (SELECT * FROM orchestrator_budgets s WHERE s.scope_kind = k.kind AND s.scope_key = k.key FOR UPDATE) AS b;

-- name: LockBudgetsOnly :exec
-- LockBudgets without reading them.
SELECT b.scope_key FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@keys::text[]) AS key ORDER BY 1, 2) AS k
CROSS JOIN LATERAL (SELECT s.scope_key FROM orchestrator_budgets s WHERE s.scope_kind = k.kind AND s.scope_key = k.key FOR UPDATE) AS b;

-- name: BeginCall :one
-- 0: the call exists.
SELECT coalesce(rgpt_begin_call(@run_id::bigint, @execution_id::bigint, @turn::int, @phase::text, @step::text, @agent::text, @provider::text, @model::text,
                       @prompt_version::text, @route::jsonb, @scopes::jsonb, @kinds::text[], @keys::text[], @limit_tokens::bigint[], @limit_micros::bigint[],
                       @tokens::bigint, @micros::bigint, @warn_at::float8, @told::jsonb, @told_from::int), 0)::bigint AS id;

-- name: CompleteCallFast :one
SELECT rgpt_complete_call(@id::bigint, @try::int, @prompt_tokens::bigint, @completion_tokens::bigint, @cached_tokens::bigint, @cache_write_tokens::bigint,
                          @reasoning_tokens::bigint, @cost_micros::bigint, @price_estimated::boolean, @latency_ms::bigint, @answer::jsonb, @messages::jsonb)::text AS run_status;

-- name: AddToBudgets :exec
SELECT rgpt_add_to_budgets(@kinds::text[], @keys::text[], @spent_tokens::bigint, @spent_micros::bigint,
                           @reserved_tokens::bigint, @reserved_micros::bigint, @price_estimated::boolean);

-- name: MarkWarned :exec
UPDATE orchestrator_budgets SET warned = true
WHERE (scope_kind, scope_key) IN (SELECT unnest(@kinds::text[]), unnest(@keys::text[]));

-- name: Budget :one
SELECT * FROM orchestrator_budgets WHERE scope_kind = @scope_kind AND scope_key = @scope_key;

-- name: BudgetsOfPeriods :many
-- The budgets of days, projects and tenants in the given periods.
SELECT * FROM orchestrator_budgets
WHERE scope_kind IN ('day', 'project', 'tenant') AND substring(scope_key from '[^ ]+$') = ANY (@periods::text[])
ORDER BY scope_kind, scope_key
LIMIT @most::int;

-- name: OwnerOfRun :one
-- To whom a run belongs, or a row that only carries a pipeline.
SELECT tenant, project FROM orchestrator_runs WHERE id = @id;

-- name: HoldCall :exec
UPDATE orchestrator_model_calls
SET status = 'reserved', tries = tries + 1, provider = @provider, model = @model, prompt_version = @prompt_version,
    route = @route, scopes = @scopes, superseded = @superseded, reserved_tokens = @reserved_tokens, reserved_micros = @reserved_micros,
    error_class = '', error_code = '', error_message = '', started_at = clock_timestamp(), finished_at = NULL
WHERE id = @id;

-- name: DropCall :exec
-- Ends the attempts of a call that did not finish.
UPDATE orchestrator_model_calls
SET status = 'failed', superseded = '[]', given_up = @given_up, reserved_tokens = 0, reserved_micros = 0,
    error_class = @error_class, error_code = @error_code, error_message = @error_message, finished_at = clock_timestamp()
WHERE id = @id;

-- name: DropSuperseded :exec
UPDATE orchestrator_model_calls SET superseded = '[]', given_up = @given_up WHERE id = @id;

-- name: CompleteCall :exec
UPDATE orchestrator_model_calls
SET status = 'done', answer_try = @try::int, settled = array_append(settled, @try), superseded = @superseded, given_up = @given_up, reserved_tokens = 0, reserved_micros = 0,
    prompt_tokens = prompt_tokens + @prompt_tokens, completion_tokens = completion_tokens + @completion_tokens,
    cached_tokens = cached_tokens + @cached_tokens, cache_write_tokens = cache_write_tokens + @cache_write_tokens,
    reasoning_tokens = reasoning_tokens + @reasoning_tokens,
    price_estimated = price_estimated OR @price_estimated, cost_micros = cost_micros + @cost_micros, latency_ms = @latency_ms, answer = @answer,
    error_class = '', error_code = '', error_message = '', finished_at = clock_timestamp()
WHERE id = @id;

-- name: MarkCached :exec
UPDATE orchestrator_model_calls SET cached_response = @cached_response WHERE id = @id;

-- name: FailCall :exec
UPDATE orchestrator_model_calls
SET status = 'failed', settled = array_append(settled, @try::int), superseded = @superseded, given_up = @given_up, reserved_tokens = 0, reserved_micros = 0,
    prompt_tokens = prompt_tokens + @prompt_tokens, completion_tokens = completion_tokens + @completion_tokens,
    cached_tokens = cached_tokens + @cached_tokens, cache_write_tokens = cache_write_tokens + @cache_write_tokens,
    reasoning_tokens = reasoning_tokens + @reasoning_tokens,
    price_estimated = price_estimated OR @price_estimated, cost_micros = cost_micros + @cost_micros,
    error_class = @error_class, error_code = @error_code, error_message = @error_message, finished_at = clock_timestamp()
WHERE id = @id;

-- name: BookLateCall :exec
-- Counts the usage of a superseded attempt. The call itself does not change.
UPDATE orchestrator_model_calls
SET settled = array_append(settled, @try::int), superseded = @superseded, given_up = @given_up,
    prompt_tokens = prompt_tokens + @prompt_tokens, completion_tokens = completion_tokens + @completion_tokens,
    cached_tokens = cached_tokens + @cached_tokens, cache_write_tokens = cache_write_tokens + @cache_write_tokens,
    reasoning_tokens = reasoning_tokens + @reasoning_tokens,
    price_estimated = price_estimated OR @price_estimated, cost_micros = cost_micros + @cost_micros
WHERE id = @id;

-- name: CallBasis :one
-- What is known before a call: to whom its run belongs, whether identical requests are answered from
-- earlier responses (for how many nanoseconds; 0: they are not), the call of the previous turn, and the time, which
-- decides which day's budgets apply, whatever the clocks of workers show.
SELECT r.tenant, r.project, coalesce(r.settings -> 'repo' ->> 'url', '')::text AS repo,
       coalesce((r.settings -> 'cache' ->> 'retention')::bigint, 0)::bigint AS cache_retention,
       coalesce(c.provider, '')::text AS provider, coalesce(c.model, '')::text AS model, c.answer,
       clock_timestamp()::timestamptz AS at
FROM orchestrator_runs r
LEFT JOIN orchestrator_model_calls c ON c.execution_id = @execution_id AND c.turn = @turn AND c.status = 'done'
WHERE r.id = @run_id;

-- name: OpenCallsOfExecution :many
SELECT id, tries FROM orchestrator_model_calls WHERE execution_id = @execution_id AND (status = 'reserved' OR superseded <> '[]') ORDER BY id;

-- name: OpenCallsBefore :many
SELECT id, tries FROM orchestrator_model_calls
WHERE (status = 'reserved' OR superseded <> '[]') AND started_at <= clock_timestamp() - make_interval(secs => @older_than_seconds::float8)
ORDER BY started_at
LIMIT @most::int;

-- name: ModelCalls :many
SELECT * FROM orchestrator_model_calls WHERE run_id = @run_id ORDER BY id;

-- name: Usage :one
SELECT count(*) FILTER (WHERE status = 'done')::bigint AS calls,
       count(*) FILTER (WHERE cached_response IS NOT NULL)::bigint AS from_cache,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt_tokens,
       coalesce(sum(completion_tokens), 0)::bigint AS completion_tokens,
       coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,
       coalesce(sum(cache_write_tokens), 0)::bigint AS cache_write_tokens,
       coalesce(sum(reasoning_tokens), 0)::bigint AS reasoning_tokens,
       coalesce(sum(cost_micros), 0)::bigint AS cost_micros, coalesce(bool_or(price_estimated), false)::bool AS price_estimated
FROM orchestrator_model_calls WHERE run_id = @run_id;

-- name: UsageByModel :many
SELECT agent, provider, model, count(*) FILTER (WHERE status = 'done')::bigint AS calls,
       count(*) FILTER (WHERE cached_response IS NOT NULL)::bigint AS from_cache,
       coalesce(sum(prompt_tokens), 0)::bigint AS prompt_tokens,
       coalesce(sum(completion_tokens), 0)::bigint AS completion_tokens,
       coalesce(sum(cached_tokens), 0)::bigint AS cached_tokens,
       coalesce(sum(cache_write_tokens), 0)::bigint AS cache_write_tokens,
       coalesce(sum(reasoning_tokens), 0)::bigint AS reasoning_tokens,
       coalesce(sum(cost_micros), 0)::bigint AS cost_micros, coalesce(bool_or(price_estimated), false)::bool AS price_estimated
FROM orchestrator_model_calls WHERE run_id = @run_id
GROUP BY agent, provider, model ORDER BY agent, provider, model;

-- name: HoldBudgets :one
INSERT INTO orchestrator_budget_holds (scopes, tokens, micros)
VALUES (@scopes, @tokens, @micros) RETURNING id;

-- name: EndHold :one
DELETE FROM orchestrator_budget_holds WHERE id = @id RETURNING *;

-- name: HoldsBefore :many
SELECT id FROM orchestrator_budget_holds
WHERE created_at < now() - make_interval(secs => @older_than_seconds::float8)
ORDER BY created_at LIMIT @most;
