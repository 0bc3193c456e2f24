package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestRecordIsAppliedOnceHoweverOftenItIsSent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := contract.Record{
		RunID: b.First.ID, Seq: 1, At: time.Now(),
		Run:    &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.PhasePlanner.Running()},
		Begin:  &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner},
		Events: []contract.EventDraft{{Type: contract.PhasePlanner.Started()}},
	}
	results := make([]contract.RecordResult, 50)
	var g errgroup.Group
	for i := range results {
		g.Go(func() (err error) {
			results[i], err = b.Record(t.Context(), b.Source(), r)
			return err
		})
	}
	require.NoError(t, g.Wait())
	for _, result := range results {
		require.Equal(t, results[0], result)
	}
	require.Equal(t, 1, results[0].Execution.Attempt)
	executions, err := b.Executions(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, executions, 1)
	require.Equal(t, executions[0].ExecutionRef, results[0].Execution)
	events := b.all(t)
	require.Len(t, events, 2, "run.created and planner.started")
	requireGapless(t, events)

	again, err := b.Record(t.Context(), store.Source{WorkflowID: b.Source().WorkflowID, WorkflowRunID: "after a reset"}, r)
	require.NoError(t, err)
	require.Equal(t, 2, again.Execution.Attempt, "a reset workflow counts its records anew")
}

func TestEventsAreGaplessUnderConcurrentWriters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const writers, records = 20, 10
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			from := store.Source{WorkflowID: contract.StepWorkflowID(b.First.ID, "step"), WorkflowRunID: string(rune('a' + w))}
			for n := range records {
				r := contract.Record{RunID: b.First.ID, Seq: int64(n + 1), At: time.Now(), Events: storetest.Drafts(1 + n%3)}
				r.Begin = &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step", Agent: contract.AgentBuilder}
				if _, err := b.Record(t.Context(), from, r); err != nil {
					return err
				}
				artifact := contract.Artifact{Name: from.WorkflowRunID + string(rune('0'+n)), Type: contract.ArtifactLog, Digest: "sha256:00"}
				if err := b.AddArtifacts(t.Context(), b.First.ID, []contract.Artifact{artifact}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	events := b.all(t)
	require.Len(t, events, 1+writers*(19+records), "created, those of the records, one for each artifact")
	requireGapless(t, events)
	for i := 1; i < len(events); i++ {
		require.False(t, events[i].CreatedAt.Before(events[i-1].CreatedAt), "the clock goes with the numbers")
	}
	executions, err := b.Executions(t.Context(), b.First.ID)
	require.NoError(t, err)
	for i, e := range executions {
		require.Equal(t, i+1, e.Attempt, "attempts of a step are counted without gaps too")
	}
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.EqualValues(t, len(events), run.EventSeq)
}

func TestRecordCarriesARunThroughItsLife(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	execution := b.Apply(t, contract.Record{
		At: at, Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.PhasePlanner.Running()},
		Begin: &contract.ExecutionBegin{
			Phase: contract.PhasePlanner, Agent: contract.AgentPlanner, Model: contract.ModelChoice{Provider: "scripted", Model: "m"},
		},
		Events: []contract.EventDraft{{Type: contract.PhasePlanner.Started(), Payload: map[string]int{"attempt": 1}}},
	})
	require.Equal(t, contract.ExecutionRef{ID: execution.ID, RunID: b.First.ID, Phase: contract.PhasePlanner, Agent: contract.AgentPlanner, Attempt: 1}, execution)
	reserved, err := b.ReserveCall(t.Context(), store.Reservation{Execution: execution, Turn: 1, Provider: "scripted", Model: "m", Prompt: 50})
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, contract.Usage{PromptTokens: 30, CompletionTokens: 7, MicroUSD: 11}, time.Second, raw(`{"x":1}`), nil))

	failure := &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: "no JSON", Cause: "a poem"}
	b.Apply(t, contract.Record{
		At: at.Add(time.Minute), Run: &contract.RunChange{Status: contract.PhasePlanner.Error(), Failure: failure},
		End: &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionFailed, Failure: failure},
	})
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, failure, run.Failure)
	require.Equal(t, contract.PhasePlanner, run.Phase, "a change without a phase keeps it")
	require.Equal(t, at, run.StartedAt.UTC())
	require.Nil(t, run.FinishedAt)
	require.Equal(t, "run-1", run.WorkflowID, "a workflow that records has been started")
	unstarted, err := b.PendingUnstarted(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Empty(t, unstarted)

	second := b.Apply(t, contract.Record{
		At: at.Add(2 * time.Minute), Run: &contract.RunChange{Status: contract.PhasePlanner.Running(), RetryCount: 1, LastHealAction: "correct_json"},
		Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner},
	})
	require.Equal(t, 2, second.Attempt)
	b.Apply(t, contract.Record{
		At: at.Add(3 * time.Minute), Run: &contract.RunChange{Status: contract.StatusDone, RetryCount: 1, Branch: "rgpt/run-1", Commit: "abc", Finished: true},
		End:    &contract.ExecutionEnd{ExecutionID: second.ID, Status: contract.ExecutionCompleted, Output: raw(`{"steps": 2}`)},
		Events: []contract.EventDraft{{Type: contract.PhasePlanner.CompletedEvent()}, {Type: contract.EventRunUpdated, Payload: raw(`{"status":"done"}`)}},
	})

	details, err := b.RunDetails(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Nil(t, details.Failure, "what went wrong was healed")
	require.Equal(t, "correct_json", *details.LastHealAction)
	require.Equal(t, at.Add(3*time.Minute), details.FinishedAt.UTC())
	require.JSONEq(t, `{"steps": 2}`, string(details.PlannerOutput))
	require.Len(t, details.Executions, 2)
	require.Equal(t, contract.Usage{Calls: 1, PromptTokens: 30, CompletionTokens: 7, MicroUSD: 11}, details.Executions[0].Usage)
	require.Equal(t, failure, details.Executions[0].Failure)
	require.Equal(t, []contract.ExecutionStatus{contract.ExecutionFailed, contract.ExecutionCompleted},
		[]contract.ExecutionStatus{details.Phases[0].Status, details.Phases[1].Status})
	requireGapless(t, details.Events)
	require.JSONEq(t, `{"attempt": 1}`, string(details.Events[1].Payload))
	require.JSONEq(t, `{}`, string(details.Events[2].Payload))

	var document map[string]any
	text, err := json.Marshal(details)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &document))
	for _, name := range strings.Fields(`runId phase status planner_output builder_output tester_output releaser_output
		events self_heal_events findings artifacts executions created_at updated_at goal_title goal_description usage`) {
		require.Contains(t, document, name)
	}
	require.Equal(t, []any{}, document["findings"], "empty lists are lists")
}

func TestEveryStatusOfTheLifecycleCanBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, status := range contract.Statuses() {
		from := store.Source{WorkflowID: b.Source().WorkflowID, WorkflowRunID: fmt.Sprint("reset ", i)} // only a reset leaves a terminal status
		_, err := b.Record(t.Context(), from, contract.Record{RunID: b.First.ID, Seq: 1, Run: &contract.RunChange{Status: status}})
		require.NoError(t, err)
		runs, err := b.ListRuns(t.Context(), store.Filter{Status: []contract.Status{status}})
		require.NoError(t, err)
		require.Len(t, runs, 1, status)
	}
	_, err := b.Record(t.Context(), b.Source(), contract.Record{RunID: b.First.ID, Seq: 1000, Run: &contract.RunChange{Status: "dreaming"}})
	require.Error(t, err)
}

func TestApprovalIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	deadline := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	b.Apply(t, contract.Record{Notes: map[string]string{"id": "plan-1", "kind": "plan", "status": "pending", "deadline": deadline.Format(time.RFC3339Nano)}})
	b.Apply(t, contract.Record{Notes: map[string]string{"id": "plan-1", "status": "granted", "by": "ada", "reason": "fine"}})
	b.Apply(t, contract.Record{Notes: map[string]string{"id": "plan-1", "status": "rejected", "by": "bob"}})
	details, err := b.RunDetails(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, details.Approvals, 1)
	got := details.Approvals[0]
	require.Equal(t, []string{"plan", "granted", "ada", "fine"}, []string{got.Kind, got.Status, got.By, got.Reason})
	require.Equal(t, deadline, *got.Deadline)
	require.NotNil(t, got.DecidedAt)
}

func TestAnApprovalThatNobodyAnsweredEndsWithItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asks := map[string]string{"id": "release-1", "kind": "release", "status": "pending"}
	waits := &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusWaitingForApproval, WaitingFor: "release"}
	approval := func() views.Approval {
		details, err := b.RunDetails(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Len(t, details.Approvals, 1)
		return details.Approvals[0]
	}
	b.Apply(t, contract.Record{Run: waits, Notes: asks})
	require.Equal(t, "pending", approval().Status)
	b.Apply(t, contract.Record{Run: &contract.RunChange{Status: contract.StatusCancelled, Finished: true}})
	require.Equal(t, "expired", approval().Status)
	require.NotNil(t, approval().DecidedAt)
	_, err := b.Record(t.Context(), store.Source{WorkflowID: b.Source().WorkflowID, WorkflowRunID: "after a reset"}, contract.Record{RunID: b.First.ID, Seq: 1, Run: waits, Notes: asks})
	require.NoError(t, err)
	require.Equal(t, "pending", approval().Status, "who does the run again is asked again")
}

func TestAnInterventionIsKeptOpenOrResolvedWithItsKind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := time.Now()
	about := func(number int, kind string) map[string]any {
		return map[string]any{"intervention_id": contract.InterventionID(b.First.ID, number), "kind": kind}
	}
	b.Apply(t, contract.Record{
		At: at, Interventions: []contract.InterventionNote{{Number: 1, Status: "open", Phase: contract.PhaseBuilder, Reason: "no quota", ActionRequired: "none"}},
		Events: []contract.EventDraft{{Type: contract.EventInterventionRequested, Payload: about(1, "quota")}},
	})
	open, err := b.OpenInterventions(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, "quota", open[0].Kind)
	b.Apply(t, contract.Record{
		At: at, Interventions: []contract.InterventionNote{{Number: 1, Status: "resolved", By: "ann", Answer: "retry"}},
		Events: []contract.EventDraft{{Type: contract.EventInterventionResolved, Payload: map[string]any{"intervention_id": contract.InterventionID(b.First.ID, 1)}}},
	})
	b.Apply(t, contract.Record{
		At: at, Interventions: []contract.InterventionNote{{
			Number: 2, Status: "resolved", Phase: contract.PhasePlanner, Reason: "ann rejected the plan", ActionRequired: "resume", By: "ann", Answer: "give_up", Words: "too large",
		}},
		Events: []contract.EventDraft{{Type: contract.EventInterventionResolved, Payload: about(2, "plan")}},
	})
	details, err := b.RunDetails(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, details.Interventions, 2)
	quota, plan := details.Interventions[0], details.Interventions[1]
	require.Equal(t, []string{"quota", "resolved", "ann", "retry"}, []string{quota.Kind, quota.Status, quota.ResolvedBy, quota.Answer})
	require.Equal(t, []string{"plan", "resolved", "ann", "give_up", "too large", "ann rejected the plan", "resume"},
		[]string{plan.Kind, plan.Status, plan.ResolvedBy, plan.Answer, plan.Words, plan.Reason, plan.ActionRequired})
	require.NotNil(t, plan.ResolvedAt, "it was never open")
	open, err = b.OpenInterventions(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, open)
}

func TestRecordOfAnUnknownRunOrExecutionIsNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.Record(t.Context(), b.Source(), contract.Record{RunID: 4711, Seq: 1, Events: storetest.Drafts(1)})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorContains(t, err, "run 4711 not found")
	_, err = b.Record(t.Context(), b.Source(), contract.Record{RunID: b.First.ID, Seq: 1, Events: storetest.Drafts(1), End: &contract.ExecutionEnd{ExecutionID: 4711, Status: contract.ExecutionFailed}})
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Len(t, b.all(t), 1, "nothing of such a record is applied")
	_, err = b.Run(t.Context(), 4711)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	_, err = b.RunDetails(t.Context(), 4711)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, b.MarkStarted(t.Context(), 4711, "run-4711", "x"), store.ErrNotFound)
	_, err = b.Plan(t.Context(), b.First.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	err = b.AddArtifacts(t.Context(), 4711, []contract.Artifact{{Name: "a", Type: contract.ArtifactLog}})
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestWhatPostgresCannotStoreIsReplacedNotLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	hostile := "a\x00b\xff\xfec"
	b.Apply(t, contract.Record{
		Run: &contract.RunChange{Status: contract.StatusFailed, Failure: &contract.Failure{Class: contract.ClassRuntime, Message: hostile}},
		End: &contract.ExecutionEnd{
			ExecutionID: execution.ID, Status: contract.ExecutionFailed, Output: raw(`{"a\u0000":"\ud800 and \\u0000","n":12345678901234567890}`),
		},
		Events: []contract.EventDraft{{Type: contract.EventRunFailed, Payload: map[string]string{"text": hostile}}},
	})
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "a\uFFFDb\uFFFDc", run.Failure.Message)
	executions, err := b.Executions(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.JSONEq(t, `{"a�":"� and \\u0000","n":12345678901234567890}`, string(executions[0].Output))

	require.NoError(t, b.OpenConversation(t.Context(), execution.ID, []store.Message{{Role: "user", Content: raw(`"\u0000\udc00"`)}}))
	messages, err := b.Conversation(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Equal(t, `"��"`, string(messages[0].Content))
	err = b.OpenConversation(t.Context(), execution.ID, []store.Message{{Role: "user", Content: raw(`{"half": `)}})
	require.Equal(t, contract.ClassRuntime, fault.Of(err).Class)
}

func TestEventsOfARecordAreOneTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Apply(t, contract.Record{Events: storetest.Drafts(1)})
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		var before, after int64
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(DISTINCT tx::text) FROM orchestrator_events").Scan(&before))
		b.Apply(t, contract.Record{Events: storetest.Drafts(5), Run: &contract.RunChange{Status: contract.StatusPaused}})
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(DISTINCT tx::text) FROM orchestrator_events").Scan(&after))
		require.Equal(t, before+1, after, "all events of a record are of one transaction")
	})
}

// from applies a record of a workflow run that changes the status, with an event.
func (b *fixture) from(t *testing.T, workflowRun string, seq int64, status contract.Status, kind contract.EventType) {
	t.Helper()
	_, err := b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(b.First.ID), WorkflowRunID: workflowRun}, contract.Record{
		RunID: b.First.ID, Seq: seq, Run: &contract.RunChange{Status: status, Finished: status.Terminal()},
		Events: []contract.EventDraft{{Type: kind}},
	})
	require.NoError(t, err)
}

func (b *fixture) status(t *testing.T) contract.Status {
	t.Helper()
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, run.Status.Terminal(), run.FinishedAt != nil)
	return run.Status
}

func TestATerminalStatusIsNeverLeftByALateRecord(t *testing.T) {
	t.Parallel()
	for _, last := range []contract.Status{contract.StatusDone, contract.StatusFailed, contract.StatusCancelled} {
		b := setup(t)
		b.from(t, "first", 1, "planner_running", contract.EventRunUpdated)
		b.from(t, "first", 5, last, contract.EventRunUpdated)
		b.from(t, "first", 5, "builder_running", contract.EventRunUpdated) // a repeat
		require.Equal(t, last, b.status(t))
		b.from(t, "first", 4, "builder_running", contract.EventRunUpdated) // overtaken
		require.Equal(t, last, b.status(t))
		require.Len(t, b.all(t), 3, "what is late says nothing about the run")
		b.from(t, "first", 6, "builder_running", contract.EventRunUpdated) // a workflow that ended does not continue
		require.Equal(t, last, b.status(t))
		_, err := b.Record(t.Context(), store.Source{WorkflowID: contract.StepWorkflowID(b.First.ID, "s"), WorkflowRunID: "x"}, contract.Record{
			RunID: b.First.ID, Seq: 1, Run: &contract.RunChange{Status: "builder_running"},
		})
		require.NoError(t, err)
		require.Equal(t, last, b.status(t), "nor does a child of it")
	}
}

func TestAResetRunContinuesAndItsOldWorkflowWritesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.from(t, "first", 1, "planner_running", contract.EventRunUpdated)
	b.from(t, "first", 9, contract.StatusFailed, contract.EventRunUpdated)
	b.from(t, "second", 4, "tester_running", contract.EventRunUpdated) // continues with the number to which it was reset
	require.Equal(t, contract.Status("tester_running"), b.status(t))
	b.from(t, "first", 10, contract.StatusCancelled, contract.EventRunFailed)
	require.Equal(t, contract.Status("tester_running"), b.status(t), "the old one is late, whatever its number")
	require.NoError(t, b.MarkStarted(t.Context(), b.First.ID, contract.RunWorkflowID(b.First.ID), "first"))
	b.from(t, "second", 5, contract.StatusDone, contract.EventRunUpdated)
	require.Equal(t, contract.StatusDone, b.status(t))
	b.from(t, "third", 2, "planner_running", contract.EventRunUpdated)
	b.from(t, "second", 6, contract.StatusFailed, contract.EventRunFailed)
	require.Equal(t, contract.Status("planner_running"), b.status(t))
	for _, e := range b.all(t) {
		require.NotEqual(t, contract.EventRunFailed, e.Type)
	}
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "third", run.WorkflowRunID)
}

func TestALateRecordStillEndsItsExecution(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseTester, "")
	b.from(t, "second", 2, "planner_running", contract.EventRunUpdated)
	b.Apply(t, contract.Record{
		Run:    &contract.RunChange{Status: contract.StatusDone},
		End:    &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCompleted, Output: raw(`{"late": true}`)},
		Events: storetest.Drafts(1),
	})
	details, err := b.RunDetails(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, contract.ExecutionCompleted, details.Executions[0].Status, "nothing is left running")
	require.Equal(t, contract.Status("planner_running"), details.Status)
	require.NotContains(t, string(details.TesterOutput), "late")
}

func TestARepeatedRecordGivesUpTheCallsThatTheFirstOneDidNotGetTo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	end := contract.Record{RunID: b.First.ID, Seq: 2, End: &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCancelled}}
	_, err := b.Record(t.Context(), b.Source(), end)
	require.NoError(t, err)
	// As if the first one had died between the record and the calls.
	_, err = b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	_, err = b.Record(t.Context(), b.Source(), end)
	require.NoError(t, err)
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "failed", calls[0].Status)
}

func TestAnApprovalIsKeptForEachSubject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	write := func(notes map[string]string) {
		notes["id"] = "release"
		b.Apply(t, contract.Record{Notes: notes})
	}
	ask := func(subject string) {
		write(map[string]string{"kind": "release", "status": "pending", "subject": subject})
	}
	rows := func() (out []string) {
		d, err := b.RunDetails(t.Context(), b.First.ID)
		require.NoError(t, err)
		for _, a := range d.Approvals {
			out = append(out, strings.Join([]string{a.Subject, a.Status, a.By, a.Approved}, " "))
		}
		return out
	}
	ask("a")
	write(map[string]string{"kind": "release", "status": "granted", "by": "ann", "subject": "a"})
	ask("b")
	require.Equal(t, []string{"a granted ann a", "b pending  "}, rows(), "the approval of another subject is kept")
	by, err := verdicts.ApprovedBy(t.Context(), b.Store, b.First.ID, "a", 0)
	require.NoError(t, err)
	require.Equal(t, "ann", by)
	ask("c")
	require.Equal(t, []string{"a granted ann a", "b expired  ", "c pending  "}, rows(), "one question is open")
	write(map[string]string{"status": "granted", "by": "bob", "subject": "c as edited"})
	require.Equal(t, "c granted bob c as edited", rows()[2])
	ask("b")
	write(map[string]string{"status": "expired"}) // as earlier versions write it
	require.Equal(t, []string{"a granted ann a", "b expired  ", "c granted bob c as edited"}, sorted(rows()))
	ask("a")
	again := sorted(rows())
	require.Contains(t, again, "a granted ann a", "what a person answered is kept")
	require.Contains(t, again, "a pending  ", "and the same is asked about again")
	require.Len(t, again, 4)
	approver := func() string {
		by, err := verdicts.ApprovedBy(t.Context(), b.Store, b.First.ID, "a", 0)
		require.NoError(t, err)
		return by
	}
	require.Equal(t, "ann", approver(), "until there is another answer")
	ask("a")
	require.Equal(t, again, sorted(rows()), "an unanswered question is opened again")
	write(map[string]string{"status": "rejected", "by": "cid", "subject": "a"})
	require.Empty(t, approver(), "the last answer counts")
	ask("a")
	write(map[string]string{"status": "granted", "by": "dan", "subject": "a"})
	require.Equal(t, "dan", approver())
	require.Equal(t, []string{"a granted ann a", "a granted dan a", "a rejected cid "}, sorted(rows())[:3], "who answered what is kept")
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
