package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/proc"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// benchStack is a running stack with the connections and settings that the bench needs.
type benchStack struct {
	dir          string // everything lies below it
	base         string // the base file of the configuration; empty for none
	repo         string
	keep         bool
	options      devstack.Options
	stack        *devstack.Stack
	workers      []proc.ID // besides that of the stack
	store        *store.Store
	views        *views.Views
	feed         *feed.Feed
	temporal     client.Client
	config       *config.Config // with the repository's own settings
	checks       checks.Settings
	newRun       store.NewRun   // of the sample repository, without a goal
	model        *deliveryModel // for deliberations; nil if none are measured
	deliberation contract.DeliberationSettings
}

// startStack creates a data folder, the sample repository and the scenario, and starts a stack. The
// result must be closed even if there is an error.
func startStack(ctx context.Context, o options, say func(string, ...any)) (*benchStack, error) {
	dir, err := os.MkdirTemp("", "rgpt-bench-")
	if err != nil {
		return nil, err
	}
	h := &benchStack{dir: dir, repo: filepath.Join(dir, "sample"), keep: o.keep}
	if err := h.prepare(ctx, o); err != nil {
		return h, err
	}
	h.options.Progress = func(text string) { say("%s", text) }
	if h.stack, err = devstack.Up(ctx, h.options); err != nil {
		return h, err
	}
	if err := h.addWorkers(ctx, o.workers-1); err != nil {
		return h, err
	}
	return h, h.open(ctx)
}

// prepare creates the files and sets the options of the stack.
func (h *benchStack) prepare(ctx context.Context, o options) error {
	settings, data := filepath.Join(h.dir, "config"), filepath.Join(h.dir, "data")
	for _, d := range []string{h.repo, settings, data} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	if err := repository(ctx, h.repo); err != nil {
		return err
	}
	text, err := scenario(append(o.latency, 0, restartLatency, crowdLatency), o.commands)
	if err != nil {
		return err
	}
	file := filepath.Join(h.dir, "scenario.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	if slices.Contains(o.sections, sectionCrowd) {
		if h.base, err = crowdConfig(settings); err != nil {
			return err
		}
	}
	if slices.Contains(o.sections, sectionDeliberations) {
		if h.model, err = listen(ctx); err != nil {
			return err
		}
		own, err := h.model.config()
		if err != nil {
			return err
		}
		h.base = filepath.Join(settings, "base.yaml")
		if err := os.WriteFile(h.base, own, 0o600); err != nil {
			return err
		}
	}
	if h.base != "" {
		if err := os.Setenv("RGPT_CONFIG_BASE", h.base); err != nil { // for the processes of the stack
			return err
		}
	}
	h.options = devstack.Options{
		DataDir: data, Scenario: file, ConfigDir: settings, Programs: programs(o.bin),
		TemporalInPostgres: o.temporal == "postgres", PostgresSettings: map[string]string{},
	}
	for _, value := range o.dynamic {
		h.options.TemporalArgs = append(h.options.TemporalArgs, "--dynamic-config-value", value)
	}
	for _, setting := range o.postgres {
		name, value, _ := strings.Cut(setting, "=")
		h.options.PostgresSettings[name] = value
	}
	return nil
}

func programs(bin string) devstack.Programs {
	return devstack.Programs{
		Starter: filepath.Join(bin, "rgpt"), Worker: filepath.Join(bin, "rgpt-worker"), Devserver: filepath.Join(bin, "temporal-devserver"),
	}
}

// open connects to the stack and prepares the inputs that all runs share.
func (h *benchStack) open(ctx context.Context) error {
	// Only the stack's settings count, not the caller's environment.
	cfg, err := setup.Load(config.Sources{Base: h.base, Dir: h.options.ConfigDir, Env: h.stack.Environment()}, h.stack.Model)
	if err != nil {
		return err
	}
	if h.store, err = store.Open(ctx, cfg.Database.URL, store.Options{MaxConns: 8, ApplicationName: "bench"}); err != nil {
		return err
	}
	h.views, h.feed = views.New(h.store), feed.New(h.store, feed.Options{})
	if h.temporal, err = temporal.Connect(ctx, cfg.Temporal, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if h.deliberation, err = setup.Deliberation(cfg, ""); err != nil {
		return err
	}
	h.deliberation.AutoContinue = true
	for agent := range h.deliberation.Models {
		h.deliberation.Models[agent] = contract.ModelChoice{Provider: watchedProvider, Model: setup.Scripted}
	}
	blobs, err := setup.Artifacts(ctx, cfg, h.stack.DataDir)
	if err != nil {
		return err
	}
	defer blobs.Close()
	workspaces, err := setup.Workspaces(cfg, h.stack.DataDir, blobs)
	if err != nil {
		return err
	}
	repo, _, err := workspaces.Resolve(ctx, h.repo, "")
	if err != nil {
		return err
	}
	start, err := workspaces.Start(ctx, repo)
	if err != nil {
		return err
	}
	repo.Tree = start.Tree
	own, err := os.ReadFile(filepath.Join(h.repo, config.FileName))
	if err != nil {
		return err
	}
	if cfg, err = config.LoadRepository(cfg, own, config.FileName); err != nil {
		return err
	}
	settings, spec, err := setup.Freeze(cfg, repo)
	h.config, h.checks = cfg, spec.Verification
	h.newRun = store.NewRun{Project: "bench", Settings: settings, Spec: spec, MaxRetries: settings.MaxRetries}
	return err
}

// create creates a run and starts its workflow, as `rgpt run create` does.
func (h *benchStack) create(ctx context.Context, latency time.Duration) (int64, error) {
	return h.createFor(ctx, goal(latency))
}

func (h *benchStack) createFor(ctx context.Context, goal string) (int64, error) {
	n := h.newRun
	n.GoalTitle = goal
	run, _, err := h.store.CreateRun(ctx, n)
	if err != nil {
		return 0, err
	}
	return run.ID, temporal.StartRun(ctx, h.temporal, h.store, run)
}

// await waits for a run to succeed.
func (h *benchStack) await(ctx context.Context, id int64) error {
	var result contract.RunResult
	if err := h.temporal.GetWorkflow(ctx, contract.RunWorkflowID(id), "").Get(ctx, &result); err != nil {
		return fmt.Errorf("run %d: %w", id, err)
	}
	if result.Status != contract.StatusDone {
		why := ""
		if result.Failure != nil {
			why = result.Failure.Message
		}
		return fmt.Errorf("run %d ended as %s: %s", id, result.Status, why)
	}
	return nil
}

// stopTime is the time limit for stopping after an interrupt.
const stopTime = time.Minute

// close stops the stack and removes its data, unless the options keep them.
func (h *benchStack) close(ctx context.Context) error {
	if h.temporal != nil {
		h.temporal.Close()
	}
	if h.store != nil {
		h.feed.Close()
		h.store.Close()
	}
	if h.keep {
		fmt.Fprintf(os.Stderr, "The stack is still running; stop it with: rgpt dev stop --data-dir %s\n", h.options.DataDir)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	defer func() { _ = h.model.close() }()
	stopped := h.stopWorkers(ctx)
	// A stack that failed to start completely leaves a state file that lists the processes that did
	// start.
	_, err := devstack.Down(ctx, h.options.DataDir)
	if errors.Is(err, devstack.ErrNoStack) {
		err = nil
	}
	if err = errors.Join(stopped, err); err != nil {
		return fmt.Errorf("stop the stack in %s: %w", h.options.DataDir, err)
	}
	return os.RemoveAll(h.dir)
}
