package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// requiredEnvironment is the environment that a workspace needs.
type requiredEnvironment struct {
	recipe    environment.Recipe
	digest    string // empty: no setup is needed
	scope     string // commits that may share the result: all of a repository, or of one branch
	workspace contract.Workspace
	setup     int64 // of the stored setup that the recipe follows; 0: none
	unproven  bool  // an agent proposed the setup, and no baseline has proven it yet
	private   bool  // it belongs to a change, for its run on this host only
}

// Environment determines the environment that a run's base commit needs, and creates it unless it
// exists. If several runs need the same one, one of them creates it.
func (a *Activities) Environment(ctx context.Context, in contract.EnvironmentInput) (contract.EnvironmentResult, error) {
	started := time.Now()
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	known, err := a.setupFor(ctx, run, spec)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	view, err := a.Workspaces.View(ctx, in.Workspace, fmt.Sprintf("%d/source", run.ID))
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	defer view.Close()
	w, err := a.wantedBy(ctx, run, spec, known, in.Workspace, view.Path())
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	out := contract.EnvironmentResult{Digest: w.digest, Summary: w.recipe.Describe(), Missing: w.recipe.Absent(), Kept: true}
	if w.digest != "" {
		if err := a.dropRemoved(ctx, w.digest); err != nil {
			return out, err
		}
		p, err := a.provide(ctx, run.ID, w, in.Timeout)
		if err != nil {
			return out, err
		}
		defer p.env.Close()
		out.Kept = p.kept
		if p.failed != nil {
			out.Digest, out.DurationMS = "", time.Since(started).Milliseconds()
			out.Failure, out.Advice = setupFailure(*p.failed, w.recipe), setupAdvice(run, w.recipe, *p.failed)
			telemetry.ObserveEnvironment("failed", time.Since(started))
			return out, nil
		}
		out.Bytes, out.Files = p.env.Bytes, p.env.Files
		telemetry.ObserveEnvironment(map[bool]string{true: "kept", false: "made"}[p.kept], time.Since(started))
	}
	out.DurationMS = time.Since(started).Milliseconds()
	return out, a.Store.SetRunEnvironment(ctx, run.ID, w.digest, w.setup)
}

// setupFor returns the stored setup that a run follows: the one that the environment
// agent proposed for it, else the one that its repository uses, unless the run was
// created with its own environment.
func (a *Activities) setupFor(ctx context.Context, run store.Run, spec setup.RunSpec) (store.Setup, error) {
	if run.SetupID != 0 {
		own, err := a.Store.SetupByID(ctx, run.SetupID)
		if err != nil || own.RevokedAt == nil && (!own.Proven || spec.EnvironmentGiven) {
			return own, err
		}
	}
	if spec.EnvironmentGiven {
		return store.Setup{}, nil
	}
	return setup.StoredSetup(ctx, a.Store, run.Repo, spec.Environment)
}

// wantedBy determines the environment that a checkout of a run's repository needs.
func (a *Activities) wantedBy(ctx context.Context, run store.Run, spec setup.RunSpec, known store.Setup, ws contract.Workspace, checkout string) (requiredEnvironment, error) {
	w := requiredEnvironment{workspace: ws, setup: known.ID}
	settings, err := setup.WithStored(spec.Environment, known)
	if err != nil {
		return w, err
	}
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot open the checkout")
	}
	defer root.Close()
	facts, err := a.factsOf(ctx, run)
	if err != nil {
		return w, err
	}
	if w.recipe, err = environment.Find(root, settings, a.ToolVersions, facts); err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot read the checkout")
	}
	if known.ID != 0 {
		w.recipe.Source, w.unproven = environment.Source(known.Source), !known.Proven
	}
	if len(w.recipe.Setup) == 0 {
		return w, nil
	}
	digest, err := w.recipe.Digest(func(name string) (io.ReadCloser, error) { return openInput(root, name) }, a.ToolVersions)
	if err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "cannot read the checkout")
	}
	// A repository's setup runs its own code, so no other repository may use the result, nor
	// another branch if that code goes beyond the declared inputs. The result for an agent's change
	// is for its run only.
	w.scope = run.Repo
	if w.recipe.RunsCode || known.ID != 0 {
		w.scope = digestOf(run.Repo, scopeOf(run.Settings.Repo))
	}
	w.digest = digestOf(w.scope, digest)
	if ws.Tree != run.Settings.Repo.Tree && w.digest != run.Environment {
		w.digest, w.private = digestOf(w.scope, digest, fmt.Sprint("run ", run.ID)), true
	}
	return w, nil
}

// scopeOf identifies the commits whose setups trust each other: all of a branch, or only the base
// commit if the run was not started from a branch.
func scopeOf(repo contract.Repo) string {
	if repo.Branch == "" || repo.Branch == "HEAD" || strings.HasPrefix(repo.Base, repo.Branch) {
		return "commit " + repo.Base
	}
	return "branch " + repo.Branch
}

// openInput opens a file whose content determines an environment.
func openInput(root *os.Root, name string) (io.ReadCloser, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return root.Open(name)
}

func digestOf(parts ...string) string {
	hash := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(hash, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// factsOf returns facts from git about a run's base commit.
func (a *Activities) factsOf(ctx context.Context, run store.Run) (environment.Facts, error) {
	key := run.Repo + "@" + run.Settings.Repo.Base
	if known, ok := a.facts.Load(key); ok {
		return known.(environment.Facts), nil //nolint:forcetypeassert // nothing else is stored
	}
	version, err := a.Workspaces.Version(ctx, run.Repo, run.Settings.Repo.Base)
	if err != nil {
		return environment.Facts{}, err
	}
	made, err := a.Workspaces.CommitTime(ctx, run.Repo, run.Settings.Repo.Base)
	if err != nil {
		return environment.Facts{}, err
	}
	facts := environment.Facts{Version: version, Time: made}
	a.facts.Store(key, facts)
	return facts, nil
}

// shownOutput limits the output of a failed command in a question.
const shownOutput = 1500

// setupFailure describes a failed setup to users.
func setupFailure(f environment.Failed, r environment.Recipe) *contract.Failure {
	code := contract.CodeCheckFailed
	if f.Missing || len(r.Missing) > 0 {
		code = contract.CodeMissing
	}
	text := fmt.Sprintf("the repository could not be set up: `%s` failed (%s)", clipped(f.Command.String(), 300), f.Why)
	if len(f.Refused) > 0 {
		text += "; it tried to reach " + strings.Join(f.Refused, ", ") + ", which is not allowed"
	}
	if missing := r.Absent(); len(missing) > 0 {
		text += "; the repository requires " + strings.Join(missing, ", ")
	}
	output := f.Output
	if over := len(output) - shownOutput; over > 0 {
		output = "…" + strings.ToValidUTF8(output[over:], "")
	}
	return &contract.Failure{Class: contract.ClassConfig, Code: code, Message: clipped(text, 1000), Cause: output}
}

// tryAgain returns advice on how to retry a run, or the preparation of an environment.
func tryAgain(run store.Run) string {
	if run.Settings.PrepareOnly {
		return fmt.Sprintf("then try again: rgpt env build --repo %s --base %.12s", run.Repo, run.BaseCommit)
	}
	return fmt.Sprintf("then try again: rgpt run approve %d", run.ID)
}

// setupAdvice returns advice on a failed setup.
func setupAdvice(run store.Run, r environment.Recipe, f environment.Failed) string {
	var out []string
	if len(f.Refused) > 0 {
		hosts := slices.Clone(r.Hosts)
		for _, h := range f.Refused {
			hosts = append(hosts, strings.TrimSuffix(h, ":443"))
		}
		out = append(out, fmt.Sprintf("allow the host in the operator's configuration (environment: {network: {hosts: [%s]}}) and start a new run, or configure a setup that does not need this host", strings.Join(hosts, ", ")))
	}
	out = append(out,
		fmt.Sprintf("configure the setup: rgpt env set --repo %s --command '…', ", run.Repo)+tryAgain(run),
		"or add environment: {setup: ['…']} to the repository's rgpt.yaml, commit it and start a new run",
		fmt.Sprintf("full output: rgpt run logs %d --environment", run.ID))
	return strings.Join(slices.Compact(out), "; ")
}
