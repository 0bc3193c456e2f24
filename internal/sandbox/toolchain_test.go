package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var detectOnce = sync.OnceValue(DetectToolchains)

// withToolchains makes a runner as a worker does.
func withToolchains(t *testing.T, variant Variant, cache string) *Process {
	t.Helper()
	p, err := NewProcess(Options{Variant: variant, Toolchains: detectOnce(), CacheDir: cache})
	require.NoError(t, err)
	return p
}

func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
}

// projects are small repositories and how their build is checked.
var projects = map[string]struct {
	needs  []string // a command that must succeed on the host
	files  map[string]string
	shell  string
	output string
}{
	"go": {
		needs: []string{"go", "version"},
		files: map[string]string{
			"go.mod":        "module example.com/hello\n\ngo 1.21\n",
			"hello.go":      "package hello\n\nfunc Hello() string { return \"hello\" }\n",
			"hello_test.go": "package hello\n\nimport \"testing\"\n\nfunc TestHello(t *testing.T) {\n\tif Hello() != \"hello\" {\n\t\tt.Fatal()\n\t}\n}\n",
		},
		shell:  "go build ./... && go test -count=1 ./...",
		output: "ok  \texample.com/hello",
	},
	"node": {
		needs: []string{"node", "--version"},
		files: map[string]string{
			"hello.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n" +
				"test('adds', () => assert.equal(1 + 1, 2));\n",
		},
		shell:  "node --test",
		output: "pass 1",
	},
	"python": {
		needs:  []string{"python3", "--version"},
		files:  map[string]string{"test_hello.py": "import unittest\n\n\nclass Hello(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(1 + 1, 2)\n"},
		shell:  "python3 -m unittest -v 2>&1",
		output: "Ran 1 test",
	},
}

func TestProjectsBuildAndTestWithoutNetwork(t *testing.T) {
	t.Parallel()
	for name, project := range projects {
		for _, variant := range []Variant{Bubblewrap, Namespaces} {
			t.Run(name+" in "+string(variant), func(t *testing.T) {
				t.Parallel()
				if err := exec.Command(project.needs[0], project.needs[1:]...).Run(); err != nil {
					t.Skip("not installed: ", project.needs)
				}
				root := t.TempDir()
				writeFiles(t, root, project.files)
				p := withToolchains(t, variant, sharedCache(t))
				res := runCommand(t, p, Command{Root: root, Shell: project.shell, Limits: Limits{
					Timeout: 50 * time.Second, MemoryBytes: 2 << 30, Processes: 400, DiskBytes: 1 << 30, FileBytes: 512 << 20,
				}})
				require.True(t, res.OK(), "%+v\n%s\n%s", res.LimitExceeded, res.Stdout, res.Stderr)
				require.Contains(t, string(res.Stdout), project.output)
			})
		}
	}
}

// sharedCache keeps the compiled standard library for all tests of this
// process, which trust each other.
var cacheOnce sync.Once

func sharedCache(t *testing.T) string {
	t.Helper()
	base, err := os.UserCacheDir()
	require.NoError(t, err)
	dir := filepath.Join(base, "rgpt-sandbox-test")
	cacheOnce.Do(func() { err = os.MkdirAll(dir, 0o700) })
	require.NoError(t, err)
	return dir
}

func TestCachesAreSharedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	shared, err := NewProcess(Options{Variant: Bubblewrap, CacheDir: dir})
	require.NoError(t, err)
	require.True(t, runCommand(t, shared, Command{Shell: "mkdir -p $GOCACHE && echo x >$GOCACHE/entry"}).OK())
	require.FileExists(t, filepath.Join(dir, "go-build", "entry"))
	require.True(t, runCommand(t, shared, Command{Shell: "cat $GOCACHE/entry"}).OK())

	private, err := runners[Bubblewrap]()
	require.NoError(t, err)
	require.False(t, runCommand(t, private, Command{Shell: "cat " + dir + "/go-build/entry"}).OK())
	require.Empty(t, shellOutput(t, private, "echo -n $GOCACHE"))
}

func TestToolchainsAreFoundWhereTheyLie(t *testing.T) {
	t.Parallel()
	tools := detectOnce()
	require.NotEmpty(t, tools.Found)
	require.Contains(t, tools.Env["PATH"], defaultPath)
	for _, m := range tools.mounts {
		if m.Kind == mountReadOnly {
			require.NoError(t, checkRealPath(m.Source))
			require.Empty(t, exposes(m.Source, ""))
		}
		require.True(t, visibleAnyway(m.Target) || within(m.Target, "/opt"), m.Target)
	}
}

func TestNpmGivesUpAtOnceWithoutANetwork(t *testing.T) {
	eachVariant(t, func(t *testing.T, p *Process) {
		require.Equal(t, "true", shellOutput(t, p, "echo -n $npm_config_offline"))
	})
}
