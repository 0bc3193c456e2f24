package workflows

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/worker"
)

// TestRecordedHistoriesReplay fails if a change of workflow code would break running
// workflows: every history of every version so far must lead to the same commands. A
// replayer keeps nothing between the tasks of a workflow, whatever the size of a
// worker's cache. test/e2e shows that a worker without a cache decides the same at each
// task as one with it.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	n := 0
	require.NoError(t, filepath.WalkDir("testdata/histories", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".json.gz") {
			return err
		}
		n++
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/histories/"), ".json.gz"), func(t *testing.T) {
			t.Parallel()
			replayer := worker.NewWorkflowReplayer()
			RegisterRun(replayer)
			RegisterStep(replayer)
			RegisterSelfHeal(replayer)
			RegisterDeliberation(replayer)
			RegisterAttempts(replayer)
			RegisterChangeSet(replayer)
			RegisterMergeQueue(replayer)
			RegisterMember(replayer)
			RegisterTrigger(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistory(nil, readHistory(t, file)))
		})
		return nil
	}))
	require.Positive(t, n, "there are recorded histories; make record-histories makes them")
}

// readHistory reads a history written by test/recordhistories.
func readHistory(t *testing.T, file string) *history.History {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	plain, err := gzip.NewReader(f)
	require.NoError(t, err)
	raw, err := io.ReadAll(plain)
	require.NoError(t, err)
	var h history.History
	require.NoError(t, temporalproto.CustomJSONUnmarshalOptions{}.Unmarshal(raw, &h))
	return &h
}

// TestAReorderedHistoryDoesNotReplay shows that the check above can fail.
func TestAReorderedHistoryDoesNotReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/v0.1.0/good-run.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	h := readHistory(t, files[0])
	changed := false
	for _, e := range h.Events {
		if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
			a.ActivityType.Name = "rgpt.releaser.Release"
			changed = true
			break
		}
	}
	require.True(t, changed)
	replayer := worker.NewWorkflowReplayer()
	RegisterRun(replayer)
	RegisterStep(replayer)
	require.Error(t, replayer.ReplayWorkflowHistory(nil, h))
}
