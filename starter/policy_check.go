package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// exitApproval is the exit code of `policy check` for a change that needs an approval. A denied one
// has exitFailed.
const exitApproval = 5

// policyCheck is a request of `policy check`.
type policyCheck struct {
	repo, patch, diff, base string
	stage, author, policy   string
	labels                  []string
	pushes                  bool
}

func newPolicyCheck(a *app) *cobra.Command {
	var c policyCheck
	cmd := &cobra.Command{
		Use: "check", Short: "Judge a patch or the difference between two commits",
		Long: `Judges a change as the gate of a run does: with the guards, the configured policies, and the
policies in .rgpt/policies of the commit that the change is based on. The repository and its work
tree do not change.

A patch must be in the format of git diff, with binary files included; - reads it from standard
input. It is applied to --base in memory.

Exit codes: 0 allow, 1 error (there is no verdict), 2 deny, 3 interrupted, 4 invalid input,
5 needs approval.`,
		Example: `  rgpt policy check --patch - < change.diff
  rgpt policy check --diff main..feature --policy strict
  rgpt policy check --patch fix.patch --repo ~/src/app --stage repair --author repair --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.checkPolicy(cmd.Context(), c) },
	}
	f := cmd.Flags()
	f.StringVar(&c.repo, "repo", ".", "repository: a directory or a URL")
	f.StringVar(&c.patch, "patch", "", "file with the change; -: standard input")
	f.StringVar(&c.diff, "diff", "", "change between two branches, tags or commits: BASE..REV")
	f.StringVar(&c.base, "base", "", "branch, tag or commit that --patch applies to (default: the checked-out commit)")
	f.StringVar(&c.stage, "stage", string(policy.StageCheck), "stage at which the change is judged: step, repair, plan, release or check")
	f.StringVar(&c.author, "author", string(change.RoleBuilder), "author of the change: "+strings.Join(roles(), ", "))
	f.StringArrayVar(&c.labels, "label", nil, "label of the run; repeatable")
	f.BoolVar(&c.pushes, "push", false, "judge as the change of a run that pushes its release")
	addPolicyFlag(cmd, &c.policy)
	_ = cmd.RegisterFlagCompletionFunc("stage", cobra.FixedCompletions(stageNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("author", cobra.FixedCompletions(roles(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func roles() (out []string) {
	for _, r := range []change.Role{
		change.RoleBuilder, change.RoleRepair, change.RolePlanner, change.RoleEnvironment, change.RolePerson, change.RoleRun,
	} {
		out = append(out, string(r))
	}
	return out
}

func stageNames() (out []string) {
	for _, s := range policy.Stages() {
		out = append(out, string(s))
	}
	return out
}

// validate finds mistakes in the flags.
func (c policyCheck) validate() error {
	switch {
	case (c.patch == "") == (c.diff == ""):
		return errors.New("specify the change with either --patch FILE or --diff BASE..REV")
	case c.diff != "" && c.base != "":
		return errors.New("--base is only for --patch; --diff names the base itself")
	case c.repo == "":
		return errors.New("--repo is empty; specify a directory or a URL")
	case !slices.Contains(stageNames(), c.stage):
		return fmt.Errorf("--stage %q is not a stage; choose %s", c.stage, strings.Join(stageNames(), ", "))
	case !slices.Contains(roles(), c.author):
		return fmt.Errorf("--author %q is not an author; choose %s", c.author, strings.Join(roles(), ", "))
	case c.policy != "" && !slices.Contains(policy.Names(), c.policy):
		return fmt.Errorf("--policy %q is not a built-in policy; choose %s", c.policy, strings.Join(policy.Names(), ", "))
	}
	if base, rev, ok := strings.Cut(c.diff, ".."); c.diff != "" && (!ok || base == "" || rev == "" || strings.HasPrefix(rev, ".")) {
		return fmt.Errorf("--diff %q must have the form BASE..REV", c.diff)
	}
	return nil
}

// checkPolicy judges a change and prints the verdict.
func (a *app) checkPolicy(ctx context.Context, c policyCheck) error {
	if err := c.validate(); err != nil {
		return usageError{err}
	}
	v, err := a.judge(ctx, c)
	if ctx.Err() != nil {
		a.reportError(errors.New("the check was interrupted, so there is no verdict"))
		return ended{exitStopped}
	}
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(v)
	} else {
		a.printVerdict(v)
	}
	switch v.Decision {
	case policy.Allow:
		return nil
	case policy.NeedsApproval:
		return ended{exitApproval}
	default:
		return ended{exitFailed}
	}
}

// errGateOff refuses to judge without policies.
var errGateOff = usageError{errors.New("the configuration turns the gate off (gate.policy: none); choose policies with --policy")}

func (a *app) judge(ctx context.Context, c policyCheck) (policy.Verdict, error) {
	cfg, err := a.ownConfig(func(string) {})
	if err != nil {
		return policy.Verdict{}, err
	}
	dir, err := a.verifyDataDir()
	if err != nil {
		return policy.Verdict{}, err
	}
	workspaces, err := setup.Workspaces(cfg, dir, standalone.NewMemory())
	if err != nil {
		return policy.Verdict{}, err
	}
	from, to, cfg, err := a.states(ctx, c, workspaces, cfg)
	if err != nil {
		return policy.Verdict{}, err
	}
	if c.policy != "" {
		cfg.Gate.Policy = c.policy
	}
	if cfg.Gate.Policy == config.GateOff {
		return policy.Verdict{}, errGateOff
	}
	g, err := gate.New(ctx, cfg)
	if err != nil {
		return policy.Verdict{}, err
	}
	read, err := gate.Read(ctx, workspaces, from, to)
	if err != nil {
		return policy.Verdict{}, err
	}
	read.Author, read.Labels = change.Role(c.author), c.labels
	registries, err := setup.Registries(cfg)
	if err != nil {
		return policy.Verdict{}, err
	}
	if registries != nil {
		defer registries.Close()
		if err := registries.Lookup(ctx, &read); err != nil {
			return policy.Verdict{}, err
		}
	}
	return g.Judge(ctx, read, gate.Facts{
		Stage: policy.Stage(c.stage), Run: policy.Run{Project: from.Repo, Pushes: c.pushes}, Base: gate.Tree(workspaces, from),
	})
}

// states returns the states before and after the change, and the settings with those of the
// repository.
func (a *app) states(ctx context.Context, c policyCheck, m *workspace.Manager, cfg *config.Config) (from, to contract.Workspace, _ *config.Config, err error) {
	repo := c.repo
	if !strings.Contains(repo, ":") {
		if repo, err = filepath.Abs(repo); err != nil {
			return from, to, nil, fmt.Errorf("find the repository: %w", err)
		}
	}
	base, rev, _ := strings.Cut(c.diff, "..")
	if c.diff == "" {
		base = c.base
	}
	resolved, info, err := m.Resolve(ctx, repo, base)
	if err != nil {
		return from, to, nil, err
	}
	if from, err = m.Start(ctx, resolved); err != nil {
		return from, to, nil, err
	}
	if c.diff != "" {
		to, err = after(ctx, m, repo, rev, from)
	} else {
		var patch []byte
		if patch, err = a.readPatch(c.patch, cfg.Git.MaxSize.Int64()); err == nil {
			to, err = m.Apply(ctx, from, patch)
		}
	}
	if err != nil {
		return from, to, nil, err
	}
	cfg, err = setup.RepositoryConfig(ctx, m, cfg, from, info)
	return from, to, cfg, err
}

// after returns a commit as a change of a base.
func after(ctx context.Context, m *workspace.Manager, repo, rev string, base contract.Workspace) (contract.Workspace, error) {
	resolved, _, err := m.Resolve(ctx, repo, rev)
	if err != nil {
		return contract.Workspace{}, err
	}
	ws, err := m.Start(ctx, resolved)
	if err != nil {
		return contract.Workspace{}, err
	}
	return m.Onto(ctx, ws, base.Base)
}

// readPatch reads a patch of at most most bytes.
func (a *app) readPatch(name string, most int64) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("--patch: %w", err)}
		}
		defer f.Close()
		in = f
	}
	most = min(most, workspace.DefaultMaxPatchBytes)
	patch, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the patch: %w", err)
	case len(patch) == 0:
		return nil, usageError{errors.New("--patch: the patch is empty")}
	case int64(len(patch)) > most:
		return nil, usageError{fmt.Errorf("--patch: the patch is larger than %d MiB", most>>20)}
	}
	return patch, nil
}

var decisionNames = map[policy.Decision]string{policy.Allow: "info", policy.NeedsApproval: "needs approval", policy.Deny: "deny"}

// printVerdict prints a verdict with its reasons.
func (a *app) printVerdict(v policy.Verdict) {
	switch v.Decision {
	case policy.Allow:
		fmt.Fprintln(a.out, "Allowed")
	case policy.NeedsApproval:
		fmt.Fprintln(a.out, "Needs the approval of a named person")
	default:
		fmt.Fprintln(a.out, "Denied")
	}
	for _, r := range v.Reasons {
		where := ""
		if r.Path != "" {
			where = terminal.Clean(r.Path)
			if r.Line > 0 {
				where += fmt.Sprintf(":%d", r.Line)
			}
			where += ": "
		}
		kind := r.Source
		if r.Guard != "" {
			kind = r.Guard + "/" + r.Rule
		}
		fmt.Fprintf(a.out, "  %s: %s%s (%s)\n", decisionNames[r.Decision], where, terminal.Clean(r.Text), terminal.Clean(kind))
	}
	if v.Omitted > 0 {
		fmt.Fprintf(a.out, "  … and %d more\n", v.Omitted)
	}
	var names []string
	for _, b := range v.Bundles {
		names = append(names, fmt.Sprintf("%s %.19s", b.Name, b.Digest))
	}
	fmt.Fprintf(a.out, "Policies: %s\n", strings.Join(names, ", "))
}
