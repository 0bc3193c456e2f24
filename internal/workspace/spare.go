package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Spare directories are those of ended runs, agents and checks, kept for later ones of the same repository: making one match
// another tree takes as long as the difference is large, not as the repository is. Readers use them where they are; see
// Shared. Only plain directories are kept, in which nothing is left of a run but files that its tree describes: no
// command ever ran in them, or what commands did there was undone. See Checkout.

// spareKey begins the names of the locks of spare directories; no key of a caller begins with it.
const spareKey = "spare"

const (
	// maxDifference and maxDifferenceBytes limit the changed files of which a directory, which may be empty, is made to
	// match another tree in this process; maxDifference also the files of which it counts changed lines. Git does more.
	maxDifference      = 256
	maxDifferenceBytes = 8 << 20
)

// sparesRoot is the directory with those of each repository. They are apart from the directories of runs, of
// which there can be thousands, because each run looks for spare ones several times.
func (m *Manager) sparesRoot() string { return filepath.Join(m.options.CacheDir, "spares") }

// spareDir is a spare directory of a repository.
type spareDir struct{ repo, id string }

func (m *Manager) sparePath(s spareDir) string { return filepath.Join(m.sparesRoot(), s.repo, s.id) }

func (m *Manager) spareLock(s spareDir) string {
	return m.dirLock(spareKey + "+" + s.repo + "+" + s.id)
}

// spares returns the spare directories of a repository.
func (m *Manager) spares(repo string) ([]spareDir, error) {
	names, err := namesIn(filepath.Join(m.sparesRoot(), repo))
	spares := make([]spareDir, len(names))
	for i, name := range names {
		spares[i] = spareDir{repo: repo, id: name}
	}
	return spares, err
}

// namesIn returns the names of a directory's entries in no particular order. If the directory does not exist, it
// returns none.
func namesIn(dir string) ([]string, error) {
	folder, err := os.Open(dir) //nolint:gosec // a directory of the cache
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, wrapf(err, "cannot read the cache directory")
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, wrapf(err, "cannot read the cache directory")
	}
	return names, nil
}

// Recycle keeps the directory of a key, which the caller no longer needs, as a spare one. If it is in use or
// cannot be kept, it stays until [Manager.CleanUp] removes it. Directories of keys below stay, too.
func (m *Manager) Recycle(key string) error {
	dir, err := dirName(key)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(m.dirsRoot(), dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := m.locks.tryExclusive(m.dirLock(dir))
	if err != nil || lock == nil {
		return err
	}
	defer lock.release()
	spare, err := m.spareFor(dir)
	if err != nil || spare == nil {
		return err
	}
	return m.keep(lock, dir, *spare)
}

// retire removes a directory or keeps it as a spare. The caller has its exclusive lock, which retire
// releases.
func (m *Manager) retire(lock *heldLock, dir string) error {
	spare, err := m.spareFor(dir)
	if err == nil && spare != nil {
		if err = m.keep(lock, dir, *spare); err == nil {
			lock.release()
			return nil
		}
	}
	return errors.Join(err, m.removeDir(lock, dir))
}

// keepTries limits how often the folder of a repository's spare directories is created again because Prune removes it
// while it is empty.
const keepTries = 3

// keep makes a directory a spare one. The caller has its exclusive lock, whose file keep removes.
func (m *Manager) keep(lock *heldLock, dir string, spare spareDir) error {
	from, to := filepath.Join(m.dirsRoot(), dir), m.sparePath(spare)
	err := os.Rename(from, to)
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < keepTries; tries++ {
		if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.Rename(from, to)
		}
	}
	if err != nil {
		return wrapf(err, "could not keep a workspace directory")
	}
	return removeLock(lock)
}

// spareFor returns as which spare directory one is kept, nil if it is not plain or there are enough.
func (m *Manager) spareFor(dir string) (*spareDir, error) {
	root := filepath.Join(m.dirsRoot(), dir)
	mark, ok := readMark(filepath.Join(root, markerName))
	if !ok || !mark.plain || mark.boot != m.boot {
		return nil, nil
	}
	names, err := namesIn(root)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(partsOfPlain, name) }) {
		return nil, nil
	}
	if ok, err := m.canKeepSpare(mark.repo); err != nil || !ok {
		return nil, err
	}
	return &spareDir{repo: mark.repo, id: rand.Text()}, nil
}

// canKeepSpare reports whether another spare directory of a repository may be kept. It counts those of an earlier start
// of the host, too, which are of no use, because it is called often and they are pruned soon.
func (m *Manager) canKeepSpare(repo string) (bool, error) {
	kept, err := m.spares(repo)
	return err == nil && len(kept) < m.options.MaxSpareDirs && !m.isShort(), err
}

// isShort reports whether too little of the file system is free to keep directories.
func (m *Manager) isShort() bool {
	var stat unix.Statfs_t
	err := unix.Statfs(m.options.CacheDir, &stat)
	return err != nil || int64(stat.Bavail)*stat.Bsize < m.options.MinFreeForSpares //nolint:gosec // fewer than 2^63 blocks
}

// pruneSpares removes spare directories that no run can use, those that have not been used since the given
// time, those beyond the limit, and all of them if the file system has little space.
func (m *Manager) pruneSpares(ctx context.Context, before time.Time) error {
	repos, err := namesIn(m.sparesRoot())
	if err != nil {
		return err
	}
	short := m.isShort()
	var failed error
	for _, repo := range repos {
		spares, err := m.spares(repo)
		failed = errors.Join(failed, err)
		kept := 0
		for _, s := range spares {
			if ctx.Err() != nil {
				return errors.Join(failed, pruningStopped(ctx))
			}
			path := m.sparePath(s)
			k, ok := readMark(filepath.Join(path, markerName))
			if ok && !short && k.boot == m.boot && kept < m.options.MaxSpareDirs && lastUse(path).After(before) {
				kept++
				continue
			}
			failed = errors.Join(failed, m.removeIfFree(m.spareLock(s), path))
		}
		if kept == 0 {
			_ = os.Remove(filepath.Join(m.sparesRoot(), repo)) // it fails if there is another one by now
		}
	}
	return failed
}

// partsOfPlain are the entries of a plain directory; see Dir.
var partsOfPlain = []string{"work", "index", markerName}

// usableSpare is a spare directory whose content is known.
type usableSpare struct {
	spareDir
	tree string
	used time.Time
}

// usableSpares returns the spare directories of a repository whose content is known, the least recently used first.
func (m *Manager) usableSpares(repo string) ([]usableSpare, error) {
	spares, err := m.spares(repo)
	var usable []usableSpare
	for _, s := range spares {
		marker := filepath.Join(m.sparePath(s), markerName)
		info, err := os.Stat(marker)
		if k, ok := readMark(marker); ok && k.boot == m.boot && err == nil {
			usable = append(usable, usableSpare{spareDir: s, tree: k.tree, used: info.ModTime()})
		}
	}
	slices.SortFunc(usable, func(a, b usableSpare) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.id, b.id)) })
	return usable, err
}

// candidates returns the usable spare directories of the repository: those with the wanted tree, and others.
func (d *Dir) candidates() (same, other []spareDir, err error) {
	if d.m.options.MaxSpareDirs == 0 {
		return nil, nil, nil
	}
	usable, err := d.m.usableSpares(d.repo.id)
	for _, s := range usable {
		if s.tree == d.ws.Tree {
			same = append(same, s.spareDir)
		} else {
			other = append(other, s.spareDir)
		}
	}
	return same, other, err
}

// takeSpare replaces a directory whose content is unknown with a spare one, preferably with the wanted
// tree. It reports whether there was one. The caller has the exclusive lock of the directory.
func (d *Dir) takeSpare() (bool, error) {
	same, other, err := d.candidates()
	if err != nil {
		return false, err
	}
	for _, s := range append(same, other...) {
		lock, err := d.m.locks.tryExclusive(d.m.spareLock(s))
		if err != nil || lock == nil {
			if err != nil {
				return false, err
			}
			continue // another run takes it
		}
		taken, err := d.takeOver(s)
		err = errors.Join(err, removeLock(lock))
		lock.release()
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
}

// takeOver moves a spare directory to the place of this one; false if it is gone.
func (d *Dir) takeOver(s spareDir) (bool, error) {
	if err := removeTree(d.root); err != nil {
		return false, wrapf(err, "cannot empty a workspace directory")
	}
	err := os.Rename(d.m.sparePath(s), d.root)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, wrapf(err, "cannot reuse a workspace directory")
	}
	return true, nil
}

func removeLock(lock *heldLock) error {
	if err := lock.remove(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapf(err, "could not remove a lock file")
	}
	return nil
}

// turn makes the files of a plain directory, which has the given tree or is empty (""), match the wanted one, without a
// git process. It fails before it begins to change anything if the difference is large or not one of regular
// files with plain names.
func (d *Dir) turn(from string) (begun bool, err error) {
	changes, err := d.difference(from)
	if err != nil {
		return false, err
	}
	root, err := os.OpenRoot(d.Path())
	if err != nil {
		return false, wrapf(err, "could not read a workspace directory")
	}
	defer root.Close()
	// First what goes, so that a directory is not removed after a file was added to it.
	for _, c := range changes {
		if c.old.mode == "" {
			continue
		}
		if err := removeWithParents(root, c.path, c.new.mode != ""); err != nil {
			return true, wrapf(err, "could not change %s in a workspace directory", c.path)
		}
	}
	for _, c := range changes {
		if c.new.mode == "" {
			continue
		}
		if err := createFile(root, c.path, c.new.mode, c.content); err != nil {
			return true, wrapf(err, "could not change %s in a workspace directory", c.path)
		}
	}
	d.stale = d.stale || len(changes) > 0
	return true, nil
}

// writtenChange is a changed file with its new content, if it has any.
type writtenChange struct {
	fileChange
	content []byte
}

// difference returns the files that differ between a tree, "" for an empty one, and the wanted one, or errNeedsGit.
func (d *Dir) difference(from string) ([]writtenChange, error) {
	if from != "" && len(from) != sha1Length || len(d.ws.Tree) != sha1Length {
		return nil, errNeedsGit
	}
	var changes []writtenChange
	err := d.repo.changedFiles(from, d.ws.Tree, "", func(c fileChange) error {
		if !mayWrite(c.path) || c.old.mode == modeLink || c.new.mode == modeLink || len(changes) == maxDifference {
			return errNeedsGit
		}
		changes = append(changes, writtenChange{fileChange: c})
		return nil
	})
	if err != nil {
		return nil, err
	}
	total := 0
	for i, c := range changes {
		if c.new.mode == "" {
			continue
		}
		if changes[i].content, err = d.repo.object(kindBlob, c.new.id); err != nil {
			return nil, err
		}
		if total += len(changes[i].content); total > maxDifferenceBytes {
			return nil, errNeedsGit
		}
	}
	return changes, nil
}

// gitNames are names that only look like those of git's own files, for which git has rules.
var gitNames = []string{".gitattributes", ".github", ".gitignore", ".gitkeep"}

// mayWrite reports whether git would write a file with this path, and without a rule about its name.
func mayWrite(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if _, plain := plainParts(part); !plain && !slices.Contains(gitNames, part) {
			return false
		}
	}
	return true
}

// renew makes all files of a reused directory as new as those of a fresh one: build tools compare times with
// those of the environment's files.
func (d *Dir) renew(ctx context.Context) error {
	if err := d.removeMarker(); err != nil {
		return err
	}
	err := filepath.WalkDir(d.Path(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, nil, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return wrapf(err, "could not renew a workspace directory")
	}
	if err := d.refreshIndex(ctx); err != nil {
		return err
	}
	// Git takes files for changed whose times differ from those in the index.
	if _, err := d.git(ctx, "update-index", "-q", "--refresh"); err != nil {
		return localFault(err, "could not renew a workspace directory")
	}
	d.reused = false
	return nil
}

// removeWithParents removes a file, and unless another one follows at its path, the directories that are
// empty then, as git does.
func removeWithParents(root *os.Root, name string, replaced bool) error {
	if err := root.Remove(name); err != nil || replaced {
		return err
	}
	up := path.Dir(name)
	for up != "." && root.Remove(up) == nil { // it fails if the directory is not empty
		up = path.Dir(up)
	}
	return nil
}

func createFile(root *os.Root, name, mode string, content []byte) error {
	if up := path.Dir(name); up != "." {
		if err := root.MkdirAll(up, 0o777); err != nil {
			return err
		}
	}
	perm := fs.FileMode(0o666)
	if mode == modeExecutable {
		perm = 0o777
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
