-- name: AddTriggerFiring :execrows
-- What is known already is not added again.
INSERT INTO orchestrator_trigger_firings (trigger, forge, repository, delivery, payload, occurred_at)
VALUES (@trigger, @forge, @repository, @delivery, @payload, @occurred_at)
ON CONFLICT (trigger, forge, repository, delivery) DO NOTHING;

-- name: WaitingTriggers :many
-- The triggers with firings that wait, with the time of the oldest one.
SELECT trigger, min(received_at)::timestamptz AS oldest
FROM orchestrator_trigger_firings
WHERE state = 'waiting'
GROUP BY trigger;

-- name: AddTrigger :exec
INSERT INTO orchestrator_triggers (name) VALUES (@name) ON CONFLICT (name) DO NOTHING;

-- name: LockTrigger :one
-- Only one server at a time decides about a trigger.
SELECT sqlc.embed(t), clock_timestamp()::timestamptz AS now FROM orchestrator_triggers t WHERE t.name = @name FOR UPDATE;

-- name: WaitingFirings :many
-- The firings of a trigger that wait, in order.
SELECT id, forge, repository, delivery, occurred_at, received_at, (accepted_at IS NOT NULL)::bool AS accepted, tried_at, attempts, creating,
       (next_at <= clock_timestamp())::bool AS due
FROM orchestrator_trigger_firings
WHERE trigger = @trigger AND state = 'waiting'
ORDER BY id LIMIT @most::int;

-- name: TriggerRuns :many
-- The runs of a trigger that are in progress, in order. Of several attempts at a goal, the first one is
-- in progress as long as any of them is.
WITH active AS (
    SELECT r.id FROM orchestrator_runs r WHERE r.status NOT IN ('done', 'failed', 'cancelled')
), made AS (
    SELECT id FROM active
    UNION
    SELECT o.run_id FROM active
    JOIN orchestrator_attempts a ON a.run_id = active.id
    JOIN orchestrator_attempts o ON o.group_id = a.group_id AND o.number = 1
)
SELECT m.id
FROM made m JOIN orchestrator_trigger_firings f ON f.run_id = m.id
WHERE f.trigger = @trigger AND f.state = 'fired'
ORDER BY m.id;

-- name: TriggerUse :one
-- How many runs a trigger created within a day, and what they cost.
SELECT count(*)::bigint AS runs, coalesce(sum(b.spent_micros), 0)::bigint AS micros
FROM orchestrator_trigger_firings f
LEFT JOIN LATERAL (SELECT a.group_id FROM orchestrator_attempts a WHERE a.run_id = f.run_id LIMIT 1) g ON true
LEFT JOIN orchestrator_budgets b ON b.scope_kind = CASE WHEN g.group_id IS NULL THEN 'run' ELSE 'attempts' END
                                AND b.scope_key = coalesce(g.group_id, f.run_id)::text
WHERE f.trigger = @trigger AND f.state = 'fired' AND f.ended_at > clock_timestamp() - interval '24 hours';

-- name: AcceptFirings :exec
UPDATE orchestrator_trigger_firings SET accepted_at = clock_timestamp() WHERE id = ANY(@ids::bigint[]);

-- name: ExplainFirings :exec
-- Why firings wait.
UPDATE orchestrator_trigger_firings SET reason = @reason
WHERE id = ANY(@ids::bigint[]) AND state = 'waiting' AND attempts = 0 AND reason <> @reason;

-- name: EndFirings :execrows
UPDATE orchestrator_trigger_firings
SET state = @state, reason = @reason, creating = false, ended_at = clock_timestamp()
WHERE id = ANY(@ids::bigint[]) AND state = 'waiting';

-- name: BeginFiring :one
UPDATE orchestrator_trigger_firings
SET attempts = attempts + 1, creating = true, reason = '', tried_at = coalesce(tried_at, clock_timestamp()),
    next_at = clock_timestamp() + make_interval(secs => @lease_seconds::float8)
WHERE id = @id AND state = 'waiting'
RETURNING *;

-- name: RenewFiring :execrows
UPDATE orchestrator_trigger_firings SET next_at = clock_timestamp() + make_interval(secs => @lease_seconds::float8)
WHERE id = @id AND attempts = @attempt AND state = 'waiting' AND creating;

-- name: EndFiring :execrows
-- Only the server that holds a firing may end it.
UPDATE orchestrator_trigger_firings
SET state = @state, reason = @reason, run_id = sqlc.narg(run_id), creating = false, ended_at = clock_timestamp()
WHERE id = @id AND attempts = @attempt AND state = 'waiting';

-- name: RetryFiring :execrows
UPDATE orchestrator_trigger_firings
SET reason = @reason, creating = false, next_at = clock_timestamp() + make_interval(secs => @wait_seconds::float8)
WHERE id = @id AND attempts = @attempt AND state = 'waiting';

-- name: Firing :one
-- A firing, with its place in the queue while it waits.
SELECT sqlc.embed(f), CASE WHEN f.state = 'waiting' THEN (
    SELECT count(*) FROM orchestrator_trigger_firings w WHERE w.trigger = f.trigger AND w.state = 'waiting' AND w.id <= f.id) ELSE 0 END::bigint AS position
FROM orchestrator_trigger_firings f
WHERE f.id = @id;

-- name: FiringOf :one
SELECT id FROM orchestrator_trigger_firings WHERE trigger = @trigger AND forge = @forge AND repository = @repository AND delivery = @delivery;

-- name: Firings :many
-- The firings of all triggers or of one, newest first.
SELECT sqlc.embed(f), CASE WHEN f.state = 'waiting' THEN (
    SELECT count(*) FROM orchestrator_trigger_firings w WHERE w.trigger = f.trigger AND w.state = 'waiting' AND w.id <= f.id) ELSE 0 END::bigint AS position
FROM orchestrator_trigger_firings f
WHERE (@trigger::text = '' OR f.trigger = @trigger) AND (@state::text = '' OR f.state = @state) AND (@before::bigint = 0 OR f.id < @before)
ORDER BY f.id DESC LIMIT @most::int;

-- name: RedeliverFiring :execrows
-- A firing that was skipped or failed waits again. A person asks for it, so it is in time.
UPDATE orchestrator_trigger_firings
SET state = 'waiting', reason = '', attempts = 0, creating = false, tried_at = NULL, ended_at = NULL, accepted_at = clock_timestamp(), next_at = clock_timestamp()
WHERE id = @id AND state IN ('skipped', 'failed');

-- name: TriggerStates :many
-- What is known of triggers besides their configuration.
SELECT n.name::text AS name, t.paused_at, coalesce(t.paused_by, '')::text AS paused_by, coalesce(t.reason, '')::text AS reason,
       coalesce(t.problem, '')::text AS problem,
       (SELECT count(*) FROM orchestrator_trigger_firings f WHERE f.trigger = n.name AND f.state = 'waiting')::bigint AS waiting,
       (SELECT count(*) FROM orchestrator_trigger_firings f JOIN orchestrator_runs r ON r.id = f.run_id
        WHERE f.trigger = n.name AND f.state = 'fired' AND r.status NOT IN ('done', 'failed', 'cancelled'))::bigint AS running,
       (SELECT f.ended_at FROM orchestrator_trigger_firings f WHERE f.trigger = n.name AND f.state = 'fired' ORDER BY f.ended_at DESC LIMIT 1) AS fired_at
FROM unnest(@names::text[]) WITH ORDINALITY n(name, place) LEFT JOIN orchestrator_triggers t ON t.name = n.name
ORDER BY n.place;

-- name: PauseTrigger :execrows
-- No row: it is paused already.
INSERT INTO orchestrator_triggers AS t (name, paused_at, paused_by, reason)
VALUES (@name, clock_timestamp(), @paused_by, @reason)
ON CONFLICT (name) DO UPDATE SET paused_at = EXCLUDED.paused_at, paused_by = EXCLUDED.paused_by, reason = EXCLUDED.reason
WHERE t.paused_at IS NULL;

-- name: ResumeTrigger :execrows
UPDATE orchestrator_triggers SET paused_at = NULL, paused_by = '', reason = '' WHERE name = @name AND paused_at IS NOT NULL;

-- name: SweepFirings :execrows
-- Issues are seen again for as long as they exist, so their rows are kept; those of comments and checks are
-- kept for longer than others. Those of runs in progress count for overlaps.
DELETE FROM orchestrator_trigger_firings WHERE id IN (
    SELECT f.id FROM orchestrator_trigger_firings f
    WHERE f.ended_at < clock_timestamp() - make_interval(secs => CASE WHEN f.delivery LIKE 'check:%' OR f.delivery LIKE 'comment:%'
                                                                      THEN @long_seconds::float8 ELSE @age_seconds::float8 END)
      AND f.delivery NOT LIKE 'issue:%'
      AND NOT EXISTS (SELECT FROM orchestrator_runs r WHERE r.id = f.run_id AND r.status NOT IN ('done', 'failed', 'cancelled'))
    ORDER BY f.ended_at LIMIT @most::int);
