package triggers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// AllWaiting returns the triggers with firings that wait, each with the time of its oldest one.
func AllWaiting(ctx context.Context, st *store.Store) (map[string]time.Time, error) {
	rows, err := st.Queries().WaitingTriggers(ctx)
	out := map[string]time.Time{}
	for _, r := range rows {
		out[r.Trigger] = r.Oldest
	}
	return out, dberr.Explain(err, "find the triggers with waiting deliveries")
}

// Item is a firing that waits.
type Item struct {
	ID         int64
	At         Place
	Delivery   string
	OccurredAt time.Time
	ReceivedAt time.Time
	Accepted   bool       // it was found to be in time
	TriedAt    *time.Time // first attempt to create its run; nil: none was made
	Attempts   int
	Creating   bool // a server creates its run, unless Due
	Due        bool // the next attempt is due, or the server that made the last one counts as dead
}

// Begun reports whether there was an attempt to create its run.
func (i Item) Begun() bool { return i.TriedAt != nil }

// Turn is a decision about a trigger. Meanwhile no other server decides about it.
type Turn struct {
	Name    string
	Now     time.Time // of the database
	Paused  bool
	Reason  string  // why it is paused
	Waiting []Item  // in order
	Running []int64 // runs in progress, in order

	ended map[State]int
	q     *db.Queries
}

// InTurn lets decide decide about a trigger, with at most most of the firings that wait. What decide
// changes is stored together, or not at all if it fails. The result is how many firings it ended, by
// state.
func InTurn(ctx context.Context, st *store.Store, name string, most int, decide func(*Turn) error) (map[State]int, error) {
	t := &Turn{Name: name, ended: map[State]int{}}
	err := st.InTx(ctx, func(tx pgx.Tx) error {
		t.q = db.New(tx)
		if err := t.read(ctx, most); err != nil {
			return dberr.Explain(err, "read the deliveries of the trigger %s", name)
		}
		return decide(t)
	})
	if err != nil {
		return nil, err
	}
	return t.ended, nil
}

func (t *Turn) read(ctx context.Context, most int) error {
	if err := t.q.AddTrigger(ctx, t.Name); err != nil {
		return err
	}
	row, err := t.q.LockTrigger(ctx, t.Name)
	if err != nil {
		return err
	}
	t.Now, t.Paused, t.Reason = row.Now, row.Trigger.PausedAt != nil, row.Trigger.Reason
	items, err := t.q.WaitingFirings(ctx, db.WaitingFiringsParams{Trigger: t.Name, Most: int32(most)})
	if err != nil {
		return err
	}
	for _, i := range items {
		t.Waiting = append(t.Waiting, Item{
			ID: i.ID, At: Place{i.Forge, i.Repository}, Delivery: i.Delivery, OccurredAt: i.OccurredAt, ReceivedAt: i.ReceivedAt, Accepted: i.Accepted,
			TriedAt: i.TriedAt, Attempts: int(i.Attempts), Creating: i.Creating, Due: i.Due,
		})
	}
	t.Running, err = t.q.TriggerRuns(ctx, t.Name)
	return err
}

// Use is what a trigger used within a day.
type Use struct {
	Runs   int
	Micros int64 // cost in millionths of a US dollar
}

// Use returns what the trigger used within the last 24 hours.
func (t *Turn) Use(ctx context.Context) (Use, error) {
	row, err := t.q.TriggerUse(ctx, t.Name)
	return Use{int(row.Runs), row.Micros}, dberr.Explain(err, "read what the trigger %s used", t.Name)
}

// Accept notes that firings are in time.
func (t *Turn) Accept(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	return dberr.Explain(t.q.AcceptFirings(ctx, ids), "accept deliveries of the trigger %s", t.Name)
}

// Explain notes why firings without an attempt wait.
func (t *Turn) Explain(ctx context.Context, reason string, items ...Item) error {
	if len(items) == 0 {
		return nil
	}
	err := t.q.ExplainFirings(ctx, db.ExplainFiringsParams{Ids: rowconv.Convert(items, func(i Item) int64 { return i.ID }), Reason: rowconv.Text(reason)})
	return dberr.Explain(err, "explain why deliveries of the trigger %s wait", t.Name)
}

// End ends firings without a run.
func (t *Turn) End(ctx context.Context, state State, reason string, items ...Item) error {
	if len(items) == 0 {
		return nil
	}
	n, err := t.q.EndFirings(ctx, db.EndFiringsParams{
		State: string(state), Reason: rowconv.Text(reason), Ids: rowconv.Convert(items, func(i Item) int64 { return i.ID }),
	})
	t.ended[state] += int(n)
	return dberr.Explain(err, "end deliveries of the trigger %s", t.Name)
}

// Begin leases a firing to the caller, who creates its run.
func (t *Turn) Begin(ctx context.Context, i Item, lease time.Duration) (Firing, error) {
	row, err := t.q.BeginFiring(ctx, db.BeginFiringParams{ID: i.ID, LeaseSeconds: lease.Seconds()})
	if err != nil {
		return Firing{}, dberr.Explain(err, "begin delivery %d of the trigger %s", i.ID, t.Name)
	}
	return firingOf(row, 0)
}

// RunOf returns the run that was created under an idempotency key, 0 if there is none.
func (t *Turn) RunOf(ctx context.Context, key string) (int64, error) {
	row, err := t.q.RunByKey(ctx, db.RunByKeyParams{Tenant: store.DefaultTenant, IdempotencyKey: key})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return row.ID, dberr.Explain(err, "find the run of a delivery of the trigger %s", t.Name)
}

// Found ends a firing whose server died after it had created the run.
func (t *Turn) Found(ctx context.Context, i Item, run int64) error {
	row, err := t.q.Firing(ctx, i.ID)
	if err != nil {
		return dberr.Explain(err, "read delivery %d of the trigger %s", i.ID, t.Name)
	}
	f, err := firingOf(row.TriggerFiring, 0)
	if err != nil {
		return err
	}
	ended, err := fired(ctx, t.q, f, run)
	if ended {
		t.ended[Fired]++
	}
	return dberr.Explain(err, "end delivery %d of the trigger %s", i.ID, t.Name)
}

// fired ends a firing that created a run, and adds the event to the run.
func fired(ctx context.Context, q *db.Queries, f Firing, run int64) (bool, error) {
	n, err := q.EndFiring(ctx, db.EndFiringParams{ID: f.ID, Attempt: int32(f.Attempts), State: string(Fired), RunID: &run})
	if err != nil || n == 0 {
		return false, err
	}
	payload, err := rowconv.Encode(struct {
		Trigger  string `json:"trigger"`
		Delivery string `json:"delivery"`
		ID       int64  `json:"delivery_id"`
		URL      string `json:"url,omitempty"`
	}{f.Trigger, f.Delivery, f.ID, f.Payload.URL})
	if err != nil {
		return false, err
	}
	return true, q.AddEvent(ctx, db.AddEventParams{RunID: run, EventType: string(contract.EventTriggerFired), Payload: payload})
}

// EndFired ends a firing that the caller began and that created a run, which gets the event
// trigger.fired. It reports false if another server took the firing over.
func EndFired(ctx context.Context, st *store.Store, f Firing, run int64) (ended bool, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		ended, err = fired(ctx, db.New(tx), f, run)
		return err
	})
	return ended, dberr.Explain(err, "end delivery %d of the trigger %s", f.ID, f.Trigger)
}

// EndFailed ends a firing that the caller began and whose run cannot be created. It reports false if
// another server took the firing over.
func EndFailed(ctx context.Context, st *store.Store, f Firing, reason string) (bool, error) {
	n, err := st.Queries().EndFiring(ctx, db.EndFiringParams{ID: f.ID, Attempt: int32(f.Attempts), State: string(Failed), Reason: rowconv.Text(reason)})
	return n > 0, dberr.Explain(err, "end delivery %d of the trigger %s", f.ID, f.Trigger)
}

// Renew extends the lease of a firing that the caller began.
func Renew(ctx context.Context, st *store.Store, f Firing, lease time.Duration) error {
	_, err := st.Queries().RenewFiring(ctx, db.RenewFiringParams{ID: f.ID, Attempt: int32(f.Attempts), LeaseSeconds: lease.Seconds()})
	return dberr.Explain(err, "continue with delivery %d of the trigger %s", f.ID, f.Trigger)
}

// Retry makes a firing that the caller began due again after a time, with the reason why this attempt
// failed.
func Retry(ctx context.Context, st *store.Store, f Firing, wait time.Duration, reason string) error {
	_, err := st.Queries().RetryFiring(ctx, db.RetryFiringParams{ID: f.ID, Attempt: int32(f.Attempts), Reason: rowconv.Text(reason), WaitSeconds: wait.Seconds()})
	return dberr.Explain(err, "postpone delivery %d of the trigger %s", f.ID, f.Trigger)
}
