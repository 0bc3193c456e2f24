package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newPR(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pr", Short: "List the pull requests of runs",
		Long: `Runs open pull requests on forges: GitHub, GitLab, Gitea and Forgejo. docs/FORGES.md describes how to
configure them.`,
	}
	cmd.AddCommand(newPRList(a))
	return cmd
}

func newPRList(a *app) *cobra.Command {
	f := control.PullRequestFilter{}
	cmd := &cobra.Command{
		Use: "list", Short: "List pull requests, newest first, as last seen", Args: noArgs,
		Example: `  rgpt pr list
  rgpt pr list --state open --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				page, err := h.PullRequests(cmd.Context(), f)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(page)
					return nil
				}
				printList(a, "pull_requests", page.PullRequests, "No pull requests.", "RUN\tREPOSITORY\tNUMBER\tSTATE\tTITLE\tURL", func(w io.Writer, p contract.PullRequest) {
					fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\n", p.RunID, terminal.Clean(p.Repo), p.Number, p.StateText(), terminal.Clean(p.Title), terminal.Clean(p.URL))
				})
				return nil
			})
		},
	}
	cmd.Flags().StringVar((*string)(&f.State), "state", "", "only those that are open, closed or merged")
	cmd.Flags().Int64Var(&f.Before, "before", 0, "show the next page: the number that the JSON of this page has as next")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of pull requests, up to 200")
	complete(cmd, "state", []string{string(contract.PullRequestOpen), string(contract.PullRequestClosed), string(contract.PullRequestMerged)})
	return cmd
}

// printPullRequests prints the pull requests of a run, if it opens any.
func (a *app) printPullRequests(ctx context.Context, h backend.Backend, run store.Run) error {
	if run.Settings.Release.PullRequest == nil {
		return nil
	}
	details, err := h.RunDetails(ctx, run.ID)
	if err != nil {
		return err
	}
	for _, p := range details.PullRequests {
		fmt.Fprintf(a.out, "  pull req.  %s (%s)\n", terminal.Clean(p.URL), p.StateText())
		for _, note := range p.Notes {
			fmt.Fprintf(a.out, "             %s\n", terminal.Clean(note))
		}
	}
	return nil
}
