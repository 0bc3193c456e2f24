package pgcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rocketgpt/orchestrator/internal/proc"
)

// stopStray stops a server of the cluster that was not recorded because the process that started it
// was killed. Two servers cannot share a directory.
func stopStray(ctx context.Context, dir string) error {
	id, ok := stray(dir)
	if !ok {
		return nil
	}
	if err := id.Stop(ctx, stopTime, syscall.SIGINT); err != nil {
		return fmt.Errorf("stop the leftover server in %s: %w", dir, err)
	}
	return nil
}

// stray returns the server process in a cluster's lock file, if that process really serves this
// directory.
func stray(dir string) (proc.ID, bool) {
	lock, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return proc.ID{}, false
	}
	first, _, _ := strings.Cut(string(lock), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return proc.ID{}, false
	}
	id, err := proc.Of(pid)
	if err != nil {
		return proc.ID{}, false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return proc.ID{}, false
	}
	args := bytes.Split(command, []byte{0})
	at := slices.IndexFunc(args, func(a []byte) bool { return string(a) == "-D" })
	serves := at >= 0 && at+1 < len(args) && string(args[at+1]) == dir
	return id, serves
}
