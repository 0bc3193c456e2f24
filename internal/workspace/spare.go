package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Spare directories are those of ended runs and checks, kept for later ones of the same repository: making one match
// another tree takes as long as the difference is large, not as the repository is. Only plain directories
// are kept, in which nothing is left of a run but files that its tree describes: no command ever ran in
// them, or what commands did there was undone. See Checkout.

// sparePrefix begins the names of spare directories; no key of a caller begins with its first part.
const sparePrefix = spareKey + "+"

const spareKey = "spare"

const (
	// maxDifference and maxDifferenceBytes limit the changed files of which a directory is made to match
	// another tree in this process; git does more.
	maxDifference      = 256
	maxDifferenceBytes = 8 << 20
)

func (r *mirror) sparePrefix() string { return sparePrefix + r.id + "+" }

// spares returns the names of the spare directories of a repository.
func (m *Manager) spares(prefix string) ([]string, error) {
	entries, err := os.ReadDir(m.dirsRoot())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, wrapf(err, "cannot read the cache directory")
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// retire removes a directory or keeps it as a spare. The caller has its exclusive lock, which retire
// releases.
func (m *Manager) retire(lock *heldLock, dir string) error {
	spare, err := m.spareName(dir)
	if err != nil || spare == "" {
		return errors.Join(err, m.removeDir(lock, dir))
	}
	defer lock.release()
	if err := os.Rename(filepath.Join(m.dirsRoot(), dir), filepath.Join(m.dirsRoot(), spare)); err != nil {
		return wrapf(err, "could not keep a workspace directory")
	}
	return removeLock(lock)
}

// spareName returns the name under which a directory is kept, "" if it is not plain or there are enough.
func (m *Manager) spareName(dir string) (string, error) {
	root := filepath.Join(m.dirsRoot(), dir)
	mark, ok := readMark(filepath.Join(root, markerName))
	if !ok || !mark.plain || mark.boot != m.boot {
		return "", nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", wrapf(err, "cannot read the cache directory")
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !slices.Contains(partsOfPlain, e.Name()) }) {
		return "", nil
	}
	if ok, err := m.canKeepSpare(mark.repo); err != nil || !ok {
		return "", err
	}
	return sparePrefix + mark.repo + "+" + rand.Text(), nil
}

// canKeepSpare reports whether another spare directory of a repository may be kept.
func (m *Manager) canKeepSpare(repo string) (bool, error) {
	kept, err := m.spares(sparePrefix + repo + "+")
	return err == nil && len(kept) < m.options.MaxSpareDirs && !m.isShort(), err
}

// isShort reports whether too little of the file system is free to keep directories.
func (m *Manager) isShort() bool {
	var stat unix.Statfs_t
	err := unix.Statfs(m.options.CacheDir, &stat)
	return err != nil || int64(stat.Bavail)*stat.Bsize < m.options.MinFreeForSpares //nolint:gosec // fewer than 2^63 blocks
}

// pruneSpares removes spare directories that no run can use, those beyond the limit, and all of them if the
// file system has little space.
func (m *Manager) pruneSpares() error {
	names, err := m.spares(sparePrefix)
	if err != nil {
		return err
	}
	kept := map[string]int{}
	short := m.isShort()
	var failed error
	for _, name := range names {
		k, ok := readMark(filepath.Join(m.dirsRoot(), name, markerName))
		if kept[k.repo]++; short || !ok || k.boot != m.boot || kept[k.repo] > m.options.MaxSpareDirs {
			failed = errors.Join(failed, m.removeIfFree(name))
		}
	}
	return failed
}

// partsOfPlain are the entries of a plain directory; see Dir.
var partsOfPlain = []string{"work", "index", markerName}

// takeSpare replaces a directory whose content is unknown with a spare one, preferably with the wanted
// tree. It reports whether there was one. The caller has the exclusive lock of the directory.
func (d *Dir) takeSpare() (bool, error) {
	if d.m.options.MaxSpareDirs == 0 {
		return false, nil
	}
	names, err := d.m.spares(d.repo.sparePrefix())
	if err != nil {
		return false, err
	}
	var same, other []string
	for _, name := range names {
		switch k, ok := readMark(filepath.Join(d.m.dirsRoot(), name, markerName)); {
		case !ok || k.boot != d.m.boot:
		case k.tree == d.ws.Tree:
			same = append(same, name)
		default:
			other = append(other, name)
		}
	}
	for _, name := range append(same, other...) {
		lock, err := d.m.locks.tryExclusive(d.m.dirLock(name))
		if err != nil || lock == nil {
			if err != nil {
				return false, err
			}
			continue // another run takes it
		}
		taken, err := d.takeOver(name)
		err = errors.Join(err, removeLock(lock))
		lock.release()
		if err != nil || taken {
			return taken, err
		}
	}
	return false, nil
}

// takeOver moves a spare directory to the place of this one; false if it is gone.
func (d *Dir) takeOver(name string) (bool, error) {
	if err := removeTree(d.root); err != nil {
		return false, wrapf(err, "cannot empty a workspace directory")
	}
	err := os.Rename(filepath.Join(d.m.dirsRoot(), name), d.root)
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

// turn makes the files of a plain directory, which has the given tree, match the wanted one, without a git
// process. It fails before it begins to change anything if the difference is large or not one of regular
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

// difference returns the files that differ between a tree and the wanted one, or errNeedsGit.
func (d *Dir) difference(from string) ([]writtenChange, error) {
	if len(from) != sha1Length || len(d.ws.Tree) != sha1Length {
		return nil, errNeedsGit
	}
	var changes []writtenChange
	total := 0
	err := d.repo.changedFiles(from, d.ws.Tree, "", func(c fileChange) error {
		_, plain := plainParts(c.path)
		if !plain || c.old.mode == modeLink || c.new.mode == modeLink || len(changes) == maxDifference {
			return errNeedsGit
		}
		changed := writtenChange{fileChange: c}
		if c.new.mode != "" {
			var err error
			if changed.content, err = d.repo.object(kindBlob, c.new.id); err != nil {
				return err
			}
		}
		if total += len(changed.content); total > maxDifferenceBytes {
			return errNeedsGit
		}
		changes = append(changes, changed)
		return nil
	})
	return changes, err
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
