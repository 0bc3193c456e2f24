-- +goose Up
-- PostgreSQL reads the condition of each trigger and CHECK of a table again in each statement that writes to it, which
-- takes longer the more constants the condition has. So that lists are in functions, which it reads once.

-- +goose StatementBegin
-- Whether an event is an entry of the ledger.
CREATE FUNCTION rgpt_in_ledger(event_type TEXT) RETURNS BOOLEAN LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN event_type IN (
        'run.created', 'run.updated', 'run.failed', 'planner.completed', 'step.completed', 'step.error', 'releaser.completed',
        'approval.requested', 'approval.granted', 'approval.rejected', 'approval.expired', 'input.answered',
        'intervention.requested', 'intervention.resolved', 'intervention.expired', 'message.added',
        'model.switched', 'model.fallback', 'model.restored', 'gate.allowed', 'gate.needs_approval', 'gate.denied',
        'heal.started', 'agent.revoked', 'check.received',
        'label.added', 'label.removed', 'approval.escalated', 'intervention.escalated', 'input.escalated',
        'gate.reviewed', 'pipeline.spawned', 'pipeline.commanded', 'models_switched');
END
$$;
-- +goose StatementEnd
DROP TRIGGER orchestrator_ledger_events ON orchestrator_events;
DROP TRIGGER orchestrator_ledger_reviews ON orchestrator_events;
DROP TRIGGER orchestrator_ledger_pipelines ON orchestrator_events;
CREATE CONSTRAINT TRIGGER orchestrator_ledger_events AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (rgpt_in_ledger(NEW.event_type))
    EXECUTE FUNCTION rgpt_ledger_event();

-- +goose StatementBegin
-- The kind of a budget is checked when it is created, not each time its amounts change.
CREATE FUNCTION rgpt_check_scope_kind() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.scope_kind NOT IN ('agent', 'run', 'attempts', 'change_set', 'project', 'tenant', 'day') THEN
        RAISE EXCEPTION 'unknown kind of budget: %', NEW.scope_kind USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER orchestrator_budgets_scope_kind BEFORE INSERT OR UPDATE OF scope_kind ON orchestrator_budgets
    FOR EACH ROW EXECUTE FUNCTION rgpt_check_scope_kind();
ALTER TABLE orchestrator_budgets DROP CONSTRAINT orchestrator_budgets_scope_kind_check;

-- +goose Down
ALTER TABLE orchestrator_budgets
    ADD CONSTRAINT orchestrator_budgets_scope_kind_check CHECK (scope_kind IN ('agent', 'run', 'attempts', 'change_set', 'project', 'tenant', 'day'));
DROP TRIGGER orchestrator_budgets_scope_kind ON orchestrator_budgets;
DROP FUNCTION rgpt_check_scope_kind;
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
CREATE CONSTRAINT TRIGGER orchestrator_ledger_reviews AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type = 'gate.reviewed')
    EXECUTE FUNCTION rgpt_ledger_event();
CREATE CONSTRAINT TRIGGER orchestrator_ledger_pipelines AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type IN ('pipeline.spawned', 'pipeline.commanded', 'models_switched'))
    EXECUTE FUNCTION rgpt_ledger_event();
DROP FUNCTION rgpt_in_ledger;
