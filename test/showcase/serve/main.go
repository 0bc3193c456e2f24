// Command serve serves the dashboard with realistic sample data:
//
//	go run ./test/showcase/serve [-port N] [-fill showcase|hostile|scale] [-data DIR]
//
// It starts its own PostgreSQL server, fills the database, and prints the address as JSON once the
// dashboard is served. A filled data folder is served unchanged.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/pgcluster"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/showcase"
)

type options struct {
	port int
	fill showcase.Kind
	data string
	now  time.Time
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	fill := flag.String("fill", string(showcase.Showcase), fmt.Sprintf("what to show: %v", showcase.Kinds()))
	flag.IntVar(&o.port, "port", 0, "port on the loopback interface; 0 for a free port")
	flag.StringVar(&o.data, "data", "", "directory to keep the data in (default: a temporary one for each fill)")
	flag.Parse()
	o.fill, o.now = showcase.Kind(*fill), time.Now()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.data == "" {
		if o.data, err = os.MkdirTemp("", "rgpt-showcase-"); err != nil {
			return fmt.Errorf("create a temporary data folder: %w", err)
		}
		defer os.RemoveAll(o.data)
	}
	// PostgreSQL may run as another user, who must be able to traverse the folder.
	if err := os.MkdirAll(o.data, 0o755); err != nil { //nolint:gosec // see above
		return fmt.Errorf("create the data folder: %w", err)
	}
	if err := os.Chmod(o.data, 0o755); err != nil { //nolint:gosec // see above
		return fmt.Errorf("open the data folder: %w", err)
	}
	cluster, err := pgcluster.Start(ctx, pgcluster.Options{
		Dir: filepath.Join(o.data, "postgres"), Log: filepath.Join(o.data, "postgres.log"), Volatile: true, Settings: map[string]string{"max_wal_size": "4GB"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx))) }()
	blobs, err := artifact.Open(ctx, "", filepath.Join(o.data, "artifacts"))
	if err != nil {
		return err
	}
	defer blobs.Close()
	// An interrupted fill leaves a database with another name.
	database, err := prepare(ctx, cluster, blobs, o)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	handler, done, err := showcase.Handler(ctx, database, blobs, log)
	if err != nil {
		return err
	}
	defer done()
	return serve(ctx, o, handler)
}

// prepare returns the address of the filled database. A file that is written last marks it as
// filled.
func prepare(ctx context.Context, cluster *pgcluster.Cluster, blobs *artifact.Store, o options) (string, error) {
	name := "showcase_" + string(o.fill)
	mark := filepath.Join(o.data, name+".filled")
	if content, err := os.ReadFile(mark); err == nil {
		return cluster.URL(string(content)), nil
	}
	name += "_" + strconv.FormatInt(o.now.Unix(), 10)
	if err := cluster.CreateDatabase(ctx, name); err != nil {
		return "", err
	}
	url := cluster.URL(name)
	if err := store.Migrate(ctx, url); err != nil {
		return "", err
	}
	if err := showcase.Fill(ctx, showcase.Options{Kind: o.fill, Database: url, Artifacts: blobs, Now: o.now}); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "Filled %s in %s.\n", o.fill, time.Since(o.now).Round(time.Millisecond))
	if err := os.WriteFile(mark, []byte(name), 0o600); err != nil {
		return "", fmt.Errorf("mark the data folder as filled: %w", err)
	}
	return url, nil
}

func serve(ctx context.Context, o options, handler http.Handler) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("listen on port %d; choose another one: %w", o.port, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"url": "http://" + l.Addr().String(), "fill": o.fill, "data": o.data}); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // streams would not end on their own
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
