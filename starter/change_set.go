package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// changeSetPoll is how often rgpt looks at the runs of a change set.
const changeSetPoll = time.Second

func newSet(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set", Short: "Show and command change sets: runs of several repositories that are released together",
		Long: `A change set consists of one run for each of several repositories, which rgpt run create makes if --repo
is given several times. docs/CHANGE_SETS.md describes it.`,
	}
	cmd.AddCommand(newSetList(a), newSetInspect(a),
		newSetCommand(a, "release", "Release the runs of a change set that are ready, without waiting for the others", backend.Backend.ReleaseChangeSet),
		newSetCommand(a, "stop", "Stop all runs of a change set", backend.Backend.StopChangeSet),
	)
	return cmd
}

func newSetList(a *app) *cobra.Command {
	var before int64
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List change sets, newest first", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				page, err := h.ChangeSets(cmd.Context(), before, limit)
				switch {
				case err != nil:
					return err
				case a.json:
					a.printJSON(map[string]any{"change_sets": page.Sets, "next": page.Next})
					return nil
				case len(page.Sets) == 0:
					fmt.Fprintln(a.out, "No change sets.")
					return nil
				}
				w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "SET\tSTATE\tRUNS\tGOAL")
				for _, s := range page.Sets {
					fmt.Fprintf(w, "%d\t%s\t%d\t%s\n", s.ID, setState(s), len(s.Runs), terminal.OneLine(s.Title))
				}
				return w.Flush()
			})
		},
	}
	cmd.Flags().Int64Var(&before, "before", 0, "only change sets before this one, for the next page")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of change sets, up to 200")
	return cmd
}

// oneSet parses the id of a change set.
func oneSet(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usageError{fmt.Errorf("%q is not the ID of a change set; see rgpt set list", text)}
	}
	return id, nil
}

func newSetInspect(a *app) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "inspect SET", Aliases: []string{"show"}, Short: "Show the runs of a change set and their pull requests", Args: cobra.ExactArgs(1),
		Example: `  rgpt set inspect 7
  rgpt set inspect 7 --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneSet(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				s, err := h.ChangeSet(cmd.Context(), id)
				switch {
				case err != nil:
					return err
				case wait:
					return a.followChangeSet(cmd.Context(), h, s)
				}
				a.printChangeSet(s)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until all runs have ended")
	return cmd
}

func newSetCommand(a *app, name, short string, do func(backend.Backend, context.Context, int64, contract.Command) (changesets.Set, error)) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: name + " SET", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := oneSet(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), backend.NeedTemporal, func(h backend.Backend) error {
				s, err := do(h, cmd.Context(), id, contract.Command{By: caller(), Reason: reason})
				if err != nil {
					return err
				}
				a.printChangeSet(s)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason to record")
	return cmd
}

// namedRepositories returns the repositories that the flags of run create name, with what is to be done in
// each.
func namedRepositories(repos, goals []string) ([]control.RepositoryGoal, error) {
	var out []control.RepositoryGoal
	for _, repo := range repos {
		out = append(out, control.RepositoryGoal{Repo: repo})
	}
	for _, text := range goals {
		found := false
		for i, repo := range repos {
			if goal, ok := strings.CutPrefix(text, repo+"="); ok && goal != "" {
				out[i].Goal, found = strings.TrimSpace(out[i].Goal+"\n"+goal), true
				break
			}
		}
		if !found {
			return nil, usageError{fmt.Errorf("--repo-goal %q must begin with a repository that --repo names, and =", text)}
		}
	}
	return out, nil
}

// reportChangeSet prints the runs that were created, or follows them if --wait is set.
func (a *app) reportChangeSet(ctx context.Context, h backend.Backend, s changesets.Set, fresh, wait bool) error {
	if wait {
		return a.followChangeSet(ctx, h, s)
	}
	if a.json {
		a.printJSON(map[string]any{"runId": s.Runs[0].RunID, "created": fresh, "change_set": s})
		return nil
	}
	fmt.Fprintf(a.out, "change set %d started: %s\n", s.ID, terminal.OneLine(s.Title))
	for _, m := range s.Runs {
		fmt.Fprintf(a.out, "  run %d: %s\n", m.RunID, terminal.Clean(m.Project))
	}
	fmt.Fprintf(a.out, "Show them with: rgpt set inspect %d\n", s.ID)
	return nil
}

// followChangeSet shows how the runs of a change set proceed until all have ended. It returns the exit code
// for the outcome.
func (a *app) followChangeSet(ctx context.Context, h backend.Backend, s changesets.Set) error {
	seen, id, held := map[int64]string{}, s.ID, false
	for {
		var err error
		if s, err = withRetries(ctx, func() (changesets.Set, error) { return h.ChangeSet(ctx, id) }); err != nil {
			return err
		}
		over := s.DecidedAt != nil
		for _, m := range s.Runs {
			if now := memberState(m); seen[m.RunID] != now && !a.json {
				fmt.Fprintf(a.errs, "run %d (%s): %s\n", m.RunID, terminal.Clean(m.Project), now)
				seen[m.RunID] = now
			}
			over = over && m.Ended()
		}
		if over {
			break
		}
		if s.Held && !held && !a.json {
			writeHeld(a.errs, s)
		}
		held = s.Held
		if !pause(ctx, changeSetPoll) {
			return ctx.Err()
		}
	}
	a.printChangeSet(s)
	code := 0
	for _, m := range s.Runs {
		if m.Status != contract.StatusDone {
			code = exitFailed
		}
	}
	switch {
	case s.Outcome == contract.OutcomeStopped:
		return ended{exitStopped}
	case code != 0:
		return ended{code}
	}
	return nil
}

// printChangeSet prints a change set.
func (a *app) printChangeSet(s changesets.Set) {
	if a.json {
		a.printJSON(s)
		return
	}
	writeChangeSet(a.out, s)
}

func writeChangeSet(out io.Writer, s changesets.Set) {
	fmt.Fprintf(out, "change set %d, %s: %s\n", s.ID, setState(s), terminal.OneLine(s.Title))
	if s.Reason != "" {
		fmt.Fprintf(out, "  %s\n", terminal.OneLine(s.Reason))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tREPOSITORY\tSTATE\tPULL REQUEST")
	for _, m := range s.Runs {
		request := "-"
		if p := m.PullRequest; p != nil {
			request = fmt.Sprintf("%s (%s)", terminal.Clean(p.URL), p.State)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.RunID, terminal.Clean(m.Project), memberState(m), request)
	}
	_ = w.Flush()
	_, cost, estimated := s.Usage()
	fmt.Fprintf(out, "All runs together: %s", contract.MarkEstimated(fmt.Sprintf("%.4f USD", float64(cost)/1e6), estimated))
	if most := s.Settings.MicroUSD; most > 0 {
		fmt.Fprintf(out, " of at most %.2f USD", float64(most)/1e6)
	}
	fmt.Fprintln(out)
	switch {
	case s.Held:
		writeHeld(out, s)
	case s.WaitsUntil != nil && s.Settings.Incomplete != contract.IncompleteHold:
		fmt.Fprintf(out, "The runs that are ready wait for the others until %s.\n", s.WaitsUntil.Local().Format(time.DateTime))
	}
}

// writeHeld prints what a person can do about a set that waits for a decision.
func writeHeld(out io.Writer, s changesets.Set) {
	fmt.Fprintf(out, "Some runs are ready and others are not. To release those that are: rgpt set release %d\nTo stop all: rgpt set stop %[1]d\n", s.ID)
}

// setState describes the state of a change set.
func setState(s changesets.Set) string {
	switch {
	case s.Held:
		return "held"
	case s.Outcome != "": // a set that was stopped after the decision stays what was decided
		return s.Outcome
	case s.StoppedAt != nil:
		return contract.OutcomeStopped
	}
	return "working"
}

// memberState describes the state of a run of a change set.
func memberState(m changesets.Member) string {
	switch {
	case m.Ready():
		return "ready, waits for the others"
	case m.Failure != nil && m.Ended():
		return fmt.Sprintf("%s (%s)", m.Status, terminal.Clean(string(m.Failure.Code)))
	}
	return string(m.Status)
}
