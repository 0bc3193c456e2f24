package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// direct runs a command without namespaces. It is used only if the machine offers none and the user
// allowed it (Options.AllowUnisolated). Landlock and seccomp still apply if the kernel has them,
// and resource limits always do; but the command sees the host's processes, may be able to stop the
// helper and outlive its run, and finds its workspace at the host's path.
func direct(s *session) (*exec.Cmd, error) {
	scratch, err := os.MkdirTemp("", "rgpt-sandbox-")
	if err != nil {
		return nil, fmt.Errorf("sandbox: private directory: %w", err)
	}
	s.onClose(func() { _ = os.RemoveAll(scratch) })
	s.config.Isolated = false
	s.config.NoSockets = true
	s.config.Dir = filepath.Join(s.command.Root, s.command.Dir)
	home, temporary := cmp.Or(s.command.Home, scratch), cmp.Or(s.command.Tmp, scratch)
	s.config.Env = onHost(environment(s.command, home, temporary), s)
	s.places = directPlaces(s, home, temporary, scratch)
	s.config.Shell = s.places.use(s.config.Shell)
	if s.config.Landlock != nil {
		s.config.Landlock = &landlockRules{
			ReadOnly: directReadOnly(s),
			Writable: append(s.command.writable(), scratch),
		}
	}
	cmd := exec.Command(s.executable, helperArg, stageDrop)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	dropGroups(cmd.SysProcAttr)
	s.findInit = func() (int, error) { return cmd.Process.Pid, nil }
	return cmd, nil
}

// onHost replaces sandbox paths in the environment with host paths, the only paths that exist here.
func onHost(env []string, s *session) []string {
	places := map[string]string{}
	for _, m := range movedPaths(s.command, s.toolchains) {
		places[m.Target] = m.Source
	}
	// Longest first, because one path may be inside another.
	inside := slices.SortedFunc(maps.Keys(places), func(a, b string) int { return len(b) - len(a) })
	for i := range env {
		for _, place := range inside {
			env[i] = replacePath(env[i], place, places[place])
		}
	}
	return env
}

// replacePath replaces a path, and paths below it, in a list of paths or words.
func replacePath(s, path, by string) string {
	const before, after = "=: '\"", "/: '\""
	var b strings.Builder
	for {
		i := strings.Index(s, path)
		if i < 0 {
			return b.String() + s
		}
		end := i + len(path)
		begins := i > 0 && strings.IndexByte(before, s[i-1]) >= 0
		ends := end == len(s) || strings.IndexByte(after, s[end]) >= 0
		b.WriteString(s[:i])
		if begins && ends {
			b.WriteString(by)
		} else {
			b.WriteString(path)
		}
		s = s[end:]
	}
}

func directReadOnly(s *session) []string {
	paths := append([]string{"/proc", "/dev"}, systemDirs...)
	for _, name := range slices.Concat([]string{"passwd", "group", "hosts"}, etcDirs, etcFiles) {
		paths = append(paths, filepath.Join("/etc", name))
	}
	for _, m := range extraMounts(s.command, s.toolchains) {
		if m.Kind == mountReadOnly {
			paths = append(paths, m.Source)
		}
	}
	return paths
}

// treeTick is how often reapTree checks.
const treeTick = 10 * time.Millisecond

// reapTree combines reapUntil and dieWithWorker on one thread: before version 8, Landlock creates a
// separate domain for each thread, and a thread cannot signal processes that another thread
// started.
func reapTree(child int) helperStatus {
	life := []unix.PollFd{{Fd: lifeFD, Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(life, int(treeTick/time.Millisecond)); err == nil && n > 0 {
			killDescendants()
			os.Exit(124)
		}
		for {
			var status unix.WaitStatus
			var usage unix.Rusage
			pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
			if err != nil || pid == 0 {
				break
			}
			if pid == child && (status.Exited() || status.Signaled()) {
				return exitStatus(status, usage)
			}
		}
	}
}

// killDescendants kills the processes that the command left behind. Orphans become children of this
// process, so the search finds all of them; it is repeated because processes may just be starting.
func killDescendants() {
	procs, err := openProcesses(os.Getpid(), false)
	if err != nil {
		return
	}
	defer procs.close()
	for {
		for _, pid := range procs.list() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // no child is left
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // new children may appear at any time without notice
	}
}
