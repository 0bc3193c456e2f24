package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// Environment determines the environment that a run's base commit needs, and creates it unless it
// exists. If several runs need the same one, one of them creates it.
func (a *Activities) Environment(ctx context.Context, in contract.EnvironmentInput) (contract.EnvironmentResult, error) {
	started := time.Now()
	if in.LocalOnly {
		if !a.hasRole("tester") { // what an environment contains depends on the tools of the worker
			return contract.EnvironmentResult{Cold: true}, nil
		}
		if quick, err := a.fitsLocalActivity(ctx, in.Workspace); err != nil || !quick {
			return contract.EnvironmentResult{Cold: true}, err
		}
	}
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	a.prepareIndex(run.Settings.Repo.Workspace())
	known, err := a.setupFor(ctx, run, spec)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	view, err := a.Workspaces.OpenShared(ctx, in.Workspace)
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	defer view.Close()
	w, err := a.wantedBy(ctx, run, spec, known, in.Workspace, view.Path())
	if err != nil {
		return contract.EnvironmentResult{}, err
	}
	out := contract.EnvironmentResult{Digest: w.Digest, Summary: w.Recipe.Describe(), Missing: w.Recipe.Absent(), Kept: true}
	if w.Digest != "" {
		if err := a.dropRemoved(ctx, w.Digest); err != nil {
			return out, err
		}
		var p provided
		if in.LocalOnly {
			p, err = a.onThisHost(w.Digest)
		} else {
			p, err = a.provide(ctx, run.ID, w, in.Timeout)
		}
		switch {
		case in.LocalOnly && errors.Is(err, environment.ErrNotHere):
			return contract.EnvironmentResult{Cold: true}, nil
		case err != nil:
			return out, err
		}
		defer p.env.Close()
		out.Kept = p.kept
		if p.failed != nil {
			out.Digest, out.DurationMS = "", time.Since(started).Milliseconds()
			out.Failure, out.Advice = tester.SetupFailure(*p.failed, w.Recipe), setupAdvice(run, w.Recipe, *p.failed)
			telemetry.ObserveEnvironment("failed", time.Since(started))
			return out, nil
		}
		out.Bytes, out.Files = p.env.Bytes, p.env.Files
		telemetry.ObserveEnvironment(map[bool]string{true: "kept", false: "made"}[p.kept], time.Since(started))
	}
	out.DurationMS = time.Since(started).Milliseconds()
	if err := a.Store.SetRunEnvironment(ctx, run.ID, w.Digest, known.ID); err != nil || !in.Baseline {
		return out, err
	}
	run.Environment, run.SetupID = w.Digest, known.ID // as stored
	b, err := a.openBaselineIn(ctx, run, in.Workspace, view.Path())
	if err != nil {
		return out, err
	}
	baseline := summarize(run, b, false)
	out.Baseline = &baseline
	return out, nil
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

// originOf returns the state that the workspaces of a run start from. known is the stored setup that
// the run follows, if any.
func originOf(run store.Run, spec setup.RunSpec, known store.Setup) (tester.Origin, error) {
	settings, err := setup.WithStored(spec.Environment, known)
	if err != nil {
		return tester.Origin{}, err
	}
	out := tester.Origin{
		Repo: repoOf(run), Settings: settings, Scope: scopeOf(run.Settings.Repo), Environment: run.Environment, Owner: fmt.Sprint("run ", run.ID),
	}
	if known.ID != 0 {
		out.Source, out.Unproven = environment.Source(known.Source), !known.Proven
	}
	return out, nil
}

// repoOf returns a run's repository under the name that it is stored with.
func repoOf(run store.Run) contract.Repo {
	repo := run.Settings.Repo
	repo.URL = run.Repo
	return repo
}

// wantedBy determines the environment that a checkout of a run's repository needs.
func (a *Activities) wantedBy(ctx context.Context, run store.Run, spec setup.RunSpec, known store.Setup, ws contract.Workspace, checkout string) (tester.Requirement, error) {
	origin, err := originOf(run, spec, known)
	if err != nil {
		return tester.Requirement{}, err
	}
	return a.host().Require(ctx, origin, ws, checkout)
}

// scopeOf identifies the commits whose setups trust each other: all of a branch, or only the base
// commit if the run was not started from a branch.
func scopeOf(repo contract.Repo) string {
	if repo.Branch == "" || repo.Branch == "HEAD" || strings.HasPrefix(repo.Base, repo.Branch) {
		return "commit " + repo.Base
	}
	return "branch " + repo.Branch
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
