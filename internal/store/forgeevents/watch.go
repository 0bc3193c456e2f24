package forgeevents

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// LookGap is the shortest time between two looks at a pull request that webhooks ask for.
const LookGap = 2 * time.Second

// Watch is an open pull request of a run that watches its branch.
type Watch struct {
	Forge, Repo string
	Number      int64
	RunID       int64           // the newest of its runs that watch their branches
	Status      contract.Status // of that run
	Commit      string          // that the run released last
	Opened      time.Time       // when the first of those runs got the pull request
	Since       time.Time       // comments up to then were read
	Failures    int             // looks that failed, in a row
	Began       time.Time       // when it was found due, by the clock of the database
}

// Due returns at most most pull requests of a forge that are to be looked at now.
func Due(ctx context.Context, st *store.Store, forge string, most int) ([]Watch, error) {
	rows, err := st.Queries().DueForgeWatches(ctx, db.DueForgeWatchesParams{Forge: forge, Most: int32(most)})
	return rowconv.Convert(rows, func(r db.DueForgeWatchesRow) Watch {
		return Watch{
			Forge: forge, Repo: r.Repo, Number: r.Number, RunID: r.RunID, Status: contract.Status(r.Status), Commit: r.CommitID, Since: r.Since, Opened: r.OpenedAt,
			Failures: int(r.Failures), Began: r.Now,
		}
	}), dberr.Explain(err, "find the pull requests to look at on %s", forge)
}

// EndLook stores that a pull request was looked at, and when it is looked at next: after wait, or, if
// that is negative, only when a webhook asks for it or the run releases again. Since and Failures of
// the watch are stored as they are now; a reason says why the look failed.
func EndLook(ctx context.Context, st *store.Store, w Watch, wait time.Duration, reason string) error {
	err := st.Queries().EndForgeLook(ctx, db.EndForgeLookParams{
		Forge: w.Forge, Repo: w.Repo, Number: w.Number, CommitID: w.Commit, Since: w.Since, WaitSeconds: wait.Seconds(), Failures: int32(w.Failures),
		Reason: rowconv.Text(reason), Began: w.Began, GapSeconds: LookGap.Seconds(),
	})
	return dberr.Explain(err, "note that pull request %d of %s was looked at", w.Number, w.Repo)
}

// Delivery is a webhook that a forge sent.
type Delivery struct {
	Forge  string
	ID     string // that the forge gave it
	Repo   string
	Key    string // says what happened; unique in the repository
	Number int64  // of the pull request; 0: Branch or Commit says which one
	Branch string
	Commit string
}

// Receive stores a delivery, and makes the pull requests that it concerns due for a look, in one
// transaction. It reports false, and changes nothing, if this delivery, or another one that says the
// same, was received before.
func Receive(ctx context.Context, st *store.Store, d Delivery) (fresh bool, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		n, err := q.AddForgeDelivery(ctx, db.AddForgeDeliveryParams{
			Forge: d.Forge, Delivery: rowconv.Text(d.ID), Repo: rowconv.Text(d.Repo), EventID: rowconv.Text(d.Key),
		})
		if fresh = n > 0; err != nil || !fresh {
			return err
		}
		_, err = q.AskForgeLook(ctx, db.AskForgeLookParams{
			Forge: d.Forge, Repo: rowconv.Text(d.Repo), Number: d.Number, Branch: rowconv.Text(d.Branch), CommitID: rowconv.Text(d.Commit), GapSeconds: LookGap.Seconds(),
		})
		return err
	})
	return fresh && err == nil, dberr.Explain(err, "store a webhook of %s", d.Forge)
}

// sweepPage is the number of rows that one statement of Sweep deletes.
const sweepPage = 1000

// Sweep deletes what ended longer ago than age and concerns no run that still watches its branch, and
// returns how many rows it deleted.
func Sweep(ctx context.Context, st *store.Store, age time.Duration) (all int64, err error) {
	q := st.Queries()
	for _, page := range []func() (int64, error){
		func() (int64, error) {
			return q.SweepForgeEvents(ctx, db.SweepForgeEventsParams{AgeSeconds: age.Seconds(), Most: sweepPage})
		},
		func() (int64, error) {
			return q.SweepForgeDeliveries(ctx, db.SweepForgeDeliveriesParams{AgeSeconds: age.Seconds(), Most: sweepPage})
		},
	} {
		for {
			n, err := page()
			all += n
			if err != nil {
				return all, dberr.Explain(err, "remove old events of forges")
			}
			if n < sweepPage {
				break
			}
		}
	}
	n, err := q.SweepForgeWatches(ctx, age.Seconds())
	return all + n, dberr.Explain(err, "remove old watches of pull requests")
}
