package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// TestWhatCommandsLeaveAboveABaseCanBeSaved: deletions of files in the base are devices
// in the workspace, and replaced directories carry attributes.
func TestWhatCommandsLeaveAboveABaseCanBeSaved(t *testing.T) {
	p, err := sandbox.NewProcess(sandbox.Options{})
	if err != nil {
		t.Skipf("this machine cannot isolate: %v", err)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	write(t, base, "node_modules/one/index.js", "one")
	write(t, base, "node_modules/two/index.js", "two")
	write(t, base, "tool.egg-info/PKG-INFO", "info")
	m := newManager(t)
	source := t.TempDir()
	userGit(t, source, "init", "-q")
	write(t, source, ".gitignore", "node_modules\n*.egg-info\n")
	write(t, source, "main.js", "main")
	userGit(t, source, "add", "-A")
	userGit(t, source, "commit", "-qm", "first")
	ws, err := m.Start(t.Context(), contract.Repo{URL: source, Base: userGit(t, source, "rev-parse", "HEAD")})
	require.NoError(t, err)
	d, err := m.Open(t.Context(), ws, "1/builder")
	require.NoError(t, err)
	defer d.Close()
	run := func(shell string) string {
		res, err := p.Run(t.Context(), sandbox.Command{Root: d.Path(), WorkspaceBase: base, Shell: shell})
		require.NoError(t, err)
		if res.BaseCopied {
			t.Skip("this file system has no overlays")
		}
		require.True(t, res.OK(), "%s", res.Stderr)
		return string(res.Stdout)
	}
	run("rm -rf node_modules && mkdir node_modules && echo new >node_modules/new && rm -r tool.egg-info && echo changed >main.js")
	require.Equal(t, "new\n", run("ls node_modules; ls -d tool.egg-info 2>/dev/null || true"))
	info, err := os.Lstat(filepath.Join(d.Path(), "tool.egg-info"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeCharDevice)

	saved, err := d.Save(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, ws.Tree, saved.Tree)
	require.NoFileExists(t, filepath.Join(d.Path(), "tool.egg-info"))
	require.Equal(t, "changed new tool.egg-info", strings.Join(strings.Fields(run("cat main.js; ls node_modules; ls -d tool.egg-info")), " "),
		"what was removed altogether is there again; what was put in its place stays")
	run("rm -rf node_modules main.js && echo x >node_modules")
	_, err = d.Save(t.Context())
	require.NoError(t, err)
	require.Equal(t, "x\n", run("cat node_modules"))
}
