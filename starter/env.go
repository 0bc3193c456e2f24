package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func newEnv(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "env", Short: "Show and define repository setups",
		Long: `An environment contains the installed dependencies that the builds and tests of a repository
need. It is built once and stored by digest. docs/ENVIRONMENTS.md describes detection, builds
and troubleshooting.`,
	}
	cmd.AddCommand(newEnvList(a), newEnvShow(a), newEnvBuild(a), newEnvImage(a), newEnvRemove(a), newEnvSet(a), newEnvUnset(a), newEnvSetups(a))
	return cmd
}

// shortDigest is the number of digits of a digest that users see.
const shortDigest = 12

func short(digest string) string { return digest[:min(len(digest), shortDigest)] }

// withEnvironments opens the backend for a command about a repository; an empty name means all
// repositories.
func (a *app) withEnvironments(ctx context.Context, repo string, do func(backend.Backend) error) error {
	if a.server() != "" && repo != "" {
		if err := checkRemote(repo); err != nil {
			return err
		}
	}
	return a.with(ctx, backend.NeedArtifacts, do)
}

func newEnvList(a *app) *cobra.Command {
	var repo string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List stored environments, most recently used first", Args: noArgs,
		Example: `  rgpt env list
  rgpt env list --repo . --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", limit)}
			}
			return a.withEnvironments(cmd.Context(), repo, func(h backend.Backend) error {
				list, err := h.Environments(cmd.Context(), repo, limit)
				if err == nil {
					a.printEnvironments(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "only this repository (a directory or a URL)")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of results")
	return cmd
}

func (a *app) printEnvironments(list []control.Environment) {
	printList(a, "environments", list, "No environments. Each run builds the environment it needs. To build one in advance: rgpt env build --repo .", "DIGEST\tREPOSITORY\tCONTENT\tSIZE\tFILES\tTOOK\tBUILT\tUSED\tIN USE", func(w io.Writer, e control.Environment) {
		used := ""
		if e.InUse {
			used = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s ago\t%s ago\t%s\n",
			short(e.Digest), terminal.Clean(e.Repo), terminal.Clean(e.What), ui.Size(e.Bytes), e.Files, lasted(e.DurationMS), age(e.CreatedAt), age(e.UsedAt), used)
	})
}

// lasted formats a duration in milliseconds.
func lasted(n int64) string {
	return (time.Duration(n) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// shown is a request of `env show`.
type shown struct {
	repo, base string
	yaml       bool
}

func newEnvShow(a *app) *cobra.Command {
	var s shown
	cmd := &cobra.Command{
		Use: "show [DIGEST | RUN]", Short: "Show the setup of an environment, a run or a repository",
		Long: `Shows the projects, commands, hosts, variables, missing tools and hints of a stored
environment or a run. With --repo, shows what a new run would detect in the
repository's files. Nothing is executed.`,
		Example: `  rgpt env show 3f2a9c1b7d10
  rgpt env show 42
  rgpt env show --repo . --yaml > environment.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1, (len(args) == 1) == (s.repo != ""):
				return usageError{fmt.Errorf("%s needs exactly one of: the digest of an environment, the ID of a run, or --repo", cmd.CommandPath())}
			case s.base != "" && s.repo == "":
				return usageError{fmt.Errorf("--base requires --repo")}
			case s.yaml && a.json:
				return usageError{fmt.Errorf("--yaml and --json cannot be combined")}
			}
			return a.withEnvironments(cmd.Context(), s.repo, func(h backend.Backend) error { return a.showEnvironment(cmd.Context(), h, s, args) })
		},
	}
	cmd.Flags().StringVar(&s.repo, "repo", "", "show the setup currently detected for this repository (a directory or a URL)")
	cmd.Flags().StringVar(&s.base, "base", "", "branch, tag or commit of --repo (default: the checked-out commit, or the default branch)")
	cmd.Flags().BoolVar(&s.yaml, "yaml", false, "print the setup as the environment section of rgpt.yaml")
	cmd.ValidArgsFunction = a.completeEnvironment
	return cmd
}

func (a *app) showEnvironment(ctx context.Context, h backend.Backend, s shown, args []string) error {
	if s.repo != "" {
		return a.findEnvironment(ctx, h, s.repo, s.base, s.yaml)
	}
	digest := args[0]
	if id, err := runID(digest); err == nil {
		run, err := h.Run(ctx, id)
		switch {
		case err == nil && run.Environment == "":
			fmt.Fprintf(a.errs, "Note: run %d has no environment; showing the setup currently detected at its base commit\n", id)
			return a.findEnvironment(ctx, h, run.Repo, run.BaseCommit, s.yaml)
		case err == nil:
			digest = run.Environment
		case fault.Of(err).Code != store.CodeNotFound || !store.IsDigest(digest):
			return err
		}
	}
	e, err := h.Environment(ctx, digest)
	switch {
	case err != nil:
		return err
	case a.json:
		a.printJSON(e)
	case e.Found == nil: // a server that does not report it
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the server does not return the contents of environment %s; upgrade the server to this version of rgpt", short(e.Digest))
	case s.yaml:
		fmt.Fprint(a.out, terminal.CleanLines(e.Found.YAML))
	default:
		fmt.Fprintf(a.out, "Environment %s: %s, %d files, built in %s\n", e.Digest, ui.Size(e.Bytes), e.Files, lasted(e.DurationMS))
		a.printFound(*e.Found)
	}
	return nil
}

func (a *app) findEnvironment(ctx context.Context, h backend.Backend, repo, base string, asYAML bool) error {
	f, err := h.FindEnvironment(ctx, repo, base)
	if err != nil {
		return err
	}
	for _, note := range f.Notes {
		fmt.Fprintln(a.errs, "Note:", terminal.Clean(note))
	}
	switch {
	case a.json:
		a.printJSON(f)
	case asYAML:
		fmt.Fprint(a.out, terminal.CleanLines(f.YAML))
	default:
		a.printFound(f)
	}
	return nil
}

// printFound prints a detected setup, section by section.
func (a *app) printFound(f control.FoundEnvironment) {
	what := cmp.Or(terminal.Clean(f.What), "no setup needed")
	fmt.Fprintf(a.out, "%s at %.12s: %s (%s)\n", terminal.Clean(f.Repo), f.Base, what, f.Source)
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(a.out, "\n%s\n", title)
		for _, l := range lines {
			fmt.Fprintf(a.out, "  %s\n", terminal.Clean(l))
		}
	}
	var projects, commands, variables, missing, hints []string
	for _, p := range f.Projects {
		projects = append(projects, projectLine(p))
	}
	for _, c := range f.Commands {
		line := c.Shell
		if c.Dir != "." && c.Dir != "" {
			line = c.Dir + "$ " + line
		}
		if c.Optional {
			line += "   (optional)"
		}
		commands = append(commands, line)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Variables)) {
		variables = append(variables, name+"="+f.Variables[name])
	}
	for _, m := range f.Missing {
		have := "not installed"
		if m.Have != "" {
			have = m.Have + " is installed"
		}
		missing = append(missing, fmt.Sprintf("%s %s: %s (%s)", m.Name, m.Wanted, have, m.From))
	}
	for _, hint := range f.Hints {
		hints = append(hints, fmt.Sprintf("%s:%d: %s", hint.File, hint.Line, hint.Text))
	}
	if f.Image != "" {
		section("Image", []string{f.Image})
	}
	if f.Dockerfile != "" {
		section("Image built from", []string{f.Dockerfile})
	}
	section("Projects", projects)
	section("Commands", commands)
	section("Hosts that the setup may reach", f.Hosts)
	section("Variables", variables)
	section("Directories prepended to PATH", f.Path)
	section("Missing on this worker", missing)
	section("Hints from the repository (not verified)", hints)
	if f.TestCommand != "" {
		section("Repository test command", []string{f.TestCommand})
	}
}

// projectLine renders a project on one line, omitting unknown parts.
func projectLine(p control.FoundProject) string {
	manager := strings.TrimSpace(p.Manager + " " + p.ManagerVersion)
	if manager != "" {
		manager = " (" + manager + ")"
	}
	files := strings.TrimSpace(p.Manifest + " " + p.Lock)
	if files != "" {
		files = ", from " + files
	}
	return fmt.Sprintf("%s: %s%s%s", p.Dir, p.Ecosystem, manager, files)
}

func newEnvRemove(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm DIGEST", Short: "Remove an environment and its baselines", Example: "  rgpt env rm 3f2a9c1b7d10",
		Long: `Removes an environment, the baselines that ran in it, and its copy on this host; copies on
other hosts are removed by their next cleanup. The next run that needs it builds it again.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs the digest of one environment; rgpt env list shows digests", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withEnvironments(cmd.Context(), "", func(h backend.Backend) error {
				e, err := h.RemoveEnvironment(cmd.Context(), args[0], caller())
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"removed": e.Digest})
				} else {
					fmt.Fprintf(a.out, "Removed environment %s for %s\n", short(e.Digest), terminal.Clean(e.Repo))
				}
				return nil
			})
		},
	}
	cmd.ValidArgsFunction = a.completeEnvironment
	return cmd
}

// completeEnvironment offers the most recently used environments as shell completions.
func (a *app) completeEnvironment(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offer(cmd, func(ctx context.Context, h backend.Backend) (out []cobra.Completion, err error) {
		list, err := h.Environments(ctx, "", maxCompletions)
		for _, e := range list {
			out = append(out, cobra.CompletionWithDesc(short(e.Digest), terminal.Clean(e.Repo+": "+e.What)))
		}
		return out, err
	})
}

func newEnvSet(a *app) *cobra.Command {
	var n control.NewSetup
	var variables []string
	cmd := &cobra.Command{
		Use: "set --repo PATH_OR_URL --command SHELL…", Short: "Define a repository's setup",
		Long: `Defines the setup of a repository, starting with its next run. The commands run in its root in the
given order and replace the detected ones. They take precedence over environment.setup in any rgpt.yaml;
--env FILE overrides both for one run. A host must be a public registry or be allowed by the operator.
With the docker runner, --image names the image in which all commands of the repository's runs are
executed, and --dockerfile a file of the repository from which it is built; the operator must allow it
(execution.sandbox.docker.images, execution.sandbox.docker.build.enabled).`,
		Example: `  rgpt env set --repo . --command 'npm ci' --command 'npm run build:types' --reason "needs generated types"
  rgpt env set --repo . --variable DJANGO_SETTINGS_MODULE=app.settings
  rgpt env set --repo . --image node:24-bookworm`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if n.Variables, err = pairs("variable", variables); err != nil {
				return err
			}
			if err := noneEmpty("command", n.Commands); err != nil {
				return err
			}
			if err := noneEmpty("host", n.Hosts); err != nil {
				return err
			}
			n.By = caller()
			return a.withEnvironments(cmd.Context(), n.Repo, func(h backend.Backend) error {
				made, err := h.AddSetup(cmd.Context(), n)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(made)
				} else {
					fmt.Fprintf(a.out, "Setup %d applies to %s, starting with its next run. Try it: rgpt env build --repo %s\n", made.ID, terminal.Clean(made.Repo), terminal.Clean(made.Repo))
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.Repo, "repo", "", "repository: a directory or a URL")
	f.StringVar(&n.Image, "image", "", "container image in which all commands run; default: as configured")
	f.StringVar(&n.Dockerfile, "dockerfile", "", "Dockerfile in the repository from which that image is built instead")
	f.StringArrayVar(&n.Commands, "command", nil, "shell command for the setup; repeatable, executed in the given order")
	f.StringArrayVar(&n.Hosts, "host", nil, "host that the setup may reach (instead of the detected hosts); repeatable")
	f.StringArrayVar(&variables, "variable", nil, "variable for the setup, agents and checks: name=value; repeatable")
	f.StringVar(&n.Reason, "reason", "", "reason to record")
	return cmd
}

// noneEmpty checks that no value of a repeatable flag is empty.
func noneEmpty(flag string, list []string) error {
	for i, text := range list {
		if strings.TrimSpace(text) == "" {
			return usageError{fmt.Errorf("value %d of --%s is empty", i+1, flag)}
		}
	}
	return nil
}

// pairs reads flags of the form name=value.
func pairs(flag string, list []string) (map[string]string, error) {
	var out map[string]string
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--%s %q must have the form name=value", flag, text)}
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out, nil
}

func newEnvUnset(a *app) *cobra.Command {
	var repo string
	var id int64
	cmd := &cobra.Command{
		Use: "unset --repo PATH_OR_URL | --id N", Short: "Revoke a repository's setups",
		Example: `  rgpt env unset --repo .
  rgpt env unset --id 3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (repo != "") == (id > 0) || id < 0 {
				return usageError{fmt.Errorf("%s needs either --repo or --id; rgpt env setups lists the setups", cmd.CommandPath())}
			}
			return a.withEnvironments(cmd.Context(), repo, func(h backend.Backend) error {
				revoked, err := revokeSetups(cmd.Context(), h, repo, id)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(map[string]any{"revoked": revoked})
					return nil
				}
				for _, id := range revoked {
					fmt.Fprintf(a.out, "Revoked setup %d\n", id)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "revoke all setups of this repository; later runs detect its setup from its files again")
	cmd.Flags().Int64Var(&id, "id", 0, "revoke this setup; the repository's previous setup applies again")
	return cmd
}

// maxSetups is the maximum number of setups of a repository that are searched.
const maxSetups = 1000

// revokeSetups revokes one setup, or all setups of a repository, and returns their IDs.
func revokeSetups(ctx context.Context, h backend.Backend, repo string, id int64) ([]int64, error) {
	open := []int64{id}
	if repo != "" {
		list, err := h.Setups(ctx, repo, maxSetups)
		if err != nil {
			return nil, err
		}
		open = []int64{}
		for _, s := range list {
			if s.RevokedAt == nil {
				open = append(open, s.ID)
			}
		}
		if len(open) == 0 {
			return nil, fault.New(contract.ClassHuman, store.CodeNotFound, "%s has no setup to revoke; to list all setups: rgpt env setups", repo)
		}
	}
	for _, id := range open {
		if _, err := h.RevokeSetup(ctx, id, caller()); err != nil {
			return nil, err
		}
	}
	return open, nil
}

func newEnvSetups(a *app) *cobra.Command {
	var repo string
	var limit int
	cmd := &cobra.Command{
		Use: "setups", Short: "List setups defined by people and agents", Args: noArgs,
		Example: `  rgpt env setups --repo .`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", limit)}
			}
			return a.withEnvironments(cmd.Context(), repo, func(h backend.Backend) error {
				list, err := h.Setups(cmd.Context(), repo, limit)
				if err == nil {
					a.printSetups(list)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "only this repository (a directory or a URL)")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of results")
	return cmd
}

func (a *app) printSetups(list []store.Setup) {
	printList(a, "setups", list, "No setups. Define one: rgpt env set --repo . --command '…'", "SETUP\tREPOSITORY\tSOURCE\tBY\tAGE\tREVOKED\tREASON\tCOMMANDS", func(w io.Writer, s store.Setup) {
		by, revoked := s.CreatedBy, ""
		if s.RunID != 0 {
			by = "run " + strconv.FormatInt(s.RunID, 10)
		}
		if s.RevokedAt != nil {
			revoked = "by " + s.RevokedBy
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, terminal.Clean(s.Repo), s.Source, terminal.Clean(by), age(s.CreatedAt), terminal.Clean(revoked), terminal.Clean(s.Reason), terminal.Clean(setupLine(s.Settings)))
	})
}

// setupLine renders a setup on one line: variables in shell syntax, the image, commands in order, hosts.
func setupLine(settings json.RawMessage) string {
	var s environment.Settings
	if err := json.Unmarshal(settings, &s); err != nil {
		return string(settings)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		parts = append(parts, name+"="+s.Variables[name])
	}
	if s.Image != "" {
		parts = append(parts, "(image: "+s.Image+")")
	}
	if s.Dockerfile != nil {
		parts = append(parts, "(image built from "+s.Dockerfile.Path+")")
	}
	parts = append(parts, s.Setup...)
	if len(s.Hosts) > 0 {
		parts = append(parts, "(hosts: "+strings.Join(s.Hosts, ", ")+")")
	}
	return strings.Join(parts, "; ")
}
