package activities

import (
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
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tester"
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
	view, err := a.Workspaces.OpenShared(ctx, base)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	w, err := a.wantedBy(ctx, run, spec, known, base, view.Path())
	if err != nil {
		return nil, err
	}
	if w.Digest != run.Environment {
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
	release, err := a.lease(ctx, "environment/"+digest)
	if err != nil {
		return nil, err
	}
	defer release()
	return a.openOrRestore(ctx, digest)
}

// provide returns an environment: from this host, else from the artifact store, else a new one.
func (a *Activities) provide(ctx context.Context, runID int64, w tester.Requirement, timeout time.Duration) (provided, error) {
	here, err := a.onThisHost(w.Digest)
	if !errors.Is(err, environment.ErrNotHere) {
		return here, err
	}
	ctx, done, err := a.takeCore(ctx, runID)
	if err != nil {
		return provided{}, err
	}
	defer done()
	asked := time.Now()
	release, err := a.lease(ctx, "environment/"+w.Digest)
	if err != nil {
		return provided{}, err
	}
	defer release()
	env, err := a.openOrRestore(ctx, w.Digest)
	if !errors.Is(err, environment.ErrNotHere) {
		return provided{env: env, kept: true}, err
	}
	if failed := a.failedSince(w.Digest, asked); failed != nil { // then it failed for all runs that waited for it
		return provided{failed: failed}, nil
	}
	return a.makeEnvironment(ctx, runID, w, timeout)
}

// onThisHost returns an environment that is on this host, or environment.ErrNotHere.
func (a *Activities) onThisHost(digest string) (provided, error) {
	env, err := a.environments().Open(digest)
	if err == nil || errors.Is(err, environment.ErrNotHere) {
		return provided{env: env, kept: true}, err
	}
	return provided{}, tester.EnvironmentFault(err)
}

// openOrRestore returns an environment from this host or the artifact store, or
// environment.ErrNotHere if neither has a complete one. The caller owns its lock.
func (a *Activities) openOrRestore(ctx context.Context, digest string) (*environment.Environment, error) {
	env, err := a.environments().Open(digest)
	if err == nil {
		return env, nil
	}
	if !errors.Is(err, environment.ErrNotHere) {
		return nil, tester.EnvironmentFault(err)
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
		return tester.EnvironmentFault(err)
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
		return tester.EnvironmentFault(err)
	}
	return nil
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
// then on this one, so a crash in between leaves a complete environment or none. The output and the
// network requests of its commands become artifacts of the run.
func (a *Activities) makeEnvironment(ctx context.Context, runID int64, w tester.Requirement, timeout time.Duration) (provided, error) {
	started := time.Now()
	creation := tester.Creation{
		Requirement: w, Key: fmt.Sprintf("%d/environment", runID), Who: "environment of run " + fmt.Sprint(runID), RunID: runID, Timeout: timeout,
		Follow: func() (func([]byte), func(context.Context, *tester.Egress) error) {
			out := a.output(ctx, runID, "environment")
			return out.write, func(ctx context.Context, way *tester.Egress) error {
				out.close()
				return a.keepSetupFiles(ctx, runID, w.Digest, out.whole.Log(), way)
			}
		},
		Again: func(err *fault.Error) bool { return hasAttempt(ctx, err, timeout) },
	}
	if !w.Private {
		creation.Sealed = func(ctx context.Context, draft *environment.Draft, m environment.Manifest) error {
			return a.keepArchive(ctx, runID, w, draft, m, started)
		}
	}
	env, failed, err := a.host().Create(ctx, creation)
	if failed != nil {
		a.rememberFailed(w.Digest, failed)
	}
	return provided{env: env, failed: failed}, err
}

// hasAttempt reports whether the activity is retried after an error: there is an attempt left, and
// the total time of the setup is not over. The time that it waited for a core does not count.
func hasAttempt(ctx context.Context, err *fault.Error, timeout time.Duration) bool {
	if !activity.IsActivity(ctx) {
		return false
	}
	info := activity.GetInfo(ctx)
	_, again := err.RetryDelay(int(info.Attempt))
	return again && time.Since(info.ScheduledTime)-waitedForCore(ctx) < timeout
}

// keepSetupFiles stores the log and the network requests of a setup.
func (a *Activities) keepSetupFiles(ctx context.Context, runID int64, digest string, log []byte, way *tester.Egress) error {
	folder := path.Join("environment", digest[:12])
	kept, err := a.requestsArtifact(ctx, way, path.Join(folder, "network.jsonl"))
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
func (a *Activities) keepArchive(ctx context.Context, runID int64, w tester.Requirement, draft *environment.Draft, m environment.Manifest, started time.Time) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(draft.Pack(ctx, writer)) }()
	archive, size, err := a.Artifacts.PutReader(ctx, reader, a.Config.Environment.Disk.Int64())
	_ = reader.CloseWithError(err)
	if err != nil {
		return err
	}
	recipe, err := w.Recipe.Encode()
	if err != nil {
		return err
	}
	return a.Store.SaveEnvironment(ctx, store.Environment{
		Digest: w.Digest, Repo: w.Workspace.Repo, BaseCommit: w.Workspace.Base, Source: string(w.Recipe.Source), Recipe: recipe,
		Archive: archive, ArchiveSize: size, Bytes: m.Bytes, Files: m.Files, DurationMS: time.Since(started).Milliseconds(), RunID: runID,
	})
}
