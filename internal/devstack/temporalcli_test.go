package devstack_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
)

// temporalCommand is a temporal command with our own server in it: the flags that a
// stack passes are the same.
func temporalCommand(t *testing.T, serverVersion string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "temporal")
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --version ]; then\n  echo 'temporal version 1.9.1 (%s, UI 2.54.1)'\n  exit\nfi\nshift 2\nexec %s \"$@\"\n",
		serverVersion, programs.Devserver)
	proctest.WriteProgram(t, file, script)
	return file
}

func TestTheTemporalCommandMustContainARecentServer(t *testing.T) {
	t.Parallel()
	require.NoError(t, devstack.CheckTemporalCLI(t.Context(), temporalCommand(t, "Server 1.32.0")))
	require.NoError(t, devstack.CheckTemporalCLI(t.Context(), temporalCommand(t, "Server 1.100.3")))
	require.ErrorContains(t, devstack.CheckTemporalCLI(t.Context(), temporalCommand(t, "Server 1.29.1")), "but rgpt needs v1.32.0 or newer")
	require.ErrorContains(t, devstack.CheckTemporalCLI(t.Context(), temporalCommand(t, "")), "does not report a server version")
	require.ErrorContains(t, devstack.CheckTemporalCLI(t.Context(), filepath.Join(t.TempDir(), "temporal")), "cannot run")
}

func TestADataFolderKeepsTheTemporalServerThatItBeganWith(t *testing.T) {
	t.Parallel()
	o := options(folder(t))
	o.Without = []devstack.Role{devstack.RoleModel, devstack.RoleWorker, devstack.RoleServer}
	both := devstack.Programs{Starter: programs.Starter, Worker: programs.Worker, Devserver: programs.Devserver, TemporalCLI: temporalCommand(t, "Server 1.32.1")}

	o.Programs = both
	o.Programs.Devserver = ""
	s := up(t, o)
	require.FileExists(t, filepath.Join(o.DataDir, "temporal-cli.db"))
	kill(t, s, devstack.RoleTemporal)

	o.Programs = both
	_, err := devstack.Up(t.Context(), o)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(o.DataDir, "temporal.db"), "the histories are in the other file")
	down(t, o.DataDir)

	o.Programs.TemporalCLI = ""
	_, err = devstack.Up(t.Context(), o)
	require.ErrorContains(t, err, "were written by the temporal command, which is missing")

	o.DataDir, o.Programs = folder(t), both
	up(t, o)
	require.FileExists(t, filepath.Join(o.DataDir, "temporal.db"), "ours comes first")
	down(t, o.DataDir)
	o.Programs.Devserver = ""
	_, err = devstack.Up(t.Context(), o)
	require.ErrorContains(t, err, "were written by temporal-devserver, which is missing")
}
