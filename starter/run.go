package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
)

func newRun(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Start, follow and control runs",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRunCreate(a), newRunList(a), newRunWatch(a), newRunInspect(a), newRunLogs(a))
	cmd.AddCommand(steering(a)...)
	cmd.AddCommand(resuming(a)...)
	cmd.AddCommand(newRunExport(a), newRunArtifacts(a), newRunTiming(a), newRunDiff(a), newRunAttempts(a), newRunFork(a), newRunFollowUp(a), newRunRejudge(a), newRunCheck(a))
	for _, sub := range cmd.Commands() {
		if strings.Contains(sub.Use, " RUN") {
			sub.ValidArgsFunction = a.completeRun
		}
	}
	return cmd
}

// oneRun requires a run ID as the only argument.
func oneRun(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s needs the ID of one run, such as 42; see rgpt run list", cmd.CommandPath())}
	}
	_, err := runID(args[0])
	return err
}

// runID parses a run ID in any form that users see: 42, #42, run-42.
func runID(text string) (int64, error) {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "#"), "run-")
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id <= 0 {
		return 0, usageError{fmt.Errorf("%q is not a run ID; expected a number such as 42 (see rgpt run list)", text)}
	}
	return id, nil
}

// exitOf returns the exit code for the result of a run.
func exitOf(status contract.Status, code contract.Code) int {
	switch {
	case status == contract.StatusDone:
		return exitDone
	case status == contract.StatusCancelled, status == contract.StatusFailed && code == contract.CodeRunTimeout:
		return exitStopped
	default:
		return exitFailed
	}
}
