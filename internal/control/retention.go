package control

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
)

// Cleaning is a person's request for a clean-up.
type Cleaning struct {
	OlderThanSeconds *int64        `json:"older_than_seconds,omitempty" minimum:"0" maximum:"3153600000" doc:"delete what runs that ended at least this long ago have; environments: unused for this long; default: as configured (retention.max_age, log_age, environment.age)"`
	MaxBytes         *int64        `json:"max_bytes,omitempty" minimum:"1" doc:"delete the files of the oldest runs until the files of all runs fit; default: as configured (retention.max_size)"`
	Only             []retain.Kind `json:"only,omitempty" enum:"files,logs,environments,blobs" doc:"what to delete; default: all"`
	DryRun           bool          `json:"dry_run,omitempty" doc:"only report what would be deleted"`
	By               string        `json:"by,omitempty" maxLength:"200" doc:"who requests it; default: api"`
}

// maxCleanSeconds is the maximum age in a request, a hundred years: a duration has room for it.
const maxCleanSeconds = 100 * 365 * 24 * 60 * 60

// policy applies a request to the configured policy.
func (c Cleaning) policy(p retention.Policy) (retention.Policy, error) {
	for _, k := range c.Only {
		if k != retain.Files && k != retain.Logs && k != retain.Environments && k != retain.Blobs {
			return p, wrong("cannot delete %q; must be files, logs, environments or blobs", k)
		}
	}
	if age := c.OlderThanSeconds; age != nil && (*age < 0 || *age > maxCleanSeconds) {
		return p, wrong("older_than_seconds is %d; it must be 0 to %d", *age, maxCleanSeconds)
	}
	if c.MaxBytes != nil && *c.MaxBytes < 1 {
		return p, wrong("max_bytes is %d; it must be at least 1", *c.MaxBytes)
	}
	wanted := func(k retain.Kind) bool {
		return len(c.Only) == 0 || slices.Contains(c.Only, k)
	}
	if c.OlderThanSeconds != nil {
		// An age of 0 would mean that nothing is deleted.
		age := max(time.Duration(*c.OlderThanSeconds)*time.Second, time.Nanosecond)
		p.MaxAge, p.EnvironmentAge, p.LogAge = age, age, 0
		if !wanted(retain.Files) {
			p.LogAge = age
		}
	}
	if c.MaxBytes != nil {
		p.MaxSize = *c.MaxBytes
	}
	if !wanted(retain.Files) {
		p.MaxAge, p.MaxSize = 0, 0
	}
	if !wanted(retain.Logs) {
		p.LogAge = 0
	}
	if !wanted(retain.Environments) {
		p.EnvironmentAge = 0
	}
	p.Blobs = p.Blobs && wanted(retain.Blobs)
	if len(c.Only) > 0 {
		p.BrainAge, p.QueueAge = 0, 0 // they are none of the kinds that can be named
	}
	return p, nil
}

// Clean deletes what a person's request or the configuration says is no longer needed.
func (r *Runs) Clean(ctx context.Context, c Cleaning) (retention.CleanupReport, error) {
	p, err := c.policy(setup.RetentionPolicy(r.Config))
	if err != nil {
		return retention.CleanupReport{}, err
	}
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return retention.New(r.Store, r.Artifacts, log).Clean(ctx, retention.Request{Policy: p, DryRun: c.DryRun, Origin: retention.OriginPerson, By: c.By})
}

// Cleanups returns the last clean-ups, newest first.
func (r *Runs) Cleanups(ctx context.Context, limit int) ([]retain.Cleanup, error) {
	return retain.New(r.Store).Cleanups(ctx, limit)
}

// Deletions returns what a clean-up deleted, at most limit entries.
func (r *Runs) Deletions(ctx context.Context, cleanup int64, limit int) ([]retain.Deletion, error) {
	return retain.New(r.Store).Deletions(ctx, cleanup, limit)
}

// Hold keeps the files of a run, whatever the retention policy says, until the hold is released. It
// is rejected if they are deleted already.
func (r *Runs) Hold(ctx context.Context, id int64, reason, by string) (retain.Hold, error) {
	if strings.TrimSpace(reason) == "" {
		return retain.Hold{}, wrong("no reason given; say why the files of run %d are needed (--reason)", id)
	}
	h, err := retain.New(r.Store).Hold(ctx, id, reason, by)
	if err != nil {
		return h, err
	}
	// A clean-up that came first has marked the run, because both lock it.
	run, err := r.Store.Run(ctx, id)
	if err == nil && run.FilesDeletedAt != nil {
		_, err = retain.New(r.Store).Release(ctx, id, by)
		return retain.Hold{}, errors.Join(refused("the files of run %d were deleted by retention on %s", id, run.FilesDeletedAt.UTC().Format(time.DateOnly)), err)
	}
	return h, err
}

// ReleaseHold ends the hold of a run, or fails with ErrNotFound if it has none.
func (r *Runs) ReleaseHold(ctx context.Context, id int64, by string) (retain.Hold, error) {
	if _, err := r.Store.Run(ctx, id); err != nil {
		return retain.Hold{}, err
	}
	return retain.New(r.Store).Release(ctx, id, by)
}
