package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newBrainSearch(a *app) *cobra.Command {
	var q control.BrainQuery
	var rerank bool
	cmd := &cobra.Command{
		Use: "search QUERY", Short: "Find the files of a repository that matter for a question",
		Long: `The query can be words, names of functions or files, an error message or a stack trace. The result
shows the best parts of the best files with line numbers. What is not indexed yet is indexed first.
If a model is configured (brain.rerank.model), it orders the files again.`,
		Example: `  rgpt brain search "where is the retry delay computed"
  rgpt brain search ParseArgs --path "src/**" --explain
  rgpt brain search "timeout of requests" --repo https://github.com/acme/shop --json`,
		Args: query,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Text, q.KeepOrder = strings.Join(args, " "), !rerank
			return a.withEnvironments(cmd.Context(), q.Repo, func(h backend.Backend) error {
				answer, err := h.BrainSearch(cmd.Context(), q)
				switch {
				case err != nil:
					return err
				case a.json:
					a.printJSON(answer)
					return nil
				}
				a.printNotes(answer.Notes)
				a.printReranked(answer.Rerank)
				if len(answer.Files) == 0 {
					fmt.Fprintln(a.out, "Nothing was found. Use other words.")
				} else {
					fmt.Fprint(a.out, answer.Text)
				}
				return nil
			})
		},
	}
	brainFlags(cmd, &q.Repo, &q.Rev, &q.Tokens)
	cmd.Flags().StringVar(&q.Paths, "path", "", "only paths that match this glob, such as \"src/**/*.ts\", or that are in this directory")
	cmd.Flags().StringVar(&q.Lang, "lang", "", "only this language, such as go or typescript, or files with this extension")
	cmd.Flags().IntVar(&q.Limit, "limit", 10, "maximum number of files")
	cmd.Flags().BoolVar(&q.Explain, "explain", false, "say why each file was found")
	cmd.Flags().BoolVar(&rerank, "rerank", true, "let the model of brain.rerank, if one is configured, order the files again")
	return cmd
}

// printReranked says which model ordered the files again, and what that cost.
func (a *app) printReranked(r *brain.Reranked) {
	switch {
	case r == nil:
	case r.Applied:
		fmt.Fprintf(a.out, "Ordered by %s: the first %d files, for $%.4f.\n\n", terminal.Clean(r.Model), r.Files, r.CostUSD)
	case r.CostUSD > 0:
		fmt.Fprintf(a.out, "The call of %s cost $%.4f.\n\n", terminal.Clean(r.Model), r.CostUSD)
	}
}

// query requires something to search for.
func query(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s needs a query: words, names or an error message; see %s --help", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

func newBrainMap(a *app) *cobra.Command {
	var repo, rev, goal string
	var tokens int
	cmd := &cobra.Command{
		Use: "map", Short: "Describe a repository within a number of tokens",
		Long: `The map starts with the files that matter most, with the signatures of what they define, and ends
with all directories. With a goal, the files that matter for it come first.`,
		Example: `  rgpt brain map
  rgpt brain map --goal "retry failed uploads" --tokens 8000`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withEnvironments(cmd.Context(), repo, func(h backend.Backend) error {
				m, err := h.BrainMap(cmd.Context(), repo, rev, goal, tokens)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(m)
					return nil
				}
				a.printNotes(m.Notes)
				fmt.Fprint(a.out, m.Text)
				return nil
			})
		},
	}
	brainFlags(cmd, &repo, &rev, &tokens)
	cmd.Flags().StringVar(&goal, "goal", "", "what the map is for")
	return cmd
}

func brainFlags(cmd *cobra.Command, repo, rev *string, tokens *int) {
	cmd.Flags().StringVar(repo, "repo", ".", "repository: a directory or a URL")
	cmd.Flags().StringVar(rev, "rev", "", "branch, tag or commit (default: the checked-out commit, or the default branch)")
	cmd.Flags().IntVar(tokens, "tokens", 4000, "size of the text")
}
