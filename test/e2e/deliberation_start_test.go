package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// moving is a rule by which a member makes moves.
func moving(when map[string]any, moves ...map[string]any) map[string]any {
	if moves == nil {
		moves = []map[string]any{}
	}
	return map[string]any{
		"when": when, "reply": map[string]any{"json": map[string]any{"moves": moves}}, "usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
	}
}

// TestAPipelineThatNobodyStartedIsStartedAndComesToItsConsensus leaves a pipeline
// as a process does that dies between its row and its workflow.
func TestAPipelineThatNobodyStartedIsStartedAndComesToItsConsensus(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("use both, with one key each; ", 100)
	s := harness.Start(t, harness.Options{Scenario: harness.Rules{
		moving(map[string]any{"agent": "alpha", "contains": "synthesis/s1, version 1"}, map[string]any{"move": "vote", "key": "s1", "version": 1, "accept": true}),
		moving(map[string]any{"agent": "alpha", "turn": 1}, map[string]any{"move": "analyse", "complexity_score": 0.4, "text": "not hard"}, map[string]any{"move": "propose", "key": "p1", "text": "Redis"}),
		moving(map[string]any{"agent": "beta", "turn": 1}, map[string]any{"move": "propose", "key": "p2", "text": "memcached"}),
		moving(map[string]any{"agent": "beta", "turn": 2}, map[string]any{"move": "synthesise", "key": "s1", "from": []string{"p1", "p2"}, "text": long},
			map[string]any{"move": "vote", "key": "s1", "version": 1, "accept": true}, map[string]any{"move": "message", "to": "ALPHA", "text": "what do you think?"}),
		moving(map[string]any{"agent": "alpha"}), moving(map[string]any{"agent": "beta"}), moving(map[string]any{"agent": "gamma"}),
	}})
	db := s.Store(t)
	cfg, err := setup.Load(config.Sources{Env: []string{"AUTO_ORCHESTRATE=true", "ORCHESTRATION_TIMEOUT=600", "RGPT_DELIBERATION_ABORT_AFTER=10m", "RGPT_DELIBERATION_OPENING_TIMEOUT=10m"}}, "http://127.0.0.1:1/v1")
	require.NoError(t, err)
	settings, err := setup.Deliberation(cfg, "")
	require.NoError(t, err)
	require.Equal(t, contract.ModeLocal, settings.Mode)
	made, _, err := db.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "Design a caching strategy", Settings: settings})
	require.NoError(t, err)

	var p store.Pipeline
	harness.Await(t, "the pipeline's end", 3*time.Minute, func() (bool, string) {
		p, err = db.Pipeline(t.Context(), made.ID)
		require.NoError(t, err)
		return p.Status.Terminal(), string(p.Status)
	})
	require.Equal(t, contract.PipelineCompleted, p.Status, "%+v", p.Failure)
	require.Equal(t, strings.TrimSpace(long), strings.TrimSpace(p.Consensus.Value.Head))
	require.Equal(t, contract.PipelineWorkflowID(p.ID), p.WorkflowID)
	require.True(t, p.Metrics.Consensus)

	events, err := db.PipelineEvents(t.Context(), p.ID, 0, 0)
	require.NoError(t, err)
	seen := map[contract.EventType]int{}
	for _, e := range events {
		seen[e.Type]++
	}
	for _, kind := range []contract.EventType{contract.EventPipelineSpawned, contract.EventOrchestrationStarted, contract.EventConsensusReached, contract.EventOrchestrationComplete} {
		require.Equal(t, 1, seen[kind], kind)
	}
	messages, err := db.PipelineMessages(t.Context(), p.ID, 0, 0, true)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Equal(t, "what do you think?", messages[0].Text.Head)
	votes, err := db.PipelineVotes(t.Context(), p.ID, false)
	require.NoError(t, err)
	require.Len(t, votes, 2)
	entries, err := db.PipelineEntries(t.Context(), p.ID, false, true)
	require.NoError(t, err)
	byKey := map[string]contract.Entry{}
	for _, e := range entries {
		byKey[e.Key] = e
	}
	require.Equal(t, long, byKey["s1"].Value.Head, "the text that was too long for the history")
	require.Equal(t, []contract.Member{contract.Alpha, contract.Beta}, []contract.Member{byKey["p1"].Author, byKey["p2"].Author})

	_, err = db.Run(t.Context(), p.RunID)
	require.ErrorIs(t, err, store.ErrNotFound, "what carries it is no run")
	executions, err := db.Executions(t.Context(), p.RunID)
	require.NoError(t, err)
	for _, e := range executions {
		require.NotEqual(t, contract.ExecutionRunning, e.Status, e.Step)
	}
	usage, err := db.Usage(t.Context(), p.RunID)
	require.NoError(t, err)
	served := 0
	for _, r := range s.Requests(t, p.RunID) {
		if r.Status == 200 {
			served++
		}
	}
	require.Equal(t, int64(110*served), usage.Tokens(), "what was served is what was booked")
	list, err := db.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Empty(t, list)
}
