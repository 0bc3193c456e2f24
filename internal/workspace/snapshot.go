package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Snapshot is the content of a user's work tree at one moment.
type Snapshot struct {
	Workspace contract.Workspace
	Changed   int      // files that differ from the checked-out commit
	Skipped   []string // what cannot be part of a workspace: other repositories and special files
}

// Snapshot returns the content of a work tree on this host: the commit of start, which is checked
// out there, with all changed and new files that git does not ignore. Files below the directories in
// exclude are left out. The work tree and its index do not change.
//
// Content is taken byte for byte. A file that matches git's index is unchanged, even if a filter
// (such as Git LFS) gave it other content than the commit has.
func (m *Manager) Snapshot(ctx context.Context, start contract.Workspace, exclude ...string) (Snapshot, error) {
	entries, err := m.changedInWorkTree(ctx, start)
	if err != nil {
		return Snapshot{}, err
	}
	var out Snapshot
	err = m.with(ctx, start, func(r *mirror, baseTree string) error {
		root, err := os.OpenRoot(start.Repo)
		if err != nil {
			return repoFault("cannot read the work tree of %s: %v", start.Repo, err)
		}
		defer root.Close()
		taken := taking{r: r, root: root, idLength: len(baseTree)}
		for _, e := range entries {
			if below(filepath.Join(start.Repo, e.path), exclude) {
				continue
			}
			if err := taken.add(ctx, e); err != nil {
				return err
			}
		}
		out.Changed, out.Skipped = taken.changed, taken.skipped
		tree, err := r.treeOf(ctx, baseTree, taken.removed.String()+taken.written.String())
		if err != nil {
			return err
		}
		out.Workspace, err = r.based(ctx, start, baseTree, tree)
		return err
	})
	return out, err
}

func below(path string, dirs []string) bool {
	for _, dir := range dirs {
		if within(dir, path) {
			return true
		}
	}
	return false
}

// Onto returns a workspace as a change of another commit of its repository.
func (m *Manager) Onto(ctx context.Context, ws contract.Workspace, base string) (contract.Workspace, error) {
	var out contract.Workspace
	err := m.with(ctx, ws, func(r *mirror, _ string) error {
		_, baseTree, lock, err := m.use(ctx, ws.Repo, base)
		if err != nil {
			return err
		}
		defer lock.release()
		out, err = r.based(ctx, contract.Workspace{Repo: ws.Repo, Base: base}, baseTree, ws.Tree)
		return err
	})
	return out, err
}

// Apply returns a workspace with a patch applied to it, which must be in git's format. A patch that
// does not apply is a HUMAN_ERROR. No directory is used, so that paths and links in the patch reach
// nothing on this host.
func (m *Manager) Apply(ctx context.Context, ws contract.Workspace, patch []byte) (contract.Workspace, error) {
	if int64(len(patch)) > m.options.MaxPatchBytes {
		return contract.Workspace{}, tooLarge("the patch is larger than %d MB; split it", m.options.MaxPatchBytes>>20)
	}
	var out contract.Workspace
	err := m.with(ctx, ws, func(r *mirror, baseTree string) error {
		tree, err := r.apply(ctx, ws.Tree, patch)
		var ge *gitError
		if errors.As(err, &ge) {
			return fault.Wrap(err, contract.ClassHuman, contract.CodeRepository, "the patch does not apply to %.12s; create it with git diff --binary from that commit", ws.Base)
		}
		if err != nil {
			return err
		}
		out, err = r.based(ctx, ws, baseTree, tree)
		return err
	})
	return out, err
}

// based returns a tree in the object store as a change of a base.
func (r *mirror) based(ctx context.Context, of contract.Workspace, baseTree, tree string) (contract.Workspace, error) {
	c, err := r.change(ctx, baseTree, tree, limits{files: r.m.options.MaxChangedFiles, patch: r.m.options.MaxPatchBytes})
	if err != nil {
		return contract.Workspace{}, err
	}
	return r.state(ctx, of, tree, c)
}

// MergeBase returns the newest common ancestor of two commits of a repository on this host, or "" if
// it has none, or if a shallow clone does not contain it.
func (m *Manager) MergeBase(ctx context.Context, top, a, b string) (string, error) {
	out, err := m.local(ctx, top, nil, "merge-base", a, b)
	var ge *gitError
	if errors.As(err, &ge) {
		return "", nil
	}
	if err != nil || !commitID.MatchString(out) {
		return "", err
	}
	return out, nil
}

// workTreeEntry is a path that differs between a work tree and its commit.
type workTreeEntry struct {
	path    string
	mode    string // as git sees it in the work tree; "": unknown, because the path is new
	removed bool
}

// changedInWorkTree lists the paths that differ between a work tree and its commit, which must be
// that of start.
func (m *Manager) changedInWorkTree(ctx context.Context, start contract.Workspace) ([]workTreeEntry, error) {
	top := start.Repo
	config, err := m.withoutFilters(ctx, top)
	if err != nil {
		return nil, err
	}
	if file := m.userExcludes(ctx); file != "" {
		config = append(config, [2]string{"core.excludesFile", file})
	}
	out, err := m.local(ctx, top, config, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames")
	if err != nil {
		return nil, localFault(err, "could not read the state of %s", top)
	}
	head, err := m.local(ctx, top, nil, "rev-parse", "--verify", "-q", "HEAD^{commit}")
	if err != nil {
		return nil, localFault(err, "could not read the state of %s", top)
	}
	if head != start.Base {
		return nil, repoFault("the commit that is checked out in %s changed from %.12s to %.12s while its files were read; try again", top, start.Base, head)
	}
	entries, err := parseStatus(out)
	if err == nil && len(entries) > m.options.MaxChangedFiles {
		err = repoFault("more than %d files in %s are changed or new; list generated files in .gitignore", m.options.MaxChangedFiles, top)
	}
	return entries, err
}

// parseStatus reads the output of git status --porcelain=v2 -z without renames.
func parseStatus(out string) ([]workTreeEntry, error) {
	var entries []workTreeEntry
	for record := range strings.SplitSeq(out, "\x00") {
		kind, rest, _ := strings.Cut(record, " ")
		fields, at := 0, 0 // before the path, and the index of the mode in the work tree among them
		switch kind {
		case "", "#", "!":
			continue
		case "?":
			entries = append(entries, workTreeEntry{path: rest})
			continue
		case "1": // XY sub mH mI mW hH hI path
			fields, at = 7, 4
		case "u": // XY sub m1 m2 m3 mW h1 h2 h3 path
			fields, at = 9, 5
		}
		parts := strings.SplitN(rest, " ", fields+1)
		if fields == 0 || len(parts) != fields+1 {
			return nil, runtimeFault("git reports an unknown state of a file: %q", record)
		}
		e := workTreeEntry{path: parts[fields], mode: parts[at]}
		e.removed = e.mode == "000000" || parts[0] == "D."
		entries = append(entries, e)
	}
	return entries, nil
}

// taking collects what changed in a work tree, as input of git update-index.
type taking struct {
	r        *mirror
	root     *os.Root
	idLength int

	removed, written strings.Builder // lines; git needs the removed paths first
	changed          int
	skipped          []string
	bytes            int64
}

func (t *taking) add(ctx context.Context, e workTreeEntry) error {
	if ctx.Err() != nil {
		return wrapf(context.Cause(ctx), "reading the work tree was stopped")
	}
	if e.removed {
		t.remove(e.path)
		return nil
	}
	mode, content, err := t.read(e)
	switch {
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		t.remove(e.path)
		return nil
	case err != nil:
		return err
	case mode == "":
		t.skipped = append(t.skipped, e.path)
		return nil
	}
	if t.bytes += int64(len(content)); t.bytes > t.r.m.options.MaxPatchBytes {
		return repoFault("the changed and new files total more than %d MB; list generated files in .gitignore", t.r.m.options.MaxPatchBytes>>20)
	}
	id, err := t.r.writeObject(kindBlob, t.idLength, content)
	if err != nil {
		return wrapf(err, "could not record the file %s", e.path)
	}
	t.written.WriteString(mode + " " + id + "\t" + e.path + "\x00")
	t.changed++
	return nil
}

func (t *taking) remove(path string) {
	t.removed.WriteString("0 " + strings.Repeat("0", t.idLength) + "\t" + path + "\x00")
	t.changed++
}

// read returns the mode and content of a path; mode "" if it cannot be part of a workspace.
func (t *taking) read(e workTreeEntry) (mode string, content []byte, err error) {
	name := filepath.FromSlash(e.path)
	if strings.HasSuffix(e.path, "/") || e.mode == modeGitlink { // another repository
		return "", nil, nil
	}
	info, err := t.root.Lstat(name)
	if err != nil {
		return "", nil, unreadable(e.path, err)
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := t.root.Readlink(name)
		return modeLink, []byte(target), unreadable(e.path, err)
	case !info.Mode().IsRegular():
		return "", nil, nil
	case e.mode != "":
		mode = e.mode
	case info.Mode().Perm()&0o100 != 0:
		mode = modeExecutable
	default:
		mode = modeFile
	}
	file, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, unreadable(e.path, err)
	}
	defer file.Close()
	most := t.r.m.options.MaxFileBytes
	content, err = io.ReadAll(io.LimitReader(file, most+1))
	if int64(len(content)) > most {
		return "", nil, repoFault("the file %s is larger than %d MB (execution.sandbox.file_size); list it in .gitignore", e.path, most>>20)
	}
	return mode, content, unreadable(e.path, err)
}

func unreadable(path string, err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return repoFault("cannot read the file %s: %v", path, err)
}

// treeOf returns a tree with the changes of git update-index --index-info.
func (r *mirror) treeOf(ctx context.Context, tree, changes string) (string, error) {
	if changes == "" {
		return tree, nil
	}
	dir, err := os.MkdirTemp(r.bootDir(), "index-")
	if err != nil {
		return "", wrapf(err, "cannot write to the cache for %s", r.source)
	}
	defer os.RemoveAll(dir)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if _, err := r.run(ctx, call{args: []string{"read-tree", tree}, env: env}); err != nil {
		return "", localFault(err, "could not record the work tree of %s", r.source)
	}
	var ge *gitError
	_, err = r.run(ctx, call{args: []string{"update-index", "-z", "--index-info"}, env: env, stdin: strings.NewReader(changes)})
	if errors.As(err, &ge) && strings.Contains(ge.stderr, "nvalid path") {
		return "", repoFault("the work tree of %s contains a file that would be dangerous to check out elsewhere: %s", r.source, ge.stderr)
	}
	if err != nil {
		return "", localFault(err, "could not record the work tree of %s", r.source)
	}
	out, err := r.run(ctx, call{args: []string{"write-tree"}, env: env})
	if err != nil {
		return "", localFault(err, "could not record the work tree of %s", r.source)
	}
	return strings.TrimSpace(string(out)), nil
}

// userExcludes returns the user's own list of ignored files, "" if there is none. Nothing else of
// the user's configuration applies to git here.
func (m *Manager) userExcludes(ctx context.Context) string {
	home, config := os.Getenv("HOME"), os.Getenv("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	files := []string{os.Getenv("GIT_CONFIG_GLOBAL")}
	if files[0] == "" {
		files = []string{filepath.Join(home, ".gitconfig"), filepath.Join(config, "git", "config")}
	}
	for _, file := range files {
		if !filepath.IsAbs(file) {
			continue
		}
		out, err := m.git(ctx, call{
			args: []string{"config", "--file", file, "--includes", "--type=path", "--get", "core.excludesFile"}, dir: m.options.CacheDir,
			env: []string{"HOME=" + home}, user: true,
		})
		if name := strings.TrimSuffix(string(out), "\n"); err == nil && filepath.IsAbs(name) {
			return name
		}
	}
	if file := filepath.Join(config, "git", "ignore"); filepath.IsAbs(file) {
		return file
	}
	return ""
}

// withoutFilters returns settings that disable the filters of a repository's configuration, which
// git would run to compare files.
func (m *Manager) withoutFilters(ctx context.Context, top string) ([][2]string, error) {
	names, err := m.local(ctx, top, nil, "config", "-z", "--name-only", "--get-regexp", `^filter\.`)
	var ge *gitError
	if err != nil && (!errors.As(err, &ge) || ge.code != 1) {
		return nil, localFault(err, "could not read the configuration of %s", top)
	}
	var config [][2]string
	for name := range strings.SplitSeq(names, "\x00") {
		if driver := strings.LastIndexByte(name, '.'); driver > len("filter.") {
			for _, key := range []string{".clean", ".smudge", ".process"} {
				config = append(config, [2]string{name[:driver] + key, ""})
			}
			config = append(config, [2]string{name[:driver] + ".required", "false"})
		}
	}
	return config, nil
}
