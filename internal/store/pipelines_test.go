package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/test/hostile"
)

// deliberate are settings that every pipeline needs.
func deliberate() contract.DeliberationSettings {
	return contract.DeliberationSettings{Mode: contract.ModeLocal, AutoContinue: true, Iterations: 10}
}

// spawn creates an independent pipeline.
func (b *fixture) spawn(tb testing.TB, objective string) store.Pipeline {
	tb.Helper()
	p, fresh, err := b.SpawnPipeline(tb.Context(), store.NewPipelineRow{Objective: objective, Settings: deliberate()})
	require.NoError(tb, err)
	require.True(tb, fresh)
	return p
}

// writeRecord applies a record of a pipeline like its workflow.
func (b *fixture) writeRecord(tb testing.TB, p store.Pipeline, seq int64, r contract.PipelineRecord) {
	tb.Helper()
	require.NoError(tb, b.PipelineRecord(tb.Context(), pipelineSource(p), numbered(p, seq, r)))
}

func pipelineSource(p store.Pipeline) store.Source {
	return store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: "first"}
}

func numbered(p store.Pipeline, seq int64, r contract.PipelineRecord) contract.PipelineRecord {
	r.PipelineID, r.RunID, r.ForRun, r.Seq = p.ID, p.RunID, p.ForRun, seq
	if r.At.IsZero() {
		r.At = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(seq) * time.Second)
	}
	return r
}

// account returns status, waiting_for and whether the row that carries a pipeline has
// an end.
func (b *fixture) account(t *testing.T, id int64) (status, waiting string, ended bool) {
	t.Helper()
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT status, waiting_for, finished_at IS NOT NULL FROM orchestrator_runs WHERE id = $1", id).Scan(&status, &waiting, &ended))
	})
	return status, waiting, ended
}

func (b *fixture) pipeline(t *testing.T, id int64) store.Pipeline {
	t.Helper()
	p, err := b.Pipeline(t.Context(), id)
	require.NoError(t, err)
	return p
}

func TestASpawnedPipelineHasItsInputsAndItsEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	settings := deliberate()
	settings.Models = map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "scripted", Model: "m"}}
	settings.AbortAfter = time.Minute
	task := contract.DeliberationTask{TaskID: "t-1", Complexity: 0.4, Constraints: []string{"no downtime"}, SuccessCriteria: []string{"it works"}}
	p, fresh, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "Choose a cache\nfor sessions", Task: task, Settings: settings})
	require.NoError(t, err)
	require.True(t, fresh)
	task.Objective = "Choose a cache\nfor sessions"
	require.Equal(t, task, p.Task)
	require.Equal(t, settings, p.Settings)
	require.Equal(t, contract.PipelineSpawned, p.Status)
	require.Equal(t, []int{1, 0}, []int{p.Attempt, p.RetryCount})
	require.Empty(t, p.Members)
	require.NotEqual(t, p.ID, p.RunID, "its events and budget are those of a row of its own")
	events, err := b.PipelineEvents(t.Context(), p.ID, 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, contract.EventPipelineSpawned, events[0].Type)
	require.JSONEq(t, fmt.Sprintf(`{"pipeline_id": %d, "objective": "Choose a cache\nfor sessions", "auto_continue": true, "mode": "local", "status": "SPAWNED", "attempt": 1, "by": ""}`, p.ID),
		string(events[0].Payload))
	status, _, ended := b.account(t, p.RunID)
	require.Equal(t, "pending", status)
	require.False(t, ended)
	_, err = b.Pipeline(t.Context(), 999)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestSameKeyMakesOnePipelineUnderRacesAndIsNotThatOfARun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := make([]int64, 20)
	var g errgroup.Group
	for i := range ids {
		g.Go(func() error {
			p, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "o", Settings: deliberate(), IdempotencyKey: "k", RequestDigest: "d"})
			ids[i] = p.ID
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	_, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "o", Settings: deliberate(), IdempotencyKey: "k", RequestDigest: "another"})
	require.True(t, fault.Is(err, store.CodeConflict))
	require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	b.Create(t, store.NewRun{IdempotencyKey: "k", RequestDigest: "d"})
	run, err := b.RunByKey(t.Context(), "local", "k", "d")
	require.NoError(t, err)
	require.NotEqual(t, b.pipeline(t, ids[0]).RunID, run.ID, "runs and pipelines do not share keys")
	b.Create(t, store.NewRun{IdempotencyKey: "pipeline:mine", RequestDigest: "d"})
	_, _, err = b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "o", Settings: deliberate(), IdempotencyKey: "mine", RequestDigest: "d"})
	require.True(t, fault.Is(err, store.CodeConflict), "a run is never answered as a pipeline")
}

func TestWhatCarriesAPipelineIsNoRunAnywhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "Add division, too")
	b.writeRecord(t, p, 1, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineReport, WaitingFor: "continue"}})
	status, waiting, _ := b.account(t, p.RunID)
	require.Equal(t, []string{"waiting_for_approval", "continue"}, []string{status, waiting}, "it would be seen if it were a run")

	_, err := b.Run(t.Context(), p.RunID)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = b.Outputs(t.Context(), p.RunID)
	require.ErrorIs(t, err, store.ErrNotFound)
	for name, filter := range map[string]store.Filter{
		"all": {}, "status": {Status: []contract.Status{contract.StatusWaitingForApproval}}, "project": {Project: store.PipelineProject}, "text": {Text: "too"},
	} {
		runs, err := b.ListRuns(t.Context(), filter)
		require.NoError(t, err, name)
		for _, run := range runs {
			require.Equal(t, b.First.ID, run.ID, name)
		}
	}
	unstarted, err := b.PendingUnstarted(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, unstarted, 1)
	cards, err := b.Cards(t.Context(), []int64{b.First.ID, p.RunID})
	require.NoError(t, err)
	require.Len(t, cards, 1)
	questions, err := b.Questions(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, questions)
	waits, err := b.Waiting(t.Context())
	require.NoError(t, err)
	require.Zero(t, waits)
	projects, err := b.Projects(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []string{"calculator"}, projects)
	unfinished, err := b.Unfinished(t.Context())
	require.NoError(t, err)
	require.Zero(t, unfinished.Runs[contract.StatusWaitingForApproval])
	require.EqualValues(t, 1, unfinished.Runs[contract.StatusPending])
	_, err = b.Neighbour(t.Context(), p.RunID)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, _, err = b.SpawnPipeline(t.Context(), store.NewPipelineRow{Project: "calculator", Objective: "of the same project", Settings: deliberate()})
	require.NoError(t, err)
	beside, err := b.Neighbour(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Zero(t, beside)
}

func TestARecordOfAPipelineCountsOnceForItsNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "o")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	yes := true
	first := contract.PipelineRecord{
		At: at,
		Change: &contract.PipelineChange{
			Status: contract.PipelineRunning, Iteration: 2, Members: []contract.MemberView{{Member: contract.Alpha, Status: contract.MemberThinking}},
			Metrics: contract.DeliberationMetrics{TotalMessages: 51, Start: at},
		},
		Entries: []contract.Entry{
			{Section: contract.SectionSolutions, Key: "p1", Author: contract.Alpha, Kind: contract.MovePropose, Value: contract.Text{Head: "one"}, Version: 1, Timestamp: at, State: contract.EntryLive},
			{Section: contract.SectionProblem, Key: contract.KeyAnalysis, Author: contract.Alpha, Value: contract.Text{Head: "hard"}, Version: 1, Timestamp: at.Add(time.Second)},
			{Section: contract.SectionSolutions, Key: "p1", Author: contract.Alpha, Kind: contract.MovePropose, Value: contract.Text{Head: "two"}, Version: 2, Timestamp: at, State: contract.EntryLive},
		},
		Messages: []contract.Message{{Seq: 1, ID: "ALPHA-1-1", From: contract.Alpha, To: contract.Beta, Text: contract.Text{Head: "hello"}, At: at}},
		Votes:    []contract.Vote{{ID: "v", Voter: contract.Beta, Key: "s1", Version: 1, Accept: false, At: at}, {ID: "w", Voter: contract.Beta, Key: "s1", Version: 1, Accept: true, At: at.Add(time.Second)}},
		Errors:   []contract.Error{{Member: contract.Beta, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: "no such key"}},
		Events:   []contract.EventDraft{{Type: contract.EventAgentSpawned, Payload: map[string]any{"member": "ALPHA"}}, {Type: contract.EventAgentMessage}},
	}
	for range 3 {
		b.writeRecord(t, p, 1, first)
	}
	b.writeRecord(t, p, 2, contract.PipelineRecord{
		At:       at.Add(time.Minute),
		Entries:  []contract.Entry{{Section: contract.SectionSolutions, Key: "p1", Author: contract.Alpha, Value: contract.Text{Head: "two"}, Version: 2, Timestamp: at, State: contract.EntryMerged}},
		Messages: []contract.Message{{Seq: 2, ID: "ALPHA-1-1", From: contract.Alpha, Text: contract.Text{Head: "again"}, At: at}},
		Change: &contract.PipelineChange{
			Status: contract.PipelineRunning, Iteration: 3, Metrics: contract.DeliberationMetrics{TotalMessages: 51, Start: at},
			Consensus: &contract.Entry{Section: contract.SectionConsensus, Key: contract.KeyFinal, Value: contract.Text{Head: "agreed"}, Version: 1, Achieved: &yes},
		},
	})

	now := b.pipeline(t, p.ID)
	require.Equal(t, 3, now.Iteration)
	require.Empty(t, now.Members)
	require.Equal(t, "agreed", now.Consensus.Value.Head)
	require.Len(t, now.Analysis, 1)
	require.Equal(t, "pipeline-1", now.WorkflowID)
	require.Equal(t, at, *now.StartedAt)
	entries, err := b.PipelineEntries(t.Context(), p.ID, false, false)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, []string{"analysis", "p1"}, []string{entries[0].Key, entries[1].Key}, "the problem comes first")
	require.Equal(t, []any{2, contract.EntryMerged}, []any{entries[1].Version, entries[1].State}, "a newer state of the same version counts")
	entries, err = b.PipelineEntries(t.Context(), p.ID, true, false)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	messages, err := b.PipelineMessages(t.Context(), p.ID, 0, 0, false)
	require.NoError(t, err)
	require.Equal(t, first.Messages, messages, "a message comes once")
	votes, err := b.PipelineVotes(t.Context(), p.ID, false)
	require.NoError(t, err)
	require.Len(t, votes, 1)
	require.True(t, votes[0].Accept, "the last vote counts")
	changed := contract.Vote{ID: "x", Voter: contract.Beta, Key: "s1", Version: 1, Accept: false, At: at.Add(time.Hour)}
	b.writeRecord(t, p, 3, contract.PipelineRecord{Votes: []contract.Vote{changed}})
	votes, err = b.PipelineVotes(t.Context(), p.ID, false)
	require.NoError(t, err)
	require.Equal(t, []contract.Vote{changed}, votes, "also over one of an earlier record")
	refused, err := b.PipelineErrors(t.Context(), p.ID)
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.Equal(t, first.Errors[0], refused[0].Error)
	events, err := b.Events(t.Context(), p.RunID, 0, 0)
	require.NoError(t, err)
	requireGapless(t, events)
	require.Len(t, events, 3)
	require.JSONEq(t, fmt.Sprintf(`{"member": "ALPHA", "pipeline_id": %d}`, p.ID), string(events[1].Payload))
	err = b.PipelineRecord(t.Context(), pipelineSource(p), contract.PipelineRecord{PipelineID: p.ID, RunID: b.First.ID, Seq: 9})
	require.ErrorIs(t, err, store.ErrNotFound, "of another account")
	err = b.PipelineRecord(t.Context(), store.Source{}, numbered(p, 4, contract.PipelineRecord{}))
	require.Error(t, err)
}

func TestTheBlackboardIsReadInTheOrderInWhichPlacesWereFirstWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "order")
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	entry := func(section contract.Section, key string, place, version int, at time.Time) contract.Entry {
		return contract.Entry{Section: section, Key: key, Place: place, Version: version, Timestamp: at, Author: contract.Alpha}
	}
	b.writeRecord(t, p, 1, contract.PipelineRecord{Entries: []contract.Entry{ // of one moment
		entry(contract.SectionProblem, "task_definition", 1, 1, at), entry(contract.SectionProblem, "analysis", 2, 1, at),
		entry(contract.SectionSolutions, "zeta", 3, 1, at), entry(contract.SectionSolutions, "alpha", 4, 1, at),
	}})
	b.writeRecord(t, p, 2, contract.PipelineRecord{Entries: []contract.Entry{entry(contract.SectionSolutions, "zeta", 3, 2, at.Add(time.Minute))}})
	for every, want := range map[bool][]string{
		false: {"task_definition 1", "analysis 1", "zeta 2", "alpha 1"},
		true:  {"task_definition 1", "analysis 1", "zeta 1", "zeta 2", "alpha 1"},
	} {
		entries, err := b.PipelineEntries(t.Context(), p.ID, every, false)
		require.NoError(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%s %d", e.Key, e.Version))
		}
		require.Equal(t, want, got)
	}
}

func TestATerminalStatusOfAPipelineIsNeverLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "o")
	at := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	b.writeRecord(t, p, 1, contract.PipelineRecord{At: at, Change: &contract.PipelineChange{Status: contract.PipelineTimeout, AbortReason: contract.AbortTimeout, Finished: true}})
	b.writeRecord(t, p, 2, contract.PipelineRecord{
		Change: &contract.PipelineChange{Status: contract.PipelineOrchestrating, Iteration: 9}, Events: []contract.EventDraft{{Type: contract.EventPipelineUpdated}},
	})
	now := b.pipeline(t, p.ID)
	require.Equal(t, contract.PipelineTimeout, now.Status)
	require.Zero(t, now.Iteration)
	require.Equal(t, at, *now.FinishedAt)
	status, _, ended := b.account(t, p.RunID)
	require.Equal(t, "failed", status)
	require.True(t, ended)
	events, err := b.PipelineEvents(t.Context(), p.ID, 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 2, "what is told is told")
	b.writeRecord(t, p, 3, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineTimeout, RecoveredBy: 7, HandoffRef: "pipeline-1/handoff.json", Finished: true}})
	now = b.pipeline(t, p.ID)
	require.Equal(t, []any{int64(7), contract.AbortTimeout, at}, []any{now.RecoveredBy, now.AbortReason, *now.FinishedAt}, "what is added to an ending is kept")
}

func TestTheCarrierFollowsTheNewestOfItsPipelines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "Choose a cache")
	for status, want := range map[contract.PipelineStatus]string{contract.PipelineRunning: "planner_running", contract.PipelineOrchestrating: "planner_running"} {
		b.writeRecord(t, p, int64(len(status)), contract.PipelineRecord{Change: &contract.PipelineChange{Status: status}})
		got, _, _ := b.account(t, p.RunID)
		require.Equal(t, want, got)
	}
	failed := &contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, Finished: true}
	b.writeRecord(t, p, 50, contract.PipelineRecord{Change: failed})
	inherited := &contract.Inherited{PipelineID: p.ID, Attempt: 1, HandoffRef: "h", Instructions: "do better"}
	order := contract.NewPipeline{RunID: p.RunID, Prior: p.ID, Attempt: 2, Settings: deliberate(), Inherited: inherited}
	next, err := b.CreatePipeline(t.Context(), order)
	require.NoError(t, err)
	again, err := b.CreatePipeline(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, next.ID, again.ID)
	require.Equal(t, []any{p.ID, p.RunID, 2, 1, p.Task, inherited}, []any{next.PriorID, next.RunID, next.Attempt, next.RetryCount, next.Task, next.Inherited})
	require.Equal(t, next.ID, b.pipeline(t, p.ID).RecoveredBy, "both know of each other at once")
	status, _, ended := b.account(t, p.RunID)
	require.Equal(t, "planner_running", status)
	require.False(t, ended)
	b.writeRecord(t, p, 51, contract.PipelineRecord{Change: failed, Events: []contract.EventDraft{{Type: contract.EventRecoveryStarted}}})
	status, _, _ = b.account(t, p.RunID)
	require.Equal(t, "planner_running", status, "the one before says nothing of it any more")
	b.writeRecord(t, next, 1, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineCompleted, Finished: true}})
	status, _, ended = b.account(t, p.RunID)
	require.Equal(t, "done", status)
	require.True(t, ended)
	events, err := b.Events(t.Context(), p.RunID, 0, 0)
	require.NoError(t, err)
	requireGapless(t, events)
	ofNext, err := b.PipelineEvents(t.Context(), next.ID, 0, 0)
	require.NoError(t, err)
	require.Len(t, ofNext, 1, "each has its own of the account's events")
	unstarted, err := b.UnstartedPipelines(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, unstarted, "the pipeline before starts its recovery")
	_, err = b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: b.First.ID, Prior: p.ID, Settings: deliberate()})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestAPipelineForARunLeavesTheRunAsItIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	planner := b.begin(t, contract.PhasePlanner, "")
	before, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	order := contract.NewPipeline{RunID: b.First.ID, ForRun: true, Execution: planner.ID, Attempt: 1, Settings: deliberate()}
	p, err := b.CreatePipeline(t.Context(), order)
	require.NoError(t, err)
	again, err := b.CreatePipeline(t.Context(), order)
	require.NoError(t, err)
	require.Equal(t, p.ID, again.ID)
	require.Equal(t, "Add division", p.Objective, "the run's goal")
	require.Equal(t, []any{b.First.ID, true, planner.ID}, []any{p.RunID, p.ForRun, p.ExecutionID})
	b.writeRecord(t, p, 1, contract.PipelineRecord{
		Change: &contract.PipelineChange{Status: contract.PipelineFailed, WaitingFor: "x", Finished: true}, Events: []contract.EventDraft{{Type: contract.EventAgentSpawned}},
	})
	after, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, before.EventSeq+2, after.EventSeq)
	after.EventSeq, after.UpdatedAt = before.EventSeq, before.UpdatedAt
	require.Equal(t, before, after)
	requireGapless(t, b.all(t))
	_, err = b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: b.First.ID, Settings: deliberate()})
	require.Error(t, err, "what can not be told apart from another is made for nobody")
}

func TestFollowersSeeTheEventsOfAPipelineAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t) // polls once a minute: a missing notification shows
	p := b.spawn(t, "o")
	seen := make(chan contract.EventType, 8)
	var g errgroup.Group
	g.Go(func() error {
		return b.Follow(t.Context(), p.RunID, 0, func(e contract.Event) error {
			seen <- e.Type
			if e.Type == contract.EventOrchestrationComplete {
				return feed.ErrStop
			}
			return nil
		})
	})
	require.Equal(t, contract.EventPipelineSpawned, <-seen)
	b.writeRecord(t, p, 1, contract.PipelineRecord{Events: []contract.EventDraft{{Type: contract.EventOrchestrationStarted}, {Type: contract.EventOrchestrationComplete}}})
	require.Equal(t, contract.EventOrchestrationStarted, <-seen)
	require.Equal(t, contract.EventOrchestrationComplete, <-seen)
	require.NoError(t, g.Wait())
	require.ErrorIs(t, b.Follow(t.Context(), 999, 0, nil), store.ErrNotFound)
}

func TestLongTextsAreResolvedAlsoThoseOfThePipelineBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "o")
	whole := strings.Repeat("long ", 500)
	long := contract.Text{Head: "long …", Ref: "abc", Size: len(whole)}
	for range 2 {
		require.NoError(t, b.SavePipelineTexts(t.Context(), p.ID, store.PipelineText{Ref: "abc", Text: whole}, store.PipelineText{Ref: "nul", Text: "a\x00b"}))
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entry := contract.Entry{Section: contract.SectionSynthesis, Key: "s1", Author: contract.Beta, Value: long, Version: 1, Timestamp: at}
	content := contract.PipelineRecord{
		Entries: []contract.Entry{entry}, Votes: []contract.Vote{{Voter: contract.Alpha, Key: "s1", Version: 1, Text: long, At: at}},
		Messages: []contract.Message{{Seq: 1, ID: "BETA-1-1", From: contract.Beta, Text: long, At: at}},
		Change: &contract.PipelineChange{
			Status: contract.PipelineReport, Consensus: &entry,
			Report: &contract.DeliberationReport{PipelineID: p.ID, Kind: "checkpoint", Blackboard: []contract.Entry{entry}, Summary: "so far"},
		},
	}
	b.writeRecord(t, p, 1, content)
	next, err := b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: p.RunID, Prior: p.ID, Attempt: 2, Settings: deliberate()})
	require.NoError(t, err)
	b.writeRecord(t, next, 1, content)
	for _, id := range []int64{p.ID, next.ID} {
		for full, want := range map[bool]string{false: long.Head, true: whole} {
			entries, err := b.PipelineEntries(t.Context(), id, false, full)
			require.NoError(t, err)
			messages, err := b.PipelineMessages(t.Context(), id, 0, 0, full)
			require.NoError(t, err)
			votes, err := b.PipelineVotes(t.Context(), id, full)
			require.NoError(t, err)
			report, err := b.PipelineReport(t.Context(), id, "checkpoint", full)
			require.NoError(t, err)
			require.Equal(t, []string{want, want, want, want}, []string{entries[0].Value.Head, messages[0].Text.Head, votes[0].Text.Head, report.Blackboard[0].Value.Head})
		}
		require.Equal(t, whole, b.pipeline(t, id).Consensus.Value.Head)
	}
	texts, err := b.PipelineTexts(t.Context(), next.ID, []string{"nul", "absent"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"nul": "a\uFFFDb"}, texts)
	other := b.spawn(t, "another")
	texts, err = b.PipelineTexts(t.Context(), other.ID, []string{"abc"})
	require.NoError(t, err)
	require.Empty(t, texts, "texts belong to their pipeline")
	_, err = b.PipelineReport(t.Context(), p.ID, "final", false)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTheLastMessagesOfEachMemberAreReadable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "o")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var all []contract.Message
	for i := range 200 {
		from := contract.Alpha
		if i < 3 {
			from = contract.Gamma
		}
		all = append(all, contract.Message{Seq: i + 1, ID: fmt.Sprint(from, "-", i), From: from, At: at})
	}
	b.writeRecord(t, p, 1, contract.PipelineRecord{Messages: all})
	last, err := b.PipelineLastMessages(t.Context(), p.ID, 0, false)
	require.NoError(t, err)
	require.Equal(t, append(all[:3:3], all[150:]...), last)
	page, err := b.PipelineMessages(t.Context(), p.ID, 10, 5, false)
	require.NoError(t, err)
	require.Equal(t, all[10:15], page)
}

func TestPipelinesAreListedAndFiltered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []int64
	for i := range 5 {
		ids = append(ids, b.spawn(t, fmt.Sprint("Objective ", i)).ID)
	}
	b.writeRecord(t, b.pipeline(t, ids[1]), 1, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineStopped, Finished: true}})
	list := func(f store.PipelineFilter) (got []int64) {
		rows, err := b.ListPipelines(t.Context(), f)
		require.NoError(t, err)
		for _, p := range rows {
			got = append(got, p.ID)
		}
		return got
	}
	require.Equal(t, []int64{ids[4], ids[3], ids[2], ids[1], ids[0]}, list(store.PipelineFilter{}))
	require.Equal(t, []int64{ids[2], ids[1]}, list(store.PipelineFilter{Before: b.pipeline(t, ids[3]).Cursor(), Limit: 2}))
	require.Equal(t, []int64{ids[1]}, list(store.PipelineFilter{Status: []contract.PipelineStatus{contract.PipelineStopped, contract.PipelineFailed}}))
	require.Equal(t, []int64{ids[4]}, list(store.PipelineFilter{Text: "objective 4"}))
	require.Empty(t, list(store.PipelineFilter{RunID: b.pipeline(t, ids[0]).RunID}), "what carries a pipeline is no run")
	planner := b.begin(t, contract.PhasePlanner, "")
	planning, err := b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: b.First.ID, ForRun: true, Execution: planner.ID, Attempt: 1, Settings: deliberate()})
	require.NoError(t, err)
	require.Equal(t, []int64{planning.ID}, list(store.PipelineFilter{RunID: b.First.ID}))
}

func TestOnlyPipelinesThatNobodyStartedAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, started := b.spawn(t, "o"), b.spawn(t, "started")
	for range 2 {
		require.NoError(t, b.MarkPipelineStarted(t.Context(), started.ID, contract.PipelineWorkflowID(started.ID), "x"))
	}
	found, err := b.UnstartedPipelines(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, p, found[0], "with all that starting it takes")
	found, err = b.UnstartedPipelines(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, found, "whoever spawned it may be about to start it")
	require.ErrorIs(t, b.MarkPipelineStarted(t.Context(), 999, "w", "r"), store.ErrNotFound)
}

func TestTheInputOfAPipelineIsSmallHoweverLargeItsTask(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills tables")
	}
	b := setup(t)
	large := strings.Repeat("ä", 20000)
	task := contract.DeliberationTask{Objective: large}
	for range 300 {
		task.Constraints = append(task.Constraints, large)
		task.SuccessCriteria = append(task.SuccessCriteria, large)
		task.Subtasks = append(task.Subtasks, contract.Subtask{ID: large, Description: large, Dependencies: []string{large}})
	}
	p, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Task: task, Settings: deliberate()})
	require.NoError(t, err)
	require.Equal(t, task, p.Task, "the row has it whole")
	in := p.Input()
	require.LessOrEqual(t, len(in.Task.Objective), contract.TextHead)
	doc, err := json.Marshal(in)
	require.NoError(t, err)
	require.Less(t, len(doc), 48<<10)
	require.Equal(t, []any{p.ID, p.RunID, 1, "local"}, []any{in.PipelineID, in.RunID, in.Attempt, in.Tenant})
}

func TestPipelinesThatAreNotOverAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.spawn(t, "waits for a worker")
	p := b.spawn(t, "waits for a person")
	b.writeRecord(t, p, 1, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineReport, WaitingFor: "continue"}})
	over := b.spawn(t, "is over")
	b.writeRecord(t, over, 1, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineStopped, Finished: true}})
	open, err := b.Unfinished(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[contract.PipelineStatus]int64{
		contract.PipelineSpawned: 1, contract.PipelineRunning: 0, contract.PipelineReport: 1, contract.PipelineOrchestrating: 0,
	}, open.Pipelines)
	require.EqualValues(t, 1, open.Waiting)
	runs := int64(0)
	for _, n := range open.Runs {
		runs += n
	}
	require.EqualValues(t, 1, runs, "what carries a pipeline is no run: the one of the set-up is")
}

// The metrics of a process are shared by all tests. Each of these is of a kind that no
// other test here uses: it does not matter what else changes meanwhile.
func TestWhatAPipelineDoesIsCountedOnce(t *testing.T) {
	b := setup(t)
	p := b.spawn(t, "o")
	ended := telemetry.Pipelines.WithLabelValues("ORCHESTRATION_FAILED", "iteration_limit")
	count := func() []float64 {
		return []float64{
			testutil.ToFloat64(ended), testutil.ToFloat64(telemetry.Gammas.WithLabelValues("CONFLICT")),
			testutil.ToFloat64(telemetry.PipelineRecoveries.WithLabelValues("iteration_limit")),
			testutil.ToFloat64(telemetry.PipelineMessages.WithLabelValues("direct")), testutil.ToFloat64(telemetry.PipelineRefused.WithLabelValues()),
			testutil.ToFloat64(telemetry.PipelineErrors.WithLabelValues("gamma", "SAFETY_ERROR")),
			float64(samples(t, "rgpt_pipeline_duration_seconds", map[string]string{"status": "ORCHESTRATION_FAILED"})),
			float64(samples(t, "rgpt_pipeline_iterations", map[string]string{"status": "ORCHESTRATION_FAILED"})),
		}
	}
	before := count()
	at := time.Now()
	metrics := contract.DeliberationMetrics{GammaSpawned: true, GammaReason: contract.GammaConflict, Refused: 3}
	works := &contract.PipelineChange{Status: contract.PipelineOrchestrating, Metrics: metrics}
	metrics.Refused = 5
	ends := &contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortIterationLimit, Iteration: 10, Metrics: metrics, Finished: true}
	for range 3 { // each record comes again
		b.writeRecord(t, p, 1, contract.PipelineRecord{
			At: at, Change: works, Messages: []contract.Message{{Seq: 1, ID: "ALPHA-1-1", From: contract.Alpha, To: contract.Beta, At: at}},
			Errors: []contract.Error{{Member: contract.Gamma, Class: contract.ClassSafety, Code: contract.CodeForbidden, Message: "no"}},
		})
		b.writeRecord(t, p, 2, contract.PipelineRecord{At: at.Add(time.Minute), Change: ends})
		b.writeRecord(t, p, 3, contract.PipelineRecord{At: at.Add(time.Minute), Change: ends}) // the recovery is recorded with the end
	}
	for range 2 {
		_, err := b.CreatePipeline(t.Context(), contract.NewPipeline{
			RunID: p.RunID, Prior: p.ID, Attempt: 2, Settings: deliberate(), Inherited: &contract.Inherited{PipelineID: p.ID, AbortReason: contract.AbortIterationLimit},
		})
		require.NoError(t, err)
	}
	for i, more := range []float64{1, 1, 1, 1, 5, 1, 1, 1} {
		require.InDelta(t, before[i]+more, count()[i], 0, "metric %d", i)
	}
}

func TestWhatAPipelineIsContinuedWithIsWhatItDecidesByFromThenOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawn(t, "o")
	works := contract.PipelineChange{Status: contract.PipelineOrchestrating}
	b.writeRecord(t, p, 1, contract.PipelineRecord{Change: &works})
	require.Equal(t, p.Settings, b.pipeline(t, p.ID).Settings)
	other := p.Settings
	other.Mode, other.ContinuedTimeout = contract.ModeOpenRouter, time.Hour
	other.Models = map[contract.Agent]contract.ModelChoice{contract.AgentBeta: {Provider: "p", Model: "m"}}
	works.Settings = &other
	b.writeRecord(t, p, 2, contract.PipelineRecord{Change: &works})
	works.Settings = nil
	b.writeRecord(t, p, 3, contract.PipelineRecord{Change: &works})
	now := b.pipeline(t, p.ID)
	require.Equal(t, other, now.Settings)
	require.Equal(t, contract.ModeOpenRouter, now.Mode)
}

func TestAnArtifactIsFoundByItsName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, other := b.spawn(t, "o"), b.spawn(t, "another")
	require.NoError(t, b.AddArtifacts(t.Context(), p.RunID, []contract.Artifact{{RunID: p.RunID, Name: "pipeline-1/handoff.json", Type: contract.ArtifactJSON, Size: 2, Digest: "d"}}))
	found, err := b.ArtifactNamed(t.Context(), p.RunID, "pipeline-1/handoff.json")
	require.NoError(t, err)
	require.Equal(t, []any{p.RunID, "d", int64(2), contract.ArtifactJSON}, []any{found.RunID, found.Digest, found.Size, found.Type})
	for run, name := range map[int64]string{other.RunID: "pipeline-1/handoff.json", p.RunID: "handoff.json"} {
		_, err = b.ArtifactNamed(t.Context(), run, name)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
}

func TestTheObjectiveOfAPipelineForAnIssueHasItsTextsOnlyAsData(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, e := range hostile.Corpus(hostile.Default()) {
		i := issue.Of(issue.At{Forge: "work", Repo: "team/app", URL: "https://git.example.com/team/app/issues/12"}, forge.Issue{Number: 12, Title: e.Text, Author: e.Text, URL: e.Text})
		text, _ := issue.Describe(i, e.Text, 16<<10)
		settings := b.First.Settings
		settings.Issue = &i
		run := b.Create(t, store.NewRun{GoalTitle: issue.Title(i), GoalDescription: text, Settings: settings})
		p, err := b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: run.ID, ForRun: true, Execution: b.begin(t, contract.PhasePlanner, "").ID, Attempt: 1, Settings: deliberate()})
		require.NoError(t, err)
		require.Equal(t, p.Objective, p.Task.Objective)
		rest, whole := hostile.OutsideFences(p.Objective)
		require.True(t, whole, "%s/%s: %s", e.Category, e.Name, p.Objective)
		require.NotContains(t, rest, hostile.Marker, "%s/%s", e.Category, e.Name)
		require.Contains(t, p.Objective, "Resolve the issue team/app#12")
	}
}
