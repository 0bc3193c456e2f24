package verify

import (
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

var toolchains = sync.OnceValue(sandbox.DetectToolchains)

// goCache is the build cache of this machine. These tests trust the code they build;
// compiling the standard library again would take most of their time.
var goCache = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return ""
	}
	dir, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		return ""
	}
	return dir
})

// isolated returns an Env like a worker's. Tests that use it run compilers and test
// runners, which takes too long for `go test -short`.
func isolated(t testing.TB, s checks.Settings) Env {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real tools in a sandbox")
	}
	p, err := sandbox.NewProcess(sandbox.Options{Toolchains: toolchains(), Executable: sandboxtest.Executable(t)})
	if err != nil {
		t.Skipf("this machine cannot isolate: %v", err)
	}
	env := Env{Runner: p, Settings: s}
	if dir := goCache(); dir != "" {
		const inside = "/var/cache/go-test"
		env.Mounts, env.Vars = []sandbox.Mount{{Host: dir, Inside: inside, Writable: true}}, map[string]string{"GOCACHE": inside}
	}
	return env
}

func TestChecksRunInTheRealSandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool, id string
		files    map[string]string
		passed   int
		failed   string
	}{
		"go": {
			"go", "test-go-1", goFiles("package calc\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) {\n\tt.Error(Add(1, 1))\n}\n"),
			1, "calc/calc_test.go:8",
		},
		"node": {
			"node", "test-node-1", map[string]string{"package.json": "{}", "a.test.js": nodeTestHead + "test('good', () => {});\ntest('bad', () => {\n  assert.equal(1, 2);\n});\n"},
			1, "a.test.js:5",
		},
		"npm": {
			"npm", "test-node-1", map[string]string{"package.json": `{"scripts":{"test":"node --test check"}}`, "check/a.test.js": nodeTestHead + "test('good', () => {});\ntest('bad', () => {\n  assert.equal(1, 2);\n});\n"},
			1, "check/a.test.js:5",
		},
		"python": {
			"python3", "test-python-1", map[string]string{"tests/test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_good(self):\n        pass\n\n    def test_bad(self):\n        self.assertEqual(1, 2)\n"},
			1, "tests/test_a.py:9",
		},
		"rust": {
			"cargo", "test-rust-1", map[string]string{"Cargo.toml": "[package]\nname = \"m\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/lib.rs": "#[test]\nfn good() {}\n\n#[test]\nfn bad() {\n    assert_eq!(1, 2);\n}\n"},
			1, "src/lib.rs:6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.tool); err != nil {
				t.Skip(c.tool + " is not installed")
			}
			s := detected()
			s.RerunFailed = 1
			o := runWith(t, checkout(t, c.files), c.id, isolated(t, s))
			require.False(t, o.OK, "%s", o.Log)
			require.Equal(t, contract.CodeTestsFailed, o.Code, "%+v\n%s", o, o.Log)
			require.Equal(t, c.passed, o.Summary.Passed, "%+v\n%s", o, o.Log)
			require.Equal(t, 1, o.Summary.Failed)
			require.Equal(t, c.failed, o.Findings[0].Location, "%v\n%s", located(o), o.Log)
		})
	}
}

func TestTestsAreSeenToEndInTheRealSandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool, id string
		files    map[string]string
	}{
		"go": {"go", "test-go-1", map[string]string{
			"m/go.mod": "module example.com/m\n\ngo 1.21\n", "m/calc/calc_test.go": "package calc\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n",
		}},
		"python": {"python3", "test-python-1", map[string]string{
			"tests/test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_good(self):\n        pass\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs(t, c.tool)
			o := runWith(t, checkout(t, c.files), c.id, isolated(t, detected()))
			require.True(t, o.OK, "%+v\n%s", o.Findings, o.Log)
			require.Equal(t, 1, o.Summary.Passed)
			require.Empty(t, o.Findings)
		})
	}
}

func TestTheSandboxHasNoNetworkUnlessAllowed(t *testing.T) {
	t.Parallel()
	s := checks.Settings{Build: checks.StageSettings{Command: "ls /sys/class/net; cat /proc/net/route | wc -l"}}
	o := runWith(t, checkout(t, nil), "build-configured", isolated(t, s))
	require.True(t, o.OK, "%s", o.Log)
	require.NotContains(t, string(o.Log), "eth0")
}

func TestATimeoutInTheSandboxIsReported(t *testing.T) {
	t.Parallel()
	env := isolated(t, checks.Settings{Build: checks.StageSettings{Command: "echo begun; sleep 60"}})
	env.Limits.Timeout = 2e9
	o := runWith(t, checkout(t, nil), "build-configured", env)
	require.Equal(t, contract.CodeTimeout, o.Code, "%+v", o)
	require.Contains(t, o.Message, "the check's time limit of 2s")
}

func TestATestThatKillsItselfIsACrash(t *testing.T) {
	t.Parallel()
	o := runWith(t, checkout(t, nil), "build-configured", isolated(t, checks.Settings{Build: checks.StageSettings{Command: "kill -SEGV $$"}}))
	require.Equal(t, contract.CodeCommandCrashed, o.Code, "%+v", o)
	require.Contains(t, o.Message, "segmentation fault")
}

func TestGivenNodePackagesAreFoundByRequireAndImport(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is not installed")
	}
	packages := checkout(t, map[string]string{"given/package.json": `{"main":"index.js"}`, "given/index.js": "exports.answer = 42;\n"})
	env := isolated(t, detected())
	env.NodeModules = packages
	o := runWith(t, checkout(t, map[string]string{
		"a.test.cjs": "const test = require('node:test');\ntest('required', () => require('assert').equal(require('given').answer, 42));\n",
		"b.test.mjs": "import test from 'node:test';\nimport assert from 'node:assert';\nimport given from 'given';\ntest('imported', () => assert.equal(given.answer, 42));\n",
	}), "test-node-1", env)
	require.True(t, o.OK, "%s", o.Log)
	require.Equal(t, 2, o.Summary.Passed)
}
