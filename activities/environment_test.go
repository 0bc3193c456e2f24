package activities_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestRunsThatWaitForASetupThatFailsDoNotTryItAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "  []")
	var err error
	h.Proxy, err = setup.Proxy(h.Config)
	require.NoError(t, err)
	// It takes long enough for all runs to wait for it.
	h.Config.Environment.Setup = []string{"sleep 5; echo no such registry; exit 1"}
	settings, spec, err := setup.Freeze(h.Config, h.repo)
	require.NoError(t, err)
	prepare := func() (contract.EnvironmentResult, int64, error) {
		run, _, err := h.Store.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "Say more", Settings: settings, Spec: spec})
		if err != nil {
			return contract.EnvironmentResult{}, 0, err
		}
		out, err := h.Environment(t.Context(), contract.EnvironmentInput{RunID: run.ID, Workspace: h.repo.Workspace(), Timeout: 60e9})
		return out, run.ID, err
	}
	// tried counts the runs that carried the set-up out: each keeps its output.
	tried := func(runs []int64) (n int) {
		for _, id := range runs {
			details, err := h.Store.RunDetails(t.Context(), id)
			require.NoError(t, err)
			for _, a := range details.Artifacts {
				if strings.HasSuffix(a.Name, "/setup.log") {
					n++
				}
			}
		}
		return n
	}
	runs, results := make([]int64, 3), make([]contract.EnvironmentResult, 3)
	var group errgroup.Group
	for i := range runs {
		group.Go(func() (err error) {
			results[i], runs[i], err = prepare()
			return err
		})
	}
	require.NoError(t, group.Wait())
	for _, out := range results {
		require.NotNil(t, out.Failure)
		require.Contains(t, out.Failure.Cause, "no such registry")
	}
	require.Equal(t, 1, tried(runs))

	_, later, err := prepare()
	require.NoError(t, err)
	require.Equal(t, 1, tried([]int64{later}), "who asks later, after somebody may have mended it, tries again")
}
