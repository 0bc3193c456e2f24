package views_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

// talkative creates a run of that many steps, which began at once and each of which has
// that many messages, alternating.
func talkative(tb testing.TB, s *storetest.Fixture, steps, turns int) (int64, []store.Execution) {
	tb.Helper()
	run, _, err := s.CreateRun(tb.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{Repo: contract.Repo{URL: "/r", Base: "b", Tree: "t"}}})
	require.NoError(tb, err)
	var ids []contract.ExecutionRef
	for i := range steps {
		out, err := s.Record(tb.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "first"}, contract.Record{
			RunID: run.ID, Seq: int64(i + 1), Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: fmt.Sprintf("step-%03d", i), Agent: contract.AgentBuilder},
		})
		require.NoError(tb, err)
		ids = append(ids, out.Execution)
		said, err := json.Marshal(map[string]string{"role": "system", "text": fmt.Sprintf("You are builder %d", i)})
		require.NoError(tb, err)
		require.NoError(tb, s.OpenConversation(tb.Context(), out.Execution.ID, []store.Message{{Role: "system", Content: said}, {Role: "user", Content: said}}))
	}
	for turn := 1; turn <= turns; turn++ {
		for i, e := range ids {
			ok := (turn+i)%7 != 0
			said, err := json.Marshal(map[string]string{"role": "tool", "text": fmt.Sprintf("answer %d of %d\nNEEDLE-%d", turn, i, turn*i)})
			require.NoError(tb, err)
			_, err = s.SaveToolResult(tb.Context(), e.ID, turn, 0, store.ToolCall{
				Tool: "read_file", Outcome: contract.ToolOutcome{OK: ok}, StartedAt: time.Now(), FinishedAt: time.Now(),
			}, store.Message{Role: "tool", Content: said})
			require.NoError(tb, err)
		}
	}
	executions, err := s.LogExecutions(tb.Context(), run.ID)
	require.NoError(tb, err)
	require.Len(tb, executions, steps)
	return run.ID, executions
}

// everything reads a whole log in windows.
func everything(tb testing.TB, s *storetest.Fixture, q views.LogQuery) (keys []views.LogKey) {
	tb.Helper()
	q.From = views.LogStart
	if q.Back {
		q.From = views.LogStop
	}
	for pages := 0; ; pages++ {
		require.Less(tb, pages, 1000)
		w, err := s.LogWindow(tb.Context(), q)
		require.NoError(tb, err)
		require.LessOrEqual(tb, len(w.Keys), q.Most)
		require.True(tb, slices.IsSortedFunc(w.Keys, views.LogKey.Compare), "in the order of time")
		if q.Back {
			keys = append(slices.Clone(w.Keys), keys...)
		} else {
			keys = append(keys, w.Keys...)
		}
		if !w.More {
			return keys
		}
		q.From = w.Next
	}
}

func TestALogIsReadInWindowsInBothDirectionsWithoutGapOrDouble(t *testing.T) {
	t.Parallel()
	s := storetest.Setup(t)
	const steps, turns = 40, 9 // more parallel steps than are read together
	_, executions := talkative(t, s, steps, turns)
	for _, most := range []int{3, 50, 1000} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			keys := everything(t, s, views.LogQuery{Executions: executions, Most: most, Scan: 100})
			require.Len(t, keys, steps*(turns+2))
			require.True(t, slices.IsSortedFunc(keys, views.LogKey.Compare))
			require.Len(t, slices.Compact(slices.Clone(keys)), len(keys), "none is there twice")
			require.Equal(t, keys, everything(t, s, views.LogQuery{Executions: executions, Back: true, Most: most, Scan: 100}), "the other way")
			texts, err := s.LogTexts(t.Context(), keys, 5)
			require.NoError(t, err)
			require.Len(t, texts, len(keys), "each place has its message")
			require.Equal(t, "answe", texts[keys[len(keys)-1]].Text, "cut")
			require.Equal(t, 2, texts[keys[len(keys)-1]].Lines)
		})
	}
}

func TestALogIsSearchedPieceByPiece(t *testing.T) {
	t.Parallel()
	s := storetest.Setup(t)
	const steps, turns = 36, 7
	_, executions := talkative(t, s, steps, turns)
	for name, c := range map[string]struct {
		query views.LogQuery
		want  func(turn, step int) bool // of the tools' answers
	}{
		"text":            {views.LogQuery{Text: "needle-12"}, func(turn, i int) bool { return strings.HasPrefix(fmt.Sprint(turn*i), "12") }},
		"role":            {views.LogQuery{Role: "tool"}, func(int, int) bool { return true }},
		"errors":          {views.LogQuery{Errors: true}, func(turn, i int) bool { return (turn+i)%7 == 0 }},
		"nothing":         {views.LogQuery{Text: "no such thing"}, func(int, int) bool { return false }},
		"text and role":   {views.LogQuery{Text: "builder", Role: "tool"}, func(int, int) bool { return false }},
		"checks, of none": {views.LogQuery{Role: views.LogRoleCheck}, func(int, int) bool { return false }},
	} {
		for _, back := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/back=%t", name, back), func(t *testing.T) {
				t.Parallel()
				want := 0
				for turn := 1; turn <= turns; turn++ {
					for i := range steps {
						if c.want(turn, i) {
							want++
						}
					}
				}
				q := c.query
				q.Executions, q.Back, q.Most, q.Scan = executions, back, 5, 60
				require.Len(t, everything(t, s, q), want)
			})
		}
	}
}

func TestAChecksOutputAndAnExecutionsEndStandInTheLog(t *testing.T) {
	t.Parallel()
	s := storetest.Setup(t)
	run, executions := talkative(t, s, 1, 2)
	e := executions[0].ExecutionRef
	require.NoError(t, s.SaveCheck(t.Context(), e, "test-go", contract.CheckResult{Check: contract.Check{ID: "test-go", Category: contract.CategoryTest}, Message: "red"}, nil, nil, ""))
	_, err := s.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "first"}, contract.Record{
		RunID: run, Seq: 2, End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionFailed, Failure: &contract.Failure{Class: contract.ClassAssertion, Message: "red"}},
	})
	require.NoError(t, err)
	executions, err = s.LogExecutions(t.Context(), run)
	require.NoError(t, err)
	keys := everything(t, s, views.LogQuery{Executions: executions, Most: 2, Scan: 10})
	require.Len(t, keys, 6)
	errs := everything(t, s, views.LogQuery{Executions: executions, Errors: true, Most: 2, Scan: 10})
	require.Len(t, errs, 2, "the check and the end")
	outputs, err := s.LogOutputs(t.Context(), run, keys)
	require.NoError(t, err)
	require.Len(t, outputs, 1)
	for k, o := range outputs {
		require.Equal(t, "red", o.Result.Message)
		require.Contains(t, keys, k)
	}
}

func TestEventsAreReadInWindowsFromEitherEnd(t *testing.T) {
	t.Parallel()
	s := storetest.Setup(t)
	run, _ := talkative(t, s, 1, 0)
	var drafts []contract.EventDraft
	for i := range 30 {
		drafts = append(drafts, contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]string{"message": strings.Repeat("x", i)}})
	}
	_, err := s.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run), WorkflowRunID: "first"}, contract.Record{RunID: run, Seq: 2, Events: drafts})
	require.NoError(t, err)
	all, err := s.Events(t.Context(), run, 0, 1000)
	require.NoError(t, err)
	last := all[len(all)-1].Seq
	up, err := s.EventsIn(t.Context(), run, views.EventWindow{Above: 3, Upto: last, Most: 4, Cut: 100})
	require.NoError(t, err)
	require.Equal(t, []int64{4, 5, 6, 7}, []int64{up[0].Seq, up[1].Seq, up[2].Seq, up[3].Seq})
	down, err := s.EventsIn(t.Context(), run, views.EventWindow{Above: 3, Upto: last, Down: true, Most: 2, Cut: 10, Prefix: "run."})
	require.NoError(t, err)
	require.Equal(t, []int64{last, last - 1}, []int64{down[0].Seq, down[1].Seq})
	require.Len(t, down[0].Payload, 10, "cut")
	require.Nil(t, down[0].Event.Payload, "what is cut is no JSON")
	none, err := s.EventsIn(t.Context(), run, views.EventWindow{Upto: last, Most: 2, Cut: 10, Prefix: "run_"})
	require.NoError(t, err)
	require.Empty(t, none, "a prefix is no pattern")
}
