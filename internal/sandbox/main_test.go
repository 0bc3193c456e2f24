package sandbox

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// childVariable makes the test binary run sandboxes, for the tests that kill it.
const childVariable = "RGPT_SANDBOX_TEST_CHILD"

func TestMain(m *testing.M) {
	MaybeRunHelper()
	if spec := os.Getenv(childVariable); spec != "" {
		runChild(spec)
	}
	if err := os.Setenv("RGPT_TEST_API_KEY", sandboxtest.CanarySecret); err != nil {
		panic(err) //nolint:forbidigo // there is no test yet that could fail
	}
	goleak.VerifyTestMain(m)
}

// runChild is a worker that will be killed: workspace and command, separated by a
// line end.
func runChild(spec string) {
	root, shell, _ := strings.Cut(spec, "\n")
	p, err := NewProcess(Options{})
	if err == nil && shell == manyChildren {
		fmt.Println("ready")
		startMany(p, root)
	}
	if err == nil {
		_, err = p.Run(context.Background(), Command{Root: root, Shell: shell})
	}
	fmt.Fprintln(os.Stderr, "the sandbox ended:", err)
	os.Exit(1)
}

// manyChildren instead of a command starts sandboxes without end.
const manyChildren = "many"

// startMany starts several sandboxes at once, again and again, and never returns.
func startMany(p *Process, root string) {
	for i := range 8 {
		command := Command{Root: root, Shell: "true"}
		if i%2 == 1 { // bwrap starts from a separate stage there
			command.WorkspaceBase = root
		}
		go func() {
			for {
				_, _ = p.Run(context.Background(), command)
			}
		}()
	}
	select {}
}

var runner = sync.OnceValues(func() (*Process, error) { return NewProcess(Options{}) })

// isolated returns the runner that tests share, and lets the test run beside others.
func isolated(t *testing.T) *Process {
	t.Helper()
	t.Parallel()
	p, err := runner()
	require.NoError(t, err)
	return p
}

// unisolated returns the runner of a machine that cannot isolate.
func unisolated(t *testing.T) *Process {
	t.Helper()
	t.Parallel()
	base, err := newBase(Options{AllowUnisolated: true})
	require.NoError(t, err)
	p, err := base.unisolated(nil)
	require.NoError(t, err)
	return p
}

// run runs a command with limits small enough for a shared machine.
func runCommand(t *testing.T, p *Process, c Command) Result {
	t.Helper()
	if c.Root == "" {
		c.Root = t.TempDir()
	}
	if c.Limits.Timeout == 0 {
		c.Limits.Timeout = 20 * time.Second
	}
	if c.Limits.Processes == 0 {
		c.Limits.Processes = 200
	}
	if c.Limits.MemoryBytes == 0 {
		c.Limits.MemoryBytes = 512 << 20
	}
	if c.Limits.DiskBytes == 0 {
		c.Limits.DiskBytes = 256 << 20
	}
	if c.Limits.FileBytes == 0 {
		c.Limits.FileBytes = 128 << 20
	}
	res, err := p.Run(t.Context(), c)
	require.NoError(t, err)
	return res
}

func shellOutput(t *testing.T, p *Process, script string) string {
	t.Helper()
	res := runCommand(t, p, Command{Shell: script})
	require.True(t, res.OK(), "%s\n%+v\n%s", script, res, res.Stderr)
	return string(res.Stdout)
}
