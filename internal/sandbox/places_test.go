package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPathsOfTheHostStandForThoseOfTheSandboxInBothDirections(t *testing.T) {
	t.Parallel()
	p := places{{"/tmp/w", Workspace}, {"/tmp/w/home", Home}, {"/data/files", "/var/cache/build"}, {"/tmp/rgpt-1", tmp}}
	require.Equal(t, "cd /tmp/w/sub && cat /tmp/w/home/x >/tmp/rgpt-1/y; ls /var/tmp /workspaces /workspace2 'x:/tmp/rgpt-1'",
		p.use("cd /workspace/sub && cat /home/sandbox/x >/tmp/y; ls /var/tmp /workspaces /workspace2 'x:/tmp'"))
	require.Equal(t, "A=/var/cache/build/python\n\"/workspace/a.py\" /home/sandbox /tmp/w2 /tmp/\xff", string(p.hide([]byte("A=/data/files/python\n\"/tmp/w/a.py\" /tmp/w/home /tmp/w2 /tmp/rgpt-1/\xff"))))
	require.Equal(t, "x", places(nil).use("x"))
}

func TestACommandWithoutNamespacesShowsNoPathOfTheHost(t *testing.T) {
	p := unisolated(t)
	dir := t.TempDir()
	root, cache := filepath.Join(dir, "root"), filepath.Join(dir, "cache")
	require.NoError(t, os.Mkdir(root, 0o755))
	require.NoError(t, os.Mkdir(cache, 0o755))
	c := Command{
		Root: root, Shell: "pwd; echo $HOME $CACHE; cd /workspace && echo x >new && ls /workspace/missing; cat /workspace/new",
		Env: map[string]string{"CACHE": "/var/cache/build/python"}, Mounts: []Mount{{Host: cache, Inside: "/var/cache/build", Writable: true}},
	}
	res := runCommand(t, p, c)
	require.Equal(t, "/workspace\n/home/sandbox /var/cache/build/python\nx\n", string(res.Stdout), "%s", res.Stderr)
	require.Contains(t, string(res.Stderr), "/workspace/missing")
	require.NotContains(t, string(res.Stdout)+string(res.Stderr), dir)
}
