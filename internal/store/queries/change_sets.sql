-- name: CreateChangeSet :one
INSERT INTO orchestrator_change_sets (tenant, goal_title, settings, created_by)
VALUES (@tenant, @goal_title, @settings, @created_by) RETURNING id;

-- name: AddToChangeSet :exec
INSERT INTO orchestrator_change_set_runs (set_id, number, run_id) VALUES (@set_id, @number, @run_id);

-- name: GetChangeSet :one
SELECT * FROM orchestrator_change_sets WHERE id = @id;

-- name: LockChangeSet :one
SELECT * FROM orchestrator_change_sets WHERE id = @id FOR UPDATE;

-- name: ChangeSets :many
-- The newest change sets of a tenant before an id.
SELECT * FROM orchestrator_change_sets
WHERE tenant = @tenant AND id < @before::bigint ORDER BY id DESC LIMIT @most;

-- name: WaitingChangeSets :many
-- The change sets of a tenant that wait for a person, the one that has waited longest first.
SELECT * FROM orchestrator_change_sets
WHERE tenant = @tenant AND waiting_since IS NOT NULL ORDER BY waiting_since, id LIMIT @most;

-- name: CountWaitingChangeSets :one
SELECT count(*)::int FROM orchestrator_change_sets WHERE tenant = @tenant AND waiting_since IS NOT NULL;

-- name: RunsOfChangeSets :many
-- The runs of change sets with what they show, and the last pull request of each.
SELECT m.set_id, m.number, m.run_id, m.ready_at, m.told_to, m.told_wait,
       r.project, r.repo, r.status, r.phase, r.waiting_for, r.error_class, r.error_code, r.error_message, r.workflow_id, r.workflow_run_id,
       r.release_branch, r.staying_until, r.started_at, r.finished_at,
       coalesce(b.spent_tokens, 0)::bigint AS tokens, coalesce(b.spent_micros, 0)::bigint AS micro_usd, coalesce(b.price_estimated, false)::bool AS price_estimated,
       coalesce(p.forge, '')::text AS pr_forge, coalesce(p.repo, '')::text AS pr_repo, coalesce(p.number, 0)::bigint AS pr_number,
       coalesce(p.url, '')::text AS pr_url, coalesce(p.state, '')::text AS pr_state, coalesce(p.draft, false)::bool AS pr_draft
FROM orchestrator_change_set_runs m JOIN orchestrator_runs r ON r.id = m.run_id
LEFT JOIN orchestrator_budgets b ON b.scope_kind = 'run' AND b.scope_key = r.id::text
LEFT JOIN LATERAL (
    SELECT q.forge, q.repo, q.number, q.url, q.state, q.draft FROM orchestrator_pull_requests q WHERE q.run_id = m.run_id ORDER BY q.id DESC LIMIT 1
) p ON true
WHERE m.set_id = ANY (@sets::bigint[]) ORDER BY m.set_id, m.number;

-- name: ReadyInChangeSet :execrows
-- Notes when a run was first ready. The time stays the same after a replay.
UPDATE orchestrator_change_set_runs SET ready_at = coalesce(ready_at, clock_timestamp()) WHERE run_id = @run_id AND set_id = @set_id;

-- name: DecideChangeSet :exec
UPDATE orchestrator_change_sets SET decided_at = clock_timestamp(), outcome = @outcome, reason = @reason
WHERE id = @id AND decided_at IS NULL;

-- name: TellStoppedChangeSet :exec
-- The runs that have ended need not learn that the set was stopped: if a person resumes one of them
-- later, it is released.
UPDATE orchestrator_change_set_runs m
SET told_to = CASE WHEN r.workflow_run_id = '' THEN 'ended' ELSE r.workflow_run_id END
FROM orchestrator_runs r
WHERE m.set_id = @set_id AND r.id = m.run_id AND r.status IN ('done', 'failed', 'cancelled');

-- name: TellRunOfChangeSet :exec
UPDATE orchestrator_change_set_runs SET told_to = @told_to WHERE run_id = @run_id AND set_id = @set_id;

-- name: ChangeSetToldTo :one
SELECT told_to FROM orchestrator_change_set_runs WHERE run_id = @run_id AND set_id = @set_id;

-- name: ResumedAfterStop :one
-- Whether a person started a run again after its set was stopped.
SELECT EXISTS (
    SELECT FROM orchestrator_replays o JOIN orchestrator_change_sets s ON o.created_at > s.stopped_at
    WHERE s.id = @set_id AND o.run_id = @run_id
)::bool;

-- name: StopChangeSet :execrows
UPDATE orchestrator_change_sets SET stopped_at = clock_timestamp(), stopped_by = @stopped_by, stop_reason = @reason
WHERE id = @id AND stopped_at IS NULL;

-- name: ReleaseChangeSet :execrows
UPDATE orchestrator_change_sets SET released_at = clock_timestamp(), released_by = @released_by, release_reason = @reason
WHERE id = @id AND released_at IS NULL AND stopped_at IS NULL AND decided_at IS NULL;

-- name: BeginWaitOfChangeSet :one
-- A change set waits for a person from now on; returns the number of the wait.
UPDATE orchestrator_change_sets SET waits = waits + 1, waiting_since = clock_timestamp() WHERE id = @id RETURNING waits;

-- name: EndWaitOfChangeSet :exec
UPDATE orchestrator_change_sets SET waiting_since = NULL WHERE id = @id;

-- name: ToldOfWait :exec
-- Notes of which wait of their change set events of runs tell.
UPDATE orchestrator_change_set_runs SET told_wait = @wait WHERE set_id = @set_id AND run_id = ANY (@runs::bigint[]);

-- name: EndedAgainInWait :one
-- Whether a run of a change set has ended again since the set began to wait for a person, who started it
-- again meanwhile. An order that was not taken has not started it yet.
SELECT EXISTS (
    SELECT FROM orchestrator_change_sets s JOIN orchestrator_change_set_runs m ON m.set_id = s.id
    JOIN orchestrator_runs r ON r.id = m.run_id JOIN orchestrator_replays o ON o.run_id = m.run_id
    WHERE s.id = @set_id AND o.created_at > s.waiting_since AND o.execution_id IS NOT NULL AND r.status IN ('done', 'failed', 'cancelled')
)::bool;
