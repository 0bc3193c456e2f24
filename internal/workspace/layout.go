package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A directory from elsewhere can redirect git to other repositories on this host through
// alternates, symbolic links, core.worktree or a .git file. A run would then pass their content to
// a model and to a remote configured in that directory. So the data that git reads must be inside
// the repository, in a directory that refers back to it, or where the operator allows it.

// maxLinked limits the size of a git file that refers to another location.
const maxLinked = 64 << 10

// checkLayout rejects a repository on this host whose data is outside it. It takes the top of a
// work tree or a bare repository.
func (m *Manager) checkLayout(ctx context.Context, top string) error {
	dir, err := m.gitDirOf(ctx, top)
	if err != nil {
		return err
	}
	common, err := m.commonDir(top, dir)
	if err != nil {
		return err
	}
	if m.isLinked(common) {
		return nil
	}
	for _, d := range slices.Compact([]string{dir, common}) {
		if err := m.checkGitDir(ctx, top, d); err != nil {
			return err
		}
	}
	return m.checkAlternates(top, common)
}

// gitDirOf returns the git directory of a work tree, or a bare repository itself.
func (m *Manager) gitDirOf(ctx context.Context, top string) (string, error) {
	name := filepath.Join(top, ".git")
	stat, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return filepath.EvalSymlinks(top)
	case err != nil:
		return "", repoFault("cannot read the repository %s: %v", top, err)
	case stat.IsDir():
		return filepath.EvalSymlinks(name)
	}
	target, err := os.Readlink(name)
	if err != nil {
		if target, err = named(name, "gitdir: "); err != nil {
			return "", repoFault("%s is neither a directory nor a file that refers to one", name)
		}
	}
	dir, err := resolved(top, target)
	if err != nil {
		return "", repoFault("%s refers to %s, which cannot be read", name, target)
	}
	if m.isLinked(dir) || stat.Mode().IsRegular() && m.pointsBack(ctx, dir, top) {
		return dir, nil
	}
	return "", elsewhere(top, ".git refers to "+dir, dir)
}

// pointsBack reports whether a git directory refers back to a work tree: the directory of a linked
// worktree or a submodule does.
func (m *Manager) pointsBack(ctx context.Context, dir, top string) bool {
	if file, err := named(filepath.Join(dir, "gitdir"), ""); err == nil {
		back, err := resolved(dir, filepath.Dir(file))
		return err == nil && same(back, top)
	}
	out, err := m.git(ctx, call{args: []string{"config", "--no-includes", "--file", filepath.Join(dir, "config"), "core.worktree"}, dir: dir, user: true})
	if err != nil {
		return false
	}
	back, err := resolved(dir, strings.TrimSpace(string(out)))
	return err == nil && same(back, top)
}

// commonDir returns the directory with the objects and branches of a git directory: for a linked
// worktree, the git directory of its repository, which contains the worktree's own.
func (m *Manager) commonDir(top, dir string) (string, error) {
	name, err := named(filepath.Join(dir, "commondir"), "")
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", repoFault("%s cannot be read", filepath.Join(dir, "commondir"))
	}
	common, err := resolved(dir, name)
	if err != nil {
		return "", repoFault("%s refers to %s, which cannot be read", filepath.Join(dir, "commondir"), name)
	}
	if m.isLinked(common) || filepath.Dir(dir) == filepath.Join(common, "worktrees") {
		return common, nil
	}
	return "", elsewhere(top, "its commondir refers to "+common, common)
}

// checkGitDir rejects links and special files among the files of a repository that git reads.
func (m *Manager) checkGitDir(ctx context.Context, top, dir string) error {
	for _, name := range []string{"HEAD", "config", "config.worktree", "packed-refs", "shallow", "commondir", "gitdir", "info", "objects", "refs", "reftable", "worktrees"} {
		path := filepath.Join(dir, name)
		stat, err := os.Lstat(path)
		var bad string
		var kind fs.FileMode
		switch {
		case err != nil:
		case stat.IsDir():
			bad, kind, err = m.regular.irregular(ctx, path, name == "info")
		case !stat.Mode().IsRegular():
			bad, kind = path, stat.Mode()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, fs.ErrNotExist): // git may remove it meanwhile
			return repoFault("cannot read the repository %s: %v", top, err)
		case bad != "":
			return repoFault("%s is %s; a repository's data must be in its own files and directories, unless git.linked_folders in your own configuration lists %s", bad, kindOf(kind), dir)
		}
	}
	return nil
}

// regularDirs are directories that contain nothing but regular files, with the time of their last change.
// Whatever replaces a file by a link changes that time. A repository can have many thousands of objects,
// few of which are new since the last run. It is safe for concurrent use.
type regularDirs struct {
	now func() time.Time

	mu   sync.Mutex
	dirs map[string]dirChange
}

// dirChange is the time at which a directory was last changed.
type dirChange struct {
	device, inode uint64
	seconds, nano int64
}

const (
	// maxRegularDirs limits the directories that are remembered. A repository has about 260 of them.
	maxRegularDirs = 20_000
	// settled is how long a directory must be unchanged before it is remembered: two changes in quick
	// succession could have the same time.
	settled = time.Second
)

// changeOf returns when a directory was last changed.
func changeOf(dir string) (dirChange, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return dirChange{}, &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	return dirChange{stat.Dev, stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec}, nil
}

func newRegularDirs() *regularDirs {
	return &regularDirs{now: time.Now, dirs: map[string]dirChange{}}
}

func (r *regularDirs) has(dir string, change dirChange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.dirs[dir]
	return ok && known == change
}

func (r *regularDirs) add(dir string, change dirChange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.dirs) >= maxRegularDirs {
		clear(r.dirs)
	}
	r.dirs[dir] = change
}

// irregular returns the first link or special file in a directory, with its type; links in the directory
// itself may be allowed. Unlike filepath.WalkDir, it neither sorts files nor joins their paths.
func (r *regularDirs) irregular(ctx context.Context, dir string, links bool) (string, fs.FileMode, error) {
	if ctx.Err() != nil {
		return "", 0, ctx.Err()
	}
	began := r.now()
	change, err := changeOf(dir)
	if err != nil || r.has(dir, change) {
		return "", 0, err
	}
	open, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", 0, err
	}
	entries, err := open.ReadDir(-1)
	_ = open.Close()
	if err != nil {
		return "", 0, err
	}
	plain := true // nothing but regular files
	for _, e := range entries {
		if e.Type().IsRegular() {
			continue
		}
		plain = false
		switch {
		case e.IsDir():
			bad, kind, err := r.irregular(ctx, filepath.Join(dir, e.Name()), false)
			if bad != "" || err != nil && !errors.Is(err, fs.ErrNotExist) {
				return bad, kind, err
			}
		case !links:
			return filepath.Join(dir, e.Name()), e.Type(), nil
		}
	}
	if plain && began.Sub(time.Unix(change.seconds, change.nano)) > settled {
		r.add(dir, change)
	}
	return "", 0, nil
}

func kindOf(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "a symbolic link"
	}
	return "a special file"
}

// checkAlternates rejects objects borrowed from elsewhere.
func (m *Manager) checkAlternates(top, common string) error {
	objects := filepath.Join(common, "objects")
	name := filepath.Join(objects, "info", "alternates")
	stat, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var data []byte
	if err == nil && stat.Size() <= maxLinked {
		data, err = os.ReadFile(name)
	}
	if err != nil || stat.Size() > maxLinked {
		return repoFault("%s in the repository %s cannot be read or is too large", name, top)
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// Git reads quoted paths, and paths up to a NUL. Such lines have no legitimate use.
		if strings.HasPrefix(line, `"`) || strings.ContainsAny(line, "\x00\r\t") || strings.TrimSpace(line) != line {
			return repoFault("%s in the repository %s contains a path that is not in canonical form: %q", name, top, line)
		}
		dir, err := resolved(objects, line)
		if err != nil {
			return repoFault("the repository %s borrows objects from %s, which cannot be read; remove that path from %s", top, line, name)
		}
		if !m.isLinked(dir) {
			return elsewhere(top, "it borrows objects from "+dir+" (objects/info/alternates)", filepath.Dir(dir))
		}
	}
	return nil
}

// elsewhere returns the error for a repository with data in another location.
func elsewhere(top, how, dir string) error {
	return repoFault("the repository %s uses git data outside its own directory: %s. To allow this, add %s to git.linked_folders in your own configuration; "+
		"otherwise make an independent clone (git clone --no-local)", top, how, dir)
}

// isLinked reports whether the operator allows repositories to use a directory.
func (m *Manager) isLinked(dir string) bool {
	return slices.ContainsFunc(m.options.LinkedFolders, func(root string) bool {
		root, err := filepath.EvalSymlinks(root)
		return err == nil && within(root, dir)
	})
}

// within reports whether a path is root or inside it; both must be free of links.
func within(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// same reports whether two paths are the same directory.
func same(a, b string) bool {
	left, err := os.Stat(a)
	if err != nil {
		return false
	}
	right, err := os.Stat(b)
	return err == nil && os.SameFile(left, right)
}

// resolved returns a path from a file in dir with all links resolved.
func resolved(dir, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	return filepath.EvalSymlinks(path)
}

// named reads a git file that consists of a prefix and a path, and returns the path.
func named(file, prefix string) (string, error) {
	stat, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if !stat.Mode().IsRegular() || stat.Size() > maxLinked {
		return "", fs.ErrInvalid
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if !ok || path == "" || strings.ContainsRune(path, '\x00') {
		return "", fs.ErrInvalid
	}
	return path, nil
}
