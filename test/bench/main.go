// The bench runs the product on this machine and prints the cost of orchestration: for one run at a
// time and for many in parallel, with and without model latency, compared with a bare Temporal
// workflow with the same activities on the same server.
//
// It is not a test: it does not fail when a number grows, except when caching saves less than it should
// (section models). It stops everything that it started, even if interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command-line options.
type options struct {
	runs          int
	parallel      int
	deliberations int // at once
	crowd         int // runs at once, with a slow model
	waiting       int // runs that wait for a person
	slope         int // runs in one database
	workers       int // processes
	commands      bool
	latency       []time.Duration
	temporal      string
	sections      []string
	dynamic       []string // dynamic config of Temporal, KEY=JSON
	postgres      []string // settings of PostgreSQL, name=value
	bin           string
	bare          bool
	keep          bool
	json          bool
	serve         string // database to serve the dashboard of
	model         string // scenario to serve the scripted model with
	repositories  []string
}

// The sections of the report, in their order.
const (
	sectionRuns    = "runs"    // one at a time and in parallel, compared with bare workflows
	sectionTwin    = "twin"    // compared with the same work in one process, without durability
	sectionCLI     = "cli"     // overhead of the command line
	sectionRestart = "restart" // a worker killed and restarted
	sectionCrowd   = "crowd"   // many runs that wait for a slow model; only if named
	sectionWaiting = "waiting" // many runs that wait for a person; only if named
	sectionSlope   = "slope"   // the cost of a run as the database grows; only if named
	sectionHeal    = "heal"    // from a failure to the next attempt, and the start of a replay
	sectionBuild   = "build"   // a build after a small change, and program sizes
	// Deliberations one at a time and in parallel, compared with bare signals.
	sectionDeliberations = "deliberations"
	// Cost of the API, the dashboard and its streams with a year of runs.
	sectionDashboard = "dashboard"
	// Tests of given repositories without and with coverage.
	sectionCoverage = "coverage"
	// Conversations with models: caching, cost, and what the client adds to a call.
	sectionModels = "models"
	// Judging changes by the policy gate.
	sectionGate = "gate"
)

func sections() []string {
	return []string{sectionRuns, sectionTwin, sectionCLI, sectionHeal, sectionDeliberations, sectionRestart, sectionBuild, sectionDashboard, sectionCoverage, sectionModels, sectionGate}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case err != nil:
	case o.serve != "":
		err = serveDashboard(ctx, o.serve)
	case o.model != "":
		err = serveModel(ctx, o.model)
	default:
		err = run(ctx, o, os.Stdout, os.Stderr)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string, errs io.Writer) (options, error) {
	o := options{}
	var latency, only string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.IntVar(&o.runs, "runs", 5, "number of sequential runs")
	fs.IntVar(&o.parallel, "parallel", 20, "number of parallel runs; 0 skips this part")
	fs.IntVar(&o.deliberations, "deliberations", 200, "number of parallel deliberations")
	fs.IntVar(&o.waiting, "waiting", 1000, "number of runs of the section waiting")
	fs.IntVar(&o.slope, "slope", 2000, "number of runs of the section slope")
	fs.IntVar(&o.workers, "workers", 1, "number of worker processes")
	fs.BoolVar(&o.commands, "commands", false, "each step of a run also runs a command; not for the section twin")
	fs.IntVar(&o.crowd, "crowd", 200, "number of parallel runs of the section crowd")
	fs.StringVar(&latency, "latency", "0s,200ms", "latencies of the scripted model")
	fs.StringVar(&o.temporal, "temporal", "sqlite", "where Temporal keeps its state: sqlite or postgres")
	fs.StringVar(&only, "only", strings.Join(sections(), ","), "sections of the report")
	fs.Func("dynamic-config", "dynamic config value for Temporal, as KEY=JSON; repeatable", appendTo(&o.dynamic))
	fs.Func("postgres-setting", "setting for PostgreSQL, as name=value; repeatable", appendTo(&o.postgres))
	fs.Func("repository", "repository to test without and with coverage, as a directory or a URL; repeatable", func(repo string) error {
		o.repositories = append(o.repositories, repo)
		return nil
	})
	fs.StringVar(&o.bin, "bin", "bin", "directory with rgpt, rgpt-worker and temporal-devserver")
	fs.BoolVar(&o.bare, "bare", true, "also measure bare Temporal workflows")
	fs.BoolVar(&o.keep, "keep", false, "keep the data folder and leave the stack running")
	fs.StringVar(&o.serve, "serve-dashboard", "", "serve the dashboard of this database until the end of standard input; used by the dashboard section")
	fs.StringVar(&o.model, "serve-model", "", "serve the scripted model with this scenario until the end of standard input; used by the models section")
	fs.BoolVar(&o.json, "json", false, "print one JSON document instead of tables")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for _, text := range strings.Split(latency, ",") {
		l, err := time.ParseDuration(text)
		if err != nil {
			return o, fmt.Errorf("-latency: %w", err)
		}
		o.latency = append(o.latency, l)
	}
	o.sections = strings.Split(only, ",")
	known := append(sections(), sectionCrowd, sectionWaiting, sectionSlope)
	for _, s := range o.sections {
		if !slices.Contains(known, s) {
			return o, fmt.Errorf("-only: unknown section %q; the sections are %s", s, strings.Join(known, ", "))
		}
	}
	if o.workers > 1 && slices.Contains(o.sections, sectionRestart) {
		return o, fmt.Errorf("-workers: the section %s needs a single worker, whose work nobody takes over", sectionRestart)
	}
	if only == sectionCoverage && len(o.repositories) == 0 {
		return o, errors.New("-only coverage: name repositories with -repository")
	}
	if o.temporal != "postgres" && o.temporal != "sqlite" {
		return o, fmt.Errorf("-temporal %q: choose postgres or sqlite", o.temporal)
	}
	var err error
	o.bin, err = filepath.Abs(o.bin)
	return o, err
}

func appendTo(list *[]string) func(string) error {
	return func(value string) error {
		if !strings.Contains(value, "=") {
			return errors.New("want NAME=VALUE")
		}
		*list = append(*list, value)
		return nil
	}
}

// results has all measurements.
type results struct {
	Host          host                `json:"host"`
	Phases        []phaseResult       `json:"phases,omitempty"`
	Twin          []twinResult        `json:"twin,omitempty"`
	CLI           *cliResult          `json:"cli,omitempty"`
	Heal          *healResult         `json:"heal,omitempty"`
	Deliberations *deliberationResult `json:"deliberations,omitempty"`
	Restart       *restart            `json:"restart,omitempty"`
	Crowd         *crowdResult        `json:"crowd,omitempty"`
	Waiting       *waitingResult      `json:"waiting,omitempty"`
	Slope         *slopeResult        `json:"slope,omitempty"`
	Build         *buildResult        `json:"build,omitempty"`
	Pages         *dashboard          `json:"dashboard,omitempty"`
	Coverage      []coverageResult    `json:"coverage,omitempty"`
	Models        []modelResult       `json:"models,omitempty"`
	LiveText      []liveTextResult    `json:"live_text,omitempty"`
	Gate          []gateResult        `json:"gate,omitempty"`
}

// run starts the stack, measures, prints the results, and stops the stack.
func run(ctx context.Context, o options, out, errs io.Writer) error {
	say := func(format string, args ...any) { fmt.Fprintf(errs, format+" …\n", args...) }
	all := results{Host: thisHost(o)}
	if slices.Contains(o.sections, sectionBuild) {
		say("Building after a small change")
		built, err := measureBuild(ctx, o.bin)
		if err != nil {
			return err
		}
		all.Build = &built
	}
	if slices.Contains(o.sections, sectionDashboard) {
		var err error
		if all.Pages, err = measureDashboard(ctx, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionCoverage) {
		var err error
		if all.Coverage, err = measureCoverage(ctx, o, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionModels) {
		var err error
		if all.Models, err = measureModels(ctx, o.runs, say); err != nil {
			return err
		}
		if all.LiveText, err = measureLiveText(ctx, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionGate) {
		var err error
		if all.Gate, err = measureGate(ctx, say); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(o.sections, needsStack) {
		if err := measureStack(ctx, o, &all, say); err != nil {
			return err
		}
	}
	if o.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return errors.Join(enc.Encode(all), missedTargets(all.Models))
	}
	return errors.Join(all.print(out), missedTargets(all.Models))
}

func needsStack(section string) bool {
	return !slices.Contains([]string{sectionBuild, sectionDashboard, sectionCoverage, sectionModels, sectionGate}, section)
}

// measureMany runs the measurements with many runs, which take minutes.
func measureMany(ctx context.Context, h *benchStack, o options, all *results, say func(string, ...any)) (err error) {
	if slices.Contains(o.sections, sectionCrowd) {
		if all.Crowd, err = measureCrowd(ctx, h, o.crowd, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionWaiting) {
		if all.Waiting, err = measureWaiting(ctx, h, o.waiting, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionSlope) {
		if all.Slope, err = measureSlope(ctx, h, o, say); err != nil {
			return err
		}
	}
	return nil
}

// measureStack runs the measurements that need a running stack.
func measureStack(ctx context.Context, o options, all *results, say func(string, ...any)) (err error) {
	h, err := startStack(ctx, o, say)
	if h != nil {
		defer func() { err = errors.Join(err, h.close(ctx)) }()
	}
	if err != nil {
		return err
	}
	if slices.Contains(o.sections, sectionRuns) {
		if all.Phases, err = measurePhases(ctx, h, o, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionTwin) {
		if all.Twin, err = measureTwin(ctx, h, o, say); err != nil {
			return err
		}
	}
	if err = measureMany(ctx, h, o, all, say); err != nil {
		return err
	}
	if slices.Contains(o.sections, sectionCLI) {
		say("The command line")
		if all.CLI, err = measureCLI(ctx, h, o.runs); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionHeal) {
		say("Heals and replays")
		if all.Heal, err = measureHealing(ctx, h, o); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionDeliberations) {
		if all.Deliberations, err = measureDeliberations(ctx, h, o, say); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionRestart) {
		say("A worker killed and restarted")
		all.Restart, err = measureRestart(ctx, h)
	}
	return err
}
