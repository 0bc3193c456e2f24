package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func (s *suite) basesShowBelowWorkspaceAndHome(t *testing.T) {
	p := s.parallel(t)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	res := run(t, p, layeredCommand(l, `cat node_modules/one/index.js node_modules/link/index.js packages/a/node_modules/three/x packages/a/main.js own.txt
~/.local/bin/tool && stat -c '%U %n' node_modules/one/index.js ~/.local/bin/tool node_modules . ~ /tmp
echo new >node_modules/one/index.js && echo new >node_modules/new && rm -r packages/a/node_modules && echo kept >~/kept && echo kept >/tmp/kept`))
	require.True(t, res.OK(), "%+v\n%s", res, res.Stderr)
	require.False(t, res.BaseCopied)
	require.Equal(t, "oneonethreemainowntool\nsandbox node_modules/one/index.js\nsandbox /home/sandbox/.local/bin/tool\nsandbox node_modules\nsandbox .\nsandbox /home/sandbox\nsandbox /tmp\n", string(res.Stdout))
	for path, content := range map[string]string{
		l.Base + "/node_modules/one/index.js": "one", l.Root + "/node_modules/one/index.js": "new\n", l.Root + "/node_modules/new": "new\n",
		l.Base + "/packages/a/node_modules/three/x": "three", l.Home + "/kept": "kept\n", l.Tmp + "/kept": "kept\n",
	} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(data), path)
	}
	require.NoFileExists(t, l.Root+"/node_modules/two/index.js", "what is only read stays below")
	res = run(t, p, layeredCommand(l, "cat node_modules/one/index.js; ls packages/a/node_modules; cat ~/kept /tmp/kept"))
	require.Equal(t, "new\nkept\nkept\n", string(res.Stdout), "%s", res.Stderr)
	sandboxtest.RequireNothingLeft(t, l)
}

func (s *suite) noCommandChangesABase(t *testing.T) {
	p := s.parallel(t)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	before, homeBefore := sandboxtest.HashTree(t, l.Base), sandboxtest.HashTree(t, l.HomeBase)
	for claim, script := range sandboxtest.HostileToBases {
		l.Root, l.Home = sandboxtest.Mkdir(t, sandboxtest.RealDir(t), "work"), sandboxtest.Mkdir(t, sandboxtest.RealDir(t), "home")
		res := run(t, p, layeredCommand(l, "ls node_modules/one/index.js ~/.local/bin/tool && { "+script+"\n} 2>/tmp/err; true"))
		require.Equal(t, "/home/sandbox/.local/bin/tool\nnode_modules/one/index.js\n", string(res.Stdout), "%s: %s", claim, res.Stderr)
		require.Equal(t, before, sandboxtest.HashTree(t, l.Base), claim)
		require.Equal(t, homeBefore, sandboxtest.HashTree(t, l.HomeBase), claim)
		require.NoFileExists(t, filepath.Join(l.Base, "new"), claim)
	}
}

func (s *suite) commandsShareABaseAtTheSameTime(t *testing.T) {
	p := s.parallel(t)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	before := sandboxtest.HashTree(t, l.Base)
	results := make(chan string, 4)
	for n := range cap(results) {
		c := layeredCommand(l, fmt.Sprintf("echo %d >node_modules/one/index.js; sync . ; cat node_modules/one/index.js node_modules/two/index.js", n))
		c.Root, c.Home, c.HomeBase, c.Tmp = sandboxtest.RealDir(t), "", "", ""
		go func() {
			res, err := p.Run(t.Context(), c)
			results <- fmt.Sprintf("%s%v%v", res.Stdout, err, res.BaseCopied)
		}()
	}
	var got []string
	for range cap(results) {
		got = append(got, <-results)
	}
	slices.Sort(got)
	require.Equal(t, []string{"0\ntwo<nil>false", "1\ntwo<nil>false", "2\ntwo<nil>false", "3\ntwo<nil>false"}, got)
	require.Equal(t, before, sandboxtest.HashTree(t, l.Base))
}

func (s *suite) directoriesOfTheCallerCountForTheDiskLimit(t *testing.T) {
	p := s.parallel(t)
	onlyOverlays(t, p)
	for claim, place := range map[string]string{"home": "~", "tmp": "/tmp", "workspace above a base": "node_modules"} {
		l := sandboxtest.NewLayers(t)
		c := layeredCommand(l, "head -c 60M /dev/zero >"+place+"/big; sleep 60")
		c.Limits.DiskBytes = 20 << 20
		res := run(t, p, c)
		require.Equal(t, sandbox.LimitDisk, res.LimitExceeded, claim)
		sandboxtest.RequireNothingLeft(t, l)
	}
}

func (s *suite) longCommandsLeaveNeitherProcessNorMount(t *testing.T) {
	p := s.parallel(t)
	onlyOverlays(t, p)
	l := sandboxtest.NewLayers(t)
	marker := "marker-overlay-" + strings.ReplaceAll(t.Name(), "/", "-")
	c := layeredCommand(l, ": "+marker+"; (setsid bash -c 'cd node_modules; exec 3<one/index.js; sleep 300; : "+marker+"' &); sleep 300")
	c.Limits.Timeout = 500 * time.Millisecond
	res := run(t, p, c)
	require.True(t, res.TimedOut)
	require.Empty(t, sandboxtest.ProcessesWith(t, marker))
	sandboxtest.RequireNothingLeft(t, l)
}

func layeredCommand(l sandboxtest.Layers, shell string) sandbox.Command {
	return sandbox.Command{Root: l.Root, WorkspaceBase: l.Base, Home: l.Home, HomeBase: l.HomeBase, Tmp: l.Tmp, Shell: shell}
}

// onlyOverlays skips a test that a copy of the base would pass.
func onlyOverlays(t *testing.T, r Runner) {
	t.Helper()
	if f := feature(r, "overlay"); f.Name != "" && !f.Available {
		t.Skip(f.Detail)
	}
}
