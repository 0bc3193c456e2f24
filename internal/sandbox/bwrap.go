package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// bubblewrap creates the namespaces with bwrap: a small, well-reviewed program that does nothing
// else.
func bubblewrap(s *session, bwrap string) (*exec.Cmd, error) {
	args := namespaceArgs(s)
	mounts, err := layout(s)
	if err != nil {
		return nil, err
	}
	made := map[string]bool{}
	for _, m := range mounts {
		args = append(args, parentArgs(path.Dir(m.Target), made)...)
		next, err := mountArgs(s, m)
		if err != nil {
			return nil, err
		}
		args = append(args, next...)
	}
	args = append(args, "--remount-ro", "/")

	info, err := s.readerPipe()
	if err != nil {
		return nil, err
	}
	s.findInit = func() (int, error) { return readChildPID(info.read) }
	args = append(args, "--info-fd", strconv.Itoa(info.childFD))
	if s.mappedByWorker() {
		block, err := s.mapUsers()
		if err != nil {
			return nil, err
		}
		args = append(args, "--unshare-user", "--userns-block-fd", strconv.Itoa(block))
	}

	// Arguments are passed in a file: the command line of a process is readable by
	// every user of the host.
	argsFile, err := s.memory("args", []byte(strings.Join(args, "\x00")+"\x00"))
	if err != nil {
		return nil, err
	}
	command := []string{bwrap, "--args", strconv.Itoa(argsFile), "--", helperPath, helperArg, stageInit}
	if s.overlays != nil {
		return withOverlays(s, command, mounts), nil
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	// No parent death signal, for the same reason as in namespaceArgs, and a session of its own: an
	// interrupt from the worker's terminal must not kill bwrap either.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dropGroups(cmd.SysProcAttr)
	return cmd, nil
}

// withOverlays starts bwrap in a user and mount namespace in which overlays and mapped mounts cover
// their source paths. For that, Go copies the page tables of the whole worker, which takes the
// longer, the more memory that has.
func withOverlays(s *session, command []string, mounts []mount) *exec.Cmd {
	for _, source := range slices.Sorted(maps.Keys(s.mapped)) { // parents before children
		if slices.ContainsFunc(mounts, func(m mount) bool { return m.Source == source }) {
			s.config.Mounts = append(s.config.Mounts, mount{Source: source, FD: s.pass(s.mapped[source])})
		}
	}
	s.config.Next = command
	s.config.Descriptors = len(s.childFiles)
	cmd := exec.Command(s.executable, helperArg, stageAttach)
	cmd.Dir = "/"
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL, Setsid: true}
	if s.mapped != nil {
		attr.UidMappings, attr.GidMappings = userMappings(os.Geteuid()), userMappings(os.Getegid())
		attr.GidMappingsEnableSetgroups = true
	} else {
		// The worker's user is root in this namespace and can mount; bwrap creates a nested
		// namespace in which it has no privileges.
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		attr.GidMappingsEnableSetgroups = unix.Geteuid() == 0
		if unix.Geteuid() == 0 {
			attr.Credential = &syscall.Credential{} // without groups
		}
	}
	cmd.SysProcAttr = attr
	return cmd
}

func namespaceArgs(s *session) []string {
	args := []string{
		"--unshare-net", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox",
		"--cap-drop", "ALL",
		// Our helper is process 1. When it exits, the kernel kills all other processes before bwrap
		// sees the exit, so there is no process to wait for.
		//
		// No --die-with-parent: if bwrap died with the worker before it told process 1 to start,
		// process 1 would wait for ever. The helper ends with the worker, and bwrap with the helper.
		"--as-pid-1", "--new-session",
	}
	if s.mapped != nil {
		// The helper needs these capabilities to become the user of the command. The user namespace
		// is that of withOverlays or has the mappings of mapUsers.
		return append(args, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_CHOWN")
	}
	return append(args, "--unshare-user", "--uid", strconv.Itoa(uid), "--gid", strconv.Itoa(uid))
}

// parentArgs creates the directories above a mount point; bwrap itself would make them accessible
// only to their owner.
func parentArgs(dir string, made map[string]bool) []string {
	if dir == "/" || made[dir] {
		return nil
	}
	made[dir] = true
	return append(parentArgs(path.Dir(dir), made), "--perms", "0755", "--dir", dir)
}

// emptyBytes is the space for the mount points in a mountEmpty.
const emptyBytes = 1 << 20

func mountArgs(s *session, m mount) ([]string, error) {
	size := strconv.FormatInt(m.Bytes, 10)
	switch m.Kind {
	case mountReadOnly, mountPrepared:
		return []string{"--ro-bind", m.Source, m.Target}, nil
	case mountWritable:
		return []string{"--bind", m.Source, m.Target}, nil
	case mountScratch:
		return []string{"--perms", "1777", "--size", size, "--tmpfs", m.Target}, nil
	case mountEmpty:
		return []string{"--perms", "0755", "--size", strconv.Itoa(emptyBytes), "--tmpfs", m.Target}, nil
	case mountSeal:
		return []string{"--remount-ro", m.Target}, nil
	case mountSymlink:
		return []string{"--symlink", m.Source, m.Target}, nil
	case mountProc:
		return []string{"--proc", m.Target, "--remount-ro", m.Target}, nil
	case mountDev:
		return []string{"--dev", m.Target, "--perms", "1777", "--size", size, "--tmpfs", m.Target + "/shm", "--remount-ro", m.Target}, nil
	case mountFile:
		return fileArgs(s, m.Target, "0444", m.Data)
	case mountProgram:
		return fileArgs(s, m.Target, "0555", m.Data)
	case mountOver:
		fd, err := s.memory("file", m.Data)
		return []string{"--perms", "0444", "--ro-bind-data", strconv.Itoa(fd), m.Target}, err
	}
	return nil, fmt.Errorf("sandbox: unknown mount %q", m.Kind)
}

func fileArgs(s *session, target, perms string, data []byte) ([]string, error) {
	fd, err := s.memory("file", data)
	return []string{"--perms", perms, "--file", strconv.Itoa(fd), target}, err
}

// readChildPID reads bwrap's report about its child process; end of file means that bwrap failed
// earlier and printed the reason on stderr.
func readChildPID(f *os.File) (int, error) {
	var info struct {
		ChildPID int `json:"child-pid"`
	}
	if err := json.NewDecoder(f).Decode(&info); err != nil {
		return 0, fmt.Errorf("bwrap exited early: %w", err)
	}
	return info.ChildPID, nil
}

// dropGroups drops the supplementary groups of root: they give access to files that belong to
// groups (docker, disk, adm). Only root can do that; the groups of an ordinary user stay and affect
// only mounted files.
func dropGroups(attr *syscall.SysProcAttr) {
	if unix.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 0, Gid: uint32(unix.Getegid())}
	}
}
