package workerhost

import (
	"context"
	"log/slog"
	"time"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/catalogue"
)

const (
	// learnEvery is how often a worker reads what was stored about models: an update of the catalogue
	// applies everywhere after this time.
	learnEvery = time.Minute
	// learnTime limits the time of one read.
	learnTime = 5 * time.Second
)

// followCatalogue keeps the client's catalogue up to date with the stored one. If the database does
// not respond, the last known one remains in use.
func followCatalogue(ctx context.Context, parts *activities.Activities, cfg *config.Config, log *slog.Logger) error {
	stored := catalogue.New(parts.Store)
	failed := false
	return every(ctx, learnEvery, func() {
		limited, cancel := context.WithTimeout(ctx, learnTime)
		defer cancel()
		learned, err := stored.Read(limited)
		switch {
		case err == nil:
			parts.Model.SetCatalogue(setup.LearnedCatalogue(cfg, learned))
		case !failed && ctx.Err() == nil:
			log.WarnContext(ctx, "Could not read the stored catalogue of models; the last known prices remain in use", "error", err)
		}
		failed = err != nil
	})
}
