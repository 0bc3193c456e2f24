package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestARunOnHoldIsKeptAndThenSaysThatItsFilesWereDeleted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "Add dark mode")
	digest, err := b.artifacts.Put(t.Context(), []byte("the log"))
	require.NoError(t, err)
	require.NoError(t, b.AddArtifacts(t.Context(), run, []contract.Artifact{
		{Name: "output.log", Type: contract.ArtifactLog, Size: 7, Digest: digest},
		{Name: "video.webm", Type: contract.ArtifactVideo, Size: 1 << 40, LeftOut: "larger than artifacts.max_file"},
	}))
	storetest.Query(t, b.address, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_runs SET status = 'done', finished_at = now() - interval '90 days' WHERE id = $1", run)
		require.NoError(t, err)
	})
	at := fmt.Sprintf("/api/runs/%d", run)

	require.Equal(t, http.StatusUnprocessableEntity, b.send(t, "POST", at+"/hold", `{}`).Code, "a hold has a reason")
	require.Equal(t, http.StatusOK, b.send(t, "POST", at+"/hold", `{"reason": "evidence <1>", "by": "ann"}`).Code)
	page := b.get(t, fmt.Sprintf("/runs/%d", run)).Body.String()
	require.Contains(t, page, "Replay from…")
	require.Contains(t, page, "ann keeps the files of this run: evidence &lt;1&gt;")
	require.Contains(t, b.get(t, at).Body.String(), `"reason":"evidence <1>"`)

	clean := func() (report retention.CleanupReport) {
		w := b.send(t, "POST", "/api/cleanups", `{"older_than_seconds": 3600, "only": ["files"]}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &report))
		return report
	}
	kept := clean()
	require.Zero(t, kept.Files.Count)
	require.EqualValues(t, 1, kept.Held)
	require.Equal(t, http.StatusOK, b.send(t, "POST", at+"/release-hold", `{}`).Code)
	require.Equal(t, http.StatusNotFound, b.send(t, "POST", at+"/release-hold", `{}`).Code)
	gone := clean()
	require.EqualValues(t, 1, gone.Files.Count, "what was left out has no content")

	var details views.RunDetails
	require.NoError(t, json.Unmarshal(b.get(t, at).Body.Bytes(), &details))
	require.NotNil(t, details.FilesDeletedAt)
	require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d", run)).Body.String(), "The files of this run were deleted by retention on ")
	require.NotContains(t, b.get(t, fmt.Sprintf("/runs/%d", run)).Body.String(), "Replay from…", "the server would refuse it")
	require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d/replay", run)).Body.String(), "The files of this run were deleted, so it cannot be replayed.")
	for i, why := range []string{"deleted by retention on ", "not stored: larger than artifacts.max_file"} {
		require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d/artifacts", run)).Body.String(), why)
		require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d/artifacts/%d", run, details.Artifacts[i].ID)).Body.String(), "The content of this file was "+why)
		answer := b.get(t, fmt.Sprintf("%s/artifacts/%d", at, details.Artifacts[i].ID))
		require.Equal(t, http.StatusNotFound, answer.Code)
		require.Contains(t, answer.Body.String(), why)
	}
	require.Equal(t, http.StatusConflict, b.send(t, "POST", at+"/hold", `{"reason": "too late"}`).Code)
	require.Contains(t, b.get(t, fmt.Sprintf("/api/cleanups/%d/deletions", gone.ID)).Body.String(), fmt.Sprintf(`"run_id":%d`, run))
	require.Contains(t, b.get(t, "/api/cleanups").Body.String(), `"by":"api"`)
}

func TestAnAgeThatNoDurationCanHoldDeletesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := endedLongAgo(t, b)
	for _, c := range []string{`{"older_than_seconds": 10000000000}`, `{"older_than_seconds": -1}`, `{"max_bytes": 0}`} {
		w := b.send(t, "POST", "/api/cleanups", c)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
	}
	tooMuch := int64(10_000_000_000)
	runs := &control.Runs{Store: b.Store, Artifacts: b.artifacts, Config: b.config}
	_, err := runs.Clean(t.Context(), control.Cleaning{OlderThanSeconds: &tooMuch})
	require.ErrorContains(t, err, "older_than_seconds is 10000000000; it must be 0 to 3153600000")
	found, err := b.Run(t.Context(), run)
	require.NoError(t, err)
	require.Nil(t, found.FilesDeletedAt)
}

// endedLongAgo creates a run with a file that ended 90 days ago.
func endedLongAgo(t *testing.T, b *fixture) int64 {
	t.Helper()
	run := b.run(t, "Add dark mode")
	digest, err := b.artifacts.Put(t.Context(), []byte("the log"))
	require.NoError(t, err)
	require.NoError(t, b.AddArtifacts(t.Context(), run, []contract.Artifact{{Name: "output.log", Type: contract.ArtifactLog, Size: 7, Digest: digest}}))
	storetest.Query(t, b.address, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "UPDATE orchestrator_runs SET status = 'done', finished_at = now() - interval '90 days' WHERE id = $1", run)
		require.NoError(t, err)
	})
	return run
}

func TestACleanUpThatAPersonRequestsIsLoggedAndCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	endedLongAgo(t, b)
	var log bytes.Buffer
	runs := &control.Runs{Store: b.Store, Artifacts: b.artifacts, Config: b.config, Log: slog.New(slog.NewJSONHandler(&log, nil))}
	age := int64(3600)
	_, err := runs.Clean(t.Context(), control.Cleaning{OlderThanSeconds: &age, DryRun: true, By: "ann"})
	require.NoError(t, err)
	require.Empty(t, log.String(), "a dry run deletes nothing")
	_, err = runs.Clean(t.Context(), control.Cleaning{OlderThanSeconds: &age, By: "ann"})
	require.NoError(t, err)
	var line struct {
		Msg, Origin, By string
		Runs, Files     int
	}
	require.NoError(t, json.Unmarshal(log.Bytes(), &line), log.String())
	require.Equal(t, "Cleaned up", line.Msg)
	require.Equal(t, "person ann", line.Origin+" "+line.By)
	require.Equal(t, 1, line.Runs)
	require.Equal(t, 1, line.Files)
	require.Regexp(t, `rgpt_cleanups_total{origin="person",result="completed"} [1-9]`, b.get(t, "/metrics").Body.String())
}
