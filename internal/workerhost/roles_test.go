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

func TestARoleHasTwoKindsOfSlotsOnlyWhereItsWorkflowsAre(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Worker)
		role   string
		want   int
	}{
		"a role that waits":          {func(*config.Worker) {}, "builder", 256},
		"a role that works":          {func(*config.Worker) {}, "releaser", 16},
		"the role of workflows":      {func(*config.Worker) {}, "run", 0},
		"no workflows":               {func(w *config.Worker) { w.Roles = []string{"builder", "tester"} }, "builder", 0},
		"a role that is elsewhere":   {func(w *config.Worker) { w.Roles = []string{"run", "planner"} }, "builder", 0},
		"turned off":                 {func(w *config.Worker) { w.EagerActivities = false }, "builder", 0},
		"few slots, for the queue":   {func(w *config.Worker) { w.MaxConcurrentTurns = 7 }, "builder", 0},
		"the queue has the odd slot": {func(w *config.Worker) { w.MaxConcurrentTurns = 9 }, "builder", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			c.change(&cfg.Worker)
			require.Equal(t, c.want, eagerSlots(Options{Config: cfg}, c.role))
		})
	}
}
