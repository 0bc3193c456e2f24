package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
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

// SpanKinds returns all kinds of spans, what encloses first.
func SpanKinds() []SpanKind {
	return []SpanKind{SpanPhase, SpanStep, SpanModel, SpanTool, SpanTest, SpanHeal, SpanWait}
}

// Span is a piece of a run's time. Its key names it within its run for good:
// exec-7, call-12, tool-7-3-0, check-9-test-go, heal-4, wait-approval-… .
type Span struct {
	Key         string
	Kind        SpanKind
	ExecutionID int64 // that it is part of; 0: of none
	Phase       contract.Phase
	Step        string
	Agent       contract.Agent
	Attempt     int // of its phase or step; 0: of none
	Turn        int // of a conversation; 0: of none
	Name        string
	Detail      string // a line more about it
	Status      contract.ExecutionStatus
	Tries       int // how often a model call was made
	Tokens      int64
	MicroUSD    int64
	From        time.Time
	To          *time.Time // nil: it goes on
}

// End returns when a span ended; one that goes on ends now.
func (s Span) End(now time.Time) time.Time {
	if s.To == nil {
		return now
	}
	return *s.To
}

// Replay is when a run was told to do something again.
type Replay struct {
	ID          int64
	Phase       contract.Phase
	Step        string
	By          string
	ExecutionID int64 // that it led to; 0: not begun yet
	At          time.Time
}

// Limits of what is read for one page.
const (
	mostExecutions = 5000
	mostHeals      = 1000
	mostWaits      = 1000
	mostReplays    = 200
)

// Work returns a run's executions as spans, in the order in which they began,
// without what was done in them.
func (s *Store) Work(ctx context.Context, runID int64) ([]Span, error) {
	rows, err := s.q.TimelineExecutions(ctx, db.TimelineExecutionsParams{RunID: runID, Most: mostExecutions})
	return rowconv.Convert(rows, func(r db.TimelineExecutionsRow) Span {
		p := Span{
			Key: fmt.Sprintf("exec-%d", r.ID), Kind: SpanPhase, ExecutionID: r.ID, Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent),
			Attempt: int(r.Attempt), Turn: int(r.Turns), Name: r.Phase, Status: contract.ExecutionStatus(r.Status), Tokens: r.PromptTokens + r.CompletionTokens,
			MicroUSD: r.CostMicros, From: r.StartedAt, To: r.FinishedAt, Detail: r.Model,
		}
		if r.ErrorClass != "" {
			p.Detail = r.ErrorClass + ": " + r.ErrorMessage
		}
		if r.Step != "" {
			p.Kind, p.Name = SpanStep, r.Step
		}
		return p
	}), dberr.Explain(err, "read what run %d carried out", runID)
}

// Pauses returns a run's heals and its waits for people as spans.
func (s *Store) Pauses(ctx context.Context, runID int64) ([]Span, error) {
	heals, err := s.q.TimelineHeals(ctx, db.TimelineHealsParams{RunID: runID, Most: mostHeals})
	if err != nil {
		return nil, dberr.Explain(err, "read the heals of run %d", runID)
	}
	spans := rowconv.Convert(heals, func(r db.TimelineHealsRow) Span {
		return Span{
			Key: fmt.Sprintf("heal-%d", r.ID), Kind: SpanHeal, ExecutionID: r.ExecutionID, Phase: contract.Phase(r.Phase), Step: r.Step,
			Name: r.HealAction, Detail: r.ErrorType + ": " + r.RootCause, Status: healedAs(contract.HealStatus(r.Status)),
			Tokens: r.Tokens, MicroUSD: r.Micros, From: r.CreatedAt, To: r.FinishedAt,
		}
	})
	waits, err := s.q.TimelineWaits(ctx, db.TimelineWaitsParams{RunID: runID, Most: mostWaits})
	return append(spans, rowconv.Convert(waits, func(r db.TimelineWaitsRow) Span {
		return Span{
			Key: "wait-" + r.Kind + "-" + r.ID, Kind: SpanWait, Phase: contract.Phase(r.Phase), Name: r.About, Detail: r.Reason,
			Status: waitedAs(r.Status), From: r.Since, To: r.Until,
		}
	})...), dberr.Explain(err, "read the waits of run %d", runID)
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

// Window is a part of a run's time and how many spans of a kind are read of it:
// the longest ones.
type Window struct {
	From, To time.Time
	Most     int
}

// Activity returns the model calls, tool calls and checks in a part of a run's
// time, and how many short ones that leaves out. Work gives their executions.
func (s *Store) Activity(ctx context.Context, runID int64, w Window) (spans []Span, omitted int, err error) {
	calls, err := s.q.TimelineCalls(ctx, db.TimelineCallsParams{RunID: runID, WindowBegin: w.From, WindowEnd: w.To, Most: int32(w.Most)})
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
			MicroUSD: r.CostMicros, From: r.StartedAt, To: r.FinishedAt,
		}
		switch r.Status {
		case callReserved:
			p.Status = contract.ExecutionRunning
		case callDone:
		default:
			p.Status = contract.ExecutionFailed
		}
		spans = append(spans, p)
	}
	tools, err := s.q.TimelineTools(ctx, db.TimelineToolsParams{RunID: runID, WindowBegin: w.From, WindowEnd: w.To, Most: int32(w.Most)})
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
	checks, err := s.q.TimelineChecks(ctx, db.TimelineChecksParams{RunID: runID, WindowBegin: w.From, WindowEnd: w.To, Most: int32(w.Most)})
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

// ReplayMarks returns when a run was told to do something again, in that order.
func (s *Store) ReplayMarks(ctx context.Context, runID int64) ([]Replay, error) {
	rows, err := s.q.TimelineReplays(ctx, db.TimelineReplaysParams{RunID: runID, Most: mostReplays})
	return rowconv.Convert(rows, func(r db.TimelineReplaysRow) Replay {
		return Replay{ID: r.ID, Phase: contract.Phase(r.Phase), Step: r.Step, By: r.AskedBy, ExecutionID: rowconv.Deref(r.ExecutionID), At: r.CreatedAt}
	}), dberr.Explain(err, "read the replays of run %d", runID)
}

// ModelCall returns a model call of a run, or ErrNotFound.
func (s *Store) ModelCall(ctx context.Context, runID, id int64) (ModelCall, error) {
	r, err := s.q.CallOfRun(ctx, db.CallOfRunParams{ID: id, RunID: runID})
	return modelCallOf(r), dberr.Explain(err, "read model call %d of run %d", id, runID)
}

// Execution returns an execution of a run, or ErrNotFound.
func (s *Store) Execution(ctx context.Context, runID, id int64) (Execution, error) {
	r, err := s.q.ExecutionOfRun(ctx, db.ExecutionOfRunParams{ID: id, RunID: runID})
	return executionOf(r), dberr.Explain(err, "read execution %d of run %d", id, runID)
}

// Heal returns a heal of a run, or ErrNotFound.
func (s *Store) Heal(ctx context.Context, runID, id int64) (HealEvent, error) {
	r, err := s.q.HealOfRun(ctx, db.HealOfRunParams{ID: id, RunID: runID})
	return healOf(r), dberr.Explain(err, "read heal %d of run %d", id, runID)
}

// Check returns a check of a run, or ErrNotFound.
func (s *Store) Check(ctx context.Context, runID, executionID int64, checkID string) (Check, error) {
	row, err := s.q.CheckOfRun(ctx, db.CheckOfRunParams{RunID: runID, ExecutionID: executionID, CheckID: checkID})
	if err != nil {
		return Check{}, dberr.Explain(err, "read check %s of execution %d", checkID, executionID)
	}
	checks, err := checksOf([]db.Check{row})
	if err != nil {
		return Check{}, err
	}
	return checks[0], nil
}

// ToolCall returns a tool call of a run and the patch of the workspace before
// it, or ErrNotFound.
func (s *Store) ToolCall(ctx context.Context, runID, executionID int64, turn, index int) (call ToolCall, patchBefore string, err error) {
	row, err := s.q.ToolCallOfRun(ctx, db.ToolCallOfRunParams{RunID: runID, ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index)})
	if err != nil {
		return call, "", dberr.Explain(err, "read tool call %d of turn %d of execution %d", index, turn, executionID)
	}
	if call, err = toolCallOf(row); err != nil {
		return call, "", err
	}
	patchBefore, err = s.q.PatchBefore(ctx, db.PatchBeforeParams{ExecutionID: executionID, Turn: int32(turn), CallIndex: int32(index)})
	if errors.Is(err, pgx.ErrNoRows) {
		return call, "", nil // the first one
	}
	return call, patchBefore, dberr.Explain(err, "read what came before tool call %d of turn %d of execution %d", index, turn, executionID)
}

// Spoken is a message of a conversation, its beginning.
type Spoken struct {
	Turn      int
	Index     int // of the tool call that it is the result of; -1: it is no result
	Role      string
	Text      string
	Size      int64           // of the whole text, in bytes
	ToolCalls json.RawMessage // that the model wants, as it wrote them
}

// mostSpoken is how many messages of a turn are read.
const mostSpoken = 80

// TurnOf returns what was new to a model when it was asked in a turn, and what
// it answered; of long texts the first 20,000 characters.
func (s *Store) TurnOf(ctx context.Context, executionID int64, turn int) ([]Spoken, error) {
	rows, err := s.q.SpokenInTurn(ctx, db.SpokenInTurnParams{ExecutionID: executionID, TurnBefore: int32(turn - 1), Turn: int32(turn), Results: toolResults, Most: mostSpoken})
	return rowconv.Convert(rows, func(r db.SpokenInTurnRow) Spoken {
		return Spoken{Turn: int(r.Turn), Index: max(-1, int(r.Position)-toolResults), Role: r.Role, Text: r.Text, Size: r.Size, ToolCalls: r.ToolCalls}
	}), dberr.Explain(err, "read turn %d of execution %d", turn, executionID)
}

// PlanVersion is a plan of a run without its steps.
type PlanVersion struct {
	ID          int64
	Author      string
	Steps       int
	ExecutionID int64 // of the planner; 0: a person gave or edited it
	CreatedAt   time.Time
}

// Plans returns the versions of a run's plan, the newest first, at most as many
// as given.
func (s *Store) Plans(ctx context.Context, runID int64, most int) ([]PlanVersion, error) {
	rows, err := s.q.PlansOfRun(ctx, db.PlansOfRunParams{RunID: runID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.PlansOfRunRow) PlanVersion {
		return PlanVersion{ID: r.ID, Author: r.Author, Steps: int(r.StepCount), ExecutionID: r.ExecutionID, CreatedAt: r.CreatedAt}
	}), dberr.Explain(err, "read the plans of run %d", runID)
}

// Spending is what one execution used of one model.
type Spending struct {
	ExecutionID int64
	Provider    string
	Model       string
	Open        int // calls in flight
	contract.Usage
}

// Spending returns what a run used, by execution and model.
func (s *Store) Spending(ctx context.Context, runID int64) ([]Spending, error) {
	rows, err := s.q.CallSums(ctx, runID)
	return rowconv.Convert(rows, func(r db.CallSumsRow) Spending {
		return Spending{ExecutionID: r.ExecutionID, Provider: r.Provider, Model: r.Model, Open: int(r.Open), Usage: contract.Usage{
			Calls: int(r.Calls), PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros,
		}}
	}), dberr.Explain(err, "add up what run %d used", runID)
}

// SpentBy returns what a run had spent at the end of each of a number of equal
// parts of a time: money and tokens, added up.
func (s *Store) SpentBy(ctx context.Context, runID int64, from, to time.Time, parts int) (micros, tokens []int64, err error) {
	rows, err := s.q.CostOverTime(ctx, db.CostOverTimeParams{RunID: runID, WindowBegin: from, WindowEnd: to, Parts: int32(parts)})
	micros, tokens = make([]int64, parts), make([]int64, parts)
	for _, r := range rows {
		part := min(max(int(r.Part), 1), parts) - 1
		micros[part] += r.CostMicros
		tokens[part] += r.Tokens
	}
	for i := 1; i < parts; i++ {
		micros[i] += micros[i-1]
		tokens[i] += tokens[i-1]
	}
	return micros, tokens, dberr.Explain(err, "add up what run %d spent over time", runID)
}

// DearestCalls returns the model calls of a run that cost most, at most as many
// as given.
func (s *Store) DearestCalls(ctx context.Context, runID int64, most int) ([]ModelCall, error) {
	rows, err := s.q.DearestCalls(ctx, db.DearestCallsParams{RunID: runID, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.DearestCallsRow) ModelCall {
		return ModelCall{
			ID: r.ID, RunID: runID, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Phase: contract.Phase(r.Phase), Step: r.Step, Agent: contract.Agent(r.Agent),
			Provider: r.Provider, Model: r.Model, Usage: contract.Usage{Calls: 1, PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros},
			StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		}
	}), dberr.Explain(err, "read the model calls of run %d that cost most", runID)
}
