package store_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// workflowLog is a workflow from the store's point of view: what its history knows.
type workflowLog struct {
	at    int              // how much of the work is recorded
	seq   int64            // of the last record
	open  int64            // the execution of the running phase
	ended *contract.Record // a phase's end that is recorded with what follows, as in a run
}

// next returns the records that a workflow of n phases writes, one by one: each
// phase begins, changes something, and ends with what follows.
func (w *workflowLog) next(phases int) (contract.Record, bool) {
	phase, part := w.at/2, w.at%2
	switch {
	case w.at > 2*phases:
		return contract.Record{}, false
	case phase == phases:
		return w.addEnd(contract.Record{
			Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}, Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"status": "done"}}},
		}), true
	case part == 0:
		p := contract.Phases()[phase%len(contract.Phases())]
		return w.addEnd(contract.Record{
			Run: &contract.RunChange{Phase: p, Status: p.Running()}, Begin: &contract.ExecutionBegin{Phase: p, Step: fmt.Sprint("step-", phase), Agent: contract.AgentOf(p)},
			Events: []contract.EventDraft{{Type: p.Started(), Payload: map[string]any{"begun": phase}}},
		}), true
	}
	return w.addEnd(contract.Record{Run: &contract.RunChange{Status: contract.StatusPaused}, Events: []contract.EventDraft{
		{Type: contract.EventRunUpdated, Payload: map[string]any{"change": phase}},
	}}), true
}

// addEnd adds the end that was not recorded yet.
func (w *workflowLog) addEnd(r contract.Record) contract.Record {
	if e := w.ended; e != nil {
		w.ended = nil
		r.End, r.EndEvents, r.Events = e.End, len(e.Events), append(slices.Clone(e.Events), r.Events...)
	}
	return r
}

// recorded keeps the answer to a record of the work.
func (w *workflowLog) recorded(r contract.Record, result contract.RecordResult) {
	if r.Begin != nil {
		w.open = result.Execution.ID
	}
	w.at++
	if w.at%2 == 0 && !r.Run.Status.Terminal() {
		w.ended = &contract.Record{
			End:    &contract.ExecutionEnd{ExecutionID: w.open, Status: contract.ExecutionCompleted},
			Events: []contract.EventDraft{{Type: contract.PhaseBuilder.CompletedEvent(), Payload: map[string]any{"ended": w.at / 2}}},
		}
	}
}

func TestRecordsMissingFromHistoryAreWrittenOnceAndHideNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rapid.Check(t, func(t *rapid.T) {
		run := b.createFor(t)
		from := store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}
		phases := rapid.IntRange(1, 4).Draw(t, "phases")
		var w workflowLog
		task, command, crashes := int64(3), 0, rapid.IntRange(0, 4).Draw(t, "crashes")
		waiting := []int{}            // commands that history has and the workflow does not
		var zombies []contract.Record // what dead workers sent, or may still send
		told := map[string]struct{}{} // what anybody wrote
		send := func(w *workflowLog, task int64, r contract.Record) (contract.Record, contract.RecordResult, error) {
			w.seq++
			r.RunID, r.Seq, r.Task, r.At = run.ID, w.seq, task, time.Now()
			result, err := b.Record(context.Background(), from, r)
			for _, e := range r.Events {
				told[fmt.Sprint(e.Type, e.Payload)] = struct{}{}
			}
			return r, result, err
		}
		for done := false; !done; task += 4 {
			before, asked := w, waiting
			if w.at <= 2*phases && rapid.IntRange(0, 2).Draw(t, "commands") == 0 {
				command++
				asked = append(slices.Clone(asked), command)
			}
			var sent []contract.Record
			for _, c := range asked {
				r, _, err := send(&w, task, w.addEnd(contract.Record{
					Run:    &contract.RunChange{Status: contract.StatusPaused, WaitingFor: fmt.Sprint(c)},
					Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"command": c}}},
				}))
				require.NoError(t, err)
				sent = append(sent, r)
			}
			for range rapid.IntRange(1, 4).Draw(t, "records") {
				r, more := w.next(phases)
				if done = !more; done {
					break
				}
				r, result, err := send(&w, task, r)
				require.NoError(t, err)
				w.recorded(r, result)
				sent = append(sent, r)
			}
			waiting = nil
			if crashes > 0 && rapid.Bool().Draw(t, "dies") {
				crashes--
				done, w = false, before
				if rapid.Bool().Draw(t, "the command comes again") { // a signal does, an update may not
					waiting = asked
				}
				if rapid.Bool().Draw(t, "lives on") {
					zombies = append(zombies, sent...)
				}
				continue
			}
			if len(zombies) > 0 { // a dead worker is not as dead as it seemed
				z := rapid.SampledFrom(zombies).Draw(t, "zombie")
				_, err := b.Record(context.Background(), from, z)
				if err != nil {
					require.ErrorContains(t, err, "another worker has taken over")
				}
			}
		}
		events, err := b.Events(context.Background(), run.ID, 0, 0)
		require.NoError(t, err)
		requireToldOnce(t, events, told)
		b.requireDone(t, run.ID, phases, len(events))
	})
}

// requireToldOnce requires that a run's events have no gap, that none of them is repeated, and
// that what anybody wrote is among them.
func requireToldOnce(t *rapid.T, events []contract.Event, told map[string]struct{}) {
	got := map[string]int{}
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
		got[string(e.Type)+strings.NewReplacer(`{"`, "map[", `": `, ":", `"`, "", "}", "]").Replace(string(e.Payload))]++
	}
	delete(got, "run.createdmap[]")
	for name, n := range got {
		require.Equal(t, 1, n, "%s is told once: %v", name, got)
	}
	require.Subset(t, slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(told)))
}

// requireDone requires that a run is done, that each of its phases began once and completed, and
// that the run counts its events.
func (b *fixture) requireDone(t *rapid.T, run int64, phases, events int) {
	executions, err := b.Executions(context.Background(), run)
	require.NoError(t, err)
	require.Len(t, executions, phases, "each begun once")
	for _, e := range executions {
		require.Equal(t, contract.ExecutionCompleted, e.Status)
	}
	now, err := b.Run(context.Background(), run)
	require.NoError(t, err)
	require.Equal(t, contract.StatusDone, now.Status)
	require.EqualValues(t, events, now.EventSeq)
}

// createFor creates a run for one case of a property.
func (b *fixture) createFor(t *rapid.T) store.Run {
	run, _, err := b.CreateRun(context.Background(), storetest.Filled(store.NewRun{}))
	require.NoError(t, err)
	return run
}

// recordTask sends a record as a workflow task of the run.
func (b *fixture) recordTask(task, seq int64, r contract.Record) (contract.RecordResult, error) {
	r.RunID, r.Seq, r.Task, r.At = b.First.ID, seq, task, time.Now()
	return b.Record(context.Background(), b.Source(), r)
}

func began(phase contract.Phase) contract.Record {
	return contract.Record{
		Run: &contract.RunChange{Phase: phase, Status: phase.Running()}, Begin: &contract.ExecutionBegin{Phase: phase, Agent: contract.AgentOf(phase)},
		Events: []contract.EventDraft{{Type: phase.Started()}},
	}
}

func pauses() contract.Record {
	return contract.Record{Run: &contract.RunChange{Status: contract.StatusPaused}, Events: []contract.EventDraft{
		{Type: contract.EventRunUpdated, Payload: map[string]any{"status": "paused", "by": "ann"}},
	}}
}

func TestAPauseWithTheNumberOfALostRecordIsRecordedAndThePhaseStartsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.recordTask(3, 1, began(contract.PhasePlanner))
	require.NoError(t, err)
	_, err = b.recordTask(7, 1, pauses())
	require.NoError(t, err)
	require.Equal(t, contract.StatusPaused, b.status(t))
	anew := began(contract.PhasePlanner)
	anew.Begin.Model = contract.ModelChoice{Provider: "scripted", Model: "other"}
	second, err := b.recordTask(7, 2, anew)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Equal(t, contract.PhasePlanner.Running(), b.status(t))
	repeated, err := b.recordTask(7, 2, anew)
	require.NoError(t, err)
	require.Equal(t, first, repeated)
	require.Len(t, b.all(t), 3, "created, started, paused")
	requireGapless(t, b.all(t))
	executions, err := b.Executions(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Len(t, executions, 1)
	require.Equal(t, "other", executions[0].Model, "of now")
	require.Zero(t, b.lostRecords(t))
}

func (b *fixture) lostRecords(t *testing.T) (n int) {
	t.Helper()
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, "SELECT count(*) FROM orchestrator_records WHERE seq < 0").Scan(&n))
	})
	return n
}

func TestWhatAForgottenRecordBeganEndsWithItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.recordTask(3, 1, began(contract.PhasePlanner))
	require.NoError(t, err)
	_, err = b.ReserveCall(t.Context(), reservation(first.Execution, 1))
	require.NoError(t, err)
	for range 2 {
		_, err = b.recordTask(7, 1, over())
		require.NoError(t, err)
		details, err := b.RunDetails(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, contract.StatusCancelled, details.Status)
		require.Equal(t, contract.ExecutionCancelled, details.Executions[0].Status)
		require.Equal(t, contract.ExecutionCancelled, details.Phases[0].Status)
		calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Equal(t, "failed", calls[0].Status)
		// As if the first one had died between the record and the calls.
		_, err = b.ReserveCall(t.Context(), reservation(first.Execution, 1))
		require.NoError(t, err)
	}
}

// TestAStepThatNoHistoryKnowsEndsWithItsRun is about steps that are parts of their run's workflow: they number
// their records by themselves, so no other record takes the number of one that is in no history.
func TestAStepThatNoHistoryKnowsEndsWithItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := b.Source().WorkflowRunID
	ended, err := b.part(own, 3, "ended", "")
	require.NoError(t, err)
	_, err = b.Record(t.Context(), store.Source{WorkflowID: contract.StepWorkflowID(b.First.ID, "ended"), WorkflowRunID: own}, contract.Record{
		RunID: b.First.ID, Seq: 2, Task: 3, At: time.Now(),
		End: &contract.ExecutionEnd{ExecutionID: ended.Execution.ID, Status: contract.ExecutionCompleted}, EndEvents: 1, Events: []contract.EventDraft{{Type: contract.EventStepCompleted}},
	})
	require.NoError(t, err)
	lost, err := b.part(own, 3, "lost", "")
	require.NoError(t, err)
	_, err = b.ReserveCall(t.Context(), reservation(lost.Execution, 1))
	require.NoError(t, err)
	_, err = b.recordTask(7, 1, over())
	require.NoError(t, err)
	require.Equal(t, map[int64]contract.ExecutionStatus{ended.Execution.ID: contract.ExecutionCompleted, lost.Execution.ID: contract.ExecutionCancelled}, b.statusOf(t))
	calls, err := b.Store.ModelCalls(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, "failed", calls[0].Status, "its reservation is released")
}

// part sends the record with which a step begins that is a part of its run's workflow.
func (b *fixture) part(workflowRun string, task int64, step, with string) (contract.RecordResult, error) {
	return b.Record(context.Background(), store.Source{WorkflowID: contract.StepWorkflowID(b.First.ID, step), WorkflowRunID: workflowRun}, contract.Record{
		RunID: b.First.ID, Seq: 1, Task: task, At: time.Now(),
		Begin:  &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: step, Agent: contract.AgentBuilder, With: with},
		Events: []contract.EventDraft{{Type: contract.EventStepStarted, Payload: map[string]any{"step": step}}},
	})
}

func (b *fixture) statusOf(t *testing.T) map[int64]contract.ExecutionStatus {
	t.Helper()
	executions, err := b.Executions(t.Context(), b.First.ID)
	require.NoError(t, err)
	status := map[int64]contract.ExecutionStatus{}
	for _, e := range executions {
		status[e.ID] = e.Status
	}
	return status
}

// over is the record of a run's end.
func over() contract.Record {
	return contract.Record{Run: &contract.RunChange{Status: contract.StatusCancelled, Finished: true}, Events: []contract.EventDraft{{Type: contract.EventRunFailed}}}
}

func TestAStepThatBeginsAgainWithAnotherPlanIsAnotherExecution(t *testing.T) {
	t.Parallel()
	b := setup(t)
	own := b.Source().WorkflowRunID
	lost, err := b.part(own, 3, "s", "plan 1")
	require.NoError(t, err)
	same, err := b.part(own, 7, "s", "plan 1")
	require.NoError(t, err)
	require.Equal(t, lost.Execution, same.Execution, "the same work is found again")
	other, err := b.part(own, 7, "s", "plan 2")
	require.NoError(t, err)
	require.NotEqual(t, lost.Execution.ID, other.Execution.ID)
	require.Equal(t, 2, other.Execution.Attempt)
	_, err = b.recordTask(9, 1, over())
	require.NoError(t, err)
	require.Equal(t, map[int64]contract.ExecutionStatus{lost.Execution.ID: contract.ExecutionCancelled, other.Execution.ID: contract.ExecutionCancelled}, b.statusOf(t))
}

func TestAStepThatNoHistoryKnowsEndsWithItsRunInAnotherHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lost, err := b.part("earlier", 3, "s", "")
	require.NoError(t, err)
	_, err = b.recordTask(3, 1, over())
	require.NoError(t, err)
	require.Equal(t, map[int64]contract.ExecutionStatus{lost.Execution.ID: contract.ExecutionCancelled}, b.statusOf(t))
}

func TestAWorkerThatWasOvertakenBeginsNoStepAfterTheEndOfItsRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.recordTask(7, 1, over())
	require.NoError(t, err)
	_, err = b.part(b.Source().WorkflowRunID, 3, "s", "")
	require.Equal(t, contract.CodeWorkerLost, fault.Of(err).Code)
	require.Empty(t, b.statusOf(t))
	again, err := b.part(b.Source().WorkflowRunID, 9, "s", "")
	require.NoError(t, err, "the end itself may be in no history")
	require.NotZero(t, again.Execution.ID)
}

func TestAStepThatEndedInALostRecordIsNotRecordedWithAnotherEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	step := contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}}
	begun, err := b.recordTask(3, 1, step)
	require.NoError(t, err)
	ends := func(status contract.ExecutionStatus, kind contract.EventType) contract.Record {
		return contract.Record{
			End: &contract.ExecutionEnd{ExecutionID: begun.Execution.ID, Status: status}, EndEvents: 1, Events: []contract.EventDraft{{Type: kind}},
		}
	}
	_, err = b.recordTask(7, 2, ends(contract.ExecutionCompleted, contract.EventStepCompleted))
	require.NoError(t, err)
	_, err = b.recordTask(11, 2, ends(contract.ExecutionCancelled, contract.EventStepError)) // repeated, together with a stop
	require.NoError(t, err)
	executions, err := b.Executions(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, contract.ExecutionCompleted, executions[0].Status)
	require.Len(t, b.all(t), 2, "created, completed")
}

func TestWhatWasBeforeAPhaseIsWrittenOnceWhateverIsRepeated(t *testing.T) {
	t.Parallel()
	ready := contract.EventDraft{Type: contract.EventEnvironmentReady}
	together := began(contract.PhasePlanner)
	together.EndEvents, together.Events = 1, append([]contract.EventDraft{ready}, together.Events...)
	apart := contract.Record{Run: &contract.RunChange{Status: contract.StatusPaused}, EndEvents: 1, Events: []contract.EventDraft{ready}}
	for name, repeated := range map[string][2][]contract.Record{
		"as before":            {{together}, {together}},
		"then after a pause":   {{together}, {apart, began(contract.PhasePlanner)}},
		"then without it":      {{apart, began(contract.PhasePlanner)}, {together}},
		"apart, by its number": {{apart, began(contract.PhasePlanner)}, {pauses(), apart, began(contract.PhasePlanner)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for attempt, records := range repeated {
				for i, r := range records {
					_, err := b.recordTask(int64(3+4*attempt), int64(1+i), r)
					require.NoError(t, err)
				}
			}
			kinds := map[contract.EventType]int{}
			for _, e := range b.all(t) {
				kinds[e.Type]++
			}
			require.Equal(t, 1, kinds[contract.EventEnvironmentReady])
			require.Equal(t, 1, kinds[contract.PhasePlanner.Started()])
			executions, err := b.Executions(t.Context(), b.First.ID)
			require.NoError(t, err)
			require.Len(t, executions, 1)

			again := together
			again.RunID, again.Seq, again.At = b.First.ID, 1, time.Now()
			_, err = b.Record(t.Context(), store.Source{WorkflowID: b.Source().WorkflowID, WorkflowRunID: "reset"}, again)
			require.NoError(t, err)
			kinds = map[contract.EventType]int{}
			for _, e := range b.all(t) {
				kinds[e.Type]++
			}
			require.Equal(t, 1, kinds[contract.EventEnvironmentReady], "a reset workflow does not repeat the preparation")
			require.Equal(t, 2, kinds[contract.PhasePlanner.Started()])
		})
	}
}

func TestAnApprovalThatEndedInAForgottenRecordIsAnswered(t *testing.T) {
	t.Parallel()
	b := setup(t)
	asks := contract.Record{
		Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusWaitingForApproval}, Notes: map[string]string{"id": "release-1", "kind": "release", "status": "pending"},
	}
	_, err := b.recordTask(3, 1, asks)
	require.NoError(t, err)
	_, err = b.recordTask(7, 2, contract.Record{Run: &contract.RunChange{Status: contract.StatusCancelled, Finished: true}, Events: []contract.EventDraft{{Type: contract.EventRunFailed}}})
	require.NoError(t, err)
	_, err = b.recordTask(11, 2, contract.Record{
		Run: &contract.RunChange{Status: contract.PhaseReleaser.Running()}, Notes: map[string]string{"id": "release-1", "status": "granted", "by": "ann"},
		Events: []contract.EventDraft{{Type: contract.EventApprovalGranted}},
	})
	require.NoError(t, err)
	details, err := b.RunDetails(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, contract.PhaseReleaser.Running(), details.Status)
	require.Equal(t, []string{"granted", "ann"}, []string{details.Approvals[0].Status, details.Approvals[0].By})
}

func TestARunWhoseEndRecordWasLostContinues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.recordTask(3, 1, began(contract.PhasePlanner))
	require.NoError(t, err)
	over := contract.Record{
		Run: &contract.RunChange{Status: contract.StatusFailed, Finished: true}, Events: []contract.EventDraft{{Type: contract.EventRunFailed}},
		End: &contract.ExecutionEnd{ExecutionID: first.Execution.ID, Status: contract.ExecutionFailed},
	}
	_, err = b.recordTask(7, 2, over)
	require.NoError(t, err)
	_, err = b.recordTask(11, 2, began(contract.PhaseBuilder))
	require.NoError(t, err)
	require.Equal(t, contract.PhaseBuilder.Running(), b.status(t))
	_, err = b.recordTask(15, 3, over)
	require.NoError(t, err)
	require.Equal(t, contract.StatusFailed, b.status(t))
	require.Len(t, b.all(t), 4, "created, two phases, one end")
}

func TestAWorkerWhoseTaskIsDoneAgainElsewhereChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := b.recordTask(3, 1, began(contract.PhasePlanner))
	require.NoError(t, err)
	_, err = b.recordTask(7, 1, pauses())
	require.NoError(t, err)
	before := b.all(t)
	_, err = b.recordTask(3, 1, began(contract.PhasePlanner)) // its number belongs to another one
	require.NoError(t, err)
	_, err = b.recordTask(3, 2, began(contract.PhaseBuilder))
	require.ErrorContains(t, err, "another worker has taken over")
	require.Equal(t, contract.ClassInfra, fault.Of(err).Class)
	require.Equal(t, before, b.all(t))
	require.Equal(t, contract.StatusPaused, b.status(t))
}

func TestTwoWorkersThatExecuteTheSameTaskRecordItOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		b := setup(t)
		phases := contract.Phases()
		zombie := func(ctx context.Context) error { // its task has timed out, but it does not know that
			for i, p := range phases {
				if _, err := b.recordTask(3, int64(i+1), began(p)); err != nil {
					require.ErrorContains(t, err, "another worker has taken over")
					return nil
				}
			}
			return ctx.Err()
		}
		results := map[contract.Phase]contract.ExecutionRef{}
		live := func(ctx context.Context) error {
			for i, r := range append([]contract.Record{pauses()}, began(phases[0]), began(phases[1]), began(phases[2]), began(phases[3])) {
				result, err := b.recordTask(7, int64(i+1), r)
				if err != nil {
					return err
				}
				if r.Begin != nil {
					results[r.Begin.Phase] = result.Execution
				}
			}
			return ctx.Err()
		}
		var g errgroup.Group
		g.Go(func() error { return zombie(t.Context()) })
		g.Go(func() error { return live(t.Context()) })
		require.NoError(t, g.Wait())
		events := b.all(t)
		requireGapless(t, events)
		require.Len(t, events, 6, "created, paused, four phases")
		executions, err := b.Executions(t.Context(), b.First.ID)
		require.NoError(t, err)
		require.Len(t, executions, 4)
		for _, e := range executions {
			require.Equal(t, e.ExecutionRef, results[e.Phase])
		}
		require.Equal(t, phases[3].Running(), b.status(t))
	}
}

func TestRecordsOfReconcilersAndOfOlderWorkersAreRepeatsWhateverTheySay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.recordTask(0, 1, began(contract.PhasePlanner))
	require.NoError(t, err)
	second, err := b.recordTask(7, 1, pauses())
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.Len(t, b.all(t), 2)
}

func TestForgottenRecordsAreLookedForByIndexesAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `INSERT INTO orchestrator_records (workflow_id, workflow_run_id, seq, run_id, result, signature, task)
			SELECT 'run-' || w, 'first', n, $1, '{}', '|x ', n FROM generate_series(1, 200) w, generate_series(1, 100) n`, b.First.ID)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "ANALYZE orchestrator_records")
		require.NoError(t, err)
		for _, lookup := range []struct{ index, sql string }{
			{"pkey", "SELECT seq FROM orchestrator_records WHERE workflow_id = 'run-7' AND workflow_run_id = 'first' AND seq = 50 AND signature NOT IN ('', 'y') AND task BETWEEN 1 AND 90"},
			{"forgotten", "SELECT seq FROM orchestrator_records WHERE workflow_id = 'run-7' AND workflow_run_id = 'first' AND seq < 0 ORDER BY seq DESC LIMIT 1"},
			{"pkey", "SELECT seq, task FROM orchestrator_records WHERE workflow_id = 'run-7' AND workflow_run_id = 'first' AND seq > 0 AND seq < 99 ORDER BY seq DESC LIMIT 1"},
		} {
			rows, err := conn.Query(ctx, "EXPLAIN "+lookup.sql)
			require.NoError(t, err)
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.Contains(t, strings.Join(plan, "\n"), "using orchestrator_records_"+lookup.index)
		}
	})
}
