package sandbox

import (
	"errors"
	"fmt"
	"net"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// The helper as process 1 of a container inherits no files. It receives them through a socket in a
// directory of the host, which the container sees at ControlDir. From then on, it is the same as any
// other helper: it ends with the worker, and its output does not pass through the container engine.
const (
	// HelperPath is the path of the helper binary in a container.
	HelperPath = helperPath
	// ControlDir is the directory of the socket in a container.
	ControlDir = "/run/sandbox/control"
	// ControlSocket is the name of the socket.
	ControlSocket = "s"
)

// HelperArgs are the arguments of the helper as process 1 of a container.
func HelperArgs() []string { return []string{helperArg, stageContainer} }

// Identity returns the contents of /etc/passwd and /etc/group for a sandbox whose commands have the
// given user and group ids.
func Identity(uid, gid int) (passwd, group []byte) {
	passwd = fmt.Appendf(nil, "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nsandbox:x:%d:%d:sandbox:%s:/bin/sh\n", uid, gid, Home)
	return passwd, fmt.Appendf(nil, "root:x:0:\nsandbox:x:%d:\n", gid)
}

// maxPassed is the maximum number of files that the helper receives.
const maxPassed = 64

// SendFiles passes the files of a launch to a helper that has connected to the socket.
func SendFiles(conn *net.UnixConn, l Launch) error {
	fds := []int{int(l.Stdin.Fd()), int(l.Stdout.Fd()), int(l.Stderr.Fd())}
	for _, f := range l.Files {
		fds = append(fds, int(f.Fd()))
	}
	if len(fds) > maxPassed {
		return fmt.Errorf("sandbox: a command needs %d files, more than %d", len(fds), maxPassed)
	}
	_, _, err := conn.WriteMsgUnix([]byte{1}, unix.UnixRights(fds...), nil)
	return err
}

// connectTime limits the helper's connection to the worker, which listens before it starts the
// container.
const connectTime = 10 * time.Second

// receiveFiles connects to the worker, and makes the files that it passes those of this process.
func receiveFiles() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("connect to the worker: %w", err)
	}
	timeout := unix.NsecToTimeval(connectTime.Nanoseconds())
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path.Join(ControlDir, ControlSocket)}); err != nil {
		return fmt.Errorf("connect to the worker: %w", err)
	}
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4*maxPassed))
	n, m, flags, _, err := unix.Recvmsg(fd, data, control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 || flags&unix.MSG_CTRUNC != 0 {
		return fmt.Errorf("receive files from the worker: %w", errors.Join(err, errIncomplete))
	}
	messages, err := unix.ParseSocketControlMessage(control[:m])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("receive files from the worker: %w", errors.Join(err, errIncomplete))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) < 6 {
		return fmt.Errorf("receive files from the worker: %w", errors.Join(err, errIncomplete))
	}
	return install(fds)
}

var errIncomplete = errors.New("the message is incomplete")

// install makes the received files descriptors 0, 1, 2, … of this process. They are first moved
// above all of those numbers, so that none is overwritten before its turn.
func install(fds []int) error {
	for i, fd := range fds {
		moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, len(fds)+maxPassed)
		if err != nil {
			return fmt.Errorf("install file %d: %w", i, err)
		}
		fds[i] = moved
	}
	for i, fd := range fds {
		if err := unix.Dup3(fd, i, 0); err != nil {
			return fmt.Errorf("install file %d: %w", i, err)
		}
	}
	return nil
}
