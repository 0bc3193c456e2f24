package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Save returns the current state of the directory and stores the patch that produces it. A writer
// calls it last: later changes may be lost.
//
// It first removes everything except files, directories and symbolic links, and anything that some
// system would treat as a git directory. Submodules of the base do not change. A change over the
// limits is rejected with ErrTooLarge.
func (d *Dir) Save(ctx context.Context) (contract.Workspace, error) {
	if !d.writable || d.lock == nil {
		return contract.Workspace{}, notWritable()
	}
	if err := d.removeMarker(); err != nil {
		return contract.Workspace{}, err
	}
	d.plain = false
	found, err := d.scrub()
	if err != nil {
		return contract.Workspace{}, err
	}
	if err := d.fits(ctx, found); err != nil {
		return contract.Workspace{}, err
	}
	tree, err := d.stage(ctx)
	if err != nil {
		return contract.Workspace{}, err
	}
	if tree != d.ws.Tree {
		if err := d.record(ctx, tree); err != nil {
			return contract.Workspace{}, err
		}
	}
	return d.ws, d.writeMarker()
}

func notWritable() error {
	return runtimeFault("cannot save a workspace directory that is not open for writing")
}

// Unchanged is called instead of Save if the writer changed nothing, so the next writer can reuse
// the directory. It starts no git process.
func (d *Dir) Unchanged() error {
	if !d.writable || d.lock == nil {
		return nil
	}
	d.plain = false // a command may have changed what git does not see
	return d.writeMarker()
}

// record sets the directory's workspace to a changed tree.
func (d *Dir) record(ctx context.Context, tree string) error {
	change, err := d.repo.change(ctx, d.baseTree, tree, d.limits())
	if err == nil && len(change.lostLinks) > 0 {
		if tree, err = d.restoreLinks(ctx, change.lostLinks); err == nil {
			change, err = d.repo.change(ctx, d.baseTree, tree, d.limits())
		}
	}
	if err != nil {
		return err
	}
	ws, err := d.repo.state(ctx, d.ws, tree, change)
	if err != nil {
		return err
	}
	d.ws = ws
	return nil
}

// state stores a change's patch and returns the resulting workspace.
func (r *mirror) state(ctx context.Context, of contract.Workspace, tree string, c change) (contract.Workspace, error) {
	ws := contract.Workspace{Repo: of.Repo, Base: of.Base, Tree: tree}
	if len(c.patch) > 0 {
		digest, err := r.m.options.Blobs.Put(ctx, c.patch)
		if err != nil {
			return ws, wrapf(err, "could not store a workspace patch")
		}
		ws.Patch = digest
	}
	return ws, r.markKnown(tree)
}

func (d *Dir) limits() limits {
	return limits{
		files: d.m.options.MaxChangedFiles,
		patch: d.m.options.MaxPatchBytes,
		size: func(path string) int64 {
			info, err := os.Lstat(filepath.Join(d.Path(), path))
			if err != nil || !info.Mode().IsRegular() {
				return 0
			}
			return info.Size()
		},
		fileSize: d.m.options.MaxFileBytes,
	}
}

// addTries limits how often staging removes an obstacle for git and retries.
const addTries = 50

// stage adds the work tree to the index and returns its tree.
func (d *Dir) stage(ctx context.Context) (string, error) {
	_ = os.Remove(d.indexPath() + ".lock")
	if err := d.refreshIndex(ctx); err != nil {
		return "", err
	}
	accessible := false
	for try := 0; ; try++ {
		_, err := d.git(ctx, "add", "-A")
		if err == nil {
			break
		}
		var ge *gitError
		if !errors.As(err, &ge) || try == addTries {
			return "", localFault(err, "could not record the changes in a workspace")
		}
		switch {
		case d.removeInvalid(ge.stderr):
		case strings.Contains(ge.stderr, "ermission denied") && !accessible:
			makeAccessible(d.Path())
			accessible = true
		default:
			return "", localFault(err, "could not record the changes in a workspace")
		}
	}
	return d.writeTree(ctx)
}

// refreshIndex updates the index with the changes that SaveFile recorded, because git does not add
// ignored files that are not in the index. It does not change the work tree.
func (d *Dir) refreshIndex(ctx context.Context) error {
	if !d.stale {
		return nil
	}
	if _, err := d.git(ctx, "read-tree", "--reset", d.ws.Tree); err != nil {
		return localFault(err, "could not record the changes in a workspace")
	}
	d.stale = false
	return nil
}

func (d *Dir) writeTree(ctx context.Context) (string, error) {
	out, err := d.git(ctx, "write-tree")
	if err != nil {
		return "", localFault(err, "could not record the changes in a workspace")
	}
	return strings.TrimSpace(string(out)), nil
}

// removeInvalid removes a file whose name git rejects, such as a symbolic link named .gitmodules,
// and reports whether there was one. Git has more such rules than scrub.
func (d *Dir) removeInvalid(stderr string) bool {
	_, rest, found := strings.Cut(stderr, "invalid path '")
	path, _, closed := strings.Cut(rest, "'")
	if !found || !closed || !filepath.IsLocal(path) {
		return false
	}
	root, err := os.OpenRoot(d.Path())
	if err != nil {
		return false
	}
	defer root.Close()
	if _, err := root.Lstat(path); err != nil {
		return false
	}
	return root.RemoveAll(path) == nil
}

// restoreLinks restores submodules that a command removed or replaced.
func (d *Dir) restoreLinks(ctx context.Context, links []gitlink) (string, error) {
	root, err := os.OpenRoot(d.Path())
	if err != nil {
		return "", wrapf(err, "could not read a workspace directory")
	}
	defer root.Close()
	args := []string{"update-index", "--add", "--replace"}
	for _, link := range links {
		if err := makeEmptyDir(root, link.path); err != nil {
			return "", fault.Wrap(err, contract.ClassSafety, contract.CodeForbidden, "the submodule %s must not be replaced", link.path)
		}
		args = append(args, "--cacheinfo", "160000,"+link.id+","+link.path)
	}
	if _, err := d.git(ctx, args...); err != nil {
		return "", localFault(err, "could not restore a removed submodule")
	}
	return d.writeTree(ctx)
}

// makeEmptyDir creates an empty directory, as git does for a submodule, replacing anything else at
// that path. Links on the path are removed, not followed.
func makeEmptyDir(root *os.Root, path string) error {
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '/' {
			continue
		}
		if info, err := root.Lstat(path[:i]); err == nil && !info.IsDir() {
			if err := root.Remove(path[:i]); err != nil {
				return err
			}
		}
	}
	return root.MkdirAll(path, 0o755)
}
