package workerhost

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func TestAWorkerWithoutUsefulRolesIsRefusedAndOneWithSomeIsWarned(t *testing.T) {
	t.Parallel()
	check := func(roles ...string) (string, error) {
		var log bytes.Buffer
		cfg := config.Default()
		cfg.Worker.Roles = roles
		err := checkRoles(Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&log, nil))})
		return log.String(), err
	}
	_, err := check("analyzer")
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	require.ErrorContains(t, err, "worker.roles")
	log, err := check("run", "analyzer")
	require.NoError(t, err)
	require.Contains(t, log, "analyzer")
	for _, roles := range [][]string{nil, {"run"}, {"run", "planner", "builder", "tester", "releaser"}} {
		log, err := check(roles...)
		require.NoError(t, err)
		require.Empty(t, log)
	}
}
