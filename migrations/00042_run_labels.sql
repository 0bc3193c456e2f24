-- +goose Up

-- Labels of runs, sorted. The policy gate reads them.
ALTER TABLE orchestrator_runs ADD COLUMN labels TEXT[] NOT NULL DEFAULT '{}';
CREATE INDEX orchestrator_runs_labels ON orchestrator_runs USING GIN (labels);

-- A client whose user gave no name is not a person.
ALTER TABLE orchestrator_ledger DROP CONSTRAINT orchestrator_ledger_actor_check;
ALTER TABLE orchestrator_ledger ADD CONSTRAINT orchestrator_ledger_actor_check CHECK (actor IN ('person', 'agent', 'system', 'client'));

-- +goose StatementBegin
-- Events that say who did what become entries, in their own transaction, at its end: the lock of the
-- chain is the last that a transaction takes, and the shortest.
CREATE OR REPLACE FUNCTION rgpt_ledger_event() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    by_whom TEXT := coalesce(nullif(NEW.payload ->> 'by', 'the clock'), '');
    done_step TEXT := coalesce(NEW.payload ->> 'step', '');
    object TEXT := 'run ' || NEW.run_id;
    author TEXT;
BEGIN
    IF by_whom = '' AND NEW.payload ? 'by' AND NEW.payload ->> 'by' = '' AND NEW.event_type IN (
        'run.updated', 'approval.granted', 'approval.rejected', 'message.added', 'model.switched', 'label.added', 'label.removed') THEN
        by_whom := 'unnamed'; -- a command whose sender gave no name
    END IF;
    IF NEW.event_type = 'run.updated' AND by_whom = '' THEN
        RETURN NULL; -- a state, not an act
    END IF;
    IF done_step <> '' THEN
        object := object || ' ' || done_step;
    END IF;
    IF by_whom <> '' THEN
        PERFORM rgpt_ledger_append(CASE WHEN lower(btrim(by_whom)) IN ('api', 'dashboard', 'the command line', 'unnamed') THEN 'client' ELSE 'person' END, by_whom, NEW.event_type, object, NEW.run_id, NEW.payload::text);
        RETURN NULL;
    END IF;
    IF NEW.event_type IN ('planner.completed', 'step.completed', 'step.error') THEN
        SELECT e.agent || ' ' || e.provider || '/' || e.model INTO author
        FROM orchestrator_executions e
        WHERE e.run_id = NEW.run_id AND e.phase = CASE WHEN NEW.event_type = 'planner.completed' THEN 'planner' ELSE e.phase END
          AND e.step = done_step AND e.model <> ''
        ORDER BY e.id DESC LIMIT 1;
    END IF;
    PERFORM rgpt_ledger_append(CASE WHEN author IS NULL THEN 'system' ELSE 'agent' END, coalesce(author, 'rgpt'),
                               NEW.event_type, object, NEW.run_id, NEW.payload::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
DROP TRIGGER orchestrator_ledger_events ON orchestrator_events;
CREATE CONSTRAINT TRIGGER orchestrator_ledger_events AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type IN (
        'run.created', 'run.updated', 'run.failed', 'planner.completed', 'step.completed', 'step.error', 'releaser.completed',
        'approval.requested', 'approval.granted', 'approval.rejected', 'approval.expired', 'input.answered',
        'intervention.requested', 'intervention.resolved', 'intervention.expired', 'message.added',
        'model.switched', 'model.fallback', 'model.restored', 'gate.allowed', 'gate.needs_approval', 'gate.denied',
        'heal.started', 'agent.revoked', 'check.received',
        'label.added', 'label.removed', 'approval.escalated', 'intervention.escalated', 'input.escalated'))
    EXECUTE FUNCTION rgpt_ledger_event();

-- +goose Down
-- +goose StatementBegin
-- Events that say who did what become entries, in their own transaction, at its end: the lock of the
-- chain is the last that a transaction takes, and the shortest.
CREATE OR REPLACE FUNCTION rgpt_ledger_event() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    by_whom TEXT := coalesce(nullif(NEW.payload ->> 'by', 'the clock'), '');
    done_step TEXT := coalesce(NEW.payload ->> 'step', '');
    object TEXT := 'run ' || NEW.run_id;
    author TEXT;
BEGIN
    IF NEW.event_type = 'run.updated' AND by_whom = '' THEN
        RETURN NULL; -- a state, not an act
    END IF;
    IF done_step <> '' THEN
        object := object || ' ' || done_step;
    END IF;
    IF by_whom <> '' THEN
        PERFORM rgpt_ledger_append('person', by_whom, NEW.event_type, object, NEW.run_id, NEW.payload::text);
        RETURN NULL;
    END IF;
    IF NEW.event_type IN ('planner.completed', 'step.completed', 'step.error') THEN
        SELECT e.agent || ' ' || e.provider || '/' || e.model INTO author
        FROM orchestrator_executions e
        WHERE e.run_id = NEW.run_id AND e.phase = CASE WHEN NEW.event_type = 'planner.completed' THEN 'planner' ELSE e.phase END
          AND e.step = done_step AND e.model <> ''
        ORDER BY e.id DESC LIMIT 1;
    END IF;
    PERFORM rgpt_ledger_append(CASE WHEN author IS NULL THEN 'system' ELSE 'agent' END, coalesce(author, 'rgpt'),
                               NEW.event_type, object, NEW.run_id, NEW.payload::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
DROP TRIGGER orchestrator_ledger_events ON orchestrator_events;
CREATE CONSTRAINT TRIGGER orchestrator_ledger_events AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type IN (
        'run.created', 'run.updated', 'run.failed', 'planner.completed', 'step.completed', 'step.error', 'releaser.completed',
        'approval.requested', 'approval.granted', 'approval.rejected', 'approval.expired', 'input.answered',
        'intervention.requested', 'intervention.resolved', 'intervention.expired', 'message.added',
        'model.switched', 'model.fallback', 'model.restored', 'gate.allowed', 'gate.needs_approval', 'gate.denied',
        'heal.started', 'agent.revoked', 'check.received'))
    EXECUTE FUNCTION rgpt_ledger_event();
-- Entries by clients stay as they are.
ALTER TABLE orchestrator_ledger DROP CONSTRAINT orchestrator_ledger_actor_check;
ALTER TABLE orchestrator_ledger ADD CONSTRAINT orchestrator_ledger_actor_check CHECK (actor IN ('person', 'agent', 'system')) NOT VALID;
DROP INDEX orchestrator_runs_labels;
ALTER TABLE orchestrator_runs DROP COLUMN labels;
