-- +goose Up

-- Reviews of the changes of runs by a model, before their release: one row for each execution of the
-- reviewer.
CREATE TABLE orchestrator_gate_reviews (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id       BIGINT NOT NULL REFERENCES orchestrator_runs ON DELETE CASCADE,
    execution_id BIGINT NOT NULL,
    round        INT NOT NULL,
    from_tree    TEXT NOT NULL,
    tree         TEXT NOT NULL,
    model        TEXT NOT NULL, -- provider/model
    same_model   BOOLEAN NOT NULL,
    prompt       TEXT NOT NULL, -- version
    failed       TEXT NOT NULL, -- why the change was not reviewed; '': it was
    summary      TEXT NOT NULL,
    findings     JSONB NOT NULL,
    omitted      INT NOT NULL,
    unshown      JSONB NOT NULL, -- paths
    created_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (run_id, execution_id)
);

-- Reviews are entries of the ledger too. This trigger is one of its own, so that the list of the
-- other one stays as it is.
CREATE CONSTRAINT TRIGGER orchestrator_ledger_reviews AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type = 'gate.reviewed')
    EXECUTE FUNCTION rgpt_ledger_event();

-- +goose Down
DROP TRIGGER orchestrator_ledger_reviews ON orchestrator_events;
DROP TABLE orchestrator_gate_reviews;
