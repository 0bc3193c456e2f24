package verify

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// proof runs tests on a checkout and says why the unproven ones are unproven.
func proof(t *testing.T, files map[string]string, env Env, tests ...pin.Added) map[string]string {
	t.Helper()
	if env.Runner == nil {
		env.Runner = plainRunner{}
	}
	p, err := Prove(t.Context(), checkout(t, files), tests, env)
	require.NoError(t, err)
	out := map[string]string{}
	for _, u := range p.Unproven {
		out[u.Test.Name] = u.Why
	}
	require.NotEmpty(t, p.Log)
	return out
}

var detecting = Env{Settings: checks.Settings{AutoDetect: true}}

func TestANewGoTestIsProvenWhereItFailsOrDoesNotCompileWithoutTheChange(t *testing.T) {
	t.Parallel()
	got := proof(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.21\n",
		"m.go":   "package m\n\nfunc Sign(n int) int { return 1 }\n",
		"m_test.go": `package m

import "testing"

func TestOld(t *testing.T) { t.Fatal("an old test that the change edits") }
func TestZero(t *testing.T) { if Sign(0) != 0 { t.Fatal("zero") } }
func TestVacuous(t *testing.T) { if Sign(5) != 1 { t.Fatal("five") } }
func TestLater(t *testing.T) { t.Skip("later") }
func TestTable(t *testing.T) {
	for _, c := range []struct{ name string; in, want int }{{"one", 1, 1}, {"minus", -1, -1}} {
		t.Run(c.name, func(t *testing.T) { if Sign(c.in) != c.want { t.Fatal(c.in) } })
	}
}
func TestGroup(t *testing.T) {
	t.Run("a b", func(t *testing.T) { if Sign(-2) != -1 { t.Fatal("minus two") } })
	t.Run("c", func(t *testing.T) {})
}
`,
		"sub/s.go":      "package sub\n",
		"sub/s_test.go": "package sub\n\nimport \"testing\"\n\nfunc TestNew(t *testing.T) { if New() != 1 { t.Fatal() } }\n",
	}, detecting,
		pin.Added{Path: "m_test.go", Name: "TestZero"}, pin.Added{Path: "m_test.go", Name: "TestVacuous"}, pin.Added{Path: "m_test.go", Name: "TestLater"},
		pin.Added{Path: "m_test.go", Name: "TestTable", Cases: true}, pin.Added{Path: "m_test.go", Name: "TestGroup/a_b"}, pin.Added{Path: "m_test.go", Name: "TestGroup/c"},
		pin.Added{Path: "sub/s_test.go", Name: "TestNew"},
	)
	require.Equal(t, map[string]string{"TestVacuous": passesAnyway, "TestLater": skippedAnyway, "TestGroup/c": passesAnyway}, got)
}

func TestOnlyTheNewTestsOfGoRun(t *testing.T) {
	t.Parallel()
	p, err := Prove(t.Context(), checkout(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.21\n", "m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n",
		"sub/s_test.go": "package sub\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
	}), []pin.Added{{Path: "m_test.go", Name: "TestB"}}, Env{Runner: plainRunner{}, Settings: checks.Settings{AutoDetect: true, Shards: 4}})
	require.NoError(t, err)
	require.Contains(t, string(p.Log), "$ go test -json -count=1 -run '^(TestB)$' .\n")
	require.NotContains(t, string(p.Log), "TestA")
	require.Len(t, p.Unproven, 1)
}

func TestANewNodeTestIsProvenWhereItFailsWithoutTheChange(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no node")
	}
	const head = "const test = require('node:test');\nconst assert = require('node:assert');\n"
	got := proof(t, map[string]string{
		"package.json": `{"name":"m"}`,
		"m.js":         "exports.sign = () => 1;\n",
		"m.test.js": head + "const { sign } = require('./m.js');\ntest('zero', () => assert.equal(sign(0), 0));\n" +
			"test('vacuous', () => assert.equal(sign(5), 1));\ntest('later', { skip: true }, () => {});\n" +
			"test.describe('group', () => { test('minus', () => assert.equal(sign(-1), -1)); test('one', () => assert.equal(sign(1), 1)); });\n",
		"new.test.js": head + "const { other } = require('./other.js');\ntest('other', () => assert.ok(other()));\n",
	}, detecting,
		pin.Added{Path: "m.test.js", Name: "zero"}, pin.Added{Path: "m.test.js", Name: "vacuous"}, pin.Added{Path: "m.test.js", Name: "later"},
		pin.Added{Path: "m.test.js", Name: "group > minus"}, pin.Added{Path: "m.test.js", Name: "group > one"}, pin.Added{Path: "new.test.js", Name: "other"},
	)
	require.Equal(t, map[string]string{"vacuous": passesAnyway, "later": skippedAnyway, "group > one": passesAnyway}, got)
}

func TestANewPythonTestIsProvenWhereItFailsWithoutTheChange(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"m.py": "def sign(n):\n    return 1\n",
		"tests/test_m.py": "import unittest\nfrom m import sign\n\n\nclass TestSign(unittest.TestCase):\n" +
			"    def test_zero(self):\n        self.assertEqual(sign(0), 0)\n\n    def test_vacuous(self):\n        self.assertEqual(sign(5), 1)\n\n" +
			"    @unittest.skip('later')\n    def test_later(self):\n        pass\n",
		"tests/test_new.py": "import unittest\nfrom other import other\n\n\nclass TestOther(unittest.TestCase):\n    def test_other(self):\n        self.assertTrue(other())\n",
	}
	tests := []pin.Added{
		{Path: "tests/test_m.py", Name: "TestSign::test_zero"}, {Path: "tests/test_m.py", Name: "TestSign::test_vacuous"},
		{Path: "tests/test_m.py", Name: "TestSign::test_later"}, {Path: "tests/test_new.py", Name: "TestOther::test_other"},
	}
	for _, runner := range []sandbox.Runner{plainRunner{}, without{words: []string{"pytest"}}} {
		got := proof(t, files, Env{Runner: runner, Settings: detecting.Settings}, tests...)
		require.Equal(t, map[string]string{"TestSign::test_vacuous": passesAnyway, "TestSign::test_later": skippedAnyway}, got)
	}
}

func TestACommandThatNamesNoTestsProvesByItsExitCode(t *testing.T) {
	t.Parallel()
	test := pin.Added{Path: "a_test.go", Name: "TestA"}
	require.Empty(t, proof(t, nil, Env{Settings: testCommand("echo bad; exit 1", output.FormatExitCode, "")}, test))
	require.Equal(t, map[string]string{"TestA": passesAnyway}, proof(t, nil, Env{Settings: testCommand("echo fine", output.FormatExitCode, "")}, test))
}

func TestATestThatOnlySaysThatItFailedProvesNothing(t *testing.T) {
	t.Parallel()
	root := checkout(t, nil)
	settings := testCommand("x", output.FormatJUnit, "*.xml")
	red := `<testsuite name="s"><testcase name="TestA"><failure message="no"/></testcase></testsuite>`
	for code, want := range map[int]int{0: 1, 1: 0} {
		p, err := Prove(t.Context(), root, []pin.Added{{Path: "a.py", Name: "TestA"}}, Env{Runner: writing(root, code, map[string]string{"r.xml": red}), Settings: settings})
		require.NoError(t, err)
		require.Len(t, p.Unproven, want, "exit code %d", code)
	}
}

func TestFailedTestsAreNotRunAgainToProveThem(t *testing.T) {
	t.Parallel()
	runner := &cannedRunner{answer: func(int, sandbox.Command) (sandbox.Result, error) {
		return sandbox.Result{ExitCode: 1, Stdout: []byte("TAP version 13\nnot ok 1 - a\n1..1\n")}, nil
	}}
	settings := testCommand("x", output.FormatTAP, "")
	settings.RerunFailed = 3
	p, err := Prove(t.Context(), checkout(t, nil), []pin.Added{{Path: "a.js", Name: "a"}}, Env{Runner: runner, Settings: settings})
	require.NoError(t, err)
	require.Empty(t, p.Unproven)
	require.Len(t, runner.commands, 1)
}

func TestAMethodOfASuiteIsProvenWhateverItsTypeIsCalled(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.21\n", "m_test.go": `package m

import "testing"

type TestSuite struct{}

func TestAll(t *testing.T) {
	t.Run("TestRed", func(t *testing.T) { t.Fatal() })
	t.Run("TestGreen", func(t *testing.T) {})
}
`,
	}
	got := proof(t, files, detecting,
		pin.Added{Path: "m_test.go", Name: "TestSuite/TestRed", Suite: true}, pin.Added{Path: "m_test.go", Name: "TestSuite/TestGreen", Suite: true})
	require.Equal(t, map[string]string{"TestSuite/TestGreen": passesAnyway}, got)
}

func TestMoreNamesThanACommandTakesRunTheWholePackage(t *testing.T) {
	t.Parallel()
	tests := []pin.Added{{Path: "m_test.go", Name: "TestGreen"}}
	for i := range 500 {
		tests = append(tests, pin.Added{Path: "m_test.go", Name: fmt.Sprintf("TestX%d%s", i, strings.Repeat("x", 300))})
	}
	got := proof(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.21\n", "m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestGreen(t *testing.T) {}\n",
	}, detecting, tests...)
	require.Len(t, got, len(tests))
	require.Equal(t, passesAnyway, got["TestGreen"])
}

func TestATestIsNotProvenByAnotherWhoseNameEndsWithItsOwn(t *testing.T) {
	t.Parallel()
	runner := &cannedRunner{answer: func(int, sandbox.Command) (sandbox.Result, error) {
		return sandbox.Result{ExitCode: 1, Stdout: []byte("TAP version 13\nnot ok 1 - it adds\nok 2 - adds\nnot ok 3 - suite works\n1..3\n")}, nil
	}}
	got := proof(t, nil, Env{Runner: runner, Settings: testCommand("x", output.FormatTAP, "")}, pin.Added{Path: "a.js", Name: "adds"}, pin.Added{Path: "a.js", Name: "works"})
	require.Equal(t, map[string]string{"adds": passesAnyway}, got)
}
