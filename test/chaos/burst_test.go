package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestABurstOfRunsExecutesInOrderAndStopsOnRequest makes many runs at once, 200 with
// RGPT_CHAOS=long, and prints how long stops take meanwhile: of runs at work and of
// runs that wait.
func TestABurstOfRunsExecutesInOrderAndStopsOnRequest(t *testing.T) {
	n, limit, within := 10, 3, 3*time.Minute
	if os.Getenv(modeEnv) == "long" {
		n, limit, within = 200, 32, 20*time.Minute
	}
	s := harness.Start(t, harness.Options{Scenario: work(), Config: fmt.Sprintf("execution: {concurrent_runs: %d}\n", limit)})
	db := s.Store(t)
	repo := repository(t, filepath.Join(s.Dir, "repo"))
	ids := make([]int64, n)
	var group errgroup.Group
	group.SetLimit(4)
	for i := range n {
		group.Go(func() error {
			ids[i] = s.Create(t, "--repo", repo, "--goal", fmt.Sprintf("Burst %d", i))
			return nil
		})
	}
	require.NoError(t, group.Wait())

	var stopped []int64
	statusOf := func(id int64) store.Run {
		run, err := db.Run(t.Context(), id)
		require.NoError(t, err)
		return run
	}
	for _, waits := range []bool{false, true, false, true} {
		at := slices.IndexFunc(ids, func(id int64) bool {
			run := statusOf(id)
			return !slices.Contains(stopped, id) && !run.Status.Terminal() && waits == (run.WorkflowID == "")
		})
		require.GreaterOrEqual(t, at, 0, "there is a run to stop")
		began := time.Now()
		s.OK(t, "run", "stop", fmt.Sprint(ids[at]))
		answered := time.Since(began)
		s.AwaitEnd(t, db, ids[at], time.Minute)
		t.Logf("a run that waits for its turn: %t; stop answered after %s, it was over after %s", waits, answered, time.Since(began))
		stopped = append(stopped, ids[at])
	}
	most, done := 0, 0
	harness.Await(t, "all runs to end", within, func() (bool, string) {
		working, over := 0, 0
		for _, id := range ids {
			switch run := statusOf(id); {
			case run.Status.Terminal():
				over++
			case run.WorkflowID != "":
				working++
			}
		}
		most = max(most, working)
		return over == n, fmt.Sprint(over, " of ", n)
	})
	for _, id := range ids {
		run := statusOf(id)
		if slices.Contains(stopped, id) {
			require.Equal(t, contract.StatusCancelled, run.Status)
		} else if run.Status == contract.StatusDone {
			done++
		}
	}
	require.Equal(t, n-len(stopped), done, "all others end well")
	require.LessOrEqual(t, most, limit, "so many were at work at the same time")
	require.GreaterOrEqual(t, most, 2)
	harness.CheckInvariants(t, s, ids...)
}
