package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func TestSecretsOfTheWorkerAreOutOfReach(t *testing.T) {
	p := isolated(t)
	out := shellOutput(t, p, `env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; strings -a /proc/1/mem 2>/dev/null | head -c 1000; true`)
	require.NotContains(t, out, sandboxtest.CanarySecret)
	env := shellOutput(t, p, "env | cut -d= -f1 | sort | tr '\\n' ' '")
	require.Equal(t, "CI HOME LANG PATH PWD SHLVL TERM TMPDIR USER _ npm_config_offline ", env)
}

func TestNoDescriptorIsInherited(t *testing.T) {
	// One that is not closed on exec, as a careless library might leave it.
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	leak, err := syscall.Dup(int(r.Fd()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(leak) })
	p := isolated(t)
	out := shellOutput(t, p, `python3 -c '
import os
print(*[fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")])'`)
	require.Equal(t, "0 1 2\n", out)
}

// foreignABI makes a system call as 32-bit programs do, which filters for one
// architecture miss.
const foreignABI = `
#include <stdio.h>
int main(void) {
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid */
	printf("%ld\n", result);
	return 0;
}`

func TestCallsOfAnotherArchitectureAreDenied(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler")
	}
	p := isolated(t)
	res := runCommand(t, p, Command{Shell: "cat >abi.c && gcc -o abi abi.c && ./abi", Stdin: []byte(foreignABI)})
	if res.ExitCode == 128+int(syscall.SIGSEGV) {
		return // this kernel has no 32-bit calls at all
	}
	require.Equal(t, "-38\n", string(res.Stdout), "%s", res.Stderr)
}

func TestOwnersOfFilesStayOnTheHostAndSysIsHidden(t *testing.T) {
	p := isolated(t)
	root := t.TempDir()
	res := runCommand(t, p, Command{Root: root, Shell: "echo x >f; id -u; ls /sys/kernel"})
	require.NotZero(t, res.ExitCode)
	require.Equal(t, "1000\n", string(res.Stdout))
	info, err := os.Stat(filepath.Join(root, "f"))
	require.NoError(t, err)
	require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	require.True(t, runCommand(t, p, layeredCommand(l, "echo x >node_modules/new")).OK())
	info, err = os.Stat(filepath.Join(l.Root, "node_modules", "new"))
	require.NoError(t, err)
	require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid, "files belong to the owner of the workspace")
}
