package docker

import (
	"context"
	"time"
)

// SweepBuilds is the sweep of images, at a time in the future.
func SweepBuilds(ctx context.Context, r *Runner, unusedSince, builtBefore time.Time) error {
	if err := r.sweeper.removeBuilders(ctx, builtBefore); err != nil {
		return err
	}
	return r.sweeper.removeBuilt(ctx, unusedSince)
}
