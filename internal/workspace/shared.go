package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"

	"github.com/rocketgpt/orchestrator/contract"
)

// Shared is a directory with the content of a workspace that any number of readers share, of this run and of
// others. On disk it is a spare directory: readers of the same tree find it there, and others, who read or write
// another tree, change it when nobody reads it.
type Shared struct {
	dir   *Dir
	spare spareDir
}

// sharedTries limits how often OpenShared looks for a directory before it gives up because other processes keep
// taking those that it finds.
const sharedTries = 5

// OpenShared opens a directory with exactly the workspace's content. Nobody may write below its Path. The caller
// must close it.
func (m *Manager) OpenShared(ctx context.Context, ws contract.Workspace) (*Shared, error) {
	repo, baseTree, use, err := m.use(ctx, ws.Repo, ws.Base)
	if err != nil {
		return nil, err
	}
	v := &Shared{dir: &Dir{m: m, repo: repo, ws: ws, baseTree: baseTree, use: use}}
	for range sharedTries {
		found, err := v.find(ctx)
		if err != nil {
			v.dir.Close()
			return nil, err
		}
		if found {
			return v, nil
		}
	}
	v.dir.Close()
	return nil, runtimeFault("the directories for readers of %s kept being taken by others", repo.source)
}

// Path returns the absolute path of the files, free of symbolic links.
func (v *Shared) Path() string { return v.dir.Path() }

// Close releases the directory. It removes the directory if it is beyond the limit of spare directories and
// nobody else reads it; if that fails, [Manager.Prune] does. It may be called more than once.
func (v *Shared) Close() {
	m, open := v.dir.m, v.dir.lock != nil
	v.dir.Close()
	if !open {
		return
	}
	kept, err := m.spares(v.spare.repo)
	if err != nil || len(kept) > m.options.MaxSpareDirs || m.isShort() {
		_ = m.removeIfFree(m.spareLock(v.spare), m.sparePath(v.spare))
	}
}

// find takes a shared lock of a directory with the wanted tree: one that exists, or one that it prepares. It
// reports false if another process took the directory meanwhile.
func (v *Shared) find(ctx context.Context) (bool, error) {
	m := v.dir.m
	same, other, err := v.dir.usableSpares()
	if err != nil {
		return false, err
	}
	for _, s := range same {
		lock, err := m.locks.tryShared(m.spareLock(s))
		if err != nil {
			return false, err
		}
		if lock != nil && v.holds(s, lock) {
			return true, nil
		}
	}
	for _, s := range append(other, spareDir{repo: v.dir.repo.id, id: rand.Text()}) {
		lock, err := m.locks.tryExclusive(m.spareLock(s))
		if err != nil {
			return false, err
		}
		if lock != nil {
			return v.prepare(ctx, s, lock)
		}
	}
	return false, nil
}

// holds reports whether the directory of a shared lock still has the wanted tree. Otherwise it releases the lock.
func (v *Shared) holds(s spareDir, lock *heldLock) bool {
	v.spare, v.dir.root, v.dir.lock = s, v.dir.m.sparePath(s), lock
	// Nobody changes or moves the directory without the lock. But its file may have been removed before it was
	// locked, and another one may have come into being.
	if _, wanted := v.dir.readMarker(); wanted && stillNamed(lock.file, lock.path) {
		return true
	}
	if _, err := os.Lstat(v.dir.root); errors.Is(err, fs.ErrNotExist) {
		_ = lock.remove() // Prune removes it otherwise
	}
	v.dir.lock = nil
	lock.release()
	return false
}

// prepare gives the directory of an exclusive lock the wanted tree and shares the lock.
func (v *Shared) prepare(ctx context.Context, s spareDir, lock *heldLock) (bool, error) {
	d := v.dir
	v.spare, d.root, d.lock = s, d.m.sparePath(s), lock
	if err := d.prepare(ctx, false); err != nil {
		return false, err
	}
	if err := d.writeMarker(); err != nil {
		return false, err
	}
	if err := lock.share(ctx); err != nil {
		return false, err
	}
	return v.holds(s, lock), nil // another process may have had the lock in between
}
