package control

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestEveryAttemptAtAGoalHasItsPicturesAsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, f := chooser(t, dir)
	var err error
	runs.Artifacts, err = artifact.Open(t.Context(), "", filepath.Join(dir, "artifacts"))
	require.NoError(t, err)
	runs.Config.Execution.ConcurrentRuns = 1 // the attempts are queued
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 3, 2))))
	creation := Creation{
		Repo: repo, Goal: "x", Project: "calculator", Attempts: 2, AttemptModels: []string{"house/a", "house/b"},
		Pictures: []PictureFile{{Name: "../a mock.png", Data: picture.Bytes()}},
	}
	made, err := runs.Create(t.Context(), creation)
	require.NoError(t, err)
	require.Len(t, made.Attempts.Attempts, 2)
	for _, a := range made.Attempts.Attempts {
		run, err := f.Run(t.Context(), a.RunID)
		require.NoError(t, err)
		require.Len(t, run.Settings.Pictures, 1)
		require.Equal(t, "a-mock.png", run.Settings.Pictures[0].Name)
		files, err := f.Artifacts(t.Context(), a.RunID)
		require.NoError(t, err)
		require.Len(t, files, 1, "so that retention keeps the content")
		require.Equal(t, "goal/1-a-mock.png", files[0].Name)
		content, err := runs.Artifacts.Get(t.Context(), files[0].Digest)
		require.NoError(t, err)
		require.Equal(t, picture.Bytes(), content)
	}
}

func TestPicturesBeyondALimitCreateNoRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{"a": "b"})
	runs, _ := chooser(t, dir)
	for says, pictures := range map[string][]PictureFile{
		"execution.pictures.max)": make([]PictureFile, runs.Config.Execution.Pictures.Max+1),
		"max_size":                {{Name: "a.png", Data: make([]byte, runs.Config.Execution.Pictures.MaxSize.Int64()+1)}},
		"neither a PNG":           {{Name: "a.png", Data: []byte("<svg/>")}},
	} {
		for _, attempts := range []int{1, 2} {
			_, err := runs.Create(t.Context(), Creation{Repo: repo, Goal: "x", Project: "refused", Attempts: attempts, Pictures: pictures})
			require.ErrorContains(t, err, says)
		}
	}
}

func TestTheNameOfAPictureIsOneSafePathElement(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"mock.png": "mock.png", "../../etc/passwd": "passwd", "..": "picture-3", "": "picture-3", "a b\n</untrusted>": "untrusted",
		"maße.png": "maße.png", strings.Repeat("a", 300) + ".png": strings.Repeat("a", 76) + ".png",
	} {
		require.Equal(t, want, pictureName(name, 2), name)
	}
}
