package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// rejudgeFlags is a request to judge recorded results again.
type rejudgeFlags struct {
	major, medium    int
	pinned, newTests string
	policy, policies string
}

func newRunRejudge(a *app) *cobra.Command {
	var o rejudgeFlags
	cmd := &cobra.Command{
		Use: "rejudge RUN", Short: "Re-judge a run's recorded plans, test results and changes under different rules", Args: oneRun,
		Long: `Judges a run's records again: the checks and findings of its last tester attempt with the
given thresholds (default: the run's), its planner's responses with the rules of this rgpt version,
and what the policy gate judged, with other policies. It runs no checks, calls no model, and does
not change the run. Exits with code 2 if any result is worse than before.`,
		Example: `  rgpt run rejudge 42 --max-major 0
  rgpt run rejudge 42 --pinned-tests enforce --prove-new-tests enforce --json
  rgpt run rejudge 42 --policy strict --policies ./new-policies`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.rejudge(cmd, o, args[0]) },
	}
	cmd.Flags().IntVar(&o.major, "max-major", 0, "maximum number of major findings (default: the run's findings.max_major)")
	cmd.Flags().IntVar(&o.medium, "max-medium", 0, "maximum number of medium findings before a warning is given (default: the run's findings.max_medium)")
	cmd.Flags().StringVar(&o.pinned, "pinned-tests", "", "how to treat changed tests (default: the run's verification.pinned_tests)")
	cmd.Flags().StringVar(&o.newTests, "prove-new-tests", "", "how to treat new tests that pass without the change (default: the run's verification.prove_new_tests)")
	cmd.Flags().StringVar(&o.policy, "policy", "", "built-in policy of the gate: default, strict or permissive (default: the run's)")
	cmd.Flags().StringVar(&o.policies, "policies", "", "directory of an operator's policies to try (default: those that the run began with)")
	complete(cmd, "policy", policy.Names())
	complete(cmd, "pinned-tests", verdict.PinnedModes())
	complete(cmd, "prove-new-tests", verdict.NewModes())
	return cmd
}

// rules returns the rules that the flags set.
func (o *rejudgeFlags) rules(cmd *cobra.Command) (r control.Rules, err error) {
	for _, most := range []struct {
		name  string
		value int
		rule  **int
	}{{"max-major", o.major, &r.MaxMajor}, {"max-medium", o.medium, &r.MaxMedium}} {
		if !cmd.Flags().Changed(most.name) {
			continue
		}
		if most.value < 0 {
			return r, usageError{fmt.Errorf("--%s %d is too small; must be at least 0", most.name, most.value)}
		}
		*most.rule = &most.value
	}
	r.PinnedTests, r.NewTests = verdict.PinnedTests(o.pinned), verdict.NewTests(o.newTests)
	if err := oneOf("pinned-tests", r.PinnedTests, verdict.PinnedModes()); err != nil {
		return r, err
	}
	if err := oneOf("prove-new-tests", r.NewTests, verdict.NewModes()); err != nil {
		return r, err
	}
	r.Policy = o.policy
	if err := oneOf("policy", r.Policy, policy.Names()); err != nil || o.policies == "" {
		return r, err
	}
	modules, err := policy.Load(o.policies, false)
	if err != nil {
		return r, usageError{fmt.Errorf("--policies: %w", err)}
	}
	r.Policies = map[string]string{}
	for _, m := range modules {
		r.Policies[m.Name] = string(m.Content)
	}
	return r, nil
}

func (a *app) rejudge(cmd *cobra.Command, o rejudgeFlags, arg string) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	rules, err := o.rules(cmd)
	if err != nil {
		return err
	}
	h, err := a.open(cmd.Context(), 0)
	if err != nil {
		return err
	}
	defer h.Close()
	out, err := h.Rejudge(cmd.Context(), id, rules)
	if err != nil {
		return err
	}
	a.printRetrials(out)
	if out.Worse {
		return ended{exitFailed}
	}
	return nil
}

func (a *app) printRetrials(out control.Retrials) {
	if a.json {
		a.printJSON(out)
		return
	}
	fmt.Fprintf(a.out, "Run %d, judged with these rules: limits of %d major and %d medium findings; pinned tests: %s; new tests: %s",
		out.RunID, out.Thresholds.MaxMajor, out.Thresholds.MaxMedium, out.PinnedTests, out.NewTests)
	if out.Policy != "" {
		fmt.Fprintf(a.out, "; policy of the gate: %s", out.Policy)
	}
	fmt.Fprintln(a.out)
	for _, r := range out.Retrials {
		if r.Gate != nil {
			a.printGateRetrial(r)
			continue
		}
		name := r.What
		if r.Attempt > 0 {
			name = fmt.Sprintf("%s, attempt %d", r.What, r.Attempt)
		}
		fmt.Fprintf(a.out, "%s: %s\n  before: %s\n  now:    %s\n", name, r.Change, opinion(r.Before), opinion(r.Now))
		if r.What == "tester" {
			fmt.Fprintf(a.out, "  findings: %d major, %d medium, %d minor\n", r.Major, r.Medium, r.Minor)
		}
		if r.Warning != "" {
			fmt.Fprintf(a.out, "  warning: %s\n", terminal.Clean(r.Warning))
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintf(a.out, "Note: %s\n", n)
	}
}

func (a *app) printGateRetrial(r control.Retrial) {
	g := r.Gate
	what := string(g.Stage)
	if g.Step != "" {
		what += " " + g.Step
	}
	fmt.Fprintf(a.out, "gate, verdict %d (%s): %s\n  before: %s\n  now:    %s\n", g.VerdictID, terminal.Clean(what), r.Change,
		decisionWords[g.Before], decisionWords[g.Now])
	for _, reason := range g.Reasons {
		fmt.Fprintf(a.out, "    %s: %s\n", decisionWords[reason.Decision], terminal.Clean(reason.String()))
	}
}

// opinion describes a verdict for users.
func opinion(o control.Opinion) string {
	switch {
	case o.OK:
		return "good"
	case o.Failure == nil:
		return "bad"
	default:
		return terminal.Clean(o.Failure.Error())
	}
}
