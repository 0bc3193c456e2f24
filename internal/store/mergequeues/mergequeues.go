// Package mergequeues stores the merge queues of branches, the pull requests in them, and the commands
// that they got. Their workflows decide; the rows are what people and programs read.
package mergequeues

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// abandoned is the reason of entries whose workflow was terminated.
const abandoned = "the workflow of the queue ended without a decision; add the pull request again"

// maxQueues and maxEnded limit what List returns.
const (
	maxQueues = 200
	maxEnded  = 200
)

// Ended is how many entries ended with a call of Save, by their state.
type Ended map[contract.QueueState]int

// Save stores changes of a merge queue, unless later ones are stored, and returns what has ended with
// them. Storing them again changes nothing.
func Save(ctx context.Context, st *store.Store, s contract.QueueSave) (ended Ended, err error) {
	err = st.InTx(ctx, func(tx pgx.Tx) error {
		ended = Ended{}
		return save(ctx, db.New(tx), s, ended)
	})
	return ended, dberr.Explain(err, "store the merge queue of %s", s.Queue)
}

func save(ctx context.Context, q *db.Queries, s contract.QueueSave, ended Ended) error {
	clean := rowconv.Text
	row := db.SaveMergeQueueParams{
		Forge: s.Queue.Forge, Repo: s.Queue.Repo, Base: s.Queue.Base, Version: s.Version, CheckRuns: int64(s.Runs), Decided: int64(s.Decided),
	}
	if p := s.Paused; p != nil {
		row.PausedAt, row.PausedBy, row.PauseReason = &p.At, clean(p.By), clean(p.Reason)
	}
	if err := q.SaveMergeQueue(ctx, row); err != nil {
		return err
	}
	if s.First {
		n, err := q.AbandonMergeQueueEntries(ctx, db.AbandonMergeQueueEntriesParams{
			Forge: s.Queue.Forge, Repo: s.Queue.Repo, Base: s.Queue.Base, Reason: abandoned, Version: firstVersion(s),
		})
		if err != nil {
			return err
		}
		ended[contract.QueueReturned] += int(n)
	}
	for _, e := range s.Entries {
		over, err := q.SaveMergeQueueEntry(ctx, db.SaveMergeQueueEntryParams{
			Forge: s.Queue.Forge, Repo: s.Queue.Repo, Base: s.Queue.Base, Key: clean(e.Key), Number: e.Number, Title: clean(e.Title), Url: clean(e.URL), RunID: e.RunID,
			AddedBy: clean(e.AddedBy), AddedAt: e.AddedAt, Place: e.Place, State: string(e.State), Reason: clean(e.Reason), HeadCommit: e.Head, Batch: e.Batch,
			MergeCommit: e.Commit, Version: e.Version,
		})
		if err != nil {
			return err
		}
		if over {
			ended[e.State]++
		}
	}
	for _, c := range s.Commands {
		if err := q.AddMergeQueueCommand(ctx, db.AddMergeQueueCommandParams{
			Forge: s.Queue.Forge, Repo: s.Queue.Repo, Base: s.Queue.Base, Key: clean(c.ID), Action: string(c.Action), Number: c.Number, ByWhom: clean(c.By), Reason: clean(c.Reason),
		}); err != nil {
			return err
		}
	}
	return nil
}

// firstVersion returns the smallest version of what is stored first.
func firstVersion(s contract.QueueSave) int64 {
	version := s.Version
	for _, e := range s.Entries {
		version = min(version, e.Version)
	}
	return version
}

// Queued is a pull request in a merge queue.
type Queued struct {
	ID       int64               `json:"id"`
	Number   int64               `json:"number"`
	Position int                 `json:"position,omitempty" doc:"place in the queue, from 1; absent: it has left the queue"`
	State    contract.QueueState `json:"state" enum:"waiting,testing,merging,merged,returned"`
	Reason   string              `json:"reason,omitempty" doc:"why it waits or was returned; of a merged one, notes"`
	Title    string              `json:"title,omitempty"`
	URL      string              `json:"url,omitempty"`
	RunID    int64               `json:"run_id,omitempty" doc:"run that has the pull request"`
	AddedBy  string              `json:"added_by,omitempty"`
	AddedAt  time.Time           `json:"added_at"`
	Head     string              `json:"head_commit,omitempty" doc:"commit that was added, which alone is tested and merged"`
	Batch    string              `json:"batch,omitempty" doc:"branch of the commit that it was last tested in"`
	Commit   string              `json:"merge_commit,omitempty" doc:"commit on the base"`
	EndedAt  *time.Time          `json:"ended_at,omitempty"`
}

// MergeQueue is a merge queue as last stored.
type MergeQueue struct {
	contract.QueueRef

	PausedBy    string     `json:"paused_by,omitempty"`
	PauseReason string     `json:"pause_reason,omitempty"`
	PausedAt    *time.Time `json:"paused_at,omitempty"`
	CheckRuns   int64      `json:"check_runs" doc:"commits whose checks ran"`
	Decided     int64      `json:"decided" doc:"pull requests that these checks decided about"`
	UpdatedAt   time.Time  `json:"updated_at"`
	Entries     []Queued   `json:"entries" doc:"pull requests in the queue, the next one first"`
	Ended       []Queued   `json:"ended" doc:"pull requests that left the queue last, newest first"`
}

// Filter selects merge queues. Empty fields select all. The case of the repository's path does not count.
type Filter struct {
	contract.QueueRef

	Ended int // entries that have left the queue, for each queue; at most 200
}

// List returns merge queues with the pull requests in them, those that changed last first.
func List(ctx context.Context, st *store.Store, f Filter) ([]MergeQueue, error) {
	q := st.Queries()
	rows, err := q.MergeQueues(ctx, db.MergeQueuesParams{Forge: f.Forge, Repo: f.Repo, Base: f.Base, Most: maxQueues})
	if err != nil {
		return nil, dberr.Explain(err, "read the merge queues")
	}
	out := make([]MergeQueue, len(rows))
	for i, r := range rows {
		out[i] = MergeQueue{
			QueueRef: contract.QueueRef{Forge: r.Forge, Repo: r.Repo, Base: r.Base}, PausedBy: r.PausedBy, PauseReason: r.PauseReason, PausedAt: r.PausedAt,
			CheckRuns: r.CheckRuns, Decided: r.Decided, UpdatedAt: r.UpdatedAt,
		}
		open, err := q.OpenMergeQueueEntries(ctx, db.OpenMergeQueueEntriesParams{Forge: r.Forge, Repo: r.Repo, Base: r.Base})
		if err != nil {
			return nil, dberr.Explain(err, "read the merge queue of %s", out[i].QueueRef)
		}
		out[i].Entries = rowconv.Convert(open, entryOf)
		for k := range out[i].Entries {
			out[i].Entries[k].Position = k + 1
		}
		ended, err := q.EndedMergeQueueEntries(ctx, db.EndedMergeQueueEntriesParams{Forge: r.Forge, Repo: r.Repo, Base: r.Base, Most: int32(min(max(f.Ended, 0), maxEnded))})
		if err != nil {
			return nil, dberr.Explain(err, "read the merge queue of %s", out[i].QueueRef)
		}
		out[i].Ended = rowconv.Convert(ended, entryOf)
	}
	return out, nil
}

// Last returns the last entry of a pull request and its queue; false if it was never in one. The case of the
// repository's path does not count.
func Last(ctx context.Context, st *store.Store, forge, repo string, number int64) (e Queued, queue contract.QueueRef, found bool, err error) {
	row, err := st.Queries().LastMergeQueueEntry(ctx, db.LastMergeQueueEntryParams{Forge: forge, Repo: repo, Number: number})
	if errors.Is(err, pgx.ErrNoRows) {
		return Queued{}, contract.QueueRef{}, false, nil
	}
	if err != nil {
		return Queued{}, contract.QueueRef{}, false, dberr.Explain(err, "read the merge queue entry of pull request %d of %s", number, repo)
	}
	return entryOf(row), contract.QueueRef{Forge: row.Forge, Repo: row.Repo, Base: row.Base}, true, nil
}

// Named returns a queue under the name that it is stored by, and whether it is stored: forges ignore the case
// of the paths of repositories, and each branch has one queue. If several are stored, as before names were
// compared like this, it is one with pull requests in it, so that the others become empty, then one that is paused.
func Named(ctx context.Context, st *store.Store, ref contract.QueueRef) (contract.QueueRef, bool, error) {
	queues, err := List(ctx, st, Filter{QueueRef: ref})
	if err != nil || len(queues) == 0 {
		return ref, false, err
	}
	used := func(q MergeQueue) int {
		switch {
		case len(q.Entries) > 0:
			return 0
		case q.PausedAt != nil:
			return 1
		}
		return 2
	}
	found := slices.MinFunc(queues, func(a, b MergeQueue) int {
		return cmp.Or(cmp.Compare(used(a), used(b)), cmp.Compare(a.Repo, b.Repo))
	})
	return found.QueueRef, true, nil
}

// sweepBatch is the number of rows that are removed at a time.
const sweepBatch = 1000

// Sweep removes the pull requests that left their queues longer ago than an age, unless a run with one of them
// watches its branch, and the commands that are older. It returns how many rows these are; dry removes none.
func Sweep(ctx context.Context, st *store.Store, age time.Duration, dry bool) (n int64, err error) {
	secs := age.Seconds()
	if dry {
		q := st.ListQueries()
		entries, err := q.OldMergeQueueEntries(ctx, secs)
		if err != nil {
			return 0, dberr.Explain(err, "count old entries of merge queues")
		}
		commands, err := q.OldMergeQueueCommands(ctx, secs)
		return entries + commands, dberr.Explain(err, "count old commands to merge queues")
	}
	for _, remove := range []func() (int64, error){
		func() (int64, error) {
			return st.Queries().SweepMergeQueueEntries(ctx, db.SweepMergeQueueEntriesParams{AgeSeconds: secs, Most: sweepBatch})
		},
		func() (int64, error) {
			return st.Queries().SweepMergeQueueCommands(ctx, db.SweepMergeQueueCommandsParams{AgeSeconds: secs, Most: sweepBatch})
		},
	} {
		for removed := int64(sweepBatch); removed == sweepBatch; n += removed {
			if removed, err = remove(); err != nil {
				return n, dberr.Explain(err, "remove old entries of merge queues")
			}
		}
	}
	return n, nil
}

// Has reports whether the command with an id has added a pull request.
func Has(ctx context.Context, st *store.Store, q contract.QueueRef, id string) (bool, error) {
	has, err := st.Queries().HasMergeQueueEntry(ctx, db.HasMergeQueueEntryParams{Forge: q.Forge, Repo: q.Repo, Base: q.Base, Key: id})
	return has, dberr.Explain(err, "read the merge queue of %s", q)
}

func entryOf(r db.MergeQueueEntry) Queued {
	return Queued{
		ID: r.ID, Number: r.Number, State: contract.QueueState(r.State), Reason: r.Reason, Title: r.Title, URL: r.Url, RunID: rowconv.Deref(r.RunID),
		AddedBy: r.AddedBy, AddedAt: r.AddedAt, Head: r.HeadCommit, Batch: r.Batch, Commit: r.MergeCommit, EndedAt: r.EndedAt,
	}
}
