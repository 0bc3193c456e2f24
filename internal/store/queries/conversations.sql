-- name: AppendMessages :exec
-- Adds messages to a turn of a conversation, from a position on. Existing messages
-- do not change.
INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content)
SELECT @execution_id::bigint, @turn::int, sqlc.arg(start_at)::int + m.n - 1,
       coalesce(m.value ->> 'role', ''), m.value -> 'content'
FROM (SELECT n, @messages::jsonb -> (n - 1) AS value FROM generate_series(1, jsonb_array_length(@messages)) AS n) m
ON CONFLICT (execution_id, turn, position) DO NOTHING;

-- name: OpenConversation :exec
-- The opening is written completely or not at all.
INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content)
SELECT @execution_id::bigint, 0, m.n - 1,
       coalesce(m.value ->> 'role', ''), m.value -> 'content'
FROM (SELECT n, @messages::jsonb -> (n - 1) AS value FROM generate_series(1, jsonb_array_length(@messages)) AS n) m
WHERE NOT EXISTS (SELECT FROM orchestrator_transcripts t WHERE t.execution_id = @execution_id AND t.turn = 0)
ON CONFLICT (execution_id, turn, position) DO NOTHING;

-- name: Transcript :many
SELECT turn, position, role, content, created_at
FROM orchestrator_transcripts WHERE execution_id = @execution_id ORDER BY turn, position;

-- name: SaveToolCall :one
-- Stores a tool call and the message about its result, unless it is stored already.
WITH saved AS (
    INSERT INTO orchestrator_tool_calls (execution_id, turn, call_index, tool, ok, code, tree_before, tree_after, outcome,
                                         duration_ms, started_at, finished_at)
    VALUES (@execution_id::bigint, @turn::int, @call_index, @tool, @ok, @code, @tree_before, @tree_after, @outcome,
            @duration_ms, @started_at, @finished_at)
    ON CONFLICT (execution_id, turn, call_index) DO NOTHING
    RETURNING call_index
), told AS (
    INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content)
    VALUES (@execution_id, @turn, @place::int, @role::text, @content::jsonb)
    ON CONFLICT (execution_id, turn, position) DO NOTHING
)
SELECT EXISTS (SELECT FROM saved)::bool AS saved;

-- name: ToolCall :one
SELECT * FROM orchestrator_tool_calls
WHERE execution_id = @execution_id AND turn = @turn AND call_index = @call_index;

-- name: Message :one
SELECT role, content FROM orchestrator_transcripts
WHERE execution_id = @execution_id AND turn = @turn AND position = @place;

-- name: ToolCallsOfRun :many
SELECT c.* FROM orchestrator_tool_calls c
JOIN orchestrator_executions e ON e.id = c.execution_id
WHERE e.run_id = @run_id
ORDER BY c.started_at, c.execution_id, c.turn, c.call_index;

-- name: ChecksOfRun :many
SELECT c.* FROM orchestrator_checks c
JOIN orchestrator_executions e ON e.id = c.execution_id
WHERE e.run_id = @run_id
ORDER BY c.started_at, c.execution_id, c.check_id;

-- name: SavePrompt :exec
INSERT INTO orchestrator_prompts (name, version, text) VALUES (@name, @version, @text)
ON CONFLICT (name, version) DO NOTHING;

-- name: Prompt :one
SELECT text FROM orchestrator_prompts WHERE name = @name AND version = @version;
