package activities_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/tester"
	"github.com/rocketgpt/orchestrator/internal/verify"
)

func TestFilesBeyondTheLimitsAreListedWithTheReason(t *testing.T) {
	t.Parallel()
	db := storetest.Setup(t)
	blobs, err := artifact.Open(t.Context(), "", t.TempDir(), artifact.WithSync(false))
	require.NoError(t, err)
	cfg := config.Default()
	cfg.Artifacts.MaxFile, cfg.Artifacts.MaxCheckFiles, cfg.Artifacts.MaxCheckSize, cfg.Artifacts.MaxRunSize = 2000, 3, 2500, 3000
	a := &activities.Activities{Store: db.Store, Artifacts: blobs, Config: cfg, Log: slog.New(slog.DiscardHandler)}
	dir := t.TempDir()
	made := func(name string, size int) verify.ArtifactFile {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name[:1], size)), 0o600))
		return verify.ArtifactFile{Name: name, Path: name, Type: contract.ArtifactScreenshot, Size: int64(size)}
	}
	keep := func(check string, unlisted int, files ...verify.ArtifactFile) int {
		in := contract.VerifyInput{Execution: contract.ExecutionRef{RunID: db.First.ID, Attempt: 1}, Check: contract.Check{ID: check}}
		left, err := a.KeepFiles(t.Context(), in, tester.Files{Root: dir, Log: []byte("log of " + check), Egress: &tester.Egress{}, Artifacts: files, Unlisted: unlisted})
		require.NoError(t, err)
		return left
	}
	grown := made("grown", 10)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "grown"), make([]byte, 4000), 0o600))
	link := made("link", 1)
	require.NoError(t, os.Remove(filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))

	require.Equal(t, 5, keep("one", 0, made("a", 1000), made("large", 2001), grown, link, made("b", 1000), made("c", 1000), made("d", 10), made("e", 10)))
	require.Equal(t, 1, keep("two", 0, made("f", 1500)))
	many := make([]verify.ArtifactFile, 60)
	for i := range many {
		many[i] = verify.ArtifactFile{Name: fmt.Sprintf("n%d", i), Path: "none", Type: contract.ArtifactVideo, Size: 3000}
	}
	require.Equal(t, 67, keep("many", 7, many...))

	all, err := db.Artifacts(t.Context(), db.First.ID)
	require.NoError(t, err)
	why, listed := map[string]string{}, 0
	for _, f := range all {
		name := strings.TrimPrefix(f.Name, "tester/1/")
		if why[name] = f.LeftOut; strings.HasPrefix(name, "many/n") {
			listed++
		}
		require.Equal(t, f.LeftOut == "", f.Digest != "", "%s: what was left out has no content", name)
	}
	require.Equal(t, 50, listed)
	for name, want := range map[string]string{
		"one/a": "", "one/b": "", "one/d": "", "one/output.log": "", "two/output.log": "", "many/output.log": "",
		"one/large":       "it exceeds artifacts.max_file (2000",
		"one/grown":       "it exceeds artifacts.max_file",
		"one/link":        "it could not be stored",
		"one/c":           "the files of the check exceed artifacts.max_check_size (2500",
		"one/e":           "the check has more than artifacts.max_check_files (3) files",
		"two/f":           "the files of the run exceed artifacts.max_run_size (3000",
		"many/more-files": "17 more files were left out",
	} {
		got, found := why[name]
		require.True(t, found, name)
		require.True(t, want == got || want != "" && strings.HasPrefix(got, want), "%s: %s", name, got)
	}
}
