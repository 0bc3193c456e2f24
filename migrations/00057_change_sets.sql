-- +goose Up

-- Runs that change several repositories for one goal and are released together.
CREATE TABLE orchestrator_change_sets (
    id             BIGSERIAL PRIMARY KEY,
    tenant         TEXT NOT NULL DEFAULT 'local',
    goal_title     TEXT NOT NULL,
    settings       JSONB NOT NULL,
    created_by     TEXT NOT NULL DEFAULT '',
    created_at     TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    stopped_at     TIMESTAMPTZ,                -- when a person stopped all of them
    stopped_by     TEXT NOT NULL DEFAULT '',
    stop_reason    TEXT NOT NULL DEFAULT '',
    released_at    TIMESTAMPTZ,                -- when a person wanted those that are ready to be released
    released_by    TEXT NOT NULL DEFAULT '',
    release_reason TEXT NOT NULL DEFAULT '',
    decided_at     TIMESTAMPTZ,                -- null: the runs that are ready wait
    outcome        TEXT NOT NULL DEFAULT '' CHECK (outcome IN ('', 'complete', 'incomplete', 'none', 'stopped')),
    reason         TEXT NOT NULL DEFAULT ''
);
CREATE INDEX orchestrator_change_sets_tenant ON orchestrator_change_sets (tenant, id);

CREATE TABLE orchestrator_change_set_runs (
    set_id   BIGINT NOT NULL REFERENCES orchestrator_change_sets ON DELETE CASCADE,
    number   INT NOT NULL CHECK (number > 0),
    run_id   BIGINT NOT NULL UNIQUE REFERENCES orchestrator_runs ON DELETE CASCADE,
    ready_at TIMESTAMPTZ,              -- when it was first ready for its release
    told_to  TEXT NOT NULL DEFAULT '', -- workflow run that knows that the set was stopped
    PRIMARY KEY (set_id, number)
);

ALTER TABLE orchestrator_budgets
    DROP CONSTRAINT orchestrator_budgets_scope_kind_check,
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('agent', 'run', 'attempts', 'change_set', 'project', 'tenant', 'day'));

-- +goose StatementBegin
-- Commands of people, and what was decided, become entries of the ledger.
CREATE FUNCTION rgpt_ledger_change_set() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    object TEXT := 'change set ' || NEW.id;
BEGIN
    IF OLD.stopped_at IS NULL AND NEW.stopped_at IS NOT NULL THEN
        PERFORM rgpt_ledger_command(NEW.stopped_by, 'change_set.stopped', object, 0, jsonb_build_object('reason', nullif(rgpt_ledger_text(NEW.stop_reason), '')));
    END IF;
    IF OLD.released_at IS NULL AND NEW.released_at IS NOT NULL THEN
        PERFORM rgpt_ledger_command(NEW.released_by, 'change_set.released', object, 0, jsonb_build_object('reason', nullif(rgpt_ledger_text(NEW.release_reason), '')));
    END IF;
    IF OLD.decided_at IS NULL AND NEW.decided_at IS NOT NULL THEN
        PERFORM rgpt_ledger_append('system', 'rgpt', 'change_set.decided', object, 0,
            jsonb_strip_nulls(jsonb_build_object('outcome', NEW.outcome, 'reason', rgpt_ledger_text(NEW.reason)))::text);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_change_sets AFTER UPDATE ON orchestrator_change_sets
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.stopped_at IS DISTINCT FROM NEW.stopped_at OR OLD.released_at IS DISTINCT FROM NEW.released_at OR OLD.decided_at IS DISTINCT FROM NEW.decided_at)
    EXECUTE FUNCTION rgpt_ledger_change_set();

-- As before, and a run is also held while another one of its change set has not ended.
CREATE OR REPLACE VIEW orchestrator_run_ends AS
SELECT r.id, r.created_at, r.files_deleted_at,
       (CASE
           WHEN r.kind = 'pipeline' THEN (
               SELECT CASE WHEN bool_and(p.finished_at IS NOT NULL AND p.waiting_for = '') THEN max(p.updated_at) END
               FROM orchestrator_pipelines p WHERE p.run_id = r.id)
           WHEN r.status IN ('done', 'failed', 'cancelled') AND r.staying_until IS NULL
               AND NOT EXISTS (SELECT FROM orchestrator_replays o
                               WHERE o.run_id = r.id AND o.execution_id IS NULL AND o.created_at > clock_timestamp() - interval '7 days')
               THEN coalesce(r.finished_at, r.updated_at)
       END)::timestamptz AS ended_at,
       (EXISTS (SELECT FROM orchestrator_holds h WHERE h.run_id = r.id AND h.released_at IS NULL)
        OR EXISTS (SELECT FROM orchestrator_change_set_runs m JOIN orchestrator_change_set_runs o ON o.set_id = m.set_id
                   JOIN orchestrator_runs s ON s.id = o.run_id
                   WHERE m.run_id = r.id AND (s.status NOT IN ('done', 'failed', 'cancelled') OR s.staying_until IS NOT NULL)))::boolean AS held,
       EXISTS (SELECT FROM orchestrator_runs f
               WHERE f.settings ? 'fork' AND (f.settings #>> '{fork,run_id}')::bigint = r.id AND f.files_deleted_at IS NULL)::boolean AS continued
FROM orchestrator_runs r;

-- +goose Down
CREATE OR REPLACE VIEW orchestrator_run_ends AS
SELECT r.id, r.created_at, r.files_deleted_at,
       (CASE
           WHEN r.kind = 'pipeline' THEN (
               SELECT CASE WHEN bool_and(p.finished_at IS NOT NULL AND p.waiting_for = '') THEN max(p.updated_at) END
               FROM orchestrator_pipelines p WHERE p.run_id = r.id)
           WHEN r.status IN ('done', 'failed', 'cancelled') AND r.staying_until IS NULL
               AND NOT EXISTS (SELECT FROM orchestrator_replays o
                               WHERE o.run_id = r.id AND o.execution_id IS NULL AND o.created_at > clock_timestamp() - interval '7 days')
               THEN coalesce(r.finished_at, r.updated_at)
       END)::timestamptz AS ended_at,
       EXISTS (SELECT FROM orchestrator_holds h WHERE h.run_id = r.id AND h.released_at IS NULL)::boolean AS held,
       EXISTS (SELECT FROM orchestrator_runs f
               WHERE f.settings ? 'fork' AND (f.settings #>> '{fork,run_id}')::bigint = r.id AND f.files_deleted_at IS NULL)::boolean AS continued
FROM orchestrator_runs r;
DROP TRIGGER orchestrator_ledger_change_sets ON orchestrator_change_sets;
DROP FUNCTION rgpt_ledger_change_set;
DELETE FROM orchestrator_budgets WHERE scope_kind = 'change_set';
ALTER TABLE orchestrator_budgets
    DROP CONSTRAINT orchestrator_budgets_scope_kind_check,
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('agent', 'run', 'attempts', 'project', 'tenant', 'day'));
DROP TABLE orchestrator_change_set_runs;
DROP TABLE orchestrator_change_sets;
