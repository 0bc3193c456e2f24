package sandbox

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A worker that is root should not run commands as root, even without capabilities: the kernel does
// not limit the number of root's processes, and they can open every file that root owns. So
// commands of such a worker run as nobody, in their own user namespace. The directories they may
// use are mounted with id mappings: files of the workspace's owner appear to belong to nobody, and
// files that commands create belong to the owner.
//
// Not every file system supports id mappings (overlayfs does not). On those, a command runs as the
// worker's own user, and only the watchdog counts processes.

// nobody is the user and group of such commands on the host.
const nobody = 65534

// canMapUsers reports whether this process may create mounts with id mappings.
func canMapUsers() bool { return unix.Geteuid() == 0 }

// mapMounts creates a mapped mount of each directory that the caller of Run specified. It returns
// false if the file system does not support such mounts.
func (s *session) mapMounts() (bool, error) {
	mapped := map[string]*os.File{}
	for _, path := range s.mappedPaths() {
		if _, done := mapped[path]; done || visibleAnyway(path) {
			continue
		}
		file, err := mappedMount(path, path)
		if err != nil {
			for _, file := range mapped {
				_ = file.Close()
			}
		}
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("sandbox: mount %s: %w", path, err)
		}
		mapped[path] = file
	}
	s.mapped = mapped
	s.config.SwitchUser = true
	s.config.Niceness = niceness
	return true, nil
}

// mappedPaths returns the host paths that the command sees, except paths with a base below them:
// their overlays are created from other mounts.
func (s *session) mappedPaths() []string {
	var paths []string
	for path, base := range map[string]string{s.command.Root: s.command.WorkspaceBase, s.command.Home: s.command.HomeBase, s.command.Tmp: ""} {
		if path != "" && base == "" {
			paths = append(paths, path)
		}
	}
	for _, m := range s.command.Mounts {
		paths = append(paths, m.Host)
	}
	for _, m := range s.toolchains {
		if m.Kind == mountReadOnly {
			paths = append(paths, m.Source)
		}
	}
	return paths
}

// mappedMount creates a detached mount of path in which the owner of the file or directory like
// appears as nobody.
func mappedMount(path, like string) (*os.File, error) {
	var stat unix.Stat_t
	if err := unix.Stat(like, &stat); err != nil {
		return nil, err
	}
	userns, err := mapping(owner{int(stat.Uid), int(stat.Gid)})
	if err != nil {
		return nil, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(userns.Fd())}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

type owner struct{ uid, gid int }

// mappings are user namespaces in which one owner is nobody. The kernel accepts mappings only in
// this form. The namespaces contain no process and are cached.
var mappings struct {
	sync.Mutex
	byOwner map[owner]*os.File
}

func mapping(o owner) (*os.File, error) {
	mappings.Lock()
	defer mappings.Unlock()
	if file := mappings.byOwner[o]; file != nil {
		return file, nil
	}
	file, err := newMapping(o)
	if err != nil {
		return nil, err
	}
	if mappings.byOwner == nil {
		mappings.byOwner = map[owner]*os.File{}
	}
	mappings.byOwner[o] = file
	return file, nil
}

// newMapping starts a process in a new user namespace, opens the namespace and ends the process.
func newMapping(o owner) (*os.File, error) {
	cmd := exec.Command("/bin/cat")
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: o.uid, HostID: nobody, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: o.gid, HostID: nobody, Size: 1}},
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := startChild(cmd); err != nil {
		return nil, err
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
	_ = stdin.Close()
	_ = cmd.Wait()
	return file, err
}

// mappedByWorker reports whether bwrap creates the user namespace, and the worker writes its mappings.
func (s *session) mappedByWorker() bool { return s.mapped != nil && s.overlays == nil }

// separateMounts gives this thread, which must end with its goroutine, a mount namespace of its own,
// which the child that the thread starts inherits. It lacks /sys, where many hosts have a third of
// their mounts or more: bwrap reads the list of all mounts again for each mount that it makes. No
// mapped mount shows a part of /sys, because sysfs and cgroups do not support id mappings.
func separateMounts() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("create a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach mounts from the host: %w", err)
	}
	_ = unix.Unmount("/sys", unix.MNT_DETACH) // what remains costs only time
	return nil
}

// prepareMounts gives this thread the mounts with which the child starts.
func (s *session) prepareMounts() error {
	if err := separateMounts(); err != nil || !s.mappedByWorker() {
		return err
	}
	return attachMapped(s.mapped)
}

// attachMapped covers host paths with mapped mounts, in a thread with separateMounts.
func attachMapped(mapped map[string]*os.File) error {
	for _, path := range slices.Sorted(maps.Keys(mapped)) { // parents before children
		if err := attach(int(mapped[path].Fd()), path); err != nil {
			return fmt.Errorf("attach %s: %w", path, err)
		}
	}
	return nil
}

// mapUsers makes the worker write the id mappings of the user namespace that bwrap creates, as soon
// as bwrap has reported process 1. It returns the child's descriptor from which bwrap reads until
// that is done. If Go created the namespace, it would copy the page tables of the whole worker.
func (s *session) mapUsers() (blockFD int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("sandbox: %w", err)
	}
	s.onClose(func() { _ = w.Close() })
	find := s.findInit
	s.findInit = func() (int, error) {
		pid, err := find()
		if err != nil {
			return 0, err
		}
		if err := s.writeMappings(pid); err != nil {
			s.unmapped <- err // without mappings, bwrap cannot build the sandbox
		}
		return pid, w.Close()
	}
	return s.pass(r), nil
}

// writeMappings writes the mappings of userMappings for the user namespace of a process.
func writeMappings(pid int) error {
	for name, id := range map[string]int{"gid_map": os.Getegid(), "uid_map": os.Geteuid()} {
		var lines strings.Builder
		for _, m := range userMappings(id) {
			fmt.Fprintf(&lines, "%d %d %d\n", m.ContainerID, m.HostID, m.Size)
		}
		// The kernel accepts only a single write.
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", pid, name), []byte(lines.String()), 0); err != nil {
			return fmt.Errorf("map the users of a sandbox: %w", err)
		}
	}
	return nil
}

// userMappings returns the id mappings of a namespace in which the sandbox is built as root and the
// command runs as nobody.
func userMappings(id int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: id, Size: 1},
		{ContainerID: uid, HostID: nobody, Size: 1},
	}
}

// switchUser changes the user of the helper, and thus of the command, to nobody on the host.
func switchUser() error {
	var home unix.Stat_t
	if err := unix.Stat(Home, &home); err != nil {
		return fmt.Errorf("home: %w", err)
	}
	if home.Uid != uid { // an in-memory home belongs to the user who mounted it
		if err := os.Chown(Home, uid, uid); err != nil {
			return err
		}
	}
	// These calls of package syscall, unlike those of unix, change all threads.
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(uid, uid, uid); err != nil {
		return fmt.Errorf("change group: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("change user: %w", err)
	}
	return dropCapabilities()
}

// attach attaches a detached mount at a path.
func attach(fd int, target string) error {
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
