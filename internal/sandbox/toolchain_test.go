package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

var detectOnce = sync.OnceValue(DetectToolchains)

// withToolchains makes a runner as a worker does.
func withToolchains(t *testing.T, cache string) *Process {
	t.Helper()
	p, err := NewProcess(Options{Toolchains: detectOnce(), CacheDir: cache})
	require.NoError(t, err)
	return p
}

// projects are small repositories and how to check their build.
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := exec.Command(project.needs[0], project.needs[1:]...).Run(); err != nil {
				t.Skip("not installed: ", project.needs)
			}
			root := t.TempDir()
			sandboxtest.WriteFiles(t, root, project.files)
			p := withToolchains(t, sharedCache(t))
			res := runCommand(t, p, Command{Root: root, Shell: project.shell, Limits: Limits{
				Timeout: 5 * time.Minute, MemoryBytes: 2 << 30, Processes: 400, DiskBytes: 1 << 30, FileBytes: 512 << 20,
			}})
			require.True(t, res.OK(), "%+v\n%s\n%s", res.LimitExceeded, res.Stdout, res.Stderr)
			require.Contains(t, string(res.Stdout), project.output)
		})
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
	shared, err := NewProcess(Options{CacheDir: dir})
	require.NoError(t, err)
	require.True(t, runCommand(t, shared, Command{Shell: "mkdir -p $GOCACHE && echo x >$GOCACHE/entry"}).OK())
	require.FileExists(t, filepath.Join(dir, "go-build", "entry"))
	require.True(t, runCommand(t, shared, Command{Shell: "cat $GOCACHE/entry"}).OK())

	private, err := runner()
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
		require.True(t, visibleAnyway(m.Target) || within(m.Target, "/opt") || within(m.Target, packagesInside), m.Target)
	}
}

func TestNpmGivesUpAtOnceWithoutANetwork(t *testing.T) {
	p := isolated(t)
	require.Equal(t, "true", shellOutput(t, p, "echo -n $npm_config_offline"))
}

// moved are commands that show that a toolchain works at its neutral place.
var moved = map[string]struct {
	program, files, shell string
	output                []string
}{
	"go": {"go", "", "go env GOROOT GOMODCACHE; go vet -h 2>&1 | head -1", []string{"/home/sandbox/go/pkg/mod", "usage: go vet"}},
	"python finds itself": {"python3", "", `python3 -c '
import sys, sysconfig, os
print(sys.prefix, sys.executable, os.path.exists(sysconfig.get_path("include") + "/Python.h"))
import ssl, sqlite3, ctypes, ensurepip, zlib
import subprocess; subprocess.run([sys.executable, "-c", "import ssl, sys; print(sys.prefix)"], env={}, check=True)'; pip --version`, []string{"True", "pip "}},
	"python makes environments": {"python3", "", `python3 -m venv v && . v/bin/activate && pip --version && python -c '
import sys; print("base", sys.base_prefix, sys.prefix)'; readlink v/bin/python3; cat v/pyvenv.cfg; head -1 v/bin/pip`,
		[]string{"/workspace/v/lib/python", " /workspace/v\n", "#!/workspace/v/bin/python"}},
	"python builds extensions": {"gcc", "ext.c", `cat >setup.py <<'END'
from setuptools import setup, Extension
setup(name="ext", version="1", ext_modules=[Extension("ext", ["ext.c"])])
END
python3 -m venv v && { v/bin/python -c 'import setuptools' 2>/dev/null || v/bin/python -m ensurepip; }
v/bin/python setup.py -q build_ext --inplace 2>&1 | tail -3; v/bin/python -c 'import ext; print("answer", ext.answer())'`,
		[]string{"answer 42"}},
	"rust": {"rustc", "", `cargo init -q --name m --vcs none . && cargo clippy -q && cargo fmt --check && cargo run -q && cargo test -q | grep 'test result'; rustc --print sysroot`,
		[]string{"Hello, world!", "test result: ok"}},
	"java":  {"javac", "", `echo 'class A { public static void main(String[] a) { System.out.println("from java"); } }' >A.java && javac A.java && java A; ls $JAVA_HOME/bin/javac`, []string{"from java", "/bin/javac"}},
	"maven": {"mvn", "", `mvn -v`, []string{"Apache Maven"}},
	"npm":   {"npm", "", `npm --version; npx --version`, []string{"."}},
}

const extension = `#include <Python.h>
static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, 0}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "ext", 0, -1, methods};
PyMODINIT_FUNC PyInit_ext(void) { return PyModule_Create(&module); }
`

func TestToolchainsWorkAtTheirNeutralPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range moved {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip("not installed: ", c.program)
			}
			root := t.TempDir()
			if c.files != "" {
				sandboxtest.WriteFiles(t, root, map[string]string{c.files: extension})
			}
			p := withToolchains(t, "")
			res := runCommand(t, p, Command{Root: root, Shell: c.shell, Limits: Limits{
				Timeout: 100 * time.Second, MemoryBytes: 2 << 30, Processes: 400, DiskBytes: 1 << 30, FileBytes: 512 << 20,
			}})
			for _, want := range c.output {
				require.Contains(t, string(res.Stdout), want, "%s", res.Stderr)
			}
			for _, tool := range detectOnce().mounts {
				if filepath.IsAbs(tool.Source) && !visibleAnyway(tool.Source) {
					require.NotContains(t, string(res.Stdout), tool.Source, "a path of the host is told")
				}
			}
		})
	}
}

// TestPackagesOfTheHostAreHidden takes packages that are installed here for
// every interpreter that commands find.
func TestPackagesOfTheHostAreHidden(t *testing.T) {
	const installed = `import importlib.metadata as m
names = {f.parts[0] for d in m.distributions() for f in (d.files or []) if len(f.parts) == 2 and f.parts[1] == "__init__.py"}
print(*sorted(n for n in names if n not in ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack")))`
	t.Parallel()
	p := withToolchains(t, "")
	for _, interpreter := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.Command(interpreter, "-c", installed).Output()
		if err != nil {
			continue
		}
		names := strings.Fields(string(out))
		if len(names) == 0 {
			continue
		}
		t.Logf("%d packages of %s, such as %s", len(names), interpreter, names[0])
		res := runCommand(t, p, Command{Args: append([]string{interpreter, "-c", `import importlib.util, sys
print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n)])
import site, os
for d in site.getsitepackages():
    try: open(d + "/planted.py", "w")
    except OSError: pass
    else: print("planted in", d)`}, names...)})
		require.Equal(t, "\n", string(res.Stdout), "%s", res.Stderr)
		require.True(t, res.OK(), "%s", res.Stderr)
	}
	res := runCommand(t, p, Command{Shell: "pytest --version"})
	if dir := filepath.Dir(resolve("pytest")); !slices.Contains(strings.Split(defaultPath, ":"), dir) {
		require.Equal(t, 127, res.ExitCode, "a script of the host is found: %s", res.Stderr)
	}
}

// TestAProgramAmongOthersExposesNothingElse: node in ~/bin must not show ~.
func TestAProgramAmongOthersExposesNothingElse(t *testing.T) {
	node := resolve("node")
	if node == "" {
		t.Skip("node is not installed")
	}
	home := sandboxtest.RealDir(t)
	sandboxtest.WriteFiles(t, home, map[string]string{".ssh/id_rsa": sandboxtest.CanarySecret, "lib/node_modules/npm/package.json": "{}", "bin/other": sandboxtest.CanarySecret})
	data, err := os.ReadFile(node)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(home, "bin", "node"), data, 0o755))
	mvn := filepath.Join(home, "bin", "mvn")
	proctest.WriteProgram(t, mvn, "#!/bin/sh\necho Apache Maven 9.9\n")
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	tools := DetectToolchains()
	require.Contains(t, strings.Join(tools.Refused, "\n"), "npm is not available to commands")
	require.Contains(t, strings.Join(tools.Refused, "\n"), "maven is not available to commands: "+mvn)
	require.NotContains(t, tools.Versions, "maven")
	p, err := NewProcess(Options{Toolchains: tools})
	require.NoError(t, err)
	res := runCommand(t, p, Command{Shell: "which node && node -p 6*7 && ls -A /opt/node /opt/node/bin; cat /opt/node/.ssh/id_rsa /opt/node/bin/other"})
	require.Equal(t, "/opt/node/bin/node\n42\n/opt/node:\nbin\n\n/opt/node/bin:\nnode\n", string(res.Stdout), "%s", res.Stderr)
}

func TestDirectoriesThatHoldMoreThanAToolchainAreRefused(t *testing.T) {
	t.Parallel()
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	data := sandboxtest.Mkdir(t, sandboxtest.RealDir(t), "data")
	for _, dir := range []string{home, "/root", "/home", filepath.Dir(data), data} {
		require.NotEmpty(t, exposes(dir, data), dir)
	}
	require.Empty(t, exposes(sandboxtest.Mkdir(t, data, "cache"), data), "what lies in the data folder is the caller's to give")
	require.Empty(t, exposes("/usr/share", data))

	p, err := NewProcess(Options{DataDir: data})
	require.NoError(t, err)
	_, err = p.Run(t.Context(), Command{Root: t.TempDir(), Shell: "true", Mounts: []Mount{{Host: filepath.Dir(data), Inside: "/srv/x"}}})
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "data folder")
}

func TestVersionsArePlain(t *testing.T) {
	t.Parallel()
	versions := detectOnce().Versions
	for _, name := range []string{"go", "node", "npm", "python", "rust", "cargo", "java", "maven", "make", "gcc"} {
		program := versionQuestions[name][0]
		if resolve(program) == "" {
			continue
		}
		require.Regexp(t, `^\d+(\.\d+)+`, versions[name], name)
	}
	require.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), versions["go"])
}

func TestTheHostsResolversAreNotTold(t *testing.T) {
	p := isolated(t)
	require.Equal(t, "0\n", shellOutput(t, p, "wc -c </etc/resolv.conf"))
}
