package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/verify"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// provenTests is the maximum number of new tests of a change that are proven one by one: the first
// ones, in the order of their files.
const provenTests = 500

// toProve lists the new tests of a change that must fail without it: none if the change consists
// only of tests, because then there is no other change to test.
func (a *Activities) toProve(ctx context.Context, base, ws contract.Workspace, files []pin.File) ([]pin.Added, error) {
	tests, err := pin.NewTests(ctx, files)
	if err != nil || len(tests) == 0 {
		return nil, err
	}
	code, err := a.Workspaces.Changed(ctx, base, ws, pin.IsCode, 0)
	if err != nil || len(code) == 0 {
		return nil, err
	}
	return tests[:min(len(tests), provenTests)], nil
}

// prove carries out the check of new tests: it runs them on the commit that the run
// started from, to which only the change's test files are added.
func (a *Activities) prove(ctx context.Context, in contract.VerifyInput) (contract.CheckResult, error) {
	run, err := a.Store.Run(ctx, in.Execution.RunID)
	if err != nil {
		return contract.CheckResult{}, err
	}
	spec, err := specOf(run)
	if err != nil {
		return contract.CheckResult{}, err
	}
	base := run.Settings.Repo.Workspace()
	files, err := a.pinned(ctx, base, in.Workspace)
	if err != nil {
		return contract.CheckResult{}, err
	}
	tests, err := a.toProve(ctx, base, in.Workspace, files)
	if err != nil {
		return contract.CheckResult{}, err
	}
	dir, err := a.withoutChange(ctx, in, base)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer dir.Close()
	cache, err := a.checkCache(in)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer a.discard(ctx, in, cache)
	cenv, err := a.checkCommandEnv(ctx, run, spec, contract.VerifyInput{Execution: in.Execution, Workspace: base, Check: in.Check}, dir.Path(), cache)
	if err != nil {
		return contract.CheckResult{}, err
	}
	defer cenv.Close()
	way := a.checkEgress(in)
	proof, err := a.runProof(ctx, in, dir.Path(), tests, a.verifyEnv(spec, cache, cenv, way), cache, cenv.ofBase)
	if err != nil {
		return contract.CheckResult{}, err
	}
	// The log is stored for users, not as the log of a failed check: the failures in it were
	// expected.
	if _, err := a.keepFiles(ctx, in, dir.Path(), verify.Outcome{Log: proof.Log}, way); err != nil {
		return contract.CheckResult{}, err
	}
	var found []contract.Finding
	for _, u := range proof.Unproven {
		found = append(found, u.Test.Finding(u.Why))
	}
	result, findings := verdict.Proved(found, spec.Verification.NewTests)
	result.DurationMS = proof.Duration.Milliseconds()
	for _, f := range findings {
		telemetry.CountFinding(f.Severity, f.Category)
	}
	return result, a.Store.SaveCheck(ctx, in.Execution, result.Check.ID, result, nil, findings, "")
}

func (a *Activities) runProof(
	ctx context.Context, in contract.VerifyInput, dir string, tests []pin.Added, env verify.Env, cache *buildcache.Cache, ofBase bool,
) (verify.Proof, error) {
	started := time.Now()
	if ofBase {
		a.fillBase(ctx, in, dir, env, cache)
	}
	env.Limits.Timeout = timeLeft(in, started)
	return verify.Prove(ctx, dir, tests, env)
}

// withoutChange checks out the commit that a run started from, with the change's test files: those
// that it added or edited exist, those that it removed do not.
func (a *Activities) withoutChange(ctx context.Context, in contract.VerifyInput, base contract.Workspace) (*workspace.Dir, error) {
	changed, err := a.Workspaces.Changed(ctx, base, in.Workspace, pin.OfTests, 0)
	if err != nil {
		return nil, err
	}
	after, err := a.Workspaces.View(ctx, in.Workspace, directory(in.Execution)+"/plan")
	if err != nil {
		return nil, err
	}
	defer after.Close()
	dir, err := a.Workspaces.Open(ctx, base, directory(in.Execution)+"/"+in.Check.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range changed {
		if err = transfer(after.Path(), dir.Path(), f.Path, f.Exists); err != nil {
			dir.Close()
			return nil, fault.Wrap(err, contract.ClassInfra, "", "could not copy a change's tests to a checkout that lacks the change")
		}
	}
	return dir, nil
}

// transfer copies a file from one directory to another, or removes it there if it no longer exists.
// Neither path may lead out of its directory.
func transfer(from, to, name string, exists bool) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return fmt.Errorf("open the changed checkout: %w", err)
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("open the checkout: %w", err)
	}
	defer target.Close()
	local := filepath.FromSlash(name)
	if exists {
		if err := removeObstacles(target, name); err != nil {
			return err
		}
	}
	// If a file has replaced its directory, it was removed with the directory.
	if err := target.RemoveAll(local); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	if !exists {
		return nil
	}
	in, err := source.Open(local)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err := target.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
		return fmt.Errorf("create the parent directory of %s: %w", name, err)
	}
	out, err := target.OpenFile(local, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("write %s: %w", name, err)
	}
	return out.Close()
}

// removeObstacles removes files in place of a file's parent directories: the change has replaced
// them with directories.
func removeObstacles(target *os.Root, name string) error {
	for i, c := range name {
		if c != '/' {
			continue
		}
		at := filepath.FromSlash(name[:i])
		info, err := target.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && !info.IsDir() {
			err = target.Remove(at)
		}
		if err != nil {
			return fmt.Errorf("remove a file that blocks %s: %w", name, err)
		}
	}
	return nil
}

// hasTests reports whether a plan runs tests at all.
func hasTests(stages [][]contract.Check) bool {
	return slices.ContainsFunc(stages, func(stage []contract.Check) bool {
		return slices.ContainsFunc(stage, func(c contract.Check) bool { return c.Category == contract.CategoryTest })
	})
}
