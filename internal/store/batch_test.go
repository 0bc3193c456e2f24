package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestWhatPrecedesATurnIsTheSameInOneRoundTrip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhaseBuilder, "step-001")
	require.NoError(t, b.OpenConversation(t.Context(), execution.ID, []store.Message{{Role: "user", Content: raw(`"divide"`)}}))
	reserved, err := b.ReserveCall(t.Context(), reservation(execution, 1))
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), reserved.ID, used(10), 0, raw(`{"text": "done"}`), []store.Message{{Role: "assistant", Content: raw(`"done"`)}}))

	transcript, err := b.Transcript(t.Context(), execution.ID)
	require.NoError(t, err)
	require.Len(t, transcript, 2)
	apart, err := b.CallBasis(t.Context(), execution, 2)
	require.NoError(t, err)
	basis, rows, err := b.BeforeTurn(t.Context(), execution, 2)
	require.NoError(t, err)
	require.Equal(t, transcript, rows)
	require.JSONEq(t, `{"text": "done"}`, string(basis.Answer))
	require.Equal(t, []string{apart.Tenant, apart.Repo, apart.Model}, []string{basis.Tenant, basis.Repo, basis.Model})
	require.WithinDuration(t, apart.Now(), basis.Now(), time.Minute)

	pending, rows, err := b.PendingInputSince(t.Context(), execution, time.Now())
	require.NoError(t, err)
	require.Equal(t, store.PendingInput{}, pending)
	require.Equal(t, transcript, rows)
}

func TestReadsThatShareARoundTripReportTheFirstThatFailsAndTheirConnectionRemainsUsable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, err := store.Open(t.Context(), b.URL, store.Options{MaxConns: 1})
	require.NoError(t, err)
	defer one.Close()
	nobody := contract.ExecutionRef{ID: 4711, RunID: 4711}
	for range 3 {
		_, _, err = one.BeforeTurn(t.Context(), nobody, 1)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, _, err = one.PendingInputSince(t.Context(), nobody, time.Now())
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = one.Baseline(t.Context(), "none")
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	_, err = one.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
}
