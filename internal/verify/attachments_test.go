package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

func TestFilesOfFailedTestsComeFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	e := &execution{Finished: checks.Finished{}}
	add := func(name string, kind contract.ArtifactType, failed bool) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
		e.Parsed.Attachments = append(e.Parsed.Attachments, output.Attachment{Path: name, Kind: kind, Failed: failed})
	}
	add("passed.png", contract.ArtifactScreenshot, false)
	add("failed.webm", contract.ArtifactVideo, true)
	add("failed.zip", contract.ArtifactTrace, true)
	add("failed.png", contract.ArtifactScreenshot, true)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link.png")))
	e.Parsed.Attachments = append(e.Parsed.Attachments, output.Attachment{Path: "link.png", Failed: true}, output.Attachment{Path: "../../etc/passwd", Failed: true})

	files, unlisted := (&run{dir: root, root: dir, executions: []*execution{e}}).artifacts()
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{"failed.png", "failed.zip", "failed.webm", "passed.png"}, names)
	require.Zero(t, unlisted)
}
