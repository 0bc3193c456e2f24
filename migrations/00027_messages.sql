-- +goose Up

-- Messages from people to the agents of a run are its events of type message.added.
CREATE INDEX orchestrator_events_messages ON orchestrator_events (run_id, seq) WHERE event_type = 'message.added';

-- Which agents got them, and before which turn.
CREATE TABLE orchestrator_message_deliveries (
    run_id       BIGINT NOT NULL,
    seq          BIGINT NOT NULL,
    execution_id BIGINT NOT NULL REFERENCES orchestrator_executions ON DELETE CASCADE,
    turn         INT NOT NULL CHECK (turn > 0),
    delivered_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, seq, execution_id),
    FOREIGN KEY (run_id, seq) REFERENCES orchestrator_events (run_id, seq) ON DELETE CASCADE
);
CREATE INDEX orchestrator_message_deliveries_execution ON orchestrator_message_deliveries (execution_id);

-- +goose Down
DROP TABLE orchestrator_message_deliveries;
DROP INDEX orchestrator_events_messages;
