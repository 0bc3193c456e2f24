package views

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// SpanKind is a kind of work, or of waiting.
type SpanKind string

// The kinds of spans.
const (
	SpanPhase SpanKind = "phase"
	SpanStep  SpanKind = "step"
	SpanModel SpanKind = "model"
	SpanTool  SpanKind = "tool"
	SpanTest  SpanKind = "test"
	SpanHeal  SpanKind = "heal"
	SpanWait  SpanKind = "wait"
)

// SpanKinds returns all kinds of spans, enclosing ones first.
func SpanKinds() []SpanKind {
	return []SpanKind{SpanPhase, SpanStep, SpanModel, SpanTool, SpanTest, SpanHeal, SpanWait}
}

// Span is a piece of a run's time. Its permanent key within the run is one of: exec-7,
// call-12, tool-7-3-0, check-9-test-go, heal-4, wait-approval-… .
type Span struct {
	Key         string
	Kind        SpanKind
	ExecutionID int64 // that it belongs to; 0: none
	Phase       contract.Phase
	Step        string
	Agent       contract.Agent
	Attempt     int // of its phase or step; 0: none
	Turn        int // of a conversation; 0: none
	Name        string
	Detail      string // one more line about it
	Status      contract.ExecutionStatus
	Tries       int // number of attempts at a model call
	Tokens      int64
	MicroUSD    int64
	Estimated   bool // some of the cost is of models without a known price
	From        time.Time
	To          *time.Time // nil: it continues
}

// End returns when a span ended; one that continues ends now.
func (s Span) End(now time.Time) time.Time {
	if s.To == nil {
		return now
	}
	return *s.To
}

// Maximum numbers of rows read for one page.
const (
	maxExecutions = 5000
	maxHeals      = 1000
	maxWaits      = 1000
	maxReplays    = 200
)

// Work returns a run's executions as spans, in the order in which they began, without
// the work in them.
func (v *Views) Work(ctx context.Context, runID int64) ([]Span, error) {
	rows, err := v.q.TimelineExecutions(ctx, db.TimelineExecutionsParams{RunID: runID, Most: maxExecutions})
	return rowconv.Convert(rows, func(r db.TimelineExecutionsRow) Span {
		p := Span{
			Key: fmt.Sprintf("exec-%d", r.ID), Kind: SpanPhase, ExecutionID: r.ID, Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent),
			Attempt: int(r.Attempt), Turn: int(r.Turns), Name: r.Phase, Status: contract.ExecutionStatus(r.Status), Tokens: r.PromptTokens + r.CompletionTokens,
			MicroUSD: r.CostMicros, Estimated: r.PriceEstimated, From: r.StartedAt, To: r.FinishedAt, Detail: r.Model,
		}
		if r.ErrorClass != "" {
			p.Detail = r.ErrorClass + ": " + r.ErrorMessage
		}
		if r.Step != "" {
			p.Kind, p.Name = SpanStep, r.Step
		}
		return p
	}), dberr.Explain(err, "read the executions of run %d", runID)
}

// Pauses returns a run's heals and its waits for people as spans.
func (v *Views) Pauses(ctx context.Context, runID int64) ([]Span, error) {
	heals, err := v.q.TimelineHeals(ctx, db.TimelineHealsParams{RunID: runID, Most: maxHeals})
	if err != nil {
		return nil, dberr.Explain(err, "read the self-heal events of run %d", runID)
	}
	spans := rowconv.Convert(heals, func(r db.TimelineHealsRow) Span {
		return Span{
			Key: fmt.Sprintf("heal-%d", r.ID), Kind: SpanHeal, ExecutionID: r.ExecutionID, Phase: contract.Phase(r.Phase), Step: r.Step,
			Name: r.HealAction, Detail: r.ErrorType + ": " + r.RootCause, Status: healedAs(contract.HealStatus(r.Status)),
			Tokens: r.Tokens, MicroUSD: r.Micros, Estimated: r.PriceEstimated, From: r.CreatedAt, To: r.FinishedAt,
		}
	})
	waits, err := v.q.TimelineWaits(ctx, db.TimelineWaitsParams{RunID: runID, Most: maxWaits})
	return append(spans, rowconv.Convert(waits, func(r db.TimelineWaitsRow) Span {
		return Span{
			Key: "wait-" + r.Kind + "-" + r.ID, Kind: SpanWait, Phase: contract.Phase(r.Phase), Name: r.About, Detail: r.Reason,
			Status: waitedAs(r.Status), From: r.Since, To: r.Until,
		}
	})...), dberr.Explain(err, "read the waiting times of run %d", runID)
}

func healedAs(s contract.HealStatus) contract.ExecutionStatus {
	switch s {
	case contract.HealSuccess:
		return contract.ExecutionCompleted
	case contract.HealFailed:
		return contract.ExecutionFailed
	default:
		return contract.ExecutionRunning
	}
}

func waitedAs(status string) contract.ExecutionStatus {
	switch status {
	case "granted", "resolved":
		return contract.ExecutionCompleted
	case "rejected":
		return contract.ExecutionFailed
	case "expired":
		return contract.ExecutionCancelled
	default:
		return contract.ExecutionRunning
	}
}

// Window is a period of a run, and the maximum number of spans of each kind to read: the longest
// ones.
type Window struct {
	From, To time.Time
	Most     int
}

// Activity returns the model calls, tool calls and checks in a period of a run, and the number of
// short ones omitted. Work returns their executions.
func (v *Views) Activity(ctx context.Context, runID int64, w Window) (spans []Span, omitted int, err error) {
	calls, err := v.q.TimelineCalls(ctx, db.TimelineCallsParams{RunID: runID, WindowBegin: w.From, WindowEnd: w.To, Most: int32(w.Most)})
	if err != nil {
		return nil, 0, dberr.Explain(err, "read the model calls of run %d", runID)
	}
	for i, r := range calls {
		if i == 0 {
			omitted += int(r.Total) - len(calls)
		}
		p := Span{
			Key: fmt.Sprintf("call-%d", r.ID), Kind: SpanModel, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Agent: contract.Agent(r.Agent),
			Name: r.Model, Detail: r.ErrorClass, Status: contract.ExecutionCompleted, Tries: int(r.Tries), Tokens: r.PromptTokens + r.CompletionTokens,
			MicroUSD: r.CostMicros, Estimated: r.PriceEstimated, From: r.StartedAt, To: r.FinishedAt,
		}
		switch r.Status {
		case rowconv.CallReserved:
			p.Status = contract.ExecutionRunning
		case rowconv.CallDone:
		default:
			p.Status = contract.ExecutionFailed
		}
		spans = append(spans, p)
	}
	tools, err := v.q.TimelineTools(ctx, db.TimelineToolsParams{RunID: runID, WindowBegin: w.From, WindowEnd: w.To, Most: int32(w.Most)})
	if err != nil {
		return nil, 0, dberr.Explain(err, "read the tool calls of run %d", runID)
	}
	for i, r := range tools {
		if i == 0 {
			omitted += int(r.Total) - len(tools)
		}
		spans = append(spans, Span{
			Key: fmt.Sprintf("tool-%d-%d-%d", r.ExecutionID, r.Turn, r.CallIndex), Kind: SpanTool, ExecutionID: r.ExecutionID, Turn: int(r.Turn),
			Name: r.Tool, Detail: r.Code, Status: endedAs(r.Ok), From: r.StartedAt, To: &tools[i].FinishedAt,
		})
	}
	checks, err := v.q.TimelineChecks(ctx, db.TimelineChecksParams{RunID: runID, WindowBegin: w.From, WindowEnd: w.To, Most: int32(w.Most)})
	if err != nil {
		return nil, 0, dberr.Explain(err, "read the checks of run %d", runID)
	}
	for i, r := range checks {
		if i == 0 {
			omitted += int(r.Total) - len(checks)
		}
		spans = append(spans, Span{
			Key: fmt.Sprintf("check-%d-%s", r.ExecutionID, r.CheckID), Kind: SpanTest, ExecutionID: r.ExecutionID, Name: r.CheckID,
			Detail: r.Message, Status: endedAs(r.Ok), From: r.StartedAt, To: &checks[i].FinishedAt,
		})
	}
	slices.SortStableFunc(spans, func(a, b Span) int { return a.From.Compare(b.From) })
	return spans, omitted, nil
}

func endedAs(ok bool) contract.ExecutionStatus {
	if ok {
		return contract.ExecutionCompleted
	}
	return contract.ExecutionFailed
}

// Timing shows how the time of a run was spent: the start and end of each activity.
type Timing struct {
	Executions []store.Execution `json:"executions"`
	ModelCalls []store.ModelCall `json:"model_calls"`
	ToolCalls  []store.ToolCall  `json:"tool_calls"`
	Checks     []store.Check     `json:"checks"` // without their cases
	// Preparing are the events of environment and baseline.
	Preparing []contract.Event `json:"preparing,omitempty"`
}

// Timing returns how the time of a run was spent. For a run that does not exist, it is empty.
func (v *Views) Timing(ctx context.Context, runID int64) (t Timing, err error) {
	if t.Executions, err = v.store.Executions(ctx, runID); err != nil {
		return t, err
	}
	if t.ModelCalls, err = v.store.ModelCalls(ctx, runID); err != nil {
		return t, err
	}
	if t.ToolCalls, err = v.store.ToolCalls(ctx, runID); err != nil {
		return t, err
	}
	rows, err := v.q.ChecksOfRun(ctx, runID)
	if err != nil {
		return t, dberr.Explain(err, "read the checks of run %d", runID)
	}
	if t.Checks, err = checksOf(rowconv.Convert(rows, func(c db.Check) db.CheckRowsRow {
		return db.CheckRowsRow{ExecutionID: c.ExecutionID, Result: c.Result, LogDigest: c.LogDigest, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt}
	})); err != nil {
		return t, err
	}
	t.Preparing, err = v.PreparationEvents(ctx, runID)
	return t, err
}
