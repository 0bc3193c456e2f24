package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

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

// Close releases the directory. It removes the directory if there are more spare ones than are kept and nobody else
// reads it; while the disk is nearly full, one is kept for the next reader until Prune removes it. A directory that
// cannot be removed is left to Prune, too. It may be called more than once.
func (v *Shared) Close() {
	m, open := v.dir.m, v.dir.lock != nil
	v.dir.Close()
	if !open {
		return
	}
	most := m.options.MaxSpareDirs
	if m.isShort() {
		most = min(most, 1)
	}
	if all, err := m.spares(v.spare.repo); err == nil && len(all) <= most {
		return
	}
	kept, err := m.usableSpares(v.spare.repo)
	// The latest stay. Others that are closed at the same time decide by the same order.
	at := slices.IndexFunc(kept, func(s usableSpare) bool { return s.spareDir == v.spare })
	if err != nil || at < len(kept)-most {
		_ = m.removeIfFree(m.spareLock(v.spare), m.sparePath(v.spare))
	}
}

// find takes a shared lock of a directory with the wanted tree: one that exists, or one that it prepares. It
// reports false if another process took the directory meanwhile.
func (v *Shared) find(ctx context.Context) (bool, error) {
	if v.dir.m.options.MaxSpareDirs == 0 {
		return v.create(ctx, nil)
	}
	found, _, err := v.existing()
	if err != nil || found {
		return found, err
	}
	// Of several readers of the same tree, one prepares a directory, and the others use it.
	release, err := v.dir.m.locks.alone(ctx, v.dir.repo.id+" "+v.dir.ws.Tree)
	if err != nil {
		return false, err
	}
	defer release()
	found, other, err := v.existing()
	if err != nil || found {
		return found, err
	}
	return v.create(ctx, other)
}

// existing looks for a directory that has the wanted tree. It also returns those that have other trees.
func (v *Shared) existing() (found bool, other []spareDir, err error) {
	m := v.dir.m
	same, other, err := v.dir.candidates()
	if err != nil {
		return false, nil, err
	}
	for _, s := range slices.Backward(same) {
		lock, err := m.locks.tryShared(m.spareLock(s))
		if err != nil {
			return false, nil, err
		}
		if lock != nil && v.holds(s, lock) {
			return true, nil, nil
		}
	}
	return false, other, nil
}

// create prepares a directory: one that has another tree and that nobody uses, or a new one. One whose files would have
// to be written by git is used only if there are as many as are kept: its tree may soon be wanted again.
func (v *Shared) create(ctx context.Context, other []spareDir) (bool, error) {
	m := v.dir.m
	if err := v.dir.repo.ensure(ctx, v.dir.ws, v.dir.baseTree); err != nil {
		return false, err
	}
	many := len(other) >= m.options.MaxSpareDirs
	for _, s := range other {
		lock, err := m.locks.tryExclusive(m.spareLock(s))
		if err != nil {
			return false, err
		}
		if lock == nil {
			continue
		}
		if v.suits(s, many) {
			return v.prepare(ctx, s, lock)
		}
		lock.release()
		m.dropLock(s)
	}
	s := spareDir{repo: v.dir.repo.id, id: rand.Text()}
	lock, err := m.locks.tryExclusive(m.spareLock(s))
	if err != nil || lock == nil {
		return false, err
	}
	return v.prepare(ctx, s, lock)
}

// suits reports whether a directory, whose exclusive lock the caller has, is still there and whether its files may be
// changed: a few of them, or all.
func (v *Shared) suits(s spareDir, all bool) bool {
	d := v.dir
	d.root = d.m.sparePath(s)
	if trusted, _ := d.readMarker(); !trusted {
		return false
	}
	if all {
		return true
	}
	_, err := d.difference(d.held)
	return err == nil
}

// holds reports whether the directory of a shared lock still has the wanted tree. Otherwise it releases the lock.
func (v *Shared) holds(s spareDir, lock *heldLock) bool {
	d := v.dir
	v.spare, d.root, d.lock = s, d.m.sparePath(s), lock
	// Nobody changes or moves the directory without the lock. But its file may have been removed before it was
	// locked, and another one may have come into being.
	if _, wanted := d.readMarker(); wanted && stillNamed(lock.file, lock.path) {
		now := time.Now()
		_ = os.Chtimes(d.markerPath(), now, now) // that it was used; see lastUse
		return true
	}
	d.lock = nil
	lock.release()
	d.m.dropLock(s)
	return false
}

// prepare gives the directory of an exclusive lock the wanted tree and shares the lock. If it fails, it removes the
// directory.
func (v *Shared) prepare(ctx context.Context, s spareDir, lock *heldLock) (bool, error) {
	d := v.dir
	v.spare, d.root, d.lock = s, d.m.sparePath(s), lock
	err := d.prepare(ctx, false)
	if err == nil {
		err = d.writeMarker()
	}
	if err != nil {
		d.lock = nil
		return false, errors.Join(err, d.m.removeLocked(lock, d.root))
	}
	shared, err := lock.share()
	if err != nil || !shared {
		d.lock = nil
		lock.release()
		return false, err
	}
	return v.holds(s, lock), nil // another process may have had the lock in between
}

// dropLock removes the lock file of a spare directory that is gone, unless it is in use.
func (m *Manager) dropLock(s spareDir) {
	if _, err := os.Lstat(m.sparePath(s)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if lock, err := m.locks.tryExclusive(m.spareLock(s)); err == nil && lock != nil {
		_ = lock.remove() // Prune removes it otherwise
		lock.release()
	}
}
