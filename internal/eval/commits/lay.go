package commits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Truncate creates a repository that ends at a commit: it has the commit's history and tags, but
// nothing later, so nobody who works in it can look up what came next. Nothing is checked out. An
// existing one is kept.
func Truncate(ctx context.Context, source, commit, dir string) error {
	if isDir(dir) {
		return nil
	}
	missing, err := Git(ctx, source, "rev-list", "--objects", "--no-walk", "--missing=print", commit)
	if err != nil {
		return err
	}
	if n := strings.Count("\n"+missing, "\n?"); n > 0 {
		return fmt.Errorf("the repository %s lacks the content of %d files of %.12s; clone it again", source, n, commit)
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return fmt.Errorf("create the directory of a repository: %w", err)
	}
	if _, err := Git(ctx, part, "init", "--quiet", "--initial-branch", branch); err != nil {
		return err
	}
	if err := copyHistory(ctx, source, commit, part, ".git"); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

// Copy copies a repository without checking anything out. Both share the files of their objects where
// the file system allows it. An existing copy is kept.
func Copy(ctx context.Context, from, to string) error {
	if isDir(to) {
		return nil
	}
	part := to + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Dir(to), 0o755)); err != nil {
		return fmt.Errorf("create the directory of a repository: %w", err)
	}
	if _, err := Git(ctx, filepath.Dir(to), "clone", "--quiet", "--no-checkout", "--local", "--", from, part); err != nil {
		return err
	}
	if _, err := Git(ctx, part, "remote", "remove", "origin"); err != nil {
		return err
	}
	return os.Rename(part, to)
}

// Fetch copies a commit from one repository to another, under a name below refs/eval.
func Fetch(ctx context.Context, from, to, commit, name string) error {
	_, err := Git(ctx, to, "fetch", "--quiet", "--no-tags", "--upload-pack", "git -c uploadpack.allowAnySHA1InWant=true upload-pack",
		"--", from, "+"+commit+":refs/eval/"+name)
	return err
}

// Lay commits the state of a commit with patches on top of it, and returns the new commit, whose
// parent is base. The files that the first patch names are reset to those of base before, so that it
// applies whatever was done to them. Branches and work tree do not change.
func Lay(ctx context.Context, repo, onto, base string, patches ...string) (string, error) {
	var tree string
	err := withIndex(ctx, repo, onto, func(env []string) error {
		for i, patch := range patches {
			if strings.TrimSpace(patch) == "" {
				continue
			}
			if i == 0 && onto != base {
				if err := reset(ctx, repo, base, patch, env); err != nil {
					return err
				}
			}
			if _, err := gitWith(ctx, repo, ended(patch), env, "apply", "--cached", "--whitespace=nowarn", "-"); err != nil {
				return fmt.Errorf("apply a patch to %.12s: %w", onto, err)
			}
		}
		out, err := gitWith(ctx, repo, "", env, "write-tree")
		tree = strings.TrimSpace(out)
		return err
	})
	if err != nil {
		return "", err
	}
	return commitTree(ctx, repo, tree, base)
}

// withIndex calls do with the environment of an index of its own, which has the files of a commit.
func withIndex(ctx context.Context, repo, commit string, do func(env []string) error) error {
	scratch, err := os.MkdirTemp("", "rgpt-eval-")
	if err != nil {
		return fmt.Errorf("create a directory for an index: %w", err)
	}
	defer os.RemoveAll(scratch)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(scratch, "index")}
	if _, err := gitWith(ctx, repo, "", env, "read-tree", commit); err != nil {
		return err
	}
	return do(env)
}

// ended returns a patch with a line feed at its end, which published sets often lack.
func ended(patch string) string {
	if strings.HasSuffix(patch, "\n") {
		return patch
	}
	return patch + "\n"
}

// reset resets the files that a patch names to those of a commit.
func reset(ctx context.Context, repo, base, patch string, env []string) error {
	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	if err != nil {
		return fmt.Errorf("read a patch: %w", err)
	}
	var list strings.Builder
	seen := map[string]bool{}
	for _, f := range files {
		for _, name := range []string{f.OldName, f.NewName} {
			if name == "" || seen[name] {
				continue
			}
			seen[name] = true
			out, err := Git(ctx, repo, "ls-tree", "-z", base, "--", name)
			if err != nil {
				return err
			}
			fields := strings.Fields(strings.SplitN(out, "\t", 2)[0])
			if len(fields) != 3 || fields[1] != "blob" {
				fields = []string{"0", "", strings.Repeat("0", len(base))}
			}
			fmt.Fprintf(&list, "%s %s\t%s\x00", fields[0], fields[2], name)
		}
	}
	_, err = gitWith(ctx, repo, list.String(), env, "update-index", "-z", "--index-info")
	return err
}

// commitTree commits a tree under a name that keeps it reachable. The same tree always becomes the
// same commit.
func commitTree(ctx context.Context, repo, tree, parent string) (string, error) {
	const who, when = "rgpt", "2000-01-01T00:00:00Z"
	env := []string{
		"GIT_AUTHOR_NAME=" + who, "GIT_AUTHOR_EMAIL=rgpt@localhost", "GIT_AUTHOR_DATE=" + when,
		"GIT_COMMITTER_NAME=" + who, "GIT_COMMITTER_EMAIL=rgpt@localhost", "GIT_COMMITTER_DATE=" + when,
	}
	out, err := gitWith(ctx, repo, "", env, "commit-tree", "-p", parent, "-m", "State of an evaluation", tree)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(out)
	_, err = Git(ctx, repo, "update-ref", "refs/heads/eval/"+id, id)
	return id, err
}

// Patch returns the difference between two commits as a git patch, of the paths that keep accepts.
func Patch(ctx context.Context, repo, from, to string, keep func(path string) bool) (string, error) {
	changes, err := changesOf(ctx, repo, from, to)
	if err != nil {
		return "", err
	}
	args := []string{"diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", from, to, "--"}
	n := len(args)
	for _, c := range changes {
		if keep(c.path) {
			args = append(args, c.path)
		}
	}
	if len(args) == n {
		return "", nil
	}
	return Git(ctx, repo, args...)
}
