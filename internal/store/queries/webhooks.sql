-- name: CreateWebhook :one
-- No row: the limit is reached, or the key was used before.
INSERT INTO orchestrator_webhooks (url, events, project, description, name, secret, enabled, idempotency_key, request_digest)
SELECT @url, @events::text[], @project, @description, @name, @secret, @enabled, sqlc.narg(idempotency_key), @request_digest
WHERE (SELECT count(*) FROM orchestrator_webhooks) < @most::int
ON CONFLICT (tenant, idempotency_key) DO NOTHING
RETURNING id;

-- name: WebhookByKey :one
SELECT id, secret, request_digest FROM orchestrator_webhooks WHERE tenant = 'local' AND idempotency_key = @idempotency_key::text;

-- name: Webhooks :many
-- All webhooks, or one, with the number of waiting deliveries. Never with the
-- secret.
SELECT w.id, w.name, w.url, w.events, w.project, w.description, w.enabled, w.disabled_reason, w.failing_since, w.created_at, w.updated_at,
       (SELECT count(*) FROM orchestrator_webhook_deliveries d WHERE d.webhook_id = w.id AND d.next_try IS NOT NULL)::bigint AS pending
FROM orchestrator_webhooks w
WHERE sqlc.narg(id)::bigint IS NULL OR w.id = sqlc.narg(id)
ORDER BY w.id;

-- name: ChangeWebhook :execrows
-- Enabling a webhook resets its failures. It receives new events from then on, and
-- the waiting ones.
UPDATE orchestrator_webhooks
SET url = coalesce(sqlc.narg(url)::text, url),
    events = coalesce(sqlc.narg(events)::text[], events),
    project = coalesce(sqlc.narg(project)::text, project),
    description = coalesce(sqlc.narg(description)::text, description),
    name = coalesce(sqlc.narg(name)::text, name),
    secret = coalesce(sqlc.narg(secret)::text, secret),
    enabled = coalesce(sqlc.narg(enabled)::bool, enabled),
    disabled_reason = CASE WHEN sqlc.narg(enabled) IS NULL THEN disabled_reason ELSE '' END,
    failing_since = CASE WHEN sqlc.narg(enabled) OR sqlc.narg(url) IS NOT NULL THEN NULL ELSE failing_since END,
    since = CASE WHEN sqlc.narg(enabled) AND NOT enabled THEN pg_current_snapshot() ELSE since END,
    updated_at = clock_timestamp()
WHERE id = @id;

-- name: DeleteWebhook :execrows
DELETE FROM orchestrator_webhooks WHERE id = @id;

-- name: FeedWebhooks :one
-- Turns the next events into deliveries, and moves the position, in one statement:
-- each event reaches each webhook once, whatever happens. Reads events as Feed does.
-- A reminder also reaches the webhooks that it names, whatever events they select.
-- A position beyond all transactions comes from another database cluster; it is then
-- reset to now.
WITH place AS (
    SELECT CASE WHEN f.tx > pg_snapshot_xmax(pg_current_snapshot()) THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE f.tx END AS tx, f.id
    FROM orchestrator_webhook_feed f
    FOR UPDATE SKIP LOCKED
), page AS MATERIALIZED (
    SELECT e.tx, e.id, e.run_id, e.seq, e.event_type
    FROM place p CROSS JOIN LATERAL (
        SELECT n.tx, n.id, n.run_id, n.seq, n.event_type
        FROM orchestrator_events n
        WHERE (n.tx, n.id) > (p.tx, p.id) AND n.tx < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY n.tx, n.id
        LIMIT @most::int) e
), queued AS (
    INSERT INTO orchestrator_webhook_deliveries (webhook_id, event_id, run_id, seq, event_type, next_try)
    SELECT w.id, e.id, e.run_id, e.seq, e.event_type, clock_timestamp()
    FROM page e JOIN orchestrator_webhooks w
      ON w.enabled AND (NOT pg_visible_in_snapshot(e.tx, w.since) OR pg_snapshot_xmax(w.since) > pg_snapshot_xmax(pg_current_snapshot()))
     AND (w.events = '{}' OR EXISTS (SELECT FROM unnest(w.events) AS p (pattern)
                                     WHERE e.event_type LIKE replace(replace(p.pattern, '_', '\_'), '*', '%'))
          OR w.name <> '' AND e.event_type IN ('approval.reminded', 'approval.escalated', 'intervention.reminded', 'intervention.escalated',
                                               'input.reminded', 'input.escalated')
             AND EXISTS (SELECT FROM orchestrator_events n
                         WHERE n.run_id = e.run_id AND n.seq = e.seq AND n.payload -> 'to' @> to_jsonb('webhook:' || w.name)))
     AND (w.project = '' OR w.project = (SELECT r.project FROM orchestrator_runs r WHERE r.id = e.run_id))
    ORDER BY e.tx, e.id
    ON CONFLICT (webhook_id, event_id) DO NOTHING
    RETURNING id
), moved AS (
    UPDATE orchestrator_webhook_feed f
    SET tx = l.tx, id = l.id
    FROM (SELECT n.tx, n.id FROM page n ORDER BY n.tx DESC, n.id DESC LIMIT 1) l
)
SELECT (SELECT count(*) FROM page)::int AS events, (SELECT count(*) FROM queued)::int AS deliveries;

-- name: ClaimDeliveries :many
-- Leases deliveries that are due, those of healthy webhooks first. A failing webhook
-- gets one delivery at a time, and all failing webhooks together get a part of the
-- slots, so that they do not delay others.
WITH possible AS (
    SELECT d.id, d.next_try, w.url, w.secret, w.failing_since IS NOT NULL AS failing,
           row_number() OVER (PARTITION BY w.failing_since IS NOT NULL ORDER BY d.next_try, d.id) AS place
    FROM orchestrator_webhooks w
    LEFT JOIN (SELECT unnest(@busy_webhooks::bigint[]) AS webhook_id, unnest(@busy_counts::int[]) AS n) b ON b.webhook_id = w.id
    CROSS JOIN LATERAL (
        SELECT o.id, o.next_try
        FROM orchestrator_webhook_deliveries o
        WHERE o.webhook_id = w.id AND o.next_try <= now() AND (w.enabled OR o.event_id IS NULL AND o.payload IS NULL)
        ORDER BY o.next_try, o.id
        LIMIT greatest(0, CASE WHEN w.failing_since IS NULL THEN @most_each::int ELSE 1 END - coalesce(b.n, 0))
        FOR UPDATE SKIP LOCKED) d
), due AS (
    SELECT p.id, p.url, p.secret, p.failing
    FROM possible p
    WHERE NOT p.failing OR p.place <= @most_failing::int
    ORDER BY p.failing, p.next_try, p.id
    LIMIT @most::int
), lost AS (
    UPDATE orchestrator_webhook_attempts a
    SET finished_at = clock_timestamp(), error = 'the server that sent it stopped; it is unknown whether the request arrived'
    FROM due u
    WHERE a.delivery_id = u.id AND a.finished_at IS NULL
), claimed AS (
    UPDATE orchestrator_webhook_deliveries d
    SET status = 'sending', attempts = d.attempts + 1, next_try = clock_timestamp() + make_interval(secs => @lease_seconds::float8),
        used = d.used + CASE WHEN d.status = 'sending' THEN 0 ELSE 1 END -- an interrupted attempt does not count
    FROM due u
    WHERE d.id = u.id
    RETURNING d.id, d.webhook_id, d.event_id, d.run_id, d.seq, d.event_type, d.attempts, d.used, d.created_at, d.message, d.subject, d.payload AS own
), begun AS (
    INSERT INTO orchestrator_webhook_attempts (delivery_id, attempt)
    SELECT c.id, c.attempts FROM claimed c
)
SELECT c.id, c.webhook_id, (c.event_id IS NULL AND c.own IS NULL)::bool AS test, c.run_id, c.seq, c.event_type, c.attempts, c.used, c.created_at,
       c.message, c.subject, c.own,
       u.url, u.secret, u.failing::bool AS failing, e.payload, e.created_at AS happened_at
FROM claimed c JOIN due u ON u.id = c.id LEFT JOIN orchestrator_events e ON e.id = c.event_id
ORDER BY c.id;

-- name: TestWebhook :one
-- Creates a test delivery that is being sent. With a key that was used before,
-- returns the existing one; it is fresh if no server is sending it.
WITH made AS (
    INSERT INTO orchestrator_webhook_deliveries (webhook_id, event_type, status, attempts, used, next_try, request)
    SELECT w.id, @event_type::text, 'sending', 1, 1, clock_timestamp() + make_interval(secs => @lease_seconds::float8), sqlc.narg(request)
    FROM orchestrator_webhooks w WHERE w.id = @webhook_id
    ON CONFLICT (webhook_id, request) DO NOTHING
    RETURNING id, webhook_id, created_at
), begun AS (
    INSERT INTO orchestrator_webhook_attempts (delivery_id, attempt) SELECT m.id, 1 FROM made m
)
SELECT m.id, true::bool AS fresh, m.created_at, w.url, w.secret FROM made m JOIN orchestrator_webhooks w ON w.id = m.webhook_id
UNION ALL
SELECT d.id, false, d.created_at, '', '' FROM orchestrator_webhook_deliveries d
WHERE d.webhook_id = @webhook_id AND d.request = sqlc.narg(request);

-- name: EndDelivery :one
-- Stores the outcome of an attempt. A success counts from any server; another
-- outcome counts only from the server that holds the delivery. Tests do not affect a
-- webhook's health.
WITH attempt AS (
    UPDATE orchestrator_webhook_attempts a
    SET finished_at = clock_timestamp(), response_code = @response_code::int, duration_ms = @duration_ms::bigint, error = @error::text
    WHERE a.delivery_id = @id::bigint AND a.attempt = @attempt::int
), ended AS (
    UPDATE orchestrator_webhook_deliveries d
    SET status = @status::text, response_code = @response_code, duration_ms = @duration_ms, error = @error,
        next_try = CASE WHEN @status = 'pending' THEN clock_timestamp() + make_interval(secs => @wait_seconds::float8) END,
        finished_at = CASE WHEN @status = 'pending' THEN NULL ELSE clock_timestamp() END
    WHERE d.id = @id AND d.next_try IS NOT NULL AND (d.attempts = @attempt OR @status = 'delivered')
    RETURNING d.webhook_id, d.event_id IS NOT NULL OR d.payload IS NOT NULL AS counts
), health AS (
    UPDATE orchestrator_webhooks w
    SET failing_since = CASE WHEN @status = 'delivered' THEN NULL ELSE coalesce(w.failing_since, clock_timestamp()) END,
        enabled = w.enabled AND NOT s.stop,
        disabled_reason = CASE WHEN w.enabled AND s.stop THEN @disabled_reason::text ELSE w.disabled_reason END
    FROM ended d
    CROSS JOIN LATERAL (SELECT h.id, @status <> 'delivered' AND (@gone::bool OR
        coalesce(h.failing_since <= clock_timestamp() - make_interval(secs => @disable_after_seconds::float8), false)) AS stop
        FROM orchestrator_webhooks h WHERE h.id = d.webhook_id) s
    WHERE w.id = s.id AND d.counts AND (@status <> 'delivered' OR w.failing_since IS NOT NULL)
    RETURNING w.enabled
)
SELECT (SELECT count(*) FROM ended)::int AS booked, coalesce((SELECT NOT h.enabled FROM health h), false)::bool AS disabled;

-- name: Redeliver :execrows
-- Not for a delivery that is being sent; once per key.
UPDATE orchestrator_webhook_deliveries d
SET status = 'pending', used = 0, next_try = clock_timestamp(), finished_at = NULL, request = coalesce(sqlc.narg(request)::text, d.request)
WHERE d.webhook_id = @webhook_id AND d.id = @id AND (d.status <> 'sending' OR d.next_try <= clock_timestamp())
  AND (sqlc.narg(request)::text IS NULL OR d.request IS DISTINCT FROM sqlc.narg(request));

-- name: Deliveries :many
-- Deliveries of a webhook, newest first: after a position in the list, or one of
-- them.
SELECT d.id, d.webhook_id, (d.event_id IS NULL AND d.payload IS NULL)::bool AS test, d.message, d.run_id, d.seq, d.event_type, d.status, d.attempts, d.next_try, d.response_code,
       d.duration_ms, d.error, d.created_at, d.finished_at, d.request, d.used,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('attempt', a.attempt, 'started_at', a.started_at, 'finished_at', a.finished_at,
            'response_code', a.response_code, 'duration_ms', a.duration_ms, 'error', a.error) ORDER BY a.attempt), '[]')
        FROM orchestrator_webhook_attempts a WHERE a.delivery_id = d.id)::jsonb AS log
FROM orchestrator_webhook_deliveries d
WHERE d.webhook_id = @webhook_id
  AND (@before::bigint = 0 OR d.id < @before)
  AND (@id::bigint = 0 OR d.id = @id)
  AND (@status::text = '' OR d.status = @status)
ORDER BY d.id DESC
LIMIT @most::int;

-- name: SweepDeliveries :execrows
-- Old entries of the log. Deliveries that are still to be sent stay, unless their
-- webhook is disabled.
DELETE FROM orchestrator_webhook_deliveries
WHERE id = ANY (ARRAY(SELECT d.id FROM orchestrator_webhook_deliveries d JOIN orchestrator_webhooks w ON w.id = d.webhook_id
             WHERE d.created_at < now() - make_interval(secs => @older_than_seconds::float8)
               AND (d.next_try IS NULL OR NOT w.enabled)
             LIMIT @most::int));
