package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

const (
	// stopPoints is how many moments of a deliberation it is stopped at.
	// RGPT_STOPS says how many others; with RGPT_STRESS=full it is each of its
	// history's events.
	stopPoints = 12
	stopsEnv   = "RGPT_STOPS"
	// stopsAtOnce is how many pipelines are under way at the same time.
	stopsAtOnce = 4
	// stopTime is how long a stopped pipeline may take to end, not counting the time
	// in which its workflow tasks wait for a worker or run.
	stopTime = 10 * time.Second
)

// TestAPipelineCanBeStoppedAtEveryPointOfItsHistory lets a deliberation of each
// kind go to its end, and then others of the same kind only until their history
// is as long as told.
func TestAPipelineCanBeStoppedAtEveryPointOfItsHistory(t *testing.T) {
	t.Parallel()
	rules := append(gammaRules().Named("mediated"), talking("given-up").Named("given-up")...)
	c := &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: patientSettings + "  iterations: 4\n  recoveries: 1\n"})}
	for _, name := range []string{"mediated", "given-up"} {
		r, result := c.spawned(t, name)
		require.Equal(t, exitConsensus, r.Code, "%s", r)
		whole := len(c.PipelineHistories(t, c.pipeline(t, result.Pipelines[0]))[0].Events)
		stops := c.stopsAt(t, name, stepSize(t, whole), whole)
		kept := map[contract.PipelineStatus]int{}
		for _, s := range stops {
			kept[c.endedByStop(t, s)]++
		}
		t.Logf("%s: %d events; stopped at %d of them: %v", name, whole, len(stops), kept)
		require.GreaterOrEqual(t, 3*kept[contract.PipelineStopped], len(stops), "they are not over when they are stopped: %v", kept)
	}
	harness.CheckPipelines(t, c.Stack, c.pipelines...)
}

// stepSize is how many events there are from one point to the next.
func stepSize(t *testing.T, events int) int {
	t.Helper()
	points := stopPoints
	if n := os.Getenv(stopsEnv); n != "" {
		var err error
		points, err = strconv.Atoi(n)
		require.NoError(t, err, stopsEnv)
		require.Positive(t, points, stopsEnv)
	}
	if os.Getenv("RGPT_STRESS") == "full" {
		points = events
	}
	return max(1, events/points)
}

// gammaRules are ALPHA and BETA with GAMMA, whose verdict ends it.
func gammaRules() harness.Rules {
	return first(agreeing("mediated"),
		rule(on("agent", "alpha", "turn", 1), moves(move("analyse", "complexity_score", 0.9, "text", "it is hard"), move("propose", "key", "p1", "text", "one way")), 200),
		rule(seesSynthesis("alpha", "mediated"), moves(move("object", "key", "s1", "text", "not like this")), 200),
		rule(seesSynthesis("gamma", "mediated"), moves(move("resolve", "key", "s1", "text", "like this"), move("verdict", "key", "s1", "text", "it is decided")), 200),
	)
}

// stopPoint is a pipeline that was stopped at a point of its history.
type stopPoint struct {
	id, event int64
	refused   bool      // it was over
	cancelled bool      // by Temporal's own means, not by a command
	answered  time.Time // when Temporal had taken the cancellation, as it does of one that is over
}

// stopsAt starts a pipeline for each step of events and stops it once its history
// has got there.
func (c *pipelineTests) stopsAt(t *testing.T, scenario string, step, whole int) []stopPoint {
	t.Helper()
	out := []stopPoint{{event: 1, cancelled: true}}
	for at := 1; at <= whole; at += step {
		out = append(out, stopPoint{event: int64(at), cancelled: len(out)%3 == 2})
	}
	c.Temporal(t) // which opens it, before many ask at once
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(stopsAtOnce)
	for i := range out {
		group.Go(func() error { return c.stopAt(ctx, t, scenario, &out[i]) })
	}
	require.NoError(t, group.Wait())
	for _, s := range out {
		c.note(s.id)
	}
	return out
}

// stopAt starts a pipeline and stops it at a point of its history. It is called
// side by side, and returns what goes wrong.
func (c *pipelineTests) stopAt(ctx context.Context, t *testing.T, scenario string, s *stopPoint) error {
	var made struct {
		ID int64 `json:"pipeline_id"`
	}
	if _, err := c.send(ctx, t, "/api/spawn", map[string]any{"objective": harness.Goal(scenario), "auto_continue": true, "mode": "local"}, &made); err != nil {
		return err
	}
	s.id = made.ID
	if err := harness.Follow(ctx, c.Temporal(t), contract.PipelineWorkflowID(s.id), func(e *historypb.HistoryEvent) (bool, error) {
		return e.GetEventId() >= s.event, nil
	}); err != nil {
		return err
	}
	if s.cancelled {
		err := c.Temporal(t).CancelWorkflow(ctx, contract.PipelineWorkflowID(s.id), "")
		s.answered = time.Now()
		return err
	}
	status, err := c.send(ctx, t, fmt.Sprintf("/api/pipeline/%d/stop", s.id), map[string]any{"reason": fmt.Sprint("at event ", s.event)}, nil)
	s.refused = status == http.StatusConflict
	if s.refused {
		err = nil
	}
	return err
}

// send posts a document to the stack's server, from any goroutine.
func (c *pipelineTests) send(ctx context.Context, t *testing.T, path string, body, into any) (status int, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.State(t).Server+path, bytes.NewReader(raw))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, text)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(text, into)
	}
	return resp.StatusCode, err
}

// endedByStop checks what became of a pipeline that was stopped and of the one that
// recovered it, if there is one, and returns how the last of them ended.
func (c *pipelineTests) endedByStop(t *testing.T, s stopPoint) contract.PipelineStatus {
	t.Helper()
	which := fmt.Sprintf("pipeline %d, stopped at event %d", s.id, s.event)
	var last store.Pipeline
	stopped, decided := false, false
	var at time.Time
	var busy busyTimes
	for id := s.id; id != 0; id = last.RecoveredBy {
		last = c.AwaitPipeline(t, id, "over, "+which, deliberate, func(p store.Pipeline) bool { return p.Status.Terminal() && p.FinishedAt != nil })
		ends := map[string]time.Time{}
		for _, h := range c.PipelineHistories(t, last) {
			ends[h.WorkflowID] = c.endOf(t, h)
		}
		for i, h := range c.PipelineHistories(t, last) {
			busy = busy.with(h.History)
			if i > 0 {
				continue
			}
			c.reportedOnce(t, last, h.History)
			stop, deed := pointsOf(h.History)
			stopped, decided = stopped || stop != nil, deed.before(stop)
			if id != s.id && stop == nil && deed != nil {
				decided = !at.IsZero() && busy.idle(at, deed.time) < stopTime // it ended while the stop was on its way from the pipeline that it recovers
			}
			if stop != nil && at.IsZero() {
				at = stop.time
			}
		}
		for workflow, end := range ends {
			require.False(t, !at.IsZero() && busy.idle(at, end) > stopTime, "%s: %s took %s to end, %s of it idle", which, workflow, end.Sub(at), busy.idle(at, end))
		}
		last = c.pipeline(t, id) // its workflow may have told of a recovery since
	}
	if s.cancelled && !stopped {
		end := c.endOf(t, c.PipelineHistories(t, c.pipeline(t, s.id))[0])
		require.False(t, end.After(s.answered), "%s: its cancellation was lost", which)
		s.refused = true
	}
	require.NotEqual(t, s.refused, stopped, "%s: a stop that was accepted is in its history", which)
	if last.Status != contract.PipelineStopped {
		require.True(t, s.refused || decided, "%s: it is %s, and that was not decided before", which, last.Status)
	} else {
		c.saysWhoAndWhy(t, s, last)
	}
	c.carrierEnded(t, last)
	return last.Status
}

// saysWhoAndWhy checks that a pipeline that was stopped, and the one that it recovers,
// if it does, tell who did it and why.
func (c *pipelineTests) saysWhoAndWhy(t *testing.T, s stopPoint, last store.Pipeline) {
	t.Helper()
	why := "the deliberation was cancelled"
	if !s.cancelled {
		why = fmt.Sprintf("stopped by api (at event %d)", s.event)
	}
	require.Contains(t, last.Failure.Message, why, "pipeline %d", last.ID)
	if last.ID != s.id {
		require.Contains(t, c.pipeline(t, s.id).Failure.Message, fmt.Sprintf("its recovery, pipeline %d, ended with: %s", last.ID, why))
	}
}

// endOf waits for a workflow's end, and returns when that was.
func (c *pipelineTests) endOf(t *testing.T, h harness.History) time.Time {
	t.Helper()
	err := c.Temporal(t).GetWorkflow(t.Context(), h.WorkflowID, "").Get(t.Context(), nil)
	require.NoError(t, err, h.WorkflowID)
	d, err := c.Temporal(t).DescribeWorkflowExecution(t.Context(), h.WorkflowID, "")
	require.NoError(t, err)
	require.NotEqual(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, d.GetWorkflowExecutionInfo().GetStatus(), "%s is open", h.WorkflowID)
	return d.GetWorkflowExecutionInfo().GetCloseTime().AsTime()
}

// busyTimes are the times in which workflows have a workflow task that waits for a
// worker or runs. On a loaded machine they are most of what a stop takes.
type busyTimes [][2]time.Time

// with adds a workflow's history.
func (b busyTimes) with(h *historypb.History) busyTimes {
	var since time.Time
	ends := []enumspb.EventType{enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_TASK_FAILED, enumspb.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT}
	for _, e := range h.Events {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED {
			since = e.GetEventTime().AsTime()
		} else if slices.Contains(ends, e.GetEventType()) {
			b = append(b, [2]time.Time{since, e.GetEventTime().AsTime()})
		}
	}
	return b
}

// idle returns how much of the time from one moment to another lies in none of the
// busy times.
func (b busyTimes) idle(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, busy := range slices.SortedFunc(slices.Values(b), func(x, y [2]time.Time) int { return x[0].Compare(y[0]) }) {
		if !busy[0].Before(to) {
			break
		}
		sum += max(0, busy[0].Sub(from))
		if busy[1].After(from) {
			from = busy[1]
		}
	}
	return sum + max(0, to.Sub(from))
}

// point is a moment in a history.
type point struct {
	time time.Time
	task int // the workflow task that saw it, or did it
}

func (p *point) before(o *point) bool { return p != nil && o != nil && p.task <= o.task }

// pointsOf returns when a deliberation was told to stop, and when it began to carry
// out how it ends: it writes the handoff, or dismisses its members.
func pointsOf(h *historypb.History) (stop, deed *point) {
	tasks := 0
	for _, e := range h.Events {
		at := &point{time: e.GetEventTime().AsTime(), task: tasks}
		accepted := e.GetWorkflowExecutionUpdateAcceptedEventAttributes()
		switch {
		case e.GetWorkflowTaskCompletedEventAttributes() != nil:
			tasks++
		case stop == nil && accepted.GetAcceptedRequest().GetInput().GetName() == contract.UpdateStop:
			stop = at
		case stop == nil && (e.GetWorkflowExecutionCancelRequestedEventAttributes() != nil || e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == contract.UpdateStop):
			at.task++ // the next one sees it
			stop = at
		case deed == nil && (e.GetRequestCancelExternalWorkflowExecutionInitiatedEventAttributes() != nil ||
			e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == contract.ActivityWriteHandoff):
			deed = at
		}
	}
	return stop, deed
}

// reportedOnce checks that a pipeline left one last report, which is partial where
// there is no consensus.
func (c *pipelineTests) reportedOnce(t *testing.T, p store.Pipeline, h *historypb.History) {
	t.Helper()
	var kinds []string
	for _, e := range h.Events {
		a := e.GetActivityTaskScheduledEventAttributes()
		if a.GetActivityType().GetName() != contract.ActivityPipelineRecord {
			continue
		}
		var rec contract.PipelineRecord
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &rec))
		if rec.Change.Report != nil {
			kinds = append(kinds, rec.Change.Report.Kind)
		}
	}
	want := contract.ReportPartial
	if p.Status == contract.PipelineCompleted {
		want = contract.ReportFinal
	}
	kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == contract.ReportCheckpoint })
	require.Equal(t, []string{want}, kinds, "pipeline %d, which is %s", p.ID, p.Status)
	_, err := c.Store(t).PipelineReport(t.Context(), p.ID, want, true)
	require.NoError(t, err)
}

// carrierEnded checks that the row that carries a pipeline has ended with it.
func (c *pipelineTests) carrierEnded(t *testing.T, p store.Pipeline) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.State(t).Database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var status, waits string
	var finished *time.Time
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT status, waiting_for, finished_at FROM orchestrator_runs WHERE id = $1", p.RunID).Scan(&status, &waits, &finished))
	want := map[contract.PipelineStatus]contract.Status{contract.PipelineCompleted: contract.StatusDone, contract.PipelineStopped: contract.StatusCancelled}[p.Status]
	if want == "" {
		want = contract.StatusFailed
	}
	require.Equal(t, []any{string(want), ""}, []any{status, waits}, "what carries pipeline %d, which is %s", p.ID, p.Status)
	require.NotNil(t, finished, "what carries pipeline %d has ended", p.ID)
}
