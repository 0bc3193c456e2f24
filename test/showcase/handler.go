package showcase

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server"
)

// nowhere is an address without a Temporal server: port 1 of the loopback interface.
const nowhere = "127.0.0.1:1"

// Handler returns a handler that serves the dashboard of a filled database. There is no Temporal
// server, so commands respond with 503. The returned function releases its resources.
func Handler(ctx context.Context, database string, blobs *artifact.Store, log *slog.Logger, change ...func(*server.Options)) (*server.Handler, func(), error) {
	db, err := store.Open(ctx, database, store.Options{ApplicationName: "rgpt-showcase"})
	if err != nil {
		return nil, nil, err
	}
	temporal, err := client.NewLazyClient(client.Options{HostPort: nowhere, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("create a Temporal client: %w", err)
	}
	dir, err := os.MkdirTemp("", "rgpt-showcase-")
	if err != nil {
		temporal.Close()
		db.Close()
		return nil, nil, fmt.Errorf("make a data folder: %w", err)
	}
	shown, events := views.New(db), feed.New(db, feed.Options{})
	runs := &control.Runs{Store: db, Views: shown, Feed: events, Temporal: temporal, Artifacts: blobs, Config: Config(), DataDir: dir}
	o := server.Options{
		Store: db, Views: shown, Feed: events, Artifacts: blobs, Temporal: temporal, Namespace: "default", TemporalUI: "http://127.0.0.1:8233", Log: log,
		Runs: runs, Notifier: notifier(db),
	}
	for _, c := range change {
		c(&o)
	}
	return server.New(o), func() {
		runs.Close()
		temporal.Close()
		events.Close()
		db.Close()
		_ = os.RemoveAll(dir)
	}, nil
}
