package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func newBrain(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "brain", Short: "Index and search repositories",
		Long: `The brain knows the code of repositories: definitions, words, imports. Runs index what they need;
rgpt brain index does it in advance. docs/BRAIN.md describes what is indexed.`,
	}
	cmd.AddCommand(newBrainIndex(a), newBrainSearch(a), newBrainMap(a), newBrainStats(a))
	return cmd
}

func newBrainIndex(a *app) *cobra.Command {
	var rev string
	cmd := &cobra.Command{
		Use: "index [PATH_OR_URL]", Short: "Index a commit of a repository",
		Long: `Indexes the files of a commit, by default the one that is checked out in the current directory. Files
that were indexed before, in whatever commit, are not read again. Binary, generated and vendored
files are left out, and those that may contain secrets.`,
		Example: `  rgpt brain index
  rgpt brain index https://example.com/app.git --rev v2
  rgpt brain index ~/src/app --json`,
		Args: optionalRepository,
		RunE: func(cmd *cobra.Command, args []string) error {
			repo := "."
			if len(args) > 0 {
				repo = args[0]
			}
			if a.server() != "" {
				if err := checkRemote(repo); err != nil {
					return err
				}
			}
			return a.with(cmd.Context(), backend.NeedArtifacts, func(h backend.Backend) error { return a.indexRepository(cmd.Context(), h, repo, rev) })
		},
	}
	cmd.Flags().StringVar(&rev, "rev", "", "branch, tag or commit (default: the checked-out commit, or the default branch)")
	return cmd
}

// optionalRepository accepts at most one argument.
func optionalRepository(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes at most one repository; see %s --help", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

// progressEvery is how often progress is printed.
const progressEvery = time.Second

func (a *app) indexRepository(ctx context.Context, h backend.Backend, repo, rev string) error {
	var progress func(brain.Progress)
	if a.terminal() && !a.json {
		last := time.Now()
		progress = func(p brain.Progress) {
			if time.Since(last) >= progressEvery {
				last = time.Now()
				fmt.Fprintf(a.out, "%d of %d files read\n", p.Done, p.Missing)
			}
		}
	}
	x, err := h.IndexRepository(ctx, repo, rev, progress)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(x)
		return nil
	}
	a.printIndexed(x)
	return nil
}

// printIndexing prints the state of an indexing on the server.
func (a *app) printIndexing(x control.Indexing) {
	fmt.Fprintf(a.out, "Indexing of %s at %.12s: %s", terminal.Clean(x.Repo), x.Commit, terminal.Clean(x.State))
	switch x.State {
	case control.IndexingRunning:
		fmt.Fprintf(a.out, ", %d of %d files read", x.Progress.Done, x.Progress.Missing)
	case control.IndexingFailed:
		fmt.Fprintf(a.out, ": %s", terminal.Clean(x.Error))
	}
	fmt.Fprintln(a.out)
}

// shownLanguages is the number of languages that are printed.
const shownLanguages = 8

func (a *app) printIndexed(x control.Indexed) {
	a.printNotes(x.Notes)
	fmt.Fprintf(a.out, "Indexed %d of %d files of %s at %.12s in %.1fs: %d read, %d known from the database; %s on this host.\n",
		x.Documents, x.Files, terminal.Clean(x.Repo), x.Commit, x.Seconds, x.Read, x.Shared, ui.Size(x.Bytes))
	if e := x.Embeddings; e != nil {
		fmt.Fprintf(a.out, "Embeddings by %s: %d of %d files; %d computed from %d texts for $%.4f, %d known from the database.\n",
			terminal.Clean(e.Model), e.Files, e.Files+e.Missing, e.Computed, e.Texts, e.CostUSD, e.Shared)
		if e.Problem != "" {
			fmt.Fprintln(a.out, "Searches do without the missing embeddings:", terminal.Clean(e.Problem))
		}
	}
	if text := largest(x.Languages); text != "" {
		fmt.Fprintln(a.out, "Languages:", text)
	}
	if text := largest(x.Skipped); text != "" {
		fmt.Fprintln(a.out, "Left out:", text)
	}
}

// printNotes prints what is worth knowing about a result.
func (a *app) printNotes(notes []string) {
	for _, note := range notes {
		fmt.Fprintln(a.out, "Note:", terminal.Clean(note))
	}
}

// largest lists the largest numbers with their names.
func largest(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names[:min(len(names), shownLanguages)] {
		parts = append(parts, fmt.Sprintf("%s %d", terminal.Clean(name), counts[name]))
	}
	if more := len(names) - shownLanguages; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

func newBrainStats(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Show what is indexed and how much space it takes", Args: noArgs,
		Example: `  rgpt brain stats --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), backend.NeedArtifacts, func(h backend.Backend) error {
				s, err := h.BrainStats(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(s)
					return nil
				}
				fmt.Fprintf(a.out, "Indexes on this host: %d, %s of at most %s.\nExtracts of files in the database: %s.\n",
					s.Repositories, ui.Size(s.Bytes), ui.Size(s.Disk), ui.Size(s.SharedBytes))
				for _, x := range s.Indexes {
					fmt.Fprintf(a.out, "  %s: %s, used %s ago\n", cmp.Or(terminal.Clean(x.Repo), "(unknown)"), ui.Size(x.Bytes), ui.Age(time.Since(x.Used)))
				}
				a.printEmbeddings(s.Embeddings)
				if s.Rerank != "" {
					fmt.Fprintf(a.out, "What searches find is ordered again by %s.\n", terminal.Clean(s.Rerank))
				}
				for _, x := range s.Indexing {
					a.printIndexing(x)
				}
				return nil
			})
		},
	}
}

// printEmbeddings says which files have embeddings, and why others have none.
func (a *app) printEmbeddings(e brain.EmbeddingStats) {
	if e.Model == "" {
		fmt.Fprintln(a.out, "Embeddings: none; searches use words and history (brain.embeddings.model is not set).")
		return
	}
	fmt.Fprintf(a.out, "Embeddings by %s: %d files, %d missing.\n", terminal.Clean(e.Model), e.Files, e.Missing)
	for _, p := range e.Problems {
		fmt.Fprintf(a.out, "  %s: %s\n", terminal.Clean(p.Repo), terminal.Clean(p.Text))
	}
}
