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
)

// CleanUp removes the directories of a key and of all keys below it: "42" includes "42/step-001/1",
// but not "421". It waits until they are no longer in use. Some are kept as spares, under no key.
func (m *Manager) CleanUp(ctx context.Context, key string) error {
	dirs, err := m.dirsOf(key)
	if err != nil {
		return err
	}
	var failed error
	for _, dir := range dirs {
		lock, err := m.locks.exclusive(ctx, m.dirLock(dir))
		if err != nil {
			return err
		}
		failed = errors.Join(failed, m.retire(lock, dir))
	}
	return failed
}

// Holds reports whether there are directories of a key, or of keys below it.
func (m *Manager) Holds(key string) (bool, error) {
	dirs, err := m.dirsOf(key)
	return len(dirs) > 0, err
}

// dirsOf returns the directories of a key and of all keys below it.
func (m *Manager) dirsOf(key string) ([]string, error) {
	name, err := dirName(strings.TrimSuffix(key, "/"))
	if err != nil {
		return nil, err
	}
	return m.dirNames(func(dir string) bool { return dir == name || strings.HasPrefix(dir, name+"+") })
}

// Sweep removes the directories of every key whose first part, such as the "42" of "42/step-001/1",
// has ended according to the callback. Directories that are in use, or for which ended fails, stay
// until the next sweep; the errors are returned after all directories were processed.
func (m *Manager) Sweep(ctx context.Context, ended func(ctx context.Context, first string) (bool, error)) error {
	names, err := m.dirNames(nil)
	if err != nil {
		return err
	}
	var failed error
	answers := map[string]bool{}
	for _, dir := range names {
		if ctx.Err() != nil {
			return wrapf(context.Cause(ctx), "the sweep was stopped")
		}
		first, _, _ := strings.Cut(dir, "+")
		if first == spareKey {
			continue // of no run; Prune removes it
		}
		if _, asked := answers[first]; !asked {
			gone, err := ended(ctx, first)
			answers[first] = gone && err == nil
			failed = errors.Join(failed, err)
		}
		if !answers[first] {
			continue
		}
		failed = errors.Join(failed, m.removeIfFree(m.dirLock(dir), filepath.Join(m.dirsRoot(), dir)))
	}
	return failed
}

// removeIfFree removes a directory unless its lock is held.
func (m *Manager) removeIfFree(lockPath, path string) error {
	lock, err := m.locks.tryExclusive(lockPath)
	if err != nil || lock == nil {
		return err
	}
	return m.removeLocked(lock, path)
}

// Prune removes directories and mirrors that have not been used for the given time, and objects
// from before the host's last restart. It skips those in use. Everything it removes can be rebuilt.
func (m *Manager) Prune(ctx context.Context, unused time.Duration) error {
	before := time.Now().Add(-unused)
	names, err := m.dirNames(nil)
	if err != nil {
		return err
	}
	failed := m.pruneSpares(ctx, before)
	for _, dir := range names {
		if ctx.Err() != nil {
			return errors.Join(failed, pruningStopped(ctx))
		}
		if strings.HasPrefix(dir, spareKey+"+") {
			failed = errors.Join(failed, m.pruneSpareLock(dir))
			continue
		}
		failed = errors.Join(failed, m.pruneDir(dir, before))
	}
	return errors.Join(failed, m.pruneMirrors(ctx, before))
}

// pruneSpareLock removes the lock file of a spare directory that is gone, because a worker was killed when it took it, and
// one where earlier versions kept them.
func (m *Manager) pruneSpareLock(name string) error {
	_, rest, _ := strings.Cut(name, "+")
	repo, id, _ := strings.Cut(rest, "+")
	if _, err := os.Lstat(m.sparePath(spareDir{repo: repo, id: id})); err == nil && id != "" {
		return nil
	}
	return m.removeIfFree(m.dirLock(name), filepath.Join(m.dirsRoot(), name))
}

func pruningStopped(ctx context.Context) error {
	return wrapf(context.Cause(ctx), "pruning was stopped")
}

func (m *Manager) pruneDir(dir string, before time.Time) error {
	lock, err := m.locks.tryExclusive(m.dirLock(dir))
	if err != nil || lock == nil {
		return err
	}
	if lastUse(filepath.Join(m.dirsRoot(), dir)).After(before) {
		lock.release()
		return nil
	}
	return m.removeDir(lock, dir)
}

func (m *Manager) removeDir(lock *heldLock, dir string) error {
	return m.removeLocked(lock, filepath.Join(m.dirsRoot(), dir))
}

// removeLocked removes a directory and its lock, which it releases.
func (m *Manager) removeLocked(lock *heldLock, path string) error {
	defer lock.release()
	if err := removeTree(path); err != nil {
		return wrapf(err, "could not remove a workspace directory")
	}
	return removeLock(lock)
}

func (m *Manager) pruneMirrors(ctx context.Context, before time.Time) error {
	entries, err := os.ReadDir(filepath.Join(m.options.CacheDir, "repos"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wrapf(err, "cannot read the cache directory")
	}
	var failed error
	for _, entry := range entries {
		if ctx.Err() != nil {
			return errors.Join(failed, pruningStopped(ctx))
		}
		r := &mirror{m: m, id: entry.Name(), root: filepath.Join(m.options.CacheDir, "repos", entry.Name())}
		failed = errors.Join(failed, r.prune(before))
	}
	return failed
}

func (r *mirror) prune(before time.Time) error {
	lock, err := r.m.locks.tryExclusive(r.useLock())
	if err != nil || lock == nil {
		return err
	}
	defer lock.release()
	boots, err := filepath.Glob(filepath.Join(r.root, "boot-*"))
	if err != nil {
		return wrapf(err, "cannot read the cache directory")
	}
	used := lastUse(r.gitDir())
	for _, boot := range boots {
		at := lastUse(filepath.Join(boot, "known"))
		if at.After(used) {
			used = at
		}
		if boot != r.bootDir() || !at.After(before) {
			err = errors.Join(err, removeTree(boot))
		}
	}
	if err == nil && !used.After(before) {
		// Remove the lock file last: a process that waits for it starts over.
		err = errors.Join(removeTree(filepath.Join(r.root, "bases")), removeTree(r.root))
	}
	if err != nil {
		return wrapf(err, "could not remove a repository's cache")
	}
	return nil
}

// lastUse returns the latest change time of a directory and its direct entries.
func lastUse(dir string) time.Time {
	var last time.Time
	if info, err := os.Stat(dir); err == nil {
		last = info.ModTime()
	}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

const lockSuffix = ".lock"

func (m *Manager) dirLock(dir string) string {
	return filepath.Join(m.options.CacheDir, "locks", dir+lockSuffix)
}

// dirNames returns the wanted names of directories, nil for all, including those of which there is only a lock file
// here: they are spare ones, or a worker was killed between the two removals.
func (m *Manager) dirNames(wanted func(dir string) bool) ([]string, error) {
	var names []string
	for _, dir := range []string{m.dirsRoot(), filepath.Dir(m.dirLock(""))} {
		entries, err := namesIn(dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if name := strings.TrimSuffix(entry, lockSuffix); wanted == nil || wanted(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
