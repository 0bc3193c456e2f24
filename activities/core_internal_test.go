package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/cores"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestWorkThatWaitsForALeaseGivesItsCoreBackMeanwhile(t *testing.T) {
	t.Parallel()
	open := func() *Activities {
		db, err := store.Open(t.Context(), storetest.URL(t), store.Options{MaxConns: 2})
		require.NoError(t, err)
		t.Cleanup(db.Close)
		return &Activities{Store: db, Cores: cores.NewQueue(1, nil)}
	}
	a := open()
	owner, err := a.Store.Lease(t.Context(), "k")
	require.NoError(t, err)
	ctx, first, err := a.takeCore(t.Context(), 0)
	require.NoError(t, err)
	nested, again, err := a.takeCore(ctx, 0)
	require.NoError(t, err, "work within the work does not wait")
	require.Equal(t, ctx, nested)
	again()
	leased := make(chan func(), 1)
	go func() {
		release, err := a.lease(ctx, "k")
		if err != nil {
			t.Error(err)
		}
		leased <- release
	}()
	_, second, err := a.takeCore(t.Context(), 0)
	require.NoError(t, err, "the owner of the lease gets the core")
	owner()
	require.Empty(t, leased, "the core is still taken")
	second()
	(<-leased)()
	first()
	_, last, err := a.takeCore(t.Context(), 0)
	require.NoError(t, err)
	last()
}
