package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/store"
)

const (
	completeTime = 2 * time.Second // a person waits for it with a finger on the key
	completeRuns = 20
)

// completeRun offers the newest runs to a shell. Where there is nothing to
// offer it keeps quiet: the shell has no place for an error.
func (a *app) completeRun(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	a.serverSet = cmd.Flags().Changed("server")
	h, err := a.open(ctx, 0)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer h.Close()
	runs, err := h.ListRuns(ctx, store.Filter{Limit: completeRuns})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := make([]cobra.Completion, len(runs))
	for i, r := range runs {
		out[i] = cobra.CompletionWithDesc(strconv.FormatInt(r.ID, 10), string(r.Status)+": "+clean(r.GoalTitle))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// complete offers the values of a flag to a shell.
func complete[T ~string](cmd *cobra.Command, flag string, values []T) {
	names := make([]cobra.Completion, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	// Its only errors are a flag that is not there or done twice: ours to see in tests.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}
