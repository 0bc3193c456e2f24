-- name: AddNotificationChannel :exec
-- A new channel is notified of what happens from now on.
INSERT INTO orchestrator_notification_channels (channel) VALUES (@channel) ON CONFLICT (channel) DO NOTHING;

-- name: FeedNotifications :one
-- Turns the next events into notifications of a channel, and moves its position, in one statement: each
-- event reaches the channel once, whatever happens. Reads events as Feed does. A channel of browsers
-- stands for each of its browsers, which has a choice of its own. A reminder also reaches the channels
-- that it names, whatever they are notified of. A change set that waits for a person has an event for each
-- run that is ready; a channel is notified of one of them. A position beyond all transactions comes from another
-- database cluster; it is then reset to now.
WITH place AS (
    SELECT CASE WHEN c.tx > pg_snapshot_xmax(pg_current_snapshot()) THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE c.tx END AS tx, c.id
    FROM orchestrator_notification_channels c
    WHERE c.channel = @channel
    FOR UPDATE SKIP LOCKED
), page AS MATERIALIZED (
    SELECT e.tx, e.id, e.run_id, e.seq, e.event_type, e.payload, e.created_at
    FROM place p CROSS JOIN LATERAL (
        SELECT n.tx, n.id, n.run_id, n.seq, n.event_type, n.created_at,
               CASE WHEN n.event_type IN ('run.failed', 'run.updated', 'change_set.waiting') OR n.event_type LIKE '%.error'
                         OR n.event_type LIKE '%.reminded' OR n.event_type LIKE '%.escalated' THEN n.payload END AS payload
        FROM orchestrator_events n
        WHERE (n.tx, n.id) > (p.tx, p.id) AND n.tx < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY n.tx, n.id
        LIMIT @most::int) e
), sorted AS (
    SELECT e.*, CASE
        WHEN e.event_type IN ('approval.requested', 'input.requested', 'intervention.requested', 'change_set.waiting') THEN 'waits'
        WHEN e.event_type IN ('approval.reminded', 'approval.escalated', 'intervention.reminded', 'intervention.escalated',
                              'input.reminded', 'input.escalated')
             AND e.payload -> 'to' @> to_jsonb('channel:' || @channel::text) THEN 'reminder'
        WHEN e.event_type = 'run.failed' AND e.payload ->> 'code' IS DISTINCT FROM 'cancelled' THEN 'failed'
        WHEN e.event_type = 'releaser.completed' OR e.event_type = 'run.updated' AND e.payload = '{"status": "done"}' THEN 'done'
        WHEN e.event_type = 'budget.warning'
             OR e.event_type IN ('planner.error', 'builder.error', 'tester.error', 'releaser.error') AND e.payload ->> 'code' = 'budget_exceeded' THEN 'budget'
        END AS kind, CASE WHEN e.event_type = 'change_set.waiting' THEN e.payload ->> 'waiting_id' END AS waiting
    FROM page e
), targets AS (
    SELECT c.channel, c.since, '{}'::text[] AS kinds, '{}'::text[] AS projects, '' AS creator
    FROM orchestrator_notification_channels c
    WHERE c.channel = @channel AND NOT @browsers::bool
    UNION ALL
    SELECT b.name, c.since, b.kinds, b.projects, CASE WHEN b.mine THEN b.person ELSE '' END
    FROM orchestrator_browsers b JOIN orchestrator_notification_channels c ON c.channel = b.name
    WHERE b.channel = @channel AND @browsers
), wanted AS (
    SELECT t.channel, e.*, row_number() OVER (PARTITION BY t.channel, coalesce(e.waiting, e.id::text) ORDER BY e.tx, e.id) AS nth
    FROM sorted e JOIN orchestrator_runs r ON r.id = e.run_id
    JOIN targets t ON NOT pg_visible_in_snapshot(e.tx, t.since) OR pg_snapshot_xmax(t.since) > pg_snapshot_xmax(pg_current_snapshot())
    WHERE (e.kind = 'reminder' OR e.kind = ANY (@kinds::text[]) AND (t.kinds = '{}' OR e.kind = ANY (t.kinds))) AND r.kind = 'run'
      AND (@projects::text[] = '{}' OR r.project LIKE ANY (@projects)) AND (t.projects = '{}' OR r.project LIKE ANY (t.projects))
      AND (@creators::text[] = '{}' OR lower(btrim(r.settings ->> 'created_by')) = ANY (@creators))
      AND (t.creator = '' OR lower(btrim(r.settings ->> 'created_by')) = lower(t.creator))
), queued AS (
    INSERT INTO orchestrator_notifications (channel, event_id, run_id, seq, event_type, kind, created_at, state, reason)
    SELECT e.channel, e.id, e.run_id, e.seq, e.event_type, CASE e.kind WHEN 'reminder' THEN 'waits' ELSE e.kind END, @now::timestamptz,
           CASE WHEN e.created_at < @oldest::timestamptz THEN 'dropped' ELSE 'pending' END,
           CASE WHEN e.created_at < @oldest THEN @too_old::text ELSE '' END
    FROM wanted e
    WHERE e.nth = 1 AND (e.waiting IS NULL OR NOT EXISTS (
        SELECT FROM orchestrator_notifications o JOIN orchestrator_events x ON x.id = o.event_id
        WHERE o.channel = e.channel AND o.event_type = e.event_type AND x.payload ->> 'waiting_id' = e.waiting))
    ORDER BY e.tx, e.id, e.channel
    ON CONFLICT (channel, event_id) DO NOTHING
    RETURNING orchestrator_notifications.id
), moved AS (
    UPDATE orchestrator_notification_channels c
    SET tx = l.tx, id = l.id
    FROM (SELECT n.tx, n.id FROM page n ORDER BY n.tx DESC, n.id DESC LIMIT 1) l
    WHERE c.channel = @channel
)
SELECT (SELECT count(*) FROM page)::int AS events, (SELECT count(*) FROM queued)::int AS notifications;

-- name: NotificationsDue :one
-- Whether a channel has notifications that are to be put into a message, or a message to be sent.
SELECT EXISTS (SELECT FROM orchestrator_notifications n
               WHERE n.channel = @channel AND n.state = 'pending' AND (n.next_at IS NULL OR n.next_at <= @now::timestamptz));

-- name: ClaimNotificationChannel :execrows
-- Only one server at a time sends on a channel.
UPDATE orchestrator_notification_channels
SET holder = @holder, next_at = clock_timestamp() + make_interval(secs => @lease_seconds::float8)
WHERE channel = @channel AND next_at <= clock_timestamp();

-- name: FreeNotificationChannel :exec
-- Lets others send on a channel, after a wait that its receiver asked for.
UPDATE orchestrator_notification_channels
SET holder = '', next_at = clock_timestamp() + make_interval(secs => @wait_seconds::float8)
WHERE channel = @channel AND holder = @holder;

-- name: PendingNotifications :many
SELECT n.id, n.kind, n.message_id, coalesce(n.resent_at, n.created_at)::timestamptz AS created_at, n.next_at
FROM orchestrator_notifications n
WHERE n.channel = @channel AND n.state = 'pending'
ORDER BY n.kind = ANY (@first::text[]) DESC, n.id
LIMIT @most::int;

-- name: CountSentMessages :one
SELECT count(DISTINCT n.message_id)::int FROM orchestrator_notifications n
WHERE n.channel = @channel AND n.state = 'sent' AND n.sent_at > @since::timestamptz;

-- name: ComposeNotifications :execrows
-- Puts notifications into a message, which has the same content in each attempt.
UPDATE orchestrator_notifications
SET message_id = @message_id::bigint, composed_at = @now::timestamptz, next_at = @now
WHERE id = ANY (@ids::bigint[]) AND state = 'pending' AND message_id IS NULL;

-- name: BeginNotifications :many
-- Begins an attempt to send a message, and returns its content. Drops questions that need no answer any
-- more: an event of the same kind of question ended them (a run asks one at a time), or their run has ended.
-- A change set may wait although one of its runs does not any more.
WITH content AS (
    SELECT n.id, (CASE
        WHEN n.event_type = 'change_set.waiting' THEN NOT EXISTS (
            SELECT FROM orchestrator_events e JOIN orchestrator_change_set_runs m ON m.run_id = e.run_id JOIN orchestrator_change_sets s ON s.id = m.set_id
            WHERE e.id = n.event_id AND s.waiting_since IS NOT NULL AND e.payload ->> 'waiting_id' = 'changeset-' || s.id || '/waiting/' || s.waits)
        ELSE n.kind = 'waits' AND (r.finished_at IS NOT NULL OR EXISTS (
            SELECT FROM orchestrator_events a
            WHERE a.run_id = n.run_id AND a.seq > n.seq AND split_part(a.event_type, '.', 1) = split_part(n.event_type, '.', 1)
              AND split_part(a.event_type, '.', 2) IN ('granted', 'rejected', 'expired', 'answered', 'resolved')))
        END)::bool AS ended
    FROM orchestrator_notifications n LEFT JOIN orchestrator_runs r ON r.id = n.run_id
    WHERE n.message_id = @message_id::bigint AND n.state = 'pending'
), begun AS (
    UPDATE orchestrator_notifications n
    SET attempts = CASE WHEN c.ended THEN n.attempts ELSE n.attempts + 1 END,
        state = CASE WHEN c.ended THEN 'dropped' ELSE n.state END,
        reason = CASE WHEN c.ended THEN @ended::text ELSE n.reason END
    FROM content c
    WHERE n.id = c.id AND n.state = 'pending'
    RETURNING n.id, n.event_id, n.run_id, n.seq, n.event_type, n.kind, n.attempts, n.composed_at, n.created_at, c.ended
)
SELECT b.id, b.run_id, b.seq, b.event_type, b.kind, b.attempts, b.composed_at, b.created_at, b.ended, e.payload, e.created_at AS happened_at,
       r.project, r.goal_title, r.release_branch
FROM begun b
LEFT JOIN orchestrator_events e ON e.id = b.event_id
LEFT JOIN orchestrator_runs r ON r.id = b.run_id
ORDER BY b.id;

-- name: EndNotifications :execrows
-- Stores the outcome of an attempt to send a message. A success counts from any server, for what the
-- attempt contained; another outcome counts only for the last attempt.
UPDATE orchestrator_notifications
SET state = @state, reason = @reason, next_at = sqlc.narg(next_at), sent_at = sqlc.narg(sent_at)
WHERE message_id = @message_id::bigint AND (state = 'pending' OR @state = 'sent' AND state <> 'sent') AND (attempts = @attempt::int OR @state = 'sent' AND attempts > @attempt);

-- name: Notifications :many
-- Newest first: after a position in the list, or one of them.
SELECT n.id, n.channel, n.run_id, n.seq, n.event_type, n.kind, n.state, n.message_id, n.attempts, n.reason, n.created_at, n.next_at, n.sent_at, n.resent_at
FROM orchestrator_notifications n
WHERE (@channel::text = '' OR n.channel = @channel)
  AND (@state::text = '' OR n.state = @state)
  AND (@before::bigint = 0 OR n.id < @before)
  AND (@id::bigint = 0 OR n.id = @id)
ORDER BY n.id DESC
LIMIT @most::int;

-- name: AbandonNotifications :execrows
-- Notifications that no server took care of.
UPDATE orchestrator_notifications
SET state = 'failed', reason = @reason
WHERE id = ANY (ARRAY(SELECT n.id FROM orchestrator_notifications n
             WHERE n.created_at < @before::timestamptz AND n.state = 'pending' AND (n.resent_at IS NULL OR n.resent_at < @before)
             LIMIT @most::int));

-- name: SweepNotifications :execrows
DELETE FROM orchestrator_notifications
WHERE id = ANY (ARRAY(SELECT n.id FROM orchestrator_notifications n
             WHERE n.created_at < @before::timestamptz AND n.state <> 'pending'
             LIMIT @most::int));

-- name: ResendNotification :execrows
-- A notification that was not sent becomes a new one, for the same event.
UPDATE orchestrator_notifications
SET state = 'pending', reason = '', message_id = NULL, composed_at = NULL, next_at = NULL, attempts = 0, resent_at = @now::timestamptz
WHERE id = @id AND state IN ('failed', 'dropped');

-- name: LockBrowsers :exec
-- The limits on their number hold, however many subscribe at the same time.
LOCK TABLE orchestrator_browsers IN SHARE ROW EXCLUSIVE MODE;

-- name: CountBrowsers :one
-- The browsers besides one: all, and those of a person.
SELECT count(*)::int AS all_of_them, count(*) FILTER (WHERE b.person <> '' AND lower(b.person) = lower(@person::text))::int AS of_person
FROM orchestrator_browsers b
WHERE b.name <> @name;

-- name: PutBrowser :exec
INSERT INTO orchestrator_browsers AS b (name, channel, endpoint, p256dh, auth, server_key, person, browser, kinds, projects, mine, quiet)
VALUES (@name, @channel, @endpoint, @p256dh, @auth, @server_key, @person, @browser, @kinds::text[], @projects::text[], @mine, sqlc.narg(quiet))
ON CONFLICT (name) DO UPDATE
SET p256dh = EXCLUDED.p256dh, auth = EXCLUDED.auth, server_key = EXCLUDED.server_key, person = EXCLUDED.person, browser = EXCLUDED.browser,
    kinds = EXCLUDED.kinds, projects = EXCLUDED.projects, mine = EXCLUDED.mine, quiet = EXCLUDED.quiet, updated_at = clock_timestamp();

-- name: Browsers :many
-- All of them or one, oldest first.
SELECT * FROM orchestrator_browsers b
WHERE @name::text = '' OR b.name = @name
ORDER BY b.created_at, b.name;

-- name: BrowsersDue :many
-- The browsers with notifications that are to be put into a message, or a message to be sent.
SELECT * FROM orchestrator_browsers b
WHERE b.channel = @channel AND EXISTS (
    SELECT FROM orchestrator_notifications n
    WHERE n.channel = b.name AND n.state = 'pending' AND (n.next_at IS NULL OR n.next_at <= @now::timestamptz));

-- name: RemoveBrowser :execrows
WITH waiting AS (
    UPDATE orchestrator_notifications SET state = 'dropped', reason = @reason WHERE channel = @name AND state = 'pending'
), channel AS (
    DELETE FROM orchestrator_notification_channels WHERE channel = @name
)
DELETE FROM orchestrator_browsers WHERE name = @name;

-- name: DropForRemovedBrowsers :execrows
-- What was found for a browser just when it was removed. No other channels have a dot in their names.
UPDATE orchestrator_notifications
SET state = 'dropped', reason = @reason
WHERE id = ANY (ARRAY(SELECT n.id FROM orchestrator_notifications n
             WHERE n.channel LIKE '%.%' AND n.state = 'pending' AND NOT EXISTS (SELECT FROM orchestrator_browsers b WHERE b.name = n.channel)
             LIMIT @most::int));
