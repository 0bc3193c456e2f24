package store_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
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

// baseline stores a baseline with a check, and returns it as it was first read.
func (b *fixture) baseline(t *testing.T) store.Baseline {
	t.Helper()
	check := contract.Check{ID: "test-1", Category: contract.CategoryTest, Name: "go test", Instead: []string{"test-0"}}
	_, err := b.OpenBaseline(t.Context(), b.First.ID, store.Baseline{
		Key: "k", Repo: b.First.Repo, Environment: "e", Stages: [][]contract.Check{{check}}, Commands: map[string]string{"test-1": "go test ./..."},
	})
	require.NoError(t, err)
	require.NoError(t, b.SaveBaselineCheck(t.Context(), "k", store.BaselineCheck{
		Result: contract.CheckResult{Check: check, OK: true},
		Cases:  []contract.TestCase{{Name: "TestAdd", Status: contract.TestPassed}}, Findings: []contract.Finding{{Message: "one"}},
	}))
	out, err := b.Baseline(t.Context(), "k")
	require.NoError(t, err)
	return out
}

func TestABaselineThatHasBeenReadIsReadAgainWheneverItChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"a check is added":                       "INSERT INTO orchestrator_baseline_checks (key, check_id, result) SELECT key, 'test-2', result FROM orchestrator_baseline_checks",
		"a check is replaced":                    "UPDATE orchestrator_baseline_checks SET cases = '[]', created_at = now()",
		"a check is replaced in the same moment": "UPDATE orchestrator_baseline_checks SET cases = '[]'",
		"a check is removed":                     "DELETE FROM orchestrator_baseline_checks",
		"its commands change":                    "UPDATE orchestrator_baselines SET commands = '{}'",
		"its run is removed":                     "UPDATE orchestrator_baselines SET run_id = NULL",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			before := f.baseline(t)
			execute(t, f.URL, change)
			now, err := f.Baseline(t.Context(), "k")
			require.NoError(t, err)
			require.NotEqual(t, before, now)
			other, err := storetest.Open(t, f.URL).Baseline(t.Context(), "k")
			require.NoError(t, err)
			require.Equal(t, other, now)
		})
	}
}

// execute executes a statement that the store has no method for.
func execute(t *testing.T, url, sql string) {
	t.Helper()
	storetest.Query(t, url, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, sql)
		require.NoError(t, err)
	})
}

func TestABaselineThatHasBeenReadIsNotFoundOnceItIsRemoved(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.baseline(t)
	_, err := f.RemoveEnvironment(t.Context(), "e", "ann")
	require.NoError(t, err)
	_, err = f.Baseline(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NotEmpty(t, f.baseline(t).Checks, "it is made again")
}

func TestABaselineThatHasNotChangedIsReadWithoutItsDocuments(t *testing.T) {
	t.Parallel()
	f := setup(t)
	before := f.baseline(t)
	execute(t, f.URL, "ALTER TABLE orchestrator_baseline_checks DROP COLUMN cases")
	again, err := f.Baseline(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, before, again)
	other := f.Create(t, store.NewRun{})
	for range 2 {
		again, err = f.OpenBaseline(t.Context(), other.ID, store.Baseline{Key: "k", Repo: "/another", Commands: map[string]string{"test-1": "another"}})
		require.NoError(t, err)
		require.Equal(t, before, again, "a run that begins on it does not change it")
	}
	other, err = f.Run(t.Context(), other.ID)
	require.NoError(t, err)
	require.Equal(t, "k", other.Baseline)
}

func TestABaselineThatACallerChangesStaysAsItIsForOthers(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.baseline(t)
	b, err := f.Baseline(t.Context(), "k")
	require.NoError(t, err)
	b.Stages[0][0].Name, b.Stages[0][0].Instead[0], b.Commands["test-1"] = "changed", "changed", "changed"
	c := &b.Checks[0]
	c.Result.OK, c.Result.Check.Instead[0], c.Cases[0].Name, c.Findings[0].Message = false, "changed", "changed", "changed"
	b.Stages[0] = nil
	b.Checks = slices.Delete(b.Checks, 0, 1)
	again, err := f.Baseline(t.Context(), "k")
	require.NoError(t, err)
	other, err := storetest.Open(t, f.URL).Baseline(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, other, again)
}

func TestASnapshotReadsTheBaselineOfItsMoment(t *testing.T) {
	t.Parallel()
	f := setup(t)
	before := f.baseline(t)
	require.NoError(t, f.Snapshot(t.Context(), func(s *store.Store) error {
		_, err := s.Baseline(t.Context(), "k")
		require.NoError(t, err)
		require.NoError(t, f.SaveBaselineCheck(t.Context(), "k", store.BaselineCheck{Result: contract.CheckResult{Check: contract.Check{ID: "test-2"}}}))
		b, err := s.Baseline(t.Context(), "k")
		require.Equal(t, before, b)
		return err
	}))
	after, err := f.Baseline(t.Context(), "k")
	require.NoError(t, err)
	require.Len(t, after.Checks, 2)
}
