package sandbox_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// A worker makes one runner at its start and runs every command with it. Its main
// function has called sandbox.MaybeRunHelper first.
func ExampleProcess_Run() {
	runner, err := sandbox.NewProcess(sandbox.Options{Toolchains: sandbox.DetectToolchains()})
	if err != nil {
		log.Fatal(err) // says what is missing, and what to do
	}
	res, err := runner.Run(context.Background(), sandbox.Command{
		Root:   "/var/lib/rgpt/workspaces/42",
		Shell:  "go test ./...",
		Limits: sandbox.Limits{Timeout: 5 * time.Minute, MemoryBytes: 2 << 30},
	})
	switch {
	case err != nil:
		log.Fatal(err) // nothing was run, or the context ended
	case res.OK():
		fmt.Println("green")
	case res.TimedOut, res.LimitExceeded != "":
		fmt.Println("ended by a limit:", res.LimitExceeded)
	default:
		fmt.Printf("red, exit code %d:\n%s", res.ExitCode, res.Stdout)
	}
}
