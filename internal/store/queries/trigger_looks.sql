-- name: AddTriggers :exec
INSERT INTO orchestrator_triggers (name) SELECT unnest(@names::text[]) ON CONFLICT (name) DO NOTHING;

-- name: ClaimTriggerLooks :many
-- Leases looks for triggers that are due. One whose server died is due again when the lease ends.
WITH due AS (
    SELECT t.name FROM orchestrator_triggers t
    WHERE t.name = ANY(@names::text[]) AND t.paused_at IS NULL AND (t.next_at IS NULL OR t.next_at <= clock_timestamp())
    ORDER BY t.next_at NULLS FIRST, t.name
    LIMIT @most::int
    FOR UPDATE SKIP LOCKED
)
UPDATE orchestrator_triggers t
SET looks = t.looks + 1, looking = true, next_at = clock_timestamp() + make_interval(secs => @lease_seconds::float8)
FROM due
WHERE t.name = due.name
RETURNING t.name, t.looks, t.read_until, t.read_for, t.failures, clock_timestamp()::timestamptz AS now;

-- name: EndTriggerLook :exec
-- A webhook that came during the look asks for another one, unless the look failed. Only the server
-- that holds the look may end it.
UPDATE orchestrator_triggers t
SET looking = false, looked_at = clock_timestamp(), read_until = sqlc.narg(read_until), read_for = @read_for, failures = @failures::int, problem = @problem,
    next_at = CASE WHEN @failures = 0 AND t.asked_at > @began::timestamptz
                   THEN least(w.next_at, clock_timestamp() + make_interval(secs => @gap_seconds::float8))
                   ELSE w.next_at END
FROM (SELECT CASE WHEN @wait_seconds::float8 < 0 THEN 'infinity'::timestamptz
                  ELSE clock_timestamp() + make_interval(secs => @wait_seconds) END AS next_at) w
WHERE t.name = @name AND t.looks = @look;

-- name: AskTriggerLooks :exec
-- Asks for looks for triggers, soon after the last one, but not before the time at which one that
-- failed is tried again.
UPDATE orchestrator_triggers t
SET asked_at = clock_timestamp(),
    next_at = CASE WHEN t.looking AND t.next_at > clock_timestamp() OR t.failures > 0 OR t.next_at IS NULL THEN t.next_at
                   ELSE least(t.next_at, greatest(clock_timestamp(), t.looked_at + make_interval(secs => @gap_seconds::float8))) END
WHERE t.name = ANY(@names::text[]);

-- name: KnownTriggerFirings :many
SELECT delivery FROM orchestrator_trigger_firings WHERE trigger = @trigger AND forge = @forge AND repository = @repository AND delivery = ANY(@deliveries::text[]);
