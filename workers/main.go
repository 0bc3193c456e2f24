// rgpt-worker executes workflows and activities, in all roles or in the roles listed in
// worker.roles.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/trust"
	"github.com/rocketgpt/orchestrator/internal/version"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
)

func main() {
	sandbox.MaybeRunHelper()
	policy.MaybeRunHelper()
	dataDir := flag.String("data-dir", os.Getenv(setup.DataDir), "directory for caches and artifacts (RGPT_DATA_DIR)")
	configDir := flag.String("config-dir", "", "directory that contains rgpt.yaml")
	configFile := flag.String("config", "", "configuration file to read instead of the default")
	checkTrust := flag.Bool("check-trust", false, "accept only the settings that a repository may set, unless the directory with rgpt.yaml is trusted (rgpt trust)")
	ready := flag.String("ready-file", "", "file to write when the worker is ready")
	showVersion := flag.Bool("version", false, "show the version")
	flag.Parse()
	if *showVersion {
		fmt.Println("rgpt-worker", version.Long())
		return
	}
	tuneGC(os.Getenv)
	if err := run(*dataDir, config.Sources{Project: *configFile, Dir: *configDir}, *checkTrust, *ready); err != nil {
		fmt.Fprintln(os.Stderr, "rgpt-worker:", telemetry.Redact(err.Error()))
		os.Exit(exitCode(err))
	}
}

// exitCode returns 4 for a configuration error, as for rgpt, else 1.
func exitCode(err error) int {
	if fault.Of(err).Class == contract.ClassConfig {
		return 4
	}
	return 1
}

func run(dataDir string, from config.Sources, checkTrust bool, ready string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if checkTrust {
		from.Trusts = trust.Default(os.Getenv).Trusts
	}
	cfg, err := setup.Load(from, os.Getenv(setup.ScriptedURL))
	if err != nil {
		return err
	}
	service, err := setup.StartService(ctx, cfg, "worker")
	if err != nil {
		return err
	}
	defer service.Close()
	if dataDir == "" {
		if dataDir, err = setup.DefaultDataDir(); err != nil {
			return err
		}
	}
	return workerhost.Run(ctx, workerhost.Options{Config: cfg, DataDir: dataDir, ReadyFile: ready, Log: service.Log})
}
