// Package rmtree removes directories with untrusted content: inaccessible directories, and trees
// deeper than the limits on paths and descriptors. Links are not followed, even if the tree changes
// in the meantime.
package rmtree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxLevels is the maximum number of directories that are open at the same time. Deeper directories
// are moved up first.
const maxLevels = 32

// Remove removes a path and everything below it. A missing path is not an error. Entries that
// cannot be removed are kept; the rest is removed, and the first error is returned.
func Remove(path string) error {
	parent, err := os.Open(filepath.Dir(filepath.Clean(path)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer parent.Close()
	r := remover{top: -1}
	r.remove(int(parent.Fd()), filepath.Base(path), 0)
	if r.failed != nil {
		return fmt.Errorf("remove %s: %w", path, r.failed)
	}
	return nil
}

type remover struct {
	top    int // descriptor of the top directory
	moved  int // number of directories moved up to top so far
	failed error
}

func (r *remover) fail(err error) {
	if r.failed == nil {
		r.failed = err
	}
}

// remove removes an entry of a directory, and reports whether it was removed or moved.
func (r *remover) remove(dir int, name string, level int) bool {
	err := unix.Unlinkat(dir, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return true
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES):
		r.fail(err)
		return false
	}
	if level >= maxLevels {
		return r.moveUp(dir, name)
	}
	folder, err := open(dir, name)
	if err != nil {
		r.fail(err)
		return false
	}
	if level == 0 {
		r.top = int(folder.Fd())
	}
	r.empty(folder, level)
	_ = folder.Close()
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		r.fail(err)
		return false
	}
	return true
}

// empty removes the entries of a directory until it is empty or the rest cannot be removed. It
// reads the directory repeatedly, because directories may be moved up into it in the meantime.
func (r *remover) empty(folder *os.File, level int) {
	for {
		removed := 0
		if _, err := folder.Seek(0, 0); err != nil {
			r.fail(err)
			return
		}
		names, err := folder.Readdirnames(-1)
		if err != nil {
			r.fail(err)
			return
		}
		for _, name := range names {
			if r.remove(int(folder.Fd()), name, level+1) {
				removed++
			}
		}
		if len(names) == 0 || removed == 0 {
			return
		}
	}
}

// moveUp moves a deep directory to the top directory, which is emptied again afterwards.
func (r *remover) moveUp(dir int, name string) bool {
	_ = unix.Fchmodat(dir, name, 0o700, 0)
	for {
		r.moved++
		err := unix.Renameat2(dir, name, r.top, fmt.Sprintf(".rmtree-%d", r.moved), unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			r.fail(err)
		}
		return err == nil
	}
}

// open opens a directory, but not a link. It makes the directory accessible and writable to its
// owner, so its entries can be removed.
func open(dir int, name string) (*os.File, error) {
	const how = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, how, 0)
	if errors.Is(err, unix.EACCES) {
		if err := unix.Fchmodat(dir, name, 0o700, 0); err != nil {
			return nil, err
		}
		fd, err = unix.Openat(dir, name, how, 0)
	}
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) == nil && stat.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700)
	}
	return os.NewFile(uintptr(fd), name), nil
}
