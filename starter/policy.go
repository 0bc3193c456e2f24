package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newPolicy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "policy", Short: "Judge changes with the policies, test them, and explain verdicts",
		Long: `The policy gate judges every change: guards look for dangers in it, and policies in Rego decide
what follows. All commands except explain need no running components.`,
	}
	cmd.AddCommand(newPolicyExplain(a))
	cmd.AddCommand(local(newPolicyCheck(a), newPolicyTest(a), newPolicyShow(a))...)
	return cmd
}

func newPolicyTest(a *app) *cobra.Command {
	var o policy.TestOptions
	cmd := &cobra.Command{
		Use: "test DIR", Short: "Run the tests of policies",
		Long: `Runs the tests in a directory of policies, as opa test does: rules whose names begin with test_,
usually in files *_test.rego. The directory may contain policies of an operator (package operator)
or of a repository (package repository). The built-in policies can be imported
(data.rgpt.defaults, data.rgpt.strict, data.rgpt.permissive, data.rgpt.lib).

Exit codes: 0 all tests passed, 1 error, 2 a test failed, 4 the policies are invalid or there are
no tests.`,
		Example: `  rgpt policy test /etc/rgpt/policies
  rgpt policy test .rgpt/policies --run secrets --verbose`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Out, o.JSON = a.out, a.json
			passed, err := policy.RunTests(cmd.Context(), args[0], o)
			if err == nil && !passed {
				return ended{exitFailed}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&o.Verbose, "verbose", false, "also list the tests that passed")
	cmd.Flags().StringVar(&o.Run, "run", "", "run only tests whose names match this regular expression")
	return cmd
}

// shownPolicies is the JSON output of `policy show`.
type shownPolicies struct {
	Policy  string          `json:"policy"`
	Bundles []policy.Bundle `json:"bundles"`
	Files   []shownFile     `json:"files"`
}

type shownFile struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

func newPolicyShow(a *app) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "show", Short: "Show the effective policies",
		Long: `Prints the built-in policies that are configured (gate.policy), and the operator's own
(gate.policies), with the digests that verdicts name.`,
		Example: `  rgpt policy show
  rgpt policy show --policy strict`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.showPolicies(cmd, name) },
	}
	addPolicyFlag(cmd, &name)
	return cmd
}

func addPolicyFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "policy", "", "built-in policies: default, strict or permissive (default: gate.policy)")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(policy.Names(), cobra.ShellCompDirectiveNoFileComp))
}

func (a *app) showPolicies(cmd *cobra.Command, name string) error {
	cfg, err := a.ownConfig(func(string) {})
	if err != nil {
		return err
	}
	if name == "" {
		name = cfg.Gate.Policy
	}
	if name == config.GateOff {
		return errGateOff
	}
	files, err := policy.BuiltIn(name)
	if err != nil {
		return usageError{fmt.Errorf("--policy: %w", err)}
	}
	var own []policy.Module
	if cfg.Gate.Policies != "" {
		if own, err = policy.Load(cfg.Gate.Policies, false); err != nil {
			return usageError{errors.Join(errors.New("gate.policies"), err)}
		}
	}
	engine, err := policy.New(cmd.Context(), policy.Options{Bundle: name, Operator: own})
	if err != nil {
		return err
	}
	out := shownPolicies{Policy: name, Bundles: engine.Bundles()}
	for _, m := range append(files, own...) {
		out.Files = append(out.Files, shownFile{m.Name, string(m.Content)})
	}
	if a.json {
		a.printJSON(out)
		return nil
	}
	for _, b := range out.Bundles {
		fmt.Fprintf(a.out, "# %s %s\n", b.Name, b.Digest)
	}
	for _, f := range out.Files {
		fmt.Fprintf(a.out, "\n# file: %s\n\n%s", terminal.Clean(f.Name), terminal.CleanLines(f.Content))
	}
	return nil
}
