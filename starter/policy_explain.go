package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newPolicyExplain(a *app) *cobra.Command {
	var verdict int64
	cmd := &cobra.Command{
		Use: "explain RUN", Short: "Explain what the policy gate decided about a run's changes, and by which rules", Args: oneRun,
		Long: `Shows each verdict of the policy gate about a run's changes: what was judged, what the guards found,
and what the policies made of it, with the file and line of the rules that gave a reason. The
policies judge the recorded input again; no repository is read and nothing changes.`,
		Example: `  rgpt policy explain 42
  rgpt policy explain 42 --verdict 7 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				list, err := h.ExplainGate(cmd.Context(), id, verdict)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(list)
					return nil
				}
				if len(list) == 0 {
					fmt.Fprintln(a.out, "The policy gate has judged no change of this run.")
				}
				for i, e := range list {
					if i > 0 {
						fmt.Fprintln(a.out)
					}
					printExplanation(a.out, e)
				}
				return nil
			})
		},
	}
	cmd.Flags().Int64Var(&verdict, "verdict", 0, "only the verdict with this number, as in rgpt run inspect")
	return cmd
}

func printExplanation(w io.Writer, e explain.Explanation) {
	v := e.Verdict
	what := string(v.Stage)
	if v.Step != "" {
		what += " " + v.Step
	}
	fmt.Fprintf(w, "Verdict %d, %s by %s: %s\n", v.ID, terminal.Clean(what), terminal.Clean(v.Author), decided(v))
	t := e.Totals
	fmt.Fprintf(w, "  change: %d files (%d new, %d deleted, %d renamed), +%d -%d lines\n", t.Files, t.Created, t.Deleted, t.Renamed, t.Added, t.Removed)
	for _, name := range slices.Sorted(maps.Keys(v.Policies)) {
		fmt.Fprintf(w, "  policies: %s %s\n", terminal.Clean(name), terminal.Clean(v.Policies[name]))
	}
	if e.Changed {
		fmt.Fprintf(w, "  The policies have changed since. Now they decide: %s\n", cmp.Or(decisionWords[e.Now], string(e.Now)))
	}
	for _, f := range e.Findings {
		fmt.Fprintf(w, "  %s %s/%s%s: %s\n", f.Severity, terminal.Clean(f.Guard), terminal.Clean(f.Rule), at(f.Path, f.Line), terminal.Clean(f.Message))
		for _, r := range f.Given {
			fmt.Fprintf(w, "    %s\n", origin(r))
		}
		if len(f.Given) == 0 {
			fmt.Fprintln(w, "    no policy gave a reason")
		}
	}
	for _, r := range e.Others {
		fmt.Fprintf(w, "  %s: %s\n", origin(r), terminal.Clean(r.String()))
	}
	if len(e.Findings)+len(e.Others) == 0 {
		fmt.Fprintln(w, "  The guards found nothing, and no policy gave a reason.")
	}
}

// at describes where a finding is.
func at(path string, line int) string {
	switch {
	case path == "":
		return ""
	case line == 0:
		return " " + terminal.Clean(path)
	}
	return fmt.Sprintf(" %s:%d", terminal.Clean(path), line)
}

// origin says what a reason leads to, and where it comes from.
func origin(r explain.GivenReason) string {
	words := map[contract.GateDecision]string{contract.GateAllow: "information", contract.GateNeedsApproval: "needs approval", contract.GateDeny: "denied"}[r.Decision]
	if r.Waived {
		words = "waived"
	}
	words += " by " + terminal.Clean(r.Source)
	if len(r.Rules) > 0 {
		words += " (" + terminal.Clean(strings.Join(r.Rules, ", ")) + ")"
	}
	return words
}
