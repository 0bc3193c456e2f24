package triggers

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// LookGap is the shortest time between two looks for a trigger that webhooks ask for.
const LookGap = 3 * time.Second

// Look is a look of a server at the forge of a trigger, for what fires it.
type Look struct {
	Trigger  string
	Number   int64     // of the looks for the trigger
	For      string    // what Since is about: with another trigger of this name, nothing was read
	Since    time.Time // up to when everything was read, by the clock of the forge; zero: this is the first look
	Failures int       // looks before this one that failed, in a row
	Began    time.Time // by the clock of the database
}

// AddTriggers notes that triggers exist, so that they are looked for.
func AddTriggers(ctx context.Context, st *store.Store, names []string) error {
	return dberr.Explain(st.Queries().AddTriggers(ctx, names), "store the names of the triggers")
}

// ClaimLooks leases looks for some triggers that are due, at most most of them, none for paused ones.
// No other server looks for them until EndLook or the end of the lease.
func ClaimLooks(ctx context.Context, st *store.Store, names []string, most int, lease time.Duration) ([]Look, error) {
	rows, err := st.Queries().ClaimTriggerLooks(ctx, db.ClaimTriggerLooksParams{Names: names, Most: int32(most), LeaseSeconds: lease.Seconds()})
	if err != nil {
		return nil, dberr.Explain(err, "find the triggers that are due")
	}
	out := make([]Look, len(rows))
	for i, r := range rows {
		out[i] = Look{Trigger: r.Name, Number: r.Looks, For: r.ReadFor, Failures: int(r.Failures), Began: r.Now}
		if r.ReadUntil != nil {
			out[i].Since = *r.ReadUntil
		}
	}
	return out, nil
}

// EndLook stores the result of a look, and when the next one is due: after wait, or if that is negative,
// when a webhook asks for it. A problem says why the look failed. It has no effect if the lease has ended
// and another server looks.
func EndLook(ctx context.Context, st *store.Store, l Look, wait time.Duration, problem string) error {
	var since *time.Time
	if !l.Since.IsZero() {
		since = &l.Since
	}
	return dberr.Explain(st.Queries().EndTriggerLook(ctx, db.EndTriggerLookParams{
		Name: l.Trigger, Look: l.Number, ReadUntil: since, ReadFor: rowconv.Text(l.For), Failures: int32(l.Failures), Problem: rowconv.Text(problem),
		Began: l.Began, WaitSeconds: wait.Seconds(), GapSeconds: LookGap.Seconds(),
	}), "store the result of a look for the trigger %s", l.Trigger)
}

// AskLooks makes looks for triggers due, because a webhook said that something happened.
func AskLooks(ctx context.Context, st *store.Store, names []string) error {
	return dberr.Explain(st.Queries().AskTriggerLooks(ctx, db.AskTriggerLooksParams{Names: names, GapSeconds: LookGap.Seconds()}), "ask for looks for triggers")
}

// Known returns which deliveries of a trigger from a place were added before.
func Known(ctx context.Context, st *store.Store, trigger string, at Place, keys []string) (map[string]bool, error) {
	found, err := st.Queries().KnownTriggerFirings(ctx, db.KnownTriggerFiringsParams{Trigger: trigger, Forge: at.Forge, Repository: at.Repository, Deliveries: keys})
	known := map[string]bool{}
	for _, key := range found {
		known[key] = true
	}
	return known, dberr.Explain(err, "read what fired the trigger %s", trigger)
}
