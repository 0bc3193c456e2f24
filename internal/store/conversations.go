package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Message is one message of a conversation. The store does not interpret its content; it preserves
// the JSON value, but not its whitespace or key order.
type Message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// TranscriptEntry is a message with its position in the conversation.
type TranscriptEntry struct {
	Message
	Turn      int       `json:"turn"`
	Position  int       `json:"position"`
	CreatedAt time.Time `json:"created_at"`
}

// AddedBefore reports whether the message was added before a turn, after all messages of
// the previous turn; see AddBefore.
func (e TranscriptEntry) AddedBefore(turn int) bool {
	return e.Turn == turn-1 && e.Position >= rowconv.MessagesAdded
}

// ResultIndex returns the index of the tool call whose result the message is, or -1 if it is no
// result of a call of its turn.
func (e TranscriptEntry) ResultIndex() int { return max(e.Position-rowconv.ToolResults, -1) }

// OpenConversation stores the messages with which the conversation of an
// execution begins, as turn 0. If it has begun already, nothing changes.
func (s *Store) OpenConversation(ctx context.Context, executionID int64, messages []Message) error {
	doc, err := rowconv.Encode(messages)
	if err != nil || len(messages) == 0 {
		return err
	}
	return dberr.Explain(s.q.OpenConversation(ctx, db.OpenConversationParams{ExecutionID: executionID, Messages: doc}),
		"open the conversation for execution %d", executionID)
}

// AddBefore adds messages that a model must read before it takes a turn, after all messages of the
// previous turn. Messages that were already added before that turn stay unchanged.
func (s *Store) AddBefore(ctx context.Context, executionID int64, turn int, messages []Message) error {
	doc, err := rowconv.Encode(messages)
	if err != nil || len(messages) == 0 {
		return err
	}
	return dberr.Explain(s.q.AppendMessages(ctx, before(executionID, turn, doc)), "extend the conversation for execution %d before turn %d", executionID, turn)
}

// SaveTurn stores the messages of a turn that no model call has made. Messages of the turn that are
// already stored stay unchanged.
func (s *Store) SaveTurn(ctx context.Context, executionID int64, turn int, messages []Message) error {
	doc, err := rowconv.Encode(messages)
	if err != nil || len(messages) == 0 {
		return err
	}
	return dberr.Explain(s.q.AppendMessages(ctx, db.AppendMessagesParams{ExecutionID: executionID, Turn: int32(turn), Messages: doc}),
		"store turn %d of execution %d", turn, executionID)
}

// before converts messages to be added before a turn into query parameters.
func before(executionID int64, turn int, messages json.RawMessage) db.AppendMessagesParams {
	return db.AppendMessagesParams{ExecutionID: executionID, Turn: int32(turn - 1), StartAt: rowconv.MessagesAdded, Messages: messages}
}

// Conversation returns the messages of an execution in the order in which a model must read them.
func (s *Store) Conversation(ctx context.Context, executionID int64) ([]Message, error) {
	entries, err := s.Transcript(ctx, executionID)
	if err != nil {
		return nil, err
	}
	return rowconv.Convert(entries, func(e TranscriptEntry) Message { return e.Message }), nil
}

// Transcript returns the messages of an execution with their positions.
func (s *Store) Transcript(ctx context.Context, executionID int64) ([]TranscriptEntry, error) {
	rows, err := s.q.Transcript(ctx, executionID)
	return rowconv.Convert(rows, transcriptEntry), dberr.Explain(err, "read the conversation for execution %d", executionID)
}

func transcriptEntry(r db.TranscriptRow) TranscriptEntry {
	return TranscriptEntry{
		Message: Message{Role: r.Role, Content: r.Content}, Turn: int(r.Turn), Position: int(r.Position), CreatedAt: r.CreatedAt,
	}
}

// ToolCall is a tool call with its outcome.
type ToolCall struct {
	ExecutionID int64                `json:"execution_id"`
	Turn        int                  `json:"turn"`
	Index       int                  `json:"index"` // position within the turn, from 0
	Tool        string               `json:"tool"`
	Outcome     contract.ToolOutcome `json:"outcome"`
	TreeBefore  string               `json:"tree_before,omitempty"`
	StartedAt   time.Time            `json:"started_at"`
	FinishedAt  time.Time            `json:"finished_at"`
}

// SaveToolResult stores the outcome of a tool call and the message for the model, all or nothing.
// If it is repeated, the first call counts: it returns the stored outcome, which the repeat must use.
func (s *Store) SaveToolResult(ctx context.Context, executionID int64, turn, index int, call ToolCall, message Message) (contract.ToolOutcome, error) {
	outcome, err := rowconv.Encode(call.Outcome)
	if err != nil {
		return contract.ToolOutcome{}, err
	}
	content, err := rowconv.Document(message.Content)
	if err != nil {
		return contract.ToolOutcome{}, err
	}
	saved, err := s.q.SaveToolCall(ctx, db.SaveToolCallParams{
		ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index), Tool: rowconv.Text(call.Tool),
		Ok: call.Outcome.OK, Code: string(call.Outcome.Code), TreeBefore: call.TreeBefore, TreeAfter: call.Outcome.Workspace.Tree,
		Outcome: outcome, DurationMs: call.FinishedAt.Sub(call.StartedAt).Milliseconds(), StartedAt: call.StartedAt, FinishedAt: call.FinishedAt,
		Place: int32(rowconv.ToolResults + index), Role: message.Role, Content: content,
	})
	if err == nil && saved {
		return rowconv.Decode[contract.ToolOutcome](outcome) // as others will read it
	}
	var row db.ToolCall
	if err == nil {
		row, err = s.q.ToolCall(ctx, db.ToolCallParams{ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index)})
	}
	if err != nil {
		return contract.ToolOutcome{}, dberr.Explain(err, "store tool call %d in turn %d of execution %d", index, turn, executionID)
	}
	stored, err := toolCallOf(row)
	return stored.Outcome, err
}

// ToolResult returns the outcome of a tool call and the message for the model, or ErrNotFound if
// the call has not been made yet.
func (s *Store) ToolResult(ctx context.Context, executionID int64, turn, index int) (ToolCall, Message, error) {
	row, err := s.q.ToolCall(ctx, db.ToolCallParams{ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index)})
	if err == nil {
		var call ToolCall
		if call, err = toolCallOf(row); err != nil {
			return ToolCall{}, Message{}, err
		}
		var message db.MessageRow
		message, err = s.q.Message(ctx, db.MessageParams{ExecutionID: executionID, Turn: int32(turn), Place: int32(rowconv.ToolResults + index)})
		if err == nil {
			return call, Message(message), nil
		}
	}
	return ToolCall{}, Message{}, dberr.Or(err, dberr.NotFound("execution %d has no result for tool call %d in turn %d", executionID, index, turn), "read tool call %d in turn %d of execution %d", index, turn, executionID)
}

// ToolCalls returns the tool calls of a run in the order in which they began.
func (s *Store) ToolCalls(ctx context.Context, runID int64) ([]ToolCall, error) {
	rows, err := s.q.ToolCallsOfRun(ctx, runID)
	if err != nil {
		return nil, dberr.Explain(err, "read the tool calls of run %d", runID)
	}
	return rowconv.ConvertAll(rows, toolCallOf)
}

// ToolCall returns a tool call of a run and the patch of the workspace before it, or ErrNotFound.
func (s *Store) ToolCall(ctx context.Context, runID, executionID int64, turn, index int) (call ToolCall, patchBefore string, err error) {
	row, err := s.q.ToolCallOfRun(ctx, db.ToolCallOfRunParams{RunID: runID, ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index)})
	if err != nil {
		return call, "", dberr.Explain(err, "read tool call %d in turn %d of execution %d", index, turn, executionID)
	}
	if call, err = toolCallOf(row); err != nil {
		return call, "", err
	}
	patchBefore, err = s.q.PatchBefore(ctx, db.PatchBeforeParams{ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index)})
	if errors.Is(err, pgx.ErrNoRows) {
		return call, "", nil // the first one
	}
	return call, patchBefore, dberr.Explain(err, "read the tool calls before call %d in turn %d of execution %d", index, turn, executionID)
}

func toolCallOf(r db.ToolCall) (ToolCall, error) {
	outcome, err := rowconv.Decode[contract.ToolOutcome](r.Outcome)
	return ToolCall{
		ExecutionID: r.ExecutionID, Turn: int(r.Turn), Index: int(r.CallIndex), Tool: r.Tool, Outcome: outcome,
		TreeBefore: r.TreeBefore, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}, err
}

// SavePrompt stores the text of a prompt under its version, which is the digest
// of the text. A repeat is harmless.
func (s *Store) SavePrompt(ctx context.Context, name, version, prompt string) error {
	return dberr.Explain(s.q.SavePrompt(ctx, db.SavePromptParams{Name: name, Version: version, Text: rowconv.Text(prompt)}), "store prompt %s", name)
}

// Prompt returns the text of a version of a prompt, or ErrNotFound.
func (s *Store) Prompt(ctx context.Context, name, version string) (string, error) {
	prompt, err := s.q.Prompt(ctx, db.PromptParams{Name: name, Version: version})
	return prompt, dberr.Explain(err, "read version %s of prompt %s", version, name)
}
