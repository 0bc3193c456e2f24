package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func TestACommandThatIsCanceledWhileItStartsLeavesNothingBehind(t *testing.T) {
	p := isolated(t)
	root, base := t.TempDir(), t.TempDir()
	before := orphans(t)
	for i := range 120 {
		command := Command{Root: root, Shell: "sleep 300"}
		if i%2 == 1 { // bwrap starts from a separate stage there
			command.WorkspaceBase = base
		}
		// The moments from the fork to the first line of the command, one after the other.
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond/4)
		_, _ = p.Run(ctx, command)
		cancel()
	}
	await.Until(t, "the end of all sandboxes whose worker is gone", func() bool {
		return !slices.ContainsFunc(orphans(t), func(o string) bool { return !slices.Contains(before, o) })
	})
}

// orphans are the processes of sandboxes whose parent is gone: nobody waits for them,
// and nobody ends them.
func orphans(t *testing.T) []string {
	t.Helper()
	return orphansWith(t, helperArg)
}

// orphansWith are the processes with a text in their command line whose parent is gone.
func orphansWith(t *testing.T, text string) []string {
	t.Helper()
	return slices.DeleteFunc(sandboxtest.ProcessesWith(t, text), func(found string) bool {
		file, _, _ := strings.Cut(found, ": ")
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		return err != nil || !strings.Contains(string(status), "\nPPid:\t1\n") || strings.Contains(string(status), "\nState:\tZ")
	})
}

func TestSandboxDiesWithItsWorker(t *testing.T) {
	t.Parallel()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	root := t.TempDir()
	script := ": " + marker + "; trap '' TERM HUP INT; (setsid bash -c 'echo >up; sleep 300; : " + marker + "' &); sleep 300"
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), childVariable+"="+root+"\n"+script)
	require.NoError(t, worker.Start())
	await.Until(t, "the command to be up", func() bool {
		_, err := os.Stat(filepath.Join(root, "up"))
		return err == nil
	})
	require.NotEmpty(t, sandboxtest.ProcessesWith(t, marker))
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()
	await.Until(t, "all processes to be gone", func() bool { return len(sandboxtest.ProcessesWith(t, marker)) == 0 })
}

func TestSandboxesThatStartWhenTheirWorkerIsKilledEnd(t *testing.T) {
	before := orphans(t)
	for i := range 12 { // each hits eight sandboxes, at different points of their start
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), childVariable+"="+t.TempDir()+"\n"+manyChildren)
		out, err := worker.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, worker.Start())
		_, err = bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		<-time.After(100*time.Millisecond + time.Duration(i)*7*time.Millisecond) // any moment will do
		require.NoError(t, worker.Process.Kill())
		_ = worker.Wait()
	}
	await.Until(t, "the end of all sandboxes whose worker was killed", func() bool {
		forks := orphansWith(t, os.Args[0]) // of the worker, before they become another program
		return !slices.ContainsFunc(append(forks, orphans(t)...), func(o string) bool { return !slices.Contains(before, o) })
	})
}
