-- +goose Up
-- Messages of an execution from a given time on, and the failed tool calls:
-- log windows are read from there, in either direction.
CREATE INDEX orchestrator_transcripts_time ON orchestrator_transcripts (execution_id, created_at, turn, position);
CREATE INDEX orchestrator_tool_calls_failed ON orchestrator_tool_calls (execution_id, turn, call_index) WHERE NOT ok;

-- +goose Down
DROP INDEX orchestrator_tool_calls_failed;
DROP INDEX orchestrator_transcripts_time;
