package standalone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/setup"
)

const (
	// sweepEvery is how often the caches are searched for what has not been used for a long time,
	// or exceeds the limits.
	sweepEvery = 24 * time.Hour
	// sweepTime limits one search. The next one continues.
	sweepTime = 30 * time.Second
)

// sweep cleans the caches up unless that was done recently, so they stay small without a worker.
// What was removed is made again when it is needed.
func (v *verification) sweep(ctx context.Context) {
	marker := filepath.Join(v.DataDir, "cache", "swept")
	if info, err := os.Stat(marker); err == nil && time.Since(info.ModTime()) < sweepEvery {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()
	err := os.WriteFile(marker, nil, 0o644)
	err = errors.Join(err,
		v.host.Workspaces.Sweep(ctx, v.abandoned),
		v.host.Workspaces.Prune(ctx, setup.CacheAge),
		setup.SweepEnvironments(ctx, v.Config, v.DataDir, func(string) bool { return false }),
		setup.SweepBuildCaches(ctx, v.Config, v.DataDir))
	if err != nil && ctx.Err() == nil {
		v.Log.WarnContext(ctx, "Could not clean up the caches", "error", err)
	}
}

// abandoned reports whether working directories belong to a verification that was killed long ago.
// first is the first part of their keys.
func (v *verification) abandoned(_ context.Context, first string) (bool, error) {
	if !strings.HasPrefix(first, keyPrefix) {
		return false, nil
	}
	dirs, err := filepath.Glob(filepath.Join(v.DataDir, "cache", "dirs", first+"*"))
	return !slices.ContainsFunc(dirs, func(dir string) bool {
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) < sweepEvery
	}), err
}
