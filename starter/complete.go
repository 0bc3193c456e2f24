package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

const (
	completeTime   = 2 * time.Second // a person is waiting at the keyboard
	maxCompletions = 20
)

// completeRun offers the newest runs as shell completions.
func (a *app) completeRun(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offer(cmd, func(ctx context.Context, h backend.Backend) (out []cobra.Completion, err error) {
		runs, err := h.ListRuns(ctx, store.Filter{Limit: maxCompletions})
		for _, r := range runs {
			out = append(out, offered(r.ID, string(r.Status), r.GoalTitle))
		}
		return out, err
	})
}

// completePipeline offers the newest pipelines as shell completions, then the agents if the command
// takes one.
func (a *app) completePipeline(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 && strings.Contains(cmd.Use, " AGENT") {
		var agents []cobra.Completion
		for _, m := range contract.Members() {
			agents = append(agents, string(m))
		}
		return agents, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offer(cmd, func(ctx context.Context, h backend.Backend) (out []cobra.Completion, err error) {
		pipelines, err := h.ListPipelines(ctx, store.PipelineFilter{Limit: maxCompletions})
		for _, p := range pipelines {
			out = append(out, offered(p.ID, string(p.Status), p.Objective))
		}
		return out, err
	})
}

// offered returns the shell completion for a run or pipeline.
func offered(id int64, status, title string) cobra.Completion {
	return cobra.CompletionWithDesc(strconv.FormatInt(id, 10), status+": "+terminal.Clean(title))
}

// offer reads completions from the backend and offers them to the shell in the order read. It
// prints no errors: the shell has nowhere to show them.
func (a *app) offer(cmd *cobra.Command, read func(context.Context, backend.Backend) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	a.serverSet = cmd.Flags().Changed("server")
	h, err := a.open(ctx, 0)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer h.Close()
	out, err := read(ctx, h)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// complete registers the values of a flag as shell completions.
func complete[T ~string](cmd *cobra.Command, flag string, values []T) {
	names := make([]cobra.Completion, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	// It fails only for a flag that does not exist or is registered twice, which tests would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}
