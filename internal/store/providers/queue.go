package providers

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Window is the time that the limits per minute count over: a minute, and a second for the way from
// the admission of a call to its provider.
const Window = 61 * time.Second

// Limits of what is read at once.
const (
	maxPauses  = 1000
	maxWaiting = 200
)

// Pause is a time for which a provider accepts no calls, as it reported itself.
type Pause struct {
	Provider string
	Reason   string
	For      time.Duration // from now on
}

// Pauses returns the current pauses.
func (s *Store) Pauses(ctx context.Context) ([]Pause, error) {
	rows, err := s.q.ProviderPauses(ctx, maxPauses)
	return rowconv.Convert(rows, func(r db.ProviderPausesRow) Pause {
		return Pause{Provider: r.Provider, Reason: r.Reason, For: seconds(r.Seconds)}
	}), dberr.Explain(err, "read the pauses of model providers")
}

// Pause records that a provider accepts no calls for a while. A longer pause remains.
func (s *Store) Pause(ctx context.Context, p Pause) error {
	return dberr.Explain(s.q.PauseProvider(ctx, db.PauseProviderParams{
		Provider: rowconv.Text(p.Provider), Seconds: p.For.Seconds(), Reason: rowconv.Text(fault.Clip(p.Reason, maxReason)),
	}), "pause model provider %s", p.Provider)
}

// Limits are those of a provider, over all workers; 0 means none.
type Limits struct {
	Requests   int64         // within the window
	Tokens     int64         // within the window
	Concurrent int64         // calls at a time
	Window     time.Duration // 0 means Window
}

// None reports whether there is no limit.
func (l Limits) None() bool { return l.Requests == 0 && l.Tokens == 0 && l.Concurrent == 0 }

func (l Limits) window() time.Duration {
	if l.Window > 0 {
		return l.Window
	}
	return Window
}

// QueuedCall is a call that waits for its turn.
type QueuedCall struct {
	Provider string
	Model    string
	RunID    int64
	Agent    contract.Agent
	Step     string
	Tokens   int64 // estimate
}

// Enqueue adds a call to the queue of its provider, and returns its id. It stays there as long as
// its lease is renewed.
func (s *Store) Enqueue(ctx context.Context, c QueuedCall, lease time.Duration) (int64, error) {
	id, err := s.q.QueueCall(ctx, db.QueueCallParams{
		Provider: rowconv.Text(c.Provider), Model: rowconv.Text(c.Model), RunID: c.RunID, Agent: string(c.Agent), Step: rowconv.Text(c.Step),
		Tokens: c.Tokens, LeaseSeconds: lease.Seconds(),
	})
	return id, dberr.Explain(err, "queue a call of model provider %s", c.Provider)
}

// Admit admits the first calls of a provider's queue, of whatever worker, as many as its limits
// allow. If another worker is doing that, or renews its calls, nothing happens.
func (s *Store) Admit(ctx context.Context, provider string, l Limits) error {
	provider = rowconv.Text(provider)
	err := s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if owned, err := q.TryQueueLock(ctx, provider); err != nil || !owned {
			return err
		}
		if err := q.ForgetCalls(ctx, db.ForgetCallsParams{Provider: provider, WindowSeconds: l.window().Seconds()}); err != nil {
			return err
		}
		_, err := q.AdmitCalls(ctx, db.AdmitCallsParams{
			Provider: provider, Requests: l.Requests, Tokens: l.Tokens, Concurrent: l.Concurrent, WindowSeconds: l.window().Seconds(),
		})
		return err
	})
	return dberr.Explain(err, "admit calls of model provider %s", provider)
}

// Place is where a call is.
type Place struct {
	Admitted bool
	Position int // in the queue, from 1; 0: not known yet
}

// Places returns where calls are. A call that is missing lost its lease.
func (s *Store) Places(ctx context.Context, ids []int64) (map[int64]Place, error) {
	rows, err := s.q.QueuedCalls(ctx, ids)
	out := make(map[int64]Place, len(rows))
	for _, r := range rows {
		out[r.ID] = Place{Admitted: r.Admitted, Position: int(r.Position)}
	}
	return out, dberr.Explain(err, "read the queue of a model provider")
}

// Renew extends the leases of calls of a provider. It takes turns with Admit: both change many rows,
// and would otherwise wait for each other.
func (s *Store) Renew(ctx context.Context, provider string, ids []int64, lease time.Duration) error {
	err := s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.AwaitQueueLock(ctx, rowconv.Text(provider)); err != nil {
			return err
		}
		return q.RenewCalls(ctx, db.RenewCallsParams{Ids: ids, LeaseSeconds: lease.Seconds()})
	})
	return dberr.Explain(err, "extend the leases of calls of model provider %s", provider)
}

// Finish ends a call, and replaces the estimate of its tokens.
func (s *Store) Finish(ctx context.Context, id, tokens int64) error {
	return dberr.Explain(s.q.FinishCall(ctx, db.FinishCallParams{ID: id, Tokens: tokens}), "end a model call in the queue of its provider")
}

// Leave removes a call that was not sent.
func (s *Store) Leave(ctx context.Context, id int64) error {
	return dberr.Explain(s.q.LeaveQueue(ctx, id), "remove a model call from the queue of its provider")
}

// Waiting is a call of a run that waits for its turn at a provider.
type Waiting struct {
	Provider string         `json:"provider"`
	Model    string         `json:"model"`
	Agent    contract.Agent `json:"agent"`
	Step     string         `json:"step,omitempty"`
	Position int            `json:"position" doc:"in the provider's queue, from 1; 0: not known yet"`
	Since    time.Time      `json:"since"`
}

// String describes the call for people.
func (w Waiting) String() string {
	text := string(w.Agent)
	if w.Step != "" {
		text += " " + w.Step
	}
	text += " waits for provider " + w.Provider
	if w.Position > 0 {
		text += fmt.Sprintf(", position %d", w.Position)
	}
	return text
}

// waitEvent is the payload of the event about a call that waits.
type waitEvent struct {
	Agent    contract.Agent `json:"agent"`
	Provider string         `json:"provider"`
	Model    string         `json:"model"`
	Position int            `json:"position"`

	Message string `json:"message"` // for people
}

// AnnounceWait records that a call of a run waits for its turn, with an event of the run, unless
// another one about the same provider was recorded within a time. It reports whether it did.
func (s *Store) AnnounceWait(ctx context.Context, runID int64, w Waiting, every time.Duration) (announced bool, err error) {
	w.Provider, w.Model, w.Step = rowconv.Text(w.Provider), rowconv.Text(w.Model), rowconv.Text(w.Step)
	payload, err := rowconv.Encode(waitEvent{Agent: w.Agent, Provider: w.Provider, Model: w.Model, Position: w.Position, Message: w.String()})
	if err != nil {
		return false, err
	}
	err = s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, runID); err != nil {
			return err
		}
		known, err := q.WaitAnnounced(ctx, db.WaitAnnouncedParams{
			RunID: runID, EventType: string(contract.EventModelWaiting), Provider: w.Provider, EverySeconds: every.Seconds(),
		})
		if err != nil || known {
			return err
		}
		announced = true
		return q.AddEvent(ctx, db.AddEventParams{RunID: runID, EventType: string(contract.EventModelWaiting), Payload: payload})
	})
	return announced && err == nil, dberr.OfRun(err, runID, "record that run %d waits for model provider %s", runID, w.Provider)
}

// WaitingOf returns the calls of a run that wait for their turn at a provider, oldest first.
func (s *Store) WaitingOf(ctx context.Context, runID int64) ([]Waiting, error) {
	rows, err := s.q.WaitingCalls(ctx, db.WaitingCallsParams{RunID: runID, Most: maxWaiting})
	return rowconv.Convert(rows, func(r db.WaitingCallsRow) Waiting {
		return Waiting{Provider: r.Provider, Model: r.Model, Agent: contract.Agent(r.Agent), Step: r.Step, Position: int(r.Position), Since: r.QueuedAt}
	}), dberr.Explain(err, "read the waiting model calls of run %d", runID)
}

// Queue is what happens at a provider with limits now.
type Queue struct {
	Provider string `json:"provider"`
	Waiting  int64  `json:"waiting" doc:"calls that wait for their turn"`
	Active   int64  `json:"active" doc:"calls that are being made"`
	Requests int64  `json:"requests" doc:"calls admitted within the last minute"`
	Tokens   int64  `json:"tokens" doc:"their tokens"`
}

// Queues returns the queues of all providers that have one.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	rows, err := s.q.ProviderQueues(ctx, db.ProviderQueuesParams{WindowSeconds: Window.Seconds(), Most: maxPauses})
	return rowconv.Convert(rows, func(r db.ProviderQueuesRow) Queue { return Queue(r) }), dberr.Explain(err, "read the queues of model providers")
}
