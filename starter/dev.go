package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

func newDev(a *app) *cobra.Command {
	var scenario string
	var port int
	var detach bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Start the local stack: database, Temporal, model, worker and server",
		Long: `Starts each component that is not running: PostgreSQL (or uses DATABASE_URL), Temporal with its
Web UI (or uses TEMPORAL_ADDRESS), a model (the configured provider, else a scripted
one), a worker and the server. All state is kept in the data folder and survives restarts
and killed processes; run the command again to continue.

Without --detach it stays in the foreground, restarts processes that die, and stops
everything when interrupted.`,
		Example: `  rgpt dev --detach
  rgpt dev --detach --data-dir /tmp/try --scenario examples/go/good.yaml --port 0
  rgpt dev status`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return usageError{fmt.Errorf("--port %d is out of range; expected 1 to 65535, or 0 for a free port", port)}
			}
			o, err := a.stackOptions(cmd.Context(), scenario, port, cmd.Flags().Changed("port"))
			if err != nil {
				return err
			}
			if err := setup.ClaimDataDir(o.DataDir); err != nil {
				return err
			}
			s, err := devstack.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			a.printStack(s, o.NeedModel)
			if detach {
				return nil
			}
			return a.guard(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&scenario, "scenario", "", "scenario file with the scripted model's responses")
	cmd.Flags().IntVar(&port, "port", devstack.DefaultPort, "server port; 0 for a free port")
	cmd.Flags().BoolVar(&detach, "detach", false, "run in the background; return when everything is ready")
	cmd.AddCommand(newDevStatus(a), newDevStop(a))
	return cmd
}

// stackOptions returns the options of the stack to run, from flags, environment and configuration.
func (a *app) stackOptions(ctx context.Context, scenario string, port int, portGiven bool) (devstack.Options, error) {
	dir, err := a.dataDir()
	if err != nil {
		return devstack.Options{}, err
	}
	programs, err := findPrograms(ctx, a.getenv("TEMPORAL_ADDRESS") == "")
	if err != nil {
		return devstack.Options{}, err
	}
	here, err := os.Getwd()
	if err != nil {
		return devstack.Options{}, fmt.Errorf("find the current directory: %w", err)
	}
	named := a.configFile
	if named != "" {
		if named, err = filepath.Abs(named); err != nil {
			return devstack.Options{}, fmt.Errorf("find %s: %w", a.configFile, err)
		}
		here = filepath.Dir(named)
	}
	// The worker and the server read the same files each time they start.
	cfg, err := config.Load(config.Sources{Project: named, Dir: here, Env: a.env, Trusts: a.trusted().Trusts})
	if err != nil {
		return devstack.Options{}, err
	}
	if err := answers(ctx, cfg.Database.URL); err != nil {
		return devstack.Options{}, err
	}
	o := devstack.Options{
		DataDir: dir, Port: port, Scenario: scenario, ConfigDir: here, ConfigFile: named, Programs: programs,
		NeedModel: cfg.Models.Default.Model == "",
		Namespace: cfg.Temporal.Namespace, Database: cfg.Database.URL,
		Progress: func(text string) { fmt.Fprintln(a.errs, text+" …") },
	}
	if !cfg.Origin("temporal.address").IsDefault() {
		o.Temporal = cfg.Temporal.Address
		if err := prepareTemporal(ctx, cfg.Temporal); err != nil {
			return devstack.Options{}, err
		}
	}
	if !portGiven {
		o.Port = -1
	}
	return o, nil
}

// prepareTemporal registers the search attributes that runs need on an external Temporal server.
func prepareTemporal(ctx context.Context, t config.Temporal) error {
	ctx, cancel := context.WithTimeout(ctx, backend.TemporalTimeout)
	defer cancel()
	c, err := temporal.Connect(ctx, t, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer c.Close()
	return temporal.RegisterSearchAttributes(ctx, c, t.Namespace)
}

// answers checks that a configured database is reachable before anything that needs it is started.
func answers(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, backend.DatabaseTimeout)
	defer cancel()
	_, err := store.SchemaVersion(ctx, url)
	return err
}

// findPrograms finds the binaries of a stack: beside this one, in the directory bin, or in the
// PATH. It looks for a Temporal binary only if Temporal is to be started, and falls back to the
// temporal command if our own server was not built.
func findPrograms(ctx context.Context, needTemporal bool) (devstack.Programs, error) {
	self, err := os.Executable()
	if err != nil {
		return devstack.Programs{}, fmt.Errorf("find the rgpt executable: %w", err)
	}
	p := devstack.Programs{Starter: self}
	if p.Worker, err = findProgram(self, "rgpt-worker", "make build"); err != nil || !needTemporal {
		return p, err
	}
	p.Devserver, err = findProgram(self, "temporal-devserver", "make devserver")
	cli, missing := exec.LookPath("temporal")
	if missing != nil {
		return p, err
	}
	if tooOld := devstack.CheckTemporalCLI(ctx, cli); tooOld != nil {
		return p, errors.Join(err, tooOld)
	}
	p.TemporalCLI = cli
	return p, nil
}

func findProgram(self, name, how string) (string, error) {
	file := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(file); err == nil && !info.IsDir() {
		return file, nil
	}
	if file, err := exec.LookPath(name); err == nil {
		return file, nil
	}
	return "", fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the program %s was not found beside rgpt or in the PATH; build it with `%s`", name, how)
}

// guard keeps the stack running until the command is interrupted, then stops it.
func (a *app) guard(ctx context.Context, o devstack.Options) error {
	fmt.Fprintln(a.errs, "Running. Press Ctrl-C to stop everything.")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	o.Port = -1 // the ports it has
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(a.errs, "Stopping …")
			_, err := devstack.Down(context.WithoutCancel(ctx), o.DataDir)
			return err
		case <-tick.C:
		}
		s, err := devstack.Load(o.DataDir)
		if err == nil && s.Stopped {
			fmt.Fprintln(a.errs, "Stopped by rgpt dev stop.")
			return nil
		}
		if err != nil || s.Running() {
			continue
		}
		for _, p := range s.Processes {
			if p.State == "down" {
				fmt.Fprintf(a.errs, "The %s exited; restarting it. Log: %s\n", p.Role, p.Log)
			}
		}
		if _, err := devstack.Up(ctx, o); err != nil && ctx.Err() == nil {
			a.reportError(err)
		}
	}
}

// printStack prints all addresses, and whether the scripted model is used for everything or only
// when selected.
func (a *app) printStack(s *devstack.Stack, scriptedAlone bool) {
	if a.json {
		a.printJSON(s)
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Dashboard\t%s\n", s.Server)
	if s.TemporalUI != "" {
		fmt.Fprintf(w, "Temporal Web UI\t%s\n", s.TemporalUI)
	}
	fmt.Fprintf(w, "Temporal\t%s (namespace %s)\n", s.Temporal, s.Namespace)
	if p, ok := s.Process(devstack.RolePostgres); ok {
		fmt.Fprintf(w, "PostgreSQL\t%s\n", p.Address)
	}
	if s.Model != "" {
		fmt.Fprintf(w, "Scripted model\t%s\n", s.Model)
	}
	fmt.Fprintf(w, "Data folder\t%s\n", s.DataDir)
	_ = w.Flush()
	switch {
	case s.Model == "":
	case !scriptedAlone:
		fmt.Fprintln(a.out, "Note: the scripted model responds only when selected (mode \"local\" or model \"scripted/scripted\"); all other requests use the configured models")
	default:
		what := "responses come from " + s.Scenario
		if s.Scenario == "" {
			what = "the scripted model has NO responses: set models.default in " + config.FileName + ", or restart with --scenario FILE"
		}
		fmt.Fprintln(a.out, strings.ToUpper("note:"), "no real model is used;", what)
	}
}

func newDevStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show the stack's processes", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.dataDir()
			if err != nil {
				return err
			}
			s, err := devstack.Load(dir)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(s)
			} else {
				a.printProcesses(s)
			}
			if !s.Running() {
				return ended{exitError}
			}
			return nil
		},
	}
}

func (a *app) printProcesses(s *devstack.Stack) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ROLE\tSTATE\tPID\tADDRESS\tLOG")
	for _, p := range s.Processes {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", p.Role, p.State, p.PID, p.Address, p.Log)
	}
	_ = w.Flush()
}

func newDevStop(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "stop", Short: "Stop everything that rgpt dev started; the data is kept", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := a.dataDir()
			if err != nil {
				return err
			}
			s, err := devstack.Down(cmd.Context(), dir)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(s)
			} else {
				fmt.Fprintln(a.out, "Stopped; the data is kept in", s.DataDir)
			}
			return nil
		},
	}
}
