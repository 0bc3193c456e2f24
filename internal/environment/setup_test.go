package environment

import (
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// plainRunner runs commands without a sandbox.
type plainRunner struct{}

// Run implements sandbox.Runner.
func (plainRunner) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Shell)
	out, _ := cmd.CombinedOutput()
	return sandbox.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out}, nil
}

func TestAnOptionalCommandThatFailsIsReportedAndEndsNoSetUp(t *testing.T) {
	t.Parallel()
	var told []string
	site := Site{
		Runner: plainRunner{}, Timeout: time.Minute, Proxy: func([]string) func(net.Listener) []string { return nil },
		OnOptional: func(f *Failed) { told = append(told, f.Output) },
	}
	draft, err := At(t.TempDir()).New()
	require.NoError(t, err)
	t.Cleanup(draft.Discard)
	failed, err := SetUp(t.Context(), site, Recipe{Setup: []Command{
		{Dir: ".", Shell: "echo one module is not to be had; exit 3", Optional: true}, {Dir: ".", Shell: "true", Optional: true}, {Dir: ".", Shell: "echo end; exit 4"},
	}}, draft)
	require.NoError(t, err)
	require.Equal(t, []string{"one module is not to be had"}, told)
	require.NotNil(t, failed)
	require.Equal(t, "end", failed.Output)
}
