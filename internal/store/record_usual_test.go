package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// twins are two databases in which the same happens, so that rows have the same ids: in the first, RecordUsual is
// tried, in the second, Record covers everything.
type twins struct {
	databases [2]*fixture
	listeners [2]*pgx.Conn
	run       store.Run
	other     contract.ExecutionRef // of another run

	seqs       map[store.Source]int64 // of the last record
	task       int64
	turn       int
	sent       []sentRecord
	executions []contract.ExecutionRef
}

type sentRecord struct {
	from store.Source
	r    contract.Record
}

// draw returns one of the choices, each as often as it is among them.
func draw[T any](t *rapid.T, label string, choices ...T) T {
	return choices[rapid.Uint64().Draw(t, label)%uint64(len(choices))]
}

// oneIn reports what happens once in n times.
func oneIn(t *rapid.T, n uint64, label string) bool {
	return rapid.Uint64().Draw(t, label)%n == n-1
}

// next returns a record of a run's workflow, of a step that is a part of it, or of a workflow that has been reset:
// mostly the one that follows, but also repeats, late ones, and those of workers that were overtaken.
func (w *twins) next(t *rapid.T) (store.Source, contract.Record) {
	if len(w.sent) > 0 && oneIn(t, 6, "again") {
		s := w.sent[rapid.Uint64().Draw(t, "which")%uint64(len(w.sent))]
		s.r.Task = draw(t, "task again", s.r.Task, w.task)
		if oneIn(t, 2, "under another number") {
			w.seqs[s.from]++
			s.r.Seq = w.seqs[s.from]
		}
		return s.from, s.r
	}
	own := contract.RunWorkflowID(w.run.ID)
	from := store.Source{
		WorkflowID:    draw(t, "workflow", own, own, contract.StepWorkflowID(w.run.ID, "a"), contract.StepWorkflowID(w.run.ID, "b")),
		WorkflowRunID: draw(t, "workflow run", "first", "first", "first", "first", "first", "first", "first", "first", "first", "second"),
	}
	if oneIn(t, 10, "another task") {
		w.task = max(1, w.task+draw(t, "task", int64(4), 4, -4))
	}
	r := contract.Record{RunID: w.run.ID, Task: w.task, At: time.Date(2026, 1, 2, 3, 4, len(w.sent), 0, time.UTC)}
	if oneIn(t, 12, "unknown task") {
		r.Task = 0
	}
	r.Seq = max(1, w.seqs[from]+draw[int64](t, "number", 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, -1, 2))
	w.seqs[from] = max(w.seqs[from], r.Seq)
	w.content(t, &r)
	return from, r
}

// content fills a record.
func (w *twins) content(t *rapid.T, r *contract.Record) {
	if oneIn(t, 2, "changes the run") {
		r.Run = w.change(t)
	}
	if oneIn(t, 3, "begins") {
		phase := draw(t, "phase", append(contract.Phases(), contract.PhaseBuilder, contract.PhaseBuilder, contract.PhaseBuilder)...)
		r.Begin = &contract.ExecutionBegin{
			Phase: phase, Step: draw(t, "step", "", "", "a", "b"), Agent: contract.AgentOf(phase),
			Model: contract.ModelChoice{Provider: "scripted", Model: draw(t, "model", "m", "n")},
		}
	}
	if oneIn(t, 3, "ends") {
		r.End = w.end(t)
	}
	for i := range draw(t, "events", 0, 1, 1, 2, 3) {
		r.Events = append(r.Events, contract.EventDraft{
			Type:    draw(t, "type", contract.EventRunUpdated, contract.EventStepStarted, contract.EventStepCompleted),
			Payload: draw[any](t, "payload", nil, map[string]any{"n": i}, json.RawMessage("null")),
		})
	}
	if len(r.Events) > 0 {
		r.EndEvents = draw(t, "events of the end", 0, 0, 1)
	}
	switch {
	case oneIn(t, 30, "heals"):
		r.Heals = []contract.HealNote{{
			Number: 1, Status: draw(t, "heal", contract.HealStarted, contract.HealSuccess), Phase: contract.PhaseBuilder,
			ErrorType: contract.ClassLLM, Action: "correct_json",
		}}
	case oneIn(t, 30, "asks"):
		r.Interventions = []contract.InterventionNote{{Number: 1, Status: draw(t, "intervention", "open", "resolved"), Reason: "no quota", ActionRequired: "wait"}}
	case oneIn(t, 20, "approval"):
		r.Notes = map[string]string{"id": "release", "kind": "release", "status": draw(t, "approval status", "pending", "granted"), "subject": draw(t, "subject", "a", "b")}
	}
}

func (w *twins) change(t *rapid.T) *contract.RunChange {
	phase := draw(t, "run's phase", append(contract.Phases(), "")...)
	c := &contract.RunChange{Phase: phase, Status: contract.StatusPaused, RetryCount: draw(t, "retries", 0, 1)}
	if phase != "" {
		c.Status = phase.Running()
	}
	if oneIn(t, 4, "fails") {
		c.Failure = &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: "no JSON", Cause: "a poem"}
	}
	if oneIn(t, 4, "more") {
		c.LastHealAction, c.WaitingFor, c.Branch, c.Commit, c.PlanID = "correct_json", "release", "rgpt/run", "c0ffee", 7
	}
	switch {
	case oneIn(t, 25, "is over"):
		c.Status, c.Finished = draw(t, "outcome", contract.StatusDone, contract.StatusFailed), true
	case oneIn(t, 40, "is over without an end"):
		c.Status = contract.StatusCancelled
	case oneIn(t, 40, "is invalid"):
		c.Status = "dreaming"
	}
	if oneIn(t, 15, "stays") { // perhaps with an end that the status does not show
		until := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
		c.Staying, c.StayingUntil, c.Finished = true, &until, c.Finished || oneIn(t, 2, "is finished")
	}
	return c
}

// end ends an execution of the run, mostly, which may have ended, one of another run, or one that does not exist.
func (w *twins) end(t *rapid.T) *contract.ExecutionEnd {
	id := draw(t, "other execution", w.other.ID, 4711, 0)
	if n := len(w.executions); n > 0 && !oneIn(t, 12, "not its own") {
		id = w.executions[n-1-int(rapid.Uint64().Draw(t, "execution")%uint64(min(n, 3)))].ID
	}
	e := &contract.ExecutionEnd{ExecutionID: id, Status: draw(t, "end", contract.ExecutionCompleted, contract.ExecutionCompleted, contract.ExecutionFailed)}
	if e.Status == contract.ExecutionFailed {
		e.Failure = &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: "no JSON", Cause: "a poem"}
	}
	if oneIn(t, 2, "output") {
		e.Output = raw(`{"of": %d}`, id)
	}
	return e
}

// calls makes a model call of an execution, which stays open or is completed, perhaps by its second attempt, while the
// outcome of the first one is unknown.
func (w *twins) calls(t *rapid.T) {
	if len(w.executions) == 0 {
		return
	}
	execution, completes, again := w.executions[len(w.executions)-1], !oneIn(t, 3, "stays open"), oneIn(t, 4, "second attempt")
	w.turn++
	for _, b := range w.databases {
		r := store.Reservation{Execution: execution, Turn: w.turn, Provider: "scripted", Model: "m", Prompt: 50}
		got, err := b.ReserveCall(context.Background(), r)
		require.NoError(t, err)
		if again {
			got, err = b.ReserveCall(context.Background(), r)
			require.NoError(t, err)
		}
		if completes {
			u := contract.Usage{PromptTokens: 30, CompletionTokens: 7, MicroUSD: 11, EstimatedPrice: w.turn%2 == 0}
			require.NoError(t, b.CompleteCall(context.Background(), got.ID, u, time.Second, raw(`{}`), nil))
		}
	}
}

// createRun creates the same run in both databases.
func (w *twins) createRun(t *rapid.T) store.Run {
	run, same := w.databases[0].createFor(t), w.databases[1].createFor(t)
	require.Equal(t, run.ID, same.ID)
	return run
}

// rows returns what a case has left in a database, without times of the database and ids that errors use up.
func (w *twins) rows(t *rapid.T, i int) map[string][]string {
	out := map[string][]string{}
	for table, order := range map[string]string{
		"runs": "t.id", "executions": "t.id", "phases": "t.execution_id", "events": "t.seq", "records": "t.workflow_id, t.workflow_run_id, t.seq",
		"model_calls": "t.execution_id, t.turn", "approvals": "t.subject, t.asked", "self_heal_events": "t.number, t.execution_id",
		"manual_interventions": "t.number, t.workflow_run_id",
	} {
		key, without := "t.run_id", "'created_at' - 'updated_at'"
		switch table {
		case "runs":
			key = "t.id"
		case "events":
			without += " - 'id' - 'tx'"
		case "self_heal_events", "manual_interventions":
			without += " - 'id'"
		case "model_calls":
			without += " - 'started_at' - 'finished_at'"
		}
		rows, err := w.listeners[i].Query(context.Background(), fmt.Sprintf(
			"SELECT (to_jsonb(t) - %s)::text FROM orchestrator_%s t WHERE %s = $1 ORDER BY %s", without, table, key, order), w.run.ID)
		require.NoError(t, err)
		out[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
	}
	return out
}

// notified returns what a database has notified its listeners of since the last time.
func (w *twins) notified(t *rapid.T, i int) (payloads []string) {
	_, err := w.listeners[i].Exec(context.Background(), "SELECT pg_notify('rgpt_events', 'until here')")
	require.NoError(t, err)
	for {
		n, err := w.listeners[i].WaitForNotification(context.Background())
		require.NoError(t, err)
		if n.Payload == "until here" {
			return payloads
		}
		payloads = append(payloads, n.Payload)
	}
}

// TestAUsualRecordAndRecordLeaveTheSameRows records the same in two databases, in one of which RecordUsual is tried, and
// requires the same results, errors, notifications and rows.
func TestAUsualRecordAndRecordLeaveTheSameRows(t *testing.T) {
	t.Parallel()
	w := &twins{databases: [2]*fixture{setup(t), setup(t)}}
	usual, finished, declined, unusual := 0, 0, 0, 0
	for i, b := range w.databases {
		conn, err := pgx.Connect(t.Context(), b.URL)
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		_, err = conn.Exec(t.Context(), "LISTEN rgpt_events")
		require.NoError(t, err)
		w.listeners[i] = conn
		w.other = b.begin(t, contract.PhasePlanner, "")
	}
	rapid.Check(t, func(t *rapid.T) {
		w.run, w.seqs, w.task, w.turn, w.sent, w.executions = w.createRun(t), map[store.Source]int64{}, 3, 0, nil, nil
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			if oneIn(t, 5, "calls") {
				w.calls(t)
			}
			if oneIn(t, 20, "artifact") { // another writer of events
				for _, b := range w.databases {
					require.NoError(t, b.AddArtifacts(context.Background(), w.run.ID, []contract.Artifact{{Name: fmt.Sprint(len(w.sent)), Type: contract.ArtifactLog, Digest: "sha256:00"}}))
				}
			}
			from, r := w.next(t)
			tried, was, err := w.databases[0].RecordReporting(context.Background(), from, r)
			want, wantErr := w.databases[1].RecordInFull(context.Background(), from, r)
			switch {
			case err == nil && was:
				usual++
				if r.Run != nil && r.Run.Finished {
					finished++
				}
			case store.IsUsual(r):
				declined++
			default:
				unusual++
			}
			require.Equal(t, want, tried, "%+v", r)
			if wantErr != nil {
				require.EqualError(t, err, wantErr.Error())
				require.Equal(t, fault.Of(wantErr), fault.Of(err))
				continue
			}
			require.NoError(t, err)
			w.sent = append(w.sent, sentRecord{from, r})
			if id := tried.Execution.ID; id != 0 && !slices.ContainsFunc(w.executions, func(e contract.ExecutionRef) bool { return e.ID == id }) {
				w.executions = append(w.executions, tried.Execution)
			}
		}
		got := w.rows(t, 0)
		for table, rows := range w.rows(t, 1) {
			require.Equal(t, rows, got[table], table)
		}
		require.Equal(t, w.notified(t, 1), w.notified(t, 0))
	})
	t.Logf("usual: %d, of which %d finish the run, declined: %d, unusual by their content: %d", usual, finished, declined, unusual)
	require.Greater(t, usual, 50)
	require.Greater(t, declined, 50)
	require.Positive(t, unusual)
}

func TestARecordThatFinishesARunIsUsualIfNothingOfTheRunIsLeftOpen(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, b *fixture, e contract.ExecutionRef){
		"":                  nil,
		"another execution": func(t *testing.T, b *fixture, _ contract.ExecutionRef) { b.begin(t, contract.PhaseBuilder, "s1") },
		"a model call of another": func(t *testing.T, b *fixture, _ contract.ExecutionRef) {
			other := b.begin(t, contract.PhaseBuilder, "s1")
			_, err := b.ReserveCall(t.Context(), store.Reservation{Execution: other, Turn: 1, Provider: "scripted", Model: "m", Prompt: 50})
			require.NoError(t, err)
			execute(t, b.URL, fmt.Sprintf("UPDATE orchestrator_executions SET status = 'failed' WHERE id = %d", other.ID))
		},
		"an approval": func(t *testing.T, b *fixture, _ contract.ExecutionRef) {
			b.Apply(t, contract.Record{Notes: map[string]string{"id": "release", "kind": "release", "status": "pending", "subject": "a"}})
		},
		"an intervention": func(t *testing.T, b *fixture, _ contract.ExecutionRef) {
			b.Apply(t, contract.Record{Interventions: []contract.InterventionNote{{Number: 1, Status: "open", Reason: "no quota", ActionRequired: "wait"}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := b.begin(t, contract.PhaseReleaser, "")
			if open != nil {
				open(t, b, e)
			}
			r := contract.Record{
				RunID: b.First.ID, Seq: 100, Task: 3, At: time.Now(),
				Run: &contract.RunChange{Phase: contract.PhaseReleaser, Status: contract.StatusDone, Finished: true},
				End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted},
			}
			_, usual, err := b.RecordReporting(t.Context(), b.Source(), r)
			require.NoError(t, err)
			require.Equal(t, open == nil, usual)
			run, err := b.Run(t.Context(), b.First.ID)
			require.NoError(t, err)
			require.Equal(t, contract.StatusDone, run.Status)
			require.NotNil(t, run.FinishedAt)
		})
	}
}

// BenchmarkUsualRecord applies the records of a step, which begins and ends, by turns with and without RecordUsual, so
// that both meet the same load of the machine. On a loaded one, the CPU time of PostgreSQL says more than the time.
func BenchmarkUsualRecord(b *testing.B) {
	type path struct {
		*fixture
		name   string
		record func(context.Context, store.Source, contract.Record) (contract.RecordResult, error)
		seq    int64
		took   time.Duration
		cpu    time.Duration
	}
	first, second := setup(b), setup(b)
	paths := []*path{
		{fixture: first, name: "usual", record: first.Record},
		{fixture: second, name: "in-full", record: second.RecordInFull},
	}
	for _, p := range paths {
		p.cpu = -backendCPU(b, p.URL)
	}
	for b.Loop() {
		for _, p := range paths {
			apply := func(r contract.Record) contract.RecordResult {
				p.seq++
				r.RunID, r.Seq, r.Task, r.At = p.First.ID, p.seq, 3, time.Now()
				result, err := p.record(b.Context(), p.Source(), r)
				p.took += time.Since(r.At)
				require.NoError(b, err)
				return result
			}
			begun := apply(contract.Record{
				Run:    &contract.RunChange{Phase: contract.PhaseBuilder, Status: contract.PhaseBuilder.Running()},
				Begin:  &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: fmt.Sprint("step-", p.seq), Agent: contract.AgentBuilder},
				Events: storetest.Drafts(2),
			})
			apply(contract.Record{
				End:    &contract.ExecutionEnd{ExecutionID: begun.Execution.ID, Status: contract.ExecutionCompleted, Output: raw(`{"files": 3}`)},
				Events: storetest.Drafts(1), EndEvents: 1,
			})
		}
	}
	for _, p := range paths {
		p.cpu += backendCPU(b, p.URL)
		b.ReportMetric(float64(p.took.Microseconds())/float64(p.seq), "µs/"+p.name)
		b.ReportMetric(float64(p.cpu.Microseconds())/float64(p.seq), "cpu-µs/"+p.name)
	}
}

// backendCPU returns the CPU time of the connections of a store to its database, if its server runs on this machine.
func backendCPU(b *testing.B, url string) (sum time.Duration) {
	b.Helper()
	storetest.Query(b, url, func(ctx context.Context, conn *pgx.Conn) {
		rows, err := conn.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		require.NoError(b, err)
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		require.NoError(b, err)
		for _, pid := range pids {
			var nanoseconds int64
			// In a container, the server's processes have other numbers.
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)); err == nil {
				_, err = fmt.Sscan(string(stat), &nanoseconds)
				require.NoError(b, err)
			}
			sum += time.Duration(nanoseconds)
		}
	})
	return sum
}
