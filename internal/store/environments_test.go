package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func TestAnEnvironmentIsUnusedOnceItsRunsHaveEndedAndItsAgeHasPassed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	digest := strings.Repeat("ab", 32)
	save := func() {
		require.NoError(t, b.SaveEnvironment(t.Context(), store.Environment{
			Digest: digest, Repo: "/repos/calculator", Source: "detected", Recipe: raw(`{}`), Archive: "sha256:archive",
		}))
	}
	save()
	// aged makes it look unused for a day.
	aged := func() {
		conn, err := pgx.Connect(t.Context(), b.URL)
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "UPDATE orchestrator_environments SET used_at = now() - interval '1 day'")
		require.NoError(t, err)
		require.NoError(t, conn.Close(t.Context()))
	}
	unused := func() []string {
		archives, err := b.RemoveUnusedEnvironments(t.Context(), time.Hour)
		require.NoError(t, err)
		return archives
	}
	require.Empty(t, unused(), "it was just made")
	aged()
	require.NoError(t, b.SetRunEnvironment(t.Context(), b.First.ID, digest, 0))
	require.Empty(t, unused(), "a run has begun to use it")
	aged()
	require.Empty(t, unused(), "a run that has not ended needs it")
	b.Apply(t, contract.Record{Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
	require.Equal(t, []string{"sha256:archive"}, unused())
	require.Empty(t, unused(), "it is gone")

	save()
	archive, err := b.RemoveEnvironment(t.Context(), digest, "ann")
	require.NoError(t, err)
	require.Equal(t, "sha256:archive", archive)
	archive, err = b.RemoveEnvironment(t.Context(), digest, "ann")
	require.NoError(t, err)
	require.Empty(t, archive, "it is gone")
}

func TestAnEnvironmentThatIsMadeAgainNamesTheRunThatMadeItLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	digest := strings.Repeat("cd", 32)
	for _, run := range []store.Run{b.First, b.Create(t, store.NewRun{})} {
		require.NoError(t, b.SaveEnvironment(t.Context(), store.Environment{
			Digest: digest, Repo: "/repos/calculator", Source: "detected", Recipe: raw(`{}`), Archive: "sha256:archive", RunID: run.ID,
		}))
		kept, err := b.Environment(t.Context(), digest)
		require.NoError(t, err)
		require.Equal(t, run.ID, kept.RunID, "a host compares it with its copy")
	}
}
