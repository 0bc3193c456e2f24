package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/rmtree"
)

// Dir is an open directory with the content of a workspace. The caller must close it.
//
// On disk, beside each other:
//
//	work/   the work tree, all that a sandbox sees
//	index   git's index
//	tree    the marker: repository, boot and tree that work holds, whether the
//	        index is behind, and whether the directory is plain or reused
//
// The marker is absent while the directory may be written to, so the remains of a crash are never
// mistaken for a state.
type Dir struct {
	m        *Manager
	repo     *mirror
	root     string
	ws       contract.Workspace
	baseTree string
	writable bool
	since    time.Time // when it was opened for writing
	held     string    // the tree on disk, while it is known
	stale    bool      // the index is behind the tree
	plain    bool      // only its tree's files are in it; see SaveFile and Checkout
	reused   bool      // it was a spare, so files may be older than this run
	excludes string    // patterns that Save skips in addition to the repository's own; see Ignore
	use      *heldLock
	lock     *heldLock
}

// Open returns a directory for the key with exactly the workspace's content, for one writer at a
// time; other writers wait. Files that git ignores survive as long as the content under the key
// changes only through Save; any other change removes them.
//
// The key is a path-like name such as "42/step-001/1". The next Open undoes changes that were not
// saved.
func (m *Manager) Open(ctx context.Context, ws contract.Workspace, key string) (*Dir, error) {
	return m.open(ctx, ws, key, func(d *Dir) error {
		if err := d.prepare(ctx, false); err != nil || !d.reused {
			return err
		}
		return d.renew(ctx)
	})
}

// OpenFiles is Open for a writer that runs no commands: files may have been written long ago, by an ended
// run.
func (m *Manager) OpenFiles(ctx context.Context, ws contract.Workspace, key string) (*Dir, error) {
	return m.open(ctx, ws, key, func(d *Dir) error { return d.prepare(ctx, true) })
}

func (m *Manager) open(ctx context.Context, ws contract.Workspace, key string, prepare func(*Dir) error) (*Dir, error) {
	d, err := m.attach(ctx, ws, key)
	if err != nil {
		return nil, err
	}
	if d.lock, err = m.locks.exclusive(ctx, d.lockPath()); err == nil {
		if err = prepare(d); err == nil {
			err = d.removeMarker()
		}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	d.writable, d.since = true, time.Now()
	return d, nil
}

// viewTries limits how often View prepares the directory before it gives up because writers keep
// changing it.
const viewTries = 5

// View is Open for any number of concurrent readers, which must not write below Path.
func (m *Manager) View(ctx context.Context, ws contract.Workspace, key string) (*Dir, error) {
	d, err := m.attach(ctx, ws, key)
	if err != nil {
		return nil, err
	}
	for range viewTries {
		if d.lock, err = m.locks.shared(ctx, d.lockPath()); err != nil {
			break
		}
		if _, wanted := d.readMarker(); wanted {
			return d, nil
		}
		d.lock.release()
		if d.lock, err = m.locks.exclusive(ctx, d.lockPath()); err != nil {
			break
		}
		if err = d.prepare(ctx, true); err == nil {
			err = d.writeMarker()
		}
		if err != nil {
			break
		}
		d.lock.release()
		d.lock = nil
	}
	d.Close()
	if err == nil {
		err = runtimeFault("the directory %s kept changing while a reader was waiting", key)
	}
	return nil, err
}

func (m *Manager) attach(ctx context.Context, ws contract.Workspace, key string) (*Dir, error) {
	name, err := dirName(key)
	if err != nil {
		return nil, err
	}
	repo, baseTree, use, err := m.use(ctx, ws.Repo, ws.Base)
	if err != nil {
		return nil, err
	}
	return &Dir{m: m, repo: repo, root: filepath.Join(m.dirsRoot(), name), ws: ws, baseTree: baseTree, use: use}, nil
}

// dirsName is the name of the directory with the workspace directories.
const dirsName = "dirs"

func (m *Manager) dirsRoot() string { return filepath.Join(m.options.CacheDir, dirsName) }

// Path returns the work tree's absolute path, free of symbolic links.
func (d *Dir) Path() string { return filepath.Join(d.root, "work") }

// Close releases the directory. It may be called more than once.
func (d *Dir) Close() {
	if d.lock != nil {
		d.lock.release()
		d.lock = nil
	}
	if d.use != nil {
		d.use.release()
		d.use = nil
	}
}

func (d *Dir) lockPath() string {
	return d.m.dirLock(filepath.Base(d.root))
}
func (d *Dir) markerPath() string { return filepath.Join(d.root, markerName) }
func (d *Dir) indexPath() string  { return filepath.Join(d.root, "index") }

const markerName = "tree"

// mark is what the marker of a directory says.
type mark struct {
	repo, boot, tree string
	stale            bool // SaveFile recorded changes that are not in git's index
	plain, reused    bool
}

// The words at the end of a marker.
const (
	markStale  = "stale"
	markPlain  = "plain"
	markReused = "reused"
)

func (k mark) String() string {
	words := []string{k.repo, k.boot, k.tree}
	if k.stale {
		words = append(words, markStale)
	}
	if k.plain {
		words = append(words, markPlain)
	}
	if k.reused {
		words = append(words, markReused)
	}
	return strings.Join(words, " ") + "\n"
}

// readMark reads a marker; false if there is none.
func readMark(path string) (mark, bool) {
	content, err := os.ReadFile(path)
	words := strings.Split(strings.TrimSuffix(string(content), "\n"), " ")
	if err != nil || len(words) < 3 {
		return mark{}, false
	}
	flags := words[3:]
	return mark{
		repo: words[0], boot: words[1], tree: words[2],
		stale: slices.Contains(flags, markStale), plain: slices.Contains(flags, markPlain), reused: slices.Contains(flags, markReused),
	}, true
}

// readMarker reports whether the directory's content is known at all, and whether it is
// already the wanted tree.
func (d *Dir) readMarker() (trusted, wanted bool) {
	k, ok := readMark(d.markerPath())
	if !ok || k.repo != d.repo.id || k.boot != d.m.boot {
		return false, false
	}
	d.held, d.stale, d.plain, d.reused = k.tree, k.stale, k.plain, k.reused
	return true, k.tree == d.ws.Tree
}

func (d *Dir) removeMarker() error {
	if err := os.Remove(d.markerPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapf(err, "cannot write to a workspace directory")
	}
	return nil
}

func (d *Dir) writeMarker() error {
	k := mark{repo: d.repo.id, boot: d.m.boot, tree: d.ws.Tree, stale: d.stale, plain: d.plain, reused: d.reused}
	if err := writeFile(d.markerPath(), k.String()); err != nil {
		return wrapf(err, "cannot write to a workspace directory")
	}
	return nil
}

// prepare sets the directory's content to the wanted tree; the caller has the exclusive lock. A directory
// whose content is unknown may be replaced with a spare one.
func (d *Dir) prepare(ctx context.Context, spare bool) error {
	trusted, wanted := d.readMarker()
	if wanted {
		return nil
	}
	if err := d.repo.ensure(ctx, d.ws, d.baseTree); err != nil {
		return err
	}
	if !trusted && spare {
		taken, err := d.takeSpare()
		if err != nil {
			return err
		}
		if taken {
			trusted, wanted = d.readMarker()
			if d.reused = trusted; wanted {
				return d.writeMarker()
			}
		}
	}
	if err := d.removeMarker(); err != nil {
		return err
	}
	if !trusted {
		return d.fill(ctx)
	}
	if d.plain {
		begun, err := d.turn(d.held)
		if err == nil {
			return nil
		}
		if begun {
			return d.fill(ctx) // the content is unknown now
		}
	}
	return d.checkOut(ctx, true)
}

// fill writes all files to a directory whose content is unknown.
func (d *Dir) fill(ctx context.Context) error {
	if err := d.wipe(); err != nil {
		return err
	}
	d.plain, d.reused, d.stale = true, false, false
	begun, err := d.turn("")
	switch {
	case err == nil:
		return nil
	case begun:
		if err := d.wipe(); err != nil {
			return err
		}
	}
	return d.checkOut(ctx, false)
}

// wipe empties a directory whose content is unknown.
func (d *Dir) wipe() error {
	if err := removeTree(d.root); err != nil {
		return wrapf(err, "cannot empty a workspace directory")
	}
	err := os.MkdirAll(d.Path(), 0o755)
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < keepTries; tries++ {
		err = os.MkdirAll(d.Path(), 0o755)
	}
	if err != nil {
		return wrapf(err, "cannot create a workspace directory")
	}
	return nil
}

func (d *Dir) checkOut(ctx context.Context, clean bool) error {
	_ = os.Remove(d.indexPath() + ".lock")
	if _, err := d.git(ctx, "read-tree", "--reset", "-u", d.ws.Tree); err != nil {
		return checkOutFault(err)
	}
	d.stale = false
	if !clean {
		return nil
	}
	if _, err := d.git(ctx, "clean", "-ffdxq"); err != nil {
		return localFault(err, "could not clean a workspace directory")
	}
	return nil
}

func checkOutFault(err error) error {
	var ge *gitError
	if errors.As(err, &ge) && strings.Contains(ge.stderr, "invalid path") {
		return repoFault("the repository contains a file that would be dangerous to check out: %s", ge.stderr)
	}
	return localFault(err, "could not check out a workspace")
}

// git runs git on the work tree.
func (d *Dir) git(ctx context.Context, args ...string) ([]byte, error) {
	return d.gitCall(ctx, call{args: args})
}

func (d *Dir) gitCall(ctx context.Context, c call) ([]byte, error) {
	c.dir = d.Path()
	c.env = append(c.env, "GIT_WORK_TREE="+d.Path(), "GIT_INDEX_FILE="+d.indexPath())
	c.hold = []*os.File{d.lock.file}
	if d.excludes != "" {
		c.config = append(c.config, [2]string{"core.excludesFile", d.excludes})
	}
	return d.repo.run(ctx, c)
}

// removeTree removes a tree that commands wrote, regardless of its depth and permissions.
func removeTree(path string) error { return rmtree.Remove(path) }

// makeAccessible restores the owner's permissions on directories and regular files
// below path. It is used only for files that cannot be handled otherwise.
func makeAccessible(path string) {
	_ = filepath.WalkDir(path, func(p string, _ fs.DirEntry, _ error) error {
		if info, err := os.Lstat(p); err == nil {
			openMode(p, info.Mode())
		}
		return nil
	})
}

func openMode(path string, mode fs.FileMode) {
	switch {
	case mode.IsDir() && mode.Perm()&0o700 != 0o700:
		_ = os.Chmod(path, mode.Perm()|0o700)
	case mode.IsRegular() && mode.Perm()&0o600 != 0o600:
		_ = os.Chmod(path, mode.Perm()|0o600)
	}
}

// Keys are encoded as directory names reversibly, and such that a prefix of a key is a prefix of
// its name.
const maxNameLength = 200

func dirName(key string) (string, error) {
	name := encodeKey(key)
	if key == "" || len(name) > maxNameLength || strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") {
		return "", runtimeFault("%q is not a valid workspace directory key", key)
	}
	return name, nil
}

func encodeKey(key string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(key) {
		switch {
		case c == '/':
			b.WriteByte('+')
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			b.WriteByte(c)
		case c == '.' && b.Len() > 0:
			b.WriteByte(c)
		default:
			b.WriteString("_" + string(hex[c>>4]) + string(hex[c&15]))
		}
	}
	return b.String()
}
