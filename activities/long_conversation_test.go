package activities_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// TestAConversationOf200TurnsFitsInto64kTokens measures what the model is sent: 200 turns with 1 MB of
// results, of which the provider caches what begins as an earlier request.
func TestAConversationOf200TurnsFitsInto64kTokens(t *testing.T) {
	t.Parallel()
	const turns, window, perResult = 200, 64 << 10, 1<<20/199 + 1
	h := newFixture(t, "\n"+
		"  - when: {agent: builder, contains: \"Call `summarize` now\"}\n    reply: {tool_calls: [{name: summarize, arguments: {summary: \"The parser is in parse.go.\"}}]}\n"+
		calls(1, `{name: todo, arguments: {items: [{text: Write the parser, status: active}]}}`)+
		"  - when: {agent: builder, turn: 200, contains: \"[>] Write the parser\"}\n    reply: {tool_calls: [{name: finish, arguments: {summary: done}}]}\n"+
		"  - when: {agent: builder, turn: 200}\n    fault: {status: 400}\n"+
		"  - when: {agent: builder}\n    reply: {tool_calls: [{name: read_file, arguments: {path: some/file.go}}]}\n")
	h.Config.Models.Catalogue = append(h.Config.Models.Catalogue, config.CatalogueEntry{Provider: setup.Scripted, Model: setup.Scripted, ContextWindow: window, MaxOutput: 8 << 10})
	client, err := setup.Model(h.Config)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	h.Model = client
	e, ws := h.openStep()
	results := 0
	for turn := 1; turn <= turns; turn++ {
		_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: turn, Model: choice})
		require.Nil(t, failure, "turn %d", turn)
		raw, err := h.Store.Answer(t.Context(), e.ID, turn)
		require.NoError(t, err)
		var answer model.Response
		require.NoError(t, json.Unmarshal(raw, &answer))
		text := strings.Repeat(fmt.Sprintf("line of turn %d\n", turn), perResult/15)[:perResult-300] + strings.Repeat("x", 300)
		if turn == 1 { // the tool answers with the list
			text = "[>] Write the parser\n"
		}
		results += len(text)
		content, err := json.Marshal(model.Message{Role: model.RoleTool, ToolCallID: answer.ToolCalls[0].ID, Text: text})
		require.NoError(t, err)
		_, err = h.Store.SaveToolResult(t.Context(), e.ID, turn, 0, store.ToolCall{
			Tool: answer.ToolCalls[0].Name, Outcome: contract.ToolOutcome{Workspace: ws, OK: true}, StartedAt: time.Now(), FinishedAt: time.Now(),
		}, store.Message{Role: string(model.RoleTool), Content: content})
		require.NoError(t, err)
	}
	require.GreaterOrEqual(t, results, 1<<20)

	log, err := scripted.ReadLog(h.log)
	require.NoError(t, err)
	require.Len(t, log, turns)
	broken, largest, uncached := 0, int64(0), int64(0)
	for i, entry := range log {
		largest = max(largest, entry.PromptTokens)
		uncached += entry.PromptTokens - entry.CachedTokens
		// The cache counts in steps of 128 tokens, and keeps nothing of prompts under 1,024.
		if i > 0 && log[i-1].PromptTokens >= 1024 && entry.CachedTokens+256 < log[i-1].PromptTokens {
			broken++
			t.Logf("turn %d: %d of %d tokens from the cache, after %d", i+1, entry.CachedTokens, entry.PromptTokens, log[i-1].PromptTokens)
		}
	}
	t.Logf("largest prompt %d tokens, %d compactions, %d tokens not from the cache in %d turns", largest, broken, uncached, turns)
	require.Less(t, largest, int64(window-8<<10))
	require.LessOrEqual(t, broken, 4, "each compaction costs one prefix that is not cached, and nothing else does")
	entries, err := h.Store.Transcript(t.Context(), e.ID)
	require.NoError(t, err)
	stored := 0
	for _, entry := range entries {
		stored += len(entry.Content)
	}
	require.Greater(t, stored, 1<<20, "the stored conversation stays whole")
}
