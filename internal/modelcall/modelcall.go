// Package modelcall has what all calls of models share, whatever they ask for: one attempt at a time, in
// one process and among all, a reservation in each budget, and a settlement that outlives its caller.
package modelcall

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/admission"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/inflight"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// budgetWait is the pause between attempts of a call that waits for others to settle.
	budgetWait = 100 * time.Millisecond
	// storeTimeout limits one attempt to settle a call.
	storeTimeout = 10 * time.Second
	// maxStorePause is the longest pause between two such attempts.
	maxStorePause = 2 * time.Second
	// storePatience is how long what a call got is kept in memory while the database is down.
	storePatience = 30 * time.Minute
)

// Ledger books the calls of a process. It is safe for concurrent use.
type Ledger struct {
	Store *store.Store
	Log   *slog.Logger
}

// Call identifies a model call.
type Call struct {
	Execution contract.ExecutionRef // zero: no run makes the call
	Turn      int
	Choice    contract.ModelChoice
}

// Key identifies a call of a run within a process.
type Key struct {
	execution int64
	turn      int
}

// Key returns what identifies the call within a process.
func (c Call) Key() Key { return Key{c.Execution.ID, c.Turn} }

func (c Call) attrs() []any {
	return []any{"run", c.Execution.RunID, "execution", c.Execution.ID, "turn", c.Turn, "provider", c.Choice.Provider, "model", c.Choice.Model}
}

// Once makes a call of a run with attempt, or joins the one in progress for the same execution and turn.
// No other worker makes the call at the same time, unless it takes longer than timeout; 0:
// model.DefaultTimeout. If a model is out and another is not, attempt is repeated at once.
func Once[V any](ctx context.Context, l Ledger, g *inflight.Group[Key, V], c Call, timeout time.Duration, attempt func(ctx context.Context, paid func()) (V, error)) (V, error) {
	return g.Do(ctx, c.Key(), func(ctx context.Context, paid func()) (V, error) {
		release, err := l.lease(ctx, c, timeout)
		if err != nil {
			var none V
			return none, err
		}
		defer release()
		return Switching(func() (V, error) { return attempt(ctx, paid) })
	})
}

// Switching repeats attempt as long as its model is out while another one can be used.
func Switching[V any](attempt func() (V, error)) (V, error) {
	for {
		v, err := attempt()
		if !admission.ShouldSwitch(err) {
			return v, err
		}
	}
}

// lease makes this worker the owner of a call. If another live worker that Temporal lost track of is
// already making it, lease waits for it as long as the call may take: its response is paid for.
func (l Ledger) lease(ctx context.Context, c Call, timeout time.Duration) (release func(), err error) {
	release, owned, err := l.Store.LeaseCall(ctx, c.Execution.ID, c.Turn, 0)
	if err != nil || owned {
		return release, err
	}
	patience := cmp.Or(timeout, model.DefaultTimeout) + storeTimeout
	l.Log.InfoContext(ctx, "Another worker is making this model call; waiting for its response", append(c.attrs(), "at_most", patience)...)
	release, owned, err = l.Store.LeaseCall(ctx, c.Execution.ID, c.Turn, patience)
	if err == nil && !owned {
		l.Log.WarnContext(ctx, "Another worker's model call timed out; making the call here", c.attrs()...)
	}
	return release, err
}

// Reserve reserves the most that a call can use in all its budgets. While running calls have reserved
// the rest of a budget, it waits for them to settle. Budgets that are nearly used up are reported.
func (l Ledger) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	reserve := l.Store.ReserveCall
	if r.Execution.RunID == 0 {
		reserve = l.Store.HoldBudgets
	}
	for {
		reserved, err := reserve(ctx, r)
		if !errors.Is(err, store.ErrBudgetBusy) {
			for _, w := range reserved.Warnings {
				telemetry.BudgetWarnings.WithLabelValues(string(w.Kind)).Inc()
				l.Log.WarnContext(ctx, "A budget is nearly used up", "warning", w.Text, "run", r.Execution.RunID)
			}
			return reserved, err
		}
		r.Retried = true
		select {
		case <-ctx.Done():
			return reserved, ctx.Err()
		case <-time.After(budgetWait):
		}
	}
}

// ReportExcess reports a provider that charged more than the call could use: it ignored the output
// limit, or counts tokens differently. The excess is booked like any usage.
func (l Ledger) ReportExcess(ctx context.Context, c Call, reserved store.Reserved, used contract.Usage) {
	if used.Tokens() <= reserved.Tokens && used.MicroUSD <= reserved.MicroUSD {
		return
	}
	telemetry.BudgetExcesses.WithLabelValues(c.Choice.Provider, c.Choice.Model).Inc()
	l.Log.WarnContext(ctx, "A provider charged more for a model call than was reserved", append(c.attrs(),
		"tokens", used.Tokens(), "reserved_tokens", reserved.Tokens, "micro_usd", used.MicroUSD, "reserved_micro_usd", reserved.MicroUSD)...)
}

// Fail ends a call that got nothing of use, and books what it has used. It does so even if the caller
// is being cancelled, once: if the database is down, the next attempt takes over the reservation.
func (l Ledger) Fail(ctx context.Context, c Call, id store.CallID, failure *contract.Failure, used contract.Usage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := l.Store.FailCall(ctx, id, failure, used); err != nil {
		l.Log.WarnContext(ctx, "Could not settle a failed model call; the next attempt will take over its reservation", append(c.attrs(), "error", err)...)
	}
}

// SettleHold replaces the reservation of a call outside runs by what it has used, even if the caller is
// being cancelled, once: if the database is down, the call counts as used in full.
func (l Ledger) SettleHold(ctx context.Context, c Call, id store.CallID, used contract.Usage) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := l.Store.SettleHold(ctx, id.Call, used); err != nil {
		l.Log.WarnContext(ctx, "Could not settle a model call; its budgets will count it as used in full", append(c.attrs(), "error", err)...)
	}
}

// Settle calls complete until the database accepts or rejects what a call got. That is paid for, so it
// is kept in memory while the database is down, even after the caller has ended.
func (l Ledger) Settle(ctx context.Context, c Call, complete func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	for wait := budgetWait; ; wait = min(2*wait, maxStorePause) {
		once, done := context.WithTimeout(ctx, storeTimeout)
		err := complete(once)
		done()
		if err == nil || errors.Is(err, store.ErrSuperseded) || fault.Of(err).Class != contract.ClassInfra {
			return err
		}
		l.Log.WarnContext(ctx, "Could not store a model response; trying again", append(c.attrs(), "error", err)...)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}
