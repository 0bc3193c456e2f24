package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// attemptsPoll is how often rgpt looks for the choice among attempts.
const attemptsPoll = time.Second

func newRunAttempts(a *app) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use: "attempts RUN", Short: "Compare the attempts at a run's goal, and show which one was chosen and why", Args: oneRun,
		Long: `Shows all attempts at the goal of a run that was created with --attempts: their models,
findings, sizes and costs, and which one was chosen and why.

SIZE is the number of changed lines without tests, then that of tests.`,
		Example: `  rgpt run attempts 42
  rgpt run diff 42 43 --patch
  rgpt run stop 42 --attempts`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				g, err := h.AttemptsOf(cmd.Context(), id)
				switch {
				case err != nil:
					return err
				case wait:
					return a.followAttempts(cmd.Context(), h, g)
				}
				return a.printAttempts(g)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until one is chosen and its run ends")
	return cmd
}

// printEstimate prints what a request will probably cost and take.
func (a *app) printEstimate(ctx context.Context, h backend.Backend, c creation) error {
	e, err := h.Estimate(ctx, c.Creation)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(e)
		return nil
	}
	for _, note := range e.Notes {
		fmt.Fprintln(a.errs, "Note:", terminal.Clean(note))
	}
	fmt.Fprintln(a.out, "Estimate:", terminal.OneLine(e.Text))
	return nil
}

// confirmAttempts prints what several attempts will probably cost and take before they are created. On a
// terminal, it asks whether to create them. It returns the notes that it has printed.
func (a *app) confirmAttempts(ctx context.Context, h backend.Backend, c creation) ([]string, error) {
	several, err := a.severalAttempts(c)
	if err != nil || !several {
		return nil, err
	}
	e, err := h.Estimate(ctx, c.Creation)
	if err != nil || e.Attempts < 2 {
		return nil, err
	}
	shown := append(slices.Clone(e.Notes), e.Text)
	for _, note := range shown {
		fmt.Fprintln(a.errs, "Note:", terminal.OneLine(note))
	}
	if c.yes || !a.interactive() {
		return shown, nil
	}
	yes, err := a.confirm(ctx, fmt.Sprintf("Create %d attempts?", e.Attempts))
	if err == nil && !yes {
		fmt.Fprintln(a.errs, "Nothing was created.")
		err = ended{exitInput}
	}
	return shown, err
}

// severalAttempts reports whether a request may ask for several attempts: by itself, or because the
// configuration on this machine does. It does not ask a server for its configuration.
func (a *app) severalAttempts(c creation) (bool, error) {
	switch {
	case c.PlanOnly || c.PrepareOnly || len(c.Repositories) > 1:
		return false, nil
	case c.Attempts != 0 || len(c.AttemptModels) > 0:
		return max(c.Attempts, len(c.AttemptModels)) > 1, nil
	case a.server() != "":
		return false, nil
	}
	cfg, err := a.config()
	if err != nil {
		return false, err
	}
	return cfg.Execution.Attempts.Count > 1, nil
}

// allAttempts adds the flag that sends a command to all attempts at a run's goal.
func (a *app) allAttempts(cmd *cobra.Command, name string, c *contract.Command, one func(*cobra.Command, []string) error) {
	var all bool
	cmd.Flags().BoolVar(&all, "attempts", false, "all attempts at the run's goal")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !all {
			return one(cmd, args)
		}
		id, err := runID(args[0])
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), backend.NeedTemporal, func(h backend.Backend) error {
			c.By = caller()
			g, err := h.SteerAttempts(cmd.Context(), id, name, *c)
			if err != nil {
				return err
			}
			return a.printAttempts(g)
		})
	}
}

// reportAttempts prints the attempts that were created, or follows them if --wait is set.
func (a *app) reportAttempts(ctx context.Context, h backend.Backend, g attempts.Group, fresh, wait bool) error {
	if wait {
		return a.followAttempts(ctx, h, g)
	}
	if a.json {
		a.printJSON(map[string]any{"runId": g.Attempts[0].RunID, "created": fresh, "attempts": g})
		return nil
	}
	fmt.Fprintf(a.out, "%d attempts started: %s\n", len(g.Attempts), terminal.Clean(g.Attempts[0].Goal))
	for _, t := range g.Attempts {
		fmt.Fprintf(a.out, "  attempt %d: run %d with %s\n", t.Number, t.RunID, terminal.Clean(t.Model.Provider+"/"+t.Model.Model))
	}
	fmt.Fprintf(a.out, "Compare them with: rgpt run attempts %d\n", g.Attempts[0].RunID)
	return nil
}

// followAttempts shows how attempts proceed until one is chosen, then follows that one. It returns the exit
// code for its result.
func (a *app) followAttempts(ctx context.Context, h backend.Backend, g attempts.Group) error {
	seen := map[int64]string{}
	first := g.Attempts[0].RunID
	for {
		var err error
		if g, err = withRetries(ctx, func() (attempts.Group, error) { return h.AttemptsOf(ctx, first) }); err != nil {
			return err
		}
		for _, t := range g.Attempts {
			if now := attemptState(t); seen[t.RunID] != now && !a.json {
				fmt.Fprintf(a.errs, "attempt %d (run %d): %s\n", t.Number, t.RunID, now)
				seen[t.RunID] = now
			}
		}
		if g.DecidedAt != nil {
			break
		}
		if !pause(ctx, attemptsPoll) {
			return ctx.Err()
		}
	}
	if !a.json {
		if err := a.printAttempts(g); err != nil {
			return err
		}
	}
	if g.Winner != 0 {
		err := a.follow(ctx, h, g.Winner)
		if now, failed := h.AttemptsOf(ctx, first); err != nil && failed == nil && !a.json {
			writeInstead(a.out, now)
		}
		return err
	}
	if a.json {
		a.printJSON(g)
	}
	if g.Rule == contract.RuleStopped {
		return ended{exitStopped}
	}
	return ended{exitFailed}
}

// printAttempts prints the attempts of a group as a table.
func (a *app) printAttempts(g attempts.Group) error {
	if a.json {
		a.printJSON(g)
		return nil
	}
	writeAttempts(a.out, g)
	return nil
}

func writeAttempts(out io.Writer, g attempts.Group) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ATTEMPT\tRUN\tMODEL\tSTATE\tFINDINGS\tSIZE\tCOST")
	for _, t := range g.Attempts {
		findings, size := "-", "-"
		if t.HeldAt != nil {
			findings = fmt.Sprintf("%d major, %d medium", t.Major, t.Medium)
			size = fmt.Sprintf("%d + %d", t.Lines, t.TestLines)
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\t%s\t%s\t%s\n", t.Number, t.RunID, terminal.Clean(t.Model.Provider+"/"+t.Model.Model), attemptState(t), findings, size,
			contract.MarkEstimated(fmt.Sprintf("%.4f USD", float64(t.MicroUSD)/1e6), t.Estimated))
	}
	_ = w.Flush()
	_, cost, estimated := g.Usage()
	fmt.Fprintf(out, "All attempts together: %s", contract.MarkEstimated(fmt.Sprintf("%.4f USD", float64(cost)/1e6), estimated))
	if most := g.Settings.Budget.MicroUSD; most > 0 {
		fmt.Fprintf(out, " of at most %.2f USD", float64(most)/1e6)
	}
	fmt.Fprintln(out)
	switch {
	case g.DecidedAt == nil:
		fmt.Fprintln(out, "None is chosen yet.")
	case g.Winner == 0:
		fmt.Fprintf(out, "None was chosen: %s\n", terminal.OneLine(g.Reason))
	default:
		fmt.Fprintf(out, "Run %d was chosen (by %s): %s\n", g.Winner, g.Rule, terminal.OneLine(g.Reason))
		writeInstead(out, g)
	}
}

// writeInstead says what a person can do if the chosen attempt was not released.
func writeInstead(out io.Writer, g attempts.Group) {
	at := slices.IndexFunc(g.Attempts, func(t attempts.Attempt) bool { return t.Chosen })
	if at < 0 || !g.Attempts[at].Status.Terminal() || g.Attempts[at].Status == contract.StatusDone {
		return
	}
	fmt.Fprintf(out, "It ended without being released, and no other attempt replaces it by itself.\n  to try its release again: rgpt run resume %d\n", g.Winner)
	for i, id := range g.Instead {
		what := "to test and release another attempt that passed"
		if i == 0 {
			what = "to test and release the next best attempt instead"
		}
		fmt.Fprintf(out, "  %s: rgpt run resume %d\n", what, id)
	}
}

// attemptState describes the state of an attempt.
func attemptState(t attempts.Attempt) string {
	switch {
	case t.Chosen:
		return "chosen, " + string(t.Status)
	case t.Passed():
		return "passed, waits for the choice"
	case t.Failure != nil && t.Failure.Code == contract.CodeNotChosen:
		return "passed, not chosen"
	case t.Failure != nil && t.Status.Terminal():
		return fmt.Sprintf("%s (%s)", t.Status, terminal.Clean(string(t.Failure.Code)))
	}
	return string(t.Status)
}
