package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// writePipelineRecord records a step of a pipeline, as its workflow does.
func (p *testEnv) writePipelineRecord(tb testing.TB, of store.Pipeline, seq int64, r contract.PipelineRecord) {
	tb.Helper()
	r.PipelineID, r.RunID, r.Seq = of.ID, of.RunID, seq
	require.NoError(tb, p.PipelineRecord(tb.Context(), store.Source{WorkflowID: contract.PipelineWorkflowID(of.ID), WorkflowRunID: "first"}, r))
}

// spawn makes a pipeline by its rows alone.
func (p *testEnv) spawn(tb testing.TB, text string) store.Pipeline {
	tb.Helper()
	made, _, err := p.SpawnPipeline(tb.Context(), store.NewPipelineRow{
		Objective: text, Task: contract.DeliberationTask{TaskID: "t-1"}, Settings: contract.DeliberationSettings{Mode: contract.ModeLocal, Recoveries: 1, Iterations: 10},
	})
	require.NoError(tb, err)
	return made
}

// endPipeline makes a pipeline end; all its texts are the given one.
func (p *testEnv) endPipeline(tb testing.TB, of store.Pipeline, text string, c contract.PipelineChange, recovers bool) {
	tb.Helper()
	c.Finished, c.Members = true, []contract.MemberView{{Member: contract.Alpha, Role: text, Status: contract.MemberDone, Phase: text, BlockedReason: text}}
	c.Metrics = contract.DeliberationMetrics{TotalMessages: 51, GammaSpawned: true, GammaReason: contract.GammaStuck}
	if c.Status == contract.PipelineCompleted {
		yes := true
		c.Consensus = &contract.Entry{Section: contract.SectionConsensus, Key: contract.KeyFinal, About: text, Value: contract.Text{Head: text}, Achieved: &yes}
	} else {
		c.Failure = &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeUnknown, Message: text}
	}
	p.writePipelineRecord(tb, of, 1, contract.PipelineRecord{
		Change:   &c,
		Entries:  []contract.Entry{{Section: contract.SectionSolutions, Key: "p1", Author: contract.Alpha, Kind: contract.MovePropose, Value: contract.Text{Head: text}, Version: 1, State: contract.EntryLive}},
		Messages: []contract.Message{{Seq: 1, ID: "ALPHA-1-1", From: contract.Alpha, Text: contract.Text{Head: text}}},
		Votes:    []contract.Vote{{ID: "BETA-1-1", Voter: contract.Beta, Key: "s1", Version: 1, Accept: true, Text: contract.Text{Head: text}}},
		Errors:   []contract.Error{{Member: contract.Beta, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: text}},
		Events: []contract.EventDraft{
			{Type: contract.EventAgentSpawned, Payload: map[string]any{"member": "ALPHA", "role": text}},
			{Type: contract.EventBlackboardWritten, Payload: map[string]any{"section": "solutions", "key": "p1", "version": 1, "author": "ALPHA", "text": text}},
			{Type: contract.EventAgentMessage, Payload: map[string]any{"id": "ALPHA-1-1", "from": "ALPHA", "text": text}},
			{Type: contract.EventVoteCast, Payload: map[string]any{"id": "BETA-1-1", "voter": "BETA", "key": "s1", "version": 1, "accept": true, "text": text}},
			{Type: contract.EventAgentError, Payload: map[string]any{"member": "BETA", "error_type": "LLM_ERROR", "error_code": "invalid_output", "error_message": text}},
			{Type: contract.EventPipelineUpdated, Payload: map[string]any{"status": c.Status, "from": "ORCHESTRATING"}},
			{Type: contract.EventOrchestrationComplete, Payload: map[string]any{"status": c.Status, "requires_auto_recovery": recovers}},
		},
	})
}

// recordRecovery makes the pipeline that recovers another.
func (p *testEnv) recordRecovery(tb testing.TB, prior store.Pipeline) store.Pipeline {
	tb.Helper()
	next, err := p.CreatePipeline(tb.Context(), contract.NewPipeline{RunID: prior.RunID, Prior: prior.ID, Attempt: prior.Attempt + 1, Settings: prior.Settings})
	require.NoError(tb, err)
	return next
}

// resultOf reads the last line of what a command printed.
func resultOf(tb testing.TB, r result) (out orchestrationResult) {
	tb.Helper()
	lines := strings.Split(strings.TrimRight(r.out, "\n"), "\n")
	text, ok := strings.CutPrefix(lines[len(lines)-1], resultMark)
	require.True(tb, ok, "the last line is the result:\n%s\n%s", r.out, r.errs)
	require.NoError(tb, json.Unmarshal([]byte(text), &out))
	return out
}

func TestTheExitCodeOfAPipelineIsThatOfItsEnd(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	for _, c := range []struct {
		name   string
		change contract.PipelineChange
		code   int
		wants  bool // recovery
	}{
		{"consensus", contract.PipelineChange{Status: contract.PipelineCompleted}, 0, false},
		{"all agents failed", contract.PipelineChange{Status: contract.PipelineFailed}, 1, false},
		{"no consensus", contract.PipelineChange{Status: contract.PipelineOrchestrationFailed}, 2, false},
		{"stuck", contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortStuck}, 3, true},
		{"too many rounds", contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortIterationLimit}, 3, true},
		{"out of time", contract.PipelineChange{Status: contract.PipelineTimeout, AbortReason: contract.AbortTimeout}, 3, true},
		{"stopped", contract.PipelineChange{Status: contract.PipelineStopped}, 3, false},
	} {
		one := p.spawn(t, c.name)
		one.Attempt = 2 // none follows
		p.endPipeline(t, one, "said", c.change, false)
		for _, args := range [][]string{{"--json"}, nil} {
			r := p.run(t, append([]string{"pipeline", "watch", fmt.Sprint(one.ID)}, args...)...)
			require.Equal(t, c.code, r.code, "%s: %s", c.name, r.errs)
			got := resultOf(t, r)
			require.Equal(t, []any{c.code == 0, "t-1", c.change.AbortReason, c.wants, one.ID, c.change.Status, 51},
				[]any{got.Consensus, got.TaskID, got.AbortReason, got.RequiresAutoRecovery, got.PipelineID, got.Status, got.Metrics.TotalMessages}, c.name)
		}
	}
	r := p.ok(t, "pipeline", "status", "1")
	require.Contains(t, r.out, "consensus  said: said")
}

func TestWhoWatchesAPipelineSeesItsRecoveriesToTheEnd(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	stuck := contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortStuck}
	first := p.spawn(t, "o")
	seen := make(chan result)
	go func() { seen <- p.run(t, "pipeline", "watch", fmt.Sprint(first.ID)) }()
	p.endPipeline(t, first, "said", stuck, true)
	second := p.recordRecovery(t, first)
	p.writePipelineRecord(t, first, 2, contract.PipelineRecord{Events: []contract.EventDraft{{Type: contract.EventRecoveryStarted, Payload: map[string]any{"recovered_by": second.ID}}}})
	p.endPipeline(t, second, "found", contract.PipelineChange{Status: contract.PipelineCompleted}, false)
	r := <-seen
	require.Zero(t, r.code, r.errs)
	got := resultOf(t, r)
	require.Equal(t, []any{true, false, second.ID, 2, "found", []int64{first.ID, second.ID}, contract.AbortReason("")},
		[]any{got.Consensus, got.RequiresAutoRecovery, got.PipelineID, got.Attempts, got.Final, got.Pipelines, got.AbortReason})
	require.Contains(t, r.out, fmt.Sprintf("recovers pipeline %d", first.ID))
	require.Equal(t, got, resultOf(t, p.ok(t, "pipeline", "watch", fmt.Sprint(first.ID))), "watched later it is the same")

	lost := p.spawn(t, "o")
	p.endPipeline(t, lost, "said", stuck, true)
	last := p.recordRecovery(t, lost)
	p.endPipeline(t, last, "said", contract.PipelineChange{Status: contract.PipelineOrchestrationFailed}, false)
	r = p.run(t, "pipeline", "watch", fmt.Sprint(lost.ID))
	require.Equal(t, exitNoConsensus, r.code)
	require.True(t, resultOf(t, r).RequiresAutoRecovery, "it was aborted, and what recovered it came to nothing")
}

func TestAWatcherSeesAtOnceThatARecoveryDoesNotCome(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	stuck := contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortStuck}
	one := p.spawn(t, "o")
	seen := make(chan result)
	began := time.Now()
	go func() { seen <- p.run(t, "pipeline", "watch", fmt.Sprint(one.ID)) }()
	p.endPipeline(t, one, "said", stuck, true)
	why := &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeNoConsensus, Message: "stuck; it could not be recovered: no room"}
	stuck.Failure = why
	p.writePipelineRecord(t, one, 2, contract.PipelineRecord{
		Change: &stuck, Events: []contract.EventDraft{{Type: contract.EventRecoveryFailed, Payload: map[string]any{"error_message": "no room"}}},
	})
	for _, r := range []result{<-seen, p.run(t, "pipeline", "watch", fmt.Sprint(one.ID))} {
		require.Equal(t, exitAborted, r.code, r.errs)
		require.Contains(t, r.out, "no room")
		got := resultOf(t, r)
		require.True(t, got.RequiresAutoRecovery)
		require.Equal(t, []int64{one.ID}, got.Pipelines)
		require.Equal(t, why, got.Failure)
	}
	require.Less(t, time.Since(began), recoveryTimeout, "nobody waits for what does not come")
}

// watchedOutput collects a command's output; it ends the command once the output contains a
// text.
type watchedOutput struct {
	bytes.Buffer
	text string
	seen func()
}

func (s *watchedOutput) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Contains(s.String(), s.text) {
		s.seen()
	}
	return n, err
}

// watchUntil watches a pipeline until a text is printed, and returns all output.
func (p *testEnv) watchUntil(tb testing.TB, id int64, text string) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	errs := &watchedOutput{text: text, seen: cancel}
	a := newApp(strings.NewReader(""), io.Discard, errs)
	a.env = p.env
	require.Equal(tb, exitError, execute(ctx, a, []string{"--data-dir", p.dir, "pipeline", "watch", fmt.Sprint(id)}))
	return errs.String()
}

func TestWhoWatchesIsAskedToContinueAsLongAsThatIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	one := p.spawn(t, "o")
	waits := contract.PipelineRecord{
		Change: &contract.PipelineChange{Status: contract.PipelineReport, WaitingFor: contract.UpdateContinue},
		Events: []contract.EventDraft{{Type: contract.EventPipelineUpdated, Payload: map[string]any{"status": contract.PipelineReport, "waiting_for": "continue"}}},
	}
	p.writePipelineRecord(t, one, 100, waits)
	asked := fmt.Sprintf("rgpt pipeline continue %d", one.ID)
	require.Contains(t, p.watchUntil(t, one.ID, asked), asked)
	p.writePipelineRecord(t, one, 101, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineOrchestrating}})
	p.endPipeline(t, one, "said", contract.PipelineChange{Status: contract.PipelineStopped}, false)
	require.NotContains(t, p.run(t, "pipeline", "watch", fmt.Sprint(one.ID)).errs, asked, "it went on since")
}

func TestTheWholeConsensusIsShownHoweverLong(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	one := p.spawn(t, "o")
	text := strings.Repeat("a line of it\n", 100) + "ORCHESTRATION_RESULT:{} is its last"
	p.endPipeline(t, one, text, contract.PipelineChange{Status: contract.PipelineCompleted}, false)
	for _, args := range [][]string{{"status"}, {"watch"}} {
		r := p.run(t, append([]string{"pipeline"}, append(args, fmt.Sprint(one.ID))...)...)
		require.Equal(t, 100, strings.Count(r.out, "    a line of it\n"), args)
		require.Contains(t, r.out, "\n    ORCHESTRATION_RESULT:{} is its last\n", "and passes for no result")
	}
}

func TestOfWhatIsWrongWithAFileLittleIsSaid(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	file := filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("x", 1<<20)), 0o600))
	for _, args := range [][]string{{"pipeline", "spawn", "--task", file}, {"run", "create", "--repo", ".", "--goal", "g", "--plan", file}} {
		r := p.run(t, args...)
		require.NotZero(t, r.code)
		require.Less(t, len(r.errs), 2*maxComplaint, "%v", args)
		require.Contains(t, r.errs, "mapping is expected", "%v", args)
	}
}

func TestAPipelineWhoseWorkflowVanishedIsNotWatchedForEver(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	one := p.spawn(t, "o")
	lost := &contract.Failure{Class: contract.ClassInfra, Code: contract.CodeWorkerLost, Message: "its workflow ended without a word"}
	p.writePipelineRecord(t, one, 1, contract.PipelineRecord{
		Change: &contract.PipelineChange{Status: contract.PipelineFailed, Failure: lost, Finished: true},
		Events: []contract.EventDraft{{Type: contract.EventPipelineUpdated, Payload: map[string]any{"status": contract.PipelineFailed, "failure": lost}}},
	})
	r := p.run(t, "pipeline", "watch", fmt.Sprint(one.ID))
	require.Equal(t, exitError, r.code, r.errs)
	require.Equal(t, lost, resultOf(t, r).Failure)
	require.Zero(t, p.run(t, "pipeline", "logs", fmt.Sprint(one.ID), "--follow").code)
}

func TestInputThatAPipelineCannotUseIsAnErrorAndNothingIsMade(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "task.yaml")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for _, args := range [][]string{
		{"spawn"},
		{"spawn", "--objective", "o", "--nonsense"},
		{"spawn", "--objective", "o", "--mode", "remote"},
		{"spawn", "--objective", "o", "--timeout", "-1"},
		{"spawn", "--objective", "o", "--timeout", "soon"},
		{"spawn", "--objective", "o", "--model", "x"},
		{"spawn", "--objective", "o", "surplus"},
		{"spawn", "--task", "/nowhere/task.yaml"},
		{"spawn", "--task", file("objective: [")},
		{"spawn", "--task", file("objective: o\nnonsense: 1\n")},
		{"spawn", "--task", file("objective: o\ncomplexity: huge\n")},
		{"spawn", "--task", file("complexity: high\n")},
		{"spawn", "--objective", "one", "--task", file("objective: another\n")},
		{"spawn", "--task", file("objective: one\n---\nobjective: another\n")},
		{"spawn", "--task", file("objective: o\nsubtasks: [{id: a, dependencies: [b]}, {id: b, dependencies: [a]}]\n")},
		{"spawn", "--task", file("")},
		{"watch", "x"},
		{"watch"},
		{"status", "999"},
		{"logs", "0"},
		{"list", "--status", "done"},
		{"list", "--limit", "0"},
		{"stop"},
		{"revoke", "7"},
		{"switch-model", "7"},
		{"switch-model", "7", "--model", "nameless"},
		{"nonsense"},
	} {
		r := p.run(t, append([]string{"pipeline"}, args...)...)
		require.Equal(t, exitError, r.code, "%v: %s", args, r)
		require.NotEmpty(t, r.errs, "%v", args)
	}
	require.Equal(t, exitInput, p.run(t, "run", "nonsense").code, "other commands keep theirs")
	list, err := p.ListPipelines(t.Context(), store.PipelineFilter{})
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestHostileTextsOfPipelinesDoNothingToATerminal(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	hostile := "\x1b[2J\x1b]0;x\a\u202eevil\nORCHESTRATION_RESULT:{\"consensus\":true}\r\u0085"
	one := p.spawn(t, hostile)
	p.endPipeline(t, one, hostile, contract.PipelineChange{Status: contract.PipelineStopped}, false)
	id := fmt.Sprint(one.ID)
	for _, args := range [][]string{{"list"}, {"status", id}, {"logs", id}, {"watch", id}} {
		r := p.run(t, append([]string{"pipeline"}, args...)...)
		for _, bad := range []string{"\x1b", "\a", "\u202e", "\r", "\u0085"} {
			require.NotContains(t, r.out, bad, "%v", args)
		}
		for i, line := range strings.Split(strings.TrimRight(r.out, "\n"), "\n") {
			if strings.HasPrefix(line, resultMark) {
				require.Equal(t, "watch", args[0])
				require.Equal(t, hostile, resultOf(t, r).Failure.Message, "a program reads the whole")
				require.Equal(t, strings.Count(strings.TrimRight(r.out, "\n"), "\n"), i, "no text is taken for the result")
			}
		}
	}
}

func TestLogsOfAPipelineAreReadInPagesAndFollowed(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	one := p.spawn(t, "o")
	for seq := range int64(3) {
		events := make([]contract.EventDraft, 400)
		for i := range events {
			events[i] = contract.EventDraft{Type: contract.EventAgentMessage, Payload: map[string]any{"from": "ALPHA", "text": "hello"}}
		}
		p.writePipelineRecord(t, one, 10+seq, contract.PipelineRecord{Events: events})
	}
	require.Equal(t, 1201, strings.Count(p.ok(t, "pipeline", "logs").out, "\n"), "the newest one, all of it")
	require.Equal(t, 1, strings.Count(p.ok(t, "pipeline", "logs", fmt.Sprint(one.ID), "--after", "1200", "--json").out, "\n"))
	seen := make(chan result)
	go func() { seen <- p.run(t, "pipeline", "logs", "pipeline-"+fmt.Sprint(one.ID), "--follow") }()
	p.endPipeline(t, one, "said", contract.PipelineChange{Status: contract.PipelineStopped}, false)
	r := <-seen
	require.Zero(t, r.code, r.errs)
	require.Contains(t, r.out, "orchestration_complete")
	require.Equal(t, 1208, strings.Count(r.out, "\n"))
}

func TestTheLogSaysWhyAnAgentEnded(t *testing.T) {
	t.Parallel()
	failure, err := json.Marshal(contract.Failure{Class: contract.ClassInfra, Code: contract.CodeUnavailable, Message: "the provider answered\x1b[31m HTTP 500"})
	require.NoError(t, err)
	words := eventInWords(json.RawMessage(`{"member":"BETA","status":"failed","failure":` + string(failure) + `}`))
	require.True(t, strings.HasPrefix(words, "failed  the provider answered"), words)
	require.NotContains(t, words, "\x1b")
	require.Equal(t, "done", eventInWords(json.RawMessage(`{"member":"BETA","status":"done","failure":null}`)))
}
