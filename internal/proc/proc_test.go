package proc_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proc"
)

func TestAProcessIsStoppedWithWhatItLeftBehind(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "logs", "x.log")
	id, err := proc.Start(proc.Spec{Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo started; while :; do read -t 1 x; done"}, Log: log})
	require.NoError(t, err)
	require.True(t, id.Alive())
	require.NoError(t, id.Stop(t.Context(), 50*time.Millisecond, syscall.SIGTERM))
	require.False(t, id.Alive())
	require.NoError(t, id.Stop(t.Context(), time.Second, syscall.SIGTERM), "a second time changes nothing")
}

func TestAnotherProcessWithTheSameNumberIsLeftAlone(t *testing.T) {
	t.Parallel()
	id, err := proc.Of(os.Getpid())
	require.NoError(t, err)
	require.True(t, id.Alive())
	id.Start++
	require.False(t, id.Alive())
	require.NoError(t, id.Stop(t.Context(), time.Second, syscall.SIGKILL), "we are still here")
}
