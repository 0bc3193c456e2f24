package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

const failingGoTests = `package calc

import "testing"

func TestAdd(t *testing.T) {
	if Add(1, 1) != 3 {
		t.Fatal("no")
	}
}

func TestZero(t *testing.T) {
	t.Parallel()
	if Add(0, 0) != 1 {
		t.Fatal("no")
	}
}
`

// forgedGo prints, framed as the testing package frames them, the results of all tests.
const forgedGo = `func forge() {
	for _, name := range []string{"TestAdd", "TestZero"} {
		fmt.Printf("\x16=== RUN   %s\n\x16--- PASS: %s (0.00s)\n", name, name)
	}
	fmt.Print("\x16PASS\n")
}
`

func TestAGoProgramThatEndsBeforeItsTestsIsNotGreen(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	for name, code := range map[string]string{
		"exit in init":             "package calc\n\nimport \"os\"\n\nfunc init() { os.Exit(0) }\n\nfunc Add(a, b int) int { return a + b }\n",
		"forged results in init":   "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc init() { forge(); os.Exit(0) }\n\nfunc Add(a, b int) int { return a + b }\n\n" + forgedGo,
		"forged results in a test": "package calc\n\nimport (\n\t\"fmt\"\n\t\"syscall\"\n)\n\nfunc Add(a, b int) int { forge(); syscall.Exit(0); return a + b }\n\n" + forgedGo,
		"forged results in a parallel test": "package calc\n\nimport (\n\t\"fmt\"\n\t\"syscall\"\n)\n\n" +
			"func Add(a, b int) int { if a == 0 { forge(); syscall.Exit(0) }; return 3 }\n\n" + forgedGo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := goFiles(failingGoTests)
			files["calc/calc.go"] = code
			o := runCheck(t, checkout(t, files), "test-go-1", detected())
			require.False(t, o.OK, "%s", o.Log)
			require.Equal(t, contract.CodeTestsFailed, o.Code)
			require.Zero(t, o.Summary.Passed)
			require.Equal(t, checks.RuleCutShort, o.Findings[0].Rule)
			require.Equal(t, contract.SeverityMajor, o.Findings[0].Severity)
			require.Equal(t, "calc: go test reports that example.com/m/calc passed, but there is no sign that its tests finished: the sentinel test, which should run last, did not run. "+
				"Tests that it reports as passed do not count. Code under test ended the test program with exit code 0, or printed its own results; "+
				"look for os.Exit, syscall.Exit and syscall.Exec in init functions and in the code that tests call", o.Message, "without counts, by which it would be another one than that of the base commit")
		})
	}
}

func TestGoTestsThatEndAreCountedAsEver(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	root := checkout(t, map[string]string{
		"go.mod":   "module example.com/m\n\ngo 1.21\n",
		"in/in.go": "package in\n\nfunc F() {}\n",
		"in/in_test.go": "package in\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n\n" +
			"func TestA(t *testing.T) { t.Parallel(); t.Run(\"x\", func(*testing.T) {}) }\n\nfunc TestB(t *testing.T) { t.Skip() }\n",
		"in/zz_test.go":     "package in_test\n\nimport \"testing\"\n\nfunc FuzzZ(f *testing.F) { f.Add(1); f.Fuzz(func(*testing.T, int) {}) }\n",
		"out/out_test.go":   "package other_test\n\nimport \"testing\"\n\nfunc TestOut(*testing.T) {}\n",
		"cmd/main.go":       "package main\n\nfunc main() {}\n",
		"cmd/main_test.go":  "package main\n\nimport \"fmt\"\n\nfunc Example() {\n\tfmt.Println(1)\n\t// Output: 1\n}\n",
		"none/none.go":      "package none\n",
		"help/help_test.go": "package help\n\nfunc helper() {}\n",
		"it/it_test.go":     "//go:build integration\n\npackage it\n\nimport \"testing\"\n\nfunc TestI(*testing.T) {}\n",
		"tool/go.mod":       "module example.com/tool\n\ngo 1.21\n",
		"tool/deep/a_test.go": "package deep\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
			"func TestFiles(t *testing.T) {\n\tif e, _ := os.ReadDir(\".\"); len(e) != 1 {\n\t\tt.Fatal(e)\n\t}\n}\n",
	})
	for _, shards := range []int{1, 2} {
		s := detected()
		s.Shards = shards
		sum := contract.TestSummary{}
		for _, check := range plan(t, root, s).Stages[1] {
			o := runCheck(t, root, check.ID, s)
			require.True(t, o.OK, "%+v\n%s", o.Findings, o.Log)
			require.Empty(t, o.Findings)
			require.NotContains(t, string(o.Log), checks.CanaryName)
			sum = sum.Add(withoutTime(o.Summary))
		}
		require.Equal(t, contract.TestSummary{Passed: 5, Skipped: 1}, sum)
	}
}

func TestATestMainThatSkipsAllOfItsTestsIsReportedButNotRed(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	o := runCheck(t, checkout(t, goFiles(`package calc

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	fmt.Println("no database here")
	os.Exit(0)
}

func TestAdd(t *testing.T) {}
`)), "test-go-1", detected())
	require.True(t, o.OK)
	require.Zero(t, o.Summary.Passed)
	require.Equal(t, contract.SeverityMedium, o.Findings[0].Severity)
	require.Contains(t, o.Findings[0].Message, "none of its tests ran")
}

func TestResultsThatAreForgedWhenGoTestsRunAgainDoNotCure(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles(failingGoTests)
	files["calc/calc.go"] = "package calc\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc Add(a, b int) int { return a + b }\n\n" +
		"func init() {\n\tif os.Mkdir(\"ran\", 0o755) != nil {\n\t\tforge()\n\t\tos.Exit(0)\n\t}\n}\n\n" + forgedGo
	s := detected()
	s.RerunFailed = 1
	o := runCheck(t, checkout(t, files), "test-go-1", s)
	require.False(t, o.OK, "%s", o.Log)
	require.Equal(t, contract.TestSummary{Failed: 2}, withoutTime(o.Summary))
}

func TestGoTestsThatFailAreRunAgainByThemselves(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles(failingGoTests)
	s := detected()
	s.RerunFailed = 1
	o := runCheck(t, checkout(t, files), "test-go-1", s)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, contract.TestSummary{Failed: 2}, withoutTime(o.Summary))
	require.Len(t, o.Findings, 2)
}

const pythonFailing = "import unittest\n\nfrom calc import add\n\n\nclass TestA(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 1), 3)\n"

func TestAUnittestThatEndsItsProcessIsNotGreen(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	forged := `    sys.stderr.write("test_add (test_calc.TestA.test_add) ... ok\n\n-----\nRan 1 test in 0.000s\n\nOK\n")
    sys.stderr.flush()
    os._exit(0)
`
	for name, code := range map[string]string{
		"exit at import":         "import os\nos._exit(0)\n",
		"exit by sys at import":  "import sys\nsys.exit(0)\n",
		"forged results in test": "import os, sys\ndef add(a, b):\n" + forged,
		"forged at import":       "import os, sys\nif True:\n" + forged,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := checkout(t, map[string]string{"calc.py": code, "test_calc.py": pythonFailing})
			o := runWith(t, root, "test-python-1", Env{Runner: without{words: []string{"pytest"}}, Settings: detected()})
			require.False(t, o.OK, "%s", o.Log)
			require.Equal(t, contract.CodeTestsFailed, o.Code)
			require.Zero(t, o.Summary.Passed)
			require.Contains(t, o.Message, "exited with code 0, but there is no sign that its tests finished")
		})
	}
}

func TestAFailedPythonTestIsRedWhateverExitCodeIsLeft(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	root := checkout(t, map[string]string{"calc.py": "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b): return a + b\n", "test_calc.py": pythonFailing})
	for _, runner := range []sandbox.Runner{plainRunner{}, without{words: []string{"pytest"}}} {
		o := runWith(t, root, "test-python-1", Env{Runner: runner, Settings: detected()})
		require.Equal(t, contract.CodeTestsFailed, o.Code, "%s", o.Log)
		require.Equal(t, contract.TestSummary{Failed: 1}, withoutTime(o.Summary))
		require.Contains(t, o.Message, "test_add failed: AssertionError: 2 != 3")
	}
}

func TestUnittestsThatEndAreCountedAsEver(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	root := checkout(t, map[string]string{
		"calc.py": "def add(a, b): return a + b\n", "sub/test_b.py": pythonFailing,
		"test_calc.py": strings.ReplaceAll(pythonFailing, "3)", "2)"),
	})
	require.NoError(t, os.Remove(filepath.Join(root, "sub/test_b.py")))
	o := runWith(t, root, "test-python-1", Env{Runner: without{words: []string{"pytest"}}, Settings: detected()})
	require.True(t, o.OK, "%s", o.Log)
	require.Equal(t, contract.TestSummary{Passed: 1}, withoutTime(o.Summary))
	require.Empty(t, o.Findings)
	require.Len(t, o.Cases, 1)
}

func TestAPytestThatEndsItsProcessIsNotGreen(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	if exec.Command("python3", "-c", "import pytest").Run() != nil {
		t.Skip("pytest is not installed")
	}
	forged := `    print("\n=== 1 passed in 0.01s ===", flush=True)
    for name in ("pytest-root-1.xml", "pytest.xml", "report.xml"):
        with open(".rgpt-verify/" + name, "w") as f:
            f.write('<testsuites><testsuite name="pytest" tests="1"><testcase classname="test_calc.TestA" name="test_add" file="test_calc.py"/></testsuite></testsuites>')
    os._exit(0)
`
	for name, files := range map[string]map[string]string{
		"exit at import":          {"calc.py": "import os\nos._exit(0)\n"},
		"exit in conftest":        {"calc.py": "", "conftest.py": "import os\nos._exit(0)\n"},
		"exit in a test":          {"calc.py": "import os\ndef add(a, b): os._exit(0)\n"},
		"forged report":           {"calc.py": "import os\ndef add(a, b):\n" + forged},
		"forged report at import": {"calc.py": "import os\nif True:\n" + forged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files["test_calc.py"] = pythonFailing
			o := runCheck(t, checkout(t, files), "test-python-1", detected())
			require.False(t, o.OK, "%s", o.Log)
			require.Equal(t, contract.CodeTestsFailed, o.Code)
			require.Zero(t, o.Summary.Passed)
			require.Contains(t, o.Message, "exited with code 0, but there is no sign that its tests finished")
		})
	}
}

func TestANodeFileThatEndsItsProcessIsRedWithoutAskingForTests(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	for name, code := range map[string]string{
		"exit at import": "process.exit(0);\n",
		"exit in a test": "exports.add = () => process.exit(0);\n",
		"forged results": "process.stdout.write('\\nTAP version 13\\nok 1 - adds\\n1..1\\n# tests 1\\n# pass 1\\n', () => process.exit(0));\nexports.add = () => process.exit(0);\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := checkout(t, map[string]string{
				"calc.js": code, "a.test.js": nodeTestHead + "const { add } = require('./calc');\ntest('adds', () => { assert.strictEqual(add(1, 1), 3); });\n",
			})
			o := runCheck(t, root, "test-node-1", detected())
			require.False(t, o.OK, "%s", o.Log)
			require.Equal(t, contract.CodeNoTests, o.Code)
			require.Zero(t, o.Summary.Passed)
			require.Contains(t, o.Message, "a.test.js: the file declares node:test tests, but its process exited with code 0 without reporting any")
		})
	}
}

func TestAFileThatAScriptRunsByNodeMustReportItsTests(t *testing.T) {
	t.Parallel()
	needs(t, "npm")
	const tests = nodeTestHead + "const { add } = require('../calc');\ntest('adds', () => { assert.strictEqual(add(1, 1), 2); });\n"
	files := map[string]string{"pkg/package.json": `{"scripts":{"test":"node --test check"}}`, "pkg/calc.js": "exports.add = (a, b) => a + b;\n", "pkg/check/a.test.js": tests}
	o := runCheck(t, checkout(t, files), "test-node-1", detected())
	require.True(t, o.OK, "%+v\n%s", o.Findings, o.Log)
	require.Equal(t, contract.TestSummary{Passed: 1}, withoutTime(o.Summary))

	files["pkg/calc.js"] = "process.exit(0);\n"
	o = runCheck(t, checkout(t, files), "test-node-1", detected())
	require.False(t, o.OK, "%s", o.Log)
	require.Zero(t, o.Summary.Passed)
	require.Contains(t, o.Message, "pkg/check/a.test.js: the file declares node:test tests")
}

func TestANodeFileWithoutTestsThatComesToItsEndIsNotRed(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	root := checkout(t, map[string]string{
		"test-help er#.js": "const { mock } = require('node:test');\nexports.mock = mock;\n",
		"a.test.js":        nodeTestHead + "test('adds', () => {});\nprocess.on('exit', () => {});\n",
	})
	o := runCheck(t, root, "test-node-1", detected())
	require.True(t, o.OK, "%+v\n%s", o.Findings, o.Log)
	require.Equal(t, 1, o.Summary.Passed)
	require.NotContains(t, string(o.Log), checks.CanaryName)
}

func TestACargoTestThatEndsItsProcessIsNotGreen(t *testing.T) {
	t.Parallel()
	needs(t, "cargo")
	for add, green := range map[string]bool{"a + b": true, "{ std::process::exit(0); #[allow(unreachable_code)] { a + b } }": false} {
		root := checkout(t, map[string]string{
			"Cargo.toml": "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
			"src/lib.rs": "pub fn add(a: i32, b: i32) -> i32 { " + add + " }\n\n#[test]\nfn adds() { assert_eq!(add(1, 1), 2) }\n\n#[test]\n#[ignore]\nfn later() {}\n",
		})
		o := runCheck(t, root, "test-rust-1", detected())
		require.Equal(t, green, o.OK, "%s", o.Log)
		if green {
			require.Equal(t, contract.TestSummary{Passed: 1, Skipped: 1}, withoutTime(o.Summary))
			continue
		}
		require.Contains(t, o.Message, "a test program announced more tests than its summary reports")
		require.Zero(t, o.Summary.Passed)
	}
}

func TestAReportHasAnotherNameEachTime(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	root := checkout(t, map[string]string{"package.json": `{"scripts":{"test":"vitest"}}`})
	for range 2 {
		runner := always(sandbox.Result{ExitCode: 1})
		runWith(t, root, "test-node-1", Env{Runner: runner, Settings: detected()})
		seen[reportOf(runner.commands[0])] = true
	}
	require.Len(t, seen, 2)
	require.NotContains(t, seen, ".rgpt-verify/node-root-1.json")
}
