-- +goose Up
-- What was said in an execution from a moment on, and the tool calls that came
-- to nothing: windows of a log are read from there, in either direction.
CREATE INDEX orchestrator_transcripts_time ON orchestrator_transcripts (execution_id, created_at, turn, position);
CREATE INDEX orchestrator_tool_calls_failed ON orchestrator_tool_calls (execution_id, turn, call_index) WHERE NOT ok;

-- +goose Down
DROP INDEX orchestrator_tool_calls_failed;
DROP INDEX orchestrator_transcripts_time;
