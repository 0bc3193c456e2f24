package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// takeCheck requests a repair of a branch.
func takeCheck(run int64, id, branch string) contract.TakeCheckInput {
	return contract.TakeCheckInput{RunID: run, Repo: "/repo", Branch: branch, MaxRepairs: 3, Message: contract.CheckMessage{ID: id, Name: "ci", Details: "boom\x00"}}
}

func TestRepairsOfABranchAreCountedAcrossRunsAndNeverExceedTheirBound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.Create(t, store.NewRun{})
	got := make([]contract.TakeCheckResult, 20)
	var g errgroup.Group
	for i := range got {
		g.Go(func() (err error) {
			run := []int64{b.First.ID, other.ID}[i%2]
			got[i], err = b.AddBranchMessage(t.Context(), "w", takeCheck(run, fmt.Sprint("m", i), "shared"))
			return err
		})
	}
	require.NoError(t, g.Wait())
	var repairs []int
	for _, taken := range got {
		if taken.Repair > 0 {
			repairs = append(repairs, taken.Repair)
		}
	}
	slices.Sort(repairs)
	require.Equal(t, []int{1, 2, 3}, repairs)
	elsewhere, err := b.AddBranchMessage(t.Context(), "w", takeCheck(b.First.ID, "else", "another"))
	require.NoError(t, err)
	require.Equal(t, 1, elsewhere.Repair, "another branch has repairs of its own")
	m, err := b.BranchMessage(t.Context(), elsewhere.ID)
	require.NoError(t, err)
	require.Equal(t, "boom\uFFFD", m.Details)
}

func TestAMessageAboutABranchIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	once, err := b.AddBranchMessage(t.Context(), "w1", takeCheck(b.First.ID, "m", "x"))
	require.NoError(t, err)
	again, err := b.AddBranchMessage(t.Context(), "w1", takeCheck(b.First.ID, "m", "x"))
	require.NoError(t, err)
	require.Equal(t, once, again)
	require.False(t, again.AcceptedBefore)
	reset, err := b.AddBranchMessage(t.Context(), "w2", takeCheck(b.First.ID, "m", "x"))
	require.NoError(t, err)
	require.True(t, reset.AcceptedBefore, "a run that is done again is told that it had been taken")
	next, err := b.AddBranchMessage(t.Context(), "w2", takeCheck(b.First.ID, "m2", "x"))
	require.NoError(t, err)
	require.Equal(t, 2, next.Repair)
}

func TestOnlyABranchWatchLetsARunsWorkflowLeaveATerminalStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	at := time.Now().Truncate(time.Millisecond)
	write := func(seq int64, at time.Time, c contract.RunChange) store.Run {
		t.Helper()
		c.Phase = contract.PhaseReleaser
		c.Finished = c.Status.Terminal()
		_, err := b.Record(t.Context(), b.Source(), contract.Record{RunID: b.First.ID, Seq: seq, At: at, Run: &c})
		require.NoError(t, err)
		run, err := b.Run(t.Context(), b.First.ID)
		require.NoError(t, err)
		return run
	}
	done := write(1, at, contract.RunChange{Status: contract.StatusDone, StayingUntil: &until})
	require.True(t, until.Equal(*done.StayingUntil))
	require.Equal(t, contract.StatusDone, write(2, at.Add(time.Minute), contract.RunChange{Status: contract.StatusSelfHeal}).Status, "it is over")
	still := write(3, at.Add(2*time.Minute), contract.RunChange{Status: contract.StatusDone, Staying: true, StayingUntil: &until})
	require.True(t, at.Equal(*still.FinishedAt), "what only stays has not ended anew")
	work := write(4, at.Add(3*time.Minute), contract.RunChange{Status: contract.StatusSelfHeal, Staying: true, StayingUntil: &until})
	require.Equal(t, contract.StatusSelfHeal, work.Status)
	require.Nil(t, work.FinishedAt)
	ended := write(5, at.Add(4*time.Minute), contract.RunChange{Status: contract.StatusDone, Staying: true})
	require.Nil(t, ended.StayingUntil)
	require.True(t, at.Add(4*time.Minute).Equal(*ended.FinishedAt))
}
