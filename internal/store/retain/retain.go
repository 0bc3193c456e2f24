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
	"github.com/rocketgpt/orchestrator/internal/telemetry"
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
	RunID     int64
	EndedAt   time.Time
	ExpiresAt time.Time // the end of the run, or of the last run that continues from it
	Files     int64
	Bytes     int64
}

// Position is a position in the list of expired runs. The zero value is before the first.
type Position struct {
	ExpiresAt time.Time
	RunID     int64
}

// typeOf returns the type of the files of a kind; empty for all.
func typeOf(k Kind) string {
	if k == Logs {
		return string(contract.ArtifactLog)
	}
	return ""
}

// Expired returns the next runs after a position whose files of a kind expired at the given time or
// before: those that expired first come first, but forks before the runs from which they continue. For
// Files, they include runs that have no files, but could still be repeated.
func (r *Rows) Expired(ctx context.Context, k Kind, before time.Time, after Position, most int) ([]Expired, error) {
	rows, err := r.lists.ExpiredRuns(ctx, db.ExpiredRunsParams{Type: typeOf(k), Before: before, After: after.ExpiresAt, AfterID: after.RunID, Most: int32(most)})
	return rowconv.Convert(rows, func(e db.ExpiredRunsRow) Expired {
		return Expired{RunID: e.ID, EndedAt: e.EndedAt, ExpiresAt: e.ExpiresAt, Files: e.Files, Bytes: e.Bytes}
	}), dberr.Explain(err, "find runs whose files have expired")
}

// Kept returns how many runs that ended at the given time or before keep their files, because a
// person holds them or because a run continues from them.
func (r *Rows) Kept(ctx context.Context, before time.Time) (held, continued int64, err error) {
	row, err := r.lists.KeptRuns(ctx, before)
	return row.Held, row.Continued, dberr.Explain(err, "count the runs that keep their files")
}

// Continued returns the runs that ended at the given time or before and that only keep their files
// because a run continues from them.
func (r *Rows) Continued(ctx context.Context, before time.Time) ([]int64, error) {
	ids, err := r.lists.ContinuedRuns(ctx, before)
	return ids, dberr.Explain(err, "find the runs from which others continue")
}

// Deleted is what was deleted of a run.
type Deleted struct{ Files, Bytes int64 }

// DeleteFiles marks the files of a kind of some runs as deleted, and notes it under a clean-up, all or
// nothing. It skips runs that may not lose their files, or may no longer, and returns what it deleted
// of each of the others. If a fork and the run from which it continues are both given, the latter is
// skipped. The content is removed later, by the reclaim of blobs: a row never points to a missing file
// without saying so.
func (r *Rows) DeleteFiles(ctx context.Context, cleanup int64, k Kind, before time.Time, runs ...int64) (map[int64]Deleted, error) {
	out := map[int64]Deleted{}
	err := r.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockRuns(ctx, runs); err != nil {
			return err
		}
		rows, err := q.DeleteRunFiles(ctx, db.DeleteRunFilesParams{Runs: runs, Before: before, Type: typeOf(k), CleanupID: cleanup, Kind: string(k)})
		for _, row := range rows {
			out[row.ID] = Deleted{row.Files, row.Bytes}
		}
		return err
	})
	if err != nil {
		return nil, dberr.Explain(err, "delete the files of %d runs", len(runs))
	}
	return out, nil
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

// Sizes are the sizes of the files of runs. Contents that runs share count once.
type Sizes struct {
	Total  int64
	Fixed  int64     // of runs that have not ended or are on hold, and of those from which they continue
	Cutoff time.Time // runs that expire by then must lose their files, so that the rest fits
}

// Sizes adds up the files of runs. If all runs together exceed a size, those that expire last keep their
// files.
func (r *Rows) Sizes(ctx context.Context, most int64) (Sizes, error) {
	row, err := r.lists.SizeCutoff(ctx, most)
	return Sizes{Total: row.Total, Fixed: row.Fixed, Cutoff: row.Cutoff}, dberr.Explain(err, "add up the files of runs")
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

// Planned is what a clean-up would delete besides contents.
type Planned struct {
	FilesBefore, LogsBefore       time.Time
	FilesContinued, LogsContinued []int64 // as Continued returns them
	Environments                  []string
}

// ReferencedAfter returns which of the given digests rows would refer to after a clean-up.
func (r *Rows) ReferencedAfter(ctx context.Context, digests []string, p Planned) ([]string, error) {
	out, err := r.lists.ReferencedAfter(ctx, db.ReferencedAfterParams{
		Digests: digests, FilesBefore: p.FilesBefore, FilesKept: store.NotNil(p.FilesContinued), LogsBefore: p.LogsBefore, LogsKept: store.NotNil(p.LogsContinued),
		Environments: store.NotNil(p.Environments),
	})
	return out, dberr.Explain(err, "find references to files")
}

// OnlyFiles returns which of the given digests were files of runs and nothing else, as far as rows tell.
func (r *Rows) OnlyFiles(ctx context.Context, digests []string) ([]string, error) {
	out, err := r.lists.OnlyFiles(ctx, digests)
	return out, dberr.Explain(err, "find references to files")
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
		row, err := q.AddHold(ctx, db.AddHoldParams{RunID: runID, Reason: rowconv.Text(telemetry.Redact(reason)), HeldBy: rowconv.Text(telemetry.Redact(by))})
		h = holdOf(row)
		return err
	})
	return h, dberr.OfRun(err, runID, "hold run %d", runID)
}

// Release ends the hold of a run, or returns ErrNotFound if there is none.
func (r *Rows) Release(ctx context.Context, runID int64, by string) (Hold, error) {
	rows, err := r.q.ReleaseHold(ctx, db.ReleaseHoldParams{RunID: runID, ReleasedBy: rowconv.Text(telemetry.Redact(by))})
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
	id, err := r.q.BeginCleanup(ctx, db.BeginCleanupParams{Origin: origin, AskedBy: rowconv.Text(telemetry.Redact(by)), Policy: doc})
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
