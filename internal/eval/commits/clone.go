package commits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// branch is the branch that is checked out in the clone of a run.
const branch = "main"

// Clone creates a work tree at the parent of a script's commit, with its whole history and tags,
// but without later commits, so neither the product nor the project's own tools can look up the
// solution.
func (s *Script) Clone(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the directory of a clone: %w", err)
	}
	if _, err := Git(ctx, dir, "init", "--quiet", "--initial-branch", branch); err != nil {
		return err
	}
	if err := copyHistory(ctx, s.Source, s.Parent, dir, ".git"); err != nil {
		return err
	}
	if _, err := Git(ctx, dir, "reset", "--quiet", "--hard", branch); err != nil {
		return err
	}
	if _, err := Git(ctx, dir, "cat-file", "-e", s.ID); err == nil {
		return fmt.Errorf("the clone %s already contains the commit %s, so the run could look it up", dir, s.ID)
	}
	return nil
}

// copyHistory copies a commit, its history and its tags to the empty repository in dir, whose git
// directory is gitDir below it, and makes the commit its branch.
func copyHistory(ctx context.Context, source, commit, dir, gitDir string) error {
	tags, err := Git(ctx, source, "for-each-ref", "--merged", commit, "--format=%(objectname) %(refname)", "refs/tags")
	if err != nil {
		return err
	}
	wanted, refs := commit+"\n", fmt.Sprintf("create refs/heads/%s %s\n", branch, commit)
	for line := range strings.Lines(tags) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		wanted, refs = wanted+id+"\n", refs+fmt.Sprintf("create %s %s\n", name, id)
	}
	// Not with git fetch, which fails if a mirror lacks an old large file.
	pack, err := filepath.Abs(filepath.Join(dir, gitDir, "objects", "pack", "pack"))
	if err != nil {
		return err
	}
	if _, err := GitInput(ctx, source, wanted, "pack-objects", "--quiet", "--revs", "--missing=allow-any", pack); err != nil {
		return err
	}
	_, err = GitInput(ctx, dir, refs, "update-ref", "--stdin")
	return err
}

// Differences returns the paths whose content, mode or existence differs between a branch of the
// clone and the commit. It compares whole trees, because nothing else may differ either.
func (s *Script) Differences(ctx context.Context, clone, released string) ([]string, error) {
	want, err := treeOf(ctx, s.Source, s.ID)
	if err != nil {
		return nil, err
	}
	got, err := treeOf(ctx, clone, released)
	if err != nil {
		return nil, err
	}
	var paths []string
	for path, entry := range want {
		if got[path] != entry {
			paths = append(paths, path)
		}
	}
	for path := range got {
		if _, there := want[path]; !there {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// treeOf returns mode, type and digest of each path of a commit.
func treeOf(ctx context.Context, repo, commit string) (map[string]string, error) {
	out, err := Git(ctx, repo, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	tree := map[string]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		what, path, _ := strings.Cut(entry, "\t")
		tree[path] = what
	}
	return tree, nil
}
