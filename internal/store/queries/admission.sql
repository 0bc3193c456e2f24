-- name: Breakers :many
-- All breakers with a failure since the last success. Remaining times are relative, because the
-- clocks of workers differ.
SELECT provider, model, failures, trips, reason, failed_at, opened_at,
       (open_until IS NOT NULL)::bool AS opened,
       coalesce(greatest(0, extract(epoch FROM open_until - clock_timestamp())), 0)::float8 AS open_seconds,
       (probe <> '' AND probe_until > clock_timestamp())::bool AS probing
FROM orchestrator_breakers
ORDER BY provider, model
LIMIT @most::int;

-- name: CountProviderFailure :one
-- Counts a failure. It opens the breaker if it is closed and has failed often enough, or if the
-- call was its probe. Failures of calls that began before it opened do not prolong the pause.
-- A probe that fails opens all breakers that it probed, also if it failed in another way than before,
-- so that the failure counts for another one.
WITH g AS (
    SELECT @provider::text AS provider, @model::text AS model, @reason::text AS reason, @probe::text AS probe,
           @threshold::int AS threshold, @pause_seconds::float8 AS pause, @longest_seconds::float8 AS longest
), reopened AS (
    UPDATE orchestrator_breakers o
    SET failures = o.failures + 1, trips = o.trips + 1, tripped_at = now(), probe = '', reason = g.reason, failed_at = now(),
        open_until = now() + make_interval(secs => CASE WHEN o.trips < 20 AND g.pause * power(2, o.trips) < g.longest THEN g.pause * power(2, o.trips) ELSE g.longest END)
    FROM g WHERE o.provider = g.provider AND o.model <> g.model AND o.probe <> '' AND o.probe = g.probe
    RETURNING o.model
)
INSERT INTO orchestrator_breakers AS b (provider, model, failures, trips, opened_at, open_until, tripped_at, reason, failed_at)
SELECT g.provider, g.model, 1, CASE WHEN g.threshold <= 1 THEN 1 ELSE 0 END, CASE WHEN g.threshold <= 1 THEN now() END,
       CASE WHEN g.threshold <= 1 THEN now() + make_interval(secs => g.pause) END, CASE WHEN g.threshold <= 1 THEN now() END, g.reason, now()
FROM g
ON CONFLICT (provider, model) DO UPDATE
SET (failures, trips, opened_at, open_until, tripped_at, probe, reason, failed_at) = (
    SELECT b.failures + 1, CASE WHEN t.opens OR t.probed THEN b.trips + 1 ELSE b.trips END,
           CASE WHEN t.opens THEN now() ELSE b.opened_at END,
           CASE WHEN t.opens OR t.probed THEN now() + make_interval(secs => t.pause) ELSE b.open_until END,
           CASE WHEN t.opens OR t.probed THEN now() ELSE b.tripped_at END,
           CASE WHEN t.probed THEN '' ELSE b.probe END, g.reason, now()
    FROM g CROSS JOIN LATERAL (
        SELECT b.open_until IS NULL AND b.failures + 1 >= g.threshold AS opens, b.probe <> '' AND b.probe = g.probe AS probed,
               CASE WHEN b.trips < 20 AND g.pause * power(2, b.trips) < g.longest THEN g.pause * power(2, b.trips) ELSE g.longest END AS pause) t)
RETURNING b.failures, b.trips, (b.open_until IS NOT NULL)::bool AS opened, coalesce(b.tripped_at = b.failed_at, false)::bool AS tripped,
          coalesce(greatest(0, extract(epoch FROM b.open_until - clock_timestamp())), 0)::float8 AS open_seconds,
          ARRAY(SELECT r.model FROM reopened r)::text[] AS reopened;

-- name: CountProviderSuccess :many
-- Forgets the failures of a model and its provider, and closes the breakers whose probe the call
-- was. The success of a call that began before a breaker opened does not close it.
DELETE FROM orchestrator_breakers
WHERE provider = @provider AND model IN ('', @model) AND (open_until IS NULL OR probe <> '' AND probe = @probe::text)
RETURNING model, (open_until IS NOT NULL)::bool AS opened;

-- name: TakeProbe :execrows
-- Makes a call the probe of the breakers of a model and its provider whose pause is over, unless
-- another call with a current lease is.
UPDATE orchestrator_breakers SET probe = @probe::text, probe_until = now() + make_interval(secs => @lease_seconds::float8)
WHERE provider = @provider AND model IN ('', @model) AND open_until <= now() AND (probe = '' OR probe_until <= now());

-- name: RenewProbe :exec
UPDATE orchestrator_breakers SET probe_until = now() + make_interval(secs => @lease_seconds::float8) WHERE provider = @provider AND probe = @probe::text;

-- name: ReleaseProbe :exec
UPDATE orchestrator_breakers SET probe = '' WHERE provider = @provider AND probe = @probe::text;

-- name: StartFallback :execrows
-- Records that an agent uses another model. There is no row if it already does.
INSERT INTO orchestrator_model_fallbacks AS f (run_id, agent, provider, model, to_provider, to_model, reason)
VALUES (@run_id, @agent, @provider, @model, @to_provider, @to_model, @reason)
ON CONFLICT (run_id, agent, provider, model) WHERE ended_at IS NULL DO UPDATE
SET to_provider = excluded.to_provider, to_model = excluded.to_model, reason = excluded.reason
WHERE (f.to_provider, f.to_model) <> (excluded.to_provider, excluded.to_model);

-- name: EndedFallbacks :many
-- Open fallbacks from models that are usable again, of a provider or, if it is empty, of all.
SELECT f.id, f.run_id, f.agent, f.provider, f.model, f.to_provider, f.to_model, (r.finished_at IS NOT NULL)::bool AS finished
FROM orchestrator_model_fallbacks f JOIN orchestrator_runs r ON r.id = f.run_id
WHERE f.ended_at IS NULL AND (@provider::text = '' OR f.provider = @provider::text)
  AND NOT EXISTS (SELECT FROM orchestrator_breakers b WHERE b.provider = f.provider AND b.model IN ('', f.model) AND b.open_until IS NOT NULL)
ORDER BY f.run_id, f.id
LIMIT @most::int;

-- name: EndFallback :execrows
-- Ends a fallback, unless the model is out again.
UPDATE orchestrator_model_fallbacks f SET ended_at = now()
WHERE f.id = @id AND f.ended_at IS NULL
  AND NOT EXISTS (SELECT FROM orchestrator_breakers b WHERE b.provider = f.provider AND b.model IN ('', f.model) AND b.open_until IS NOT NULL);

-- name: ForgetBreakers :exec
-- Closes breakers that nobody tries to close: no call of the model has failed or succeeded for long.
DELETE FROM orchestrator_breakers
WHERE failed_at <= now() - make_interval(secs => @age_seconds::float8)
  AND (open_until IS NULL OR open_until <= now()) AND (probe = '' OR probe_until <= now());

-- name: ProviderPauses :many
-- Providers that accept no calls for a while.
SELECT provider, reason, extract(epoch FROM paused_until - now())::float8 AS seconds
FROM orchestrator_provider_pauses WHERE paused_until > now()
ORDER BY provider
LIMIT @most::int;

-- name: PauseProvider :exec
INSERT INTO orchestrator_provider_pauses AS p (provider, paused_until, reason)
VALUES (@provider, now() + make_interval(secs => @seconds::float8), @reason)
ON CONFLICT (provider) DO UPDATE SET paused_until = excluded.paused_until, reason = excluded.reason, updated_at = now()
WHERE excluded.paused_until > p.paused_until;

-- name: QueueCall :one
INSERT INTO orchestrator_provider_calls (provider, model, run_id, agent, step, tokens, lease_until)
VALUES (@provider, @model, @run_id, @agent, @step, @tokens, now() + make_interval(secs => @lease_seconds::float8))
RETURNING id;

-- name: TryQueueLock :one
-- The worker with the lock admits calls for all of them.
SELECT pg_try_advisory_xact_lock(hashtextextended('rgpt calls of ' || @provider::text, 0)) AS owned;

-- name: AwaitQueueLock :exec
SELECT pg_advisory_xact_lock(hashtextextended('rgpt calls of ' || @provider::text, 0));

-- name: ForgetCalls :exec
-- Removes calls that no longer count: those that waited at a worker that died, and those admitted
-- before the window of the limits.
DELETE FROM orchestrator_provider_calls
WHERE provider = @provider
  AND (admitted_at IS NULL AND lease_until <= now()
       OR admitted_at <= now() - make_interval(secs => @window_seconds::float8) AND (finished_at IS NOT NULL OR lease_until <= now()));

-- name: ForgetAllCalls :exec
-- Does the same for all providers, also those that are not called any more. It does not wait for
-- statements that change several calls, which could wait for it.
DELETE FROM orchestrator_provider_calls WHERE id IN (
    SELECT c.id FROM orchestrator_provider_calls c
    WHERE c.admitted_at IS NULL AND c.lease_until <= now()
       OR c.admitted_at <= now() - make_interval(secs => @window_seconds::float8) AND (c.finished_at IS NOT NULL OR c.lease_until <= now())
    FOR UPDATE SKIP LOCKED);

-- name: AdmitCalls :execrows
-- Admits the first calls of the queue, as many as the limits allow, and numbers the others. A call
-- comes after those of runs with fewer calls that are being made, were admitted within the window,
-- or wait in front of it: runs take turns, whatever the number of their calls. A call with more
-- tokens than a whole window allows is admitted alone.
WITH g AS (
    SELECT @provider::text AS provider, @requests::bigint AS requests, @tokens::bigint AS tokens, @concurrent::bigint AS concurrent,
           now() - make_interval(secs => @window_seconds::float8) AS since
), paused AS (
    SELECT EXISTS (SELECT FROM orchestrator_provider_pauses p WHERE p.provider = @provider AND p.paused_until > now()) AS now
), counted AS (
    SELECT c.run_id, c.tokens, c.admitted_at > g.since AS recent, c.finished_at IS NULL AND c.lease_until > now() AS active
    FROM orchestrator_provider_calls c, g WHERE c.provider = @provider AND c.admitted_at IS NOT NULL
), used AS (
    SELECT count(*) FILTER (WHERE recent) AS requests, coalesce(sum(tokens) FILTER (WHERE recent), 0) AS tokens, count(*) FILTER (WHERE active) AS active FROM counted
), runs AS (
    SELECT run_id, count(*) AS calls FROM counted WHERE recent OR active GROUP BY run_id
), waiting AS (
    SELECT c.id, c.run_id, c.tokens, row_number() OVER (PARTITION BY c.run_id ORDER BY c.id) AS nth
    FROM orchestrator_provider_calls c WHERE c.provider = @provider AND c.admitted_at IS NULL AND c.lease_until > now()
), line AS (
    SELECT w.id, w.tokens, row_number() OVER (ORDER BY coalesce(r.calls, 0) + w.nth, w.id) AS place
    FROM waiting w LEFT JOIN runs r ON r.run_id = w.run_id
), judged AS (
    SELECT l.id, l.place,
           NOT (SELECT p.now FROM paused p)
           AND (g.requests = 0 OR u.requests + l.place <= g.requests)
           AND (g.tokens = 0 OR u.tokens + sum(l.tokens) OVER (ORDER BY l.place) <= g.tokens OR u.tokens = 0 AND l.place = 1)
           AND (g.concurrent = 0 OR u.active + l.place <= g.concurrent) AS admitted
    FROM line l, used u, g
), numbered AS (
    SELECT j.id, j.admitted, CASE WHEN j.admitted THEN 0 ELSE j.place - count(*) FILTER (WHERE j.admitted) OVER () END AS position FROM judged j
)
UPDATE orchestrator_provider_calls c
SET admitted_at = CASE WHEN n.admitted THEN clock_timestamp() END, position = n.position
FROM numbered n WHERE c.id = n.id AND (n.admitted OR c.position <> n.position);

-- name: QueuedCalls :many
SELECT id, (admitted_at IS NOT NULL)::bool AS admitted, position FROM orchestrator_provider_calls WHERE id = ANY(@ids::bigint[]);

-- name: RenewCalls :exec
UPDATE orchestrator_provider_calls SET lease_until = now() + make_interval(secs => @lease_seconds::float8)
WHERE id = ANY(@ids::bigint[]) AND finished_at IS NULL;

-- name: FinishCall :exec
-- Replaces the estimate of a call's tokens by their number.
UPDATE orchestrator_provider_calls SET finished_at = now(), tokens = @tokens WHERE id = @id;

-- name: LeaveQueue :exec
-- Removes a call that was not sent.
DELETE FROM orchestrator_provider_calls WHERE id = @id;

-- name: WaitingCalls :many
-- The calls of a run that wait for their turn at a provider.
SELECT id, provider, model, agent, step, position, queued_at FROM orchestrator_provider_calls
WHERE run_id = @run_id AND admitted_at IS NULL AND lease_until > now()
ORDER BY id
LIMIT @most::int;

-- name: WaitAnnounced :one
-- Whether an event of a run said lately that it waits for a provider.
SELECT EXISTS (SELECT FROM orchestrator_events
    WHERE run_id = @run_id AND event_type = @event_type::text AND payload->>'provider' = @provider::text
      AND created_at > clock_timestamp() - make_interval(secs => @every_seconds::float8)) AS announced;

-- name: ProviderQueues :many
-- What each provider does now: calls that wait, calls that are being made, and what was admitted
-- within the window of the limits.
SELECT provider, count(*) FILTER (WHERE admitted_at IS NULL AND lease_until > now())::bigint AS waiting,
       count(*) FILTER (WHERE admitted_at IS NOT NULL AND finished_at IS NULL AND lease_until > now())::bigint AS active,
       count(*) FILTER (WHERE admitted_at > now() - make_interval(secs => @window_seconds::float8))::bigint AS requests,
       coalesce(sum(tokens) FILTER (WHERE admitted_at > now() - make_interval(secs => @window_seconds::float8)), 0)::bigint AS tokens
FROM orchestrator_provider_calls GROUP BY provider ORDER BY provider LIMIT @most::int;
