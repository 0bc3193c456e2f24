// Package showcase fills a database with realistic sample data: runs in every state, with all
// records of real runs. The rows are written by the store functions that activities use, so pages
// and benchmarks process the same data as with real runs. Plain SQL moves it into the past, and
// makes the mass of the scale fill.
//
// A fill is the same each time but for its clock, which ends now.
package showcase

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Kind is a kind of sample data.
type Kind string

// The kinds of fills.
const (
	// Showcase has about 50 runs and 15 pipelines in all states, including some that are hard to
	// display: long, large, and in right-to-left scripts.
	Showcase Kind = "showcase"
	// Hostile has runs and pipelines in which every text is hostile.
	Hostile Kind = "hostile"
	// Scale has 10,000 runs and 1,000,000 events.
	Scale Kind = "scale"
)

// Kinds returns all kinds of fills.
func Kinds() []Kind { return []Kind{Showcase, Hostile, Scale} }

// Runs of the showcase that pages and their tests refer to.
const (
	// Baseline and Regressed are two runs with the same goal, for comparison: the second one fails
	// tests that the first one passed.
	Baseline  = 41
	Regressed = 42
)

// Options are the options of a fill.
type Options struct {
	Kind      Kind
	Database  string // URL of a database with the schema and no runs
	Artifacts *artifact.Store
	Now       time.Time // end of the fill's clock; default: now
	Runs      int       // of the scale fill; default 10,000
	Events    int       // of the scale fill; default 1,000,000
}

// ErrFilled means that a database already has runs.
var ErrFilled = errors.New("the database already has runs")

// Config returns the operator's configuration of the showcase, with the providers and models of a
// typical paying installation.
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
	cfg.Models.Catalogue = []config.CatalogueEntry{{ // no longer offered, but expensive
		Provider: "anthropic", Model: "claude-opus-4-1", ContextWindow: 200_000, MaxOutput: 32_000, PriceIn: 15_000_000, PriceOut: 75_000_000, Capabilities: []string{"tools"},
	}}
	cfg.Models.Catalogue = withScores(cfg.Models.Catalogue)
	return cfg
}

// dataset fills one database.
type dataset struct {
	store *store.Store
	blobs *artifact.Store
	sql   *pgxpool.Pool
	now   time.Time
	cfg   *config.Config
	cat   model.Catalogue
	later []func() error // functions to call at the end
}

// Fill fills a database. If it already has runs, it does not change and the error is ErrFilled.
func Fill(ctx context.Context, o Options) error {
	db, err := store.Open(ctx, o.Database, store.Options{MaxConns: 4, ApplicationName: "rgpt-showcase"})
	if err != nil {
		return err
	}
	defer db.Close()
	sql, err := pgxpool.New(ctx, o.Database)
	if err != nil {
		return fmt.Errorf("connect to the database of the showcase: %w", err)
	}
	defer sql.Close()
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	// The database keeps microseconds.
	f := &dataset{store: db, blobs: o.Artifacts, sql: sql, now: o.Now.UTC().Truncate(time.Microsecond), cfg: Config(), cat: setup.Catalogue(Config())}
	if filled, err := f.filled(ctx); err != nil || filled {
		return errors.Join(err, errIf(filled))
	}
	switch o.Kind {
	case Showcase:
		if err = f.showcase(ctx); err == nil {
			err = f.notifications(ctx, "ada", "Firefox on Linux")
		}
	case Hostile:
		if err = f.hostile(ctx); err == nil {
			text := strings.Join(HostileTexts(), " ")
			err = f.notifications(ctx, text, text)
		}
	case Scale:
		err = f.scale(ctx, o)
	default:
		return fmt.Errorf("unknown fill %q; use one of %v", o.Kind, Kinds())
	}
	if err != nil {
		return err
	}
	return f.analyze(ctx)
}

func errIf(filled bool) error {
	if filled {
		return ErrFilled
	}
	return nil
}

func (f *dataset) filled(ctx context.Context) (filled bool, err error) {
	if err := f.sql.QueryRow(ctx, "SELECT EXISTS (SELECT FROM orchestrator_runs)").Scan(&filled); err != nil {
		return false, fmt.Errorf("check whether the database is filled: %w", err)
	}
	return filled, nil
}

// analyze updates the statistics of the database.
func (f *dataset) analyze(ctx context.Context) error {
	if _, err := f.sql.Exec(ctx, "VACUUM ANALYZE"); err != nil {
		return fmt.Errorf("update the statistics of the database: %w", err)
	}
	return nil
}

// freeze resolves the inputs of a run as its creation does.
func (f *dataset) freeze(project string) (contract.Settings, setup.RunSpec, error) {
	settings, spec, err := setup.Freeze(f.cfg, contract.Repo{
		URL: path.Join("/srv/git", path.Base(project)), Base: objectID("base", project), Tree: objectID("tree", project), Branch: "main",
	})
	settings.Release.AuthorName, settings.Release.AuthorEmail = "RocketGPT", "rocketgpt@example.com"
	return settings, spec, err
}

// cost returns the cost of a call according to the catalogue, as in the worker.
func (f *dataset) cost(c contract.ModelChoice, u contract.Usage) int64 {
	p := model.Provider{Name: c.Provider, Kind: model.Kind(f.cfg.Models.Providers[c.Provider].Kind)}
	entry, _ := f.cat.Find(p, c.Model)
	return model.Cost(u, entry)
}

// agents writes workers' agents in every health state, some of which have been silent for a long
// time. Healthy ones have a heartbeat interval of a day, so they stay healthy while the database is
// inspected.
func (f *dataset) agents(ctx context.Context) error {
	const mib, day = 1 << 20, 24 * time.Hour
	now := time.Now()
	one := func(role string, worker string, health contract.Health, detail string, done, failed int64, work ...contract.Work) store.AgentBeat {
		return store.AgentBeat{Name: role + "@" + worker, Type: role, HealthStatus: health, Detail: detail, TasksDone: done, TasksFailed: failed, Work: work}
	}
	const first, second, spot, silent, old = "build-01:4711:3f9a", "build-02:5120:77c1", "test-eu-central-1-spot-0f3a9c71d2e84b6aa:20931:0b1e", "test-02:118:9d00", "old-host:77:aa01"
	for _, b := range []struct {
		store.Beat
		silent time.Duration
	}{
		{store.Beat{Worker: first, Version: "1.8.2", CPUUsage: 1.84, MemoryUsage: 912 * mib, StartedAt: now.Add(-9 * time.Hour), Every: day, OfflineAfter: day, Agents: []store.AgentBeat{
			one("run", first, contract.HealthHealthy, "", 18_204, 3),
			one("planner", first, contract.HealthHealthy, "", 112, 4, contract.Work{RunID: 51, Phase: contract.PhasePlanner, Activity: "rgpt.model.Think", Since: now.Add(-40 * time.Second)}),
			one("builder", first, contract.HealthHealthy, "", 2310, 12, contract.Work{RunID: 48, Phase: contract.PhaseBuilder, Step: "step-004", Activity: "rgpt.model.Think", Since: now.Add(-3 * time.Second)}),
			one("releaser", first, contract.HealthHealthy, "", 88, 0),
			one("analyzer", first, contract.HealthUnknown, "", 0, 0),
		}}, time.Second},
		{store.Beat{Worker: second, Version: "1.8.1", CPUUsage: 3.97, MemoryUsage: 7311 * mib, StartedAt: now.Add(-50 * time.Hour), Every: day, OfflineAfter: day, Agents: []store.AgentBeat{
			one("builder", second, contract.HealthDegraded, "the sandbox cannot isolate commands: user namespaces are disabled; see rgpt doctor", 904, 71),
			one("repair", second, contract.HealthHealthy, "", 40, 1, contract.Work{RunID: 49, Phase: contract.PhaseTester, Step: "repair", Activity: "rgpt.tools.Run", Since: now.Add(-75 * time.Second)}),
		}}, 4 * time.Second},
		{store.Beat{Worker: spot, Version: "1.8.2", CPUUsage: 2.5, MemoryUsage: 2048 * mib, StartedAt: now.Add(-20 * time.Minute), Every: day, OfflineAfter: day, Agents: []store.AgentBeat{
			one("tester", spot, contract.HealthHealthy, "", 31, 0, contract.Work{RunID: 50, Phase: contract.PhaseTester, Activity: "rgpt.tester.Verify", Since: now.Add(-4 * time.Minute)}),
		}}, 3 * time.Second},
		{store.Beat{Worker: silent, Version: "1.7.9", MemoryUsage: 96 * mib, StartedAt: now.Add(-30 * time.Hour), Every: 5 * time.Second, OfflineAfter: 365 * day, Agents: []store.AgentBeat{
			one("tester", silent, contract.HealthHealthy, "", 511, 9),
		}}, 41 * time.Second},
		{store.Beat{Worker: old, Version: "1.6.0", CPUUsage: 0.2, MemoryUsage: 120 * mib, StartedAt: now.Add(-90 * day), Every: 5 * time.Second, OfflineAfter: time.Minute, Agents: []store.AgentBeat{
			one("repair", old, contract.HealthHealthy, "", 12, 0),
		}}, 3 * day},
	} {
		if err := f.store.Heartbeat(ctx, b.Beat); err != nil {
			return err
		}
		if _, err := f.sql.Exec(ctx, "UPDATE orchestrator_agents SET last_heartbeat = $2 WHERE worker = $1", b.Worker, f.now.Add(-b.silent)); err != nil {
			return fmt.Errorf("move the heartbeat of %s into the past: %w", b.Worker, err)
		}
	}
	return nil
}

// score sets the Analyzer's score of a run, for which there is no store function yet.
func (t *runWriter) score(q float64) {
	t.do(func() error {
		_, err := t.f.sql.Exec(t.ctx, "UPDATE orchestrator_runs SET quality_score = $2 WHERE id = $1", t.run.ID, q)
		return err
	})
}
