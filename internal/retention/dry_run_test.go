package retention_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// fork makes a run a fork of another.
func (i *installation) fork(run, of int64) int64 {
	i.t.Helper()
	i.exec("UPDATE orchestrator_runs SET settings = settings || jsonb_build_object('fork', jsonb_build_object('run_id', $2::bigint)) WHERE id = $1", run, of)
	return run
}

func (i *installation) dryRun(p retention.Policy) retention.CleanupReport {
	i.t.Helper()
	report, err := i.cleaner.Clean(i.t.Context(), retention.Request{Policy: p, Origin: retention.OriginPerson, By: "ann", DryRun: true})
	require.NoError(i.t, err)
	return report
}

func runsOf(r retention.CleanupReport) map[int64]retention.Amount {
	out := map[int64]retention.Amount{}
	for _, run := range r.Runs {
		out[run.RunID] = run.Amount
	}
	return out
}

// TestADryRunReportsWhatTheCleanUpThenDeletes uses more runs than a clean-up deletes in one
// transaction, and something of everything that makes the two differ easily.
func TestADryRunReportsWhatTheCleanUpThenDeletes(t *testing.T) {
	t.Parallel()
	const many = 230
	prepare := func(t *testing.T) *installation {
		i := install(t)
		log := func(run int64, text string, age time.Duration) {
			i.file(run, "output.log", contract.ArtifactLog, text, age)
			i.file(run, "report.json", contract.ArtifactJSON, "report of "+text, age)
		}
		for n := range many {
			age := 40*day + time.Duration(n)*time.Minute
			log(i.run(age+time.Hour, age), fmt.Sprint("log ", n), age)
		}
		first := i.run(61*day, 60*day)
		second := i.fork(i.run(51*day, 50*day), first)
		log(first, "first of three", 60*day)
		log(second, "second of three", 50*day)
		log(i.fork(i.run(41*day, 40*day), second), "third of three", 40*day)
		kept := i.run(61*day, 60*day)
		log(kept, "a fork keeps it", 60*day)
		log(i.fork(i.run(2*day, day), kept), "young fork", day)
		held := i.run(61*day, 60*day)
		log(held, "evidence", 60*day)
		_, err := i.rows.Hold(t.Context(), held, "incident", "ann")
		require.NoError(t, err)
		log(i.run(61*day, 60*day), "shared by old and young", 60*day)
		log(i.run(2*day, day), "shared by old and young", day)
		log(i.run(21*day, 20*day), "only its log expires", 20*day)
		i.blob("workspace of an old run", 60*day)
		i.blob("orphan", 300*day)
		archive := i.blob("archive", 90*day)
		require.NoError(t, i.SaveEnvironment(t.Context(), store.Environment{Digest: "aa", Repo: "/r", Source: "detected", Recipe: []byte("{}"), Archive: archive, ArchiveSize: 7}))
		i.exec("UPDATE orchestrator_environments SET used_at = now() - interval '90 days'")
		return i
	}
	for name, p := range map[string]retention.Policy{
		"by age":       {MaxAge: 30 * day, LogAge: 10 * day, EnvironmentAge: 30 * day, Blobs: true},
		"by size":      {MaxSize: 150, EnvironmentAge: 30 * day, Blobs: true},
		"only logs":    {LogAge: 30 * day, Blobs: true},
		"only blobs":   {Blobs: true},
		"of contents":  {MaxAge: 30 * day, EnvironmentAge: 30 * day},
		"almost empty": {MaxSize: 1, Blobs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := prepare(t)
			dry := i.dryRun(p)
			done := i.clean(p)
			require.True(t, dry.DryRun)
			require.NotZero(t, done.ID)
			require.Equal(t, runsOf(dry), runsOf(done))
			dry.DryRun, dry.Runs, done.ID, done.Runs = false, nil, 0, nil
			require.Equal(t, dry, done)
			if p.MaxAge > 0 {
				require.EqualValues(t, 2*(many+3+1), done.Files.Count, "of all expired runs")
				require.EqualValues(t, 1, done.Held)
				require.EqualValues(t, 1, done.Continued)
			}
			if p.LogAge > 0 || p.MaxAge > 0 {
				require.Positive(t, done.Files.Count+done.Logs.Count)
			}
		})
	}
}

func TestARunThatAForkContinuesCountsAsLongAsTheForkForTheSize(t *testing.T) {
	t.Parallel()
	i := install(t)
	parent := i.run(61*day, 60*day)
	fork := i.fork(i.run(51*day, 50*day), parent)
	young := i.run(2*day, day)
	i.file(parent, "a", contract.ArtifactFile, "0123456789", 60*day)
	i.file(fork, "b", contract.ArtifactFile, "1", 50*day)
	i.file(young, "c", contract.ArtifactFile, "9876543210", day)
	require.EqualValues(t, 11, i.clean(retention.Policy{MaxSize: 15}).Files.Bytes, "the fork and its parent make enough room")
	require.Empty(t, i.deleted(young))
}

func TestFilesThatMayNotBeDeletedAreReportedIfTheyExceedTheSize(t *testing.T) {
	t.Parallel()
	i := install(t)
	held := i.run(61*day, 60*day)
	i.file(held, "a", contract.ArtifactFile, "0123456789", 60*day)
	_, err := i.rows.Hold(t.Context(), held, "incident", "ann")
	require.NoError(t, err)
	require.EqualValues(t, 3, i.dryRun(retention.Policy{MaxSize: 7}).Over)
	require.EqualValues(t, 3, i.clean(retention.Policy{MaxSize: 7}).Over)
	require.Zero(t, i.clean(retention.Policy{MaxSize: 10}).Over)
	require.Zero(t, i.clean(retention.Policy{}).Over, "no limit is set")
	require.Empty(t, i.deleted(held))
}

func TestARunWithoutFilesKeepsNothingForever(t *testing.T) {
	t.Parallel()
	i := install(t)
	parent := i.run(100*day, 90*day)
	i.file(parent, "output.log", contract.ArtifactLog, "log", 90*day)
	empty := i.fork(i.run(89*day, 80*day), parent) // was stopped before it had any file
	workspace := i.blob("workspace of the fork", 85*day)
	i.clean(retention.Policy{MaxAge: day, Blobs: true})
	require.Len(t, i.deleted(parent), 1, "nothing continues from it that has files")
	run, err := i.Run(t.Context(), empty)
	require.NoError(t, err)
	require.NotNil(t, run.FilesDeletedAt, "its workspace is about to be removed")
	i.exec("UPDATE orchestrator_runs SET files_deleted_at = now() - interval '2 hours' WHERE files_deleted_at IS NOT NULL")
	i.clean(retention.Policy{Blobs: true})
	require.False(t, i.stored(workspace))
}
