// Package retention deletes what is no longer needed: the files of runs that ended long ago or that
// do not fit into a total size, the archives of unused environments, what is known of pull requests that
// left merge queues long ago, and contents that nothing refers to.
//
// Deletion has two parts, so that it can stop anywhere. First, rows are marked as deleted, each run
// under its lock, together with a note of the clean-up: from then on, everything that shows or
// repeats the run says so. Then the contents are removed to which no row refers, by looking at all
// contents that are stored; what one clean-up could not remove, the next one finds.
//
// A content may be in use although no row refers to it: the history of a run that has not ended has
// references that are not in the database, and so has that of a run which may be repeated. Contents
// know no owner, but the time at which they were last stored. Therefore a content is kept if it was
// stored
//
//   - since the creation of the oldest run that has not ended, or within the last hour, or
//   - while a run was active that still has its files, unless it is known to have been nothing but
//     a file of runs whose files were deleted.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/brain"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/store/responses"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Policy is what a clean-up deletes. Zero limits delete nothing.
type Policy struct {
	MaxAge         time.Duration `json:"max_age,omitempty"`         // files of runs that ended longer ago
	LogAge         time.Duration `json:"log_age,omitempty"`         // their logs
	MaxSize        int64         `json:"max_size,omitempty"`        // bytes of the files of all runs; the oldest go first
	EnvironmentAge time.Duration `json:"environment_age,omitempty"` // archives of environments that were unused for longer
	Blobs          bool          `json:"blobs,omitempty"`           // contents without a reference
	BrainAge       time.Duration `json:"brain_age,omitempty"`       // extracts of files that were unused for longer
	QueueAge       time.Duration `json:"queue_age,omitempty"`       // pull requests that left merge queues longer ago, and older commands
}

// Origins of clean-ups.
const (
	OriginSchedule = "schedule"
	OriginPerson   = "person"
)

// ExpectMetrics exports the metrics of clean-ups from an origin before the first one.
func ExpectMetrics(origin string) {
	telemetry.ExpectCleanups(origin, string(retain.Files), string(retain.Logs), string(retain.Environments), string(retain.Blobs))
}

// Request asks for a clean-up.
type Request struct {
	Policy
	DryRun bool   // only report what would be deleted
	Origin string // OriginSchedule, OriginPerson
	By     string // the person
}

// Amount is how much was deleted.
type Amount struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

func (a *Amount) add(count, bytes int64) { a.Count += count; a.Bytes += bytes }

// RunAmount is how much was deleted of a run.
type RunAmount struct {
	RunID   int64     `json:"run_id"`
	EndedAt time.Time `json:"ended_at"`
	Amount
}

// shownRuns is the maximum number of runs that a report lists.
const shownRuns = 1000

// CleanupReport is what a clean-up deleted or, of a dry run, would delete.
type CleanupReport struct {
	ID           int64       `json:"id,omitempty" doc:"number of the clean-up; none for a dry run"`
	DryRun       bool        `json:"dry_run,omitempty"`
	Total        int64       `json:"total_bytes" doc:"size of all files of runs before"`
	Files        Amount      `json:"files" doc:"files of runs; a content that runs share counts for each"`
	Logs         Amount      `json:"logs" doc:"logs of runs that keep their other files"`
	Environments Amount      `json:"environments" doc:"archives of environments"`
	Blobs        Amount      `json:"blobs" doc:"contents that were removed from the store"`
	Responses    int64       `json:"responses" doc:"responses that no longer answer identical requests because they are too old"`
	Extracts     Amount      `json:"extracts" doc:"what was extracted from files of repositories and not used for brain.age"`
	Queue        int64       `json:"queue" doc:"pull requests that left merge queues, and commands to these, older than retention.queue_age"`
	Later        Amount      `json:"later" doc:"contents without a reference that a later clean-up removes, because a run may still use them"`
	Runs         []RunAmount `json:"runs" doc:"the runs whose files or logs these are, at most 1,000"`
	Held         int64       `json:"held" doc:"expired runs that keep their files because they are on hold"`
	Over         int64       `json:"over_bytes,omitempty" doc:"bytes by which the maximum size is exceeded by files that no clean-up may delete: of runs that have not ended or are on hold, and of those from which they continue"`
	Continued    int64       `json:"continued" doc:"expired runs that keep their files because a run continues from them"`
	Error        string      `json:"error,omitempty" doc:"why the clean-up stopped early"`
}

const (
	// grace is the time between storing a content and storing the row that refers to it, for
	// writers that belong to no run, and an allowance for clocks that differ.
	grace = time.Hour
	// runBatch is how many expired runs are read at a time, lockBatch how many of them lose their
	// files in one transaction, and blobBatch how many contents are looked up at a time.
	runBatch  = 10_000
	lockBatch = 50
	blobBatch = 500
	// lease is the right to clean up.
	lease = "retention"
)

// Cleaner cleans up. It is safe for concurrent use.
type Cleaner struct {
	store *store.Store
	rows  *retain.Rows
	blobs *artifact.Store
	log   *slog.Logger
	now   func() time.Time
}

// New returns the cleaner of an installation. The store's blobs may be written by others meanwhile,
// if their stores use Exclude.
func New(st *store.Store, blobs *artifact.Store, log *slog.Logger) *Cleaner {
	return &Cleaner{store: st, rows: retain.New(st), blobs: blobs, log: log, now: time.Now}
}

// Exclude makes a store of blobs safe to use while a clean-up runs in another process. It must be
// called before the store is used.
func Exclude(blobs *artifact.Store, st *store.Store) {
	blobs.Excluding(func(ctx context.Context) (func(), error) { return st.Lease(ctx, lease+"/blobs") })
}

// Clean deletes what a request asks for, one clean-up at a time. It never touches a run that has not
// ended, that a person holds, or from which another run continues that has its files. It returns
// what was deleted even if it stopped early.
func (c *Cleaner) Clean(ctx context.Context, r Request) (CleanupReport, error) {
	if !r.DryRun {
		release, err := c.store.Lease(ctx, lease)
		if err != nil {
			return CleanupReport{}, err
		}
		defer release()
	}
	return c.clean(ctx, r)
}

// clean is Clean for the owner of the lease.
func (c *Cleaner) clean(ctx context.Context, r Request) (CleanupReport, error) {
	w := &work{Cleaner: c, Request: r, began: c.now()}
	w.report.DryRun, w.report.Runs = r.DryRun, []RunAmount{}
	if !r.DryRun {
		id, err := c.rows.Begin(ctx, r.Origin, r.By, r.Policy)
		if err != nil {
			return w.report, err
		}
		w.report.ID = id
	}
	err := w.do(ctx)
	if r.DryRun {
		return w.report, err
	}
	if err != nil {
		w.report.Error = err.Error()
	}
	return w.report, errors.Join(err, w.finish(ctx))
}

// work is one clean-up.
type work struct {
	*Cleaner
	Request
	began   time.Time
	report  CleanupReport
	planned retain.Planned // by a dry run
	runs    int            // number of runs that lost files

	failures int   // batches with contents that could not be removed
	failed   error // the first reason
}

func (w *work) do(ctx context.Context) error {
	var err error
	if w.report.Responses, err = responses.Expire(ctx, w.store, w.DryRun); err != nil {
		return err
	}
	if w.BrainAge > 0 {
		extracts, err := brain.Expire(ctx, w.store, w.BrainAge, w.DryRun)
		if w.report.Extracts = Amount(extracts); err != nil {
			return err
		}
	}
	if w.QueueAge > 0 {
		if w.report.Queue, err = mergequeues.Sweep(ctx, w.store, w.QueueAge, w.DryRun); err != nil {
			return err
		}
	}
	if err := w.files(ctx); err != nil {
		return err
	}
	if w.LogAge > 0 {
		if err := w.logs(ctx); err != nil {
			return err
		}
	}
	if w.EnvironmentAge > 0 {
		if err := w.environments(ctx); err != nil {
			return err
		}
	}
	if w.Blobs {
		return w.reclaim(ctx)
	}
	return nil
}

// plan completes what a dry run knows about what would be deleted.
func (w *work) plan(ctx context.Context) (err error) {
	if w.planned.FilesContinued, err = w.rows.Continued(ctx, w.planned.FilesBefore); err != nil {
		return err
	}
	w.planned.LogsContinued, err = w.rows.Continued(ctx, w.planned.LogsBefore)
	return err
}

// files deletes the files of runs by age and size.
func (w *work) files(ctx context.Context) error {
	sizes, err := w.rows.Sizes(ctx, w.MaxSize)
	if err != nil {
		return err
	}
	w.report.Total = sizes.Total
	var before time.Time
	if w.MaxAge > 0 {
		before = w.began.Add(-w.MaxAge)
	}
	if w.MaxSize > 0 {
		w.report.Over = max(0, sizes.Fixed-w.MaxSize)
		if sizes.Cutoff.After(before) {
			before = sizes.Cutoff
		}
	}
	if before.IsZero() {
		return nil
	}
	w.planned.FilesBefore = before
	if err := w.expire(ctx, retain.Files, before, retain.Position{}, &w.report.Files); err != nil {
		return err
	}
	w.report.Held, w.report.Continued, err = w.rows.Kept(ctx, before)
	return err
}

// logs deletes the logs of runs by age, except of those that just lost all files.
func (w *work) logs(ctx context.Context) error {
	w.planned.LogsBefore = w.began.Add(-w.LogAge)
	return w.expire(ctx, retain.Logs, w.planned.LogsBefore, retain.Position{ExpiresAt: w.planned.FilesBefore}, &w.report.Logs)
}

// expire deletes the files of a kind of all runs that expired before a time, and after a position.
func (w *work) expire(ctx context.Context, k retain.Kind, before time.Time, after retain.Position, sum *Amount) error {
	for {
		expired, err := w.rows.Expired(ctx, k, before, after, runBatch)
		if err != nil || len(expired) == 0 {
			return err
		}
		for batch := range slices.Chunk(expired, lockBatch) {
			if err := w.expireBatch(ctx, k, before, batch, sum); err != nil {
				return err
			}
		}
		last := expired[len(expired)-1]
		after = retain.Position{ExpiresAt: last.ExpiresAt, RunID: last.RunID}
	}
}

// expireBatch deletes the files of some expired runs, unless they may no longer be deleted.
func (w *work) expireBatch(ctx context.Context, k retain.Kind, before time.Time, batch []retain.Expired, sum *Amount) error {
	deleted := map[int64]retain.Deleted{}
	if !w.DryRun {
		ids := make([]int64, len(batch))
		for i, run := range batch {
			ids[i] = run.RunID
		}
		var err error
		if deleted, err = w.rows.DeleteFiles(ctx, w.report.ID, k, before, ids...); err != nil {
			return err
		}
	}
	for _, run := range batch {
		gone, ok := deleted[run.RunID]
		switch {
		case w.DryRun:
			gone = retain.Deleted{Files: run.Files, Bytes: run.Bytes}
		case !ok: // perhaps it was only kept by a fork in the same batch
			again, err := w.rows.DeleteFiles(ctx, w.report.ID, k, before, run.RunID)
			if err != nil {
				return err
			}
			gone = again[run.RunID]
		}
		if gone.Files == 0 {
			continue
		}
		sum.add(gone.Files, gone.Bytes)
		w.runs++
		if len(w.report.Runs) < shownRuns {
			w.report.Runs = append(w.report.Runs, RunAmount{run.RunID, run.EndedAt, Amount{gone.Files, gone.Bytes}})
		}
	}
	return nil
}

// environments deletes the rows of unused environments. Their archives lose their references.
func (w *work) environments(ctx context.Context) error {
	unused, err := w.rows.UnusedEnvironments(ctx, w.EnvironmentAge)
	if err != nil {
		return err
	}
	if w.DryRun {
		for _, e := range unused {
			w.report.Environments.add(1, e.Bytes)
			w.planned.Environments = append(w.planned.Environments, e.Digest)
		}
		return nil
	}
	for len(unused) > 0 {
		archives, err := w.store.RemoveUnusedEnvironments(ctx, w.EnvironmentAge)
		if err != nil || len(archives) == 0 {
			return err
		}
		left, err := w.rows.UnusedEnvironments(ctx, w.EnvironmentAge)
		if err != nil {
			return err
		}
		for _, e := range unused {
			if slices.ContainsFunc(left, func(l retain.UnusedEnvironment) bool { return l.Digest == e.Digest }) {
				continue
			}
			w.report.Environments.add(1, e.Bytes)
			if err := w.rows.Deleted(ctx, w.report.ID, retain.Environments, e.Digest, 1, e.Bytes); err != nil {
				return err
			}
		}
		unused = left
	}
	return nil
}

// finishTime is how long noting the result may take after the caller has given up.
const finishTime = 10 * time.Second

// finish notes the result, also if the clean-up was stopped.
func (w *work) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	for kind, a := range map[retain.Kind]Amount{
		retain.Files: w.report.Files, retain.Logs: w.report.Logs, retain.Environments: w.report.Environments, retain.Blobs: w.report.Blobs,
	} {
		telemetry.CountDeleted(string(kind), a.Count, a.Bytes)
	}
	telemetry.CountCleanup(w.Origin, w.report.Error == "")
	var err error
	if w.report.Blobs.Count > 0 {
		err = w.rows.Deleted(ctx, w.report.ID, retain.Blobs, "", w.report.Blobs.Count, w.report.Blobs.Bytes)
	}
	err = errors.Join(err, w.rows.End(ctx, w.report.ID, w.report))
	attrs := []any{
		"cleanup", w.report.ID, "origin", w.Origin, "by", w.By, "runs", w.runs, "files", w.report.Files.Count, "logs", w.report.Logs.Count,
		"environments", w.report.Environments.Count, "responses", w.report.Responses, "queue", w.report.Queue, "blobs", w.report.Blobs.Count, "freed", w.report.Blobs.Bytes, "held", w.report.Held,
		"continued", w.report.Continued, "took", w.now().Sub(w.began).Round(time.Millisecond),
	}
	if w.report.Over > 0 {
		w.log.WarnContext(ctx, "The files of runs exceed the maximum size even though everything that may be deleted was deleted; release holds, end old runs, or raise retention.max_size",
			"cleanup", w.report.ID, "over", w.report.Over, "total", w.report.Total)
	}
	if w.report.Error != "" {
		w.log.WarnContext(ctx, "A clean-up stopped early; the next one continues", append(attrs, "error", w.report.Error)...)
	} else {
		w.log.InfoContext(ctx, "Cleaned up", attrs...)
	}
	return err
}

// Schedule cleans up by a policy at an interval, until ctx ends. Of all processes that share the
// database, one at a time does. An interval of 0 means never.
func (c *Cleaner) Schedule(ctx context.Context, interval time.Duration, p Policy) error {
	if interval <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(min(interval, scheduleEvery))
	defer tick.Stop()
	for {
		if err := c.due(ctx, interval, p); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "A scheduled clean-up failed", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// scheduleEvery is how often a process checks whether a clean-up is due.
const scheduleEvery = time.Minute

// due cleans up if no process has done so within the interval, or is doing so.
func (c *Cleaner) due(ctx context.Context, interval time.Duration, p Policy) error {
	release, owned, err := c.store.TryLease(ctx, lease)
	if err != nil || !owned {
		return err
	}
	defer release()
	since, err := c.rows.ScheduledSince(ctx)
	if err != nil || since < interval {
		return err
	}
	_, err = c.clean(ctx, Request{Policy: p, Origin: OriginSchedule})
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
