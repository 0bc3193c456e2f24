// Package followups reads which runs continue from which others, and what runs that continue a branch
// know about the earlier work. Store.CreateRun writes these rows.
package followups

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// maxRelated is the number of runs that continue from one run and are listed, the oldest ones.
const maxRelated = 50

// Related is a run from which another one continues, or that continues from it.
type Related struct {
	RunID     int64           `json:"runId"`
	Status    contract.Status `json:"status"`
	GoalTitle string          `json:"goal_title"`
	Commit    string          `json:"commit,omitempty"` // that it released
}

// Lineage is how a run is related to others.
type Lineage struct {
	Follows   *Related  `json:"follows,omitempty"` // whose branch it continues
	ForkOf    *Related  `json:"fork_of,omitempty"` // from a step of which it continues
	FollowUps []Related `json:"follow_ups"`        // that continue its branch
	Forks     []Related `json:"forks"`             // that continue from one of its steps
}

// Of returns how a run is related to others.
func Of(ctx context.Context, st *store.Store, run store.Run) (Lineage, error) {
	out, err := After(ctx, st, run.ID)
	if err != nil {
		return out, err
	}
	for _, read := range out.Before(ctx, run) {
		if err := read(st); err != nil {
			return out, err
		}
	}
	return out, nil
}

// After returns which runs continue from a run, in one query.
func After(ctx context.Context, st *store.Store, run int64) (Lineage, error) {
	out := Lineage{FollowUps: []Related{}, Forks: []Related{}}
	rows, err := st.Queries().RunsAfter(ctx, db.RunsAfterParams{RunID: run, Most: maxRelated})
	if err != nil {
		return out, dberr.Explain(err, "read which runs continue from run %d", run)
	}
	for _, r := range rows {
		related := Related{RunID: r.ID, Status: contract.Status(r.Status), GoalTitle: r.GoalTitle, Commit: r.ReleaseCommit}
		if r.Follows {
			out.FollowUps = append(out.FollowUps, related)
		} else {
			out.Forks = append(out.Forks, related)
		}
	}
	return out, nil
}

// Before returns the reads that add the runs from which a run continues.
func (l *Lineage) Before(ctx context.Context, run store.Run) []store.Read {
	var reads []store.Read
	add := func(to **Related, id int64) {
		reads = append(reads, func(st *store.Store) (err error) { *to, err = one(ctx, st, id); return err })
	}
	if f := run.Settings.FollowUp; f != nil && f.Branch != "" {
		add(&l.Follows, f.RunID)
	}
	if f := run.Settings.Fork; f != nil {
		add(&l.ForkOf, f.RunID)
	}
	return reads
}

// one returns a run, nil if it does not exist any more.
func one(ctx context.Context, st *store.Store, id int64) (*Related, error) {
	r, err := st.Queries().RunTitle(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // as documented
	}
	return &Related{RunID: r.ID, Status: contract.Status(r.Status), GoalTitle: r.GoalTitle, Commit: r.ReleaseCommit}, dberr.Explain(err, "read run %d", id)
}

// Work returns what a run knows about the earlier work on its branch, as JSON; nil if it does not
// continue one.
func Work(ctx context.Context, st *store.Store, run int64) (json.RawMessage, error) {
	work, err := st.Queries().WorkBefore(ctx, run)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return work, dberr.Explain(err, "read the earlier work of run %d", run)
}

// LastOn returns the newest run that continued a branch and released commits to it, 0 if there is none.
func LastOn(ctx context.Context, st *store.Store, repo, branch string) (int64, error) {
	ids, err := st.Queries().LastReleaseOnBranch(ctx, db.LastReleaseOnBranchParams{Repo: repo, Branch: branch})
	if err != nil || len(ids) == 0 {
		return 0, dberr.Explain(err, "find the runs that continued %s", branch)
	}
	return ids[0], nil
}
