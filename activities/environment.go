package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

func (a *Activities) environments() environment.Store { return setup.Environments(a.DataDir) }

// wanted is the environment that a workspace needs.
type wanted struct {
	recipe    environment.Recipe
	digest    string // empty: there is nothing to set up
	workspace contract.Workspace
	setup     int64 // of the stored setup that the recipe follows; 0: none
	private   bool  // it is that of a change, for its run on this host alone
}

// provided is an environment on this host, which the caller closes, or the
// command that kept it from being made.
type provided struct {
	env    *environment.Environment
	failed *environment.Failed
	kept   bool // it was there already, here or in the artifact store
}

// Environment finds out what a run's base commit needs and makes it, unless it
// is there. Of any number of runs that want the same one, one makes it.
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

// setupFor returns the stored setup that a run follows: the one that the
// environment agent proposed for it, else the one that counts for its repository,
// unless the run was created with an environment of its own.
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

// wantedBy finds out what a checkout of a run's repository needs.
func (a *Activities) wantedBy(ctx context.Context, run store.Run, spec setup.RunSpec, known store.Setup, ws contract.Workspace, checkout string) (wanted, error) {
	w := wanted{workspace: ws, setup: known.ID}
	settings, err := setup.WithStored(spec.Environment, known)
	if err != nil {
		return w, err
	}
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be opened")
	}
	defer root.Close()
	facts, err := a.factsOf(ctx, run)
	if err != nil {
		return w, err
	}
	if w.recipe, err = environment.Find(root, settings, a.ToolVersions, facts); err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be read")
	}
	if known.ID != 0 {
		w.recipe.Source = environment.Source(known.Source)
	}
	if len(w.recipe.Setup) == 0 {
		return w, nil
	}
	digest, err := w.recipe.Digest(func(name string) ([]byte, error) { return readInput(root, name) }, a.ToolVersions)
	if err != nil {
		return w, fault.Wrap(err, contract.ClassInfra, contract.CodeRepository, "the checkout cannot be read")
	}
	// A repository's set-up runs its own code, so no other repository may get the
	// result; and what an agent's change set up is for its run alone.
	w.digest = digestOf(run.Repo, digest)
	if ws.Tree != run.Settings.Repo.Tree && w.digest != run.Environment {
		w.digest, w.private = digestOf(run.Repo, digest, fmt.Sprint("run ", run.ID)), true
	}
	return w, nil
}

// inputBytes bounds a file whose content decides about an environment.
const inputBytes = 64 << 20

func readInput(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > inputBytes {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", name, inputBytes)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, inputBytes))
}

func digestOf(parts ...string) string {
	hash := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(hash, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// factsOf is what git knows of a run's base commit.
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

// keptEnvironment returns an environment that was made before: the one of this host,
// else from the artifact store.
func (a *Activities) keptEnvironment(ctx context.Context, digest string) (*environment.Environment, error) {
	env, err := a.environments().Open(digest)
	if err == nil || !errors.Is(err, environment.ErrNotHere) {
		return env, err
	}
	release, err := a.Store.Own(ctx, "environment/"+digest)
	if err != nil {
		return nil, err
	}
	defer release()
	if env, err = a.environments().Open(digest); err == nil {
		return env, nil
	}
	row, err := a.Store.Environment(ctx, digest)
	if err == nil {
		env, err = a.restore(ctx, row)
	}
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "the environment %s of the base commit is not on this host and cannot be restored", digest)
	}
	return env, nil
}

// provide returns an environment: the one of this host, else from the artifact
// store, else made now.
func (a *Activities) provide(ctx context.Context, runID int64, w wanted, timeout time.Duration) (provided, error) {
	env, err := a.environments().Open(w.digest)
	if err == nil {
		return provided{env: env, kept: true}, nil
	}
	if !errors.Is(err, environment.ErrNotHere) {
		return provided{}, environmentFault(err)
	}
	asked := time.Now()
	release, err := a.Store.Own(ctx, "environment/"+w.digest)
	if err != nil {
		return provided{}, err
	}
	defer release()
	if env, err = a.environments().Open(w.digest); err == nil {
		return provided{env: env, kept: true}, nil
	}
	row, err := a.Store.Environment(ctx, w.digest)
	if err == nil {
		if env, err = a.restore(ctx, row); err == nil {
			return provided{env: env, kept: true}, nil
		}
		if ctx.Err() != nil {
			return provided{}, err
		}
		a.Log.WarnContext(ctx, "Could not restore an environment from its archive; it is made again", "environment", w.digest, "error", err)
	} else if !errors.Is(err, store.ErrNotFound) {
		return provided{}, err
	}
	if before, ok := a.failures.Load(w.digest); ok {
		// What failed while this run waited for it failed for this run, too.
		if f := before.(failedSetup); f.at.After(asked) { //nolint:forcetypeassert // nothing else is stored
			return provided{failed: f.failed}, nil
		}
		a.failures.Delete(w.digest)
	}
	return a.makeEnvironment(ctx, runID, w, timeout)
}

func environmentFault(err error) error {
	return fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "the environments of this worker cannot be used")
}

func (a *Activities) restore(ctx context.Context, row store.Environment) (*environment.Environment, error) {
	archive, err := a.Artifacts.Reader(ctx, row.Archive)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	return a.environments().Restore(ctx, row.Digest, archive, a.Config.Environment.Disk.Int64())
}

// makeEnvironment carries a recipe out and keeps the result: first as an archive
// for all hosts, then on this one, so that whatever dies in between leaves a whole
// environment or none.
func (a *Activities) makeEnvironment(ctx context.Context, runID int64, w wanted, timeout time.Duration) (provided, error) {
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
	failed, err := a.carryOutSetup(ctx, runID, w, dir.Path(), draft, timeout)
	if err != nil {
		return provided{}, err
	}
	if failed != nil {
		a.failures.Store(w.digest, failedSetup{failed, time.Now()})
		return provided{failed: failed}, nil
	}
	all, unignored, err := dir.Untracked(ctx)
	if err != nil {
		return provided{}, err
	}
	if err := environment.Keep(dir.Path(), all, w.recipe, draft); err != nil {
		return provided{}, environmentFault(err)
	}
	manifest, err := draft.Seal(ctx, environment.Manifest{Digest: w.digest, Recipe: w.recipe, Unignored: patterns(unignored), MadeAt: time.Now()})
	if err != nil {
		return provided{}, environmentFault(err)
	}
	if most := a.Config.Environment.Disk.Int64(); manifest.Bytes > most {
		return provided{}, fault.New(contract.ClassConfig, contract.CodeTooLarge,
			"the environment takes up %d bytes on disk, more than the %d that this host keeps of all (environment.disk)", manifest.Bytes, most)
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

// carryOutSetup runs a recipe's commands and stores their output and network
// requests as artifacts of the run.
func (a *Activities) carryOutSetup(ctx context.Context, runID int64, w wanted, checkout string, draft *environment.Draft, timeout time.Duration) (*environment.Failed, error) {
	out := a.output(ctx, runID, "environment")
	egress := a.egress("environment of run "+fmt.Sprint(runID), "environment.network.hosts")
	command := a.limited()
	command.Root = checkout
	command.CACertificates = a.Proxy.CACertificate()
	failed, err := environment.SetUp(ctx, environment.Site{
		Runner: a.Sandbox, Command: command, Proxy: egress.serve, OnOutput: out.write, Timeout: timeout,
	}, w.recipe, draft)
	out.close()
	kept := a.keepSetupFiles(context.WithoutCancel(ctx), runID, w.digest, out.log(), egress)
	if err != nil {
		return nil, setupError(ctx, err)
	}
	if failed != nil {
		failed.Output = telemetry.Redact(failed.Output)
	}
	return failed, kept
}

// setupError gives an error of the sandbox a class.
func setupError(ctx context.Context, err error) error {
	var isolation *sandbox.IsolationError
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case errors.Is(err, sandbox.ErrInvalid):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "the sandbox refused a set-up command")
	case errors.As(err, &isolation):
		return fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "the repository cannot be set up: this machine cannot isolate commands")
	}
	return fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "the sandbox could not run a set-up command")
}

func patterns(paths []string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, workspace.IgnorePattern(p))
	}
	return out
}

// keepSetupFiles stores the log of a set-up and its requests to the network.
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

// keepArchive puts a sealed environment into the artifact store and notes it.
func (a *Activities) keepArchive(ctx context.Context, runID int64, w wanted, draft *environment.Draft, m environment.Manifest, started time.Time) error {
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

// shownOutput is how much of a failed command's output a question shows.
const shownOutput = 1500

// setupFailure says why a set-up failed, for people.
func setupFailure(f environment.Failed, r environment.Recipe) *contract.Failure {
	code := contract.CodeCheckFailed
	if f.Missing || len(r.Missing) > 0 {
		code = contract.CodeMissing
	}
	text := fmt.Sprintf("the repository could not be set up: `%s` failed (%s)", clipped(f.Command.String(), 300), f.Why)
	if len(f.Refused) > 0 {
		text += "; it asked for " + strings.Join(f.Refused, ", ") + ", which may not be reached"
	}
	if missing := r.Absent(); len(missing) > 0 {
		text += "; the repository asks for " + strings.Join(missing, ", ")
	}
	output := f.Output
	if over := len(output) - shownOutput; over > 0 {
		output = "…" + strings.ToValidUTF8(output[over:], "")
	}
	return &contract.Failure{Class: contract.ClassConfig, Code: code, Message: clipped(text, 1000), Cause: output}
}

// tryAgain says how a run, or what it was to prepare, is tried again.
func tryAgain(run store.Run) string {
	if run.Settings.PrepareOnly {
		return fmt.Sprintf("then try again: rgpt env build --repo %s --base %.12s", run.Repo, run.BaseCommit)
	}
	return fmt.Sprintf("then let the run try again: rgpt run approve %d", run.ID)
}

// setupAdvice says what a person can do about a set-up that failed.
func setupAdvice(run store.Run, r environment.Recipe, f environment.Failed) string {
	var out []string
	if len(f.Refused) > 0 {
		hosts := slices.Clone(r.Hosts)
		for _, h := range f.Refused {
			hosts = append(hosts, strings.TrimSuffix(h, ":443"))
		}
		out = append(out, fmt.Sprintf("allow the host in the operator's configuration (environment: {network: {hosts: [%s]}}) and start a new run, or say how to set up without it", strings.Join(hosts, ", ")))
	}
	out = append(out,
		fmt.Sprintf("say how the repository is set up: rgpt env set --repo %s --command '…', ", run.Repo)+tryAgain(run),
		"or commit environment: {setup: ['…']} in its rgpt.yaml and start a new run",
		fmt.Sprintf("the whole output: rgpt run logs %d --environment", run.ID))
	return strings.Join(slices.Compact(out), "; ")
}
