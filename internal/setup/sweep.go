package setup

import (
	"context"
	"errors"
	"time"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/retention"
)

// CacheAge is how long unused repositories and working directories stay in a host's cache.
const CacheAge = 14 * 24 * time.Hour

// downloadsShare limits the downloads of all repositories to 1/downloadsShare of environment.disk,
// in addition to environment.disk itself.
const downloadsShare = 4

// SweepEnvironments removes this host's environments and downloads that exceed its limits, except
// environments that are open or needed.
func SweepEnvironments(ctx context.Context, cfg *config.Config, dataDir string, needed func(digest string) bool) error {
	e := cfg.Environment
	return errors.Join(
		Environments(dataDir).Sweep(ctx, environment.Retention{Age: e.Age, Bytes: e.Disk.Int64(), Count: e.Count}, needed),
		Downloads(dataDir).Sweep(ctx, e.Age, e.Disk.Int64()/downloadsShare))
}

// RetentionPolicy returns what scheduled clean-ups delete.
func RetentionPolicy(cfg *config.Config) retention.Policy {
	r := cfg.Retention
	return retention.Policy{MaxAge: r.MaxAge, LogAge: r.LogAge, MaxSize: r.MaxSize.Int64(), EnvironmentAge: cfg.Environment.Age, Blobs: true, BrainAge: cfg.Brain.Age, QueueAge: r.QueueAge}
}

// SweepBuildCaches removes this host's build caches that exceed its limits.
func SweepBuildCaches(ctx context.Context, cfg *config.Config, dataDir string) error {
	bounds := cfg.Execution.Sandbox
	return BuildCaches(dataDir).Sweep(ctx, bounds.CacheAge, bounds.CacheSize.Int64())
}
