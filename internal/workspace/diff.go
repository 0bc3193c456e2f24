package workspace

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// change is the difference between the base's tree and another tree.
type change struct {
	patch     []byte
	lostLinks []gitlink // submodules of the base that are missing from the tree
}

type gitlink struct{ path, id string }

// limits restrict a change. size returns the size of a changed file; nil if sizes were checked
// earlier.
type limits struct {
	files    int
	patch    int64
	fileSize int64
	size     func(path string) int64
}

// change compares a tree with the base's tree.
func (r *mirror) change(ctx context.Context, baseTree, tree string, limit limits) (change, error) {
	if tree == baseTree {
		return change{}, nil
	}
	if c, err := r.plainChange(ctx, baseTree, tree, limit); !errors.Is(err, errNeedsGit) {
		return c, err
	}
	return r.gitChange(ctx, baseTree, tree, limit)
}

// gitChange is change with git, for all cases. One process lists the changed files and then writes
// the patch; the list is checked before the patch is read, so an oversized change is stopped early.
func (r *mirror) gitChange(ctx context.Context, baseTree, tree string, limit limits) (change, error) {
	w := &changeWriter{limit: limit}
	_, err := r.run(ctx, call{stdout: w, args: []string{
		"diff-tree", "-r", "--raw", "-p", "--binary", "--full-index", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--no-color", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", baseTree, tree,
	}})
	if w.err != nil {
		return change{}, w.err
	}
	if err != nil {
		return change{}, localFault(err, "could not compare a workspace with its base")
	}
	if err := w.finish(); err != nil {
		return change{}, err
	}
	return change{patch: w.buffer.Bytes(), lostLinks: w.lostLinks}, nil
}

// changeWriter parses git's raw list of files, then collects the patch.
type changeWriter struct {
	limit     limits
	buffer    bytes.Buffer
	inPatch   bool
	lostLinks []gitlink
	err       error
}

var patchStart = []byte("\n\ndiff --git ")

func (w *changeWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.buffer.Write(p)
	if !w.inPatch {
		if end := bytes.Index(w.buffer.Bytes(), patchStart); end >= 0 {
			w.inPatch = true
			w.err = w.readList(string(w.buffer.Next(end + 2)))
		}
	}
	if w.err == nil {
		w.err = w.limit.checkPatch(w.buffer.Len())
	}
	return len(p), w.err
}

// finish handles a list without a patch, which git is not expected to write.
func (w *changeWriter) finish() error {
	if !w.inPatch {
		return runtimeFault("git listed changed files but wrote no patch")
	}
	return nil
}

// readList reads lines such as ":100644 100755 <id> <id> M\tpath", with unusual paths quoted.
func (w *changeWriter) readList(list string) error {
	count := 0
	for line := range strings.SplitSeq(strings.TrimSpace(list), "\n") {
		head, path, _ := strings.Cut(strings.TrimPrefix(line, ":"), "\t")
		fields := strings.Fields(head)
		if len(fields) < 5 {
			return runtimeFault("git wrote an unexpected line: %q", line)
		}
		path = unquotePath(path)
		if fields[0] == modeGitlink {
			w.lostLinks = append(w.lostLinks, gitlink{path: path, id: fields[2]})
		} else if fields[1] == modeGitlink {
			return fault.New(contract.ClassSafety, contract.CodeForbidden, "a git repository was created at %s inside the workspace; remove it", path)
		}
		count++
		if err := w.limit.check(count, path); err != nil {
			return err
		}
	}
	return nil
}

// unquotePath reverses git's quoting of unusual paths: C string escapes with octal bytes.
func unquotePath(path string) string {
	if !strings.HasPrefix(path, `"`) {
		return path
	}
	if plain, err := strconv.Unquote(path); err == nil {
		return plain
	}
	return path
}
