package triggers

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// State is the state of a firing.
type State string

// The states of a firing. Only waiting ones are worked on.
const (
	Waiting State = "waiting"
	Fired   State = "fired"   // it created a run
	Skipped State = "skipped" // the trigger's settings did not allow a run
	Failed  State = "failed"  // its run could not be created
)

// Firing is a delivery with its outcome.
type Firing struct {
	ID         int64      `json:"id"`
	Trigger    string     `json:"trigger"`
	Forge      string     `json:"forge,omitempty" doc:"forge on which it happened"`
	Repository string     `json:"repository,omitempty" doc:"path of the repository in which it happened, in lower case"`
	Delivery   string     `json:"delivery" doc:"what fired the trigger, such as issue:12; unique for the trigger and the repository"`
	State      State      `json:"state" enum:"waiting,fired,skipped,failed"`
	Reason     string     `json:"reason,omitempty" doc:"why it waits, was skipped or failed"`
	Position   int        `json:"position,omitempty" doc:"place in the trigger's queue while it waits, from 1"`
	RunID      int64      `json:"run_id,omitempty" doc:"run that it created; absent: none, or the run was deleted"`
	Attempts   int        `json:"attempts" doc:"attempts to create its run"`
	OccurredAt time.Time  `json:"occurred_at"`
	ReceivedAt time.Time  `json:"received_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	TriedAt    time.Time  `json:"-"` // first attempt to create its run; zero: none was made
	Payload    Payload    `json:"payload" doc:"what the delivery says; texts of strangers"`
}

func firingOf(f db.TriggerFiring, position int64) (Firing, error) {
	payload, err := rowconv.Decode[Payload](f.Payload)
	return Firing{
		ID: f.ID, Trigger: f.Trigger, Forge: f.Forge, Repository: f.Repository, Delivery: f.Delivery, State: State(f.State), Reason: f.Reason, Position: int(position), RunID: rowconv.Deref(f.RunID),
		Attempts: int(f.Attempts), OccurredAt: f.OccurredAt, ReceivedAt: f.ReceivedAt, EndedAt: f.EndedAt,
		TriedAt: rowconv.Deref(f.TriedAt), Payload: payload,
	}, err
}

// At returns where it happened.
func (f Firing) At() Place { return Place{f.Forge, f.Repository} }

// Get returns a firing.
func Get(ctx context.Context, st *store.Store, id int64) (Firing, error) {
	row, err := st.Queries().Firing(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Firing{}, fault.Wrap(store.ErrNotFound, contract.ClassHuman, store.CodeNotFound, "delivery %d not found; see rgpt trigger deliveries", id)
	}
	if err != nil {
		return Firing{}, dberr.Explain(err, "read delivery %d of a trigger", id)
	}
	return firingOf(row.TriggerFiring, row.Position)
}

// Filter selects firings.
type Filter struct {
	Trigger string // empty: all
	State   State  // empty: all
	Before  int64  // only older ones than this; 0: from the newest on
	Limit   int
}

// List returns firings, newest first.
func List(ctx context.Context, st *store.Store, f Filter) ([]Firing, error) {
	rows, err := st.ListQueries().Firings(ctx, db.FiringsParams{Trigger: f.Trigger, State: string(f.State), Before: f.Before, Most: rowconv.Limit(f.Limit, 50)})
	if err != nil {
		return nil, dberr.Explain(err, "read the deliveries of triggers")
	}
	return rowconv.ConvertAll(rows, func(r db.FiringsRow) (Firing, error) { return firingOf(r.TriggerFiring, r.Position) })
}

// Request stores a delivery that a person or a client asks for, with an entry in the audit ledger, and
// returns its firing. A delivery that is known already changes nothing, and its firing is returned.
func Request(ctx context.Context, st *store.Store, d Delivery, by string) (f Firing, fresh bool, err error) {
	payload, err := rowconv.Encode(d.Payload)
	if err != nil {
		return f, false, err
	}
	var id int64
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := store.ActAs(ctx, q, by); err != nil {
			return err
		}
		n, err := q.AddTriggerFiring(ctx, db.AddTriggerFiringParams{
			Trigger: d.Trigger, Forge: d.At.Forge, Repository: d.At.Repository, Delivery: rowconv.Text(d.Key), Payload: payload, OccurredAt: d.OccurredAt,
		})
		if err != nil {
			return err
		}
		fresh = n > 0
		id, err = q.FiringOf(ctx, db.FiringOfParams{Trigger: d.Trigger, Forge: d.At.Forge, Repository: d.At.Repository, Delivery: rowconv.Text(d.Key)})
		return err
	})
	if err != nil {
		return f, false, dberr.Explain(err, "store what fired the trigger %s", d.Trigger)
	}
	f, err = Get(ctx, st, id)
	return f, fresh, err
}

// Redeliver lets a firing that was skipped or failed wait again. It reports false for other firings.
func Redeliver(ctx context.Context, st *store.Store, id int64, by string) (done bool, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := store.ActAs(ctx, q, by); err != nil {
			return err
		}
		n, err := q.RedeliverFiring(ctx, id)
		done = n > 0
		return err
	})
	return done, dberr.Explain(err, "deliver %d of a trigger again", id)
}

// Pause pauses a trigger: its deliveries wait. It reports false if it is paused already.
func Pause(ctx context.Context, st *store.Store, name, reason, by string) (bool, error) {
	n, err := st.Queries().PauseTrigger(ctx, db.PauseTriggerParams{Name: name, PausedBy: rowconv.Text(by), Reason: rowconv.Text(reason)})
	return n > 0, dberr.Explain(err, "pause the trigger %s", name)
}

// Resume ends the pause of a trigger. It reports false if it is not paused.
func Resume(ctx context.Context, st *store.Store, name, by string) (done bool, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := store.ActAs(ctx, q, by); err != nil {
			return err
		}
		n, err := q.ResumeTrigger(ctx, name)
		done = n > 0
		return err
	})
	return done, dberr.Explain(err, "resume the trigger %s", name)
}

// Status is what is known of a trigger besides its configuration.
type Status struct {
	PausedAt *time.Time `json:"paused_at,omitempty" doc:"it is paused since then: its deliveries wait"`
	PausedBy string     `json:"paused_by,omitempty"`
	Reason   string     `json:"reason,omitempty" doc:"why it is paused"`
	Problem  string     `json:"problem,omitempty" doc:"why what happens on its forge could not be read"`
	Waiting  int        `json:"waiting" doc:"deliveries that wait"`
	Running  int        `json:"running" doc:"runs in progress that it created"`
	FiredAt  *time.Time `json:"fired_at,omitempty" doc:"when it created the last run"`
}

// Statuses returns the status of each of the named triggers, in the order of names.
func Statuses(ctx context.Context, st *store.Store, names []string) ([]Status, error) {
	rows, err := st.Queries().TriggerStates(ctx, names)
	return rowconv.Convert(rows, func(r db.TriggerStatesRow) Status {
		return Status{
			PausedAt: r.PausedAt, PausedBy: r.PausedBy, Reason: r.Reason, Problem: r.Problem, Waiting: int(r.Waiting), Running: int(r.Running), FiredAt: r.FiredAt,
		}
	}), dberr.Explain(err, "read the status of triggers")
}

// sweepPage is the number of rows that one statement of Sweep removes.
const sweepPage = 1000

// Sweep removes firings that ended long ago, and returns how many. Those of issues and comments are kept
// for at least long, because a forge shows these again, and those of runs in progress are kept.
func Sweep(ctx context.Context, st *store.Store, age, long time.Duration) (removed int64, err error) {
	for {
		n, err := st.ListQueries().SweepFirings(ctx, db.SweepFiringsParams{AgeSeconds: age.Seconds(), LongSeconds: long.Seconds(), Most: sweepPage})
		removed += n
		if err != nil || n < sweepPage {
			return removed, dberr.Explain(err, "remove old deliveries of triggers")
		}
	}
}
