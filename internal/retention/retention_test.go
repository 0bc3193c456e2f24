package retention_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/brain"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/store/responses"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// installation is a database with a directory of blobs, in which tests decide how old things are.
type installation struct {
	*storetest.Fixture
	t       *testing.T
	dir     string
	blobs   *artifact.Store
	rows    *retain.Rows
	cleaner *retention.Cleaner
}

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{Fixture: storetest.Setup(t), t: t, dir: t.TempDir()}
	var err error
	i.blobs, err = artifact.Open(t.Context(), "", i.dir, artifact.WithSync(false))
	require.NoError(t, err)
	i.rows, i.cleaner = retain.New(i.Store), retention.New(i.Store, i.blobs, slog.New(slog.DiscardHandler))
	i.exec("UPDATE orchestrator_runs SET status = 'done', created_at = now() - interval '400 days', finished_at = now() - interval '400 days'")
	return i
}

func (i *installation) exec(sql string, args ...any) {
	i.t.Helper()
	storetest.Query(i.t, i.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, sql, args...)
		require.NoError(i.t, err)
	})
}

// run creates a run that was active between two ages; an end of 0 means that it is still active.
func (i *installation) run(began, ended time.Duration) int64 {
	i.t.Helper()
	run := i.Create(i.t, store.NewRun{})
	i.exec("UPDATE orchestrator_runs SET created_at = now() - make_interval(secs => $2) WHERE id = $1", run.ID, began.Seconds())
	if ended > 0 {
		i.exec("UPDATE orchestrator_runs SET status = 'done', finished_at = now() - make_interval(secs => $2) WHERE id = $1", run.ID, ended.Seconds())
	}
	return run.ID
}

// blob stores a content of an age.
func (i *installation) blob(text string, age time.Duration) string {
	i.t.Helper()
	digest, err := i.blobs.Put(i.t.Context(), []byte(text))
	require.NoError(i.t, err)
	i.age(digest, age)
	return digest
}

func (i *installation) path(digest string) string {
	return filepath.Join(i.dir, digest[7:9], digest[9:])
}

func (i *installation) age(digest string, age time.Duration) {
	i.t.Helper()
	at := time.Now().Add(-age)
	require.NoError(i.t, os.Chtimes(i.path(digest), at, at))
}

// file adds a file to a run.
func (i *installation) file(run int64, name string, kind contract.ArtifactType, text string, age time.Duration) string {
	i.t.Helper()
	digest := i.blob(text, age)
	require.NoError(i.t, i.AddArtifacts(i.t.Context(), run, []contract.Artifact{{Name: name, Type: kind, Size: int64(len(text)), Digest: digest}}))
	return digest
}

func (i *installation) clean(p retention.Policy) retention.CleanupReport {
	i.t.Helper()
	report, err := i.cleaner.Clean(i.t.Context(), retention.Request{Policy: p, Origin: retention.OriginPerson, By: "ann"})
	require.NoError(i.t, err)
	return report
}

func (i *installation) stored(digest string) bool {
	i.t.Helper()
	there, err := i.blobs.Exists(i.t.Context(), digest)
	require.NoError(i.t, err)
	return there
}

// deleted reports which files of a run are marked as deleted.
func (i *installation) deleted(run int64) []string {
	i.t.Helper()
	all, err := i.Artifacts(i.t.Context(), run)
	require.NoError(i.t, err)
	names := []string{}
	for _, a := range all {
		if a.DeletedAt != nil {
			names = append(names, a.Name)
		}
	}
	return names
}

func TestOldRunsLoseTheirFilesAndSaySo(t *testing.T) {
	t.Parallel()
	i := install(t)
	old, young := i.run(11*day, 10*day), i.run(2*day, day)
	log, shot := i.file(old, "output.log", contract.ArtifactLog, "log of old", 10*day), i.file(old, "shot.png", contract.ArtifactScreenshot, "picture", 10*day)
	kept := i.file(young, "output.log", contract.ArtifactLog, "log of young", day)

	report := i.clean(retention.Policy{MaxAge: week, Blobs: true})
	require.Equal(t, retention.Amount{Count: 2, Bytes: 17}, report.Files)
	require.Equal(t, retention.Amount{Count: 2, Bytes: 17}, report.Blobs)
	require.Equal(t, old, report.Runs[0].RunID)
	require.Equal(t, []string{"output.log", "shot.png"}, i.deleted(old))
	require.False(t, i.stored(log) || i.stored(shot))
	require.Empty(t, i.deleted(young))
	require.True(t, i.stored(kept))
	run, err := i.Run(t.Context(), old)
	require.NoError(t, err)
	require.NotNil(t, run.FilesDeletedAt)
	require.ErrorContains(t, retain.Repeatable(run), "were deleted by retention on")

	list, err := i.rows.Cleanups(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "ann", list[0].By)
	require.NotNil(t, list[0].FinishedAt)
	gone, err := i.rows.Deletions(t.Context(), report.ID, 10)
	require.NoError(t, err)
	require.Len(t, gone, 2)
	require.Equal(t, old, gone[0].RunID)
	require.EqualValues(t, 2, gone[0].Count)
	require.Equal(t, retain.Blobs, gone[1].Kind)
}

func TestADryRunDeletesNothing(t *testing.T) {
	t.Parallel()
	i := install(t)
	old := i.run(11*day, 10*day)
	log := i.file(old, "output.log", contract.ArtifactLog, "log", 10*day)
	orphan := i.blob("orphan", 300*day)

	report, err := i.cleaner.Clean(t.Context(), retention.Request{Policy: retention.Policy{MaxAge: week, Blobs: true}, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, retention.Amount{Count: 1, Bytes: 3}, report.Files)
	require.Equal(t, retention.Amount{Count: 2, Bytes: 9}, report.Blobs, "the log and the orphan")
	require.Len(t, report.Runs, 1)
	require.Empty(t, i.deleted(old))
	require.True(t, i.stored(log) && i.stored(orphan))
	list, err := i.rows.Cleanups(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, list)
}

// TestRunsThatAreNotOverKeepTheirFiles has a case for each way of not being over.
func TestRunsThatAreNotOverKeepTheirFiles(t *testing.T) {
	t.Parallel()
	i := install(t)
	for name, sql := range map[string]string{
		"running":           "UPDATE orchestrator_runs SET status = 'builder_running', finished_at = NULL WHERE id = $1",
		"waiting":           "UPDATE orchestrator_runs SET status = 'waiting_for_approval', finished_at = NULL WHERE id = $1",
		"paused":            "UPDATE orchestrator_runs SET status = 'paused', finished_at = NULL WHERE id = $1",
		"queued":            "UPDATE orchestrator_runs SET status = 'pending', queued_at = now(), finished_at = NULL WHERE id = $1",
		"with its branch":   "UPDATE orchestrator_runs SET staying_until = now() + interval '1 day' WHERE id = $1",
		"about to replay":   "INSERT INTO orchestrator_replays (run_id, phase) VALUES ($1, 'builder')",
		"an open pipeline":  "WITH r AS (UPDATE orchestrator_runs SET kind = 'pipeline' WHERE id = $1 RETURNING id) INSERT INTO orchestrator_pipelines (run_id, objective, task, settings, mode) SELECT id, 'x', '{}', '{}', 'local' FROM r",
		"a waiting one":     "WITH r AS (UPDATE orchestrator_runs SET kind = 'pipeline' WHERE id = $1 RETURNING id) INSERT INTO orchestrator_pipelines (run_id, objective, task, settings, mode, finished_at, waiting_for) SELECT id, 'x', '{}', '{}', 'local', now() - interval '90 days', 'a person' FROM r",
		"on hold":           "INSERT INTO orchestrator_holds (run_id, reason) VALUES ($1, 'evidence')",
		"continued by fork": `INSERT INTO orchestrator_runs (project, goal_title, repo, settings) VALUES ('p', 't', 'r', jsonb_build_object('fork', jsonb_build_object('run_id', $1::bigint)))`,
	} {
		run := i.run(100*day, 90*day)
		digest := i.file(run, "output.log", contract.ArtifactLog, name, 90*day)
		patch := i.blob("workspace of "+name, 95*day) // only the run's history refers to it
		i.exec(sql, run)
		i.clean(retention.Policy{MaxAge: day, LogAge: day, MaxSize: 1, Blobs: true})
		require.Empty(t, i.deleted(run), name)
		require.True(t, i.stored(digest), name)
		require.True(t, i.stored(patch), name)
		i.exec("DELETE FROM orchestrator_runs WHERE id >= $1", run)
	}
	control := i.run(100*day, 90*day)
	i.file(control, "output.log", contract.ArtifactLog, "control", 90*day)
	i.clean(retention.Policy{MaxAge: day})
	require.Len(t, i.deleted(control), 1, "the same run without a reason to keep it")
}

func TestAReleasedHoldNoLongerKeepsFiles(t *testing.T) {
	t.Parallel()
	i := install(t)
	run := i.run(100*day, 90*day)
	i.file(run, "output.log", contract.ArtifactLog, "log", 90*day)
	hold, err := i.rows.Hold(t.Context(), run, "incident 7", "ann")
	require.NoError(t, err)
	again, err := i.rows.Hold(t.Context(), run, "another reason", "bob")
	require.NoError(t, err)
	require.Equal(t, hold, again, "the first hold counts")

	report := i.clean(retention.Policy{MaxAge: day})
	require.EqualValues(t, 1, report.Held)
	require.Empty(t, i.deleted(run))

	_, err = i.rows.Release(t.Context(), run, "ann")
	require.NoError(t, err)
	_, err = i.rows.Release(t.Context(), run, "ann")
	require.ErrorIs(t, err, store.ErrNotFound)
	i.clean(retention.Policy{MaxAge: day})
	require.Len(t, i.deleted(run), 1)
	_, err = i.rows.Hold(t.Context(), run+1000, "x", "ann")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestTheOldestRunsMakeRoomForTheRest(t *testing.T) {
	t.Parallel()
	i := install(t)
	var runs []int64
	for n := range 4 { // the oldest first
		age := time.Duration(40-10*n) * day
		run := i.run(age+day, age)
		i.file(run, "own", contract.ArtifactFile, fmt.Sprintf("own file %d", n), age) // 10 bytes
		i.file(run, "shared", contract.ArtifactFile, "shared by all of them", age)    // 21 bytes, once
		runs = append(runs, run)
	}
	report := i.clean(retention.Policy{MaxSize: 45})
	require.EqualValues(t, 61, report.Total, "what runs share counts once")
	require.Len(t, i.deleted(runs[0]), 2)
	require.Len(t, i.deleted(runs[1]), 2)
	require.Empty(t, i.deleted(runs[2]))
	require.Empty(t, i.deleted(runs[3]))
	require.Zero(t, i.clean(retention.Policy{MaxSize: 45}).Files.Count, "the rest fits")
}

func TestAContentThatAnotherRunSharesIsKept(t *testing.T) {
	t.Parallel()
	i := install(t)
	old, young := i.run(100*day, 90*day), i.run(2*day, day)
	shared := i.file(old, "output.log", contract.ArtifactLog, "the same output", 90*day)
	i.file(young, "output.log", contract.ArtifactLog, "the same output", 90*day)
	report := i.clean(retention.Policy{MaxAge: week, Blobs: true})
	require.EqualValues(t, 1, report.Files.Count)
	require.Zero(t, report.Blobs.Count)
	require.True(t, i.stored(shared))
}

func TestLogsExpireBeforeOtherFiles(t *testing.T) {
	t.Parallel()
	i := install(t)
	run := i.run(11*day, 10*day)
	log, shot := i.file(run, "output.log", contract.ArtifactLog, "log", 10*day), i.file(run, "shot.png", contract.ArtifactScreenshot, "picture", 10*day)
	report := i.clean(retention.Policy{MaxAge: 30 * day, LogAge: week, Blobs: true})
	require.EqualValues(t, 1, report.Logs.Count)
	require.Equal(t, []string{"output.log"}, i.deleted(run))
	require.False(t, i.stored(log))
	require.True(t, i.stored(shot))
	found, err := i.Run(t.Context(), run)
	require.NoError(t, err)
	require.Nil(t, found.FilesDeletedAt, "it can still be repeated")
}

func TestWhatARunStoredWithoutARowIsKeptAsLongAsItsFiles(t *testing.T) {
	t.Parallel()
	i := install(t)
	run := i.run(100*day, 90*day)
	i.file(run, "output.log", contract.ArtifactLog, "log", 90*day)
	patch := i.blob("a workspace", 95*day)
	before, after := i.blob("before the run", 120*day), i.blob("after the run", 80*day)

	report := i.clean(retention.Policy{Blobs: true})
	require.True(t, i.stored(patch))
	require.Equal(t, retention.Amount{Count: 1, Bytes: 11}, report.Later)
	require.False(t, i.stored(before) || i.stored(after), "no run was active then")

	i.clean(retention.Policy{MaxAge: day, Blobs: true})
	require.True(t, i.stored(patch), "a run may just be continuing from it")
	i.exec("UPDATE orchestrator_runs SET files_deleted_at = now() - interval '2 hours' WHERE id = $1", run)
	i.clean(retention.Policy{Blobs: true})
	require.False(t, i.stored(patch))
}

func TestAContentThatIsStoredAgainIsNotRemoved(t *testing.T) {
	t.Parallel()
	i := install(t)
	digest := i.blob("an old content", 90*day)
	i.blob("an old content", 90*day)
	_, err := i.blobs.Put(t.Context(), []byte("an old content")) // a run stores it, and will add its row
	require.NoError(t, err)
	i.clean(retention.Policy{Blobs: true})
	require.True(t, i.stored(digest))
}

func TestEnvironmentsAndBaselinesKeepTheirContents(t *testing.T) {
	t.Parallel()
	i := install(t)
	archive, other, baseline := i.blob("archive", 90*day), i.blob("old archive", 90*day), i.blob("log of the base", 90*day)
	for digest, archive := range map[string]string{"aa": archive, "bb": other, "cc": other} {
		require.NoError(t, i.SaveEnvironment(t.Context(), store.Environment{Digest: digest, Repo: "/r", Source: "detected", Recipe: []byte("{}"), Archive: archive, ArchiveSize: 11}))
	}
	_, err := i.OpenBaseline(t.Context(), 0, store.Baseline{Key: "k", Repo: "/r"})
	require.NoError(t, err)
	require.NoError(t, i.SaveBaselineCheck(t.Context(), "k", store.BaselineCheck{Result: contract.CheckResult{Check: contract.Check{ID: "c"}}, LogDigest: baseline}))
	i.exec("UPDATE orchestrator_environments SET used_at = now() - interval '90 days' WHERE digest <> 'aa'")
	i.exec("UPDATE orchestrator_environments SET used_at = now() - interval '10 days' WHERE digest = 'cc'")

	report := i.clean(retention.Policy{EnvironmentAge: 30 * day, Blobs: true})
	require.Equal(t, retention.Amount{Count: 1, Bytes: 11}, report.Environments)
	require.True(t, i.stored(archive) && i.stored(other) && i.stored(baseline), "another environment has the same archive")
	require.NoError(t, i.cleaner.Reclaim(t.Context(), []string{other}))
	require.True(t, i.stored(other), "another environment has the same archive")
	i.clean(retention.Policy{EnvironmentAge: day, Blobs: true})
	require.False(t, i.stored(other))
	require.True(t, i.stored(archive))
}

// TestACrashBetweenRowsAndContentsIsMadeGood stops a clean-up after the rows, as a crash would.
func TestACrashBetweenRowsAndContentsIsMadeGood(t *testing.T) {
	t.Parallel()
	i := install(t)
	run := i.run(100*day, 90*day)
	digest := i.file(run, "output.log", contract.ArtifactLog, "log", 90*day)
	i.clean(retention.Policy{MaxAge: day}) // without the contents
	require.Len(t, i.deleted(run), 1, "the row says so before the content is gone")
	require.True(t, i.stored(digest))
	require.EqualValues(t, 1, i.clean(retention.Policy{Blobs: true}).Blobs.Count, "the next clean-up finds it")
	require.False(t, i.stored(digest))
}

func TestACleanupThatStopsEarlyNotesWhatItDeleted(t *testing.T) {
	t.Parallel()
	i := install(t)
	run := i.run(100*day, 90*day)
	i.file(run, "output.log", contract.ArtifactLog, "log", 90*day)
	require.NoError(t, os.Chmod(i.dir, 0o700))
	require.NoError(t, os.RemoveAll(i.dir)) // the store cannot be listed
	report, err := i.cleaner.Clean(t.Context(), retention.Request{Policy: retention.Policy{MaxAge: day, Blobs: true}, Origin: retention.OriginSchedule})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualValues(t, 1, report.Files.Count)
	list, err := i.rows.Cleanups(t.Context(), 1)
	require.NoError(t, err)
	require.Contains(t, string(list[0].Report), "could not list the artifacts")
	require.NotNil(t, list[0].FinishedAt)
}

func TestOfSeveralProcessesOneCleansUpPerInterval(t *testing.T) {
	t.Parallel()
	i := install(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	for range 4 {
		st := storetest.Open(t, i.URL)
		go func() {
			done <- retention.New(st, i.blobs, slog.New(slog.DiscardHandler)).Schedule(ctx, time.Hour, retention.Policy{Blobs: true})
		}()
	}
	await.Until(t, "a scheduled clean-up", func() bool {
		list, err := i.rows.Cleanups(t.Context(), 10)
		return err == nil && len(list) > 0 && list[0].FinishedAt != nil
	})
	cancel()
	for range 4 {
		require.ErrorIs(t, <-done, context.Canceled)
	}
	list, err := i.rows.Cleanups(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, retention.OriginSchedule, list[0].Origin)
}

func idsOf(runs []retain.Expired) (ids []int64) {
	for _, r := range runs {
		ids = append(ids, r.RunID)
	}
	return ids
}

func TestAHoldOrAReplayAtTheLastMomentCounts(t *testing.T) {
	t.Parallel()
	i := install(t)
	held, replayed, gone := i.run(100*day, 90*day), i.run(100*day, 90*day), i.run(100*day, 90*day)
	for _, run := range []int64{held, replayed, gone} {
		i.file(run, "output.log", contract.ArtifactLog, fmt.Sprint(run), 90*day)
	}
	cleanup, err := i.rows.Begin(t.Context(), retention.OriginPerson, "ann", retention.Policy{})
	require.NoError(t, err)
	before := time.Now().Add(-day)
	expired, err := i.rows.Expired(t.Context(), retain.Files, before, retain.Position{}, 10)
	require.NoError(t, err)
	require.Subset(t, idsOf(expired), []int64{held, replayed, gone})

	_, err = i.rows.Hold(t.Context(), held, "evidence", "ann") // after they were listed
	require.NoError(t, err)
	_, err = i.AddReplay(t.Context(), replayed, "", contract.PhaseBuilder, contract.ReplaySpec{}, "")
	require.NoError(t, err)
	for _, run := range []int64{held, replayed, gone} {
		deleted, err := i.rows.DeleteFiles(t.Context(), cleanup, retain.Files, before, run)
		require.NoError(t, err)
		require.Equal(t, run == gone, deleted[run].Files == 1)
	}
	_, err = i.AddReplay(t.Context(), gone, "", contract.PhaseBuilder, contract.ReplaySpec{}, "")
	require.Error(t, err, "its files are gone")
}

func TestAForkAtTheLastMomentEitherKeepsTheFilesOrIsRefused(t *testing.T) {
	t.Parallel()
	i := install(t)
	forked, gone := i.run(100*day, 90*day), i.run(100*day, 90*day)
	for _, run := range []int64{forked, gone} {
		i.file(run, "output.log", contract.ArtifactLog, fmt.Sprint(run), 90*day)
	}
	fork := func(of int64) error {
		n := storetest.Filled(store.NewRun{})
		n.Settings.Fork = &contract.Fork{RunID: of, Step: "step-001"}
		_, _, err := i.CreateRun(t.Context(), n)
		return err
	}
	cleanup, err := i.rows.Begin(t.Context(), retention.OriginPerson, "ann", retention.Policy{})
	require.NoError(t, err)
	require.NoError(t, fork(forked)) // after the clean-up has listed it
	deleted, err := i.rows.DeleteFiles(t.Context(), cleanup, retain.Files, time.Now().Add(-day), forked, gone)
	require.NoError(t, err)
	require.Contains(t, deleted, gone)
	require.NotContains(t, deleted, forked)

	err = fork(gone) // after it was checked that the run can be continued
	require.Equal(t, contract.CodeForbidden, fault.Of(err).Code, err)
	require.ErrorContains(t, err, "its files have just been deleted by retention")
	require.NoError(t, fork(forked))
}

// TestCleanUpsAndHoldsAtTheSameTimeAgree lets two clean-ups and a person compete for the same runs.
func TestCleanUpsAndHoldsAtTheSameTimeAgree(t *testing.T) {
	t.Parallel()
	i := install(t)
	const runs = 120
	ids := make([]int64, runs)
	for n := range ids {
		ids[n] = i.run(100*day, 90*day)
		i.file(ids[n], "output.log", contract.ArtifactLog, fmt.Sprint("log ", n), 90*day)
	}
	reports, held := make(chan retention.CleanupReport, 2), make(chan error, 1)
	for range 2 {
		st := storetest.Open(t, i.URL)
		go func() {
			r, err := retention.New(st, i.blobs, slog.New(slog.DiscardHandler)).Clean(t.Context(),
				retention.Request{Policy: retention.Policy{MaxAge: day, Blobs: true}, Origin: retention.OriginPerson, By: "ann"})
			if err != nil {
				r.Error = err.Error()
			}
			reports <- r
		}()
	}
	go func() {
		for _, id := range ids {
			if _, err := i.rows.Hold(t.Context(), id, "evidence", "bob"); err != nil {
				held <- err
				return
			}
		}
		held <- nil
	}()
	one, two := <-reports, <-reports
	require.Empty(t, one.Error+two.Error)
	require.NoError(t, <-held)
	gone := 0
	for n, id := range ids {
		run, err := i.Run(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, run.FilesDeletedAt != nil, len(i.deleted(id)) == 1)
		if run.FilesDeletedAt != nil {
			gone++
			continue
		}
		require.True(t, i.stored(artifact.Digest(fmt.Append(nil, "log ", n))), "the hold came first")
	}
	require.EqualValues(t, gone, one.Files.Count+two.Files.Count, "each file was deleted once")
}

// TestAContentThatCannotBeRemovedKeepsNoOther has more contents than a clean-up looks up at a time.
func TestAContentThatCannotBeRemovedKeepsNoOther(t *testing.T) {
	t.Parallel()
	i := install(t)
	const contents = 1100
	digests := make([]string, contents)
	for n := range digests {
		digests[n] = i.blob(fmt.Sprint("orphan ", n), 300*day)
	}
	slices.Sort(digests) // the order in which a directory is listed
	stuck := digests[0]
	inTheWay := filepath.Join(i.dir, "trash", stuck[7:], "x") // contents are moved there first
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))

	for range 2 { // the next clean-up has the same trouble
		report, err := i.cleaner.Clean(t.Context(), retention.Request{Policy: retention.Policy{Blobs: true}, Origin: retention.OriginPerson})
		require.ErrorContains(t, err, "could not remove artifact "+stuck)
		require.Contains(t, report.Error, stuck)
		for _, d := range digests[1:] {
			require.False(t, i.stored(d))
		}
		require.True(t, i.stored(stuck))
	}
	require.NoError(t, os.RemoveAll(filepath.Dir(inTheWay)))
	require.EqualValues(t, 1, i.clean(retention.Policy{Blobs: true}).Blobs.Count)
}

func TestResponsesThatAreTooOldToAnswerRequestsAreForgotten(t *testing.T) {
	t.Parallel()
	i := install(t)
	i.run(day, 0) // its conversation stays
	execution := i.Apply(t, contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner}})
	for turn, age := range []time.Duration{time.Nanosecond, time.Hour} {
		call, err := i.ReserveCall(t.Context(), store.Reservation{Execution: execution, Turn: turn + 1, Provider: "p", Model: "m"})
		require.NoError(t, err)
		require.NoError(t, i.CompleteCall(t.Context(), call.ID, contract.Usage{}, 0, []byte(`{}`), nil))
		key := responses.Key{Tenant: "t", Project: "p", Repo: "r", Digest: fmt.Sprint(turn)}
		require.NoError(t, responses.Keep(t.Context(), i.Store, key, call.ID.Call, responses.Limits{Age: age, Bytes: 100, Entries: 10}))
	}
	require.Equal(t, int64(1), i.dryRun(retention.Policy{}).Responses)
	require.Equal(t, int64(1), i.clean(retention.Policy{}).Responses)
	require.Zero(t, i.clean(retention.Policy{}).Responses)
	n, err := i.Usage(t.Context(), execution.RunID)
	require.NoError(t, err)
	require.Equal(t, 2, n.Calls, "the calls themselves stay")
}

func TestExtractsOfFilesThatWereNotUsedForLongAreForgotten(t *testing.T) {
	t.Parallel()
	i := install(t)
	require.NoError(t, brain.Put(t.Context(), i.Store, []brain.Blob{{Key: [16]byte{1}, Data: []byte("data")}}))
	require.Zero(t, i.dryRun(retention.Policy{BrainAge: time.Hour}).Extracts)
	storetest.Query(t, i.URL, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_brain_blobs SET used_at = now() - interval '2 hours'")
		require.NoError(t, err)
	})
	want := retention.Amount{Count: 1, Bytes: 4}
	require.Zero(t, i.clean(retention.Policy{}).Extracts, "no age is set")
	require.Equal(t, want, i.dryRun(retention.Policy{BrainAge: time.Hour}).Extracts)
	require.Equal(t, want, i.clean(retention.Policy{BrainAge: time.Hour}).Extracts)
	require.Zero(t, i.clean(retention.Policy{BrainAge: time.Hour}).Extracts)
}

func TestWhatLeftMergeQueuesLongAgoIsForgotten(t *testing.T) {
	t.Parallel()
	i := install(t)
	watching, done := i.run(50*day, 0), i.run(50*day, 40*day)
	i.exec("UPDATE orchestrator_runs SET staying_until = now() + interval '1 day' WHERE id = $1", watching)
	i.exec("INSERT INTO orchestrator_merge_queues (forge, repo, base, version) VALUES ('work', 'o/r', 'main', 1)")
	add := func(key string, run any, ended string) {
		i.exec(`INSERT INTO orchestrator_merge_queue_entries (forge, repo, base, key, number, run_id, added_at, place, state, version, ended_at)
			VALUES ('work', 'o/r', 'main', $1, 1, $2, now(), 1, CASE WHEN $3::text = '' THEN 'waiting' ELSE 'merged' END, 1, now() - nullif($3::text, '')::interval)`, key, run, ended)
		i.exec(`INSERT INTO orchestrator_merge_queue_commands (forge, repo, base, key, action, by_whom, reason, created_at)
			VALUES ('work', 'o/r', 'main', $1, 'add', 'ann', '', now() - coalesce(nullif($2::text, '')::interval, '0'))`, key, ended)
	}
	add("waiting", nil, "")
	add("young", done, "29 days")
	add("old", done, "31 days")
	add("of a person", nil, "31 days")
	add("watched", watching, "31 days")
	require.Zero(t, i.clean(retention.Policy{}).Queue, "no age is set")
	p := retention.Policy{QueueAge: 30 * day}
	require.Equal(t, int64(2+3), i.dryRun(p).Queue)
	require.Equal(t, int64(2+3), i.clean(p).Queue)
	require.Zero(t, i.clean(p).Queue)
	queues, err := mergequeues.List(t.Context(), i.Store, mergequeues.Filter{Ended: 10})
	require.NoError(t, err)
	require.Len(t, queues[0].Entries, 1)
	require.Len(t, queues[0].Ended, 2, "one is young, and a run watches the branch of the other")
}
