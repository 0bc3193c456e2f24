package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newFlaky(a *app) *cobra.Command {
	var repo string
	var limit int
	cmd := &cobra.Command{
		Use: "flaky", Short: "List flaky tests with their history",
		Long: `A test is flaky if it both passed and failed at the same state of the code, environment and
tools: in one verification, in which a re-run passed, or in several. FLAKY is the number of
such states in the last 30 days (verification.flaky.window).`,
		Example: `  rgpt flaky --repo .
  rgpt flaky --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", limit)}
			}
			return a.withEnvironments(cmd.Context(), repo, func(h backend.Backend) error {
				list, err := h.FlakyTests(cmd.Context(), repo, limit)
				if err == nil {
					a.printFlaky(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "only this repository (a directory or a URL)")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of results")
	return cmd
}

func (a *app) printFlaky(list []flaky.Test) {
	printList(a, "tests", list, "No flaky tests are known. Runs record the outcomes of tests.", "FLAKY\tRERUNS\tFAILED\tPASSED\tLAST\tQUARANTINE\tCHECK\tTEST\tREPOSITORY", func(w io.Writer, t flaky.Test) {
		quarantine := ""
		switch {
		case t.ExpiresAt != nil:
			quarantine = "until " + day(*t.ExpiresAt)
		case t.Suggested:
			quarantine = "suggested"
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s ago\t%s\t%s\t%s\t%s\n", t.Flips, t.Reruns, t.Failures, t.Passes, age(t.FlippedAt), quarantine,
			terminal.Clean(t.Check), terminal.Clean(t.Name), terminal.Clean(t.Repo))
	})
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func newQuarantine(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "quarantine", Short: "Quarantine flaky tests",
		Long: `The failure of a quarantined test is shown, but neither fails a run nor causes a heal.
Each entry names one test of one repository, has a reason, and expires.
docs/FLAKY_TESTS.md describes which failures count all the same.`,
	}
	cmd.AddCommand(newQuarantineAdd(a), newQuarantineList(a), newQuarantineRemove(a))
	return cmd
}

func newQuarantineAdd(a *app) *cobra.Command {
	var n control.NewQuarantine
	var length time.Duration
	cmd := &cobra.Command{
		Use: "add TEST --repo PATH_OR_URL --reason TEXT", Short: "Quarantine a test for a limited time",
		Long: `Quarantines a test by the exact name that runs report (rgpt flaky, or the tests of a run),
with its parameters. The entry applies to verifications that are planned from now on. It
replaces a current entry for the same test and check.`,
		Example: `  rgpt quarantine add example.com/app.TestUpload --repo . --reason "times out on slow disks, #1234"
  rgpt quarantine add 'tests/test_api.py::test_retry[tls]' --repo . --for 72h --reason "flaky since the upgrade"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs the name of one test; rgpt flaky lists flaky tests", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") {
				if length < time.Hour {
					return usageError{fmt.Errorf("--for %s is too short; must be at least 1h", length)}
				}
				n.Hours = int((length + time.Hour - 1) / time.Hour)
			}
			n.Test, n.By = args[0], caller()
			return a.withEnvironments(cmd.Context(), n.Repo, func(h backend.Backend) error {
				e, err := h.AddQuarantine(cmd.Context(), n)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(e)
				} else {
					fmt.Fprintf(a.out, "Quarantined %s of %s until %s (entry %d)\n", terminal.Clean(e.Test), terminal.Clean(e.Repo), e.ExpiresAt.UTC().Format(time.RFC3339), e.ID)
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Repo, "repo", "", "repository: a directory or a URL")
	f.StringVar(&n.Reason, "reason", "", "reason to record")
	f.StringVar(&n.Check, "check", "", "only in this check, without its shard, such as test-go")
	f.DurationVar(&length, "for", 0, "duration such as 72h (default: verification.flaky.quarantine_for)")
	return cmd
}

func newQuarantineList(a *app) *cobra.Command {
	var repo string
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List quarantined tests, newest first", Args: noArgs,
		Example: `  rgpt quarantine list --repo .
  rgpt quarantine list --all --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", limit)}
			}
			return a.withEnvironments(cmd.Context(), repo, func(h backend.Backend) error {
				list, err := h.Quarantine(cmd.Context(), repo, all, limit)
				if err == nil {
					a.printQuarantine(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "only this repository (a directory or a URL)")
	cmd.Flags().BoolVar(&all, "all", false, "also list entries that expired or were removed")
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of results")
	return cmd
}

func (a *app) printQuarantine(list []flaky.Entry) {
	printList(a, "quarantine", list, "No test is quarantined. Flaky tests: rgpt flaky", "ENTRY\tSTATE\tUNTIL\tBY\tFAILED\tPASSED SINCE\tCHECK\tTEST\tREASON\tREPOSITORY", func(w io.Writer, e flaky.Entry) {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", e.ID, entryState(e), day(e.ExpiresAt), terminal.Clean(e.CreatedBy), e.Failures+e.Reruns, e.Streak,
			terminal.Clean(cmp.Or(e.Check, "any")), terminal.Clean(e.Test), terminal.Clean(e.Reason), terminal.Clean(e.Repo))
	})
}

// entryState describes what to do about a quarantined test.
func entryState(e flaky.Entry) string {
	switch {
	case e.RemovedAt != nil:
		return "removed by " + terminal.Clean(e.RemovedBy)
	case !e.Active:
		return "expired"
	case e.SeenAt == nil:
		return "never ran"
	case e.Missing:
		return "missing"
	case e.Ready:
		return "passes again"
	}
	return "quarantined"
}

func newQuarantineRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "remove ENTRY", Short: "End a quarantine", Example: "  rgpt quarantine remove 3",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs the ID of one entry; see rgpt quarantine list", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || id <= 0 {
				return usageError{fmt.Errorf("%q is not the ID of a quarantine entry; see rgpt quarantine list", args[0])}
			}
			return a.withEnvironments(cmd.Context(), "", func(h backend.Backend) error {
				if _, err := h.RemoveQuarantine(cmd.Context(), id, caller()); err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"removed": id})
				} else {
					fmt.Fprintf(a.out, "Removed quarantine entry %d\n", id)
				}
				return nil
			})
		},
	}
}

// maxQuarantineFile is the maximum size of a file with quarantined tests.
const maxQuarantineFile = 4 << 20

// readQuarantine reads the output of `quarantine list --json` from a file, or from standard input if it
// is -, and returns the tests whose quarantine has not ended.
func (a *app) readQuarantine(file string) ([]contract.QuarantinedTest, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig, "cannot read the quarantine from %s (--quarantine)", file)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxQuarantineFile+1))
	if err == nil && len(data) > maxQuarantineFile {
		err = fmt.Errorf("it is larger than %d bytes", maxQuarantineFile)
	}
	var list struct {
		Quarantine *[]flaky.Entry `json:"quarantine"`
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err == nil && list.Quarantine == nil {
		err = fmt.Errorf("it has no list with the name quarantine")
	}
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassHuman, contract.CodeInvalidConfig, "%s is not the output of rgpt quarantine list --json (--quarantine)", file)
	}
	var out []contract.QuarantinedTest
	for _, e := range *list.Quarantine {
		if e.RemovedAt == nil && e.ExpiresAt.After(time.Now()) {
			out = append(out, e.Quarantined())
		}
	}
	return out, nil
}
