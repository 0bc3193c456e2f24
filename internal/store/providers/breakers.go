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

// Limits of what is read at once.
const (
	maxBreakers  = 1000
	maxFallbacks = 1000
	maxReason    = 400 // bytes
)

// State is the state of a circuit breaker.
type State string

// The states of a breaker.
const (
	Closed   State = "closed"    // calls are made
	Open     State = "open"      // no calls are made until the pause is over
	HalfOpen State = "half_open" // one call at a time, the probe, finds out whether the provider is back
)

// Breaker is the circuit breaker of a model, or of a provider as a whole if Model is empty.
type Breaker struct {
	Provider string
	Model    string
	State    State
	Failures int           // in a row
	Trips    int           // how often it has opened since it was closed
	RetryIn  time.Duration // the rest of the pause
	Probing  bool          // a call is the probe
	Reason   string        // the last failure
	FailedAt time.Time
	OpenedAt *time.Time // when it opened first
}

// Breakers returns the breakers with a failure since their last success; all others are closed.
func (s *Store) Breakers(ctx context.Context) ([]Breaker, error) {
	rows, err := s.q.Breakers(ctx, maxBreakers)
	return rowconv.Convert(rows, func(r db.BreakersRow) Breaker {
		b := Breaker{
			Provider: r.Provider, Model: r.Model, State: Closed, Failures: int(r.Failures), Trips: int(r.Trips), Probing: r.Probing,
			RetryIn: seconds(r.OpenSeconds), Reason: r.Reason, FailedAt: r.FailedAt, OpenedAt: r.OpenedAt,
		}
		switch {
		case r.Opened && b.RetryIn > 0:
			b.State = Open
		case r.Opened:
			b.State = HalfOpen
		}
		return b
	}), dberr.Explain(err, "read the circuit breakers of model providers")
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Failure is a failed call that counts for a breaker.
type Failure struct {
	Provider  string
	Model     string // empty: it concerns the provider as a whole
	Probe     string // the token of the call, if it was a probe
	Reason    string
	Threshold int           // failures in a row that open the breaker
	Pause     time.Duration // the first one; each further one is twice as long
	Longest   time.Duration // pause
}

// Fail counts a failure. It returns the breaker, and the models of the breakers that the failure
// opened, empty for that of the provider: if the call was a probe, these are all that it probed.
func (s *Store) Fail(ctx context.Context, f Failure) (b Breaker, opened []string, err error) {
	r, err := s.q.CountProviderFailure(ctx, db.CountProviderFailureParams{
		Provider: rowconv.Text(f.Provider), Model: rowconv.Text(f.Model), Probe: f.Probe, Reason: rowconv.Text(fault.Clip(f.Reason, maxReason)),
		Threshold: int32(f.Threshold), PauseSeconds: f.Pause.Seconds(), LongestSeconds: f.Longest.Seconds(),
	})
	if err != nil {
		return b, nil, dberr.Explain(err, "count a failure of model provider %s", f.Provider)
	}
	b = Breaker{Provider: f.Provider, Model: f.Model, State: Closed, Failures: int(r.Failures), Trips: int(r.Trips), RetryIn: seconds(r.OpenSeconds), Reason: f.Reason}
	if r.Opened {
		b.State = Open
	}
	if r.Tripped {
		r.Reopened = append(r.Reopened, f.Model)
	}
	return b, r.Reopened, nil
}

// Succeed forgets the failures of a model and its provider, and closes the breakers whose probe the
// call was. It reports whether it closed one.
func (s *Store) Succeed(ctx context.Context, provider, model, probe string) (closed bool, err error) {
	rows, err := s.q.CountProviderSuccess(ctx, db.CountProviderSuccessParams{Provider: rowconv.Text(provider), Model: rowconv.Text(model), Probe: probe})
	for _, r := range rows {
		closed = closed || r.Opened
	}
	return closed, dberr.Explain(err, "count a success of model provider %s", provider)
}

// TakeProbe makes a call the probe of the half-open breakers of a model and its provider, as long
// as its lease is current. It returns the number of breakers; 0 means that other calls are their
// probes, or that none is half-open.
func (s *Store) TakeProbe(ctx context.Context, provider, model, token string, lease time.Duration) (int, error) {
	n, err := s.q.TakeProbe(ctx, db.TakeProbeParams{Provider: rowconv.Text(provider), Model: rowconv.Text(model), Probe: token, LeaseSeconds: lease.Seconds()})
	return int(n), dberr.Explain(err, "probe model provider %s", provider)
}

// RenewProbe extends the lease of a probe.
func (s *Store) RenewProbe(ctx context.Context, provider, token string, lease time.Duration) error {
	return dberr.Explain(s.q.RenewProbe(ctx, db.RenewProbeParams{Provider: rowconv.Text(provider), Probe: token, LeaseSeconds: lease.Seconds()}),
		"extend the lease of a probe of model provider %s", provider)
}

// ReleaseProbe lets another call be the probe.
func (s *Store) ReleaseProbe(ctx context.Context, provider, token string) error {
	return dberr.Explain(s.q.ReleaseProbe(ctx, db.ReleaseProbeParams{Provider: rowconv.Text(provider), Probe: token}), "release a probe of model provider %s", provider)
}

// Fallback is the use of another model in place of one whose breaker is open.
type Fallback struct {
	RunID  int64
	Agent  contract.Agent
	From   contract.ModelChoice
	To     contract.ModelChoice
	Reason string
}

// fallbackEvent is the payload of the events about a fallback.
type fallbackEvent struct {
	Agent contract.Agent `json:"agent"`
	Model modelName      `json:"model"` // that is used from now on
	From  modelName      `json:"from"`

	Message string `json:"message"` // for people
}

type modelName struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
}

func (m modelName) String() string { return m.Provider + "/" + m.Model }

// StartFallback records that an agent of a run uses another model, with an event of the run. If it
// already does, nothing changes. It reports whether there was a switch.
func (s *Store) StartFallback(ctx context.Context, f Fallback) (started bool, err error) {
	f.Reason = rowconv.Text(fault.Clip(f.Reason, maxReason))
	from, to := modelName{f.From.Provider, f.From.Model}, modelName{f.To.Provider, f.To.Model}
	payload, err := rowconv.Encode(fallbackEvent{
		Agent: f.Agent, Model: to, From: from, Message: fmt.Sprintf("the %s uses %s until %s is available again: %s", f.Agent, to, from, f.Reason),
	})
	if err != nil {
		return false, err
	}
	err = s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, f.RunID); err != nil {
			return err
		}
		n, err := q.StartFallback(ctx, db.StartFallbackParams{
			RunID: f.RunID, Agent: string(f.Agent), Provider: rowconv.Text(f.From.Provider), Model: rowconv.Text(f.From.Model),
			ToProvider: rowconv.Text(f.To.Provider), ToModel: rowconv.Text(f.To.Model), Reason: f.Reason,
		})
		if err != nil || n == 0 {
			return err
		}
		started = true
		return q.AddEvent(ctx, db.AddEventParams{RunID: f.RunID, EventType: string(contract.EventModelFallback), Payload: payload})
	})
	return started && err == nil, dberr.OfRun(err, f.RunID, "record that run %d uses another model", f.RunID)
}

// EndFallbacks records that the agents that used another model in place of a provider's return to
// it, with an event of each run that has not ended. Models whose breaker is still open are left
// alone. An empty provider stands for all.
func (s *Store) EndFallbacks(ctx context.Context, provider string) error {
	rows, err := s.q.EndedFallbacks(ctx, db.EndedFallbacksParams{Provider: rowconv.Text(provider), Most: maxFallbacks})
	if err != nil {
		return dberr.Explain(err, "find the runs that used other models than their own")
	}
	for _, r := range rows {
		if err := s.endFallback(ctx, r); err != nil {
			return dberr.Explain(err, "record that run %d uses its own model again", r.RunID)
		}
	}
	return nil
}

func (s *Store) endFallback(ctx context.Context, r db.EndedFallbacksRow) error {
	own, other := modelName{r.Provider, r.Model}, modelName{r.ToProvider, r.ToModel}
	payload, err := rowconv.Encode(fallbackEvent{
		Agent: contract.Agent(r.Agent), Model: own, From: other, Message: fmt.Sprintf("%s is available again; the %s uses it from the next call on", own, r.Agent),
	})
	if err != nil {
		return err
	}
	return s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, r.RunID); err != nil {
			return err
		}
		n, err := q.EndFallback(ctx, r.ID)
		if err != nil || n == 0 || r.Finished {
			return err
		}
		return q.AddEvent(ctx, db.AddEventParams{RunID: r.RunID, EventType: string(contract.EventModelRestored), Payload: payload})
	})
}
