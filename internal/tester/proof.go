package tester

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/verify"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// provenTests is the maximum number of new tests of a change that are proven one by one: the first
// ones, in the order of their files.
const provenTests = 500

// toProve lists the new tests of a change that must fail without it: none if the change consists
// only of tests, because then there is no other change to test.
func (h *Host) toProve(ctx context.Context, base, ws contract.Workspace, files []pin.File) ([]pin.Added, error) {
	tests, err := pin.NewTests(ctx, files)
	if err != nil || len(tests) == 0 {
		return nil, err
	}
	code, err := h.Workspaces.Changed(ctx, base, ws, pin.IsCode, 0)
	if err != nil || len(code) == 0 {
		return nil, err
	}
	return tests[:min(len(tests), provenTests)], nil
}

// Prove carries out the check of new tests: it runs them on the base that the task's workspace
// changes, to which only the test files of the workspace are added.
func (h *Host) Prove(ctx context.Context, t Task, base contract.Workspace, mode verdict.NewTests) (verdict.Recorded, error) {
	files, err := h.TestFiles(ctx, base, t.Workspace)
	if err != nil {
		return verdict.Recorded{}, err
	}
	tests, err := h.toProve(ctx, base, t.Workspace, files)
	if err != nil {
		return verdict.Recorded{}, err
	}
	dir, err := h.withoutChange(ctx, t, base)
	if err != nil {
		return verdict.Recorded{}, err
	}
	defer dir.Close()
	ended := false
	defer func() { h.giveBack(ctx, t, dir, ended) }() // after the surroundings were closed
	s, err := h.surround(ctx, t, base, dir.Path())
	if err != nil {
		return verdict.Recorded{}, err
	}
	defer s.close(ctx)
	env := s.env(ctx)
	s.limit(ctx, &env)
	proof, err := verify.Prove(ctx, s.checkout, tests, env)
	if err != nil {
		return verdict.Recorded{}, err
	}
	if err := t.Keep(ctx, s.files(proof.Log, nil, 0)); err != nil {
		return verdict.Recorded{}, err
	}
	var found []contract.Finding
	for _, u := range proof.Unproven {
		found = append(found, u.Test.Finding(u.Why))
	}
	var out verdict.Recorded
	out.Result, out.Findings = verdict.Proved(found, mode)
	out.Result.DurationMS = proof.Duration.Milliseconds()
	ended = true
	return out, nil
}

// withoutChange checks out the base, with the change's test files: those that it added or edited
// exist, those that it removed do not.
func (h *Host) withoutChange(ctx context.Context, t Task, base contract.Workspace) (*workspace.Checkout, error) {
	changed, err := h.Workspaces.Changed(ctx, base, t.Workspace, pin.OfTests, 0)
	if err != nil {
		return nil, err
	}
	after, err := h.Workspaces.OpenShared(ctx, t.Workspace)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	dir, err := h.checkout(ctx, t, base)
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
