package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// ScopeKind is the kind of a budget.
type ScopeKind string

// The kinds of budgets.
const (
	ScopeAgent    ScopeKind = "agent"    // of a run
	ScopeRun      ScopeKind = "run"      // a whole run
	ScopeAttempts ScopeKind = "attempts" // all attempts at the same goal
	// ScopeChangeSet is the budget of all runs of a change set.
	ScopeChangeSet ScopeKind = "change_set"
	ScopeProject   ScopeKind = "project" // in a day or a month
	ScopeTenant    ScopeKind = "tenant"  // in a day or a month
	ScopeDay       ScopeKind = "day"     // of this installation
)

// ScopeKinds returns all kinds of budgets.
func ScopeKinds() []ScopeKind {
	return []ScopeKind{ScopeAgent, ScopeRun, ScopeAttempts, ScopeChangeSet, ScopeProject, ScopeTenant, ScopeDay}
}

// Scope is a budget that a model call is charged to. A zero limit means no limit; spending is still
// counted.
type Scope struct {
	Kind        ScopeKind
	Key         string // run id, run id/agent, group of attempts, change set, project or tenant and period, or day as 2006-01-02
	LimitTokens int64
	LimitMicros int64
}

// The periods of budgets, in UTC, as layouts of their keys.
const (
	Daily   = time.DateOnly
	Monthly = "2006-01"
)

// RunScope returns the budget of a run.
func RunScope(runID int64, limits contract.RunBudget) Scope {
	return Scope{Kind: ScopeRun, Key: fmt.Sprint(runID), LimitTokens: limits.Tokens, LimitMicros: limits.MicroUSD}
}

// AttemptsScope returns the budget of all attempts at a goal together: its limits are those of one
// run.
func AttemptsScope(limits contract.RunBudget) Scope {
	return Scope{Kind: ScopeAttempts, Key: fmt.Sprint(limits.Attempts), LimitTokens: limits.Tokens, LimitMicros: limits.MicroUSD}
}

// ChangeSetScope returns the budget of all runs of a change set together.
func ChangeSetScope(limits contract.ChangeSetBudget) Scope {
	return Scope{Kind: ScopeChangeSet, Key: fmt.Sprint(limits.Set), LimitTokens: limits.Tokens, LimitMicros: limits.MicroUSD}
}

// RunScopes returns the budget of a run, that of all attempts or of the change set if it is part of
// one, and those of its agents that have a limit.
func RunScopes(runID int64, limits contract.RunBudget) []Scope {
	scopes := []Scope{RunScope(runID, limits)}
	if limits.Attempts != 0 {
		scopes = append(scopes, AttemptsScope(limits))
	}
	if limits.ChangeSet != nil {
		scopes = append(scopes, ChangeSetScope(*limits.ChangeSet))
	}
	for _, agent := range slices.Sorted(maps.Keys(limits.Agents)) {
		scopes = append(scopes, AgentScope(runID, agent, limits))
	}
	return scopes
}

// AgentScope returns the budget of an agent within a run.
func AgentScope(runID int64, agent contract.Agent, limits contract.RunBudget) Scope {
	own := limits.Agents[agent]
	return Scope{Kind: ScopeAgent, Key: fmt.Sprintf("%d/%s", runID, agent), LimitTokens: own.Tokens, LimitMicros: own.MicroUSD}
}

// DayScope returns the budget of the day, in UTC, of this installation.
func DayScope(at time.Time, limitTokens, limitMicros int64) Scope {
	return Scope{Kind: ScopeDay, Key: at.UTC().Format(Daily), LimitTokens: limitTokens, LimitMicros: limitMicros}
}

// PeriodScope returns the budget of a project or a tenant in the period that includes a time.
func PeriodScope(kind ScopeKind, name string, at time.Time, period string, limitTokens, limitMicros int64) Scope {
	return Scope{Kind: kind, Key: name + " " + at.UTC().Format(period), LimitTokens: limitTokens, LimitMicros: limitMicros}
}

// Reservation sets tokens and money aside for a model call.
type Reservation struct {
	Execution     contract.ExecutionRef
	Turn          int // from 1
	Provider      string
	Model         string
	PromptVersion string
	Route         *contract.RouteDecision  // why it is this model; nil: unknown
	Prompt        int64                    // the most tokens that the prompt can have
	Output        int64                    // requested limit of the response's tokens
	MinOutput     int64                    // lowest useful limit, at most Output; the call is not admitted with less
	Cost          func(output int64) int64 // the most that the call can cost with this limit; never falls as it grows; nil: nothing
	Scopes        []Scope
	WarnAt        float64   // fraction of a budget at which Reserved.Warnings includes it, once; default 0.8
	Retried       bool      // its budgets were busy a moment ago
	NewMessages   []Message // added to the conversation before the turn, like AddBefore
	Delivers      []int64   // the events with the messages of people that NewMessages contains
}

// micros returns the most that the call can cost with an output limit.
func (r Reservation) micros(output int64) int64 {
	if r.Cost == nil {
		return 0
	}
	return r.Cost(output)
}

// CallID identifies one attempt of a model call.
type CallID struct {
	Call int64 // orchestrator_model_calls.id
	Try  int   // from 1
}

// Reserved is a model call that may be made, or one that is already complete.
type Reserved struct {
	ID       CallID
	Answer   *StoredAnswer // if set, the call is complete and nothing was reserved
	Output   int64         // granted limit of the response's tokens
	Tokens   int64         // reserved: the prompt and Output
	MicroUSD int64         // reserved
	Limited  string        // if Output is less than requested: the budget that limits it, for people
	Warnings []Warning     // budgets that are nearly used up; each is reported once
}

// Warning reports that a budget is nearly used up.
type Warning struct {
	Kind ScopeKind
	Text string // for people
}

// StoredAnswer is the response of a completed model call.
type StoredAnswer struct {
	Answer json.RawMessage
	Usage  contract.Usage
}

// ModelCall is a model call from its row.
type ModelCall struct {
	ID            int64          `json:"id"`
	RunID         int64          `json:"run_id"`
	ExecutionID   int64          `json:"execution_id"`
	Turn          int            `json:"turn"`
	Phase         contract.Phase `json:"phase"`
	Step          string         `json:"step,omitempty"`
	Agent         contract.Agent `json:"agent"`
	Provider      string         `json:"provider"`
	Model         string         `json:"model"`
	PromptVersion string         `json:"prompt_version,omitempty"`

	// Route is the contract.RouteDecision about the call's model; empty for calls that were made before
	// decisions were recorded.
	Route json.RawMessage `json:"route,omitempty"`

	Status         string            `json:"status"` // reserved, done or failed
	Tries          int               `json:"tries"`
	ReservedTokens int64             `json:"reserved_tokens"`
	ReservedMicros int64             `json:"reserved_micros"`
	Unsettled      Unsettled         `json:"unsettled,omitzero"`
	Usage          contract.Usage    `json:"usage"`
	LatencyMS      int64             `json:"latency_ms"`
	Failure        *contract.Failure `json:"failure,omitempty"`
	StartedAt      time.Time         `json:"started_at"`
	FinishedAt     *time.Time        `json:"finished_at"`

	// CachedResponse is the earlier call whose response answered this one at no cost; nil: a model
	// answered it.
	CachedResponse *CachedResponse `json:"cached_response,omitempty"`
}

// Unsettled is what attempts of a call may have used at most whose outcome is unknown, because their
// workers died. Budgets count it as spent; usage does not include it.
type Unsettled struct {
	Tokens   int64 `json:"tokens"`
	MicroUSD int64 `json:"micro_usd"`
}

// CachedResponse names the call whose response answered an identical request.
type CachedResponse struct {
	RunID  int64 `json:"run_id"`
	CallID int64 `json:"call_id"`
}

// ReserveCall reserves tokens and money for a model call in all its budgets, or in none. For a
// completed call, it returns the stored response and reserves nothing. The messages that the model
// gets before the turn are stored with the reservation.
//
// A call is admitted only if every budget covers what is spent, what is reserved and the most that
// this call can use. If a budget does not, the call gets a lower output limit, but at least
// MinOutput. If even that is too much for a budget, the error is a CONFIG_ERROR with
// CodeBudgetExceeded; if it is too much only because other calls hold reservations, the error is
// ErrBudgetBusy, to be retried shortly.
//
// A reservation of the same (execution, turn) that is still open belonged to a worker that died, or
// that lost its connection. Its provider may still charge for it, so it remains reserved until the
// attempt is settled, the execution ends, or GiveUpCalls releases it.
func (s *Store) ReserveCall(ctx context.Context, r Reservation) (Reserved, error) {
	r.Scopes = sortedScopes(r.Scopes)
	// Nearly all calls are begun once and far from every limit, and the budgets of projects and tenants are shared by
	// all their runs: they are not locked while this process decides.
	out, err := s.reserveFast(ctx, r)
	if errors.Is(err, errFastPathDeclined) {
		out, err = s.reserveLocked(ctx, r)
	}
	if err != nil {
		return Reserved{}, dberr.Explain(err, "reserve model call %d of execution %d", r.Turn, r.Execution.ID)
	}
	return out, nil
}

// reserveFast reserves a call that nobody has begun, in one statement. The error is errFastPathDeclined unless all
// budgets cover the whole call and none needs a warning.
func (s *Store) reserveFast(ctx context.Context, r Reservation) (Reserved, error) {
	if len(r.Delivers) > 0 || r.Retried {
		return Reserved{}, errFastPathDeclined
	}
	scopes, err := rowconv.Encode(keysOf(r.Scopes))
	if err != nil {
		return Reserved{}, err
	}
	route, err := rowconv.Encode(r.Route)
	if err != nil {
		return Reserved{}, err
	}
	told, err := rowconv.Encode(NotNil(r.NewMessages))
	if err != nil {
		return Reserved{}, err
	}
	kinds, keys := split(keysOf(r.Scopes))
	out := Reserved{Output: r.Output, Tokens: r.Prompt + r.Output, MicroUSD: r.micros(r.Output)}
	id, err := s.q.BeginCall(ctx, db.BeginCallParams{
		RunID: r.Execution.RunID, ExecutionID: r.Execution.ID, Turn: int32(r.Turn), Phase: string(r.Execution.Phase),
		Step: r.Execution.Step, Agent: string(r.Execution.Agent), Provider: r.Provider, Model: r.Model, PromptVersion: r.PromptVersion,
		Route: route, Scopes: scopes, Kinds: kinds, Keys: keys,
		LimitTokens: rowconv.Convert(r.Scopes, func(s Scope) int64 { return s.LimitTokens }),
		LimitMicros: rowconv.Convert(r.Scopes, func(s Scope) int64 { return s.LimitMicros }),
		Tokens:      out.Tokens, Micros: out.MicroUSD, WarnAt: cmp.Or(r.WarnAt, defaultWarnAt),
		Told: told, ToldFrom: rowconv.MessagesAdded,
	})
	if err == nil && id == 0 {
		err = errFastPathDeclined
	}
	out.ID = CallID{Call: id, Try: 1}
	return out, asDeclined(err)
}

// reserveLocked is the slow path of ReserveCall: it locks the call and its budgets before it decides.
func (s *Store) reserveLocked(ctx context.Context, r Reservation) (out Reserved, err error) {
	err = s.inShortTx(ctx, func(tx *shortTx) error {
		q, batch := newBatch(tx)
		batch.queue(q.OpenCall(ctx, db.OpenCallParams{
			RunID: r.Execution.RunID, ExecutionID: r.Execution.ID, Turn: int32(r.Turn), Phase: string(r.Execution.Phase),
			Step: r.Execution.Step, Agent: string(r.Execution.Agent), Provider: r.Provider, Model: r.Model,
		}))
		call, err := q.LockCallOfTurn(ctx, db.LockCallOfTurnParams{ExecutionID: r.Execution.ID, Turn: int32(r.Turn)})
		if err != nil {
			return err
		}
		if call.Status == rowconv.CallDone {
			out = Reserved{ID: CallID{Call: call.ID, Try: int(call.Tries)}, Answer: &StoredAnswer{Answer: call.Answer, Usage: contract.Usage{
				Calls: 1, PromptTokens: call.PromptTokens, CompletionTokens: call.CompletionTokens, MicroUSD: call.CostMicros,
				CachedTokens: call.CachedTokens, CacheWriteTokens: call.CacheWriteTokens, ReasoningTokens: call.ReasoningTokens, EstimatedPrice: call.PriceEstimated,
			}}}
			return nil
		}
		out, err = admit(ctx, tx, r, call)
		return err
	})
	return out, err
}

// admit reserves the budgets of a locked, incomplete call, and commits. A reservation of an earlier
// attempt is kept beside the new one.
func admit(ctx context.Context, tx *shortTx, r Reservation, call db.LockCallOfTurnRow) (Reserved, error) {
	earlier, err := holdsOf(call.Status, call.Tries, call.Scopes, call.ReservedTokens, call.ReservedMicros, call.Superseded)
	if err != nil {
		return Reserved{}, err
	}
	now := keysOf(r.Scopes)
	budgets, err := lockBudgets(ctx, tx, now)
	if err != nil {
		return Reserved{}, err
	}
	g, err := grantOf(r, budgets, earlier, call.Carried)
	if err != nil {
		return Reserved{}, err
	}
	scopes, err := rowconv.Encode(now)
	if err != nil {
		return Reserved{}, err
	}
	superseded, err := rowconv.Encode(NotNil(earlier))
	if err != nil {
		return Reserved{}, err
	}
	route, err := rowconv.Encode(r.Route)
	if err != nil {
		return Reserved{}, err
	}
	out := Reserved{
		ID: CallID{Call: call.ID, Try: int(call.Tries) + 1}, Output: g.output, Tokens: r.Prompt + g.output, MicroUSD: r.micros(g.output),
		Limited: g.limited, Warnings: rowconv.Convert(g.near, func(n near) Warning { return n.Warning }),
	}
	q, batch := newBatch(tx)
	batch.queue(q.AddToBudgets(ctx, addition(now, 0, 0, out.Tokens, out.MicroUSD)))
	if len(r.NewMessages) > 0 { // only after admission: a call that waits for its budget is submitted repeatedly
		told, err := rowconv.Encode(r.NewMessages)
		if err != nil {
			return Reserved{}, err
		}
		added := before(r.Execution.ID, r.Turn, told)
		if len(r.Delivers) > 0 {
			batch.queue(q.LockRun(ctx, r.Execution.RunID), q.DeliverMessages(ctx, db.DeliverMessagesParams{
				RunID: r.Execution.RunID, ExecutionID: r.Execution.ID, Turn: int32(r.Turn), Seqs: r.Delivers, AddedFrom: added.StartAt,
				EventType: string(contract.EventMessageDelivered), Agent: string(r.Execution.Agent), Step: rowconv.Text(r.Execution.Step),
			}))
		}
		batch.queue(q.AppendMessages(ctx, added))
	}
	if err := warn(ctx, q, batch, r, g.near); err != nil {
		return Reserved{}, err
	}
	batch.queue(q.HoldCall(ctx, db.HoldCallParams{
		ID: call.ID, Provider: r.Provider, Model: r.Model, PromptVersion: r.PromptVersion, Route: route,
		Scopes: scopes, Superseded: superseded, ReservedTokens: out.Tokens, ReservedMicros: out.MicroUSD,
	}))
	return out, tx.commit(ctx, batch)
}

// warn queues an event for each budget that is nearly used up, and marks it, so that it warns once.
func warn(ctx context.Context, q *db.Queries, batch *batch, r Reservation, all []near) error {
	if len(all) == 0 {
		return nil
	}
	kinds, keys := split(rowconv.Convert(all, func(n near) scopeKey { return scopeKey{n.scope.Kind, n.scope.Key} }))
	// No holder of a run's lock waits for the run's budgets.
	batch.queue(q.MarkWarned(ctx, db.MarkWarnedParams{Kinds: kinds, Keys: keys}), q.LockRun(ctx, r.Execution.RunID))
	for _, n := range all {
		payload, err := rowconv.Encode(map[string]any{
			"warning": n.Text, "agent": r.Execution.Agent, "step": r.Execution.Step, "scope": n.Kind, "budget": n.scope.Key,
		})
		if err != nil {
			return err
		}
		batch.queue(q.AddEvent(ctx, db.AddEventParams{RunID: r.Execution.RunID, EventType: string(contract.EventBudgetWarning), Payload: payload}))
	}
	return nil
}

// CompleteCall replaces a model call's reservation with its actual usage, and stores its response
// and the messages that it adds to the conversation as its turn, all or nothing. An attempt that is
// completed twice is booked once. An attempt that was taken over is booked too, because the
// provider charges for it; if it finishes second, its response is dropped and it gets
// ErrSuperseded. The reservations of other attempts remain until these are settled.
func (s *Store) CompleteCall(ctx context.Context, id CallID, usage contract.Usage, latency time.Duration, answer json.RawMessage, messages []Message) error {
	_, err := s.CompleteTurn(ctx, id, usage, latency, answer, messages)
	return err
}

// CompleteTurn is CompleteCall that also returns the status of the call's run at that moment; empty: unknown.
func (s *Store) CompleteTurn(ctx context.Context, id CallID, usage contract.Usage, latency time.Duration, answer json.RawMessage, messages []Message) (contract.Status, error) {
	doc, err := rowconv.Document(answer)
	if err != nil {
		return "", err
	}
	added, err := rowconv.Encode(NotNil(messages))
	if err != nil {
		return "", err
	}
	status, err := s.q.CompleteCallFast(ctx, db.CompleteCallFastParams{
		ID: id.Call, Try: int32(id.Try), PromptTokens: usage.PromptTokens, CompletionTokens: usage.CompletionTokens,
		CachedTokens: usage.CachedTokens, CacheWriteTokens: usage.CacheWriteTokens, ReasoningTokens: usage.ReasoningTokens,
		CostMicros: usage.MicroUSD, PriceEstimated: usage.EstimatedPrice, LatencyMs: latency.Milliseconds(), Answer: doc, Messages: added,
	})
	if errors.Is(asDeclined(err), errFastPathDeclined) {
		return "", s.completeLocked(ctx, id, nil, usage, latency, doc, added)
	}
	return contract.Status(status), dberr.Explain(err, "complete model call %d", id.Call)
}

// CompleteFromCache is CompleteCall for a call that no model was asked: the response to an earlier,
// identical call answers it, at no cost. The call's row names that one.
func (s *Store) CompleteFromCache(ctx context.Context, id CallID, from CachedResponse, answer json.RawMessage, messages []Message) error {
	doc, err := rowconv.Document(answer)
	if err != nil {
		return err
	}
	added, err := rowconv.Encode(NotNil(messages))
	if err != nil {
		return err
	}
	return s.completeLocked(ctx, id, &from, contract.Usage{}, 0, doc, added)
}

// completeLocked is the slow path of CompleteCall: it locks the call before it decides. from is set if no model was
// asked.
func (s *Store) completeLocked(ctx context.Context, id CallID, from *CachedResponse, usage contract.Usage, latency time.Duration, answer, added json.RawMessage) error {
	source, err := rowconv.EncodeSome(from)
	if err != nil {
		return err
	}
	superseded := false
	err = s.inShortTx(ctx, func(tx *shortTx) error {
		call, err := tx.lockCall(ctx, id.Call)
		if err != nil {
			return err
		}
		superseded = call.Status == rowconv.CallDone && int(call.AnswerTry) != id.Try
		if slices.Contains(call.Settled, int32(id.Try)) {
			return nil
		}
		q, batch, left, err := book(ctx, tx, call, id.Try, usage)
		if err != nil {
			return err
		}
		if superseded {
			batch.queue(q.BookLateCall(ctx, late(id, usage, left)))
			return tx.commit(ctx, batch)
		}
		if from != nil {
			batch.queue(q.MarkCached(ctx, db.MarkCachedParams{ID: id.Call, CachedResponse: source}))
		}
		batch.queue(
			q.CompleteCall(ctx, db.CompleteCallParams{
				ID: id.Call, Try: int32(id.Try), Superseded: left.superseded, GivenUp: left.givenUp, PromptTokens: usage.PromptTokens, CompletionTokens: usage.CompletionTokens,
				CachedTokens: usage.CachedTokens, CacheWriteTokens: usage.CacheWriteTokens, ReasoningTokens: usage.ReasoningTokens,
				CostMicros: usage.MicroUSD, PriceEstimated: usage.EstimatedPrice, LatencyMs: latency.Milliseconds(), Answer: answer,
			}),
			q.AppendMessages(ctx, db.AppendMessagesParams{ExecutionID: call.ExecutionID, Turn: call.Turn, Messages: added}),
		)
		return tx.commit(ctx, batch)
	})
	if err == nil && superseded {
		return fault.Wrap(ErrSuperseded, contract.ClassInfra, contract.CodeUnavailable,
			"another worker completed model call %d first; using that worker's response", id.Call)
	}
	return dberr.Explain(err, "complete model call %d", id.Call)
}

// FailCall releases a model call's reservation and books its usage, such as a truncated response.
// The row is kept as failed and can be reserved again. A repeat changes nothing. For an attempt
// that was taken over, only the usage is booked.
func (s *Store) FailCall(ctx context.Context, id CallID, failure *contract.Failure, usage contract.Usage) error {
	if failure == nil {
		failure = &contract.Failure{Class: contract.ClassRuntime, Code: contract.CodeUnknown, Message: "the model call failed"}
	}
	err := s.inShortTx(ctx, func(tx *shortTx) error {
		call, err := tx.lockCall(ctx, id.Call)
		if err != nil || slices.Contains(call.Settled, int32(id.Try)) {
			return err
		}
		if call.Status != rowconv.CallReserved || int(call.Tries) != id.Try {
			return bookLate(ctx, tx, call, id, usage)
		}
		q, batch, left, err := book(ctx, tx, call, id.Try, usage)
		if err != nil {
			return err
		}
		batch.queue(q.FailCall(ctx, db.FailCallParams{
			ID: id.Call, Try: int32(id.Try), Superseded: left.superseded, GivenUp: left.givenUp, PromptTokens: usage.PromptTokens, CompletionTokens: usage.CompletionTokens, CostMicros: usage.MicroUSD, PriceEstimated: usage.EstimatedPrice,
			CachedTokens: usage.CachedTokens, CacheWriteTokens: usage.CacheWriteTokens, ReasoningTokens: usage.ReasoningTokens,
			ErrorClass: string(failure.Class), ErrorCode: string(failure.Code), ErrorMessage: rowconv.Text(failure.Message),
		}))
		return tx.commit(ctx, batch)
	})
	return dberr.Explain(err, "record the failure of model call %d", id.Call)
}

// GiveUpCalls gives up the reservations of at most limit model calls that were reserved longer than
// olderThan ago, and returns the number of such calls. They belonged to workers that died and runs
// that nobody continued. What their providers charge is unknown, so from then on their budgets count
// them as used in full. If such a call completes after all, its usage takes the place of that.
func (s *Store) GiveUpCalls(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	rows, err := s.q.OpenCallsBefore(ctx, db.OpenCallsBeforeParams{OlderThanSeconds: olderThan.Seconds(), Most: int32(limit)})
	if err != nil {
		return 0, dberr.Explain(err, "find abandoned model calls")
	}
	for i, r := range rows {
		if err := s.giveUp(ctx, r.ID, r.Tries); err != nil {
			return i, err
		}
	}
	return len(rows), nil
}

// giveUpCalls gives up the open calls of an execution that has ended.
func (s *Store) giveUpCalls(ctx context.Context, executionID int64) error {
	rows, err := s.q.OpenCallsOfExecution(ctx, executionID)
	if err != nil {
		return dberr.Explain(err, "find open model calls of execution %d", executionID)
	}
	for _, r := range rows {
		if err := s.giveUp(ctx, r.ID, r.Tries); err != nil {
			return err
		}
	}
	return nil
}

// giveUp gives up the reservations of one call unless the call has changed in the meantime: its budgets
// count them as used. It does not end the attempts, whose usage may still be reported.
func (s *Store) giveUp(ctx context.Context, id int64, tries int32) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		call, err := db.New(tx).LockCall(ctx, id)
		if err != nil || call.Tries != tries {
			return err
		}
		holds, err := holdsOf(call.Status, call.Tries, call.Scopes, call.ReservedTokens, call.ReservedMicros, call.Superseded)
		if err != nil || len(holds) == 0 {
			return err
		}
		given, err := rowconv.Decode[[]hold](call.GivenUp)
		if err != nil {
			return err
		}
		givenUp, err := rowconv.Encode(append(given, holds...))
		if err != nil {
			return err
		}
		q, batch := newBatch(tx)
		var scopes []scopeKey
		for _, h := range holds {
			scopes = append(scopes, h.Scopes...)
		}
		kinds, keys := split(scopes)
		batch.queue(q.LockBudgetsOnly(ctx, db.LockBudgetsOnlyParams{Kinds: kinds, Keys: keys}))
		for _, h := range holds {
			batch.queue(q.AddToBudgets(ctx, addition(h.Scopes, h.Tokens, h.Micros, -h.Tokens, -h.Micros)))
		}
		if call.Status == rowconv.CallReserved {
			batch.queue(q.DropCall(ctx, db.DropCallParams{
				ID: id, GivenUp: givenUp, ErrorClass: string(contract.ClassInfra), ErrorCode: string(contract.CodeWorkerLost), ErrorMessage: "the call did not finish",
			}))
		} else {
			batch.queue(q.DropSuperseded(ctx, db.DropSupersededParams{ID: id, GivenUp: givenUp}))
		}
		return batch.flush(ctx)
	})
	return dberr.Explain(err, "abandon model call %d", id)
}

// hold is the reservation of one attempt of a call.
type hold struct {
	Try    int32      `json:"try"`
	Scopes []scopeKey `json:"scopes"`
	Tokens int64      `json:"tokens"`
	Micros int64      `json:"micros"`
}

// holdsOf returns the reservations of a call's attempts that are not settled. The current attempt,
// if it holds one, comes last.
func holdsOf(status string, tries int32, scopes json.RawMessage, tokens, micros int64, superseded json.RawMessage) ([]hold, error) {
	holds, err := rowconv.Decode[[]hold](superseded)
	if err != nil || status != rowconv.CallReserved {
		return holds, err
	}
	keys, err := rowconv.Decode[[]scopeKey](scopes)
	return append(holds, hold{tries, keys, tokens, micros}), err
}

// otherAttempts are the reservations of the other attempts of a call that are not settled, as its row
// stores them.
type otherAttempts struct{ superseded, givenUp json.RawMessage }

// book queues the changes of the budgets of an attempt of a locked call: it adds usage to the amounts
// spent and releases the attempt's reservation, if it still has one. If the reservation was given up, it
// counts as spent, and usage takes its place.
func book(ctx context.Context, tx sender, call db.LockCallRow, try int, usage contract.Usage) (*db.Queries, *batch, otherAttempts, error) {
	holds, err := holdsOf(call.Status, call.Tries, call.Scopes, call.ReservedTokens, call.ReservedMicros, call.Superseded)
	if err != nil {
		return nil, nil, otherAttempts{}, err
	}
	given, err := rowconv.Decode[[]hold](call.GivenUp)
	if err != nil {
		return nil, nil, otherAttempts{}, err
	}
	ofTry := func(h hold) bool { return int(h.Try) == try }
	var change db.AddToBudgetsParams
	switch reserved, lost := slices.IndexFunc(holds, ofTry), slices.IndexFunc(given, ofTry); {
	case reserved >= 0:
		own := holds[reserved]
		change = addition(own.Scopes, usage.Tokens(), usage.MicroUSD, -own.Tokens, -own.Micros)
	case lost >= 0:
		own := given[lost]
		change = addition(own.Scopes, usage.Tokens()-own.Tokens, usage.MicroUSD-own.Micros, 0, 0)
	default: // given up before this was recorded
		scopes, err := rowconv.Decode[[]scopeKey](call.Scopes)
		if err != nil {
			return nil, nil, otherAttempts{}, err
		}
		change = addition(scopes, usage.Tokens(), usage.MicroUSD, 0, 0)
	}
	change.PriceEstimated = usage.EstimatedPrice
	var left otherAttempts
	if left.superseded, err = rowconv.Encode(NotNil(slices.DeleteFunc(holds, ofTry))); err != nil {
		return nil, nil, left, err
	}
	if left.givenUp, err = rowconv.Encode(NotNil(slices.DeleteFunc(given, ofTry))); err != nil {
		return nil, nil, left, err
	}
	q, batch := newBatch(tx)
	batch.queue(q.AddToBudgets(ctx, change))
	return q, batch, left, nil
}

// lockCall locks the row of a call.
func (t *shortTx) lockCall(ctx context.Context, id int64) (db.LockCallRow, error) {
	q, _ := newBatch(t)
	return q.LockCall(ctx, id)
}

// bookLate books the usage of an attempt that is not the current one of a locked call, and commits.
func bookLate(ctx context.Context, tx *shortTx, call db.LockCallRow, id CallID, usage contract.Usage) error {
	if call.Status == rowconv.CallReserved {
		call.Status = rowconv.CallFailed // its current attempt keeps its own reservation, in its row
	}
	q, batch, left, err := book(ctx, tx, call, id.Try, usage)
	if err != nil {
		return err
	}
	batch.queue(q.BookLateCall(ctx, late(id, usage, left)))
	return tx.commit(ctx, batch)
}

func late(id CallID, usage contract.Usage, left otherAttempts) db.BookLateCallParams {
	return db.BookLateCallParams{
		ID: id.Call, Try: int32(id.Try), Superseded: left.superseded, GivenUp: left.givenUp, PromptTokens: usage.PromptTokens, CompletionTokens: usage.CompletionTokens, CostMicros: usage.MicroUSD, PriceEstimated: usage.EstimatedPrice,
		CachedTokens: usage.CachedTokens, CacheWriteTokens: usage.CacheWriteTokens, ReasoningTokens: usage.ReasoningTokens,
	}
}

// CallBasis is what is known before a model call.
type CallBasis struct {
	Tenant, Project, Repo string          // of the run
	CacheRetention        time.Duration   // of the run: how old the response to an identical request may be; 0: it is not used
	Provider, Model       string          // of the previous turn's call; empty if it is not complete
	Answer                json.RawMessage // to the previous turn's call

	at, read time.Time // by the clocks of the database and of this process
}

// Now returns the time by the database's clock, which decides which day's budgets apply: the clocks of
// workers differ.
func (b CallBasis) Now() time.Time { return b.at.Add(time.Since(b.read)) }

// After returns the basis of the next turn of the same execution, once a model has responded.
func (b CallBasis) After(by contract.ModelChoice, answer json.RawMessage) CallBasis {
	b.Provider, b.Model, b.Answer = by.Provider, by.Model, answer
	return b
}

// CallBasis returns what is known before a turn of an execution.
func (s *Store) CallBasis(ctx context.Context, execution contract.ExecutionRef, turn int) (CallBasis, error) {
	row, err := s.q.CallBasis(ctx, basisParams(execution, turn))
	return callBasis(row), dberr.Explain(err, precedes, turn, execution.ID)
}

// BeforeTurn returns what is known before a turn of an execution, like CallBasis, and its conversation, like Transcript, in
// one round trip. The conversation has the response that the basis has.
func (s *Store) BeforeTurn(ctx context.Context, execution contract.ExecutionRef, turn int) (CallBasis, []TranscriptEntry, error) {
	var basis CallBasis
	var rows []db.TranscriptRow
	err := readTogether(ctx, s.reads,
		func(q *db.Queries) error {
			row, err := q.CallBasis(ctx, basisParams(execution, turn))
			basis = callBasis(row)
			return err
		},
		func(q *db.Queries) (err error) { rows, err = q.Transcript(ctx, execution.ID); return err },
	)
	return basis, rowconv.Convert(rows, transcriptEntry), dberr.Explain(err, precedes, turn, execution.ID)
}

const precedes = "read what precedes turn %d of execution %d"

func basisParams(execution contract.ExecutionRef, turn int) db.CallBasisParams {
	return db.CallBasisParams{ExecutionID: execution.ID, Turn: int32(turn - 1), RunID: execution.RunID}
}

func callBasis(row db.CallBasisRow) CallBasis {
	return CallBasis{
		Tenant: row.Tenant, Project: row.Project, Repo: row.Repo, CacheRetention: time.Duration(row.CacheRetention),
		Provider: row.Provider, Model: row.Model, Answer: row.Answer, at: row.At, read: time.Now(),
	}
}

// Answer returns the stored response of a model call, or ErrNotFound while there is none.
func (s *Store) Answer(ctx context.Context, executionID int64, turn int) (json.RawMessage, error) {
	answer, err := s.q.AnswerOfTurn(ctx, db.AnswerOfTurnParams{ExecutionID: executionID, Turn: int32(turn)})
	return answer, dberr.Or(err, dberr.NotFound("execution %d has no response for turn %d", executionID, turn), "read the response for turn %d of execution %d", turn, executionID)
}

// AnsweredTurns returns the last turn of an execution whose response is stored; 0: none is.
func (s *Store) AnsweredTurns(ctx context.Context, executionID int64) (int, error) {
	turn, err := s.q.AnsweredTurns(ctx, executionID)
	return int(turn), dberr.Explain(err, "read how many turns of execution %d have a response", executionID)
}

// LastUsage returns what the newest model call of an execution has used; ErrNotFound if it made none.
func (s *Store) LastUsage(ctx context.Context, executionID int64) (contract.Usage, error) {
	row, err := s.q.LastUsage(ctx, executionID)
	return contract.Usage{
		Calls: 1, PromptTokens: row.PromptTokens, CompletionTokens: row.CompletionTokens, MicroUSD: row.CostMicros,
		CachedTokens: row.CachedTokens, CacheWriteTokens: row.CacheWriteTokens, ReasoningTokens: row.ReasoningTokens, EstimatedPrice: row.PriceEstimated,
	}, dberr.Or(err, dberr.NotFound("execution %d has made no model call", executionID), "read the newest model call of execution %d", executionID)
}

// Usage returns what the model calls of a run have used so far.
func (s *Store) Usage(ctx context.Context, runID int64) (contract.Usage, error) {
	row, err := s.q.Usage(ctx, runID)
	if err != nil {
		return contract.Usage{}, dberr.Explain(err, "total the model calls of run %d", runID)
	}
	return contract.Usage{
		Calls: int(row.Calls), FromCache: int(row.FromCache), PromptTokens: row.PromptTokens, CompletionTokens: row.CompletionTokens, MicroUSD: row.CostMicros,
		CachedTokens: row.CachedTokens, CacheWriteTokens: row.CacheWriteTokens, ReasoningTokens: row.ReasoningTokens, EstimatedPrice: row.PriceEstimated,
	}, nil
}

// ModelCalls returns the model calls of a run in the order in which they were first reserved.
func (s *Store) ModelCalls(ctx context.Context, runID int64) ([]ModelCall, error) {
	rows, err := s.q.ModelCalls(ctx, runID)
	return rowconv.Convert(rows, modelCallOf), dberr.Explain(err, "read the model calls of run %d", runID)
}

// ModelCall returns a model call of a run, or ErrNotFound.
func (s *Store) ModelCall(ctx context.Context, runID, id int64) (ModelCall, error) {
	r, err := s.q.CallOfRun(ctx, db.CallOfRunParams{ID: id, RunID: runID})
	return modelCallOf(r), dberr.Explain(err, "read model call %d of run %d", id, runID)
}

func modelCallOf(r db.ModelCall) ModelCall {
	call := ModelCall{
		ID: r.ID, RunID: r.RunID, ExecutionID: r.ExecutionID, Turn: int(r.Turn), Phase: contract.Phase(r.Phase), Step: r.Step,
		Agent: contract.Agent(r.Agent), Provider: r.Provider, Model: r.Model, PromptVersion: r.PromptVersion, Route: r.Route, Status: r.Status,
		Tries: int(r.Tries), ReservedTokens: r.ReservedTokens, ReservedMicros: r.ReservedMicros,
		Usage: contract.Usage{
			PromptTokens: r.PromptTokens, CompletionTokens: r.CompletionTokens, MicroUSD: r.CostMicros,
			CachedTokens: r.CachedTokens, CacheWriteTokens: r.CacheWriteTokens, ReasoningTokens: r.ReasoningTokens, EstimatedPrice: r.PriceEstimated,
		},
		LatencyMS: r.LatencyMs, Failure: rowconv.Failure(r.ErrorClass, r.ErrorCode, r.ErrorMessage, ""),
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
	}
	if r.Status == rowconv.CallDone {
		call.Usage.Calls = 1
	}
	for _, h := range givenUpOf(r.GivenUp) {
		call.Unsettled.Tokens += h.Tokens
		call.Unsettled.MicroUSD += h.Micros
	}
	if call.CachedResponse = cachedOf(r.CachedResponse); call.CachedResponse != nil {
		call.Usage.FromCache = 1
	}
	return call
}

// givenUpOf reads the given up attempts of a call. Only giveUp and book write the column, so its content
// is valid.
func givenUpOf(raw json.RawMessage) []hold {
	holds, err := rowconv.Decode[[]hold](raw)
	if err != nil {
		return nil
	}
	return holds
}

// cachedOf reads which call's response answered a call. Only MarkCached writes the column, so its
// content is valid.
func cachedOf(raw json.RawMessage) *CachedResponse {
	from, err := rowconv.Decode[*CachedResponse](raw)
	if err != nil {
		return nil
	}
	return from
}

// Budget is the state of a budget.
type Budget struct {
	Kind           ScopeKind `json:"kind"`
	Key            string    `json:"key"`
	SpentTokens    int64     `json:"spent_tokens"`
	SpentMicros    int64     `json:"spent_micros"`
	ReservedTokens int64     `json:"reserved_tokens"`
	ReservedMicros int64     `json:"reserved_micros"`
	Estimated      bool      `json:"estimated_price,omitempty" doc:"some of what was spent is of models without a known price"`
	Warned         bool      `json:"warned"`
}

// Budget returns the state of a budget, or a zero Budget if it was never used.
func (s *Store) Budget(ctx context.Context, kind ScopeKind, key string) (Budget, error) {
	row, err := s.q.Budget(ctx, db.BudgetParams{ScopeKind: string(kind), ScopeKey: key})
	if errors.Is(err, pgx.ErrNoRows) {
		return Budget{Kind: kind, Key: key}, nil
	}
	return budgetOf(row), dberr.Explain(err, "read the budget for %s %s", kind, key)
}
