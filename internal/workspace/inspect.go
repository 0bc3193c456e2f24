package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// DefaultDiffBytes limits the text of Diff if the caller does not.
const DefaultDiffBytes = 256 << 10

// FileStat counts the changed lines of a file.
type FileStat struct {
	Path    string
	Added   int
	Deleted int
	Binary  bool // lines are not counted
}

// Stat summarizes a change.
type Stat struct {
	Files   []FileStat // in the order of paths
	Added   int
	Deleted int
}

// String is the summary in words, such as "3 files changed, 12 lines added, 4 removed".
func (s Stat) String() string {
	return fmt.Sprintf("%s changed, %s added, %d removed", count(len(s.Files), "file"), count(s.Added, "line"), s.Deleted)
}

// Paths returns the changed files.
func (s Stat) Paths() []string {
	out := make([]string, len(s.Files))
	for i, f := range s.Files {
		out[i] = f.Path
	}
	return out
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Diff returns the unified diff from the base to the workspace, with renames, for people and
// prompts. It is cut at the last end of a line within maxBytes, with a note; 0 means
// DefaultDiffBytes.
func (m *Manager) Diff(ctx context.Context, ws contract.Workspace, maxBytes int) (string, error) {
	var text string
	err := m.with(ctx, ws, func(r *mirror, baseTree string) (err error) {
		text, err = r.diff(ctx, baseTree, ws.Tree, maxBytes)
		return err
	})
	return text, err
}

// DiffBetween is Diff between two workspaces of the same base.
func (m *Manager) DiffBetween(ctx context.Context, from, to contract.Workspace, maxBytes int) (string, error) {
	var text string
	err := m.with(ctx, from, func(r *mirror, baseTree string) (err error) {
		if err = r.ensure(ctx, to.Of(from), baseTree); err == nil {
			text, err = r.diff(ctx, from.Tree, to.Tree, maxBytes)
		}
		return err
	})
	return text, err
}

func (r *mirror) diff(ctx context.Context, from, to string, maxBytes int) (string, error) {
	return r.diffOf(ctx, from, to, "", maxBytes)
}

// diffOf is diff for one path, or for all if it is empty.
func (r *mirror) diffOf(ctx context.Context, from, to, path string, maxBytes int) (string, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultDiffBytes
	}
	var out bytes.Buffer
	limited := &limitedWriter{w: &out, left: int64(maxBytes)}
	args := []string{"diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", from, to}
	if path != "" {
		args = append(args, "--", path)
	}
	_, err := r.run(ctx, call{stdout: limited, args: args})
	if limited.cut {
		text := out.String()
		text = text[:strings.LastIndexByte(text, '\n')+1]
		return strings.ToValidUTF8(text, "\uFFFD") + fmt.Sprintf("[diff truncated: it is longer than %d bytes]\n", maxBytes), nil
	}
	if err != nil {
		return "", localFault(err, "could not create a workspace diff")
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), nil
}

// maxAddedDiff limits the diff that AddedLines reads.
const maxAddedDiff = 16 << 20

// AddedLines returns the lines of a workspace that its base does not have, by file. Of a moved file,
// only edited lines count.
func (m *Manager) AddedLines(ctx context.Context, ws contract.Workspace) (map[string][]contract.LineRange, error) {
	added := map[string][]contract.LineRange{}
	err := m.with(ctx, ws, func(r *mirror, baseTree string) error {
		if baseTree == ws.Tree {
			return nil
		}
		var out bytes.Buffer
		limited := &limitedWriter{w: &out, left: maxAddedDiff}
		_, err := r.run(ctx, call{stdout: limited, args: []string{
			"diff-tree", "-r", "-p", "-U0", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", baseTree, ws.Tree,
		}})
		if limited.cut {
			return fault.New(contract.ClassRuntime, contract.CodeTooLarge, "the diff is larger than %d MiB", maxAddedDiff>>20)
		}
		if err != nil {
			return localFault(err, "could not create a workspace diff")
		}
		files, _, err := gitdiff.Parse(&out)
		if err != nil {
			return fmt.Errorf("read a workspace diff: %w", err)
		}
		for _, f := range files {
			for _, part := range f.TextFragments {
				if part.NewLines > 0 {
					added[f.NewName] = append(added[f.NewName], contract.LineRange{First: int(part.NewPosition), Last: int(part.NewPosition + part.NewLines - 1)})
				}
			}
		}
		return nil
	})
	return added, err
}

// DiffStat returns the files that differ from the base, with the numbers of changed lines. A
// renamed file counts as one removed and one added.
func (m *Manager) DiffStat(ctx context.Context, ws contract.Workspace) (Stat, error) {
	var stat Stat
	err := m.with(ctx, ws, func(r *mirror, baseTree string) (err error) {
		stat, err = r.stat(ctx, baseTree, ws.Tree)
		return err
	})
	return stat, err
}

// DiffStatBetween is DiffStat between two workspaces of the same base.
func (m *Manager) DiffStatBetween(ctx context.Context, from, to contract.Workspace) (Stat, error) {
	var stat Stat
	err := m.with(ctx, from, func(r *mirror, baseTree string) (err error) {
		if err = r.ensure(ctx, to.Of(from), baseTree); err == nil {
			stat, err = r.stat(ctx, from.Tree, to.Tree)
		}
		return err
	})
	return stat, err
}

func (r *mirror) stat(ctx context.Context, from, to string) (Stat, error) {
	if stat, err := r.plainStat(ctx, from, to); !errors.Is(err, errNeedsGit) {
		return stat, err
	}
	return r.gitStat(ctx, from, to)
}

// plainStat is stat without git, for files whose changed lines can only be counted in one way.
func (r *mirror) plainStat(ctx context.Context, from, to string) (Stat, error) {
	entries, err := r.plainEntries(ctx, from, to, false)
	if err != nil {
		return Stat{}, err
	}
	if len(entries) > maxDifference {
		return Stat{}, errNeedsGit
	}
	var stat Stat
	for _, e := range entries {
		if ctx.Err() != nil {
			return Stat{}, wrapf(context.Cause(ctx), "the comparison of two states of the repository was stopped")
		}
		file, err := r.plainFileStat(e)
		if err != nil {
			return Stat{}, err
		}
		stat.Files = append(stat.Files, file)
		stat.Added += file.Added
		stat.Deleted += file.Deleted
	}
	return stat, nil
}

// plainFileStat counts the changed lines of a file. If a line is in both of the parts that differ, it
// is up to git whether it has moved.
func (r *mirror) plainFileStat(e ChangedEntry) (FileStat, error) {
	file := FileStat{Path: e.Path}
	if e.Before.ID == e.After.ID {
		return file, nil
	}
	before, err := r.text(treeEntry{mode: e.Before.Mode, id: e.Before.ID})
	if err != nil {
		return file, err
	}
	after, err := r.text(treeEntry{mode: e.After.Mode, id: e.After.ID})
	if err != nil {
		return file, err
	}
	same, tail := sameEnds(before, after)
	gone, come := before[same:len(before)-tail], after[same:len(after)-tail]
	lines := make(map[string]bool, len(gone))
	for _, line := range gone {
		lines[line] = true
	}
	if slices.ContainsFunc(come, func(line string) bool { return lines[line] }) {
		return file, errNeedsGit
	}
	file.Added, file.Deleted = len(come), len(gone)
	return file, nil
}

// gitStat is stat with git.
func (r *mirror) gitStat(ctx context.Context, from, to string) (Stat, error) {
	out, err := r.run(ctx, call{args: []string{"diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", from, to}})
	if err != nil {
		return Stat{}, localFault(err, "could not create a workspace diff")
	}
	return parseNumstat(string(out)), nil
}

func parseNumstat(out string) Stat {
	var stat Stat
	for record := range strings.SplitSeq(out, "\x00") {
		fields := strings.SplitN(record, "\t", 3)
		if len(fields) != 3 {
			continue
		}
		file := FileStat{Path: fields[2], Binary: fields[0] == "-"}
		file.Added, _ = strconv.Atoi(fields[0])
		file.Deleted, _ = strconv.Atoi(fields[1])
		stat.Files = append(stat.Files, file)
		stat.Added += file.Added
		stat.Deleted += file.Deleted
	}
	return stat
}

// Files returns the paths of all files of the workspace, sorted. The caller may modify the list.
func (m *Manager) Files(ctx context.Context, ws contract.Workspace) ([]string, error) {
	var files []string
	err := m.with(ctx, ws, func(r *mirror, baseTree string) (err error) {
		files, err = r.files(ctx, baseTree, ws.Tree)
		return err
	})
	return slices.Clone(files), err
}

// files lists a tree, using the known files of the base and the differences from it, because the
// steps of a run repeatedly request nearly the same list.
func (r *mirror) files(ctx context.Context, baseTree, tree string) ([]string, error) {
	if files, ok := r.m.listed.get(tree); ok {
		return files, nil
	}
	files, err := r.filesFrom(ctx, baseTree, tree)
	if errors.Is(err, errNeedsGit) {
		files, err = r.listTree(ctx, tree)
	}
	if err == nil {
		r.m.listed.put(tree, files)
	}
	return files, err
}

// filesFrom lists a tree using its difference from the base.
func (r *mirror) filesFrom(ctx context.Context, baseTree, tree string) ([]string, error) {
	if tree == baseTree {
		return nil, errNeedsGit
	}
	differ := map[string]bool{} // true: it exists
	err := r.changedFiles(baseTree, tree, "", func(c fileChange) error {
		differ[c.path] = c.new.mode != ""
		return nil
	})
	if err != nil {
		return nil, err
	}
	base, err := r.files(ctx, baseTree, baseTree)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, path := range base {
		if _, changed := differ[path]; !changed {
			files = append(files, path)
		}
	}
	for path, there := range differ {
		if there {
			files = append(files, path)
		}
	}
	slices.Sort(files)
	return files, nil
}

// listTree lists a tree with git.
func (r *mirror) listTree(ctx context.Context, tree string) ([]string, error) {
	out, err := r.run(ctx, call{args: []string{"ls-tree", "-r", "-z", "--name-only", tree}})
	if err != nil {
		return nil, localFault(err, "could not list the files in a workspace")
	}
	files := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return files, nil
}

// maxListings is the number of trees whose file lists are kept in memory.
const maxListings = 8

// listings caches the files of trees; the content of a tree never changes.
type listings struct {
	mu    sync.Mutex
	trees []string // most recently used last
	files map[string][]string
}

func (l *listings) get(tree string) ([]string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	files, ok := l.files[tree]
	if ok {
		l.touch(tree)
	}
	return files, ok
}

func (l *listings) put(tree string, files []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = map[string][]string{}
	}
	l.files[tree] = files
	l.touch(tree)
	if len(l.trees) > maxListings {
		delete(l.files, l.trees[0])
		l.trees = l.trees[1:]
	}
}

func (l *listings) touch(tree string) {
	l.trees = append(slices.DeleteFunc(l.trees, func(t string) bool { return t == tree }), tree)
}

// BaseFile returns the content of a file at the workspace's base commit; false if no regular file
// has that name, or if it is larger than most bytes.
func (m *Manager) BaseFile(ctx context.Context, ws contract.Workspace, name string, most int64) (content []byte, found bool, err error) {
	err = m.with(ctx, ws, func(r *mirror, baseTree string) (err error) {
		content, found, err = r.file(ctx, baseTree, name, most)
		return err
	})
	return content, found, err
}

// File is BaseFile for the content of the workspace itself.
func (m *Manager) File(ctx context.Context, ws contract.Workspace, name string, most int64) (content []byte, found bool, err error) {
	err = m.with(ctx, ws, func(r *mirror, _ string) (err error) {
		content, found, err = r.file(ctx, ws.Tree, name, most)
		return err
	})
	return content, found, err
}

func (r *mirror) file(ctx context.Context, tree, name string, most int64) ([]byte, bool, error) {
	content, found, err := r.plainFile(tree, name, most)
	if errors.Is(err, errNeedsGit) {
		return r.gitFile(ctx, tree, name, most)
	}
	return content, found, err
}

// plainFile reads a file of a tree without git.
func (r *mirror) plainFile(tree, name string, most int64) ([]byte, bool, error) {
	there, found, err := r.find(tree, strings.Split(name, "/"))
	if err != nil || !found || there.mode != modeFile && there.mode != modeExecutable {
		return nil, false, err
	}
	content, err := r.object(kindBlob, there.id)
	if err != nil || int64(len(content)) > most {
		return nil, false, err
	}
	return content, true, nil
}

// gitFile reads a file of a tree with git.
func (r *mirror) gitFile(ctx context.Context, tree, name string, most int64) ([]byte, bool, error) {
	out, err := r.run(ctx, call{args: []string{"ls-tree", "-z", "--long", tree, "--", name}})
	if err != nil {
		return nil, false, localFault(err, "could not look up the file %s", name)
	}
	// mode, kind, id, size, then the name after a tab
	fields := strings.Fields(strings.SplitN(string(out), "\t", 2)[0])
	if len(fields) != 4 || fields[1] != kindBlob || fields[0] == modeLink {
		return nil, false, nil
	}
	size, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil {
		return nil, false, fmt.Errorf("read the size of %s: %w", name, err)
	}
	if size > most {
		return nil, false, nil
	}
	content, err := r.run(ctx, call{args: []string{"cat-file", kindBlob, fields[2]}})
	if err != nil {
		return nil, false, localFault(err, "could not read the file %s", name)
	}
	return content, true, nil
}

// with calls f with the mirror that contains the workspace's tree.
func (m *Manager) with(ctx context.Context, ws contract.Workspace, f func(r *mirror, baseTree string) error) error {
	repo, baseTree, lock, err := m.use(ctx, ws.Repo, ws.Base)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := repo.ensure(ctx, ws, baseTree); err != nil {
		return err
	}
	return f(repo, baseTree)
}
