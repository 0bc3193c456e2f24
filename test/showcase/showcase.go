// Package showcase fills a database with work that looks real: runs in every
// state, with all that real ones leave behind. What is in the rows was written by
// the functions of the store that activities use, so that pages and benchmarks
// meet what real runs write. Plain SQL moves it into the past, and makes the mass
// of the scale fill.
//
// A fill is the same each time but for its clock, which ends now.
package showcase

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Kind is what a database is filled with.
type Kind string

// The kinds of fills.
const (
	// Showcase has some 50 runs in every state, among them ones that are hard to
	// show: long, large, in scripts that are written from the right.
	Showcase Kind = "showcase"
	// Hostile has runs whose every text tries to become more than text.
	Hostile Kind = "hostile"
	// Scale has 10,000 runs and 1,000,000 events.
	Scale Kind = "scale"
)

// Kinds returns all kinds of fills.
func Kinds() []Kind { return []Kind{Showcase, Hostile, Scale} }

// Runs of the showcase by what they show. Pages and their tests name them.
const (
	// Baseline and Regressed are two runs of the same goal, to be compared: the
	// second one fails tests that the first one passed.
	Baseline  = 41
	Regressed = 42
)

// Options say what to fill.
type Options struct {
	Kind      Kind
	Database  string // URL of a database with the schema and no runs
	Artifacts *artifact.Store
	Now       time.Time // where the fill's clock ends; default: now
	Runs      int       // of the scale fill; default 10,000
	Events    int       // of the scale fill; default 1,000,000
}

// ErrFilled says that a database has runs already.
var ErrFilled = errors.New("the database has runs already")

// Config is the operator's configuration of the showcase: providers and models
// as an installation has them that pays for them.
func Config() *config.Config {
	cfg := config.Default()
	cfg.Models.Default = config.Choice{Provider: "anthropic", Model: "claude-sonnet-4-5"}
	cfg.Models.Phases = map[string]config.Choice{
		"planner":  {Provider: "openai", Model: "gpt-5"},
		"builder":  {Provider: "anthropic", Model: "claude-sonnet-4-5"},
		"tester":   {Provider: "gemini", Model: "gemini-2.5-flash"},
		"releaser": {Provider: "ollama", Model: "gpt-oss"},
		"analyzer": {Provider: "openai", Model: "gpt-5"},
		"repair":   {Provider: "anthropic", Model: "claude-opus-4-1"},
	}
	cfg.Models.Fallback = []config.Choice{{Provider: "openrouter", Model: "qwen/qwen3-coder"}}
	return cfg
}

// filler fills one database.
type filler struct {
	store *store.Store
	blobs *artifact.Store
	sql   *pgxpool.Pool
	now   time.Time
	cfg   *config.Config
	cat   model.Catalogue
}

// Fill fills a database. One that has runs is left as it is, with ErrFilled.
func Fill(ctx context.Context, o Options) error {
	db, err := store.Open(ctx, o.Database, store.Options{MaxConns: 4, ApplicationName: "rgpt-showcase"})
	if err != nil {
		return err
	}
	defer db.Close()
	sql, err := pgxpool.New(ctx, o.Database)
	if err != nil {
		return fmt.Errorf("reach the database of the showcase: %w", err)
	}
	defer sql.Close()
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	// The database keeps microseconds.
	f := &filler{store: db, blobs: o.Artifacts, sql: sql, now: o.Now.UTC().Truncate(time.Microsecond), cfg: Config(), cat: model.DefaultCatalogue()}
	if filled, err := f.filled(ctx); err != nil || filled {
		return errors.Join(err, errIf(filled))
	}
	switch o.Kind {
	case Showcase:
		err = f.showcase(ctx)
	case Hostile:
		err = f.hostile(ctx)
	case Scale:
		err = f.scale(ctx, o)
	default:
		return fmt.Errorf("there is no fill %q; there are %v", o.Kind, Kinds())
	}
	if err != nil {
		return err
	}
	return f.settle(ctx)
}

func errIf(filled bool) error {
	if filled {
		return ErrFilled
	}
	return nil
}

func (f *filler) filled(ctx context.Context) (filled bool, err error) {
	if err := f.sql.QueryRow(ctx, "SELECT EXISTS (SELECT FROM orchestrator_runs)").Scan(&filled); err != nil {
		return false, fmt.Errorf("look whether the database is filled: %w", err)
	}
	return filled, nil
}

// settle lets the database know what it holds now.
func (f *filler) settle(ctx context.Context) error {
	if _, err := f.sql.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return fmt.Errorf("gather the statistics of the fill: %w", err)
	}
	return nil
}

// freeze resolves the inputs of a run as its creation does.
func (f *filler) freeze(project string) (contract.Settings, setup.RunSpec, error) {
	settings, spec, err := setup.Freeze(f.cfg, contract.Repo{
		URL: path.Join("/srv/git", path.Base(project)), Base: objectID("base", project), Tree: objectID("tree", project), Branch: "main",
	})
	settings.Release.AuthorName, settings.Release.AuthorEmail = "RocketGPT", "rocketgpt@example.com"
	return settings, spec, err
}

// cost prices a call as the worker does, by the catalogue.
func (f *filler) cost(c contract.ModelChoice, u contract.Usage) int64 {
	p := model.Provider{Name: c.Provider, Kind: model.Kind(f.cfg.Models.Providers[c.Provider].Kind)}
	entry, _ := f.cat.Find(p, c.Model)
	return model.Cost(u, entry)
}

// agents writes workers' agents in every health, some of which were not heard of
// for long.
func (f *filler) agents(ctx context.Context) error {
	const mib = 1 << 20
	for _, a := range []struct {
		store.Agent
		silent time.Duration
	}{
		{store.Agent{Name: "planner@build-01:4711", Type: "planner", Version: "1.8.2", HealthStatus: "healthy", CPUUsage: 0.12, MemoryUsage: 181 * mib}, 2 * time.Second},
		{store.Agent{Name: "builder@build-01:4711", Type: "builder", Version: "1.8.2", HealthStatus: "healthy", CPUUsage: 1.84, MemoryUsage: 912 * mib}, time.Second},
		{store.Agent{Name: "builder@build-02:5120", Type: "builder", Version: "1.8.1", HealthStatus: "degraded", CPUUsage: 3.97, MemoryUsage: 7311 * mib}, 4 * time.Second},
		{store.Agent{Name: "tester@test-eu-central-1-spot-0f3a9c71d2e84b6aa:20931", Type: "tester", Version: "1.8.2", HealthStatus: "healthy", CPUUsage: 2.5, MemoryUsage: 2048 * mib}, 3 * time.Second},
		{store.Agent{Name: "tester@test-02:118", Type: "tester", Version: "1.7.9", HealthStatus: "unhealthy", CPUUsage: 0, MemoryUsage: 96 * mib}, 41 * time.Second},
		{store.Agent{Name: "releaser@build-01:4711", Type: "releaser", Version: "1.8.2", HealthStatus: "healthy", CPUUsage: 0.01, MemoryUsage: 74 * mib}, 2 * time.Second},
		{store.Agent{Name: "analyzer@build-01:4711", Type: "analyzer", Version: "1.8.2", HealthStatus: "unknown"}, 5 * time.Second},
		{store.Agent{Name: "repair@build-01:4711", Type: "repair", Version: "1.8.2", HealthStatus: "healthy", CPUUsage: 0.64, MemoryUsage: 402 * mib}, time.Second},
		{store.Agent{Name: "repair@old-host:77", Type: "repair", Version: "1.6.0", HealthStatus: "healthy", CPUUsage: 0.2, MemoryUsage: 120 * mib}, 3 * 24 * time.Hour},
		{store.Agent{Name: "run@build-01:4711", Type: "run", Version: "1.8.2", HealthStatus: "healthy", CPUUsage: 0.33, MemoryUsage: 233 * mib}, time.Second},
	} {
		if err := f.store.Heartbeat(ctx, a.Agent); err != nil {
			return err
		}
		if _, err := f.sql.Exec(ctx, "UPDATE orchestrator_agents SET last_heartbeat = $2 WHERE name = $1", a.Name, f.now.Add(-a.silent)); err != nil {
			return fmt.Errorf("move the heartbeat of %s into the past: %w", a.Name, err)
		}
	}
	return nil
}

// score sets what the Analyzer says of a run, which has no function of its own yet.
func (t *tale) score(q float64) {
	t.do(func() error {
		_, err := t.f.sql.Exec(t.ctx, "UPDATE orchestrator_runs SET quality_score = $2 WHERE id = $1", t.run.ID, q)
		return err
	})
}
