// Package retain has the rows of retention: which runs may lose their files, which of them people
// hold, what still refers to the content of files, and what each clean-up deleted. Package retention
// decides and deletes.
package retain

import (
	"context"
	"encoding/json"
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

// Kind is a kind of data that a clean-up deletes.
type Kind string

// The kinds.
const (
	Files        Kind = "files"        // all files of a run; it can then no longer be repeated
	Logs         Kind = "logs"         // the logs among the files of a run
	Environments Kind = "environments" // the archives of environments
	Blobs        Kind = "blobs"        // contents that nothing refers to
)

// Rows reads and writes the rows of retention. It is safe for concurrent use.
type Rows struct {
	store *store.Store
	q     *db.Queries
	lists *db.Queries
}

// New returns the rows of a store.
func New(st *store.Store) *Rows { return &Rows{store: st, q: st.Queries(), lists: st.ListQueries()} }

// Expired is a run whose files may be deleted.
type Expired struct {
	RunID   int64
	EndedAt time.Time
	Files   int64
	Bytes   int64
}

// typeOf returns the type of the files of a kind; empty for all.
func typeOf(k Kind) string {
	if k == Logs {
		return string(contract.ArtifactLog)
	}
	return ""
}

// Expired returns the runs that ended at the given time or before and whose files of a kind may be
// deleted, oldest first.
func (r *Rows) Expired(ctx context.Context, k Kind, before time.Time, most int) ([]Expired, error) {
	rows, err := r.lists.ExpiredRuns(ctx, db.ExpiredRunsParams{Type: typeOf(k), Before: before, Most: int32(most)})
	return rowconv.Convert(rows, func(e db.ExpiredRunsRow) Expired {
		return Expired{RunID: e.ID, EndedAt: e.EndedAt, Files: e.Files, Bytes: e.Bytes}
	}), dberr.Explain(err, "find runs whose files have expired")
}

// Kept returns how many runs that ended at the given time or before keep their files, because a
// person holds them or because a run continues from them.
func (r *Rows) Kept(ctx context.Context, before time.Time) (held, continued int64, err error) {
	row, err := r.lists.KeptRuns(ctx, before)
	return row.Held, row.Continued, dberr.Explain(err, "count the runs that keep their files")
}

// DeleteFiles marks the files of a kind of a run as deleted, and notes it under a clean-up, all or
// nothing. It deletes nothing if the run may no longer lose its files. The content is removed
// later, by the reclaim of blobs: a row never points to a missing file without saying so.
func (r *Rows) DeleteFiles(ctx context.Context, cleanup int64, k Kind, runID int64, before time.Time) (files, bytes int64, err error) {
	err = r.locked(ctx, runID, func(q *db.Queries) error {
		row, err := q.DeleteRunFiles(ctx, db.DeleteRunFilesParams{RunID: runID, Before: before, Type: typeOf(k), CleanupID: cleanup, Kind: string(k)})
		files, bytes = row.Files, row.Bytes
		return err
	})
	return files, bytes, dberr.OfRun(err, runID, "delete the files of run %d", runID)
}

// locked calls fn in a transaction that holds the lock of a run.
func (r *Rows) locked(ctx context.Context, runID int64, fn func(*db.Queries) error) error {
	return r.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRun(ctx, runID); err != nil {
			return err
		}
		return fn(q)
	})
}

// SizeCutoff returns the end of the newest run whose files exceed a total size, if the newest runs
// keep theirs, and the total size of all files. Contents that runs share count once.
func (r *Rows) SizeCutoff(ctx context.Context, most int64) (cutoff time.Time, total int64, err error) {
	row, err := r.lists.SizeCutoff(ctx, most)
	return row.Cutoff, row.Total, dberr.Explain(err, "add up the files of runs")
}

// LiveSince returns the time since when contents may be in use by a run that has not ended.
func (r *Rows) LiveSince(ctx context.Context) (time.Time, error) {
	at, err := r.lists.LiveSince(ctx)
	return at, dberr.Explain(err, "find the oldest run that has not ended")
}

// Window is a time in which a run was active.
type Window struct{ From, To time.Time }

// Windows returns when the runs were active that may still need what they stored: those that have
// their files, or lost them within the grace period. They are ordered by their beginning.
func (r *Rows) Windows(ctx context.Context, grace time.Duration) ([]Window, error) {
	rows, err := r.lists.Windows(ctx, grace.Seconds())
	return rowconv.Convert(rows, func(w db.WindowsRow) Window { return Window{From: w.CreatedAt, To: w.EndedAt} }),
		dberr.Explain(err, "find when runs were active")
}

// Referenced returns which of the given digests rows refer to.
func (r *Rows) Referenced(ctx context.Context, digests []string) ([]string, error) {
	out, err := r.lists.Referenced(ctx, digests)
	return out, dberr.Explain(err, "find references to files")
}

// DeletedFiles returns which of the given digests were nothing but files of runs, all of them
// deleted.
func (r *Rows) DeletedFiles(ctx context.Context, digests []string) ([]string, error) {
	out, err := r.lists.DeletedFiles(ctx, digests)
	return out, dberr.Explain(err, "find deleted files")
}

// UnusedEnvironment is an environment that no run has used for a while.
type UnusedEnvironment struct {
	Digest string
	Bytes  int64 // of its archive
}

// UnusedEnvironments returns the environments that no run has used within an age.
func (r *Rows) UnusedEnvironments(ctx context.Context, age time.Duration) ([]UnusedEnvironment, error) {
	rows, err := r.lists.UnusedEnvironments(ctx, age.Seconds())
	return rowconv.Convert(rows, func(e db.UnusedEnvironmentsRow) UnusedEnvironment { return UnusedEnvironment{e.Digest, e.ArchiveSize} }),
		dberr.Explain(err, "find unused environments")
}

// Hold is a person's decision to keep the files of a run.
type Hold struct {
	RunID      int64      `json:"run_id"`
	Reason     string     `json:"reason"`
	By         string     `json:"by"`
	CreatedAt  time.Time  `json:"created_at"`
	ReleasedAt *time.Time `json:"released_at,omitempty"`
	ReleasedBy string     `json:"released_by,omitempty"`
}

func holdOf(h db.Hold) Hold {
	return Hold{RunID: h.RunID, Reason: h.Reason, By: h.HeldBy, CreatedAt: h.CreatedAt, ReleasedAt: h.ReleasedAt, ReleasedBy: h.ReleasedBy}
}

// Hold keeps the files of a run until the hold is released. If the run is held already, that hold
// stays as it is and is returned. It returns ErrNotFound if the run does not exist.
func (r *Rows) Hold(ctx context.Context, runID int64, reason, by string) (h Hold, err error) {
	err = r.locked(ctx, runID, func(q *db.Queries) error {
		row, err := q.AddHold(ctx, db.AddHoldParams{RunID: runID, Reason: rowconv.Text(reason), HeldBy: rowconv.Text(by)})
		h = holdOf(row)
		return err
	})
	return h, dberr.OfRun(err, runID, "hold run %d", runID)
}

// Release ends the hold of a run, or returns ErrNotFound if there is none.
func (r *Rows) Release(ctx context.Context, runID int64, by string) (Hold, error) {
	rows, err := r.q.ReleaseHold(ctx, db.ReleaseHoldParams{RunID: runID, ReleasedBy: rowconv.Text(by)})
	if err != nil {
		return Hold{}, dberr.Explain(err, "release the hold of run %d", runID)
	}
	if len(rows) == 0 {
		return Hold{}, dberr.NotFound("run %d is not on hold", runID)
	}
	return holdOf(rows[0]), nil
}

// HoldOf returns the hold of a run; nil if there is none.
func (r *Rows) HoldOf(ctx context.Context, runID int64) (*Hold, error) {
	row, err := r.q.HoldOf(ctx, runID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	h := holdOf(row)
	return &h, dberr.Explain(err, "read the hold of run %d", runID)
}

// Cleanup is a clean-up from its row.
type Cleanup struct {
	ID         int64           `json:"id"`
	Origin     string          `json:"origin"` // schedule, person
	By         string          `json:"by,omitempty"`
	Policy     json.RawMessage `json:"policy"`
	Report     json.RawMessage `json:"report,omitempty"` // missing: in progress, or its process died
	StartedAt  time.Time       `json:"started_at"`
	FinishedAt *time.Time      `json:"finished_at,omitempty"`
}

// Begin notes a clean-up before it deletes anything, and returns its id.
func (r *Rows) Begin(ctx context.Context, origin, by string, policy any) (int64, error) {
	doc, err := rowconv.Encode(policy)
	if err != nil {
		return 0, err
	}
	id, err := r.q.BeginCleanup(ctx, db.BeginCleanupParams{Origin: origin, AskedBy: rowconv.Text(by), Policy: doc})
	return id, dberr.Explain(err, "record a clean-up")
}

// End notes the result of a clean-up.
func (r *Rows) End(ctx context.Context, id int64, report any) error {
	doc, err := rowconv.Encode(report)
	if err != nil {
		return err
	}
	return dberr.Explain(r.q.EndCleanup(ctx, db.EndCleanupParams{ID: id, Report: doc}), "record the result of clean-up %d", id)
}

// Deleted notes what a clean-up deleted besides the files of runs.
func (r *Rows) Deleted(ctx context.Context, cleanup int64, k Kind, name string, count, bytes int64) error {
	return dberr.Explain(r.q.AddDeletion(ctx, db.AddDeletionParams{CleanupID: cleanup, Kind: string(k), Name: name, Count: count, Bytes: bytes}),
		"record what clean-up %d deleted", cleanup)
}

// ScheduledSince returns how long ago the last scheduled clean-up started.
func (r *Rows) ScheduledSince(ctx context.Context) (time.Duration, error) {
	seconds, err := r.q.ScheduledSince(ctx)
	return time.Duration(seconds * float64(time.Second)), dberr.Explain(err, "find the last clean-up")
}

// Cleanups returns the last clean-ups, newest first.
func (r *Rows) Cleanups(ctx context.Context, limit int) ([]Cleanup, error) {
	rows, err := r.q.Cleanups(ctx, rowconv.Limit(limit, 50))
	return rowconv.Convert(rows, func(c db.Cleanup) Cleanup {
		return Cleanup{ID: c.ID, Origin: c.Origin, By: c.AskedBy, Policy: c.Policy, Report: c.Report, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt}
	}), dberr.Explain(err, "list clean-ups")
}

// Deletion is something that a clean-up deleted.
type Deletion struct {
	Kind      Kind      `json:"kind"`
	RunID     int64     `json:"run_id,omitempty"`
	Name      string    `json:"name,omitempty"` // digest of an environment
	Count     int64     `json:"count"`
	Bytes     int64     `json:"bytes"`
	DeletedAt time.Time `json:"deleted_at"`
}

// Deletions returns what a clean-up deleted, at most limit entries, or ErrNotFound.
func (r *Rows) Deletions(ctx context.Context, cleanup int64, limit int) ([]Deletion, error) {
	known, err := r.q.CleanupExists(ctx, cleanup)
	if err == nil && !known {
		err = dberr.NotFound("clean-up %d not found; see rgpt clean --history", cleanup)
	}
	if err != nil {
		return nil, dberr.Explain(err, "find clean-up %d", cleanup)
	}
	rows, err := r.q.Deletions(ctx, db.DeletionsParams{CleanupID: cleanup, Most: rowconv.Limit(limit, 1000)})
	return rowconv.Convert(rows, func(d db.Deletion) Deletion {
		return Deletion{Kind: Kind(d.Kind), RunID: rowconv.Deref(d.RunID), Name: d.Name, Count: d.Count, Bytes: d.Bytes, DeletedAt: d.DeletedAt}
	}), dberr.Explain(err, "list what clean-up %d deleted", cleanup)
}

// Repeatable returns an error if the files of a run have been deleted, so that it cannot be
// continued or repeated.
func Repeatable(run store.Run) error {
	if run.FilesDeletedAt == nil {
		return nil
	}
	return fault.New(contract.ClassHuman, contract.CodeForbidden,
		"the files of run %d were deleted by retention on %s, so it cannot be continued or repeated; start a new run",
		run.ID, run.FilesDeletedAt.UTC().Format(time.DateOnly))
}
