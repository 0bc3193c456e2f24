package sandbox

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// namespaces makes the namespaces itself if bubblewrap is missing: it starts a copy of
// this binary in them, which builds the file system.
type namespaces struct{}

// prepare implements isolator.
func (namespaces) prepare(s *session) (*exec.Cmd, error) {
	mounts, err := layout(s)
	if err != nil {
		return nil, err
	}
	s.config.Mounts = mounts
	flags := uintptr(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWNET)
	cmd := exec.Command(s.executable, helperArg, stageMounts)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: flags,
		// One user, who is the worker's on the host: files created in the workspace
		// belong to the worker.
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getegid(), Size: 1}},
		// For mounts and the loopback, inside the namespaces only; dropped
		// before the command starts.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP},
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
	}
	if s.overlays != nil {
		// An overlay copies with the rights of the user who mounted it, and must be
		// able to read files that their owner made inaccessible.
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps,
			unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID)
	}
	if s.mapped != nil {
		attr := cmd.SysProcAttr
		attr.UidMappings, attr.GidMappings = userMappings(os.Geteuid()), userMappings(os.Getegid())
		attr.GidMappingsEnableSetgroups = true // to drop groups
		attr.AmbientCaps = nil                 // it is root in there
	}
	s.findInit = func() (int, error) { return cmd.Process.Pid, nil }
	return cmd, nil
}
