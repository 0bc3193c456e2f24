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

func (plainRunner) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Shell)
	out, _ := cmd.CombinedOutput()
	return sandbox.Result{ExitCode: cmd.ProcessState.ExitCode(), Stdout: out}, nil
}

func TestASetUpWhoseCommandsAllFailFailsThoughEachIsOptional(t *testing.T) {
	t.Parallel()
	site := Site{Runner: plainRunner{}, Timeout: time.Minute, Proxy: func([]string) func(net.Listener) []string { return nil }}
	draft, err := At(t.TempDir()).New()
	require.NoError(t, err)
	t.Cleanup(draft.Discard)
	optional := func(shell string) Command { return Command{Dir: ".", Shell: shell, Optional: true} }

	failed, err := SetUp(t.Context(), site, Recipe{Setup: []Command{optional("echo the cause; exit 3"), optional("exit 4")}}, draft)
	require.NoError(t, err)
	require.NotNil(t, failed)
	require.Equal(t, "the cause", failed.Output)

	failed, err = SetUp(t.Context(), site, Recipe{Setup: []Command{optional("exit 3"), optional("true")}}, draft)
	require.NoError(t, err)
	require.Nil(t, failed)
	failed, err = SetUp(t.Context(), site, Recipe{}, draft)
	require.NoError(t, err)
	require.Nil(t, failed)
}
