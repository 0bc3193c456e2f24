package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

func (a *Activities) environments() environment.Store { return setup.Environments(a.DataDir) }

// provided is an environment on this host, which the caller closes, or the command whose failure
// prevented its creation.
type provided struct {
	env    *environment.Environment
	failed *environment.Failed
	kept   bool // it existed already, here or in the artifact store
}

// baseEnvironment returns the environment of a run's base commit, nil if it has none. If it is
// missing on this host and in the artifact store, it is rebuilt only from the files of the base
// commit: other runs also use it, so it must not contain an agent's changes.
func (a *Activities) baseEnvironment(ctx context.Context, run store.Run, spec setup.RunSpec, known store.Setup) (*environment.Environment, error) {
	if run.Environment == "" {
		return nil, nil
	}
	env, err := a.environments().Open(run.Environment)
	if err == nil {
		return env, nil
	}
	if env, err = a.keptEnvironment(ctx, run.Environment); !errors.Is(err, environment.ErrNotHere) {
		return env, err
	}
	base := run.Settings.Repo.Workspace()
	view, err := a.Workspaces.View(ctx, base, fmt.Sprintf("%d/source", run.ID))
	if err != nil {
		return nil, err
	}
	defer view.Close()
	w, err := a.wantedBy(ctx, run, spec, known, base, view.Path())
	if err != nil {
		return nil, err
	}
	if w.digest != run.Environment {
		return nil, fault.New(contract.ClassInfra, contract.CodeUnavailable,
			"the base commit's environment %.12s was lost, and this worker has different tools and cannot rebuild it; start a new run", run.Environment)
	}
	p, err := a.provide(ctx, run.ID, w, run.Settings.Environment.Timeout)
	if err == nil && p.failed != nil {
		err = fault.New(contract.ClassInfra, contract.CodeUnavailable,
			"the base commit's environment %.12s was lost and could not be rebuilt: `%s` failed (%s)", run.Environment, clipped(p.failed.Command.String(), 300), p.failed.Why)
	}
	return p.env, err
}

// keptEnvironment returns an environment that was created before, on this host or another, or
// environment.ErrNotHere if there is none.
func (a *Activities) keptEnvironment(ctx context.Context, digest string) (*environment.Environment, error) {
	release, err := a.Store.Lease(ctx, "environment/"+digest)
	if err != nil {
		return nil, err
	}
	defer release()
	return a.openOrRestore(ctx, digest)
}

// provide returns an environment: from this host, else from the artifact store, else a new one.
func (a *Activities) provide(ctx context.Context, runID int64, w requiredEnvironment, timeout time.Duration) (provided, error) {
	env, err := a.environments().Open(w.digest)
	if err == nil {
		return provided{env: env, kept: true}, nil
	}
	if !errors.Is(err, environment.ErrNotHere) {
		return provided{}, environmentFault(err)
	}
	asked := time.Now()
	release, err := a.Store.Lease(ctx, "environment/"+w.digest)
	if err != nil {
		return provided{}, err
	}
	defer release()
	if env, err = a.openOrRestore(ctx, w.digest); !errors.Is(err, environment.ErrNotHere) {
		return provided{env: env, kept: true}, err
	}
	if failed := a.failedSince(w.digest, asked); failed != nil { // then it failed for all runs that waited for it
		return provided{failed: failed}, nil
	}
	return a.makeEnvironment(ctx, runID, w, timeout)
}

// openOrRestore returns an environment from this host or the artifact store, or
// environment.ErrNotHere if neither has a complete one. The caller owns its lock.
func (a *Activities) openOrRestore(ctx context.Context, digest string) (*environment.Environment, error) {
	env, err := a.environments().Open(digest)
	if err == nil {
		return env, nil
	}
	if !errors.Is(err, environment.ErrNotHere) {
		return nil, environmentFault(err)
	}
	row, err := a.Store.Environment(ctx, digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, environment.ErrNotHere
	case err != nil:
		return nil, err
	}
	if env, err = a.restore(ctx, row); err == nil || ctx.Err() != nil {
		return env, err
	}
	a.Log.WarnContext(ctx, "Could not restore an environment from its archive; rebuilding it", "environment", digest, "error", err)
	return nil, environment.ErrNotHere
}

// dropRemoved removes this host's copy of an environment that was removed (rgpt
// env rm), even if another one has been created since.
func (a *Activities) dropRemoved(ctx context.Context, digest string) error {
	env, err := a.environments().Open(digest)
	if errors.Is(err, environment.ErrNotHere) {
		return nil
	}
	if err != nil {
		return environmentFault(err)
	}
	row, err := a.Store.Environment(ctx, digest)
	env.Close()
	switch {
	case err == nil && (row.RunID == 0 || row.RunID == env.RunID): // 0: that run has been deleted
		return nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	}
	if _, err := a.environments().Remove(digest); err != nil {
		return environmentFault(err)
	}
	return nil
}

func environmentFault(err error) error {
	return fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "cannot use this worker's environments")
}

func (a *Activities) restore(ctx context.Context, row store.Environment) (*environment.Environment, error) {
	archive, err := a.Artifacts.Reader(ctx, row.Archive)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	return a.environments().Restore(ctx, row.Digest, archive, a.Config.Environment.Disk.Int64())
}

// makeEnvironment carries out a recipe and stores the result: first as an archive for all hosts,
// then on this one, so a crash in between leaves a complete environment or none.
func (a *Activities) makeEnvironment(ctx context.Context, runID int64, w requiredEnvironment, timeout time.Duration) (provided, error) {
	started := time.Now()
	dir, err := a.Workspaces.Open(ctx, w.workspace, fmt.Sprintf("%d/environment", runID))
	if err != nil {
		return provided{}, err
	}
	defer dir.Close()
	draft, err := a.environments().New()
	if err != nil {
		return provided{}, environmentFault(err)
	}
	defer draft.Discard()
	failed, err := a.setUpWithDownloads(ctx, runID, w, dir.Path(), draft, timeout)
	if err != nil {
		return provided{}, err
	}
	if failed != nil {
		a.rememberFailed(w.digest, failed)
		return provided{failed: failed}, nil
	}
	all, unignored, err := dir.Untracked(ctx)
	if err != nil {
		return provided{}, err
	}
	if err := environment.Keep(dir.Path(), all, w.recipe, draft); err != nil {
		return provided{}, environmentFault(err)
	}
	manifest, err := draft.Seal(ctx, environment.Manifest{Digest: w.digest, RunID: runID, Recipe: w.recipe, Unignored: patterns(unignored), MadeAt: time.Now()})
	if err != nil {
		return provided{}, environmentFault(err)
	}
	if most := a.Config.Environment.Disk.Int64(); manifest.Bytes > most {
		return provided{}, fault.New(contract.ClassConfig, contract.CodeTooLarge,
			"the environment takes up %d bytes on disk, more than the %d allowed on this host for all environments (environment.disk)", manifest.Bytes, most)
	}
	if !w.private {
		if err := a.keepArchive(ctx, runID, w, draft, manifest, started); err != nil {
			return provided{}, err
		}
	}
	env, err := draft.Commit(w.digest)
	if err != nil {
		return provided{}, environmentFault(err)
	}
	return provided{env: env}, nil
}

// downloadShare limits the downloads of one repository to a tenth of environment.disk.
const downloadShare = 10

// setUpWithDownloads carries out a recipe with the downloads of the repository's last setup, and
// saves its own. The setup of an agent's change, or an unproven proposed setup, neither uses nor
// saves any: its packages must not reach other runs.
func (a *Activities) setUpWithDownloads(
	ctx context.Context, runID int64, w requiredEnvironment, checkout string, draft *environment.Draft, timeout time.Duration,
) (*environment.Failed, error) {
	if w.private || w.unproven || len(w.recipe.Cache) == 0 {
		return a.carryOutSetup(ctx, runID, w, checkout, draft, timeout)
	}
	downloads, key := setup.Downloads(a.DataDir), digestOf("downloads", w.scope)
	warn := func(err error) {
		if err != nil {
			a.Log.WarnContext(ctx, "Could not reuse downloads from earlier setups", "run", runID, "error", err)
		}
	}
	warn(downloads.Take(key, w.recipe.Cache, draft))
	failed, err := a.carryOutSetup(ctx, runID, w, checkout, draft, timeout)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	warn(downloads.Put(last, key, w.recipe.Cache, draft, a.Config.Environment.Disk.Int64()/downloadShare))
	return failed, err
}

// carryOutSetup runs a recipe's commands and stores their output and network requests
// as artifacts of the run.
func (a *Activities) carryOutSetup(ctx context.Context, runID int64, w requiredEnvironment, checkout string, draft *environment.Draft, timeout time.Duration) (*environment.Failed, error) {
	out := a.output(ctx, runID, "environment")
	egress := a.egress("environment of run "+fmt.Sprint(runID), "environment.network.hosts")
	command := a.limited()
	command.Root = checkout
	command.CACertificates = a.Proxy.CACertificate()
	var optional *environment.Failed // the first one
	failed, err := environment.SetUp(ctx, environment.Site{
		Runner: a.Sandbox, Command: command, Proxy: egress.serve, OnOutput: out.write, Timeout: timeout,
		OnOptional: func(f *environment.Failed) { optional = cmp.Or(optional, f) },
	}, w.recipe, draft)
	out.close()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	kept := a.keepSetupFiles(last, runID, w.digest, out.log(), egress)
	if err != nil {
		return nil, setupError(ctx, err)
	}
	if kept != nil {
		return nil, kept
	}
	if f := cmp.Or(failed, optional); f != nil {
		f.Output = telemetry.Redact(f.Output)
		if r, ok := egress.networkFailure(); ok {
			return failed, unreachable(ctx, f, r, timeout)
		}
	}
	return failed, nil
}

// unreachable adds to a failure that a host could not be reached. If that may be temporary, it
// returns an error that causes a retry of the setup, except after the last attempt or the setup's
// total time: then the failure is a result, because it may have nothing to do with that host.
func unreachable(ctx context.Context, failed *environment.Failed, r proxy.Record, timeout time.Duration) error {
	unreached := fmt.Sprintf("%s could not be reached: %s", r.Host, r.Reason)
	err := fault.New(contract.ClassInfra, contract.CodeUnreachable, "`%s` failed (%s), and %s", clipped(failed.Command.String(), 300), failed.Why, unreached)
	if r.Temporary && activity.IsActivity(ctx) {
		info := activity.GetInfo(ctx)
		if _, again := err.RetryDelay(int(info.Attempt)); again && time.Since(info.ScheduledTime) < timeout {
			return err
		}
	}
	failed.Why += "; " + unreached
	return nil
}

// setupError classifies an error of the sandbox.
func setupError(ctx context.Context, err error) error {
	var isolation *sandbox.IsolationError
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case errors.Is(err, sandbox.ErrInvalid):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the sandbox rejected a setup command")
	case errors.As(err, &isolation):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "the repository cannot be set up: this machine cannot isolate commands")
	}
	return fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "the sandbox could not run a setup command")
}

func patterns(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, workspace.IgnorePattern(p))
	}
	return out
}

// keepSetupFiles stores the log and the network requests of a setup.
func (a *Activities) keepSetupFiles(ctx context.Context, runID int64, digest string, log []byte, way *egress) error {
	folder := path.Join("environment", digest[:12])
	kept, err := way.artifact(ctx, path.Join(folder, "network.jsonl"))
	if err != nil {
		return err
	}
	if len(log) > 0 {
		put, err := a.Artifacts.Put(ctx, log)
		if err != nil {
			return err
		}
		kept = append(kept, contract.Artifact{Name: path.Join(folder, "setup.log"), Type: contract.ArtifactLog, Size: int64(len(log)), Digest: put})
	}
	return a.Store.AddArtifacts(ctx, runID, kept)
}

// keepArchive stores a sealed environment in the artifact store and records it.
func (a *Activities) keepArchive(ctx context.Context, runID int64, w requiredEnvironment, draft *environment.Draft, m environment.Manifest, started time.Time) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(draft.Pack(ctx, writer)) }()
	archive, size, err := a.Artifacts.PutReader(ctx, reader, a.Config.Environment.Disk.Int64())
	_ = reader.CloseWithError(err)
	if err != nil {
		return err
	}
	recipe, err := w.recipe.Encode()
	if err != nil {
		return err
	}
	return a.Store.SaveEnvironment(ctx, store.Environment{
		Digest: w.digest, Repo: w.workspace.Repo, BaseCommit: w.workspace.Base, Source: string(w.recipe.Source), Recipe: recipe,
		Archive: archive, ArchiveSize: size, Bytes: m.Bytes, Files: m.Files, DurationMS: time.Since(started).Milliseconds(), RunID: runID,
	})
}
