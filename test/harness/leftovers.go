package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exitTime is the time in which the processes of a stopped stack exit. On a busy machine, the kernel takes
// long to end the namespaces of sandboxes whose worker was killed.
const exitTime = time.Minute

// CheckNothingLeft checks that a stopped stack has no running processes and no mounts.
func (s *Stack) CheckNothingLeft(tb testing.TB) {
	tb.Helper()
	Await(tb, "all processes of the stack to exit", exitTime, func() (bool, string) {
		left := processesOf(s.DataDir)
		return len(left) == 0, strings.Join(left, "; ")
	})
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(tb, err)
	require.NotContains(tb, string(mounts), s.DataDir, "a mount remains")
}

// processesOf describes the processes whose arguments, environment or mounted sources refer to a
// directory.
func processesOf(dir string) []string {
	entries, _ := os.ReadDir("/proc")
	var out []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, file := range []string{"cmdline", "environ", "mountinfo"} {
			text, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if file == "mountinfo" {
				text = mountSources(text)
			}
			if err == nil && bytes.Contains(text, []byte(dir)) {
				cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
				out = append(out, fmt.Sprintf("%d (%s): %.200s", pid, file, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
				break
			}
		}
	}
	return out
}

// mountSources removes the mount points from a mountinfo file. A sandbox of another stack has a copy
// of the host's mounts, and so of a file system that a test mounted in its own directory.
func mountSources(mountinfo []byte) []byte {
	var out []byte
	for line := range bytes.Lines(mountinfo) {
		fields := bytes.Fields(line)
		if len(fields) > 5 {
			fields = slices.Delete(fields, 4, 5)
		}
		out = append(append(out, bytes.Join(fields, []byte(" "))...), '\n')
	}
	return out
}

// sandboxesOf describes the sandboxed processes of a stack, which have mounts from its cache.
func sandboxesOf(dataDir string) []string {
	entries, _ := os.ReadDir("/proc")
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		mounts, err := os.ReadFile(filepath.Join("/proc", e.Name(), "mountinfo"))
		if err == nil && bytes.Contains(mounts, []byte(filepath.Join(dataDir, "cache"))) {
			cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			out = append(out, fmt.Sprintf("%s: %.200s", e.Name(), bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// digestOf returns the digest of everything in a directory: names, file types and content.
func digestOf(tb testing.TB, dir string) string {
	tb.Helper()
	hash := sha256.New()
	require.NoError(tb, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %s\n", path, d.Type())
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(hash, "%d ", len(text))
		_, _ = hash.Write(text)
		return err
	}))
	return hex.EncodeToString(hash.Sum(nil))
}

// Running reports whether a process with these arguments is running on this machine.
func Running(args ...string) bool { return CountRunning(args...) > 0 }

// CountRunning returns the number of processes with these arguments on this machine.
func CountRunning(args ...string) int { return len(processes(args)) }

// KillRunning kills the processes with these arguments, which must be those of the test alone, and
// returns their number.
func KillRunning(args ...string) (n int) {
	for _, pid := range processes(args) {
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// processes returns the processes with these arguments.
func processes(args []string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	want := []byte(strings.Join(args, "\x00") + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); err == nil && bytes.Equal(cmdline, want) {
			pids = append(pids, pid)
		}
	}
	return pids
}
