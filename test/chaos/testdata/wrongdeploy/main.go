// wrongdeploy is a worker as a bad release would bring it: it takes the workflow
// tasks of all runs and steps, and panics in each. It does no activities.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/temporal"
)

func main() {
	ready := flag.String("ready-file", "", "file to write when the worker is ready")
	flag.String("config-dir", "", "as the worker has it; nothing is read there")
	flag.Bool("check-trust", false, "as the worker has it")
	flag.Parse()
	if err := run(*ready); err != nil {
		slog.Error("The wrong worker ended", "error", err)
		os.Exit(1)
	}
}

func run(ready string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c, err := temporal.Connect(ctx, config.Temporal{Address: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE")}, slog.Default())
	if err != nil {
		return err
	}
	defer c.Close()
	for _, queue := range []string{contract.QueueRun, contract.QueuePlanner, contract.QueueBuilder, contract.QueueRepair} {
		w := worker.New(c, queue, worker.Options{LocalActivityWorkerOnly: true})
		for _, name := range []string{contract.WorkflowRun, contract.WorkflowStep, contract.WorkflowSelfHeal} {
			w.RegisterWorkflowWithOptions(wrong, workflow.RegisterOptions{Name: name})
		}
		if err := w.Start(); err != nil {
			return err
		}
		defer w.Stop()
	}
	if err := os.WriteFile(ready, []byte("{}"), 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func wrong(workflow.Context) error { panic(errors.New("this release is wrong")) }
