// Package dirlock locks directories across the processes of a host, so a directory is not removed
// while another process uses it.
package dirlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse means that a process is using the directory.
var ErrInUse = errors.New("the directory is in use")

// Lock is a locked directory. The lock is released when its process exits.
type Lock struct{ file *os.File }

// Use locks a directory for use, together with other users. It returns an error that
// matches fs.ErrNotExist if the directory does not exist or has just been removed.
func Use(dir string) (*Lock, error) {
	// A remover holds the lock only for a rename, so this does not wait for long.
	return lock(dir, unix.LOCK_SH)
}

// Claim locks a directory exclusively, as required for removing it. If the directory is in use, it
// immediately returns ErrInUse.
func Claim(dir string) (*Lock, error) {
	l, err := lock(dir, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrInUse
	}
	return l, err
}

// Release releases the lock. It unlocks the file before closing it: a process that is being started
// elsewhere in this program shares the open file between its fork and its exec, and would still
// hold the lock after a mere close.
func (l *Lock) Release() {
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN)
	_ = l.file.Close()
}

func lock(dir string, how int) (*Lock, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil && !isAt(file, dir) {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(dir), err)
	}
	return &Lock{file: file}, nil
}

// isAt reports whether an open directory is still the one at that path.
func isAt(file *os.File, dir string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(dir)
	return err == nil && os.SameFile(opened, named)
}
