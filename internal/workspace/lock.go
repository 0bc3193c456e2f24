package workspace

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
)

// Poll intervals for a lock that another process holds. Within a process, no polling is needed.
const (
	lockPollFirst   = time.Millisecond
	lockPollLongest = 50 * time.Millisecond
)

// locks are reader-writer locks by path, among goroutines and processes: a semaphore, which is fair
// and supports waiting with a context, on top of flock, which the kernel releases however a process
// exits.
type locks struct {
	mu    sync.Mutex
	paths map[string]*pathLock
}

type pathLock struct {
	sem   *semaphore.Weighted
	users int // holders and waiters; at 0 the entry is removed
}

func newLocks() *locks { return &locks{paths: map[string]*pathLock{}} }

// heldLock is a lock that is held.
type heldLock struct {
	locks  *locks
	path   string
	weight int64
	file   *os.File
}

const allReaders = math.MaxInt64

func (l *locks) shared(ctx context.Context, path string) (*heldLock, error) {
	return l.acquire(ctx, path, 1, unix.LOCK_SH)
}

func (l *locks) exclusive(ctx context.Context, path string) (*heldLock, error) {
	return l.acquire(ctx, path, allReaders, unix.LOCK_EX)
}

func (l *locks) acquire(ctx context.Context, path string, weight int64, how int) (*heldLock, error) {
	entry := l.enter(path)
	if err := entry.sem.Acquire(ctx, weight); err != nil {
		l.leave(path)
		return nil, wrapf(context.Cause(ctx), "stopped waiting for %s", filepath.Base(path))
	}
	file, err := flockWait(ctx, path, how)
	if err != nil {
		entry.sem.Release(weight)
		l.leave(path)
		return nil, wrapf(err, "could not acquire the lock %s", filepath.Base(path))
	}
	return &heldLock{locks: l, path: path, weight: weight, file: file}, nil
}

// tryExclusive takes the lock if it is free; otherwise it returns nil.
func (l *locks) tryExclusive(path string) (*heldLock, error) {
	return l.try(path, allReaders, unix.LOCK_EX)
}

// tryShared takes the lock if no writer has it or waits for it; otherwise it returns nil.
func (l *locks) tryShared(path string) (*heldLock, error) { return l.try(path, 1, unix.LOCK_SH) }

// alone waits until no other goroutine of this process does the same. Names are not those of lock files.
func (l *locks) alone(ctx context.Context, name string) (release func(), err error) {
	entry := l.enter(name)
	if err := entry.sem.Acquire(ctx, allReaders); err != nil {
		l.leave(name)
		return nil, wrapf(context.Cause(ctx), "stopped waiting for a workspace directory")
	}
	return func() { entry.sem.Release(allReaders); l.leave(name) }, nil
}

func (l *locks) try(path string, weight int64, how int) (*heldLock, error) {
	entry := l.enter(path)
	if !entry.sem.TryAcquire(weight) {
		l.leave(path)
		return nil, nil
	}
	file, err := flock(path, how)
	if err != nil || file == nil {
		entry.sem.Release(weight)
		l.leave(path)
		if err != nil {
			err = wrapf(err, "could not acquire the lock %s", filepath.Base(path))
		}
		return nil, err
	}
	return &heldLock{locks: l, path: path, weight: weight, file: file}, nil
}

func (l *locks) enter(path string) *pathLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.paths[path]
	if entry == nil {
		entry = &pathLock{sem: semaphore.NewWeighted(allReaders)}
		l.paths[path] = entry
	}
	entry.users++
	return entry
}

func (l *locks) leave(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry := l.paths[path]; entry.users == 1 {
		delete(l.paths, path)
	} else {
		entry.users--
	}
}

// release releases the lock. It unlocks the file before closing it: a process that this program is
// starting shares the open file between fork and exec, and would keep the lock if the file were
// only closed.
func (h *heldLock) release() {
	_ = unix.Flock(int(h.file.Fd()), unix.LOCK_UN)
	_ = h.file.Close()
	h.locks.mu.Lock()
	entry := h.locks.paths[h.path]
	h.locks.mu.Unlock()
	entry.sem.Release(h.weight)
	h.locks.leave(h.path)
}

// share turns an exclusive lock into a shared one. Within this process nobody gets the lock in between; another
// process may. Then it reports false, and the lock must still be released.
func (h *heldLock) share() (bool, error) {
	err := unix.Flock(int(h.file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(h.file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, wrapf(err, "could not share the lock %s", filepath.Base(h.path))
	}
	h.locks.mu.Lock()
	entry := h.locks.paths[h.path]
	h.locks.mu.Unlock()
	entry.sem.Release(h.weight - 1)
	h.weight = 1
	return true, nil
}

// remove deletes the lock file. Waiters notice that the path no longer refers to the file that they
// opened, and start over.
func (h *heldLock) remove() error { return os.Remove(h.path) }

func flockWait(ctx context.Context, path string, how int) (*os.File, error) {
	pause := lockPollFirst
	for {
		file, err := flock(path, how)
		if err != nil || file != nil {
			return file, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, lockPollLongest)
	}
}

// flock tries once; nil without an error means that another process has it.
func flock(path string, how int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		}
	}
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		_ = file.Close()
		return nil, nil
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	if !stillNamed(file, path) {
		_ = file.Close()
		return nil, nil
	}
	return file, nil
}

// stillNamed reports whether the path still refers to the lock file, which another process may have
// removed.
func stillNamed(file *os.File, path string) bool {
	mine, err1 := file.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, named)
}
