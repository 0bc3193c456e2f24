package environment

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameAt moves an entry from one open directory to another on the same file system, without
// following links.
func renameAt(from, to *os.File, name string) error {
	err := unix.Renameat(int(from.Fd()), name, int(to.Fd()), name)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: name, Err: err}
	}
	return nil
}
