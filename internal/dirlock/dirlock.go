// Package dirlock locks directories among the processes of a host, so that none is
// removed while another process uses it.
package dirlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrInUse means that a process uses the directory.
var ErrInUse = errors.New("the directory is in use")

// Lock is a locked directory. The lock goes with its process.
type Lock struct{ file *os.File }

// Use locks a directory for use, together with other users. It returns an error that
// matches fs.ErrNotExist if the directory does not exist or has just been removed.
func Use(dir string) (*Lock, error) {
	// A remover holds the lock only for a rename, so this does not wait for long.
	return lock(dir, unix.LOCK_SH)
}

// Claim locks a directory against all users, as its removal requires. If there is one,
// it returns ErrInUse at once.
func Claim(dir string) (*Lock, error) {
	l, err := lock(dir, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrInUse
	}
	return l, err
}

// Release releases the lock. It unlocks before it closes: a process that is being
// started elsewhere in this program shares the open file between its fork and its
// exec, and closing alone would leave the lock with it.
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

// isAt reports whether an open directory is still the one of that name.
func isAt(file *os.File, dir string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(dir)
	return err == nil && os.SameFile(opened, named)
}
