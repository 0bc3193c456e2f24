// Package ext4 tells the file system ext4 how directories are used.
package ext4

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// topDirectory is EXT4_TOPDIR_FL, which chattr calls T.
const topDirectory = 0x20000

// SpreadSubdirectories lets an ext4 file system without a journal place each subdirectory that is created in a
// directory from now on, with all that is in it, in a block group of its own. Without a journal, ext4 does not reuse
// the number of a file that was deleted in the last one to six minutes, and passes over such numbers one by one
// whenever it creates a file in their group: where whole trees come and go in few groups, that takes most of the time
// for creating files. With a journal, it reuses them at once, and directories stay close to each other.
//
// Only the placement of files depends on it, so failures are ignored: on another file system, without sysfs, or if
// another user owns the directory, everything stays where it would have been.
func SpreadSubdirectories(dir string) {
	file, err := os.Open(dir) //nolint:gosec // a directory of this program's own
	if err != nil {
		return
	}
	defer file.Close()
	fd := int(file.Fd())
	if !withoutJournal(fd) {
		return
	}
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&topDirectory != 0 {
		return
	}
	_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|topDirectory))
}

// withoutJournal reports whether a file is on an ext4 file system that has no journal.
func withoutJournal(fd int) bool {
	var system unix.Statfs_t
	var stat unix.Stat_t
	if unix.Fstatfs(fd, &system) != nil || system.Type != unix.EXT4_SUPER_MAGIC || unix.Fstat(fd, &stat) != nil {
		return false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev)))
	if err != nil {
		return false
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task"))
	return err == nil && strings.TrimSpace(string(task)) == "<none>"
}
