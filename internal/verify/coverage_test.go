package verify

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// measuring are settings that measure coverage.
func measuring() checks.Settings {
	s := detected()
	s.Coverage = checks.CoverageAuto
	return s
}

// missed returns the uncovered lines of all files of a checkout as file: lines.
func missed(t *testing.T, root string, o Outcome) []string {
	t.Helper()
	require.NotNil(t, o.Coverage, o.CoverageNote)
	dir, err := os.OpenRoot(root)
	require.NoError(t, err)
	defer dir.Close()
	all := map[string][]contract.LineRange{}
	require.NoError(t, filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, p); err == nil && e.Type().IsRegular() {
			all[filepath.ToSlash(rel)] = []contract.LineRange{{First: 1, Last: 1000}}
		}
		return err
	}))
	var out []string
	for _, f := range o.Coverage.Changed(dir, all, func(p string) bool { return !pin.IsCode(p) }).Files {
		if f.Covered < f.Lines || f.Unknown > 0 {
			out = append(out, f.Path+": "+f.MissedText())
		}
	}
	return out
}

const goDiv = `package m

func Div(a, b int) int {
	if b == 0 {
		return 0
	}
	return a / b
}
`

func TestGoTestsMeasureTheCodeOfAllPackages(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n", "m.go": goDiv, "sub/sub.go": "package sub\n\nfunc Unused() int {\n\treturn 1\n}\n",
		"use/use_test.go": "package use\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m\"\n)\n\nfunc TestDiv(t *testing.T) {\n\tif m.Div(4, 2) != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
	})
	o := runCheck(t, root, "test-go-1", measuring())
	require.True(t, o.OK, o.Message)
	require.Equal(t, 1, o.Summary.Passed)
	require.Equal(t, []string{"m.go: line 5", "sub/sub.go: lines 3-4"}, missed(t, root, o), "the test is in another package")
	require.Contains(t, string(o.Log), "$ go test -json -count=1 ./...\n", "a person would type it without coverage")
}

func TestCoverageIsMeasuredOnlyIfItIsEnabled(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"a.test.js": "require('node:test')('a', () => {});\n"})
	for mode, args := range map[checks.CoverageMode]bool{"": false, checks.CoverageOff: false, checks.CoverageAuto: true} {
		r := always(sandbox.Result{Stdout: []byte("TAP version 13\nok 1 - a\n1..1\n")})
		s := measuring()
		s.Coverage = mode
		runWith(t, root, "test-node-1", Env{Runner: r, Settings: s})
		last := r.commands[len(r.commands)-1]
		require.Equal(t, args, strings.Contains(strings.Join(last.Args, " "), "--experimental-test-coverage"), "%s: %v", mode, last.Args)
	}
}

const jsSum = `function sum(a, b) {
  if (a < 0) {
    return -1;
  }
  return a + b;
}

module.exports = { sum };
`

func TestNodeTestsMeasureCoverage(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	if exec.CommandContext(t.Context(), "node", "-e", `process.exit(require("node:test/reporters").lcov ? 0 : 1)`).Run() != nil {
		t.Skip("this version of node cannot write lcov reports")
	}
	root := checkout(t, map[string]string{
		"web/package.json": "{}", "web/sum.js": jsSum, "web/other.js": "let a = 1;\n",
		"web/sum.test.js": "const { test } = require('node:test');\nconst { sum } = require('./sum.js');\ntest('sums', () => { if (sum(1, 2) !== 3) throw 1; });\n",
	})
	o := runCheck(t, root, "test-node-1", measuring())
	require.True(t, o.OK, o.Message)
	require.Equal(t, 1, o.Summary.Passed)
	require.Equal(t, []string{"web/other.js: not measured", "web/sum.js: line 3"}, missed(t, root, o))
}

// installed links Node packages that RGPT_TEST_NODE_MODULES contains into a checkout.
func installed(t *testing.T, root string, packages ...string) {
	t.Helper()
	modules := os.Getenv("RGPT_TEST_NODE_MODULES")
	for _, p := range packages {
		if _, err := os.Stat(filepath.Join(modules, p)); modules == "" || err != nil {
			t.Skipf("%s is not installed in RGPT_TEST_NODE_MODULES", p)
		}
	}
	require.NoError(t, os.Symlink(modules, filepath.Join(root, "node_modules")))
}

func TestJestMeasuresCoverageAndItsThresholdDoesNotCount(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json": `{"scripts":{"test":"jest"},"jest":{"coverageThreshold":{"global":{"lines":100}}}}`,
		"sum.js":       jsSum, "sum.test.js": "const { sum } = require('./sum.js');\ntest('sums', () => expect(sum(1, 2)).toBe(3));\n",
	})
	installed(t, root, "jest")
	o := runCheck(t, root, "test-node-1", measuring())
	require.True(t, o.OK, o.Message)
	require.Empty(t, o.CoverageNote, "it did not have to run again")
	require.Equal(t, []string{"sum.js: line 3"}, missed(t, root, o))
}

func TestVitestMeasuresCoverageAndItsThresholdDoesNotCount(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json":     `{"type":"module","scripts":{"test":"vitest run"}}`,
		"vitest.config.js": "export default { test: { coverage: { thresholds: { lines: 100 } } } };\n",
		"sum.js":           strings.Replace(jsSum, "module.exports =", "export", 1),
		"sum.test.js":      "import { test, expect } from 'vitest';\nimport { sum } from './sum.js';\ntest('sums', () => expect(sum(1, 2)).toBe(3));\n",
	})
	installed(t, root, "vitest", "@vitest/coverage-v8")
	o := runCheck(t, root, "test-node-1", measuring())
	require.True(t, o.OK, o.Message)
	require.Empty(t, o.CoverageNote)
	require.Contains(t, missed(t, root, o), "sum.js: line 3")
}

func TestAThresholdThatTheProjectAlwaysAppliesStillDecides(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"package.json": `{"scripts":{"test":"jest"},"jest":{"collectCoverage":true,"coverageThreshold":{"global":{"lines":100}}}}`,
		"sum.js":       jsSum, "sum.test.js": "const { sum } = require('./sum.js');\ntest('sums', () => expect(sum(1, 2)).toBe(3));\n",
	})
	installed(t, root, "jest")
	o := runCheck(t, root, "test-node-1", measuring())
	require.False(t, o.OK)
	require.Contains(t, string(o.Log), "coverage threshold for lines (100%) not met")
	require.Contains(t, missed(t, root, o), "sum.js: line 3", "its own report is read")
}

// interpreted runs commands with another Python.
type interpreted struct {
	sandbox.Runner
	python string
}

func (r interpreted) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	if len(c.Args) > 0 && c.Args[0] == "python3" {
		c.Args = append([]string{r.python}, c.Args[1:]...)
	}
	c.Shell = strings.ReplaceAll(c.Shell, "python3", r.python)
	return r.Runner.Run(ctx, c)
}

// python runs commands with the Python in RGPT_TEST_PYTHON, or the installed one, which must have
// packages.
func python(t *testing.T, runner sandbox.Runner, packages ...string) sandbox.Runner {
	t.Helper()
	interpreter := cmp.Or(os.Getenv("RGPT_TEST_PYTHON"), "python3")
	for _, p := range packages {
		if exec.CommandContext(t.Context(), interpreter, "-I", "-c", "import "+p).Run() != nil {
			t.Skipf("%s is not installed for %s (RGPT_TEST_PYTHON)", p, interpreter)
		}
	}
	return interpreted{runner, interpreter}
}

func pythonProject(more map[string]string) map[string]string {
	files := map[string]string{
		"app/__init__.py": "", "app/calc.py": "def sub(a, b):\n    if a < b:\n        return 0\n    return a - b\n", "app/unused.py": "A = 1\n",
		"test_calc.py": "from app.calc import sub\n\n\ndef test_sub():\n    assert sub(2, 1) == 1\n",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

func TestPytestMeasuresCoverage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files  map[string]string
		missed []string
	}{
		"plain":     {nil, []string{"app/calc.py: line 3", "app/unused.py: line 1"}},
		"threshold": {map[string]string{".coveragerc": "[report]\nfail_under = 100\n"}, []string{"app/calc.py: line 3", "app/unused.py: line 1"}},
		"own sources": {map[string]string{"pyproject.toml": "[tool.coverage.run]\nsource = [\"app.calc\"]\n"}, []string{
			"app/calc.py: line 3", "app/unused.py: not measured",
		}},
		"own options": {map[string]string{"pytest.ini": "[pytest]\naddopts = --cov=app\n"}, []string{"app/calc.py: line 3", "app/unused.py: line 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := checkout(t, pythonProject(c.files))
			o := runWith(t, root, "test-python-1", Env{Runner: python(t, plainRunner{}, "pytest", "pytest_cov"), Settings: measuring()})
			require.True(t, o.OK, o.Message)
			require.Equal(t, 1, o.Summary.Passed)
			require.Empty(t, o.CoverageNote)
			require.Equal(t, c.missed, missed(t, root, o))
		})
	}
}

func TestPytestMeasuresCoverageWithoutItsPlugin(t *testing.T) {
	t.Parallel()
	root := checkout(t, pythonProject(map[string]string{".coveragerc": "[run]\nparallel = true\n"}))
	o := runWith(t, root, "test-python-1", Env{Runner: python(t, without{words: []string{"pytest_cov"}}, "pytest", "coverage"), Settings: measuring()})
	require.True(t, o.OK, o.Message)
	require.Equal(t, []string{"app/calc.py: line 3", "app/unused.py: line 1"}, missed(t, root, o))
}

func TestUnittestMeasuresCoverage(t *testing.T) {
	t.Parallel()
	root := checkout(t, pythonProject(map[string]string{
		"test_calc.py": "import unittest\nfrom app.calc import sub\n\n\nclass T(unittest.TestCase):\n    def test_sub(self):\n        self.assertEqual(sub(2, 1), 1)\n",
	}))
	o := runWith(t, root, "test-python-1", Env{Runner: python(t, without{words: []string{"pytest"}}, "coverage"), Settings: measuring()})
	require.True(t, o.OK, o.Message)
	require.Equal(t, 1, o.Summary.Passed)
	require.Equal(t, []string{"app/calc.py: line 3", "app/unused.py: line 1"}, missed(t, root, o))
}

func TestTestsThatFailOnlyWithCoverageRunWithoutIt(t *testing.T) {
	t.Parallel()
	failing := func(body string) map[string]string {
		return map[string]string{
			"go.mod": "module example.com/m\n\ngo 1.24\n", "m.go": goDiv,
			"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Exit\n\nfunc TestDiv(t *testing.T) { Div(1, 1) }\n\nfunc TestPlain(t *testing.T) {\n\tif testing.CoverMode() != \"\" {\n\t\t" + body + "\n\t}\n}\n",
		}
	}
	for name, body := range map[string]string{"a failure": `t.Fatal("slow")`, "an exit": "os.Exit(0)", "a crash": "os.Exit(3)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := measuring()
			s.RerunFailed = 1
			o := runCheck(t, checkout(t, failing(body)), "test-go-1", s)
			require.True(t, o.OK, o.Message)
			require.Equal(t, contract.TestSummary{Passed: 2, DurationMS: o.Summary.DurationMS}, o.Summary)
			require.Empty(t, o.Findings)
			require.Nil(t, o.Coverage)
			require.Equal(t, "the tests failed while coverage was measured, so they ran again without it", o.CoverageNote)
		})
	}
}

func TestFailuresAreTheSameWithCoverage(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.24\n", "m.go": goDiv,
		"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestBroken(t *testing.T) {\n\tif Div(1, 1) != 2 {\n\t\tt.Fatal(\"broken\")\n\t}\n}\n\n" +
			"func TestFlaky(t *testing.T) {\n\tif err := os.Mkdir(\"once\", 0o755); err == nil {\n\t\tt.Fatal(\"first\")\n\t}\n}\n",
	}
	outcome := func(mode checks.CoverageMode) Outcome {
		s := measuring()
		s.RerunFailed, s.Coverage = 1, mode
		o := runCheck(t, checkout(t, files), "test-go-1", s)
		o.Duration, o.Summary.DurationMS, o.Log = 0, 0, nil
		for i := range o.Cases {
			o.Cases[i].DurationMS = 0
		}
		return o
	}
	with, without := outcome(checks.CoverageAuto), outcome(checks.CoverageOff)
	require.NotNil(t, with.Coverage)
	with.Coverage = nil
	require.Equal(t, without, with)
	require.Equal(t, 1, with.Summary.Failed)
	require.Equal(t, 1, with.Summary.Flaky)
}

func TestTestsThatTakeTooLongWithCoverageRunWithoutIt(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"a.test.js": "require('node:test')('a', () => {});\n"})
	r := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
		if strings.Contains(strings.Join(c.Args, " "), "--experimental-test-coverage") {
			return sandbox.Result{ExitCode: 137, Signal: "killed", TimedOut: true}, nil
		}
		return sandbox.Result{Stdout: []byte("TAP version 13\nok 1 - a\n1..1\n")}, nil
	}}
	o := runWith(t, root, "test-node-1", Env{Runner: r, Settings: measuring(), Limits: sandbox.Limits{Timeout: time.Minute}})
	require.True(t, o.OK, o.Message)
	require.Contains(t, o.CoverageNote, "longer than half of verification.timeout")
	require.Len(t, r.commands, 3, "the probe, the attempt with coverage and the one without")
	require.LessOrEqual(t, r.commands[1].Limits.Timeout, 30*time.Second)
	require.Greater(t, r.commands[2].Limits.Timeout, 30*time.Second)
}

func TestATestThatCoverageSkipsIsJudgedWithoutIt(t *testing.T) {
	t.Parallel()
	module := func(condition, others string) map[string]string {
		return map[string]string{
			"go.mod": "module example.com/m\n\ngo 1.24\n", "m.go": goDiv,
			"m_test.go": "package m\n\nimport (\n\t\"os\"\n\t\"strings\"\n\t\"testing\"\n)\n\nvar args = strings.Join(os.Args, \" \")\n\n" + others +
				"func TestAllocations(t *testing.T) {\n\tif " + condition + " {\n\t\tt.Skip(\"coverage\")\n\t}\n\tt.Fatal(\"too many\")\n}\n",
		}
	}
	for name, files := range map[string]map[string]string{
		"the code asks":          module(`testing.CoverMode() != ""`, "func TestDiv(t *testing.T) { Div(1, 1) }\n\n"),
		"another test fails too": module(`testing.CoverMode() != ""`, "func TestDiv(t *testing.T) { t.Fatal() }\n\n"),
		"nothing else runs":      module(`strings.Contains(args, "coverprofile")`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := runCheck(t, checkout(t, files), "test-go-1", measuring())
			require.False(t, o.OK)
			require.Equal(t, contract.TestFailed, caseNamed(t, o, "TestAllocations").Status)
			require.Contains(t, string(o.Log), "[coverage was measured above; that outcome does not count, and the command runs again without it]\n")
		})
	}
	o := runCheck(t, checkout(t, module("true || args != \"\"", "func TestDiv(t *testing.T) { Div(1, 1) }\n\n")), "test-go-1", measuring())
	require.True(t, o.OK)
	require.Equal(t, 1, strings.Count(string(o.Log), "$ go test"), "the test is always skipped")
	require.NotNil(t, o.Coverage)
}

func TestSlowCoverageTakesNoTimeFromOtherCommands(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for _, dir := range []string{"a", "b", "c"} {
		files[dir+"/go.mod"], files[dir+"/m_test.go"] = "module example.com/"+dir+"\n\ngo 1.24\n", "package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n"
	}
	root := checkout(t, files)
	synctest.Test(t, func(t *testing.T) {
		r := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
			if c.Dir == "c" && strings.Contains(strings.Join(c.Args, " "), "-cover") {
				<-time.After(c.Limits.Timeout)
				return sandbox.Result{ExitCode: 137, Signal: "killed", TimedOut: true}, nil
			}
			<-time.After(40 * time.Second)
			return sandbox.Result{}, nil
		}}
		runWith(t, root, "test-go-1", Env{Runner: r, Settings: measuring(), Limits: sandbox.Limits{Timeout: 100 * time.Second}})
		last := r.commands[len(r.commands)-1]
		require.Equal(t, "c", last.Dir)
		require.NotContains(t, strings.Join(last.Args, " "), "-cover")
		require.GreaterOrEqual(t, last.Limits.Timeout, 50*time.Second, "without coverage, two commands would have left it more")
	})
}

func TestTheConversionOfCoverageDataIsBounded(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"a_test.py": "import unittest\n", "setup.py": ""})
	r := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
		switch {
		case c.Shell != "":
			return sandbox.Result{ExitCode: 137, Signal: "killed", TimedOut: true}, nil
		case strings.Contains(strings.Join(c.Args, " "), "unittest -v"):
			return sandbox.Result{Stderr: []byte("test_a (a_test.T.test_a) ... ok\n\n----\nRan 1 test in 0.001s\n\nOK\n")}, nil
		case strings.Contains(strings.Join(c.Args, " "), "pytest"):
			return sandbox.Result{ExitCode: 1}, nil
		}
		return sandbox.Result{}, nil
	}}
	o := runWith(t, root, "test-python-1", Env{Runner: r, Settings: measuring(), Limits: sandbox.Limits{Timeout: time.Hour}})
	require.NotEqual(t, contract.CodeTimeout, o.Code)
	at := slices.IndexFunc(r.commands, func(c sandbox.Command) bool { return strings.Contains(c.Shell, "coverage xml") })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, maxConvert, r.commands[at].Limits.Timeout)
}

func TestTheReportsOfACheckAreBoundedTogether(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"a.py": "one\ntwo\n"})
	s := testCommand("printf 'SF:a.py\nDA:1,1\nend_of_record\n' > c.out; for f in coverage.out coverage.xml lcov.info; do head -c 30000000 /dev/zero > $f; done", output.FormatAuto, "")
	s.Coverage = checks.CoverageAuto
	o := runCheck(t, root, "test-configured-1", s)
	require.True(t, o.OK, o.Message)
	require.Equal(t, "the coverage report lcov.info was not read: the coverage reports of the check are larger than 64 MiB together", o.CoverageNote)
	require.Equal(t, contract.LineCount{Lines: 1, Covered: 1}, o.Coverage.Total(), "the others are read")
}

func TestReportsOfConfiguredCommandsAreRead(t *testing.T) {
	t.Parallel()
	for name, report := range map[string]string{
		"coverage/lcov.info": `SF:a.py\nDA:1,1\nDA:2,0\nend_of_record`,
		"coverage.xml":       `<coverage><packages><package><classes><class filename="a.py"><lines><line number="1" hits="1"/><line number="2" hits="0"/></lines></class></classes></package></packages></coverage>`,
	} {
		root := checkout(t, map[string]string{"a.py": "one\ntwo\n", "write.sh": "mkdir -p coverage\nprintf '" + strings.ReplaceAll(report, "'", `"`) + "\\n' > " + name + "\n"})
		s := testCommand("sh write.sh", output.FormatAuto, "")
		s.Coverage = checks.CoverageAuto
		o := runCheck(t, root, "test-configured-1", s)
		require.True(t, o.OK, o.Message)
		require.Equal(t, []string{"a.py: line 2"}, missed(t, root, o), name)
	}
}

func TestAStaleOrBrokenReportIsNoCoverage(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"a.py": "one\n", "lcov.info": "SF:a.py\nDA:1,1\nend_of_record\n"})
	s := testCommand("true", output.FormatAuto, "")
	s.Coverage = checks.CoverageAuto
	o := runCheck(t, root, "test-configured-1", s)
	require.Nil(t, o.Coverage, "it was there before")
	require.Empty(t, o.CoverageNote)
	s.Test.Command = "echo junk > lcov.info"
	o = runCheck(t, root, "test-configured-1", s)
	require.True(t, o.OK)
	require.Nil(t, o.Coverage)
	require.Contains(t, o.CoverageNote, "the coverage report lcov.info could not be read: its format is unknown")
}
