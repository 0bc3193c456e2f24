package checks

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

var pythonMarkers = []string{"pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini", "requirements.txt", "conftest.py"}

// pythonTestName matches the test files of both pytest and unittest. unittest runs pytest's second
// convention, x_test.py, only if it is given the file.
var pythonTestName = regexp.MustCompile(`(^|/)(test_[^/]*|[^/]*_test|tests?)\.py$`)

// pythonHas reports whether a package is installed. The checkout itself is removed from the path
// first; otherwise a file pytest.py in it would count.
const pythonHas = `import sys
sys.path = [p for p in sys.path if p not in ("", ".")]
import importlib.util as u
sys.exit(u.find_spec(sys.argv[1]) is None)`

// planPython tests with the runner that the project is configured for and lints with an installed
// linter, which is determined in the sandbox during the run. pytest's own configuration selects the
// tests; files are distributed over shards only if the settings request several.
func planPython(t *checkout, p planning) []Job {
	sources := t.match(func(f string) bool { return strings.HasSuffix(f, ".py") && !inOutput(f) && !inFixture(path.Dir(f)) })
	tests := slices.DeleteFunc(slices.Clone(sources), func(f string) bool { return !pythonTestName.MatchString(f) || !isPythonTest(t, f) })
	marked := slices.ContainsFunc(pythonMarkers, t.has)
	if !marked && len(tests) == 0 && !hasPythonAtTop(sources) {
		return nil
	}
	var jobs []Job
	switch {
	case len(tests) > 0 && p.shards > 1:
		var all [][]Invocation
		for n, shard := range roundRobin(tests, p.shards) {
			all = append(all, []Invocation{pythonTests(t, shard, shard, n+1)})
		}
		jobs = append(jobs, shardJobs("python", "Python tests", all)...)
	case len(tests) > 0 || configuresPytest(t):
		jobs = append(jobs, shardJobs("python", "Python tests", [][]Invocation{{pythonTests(t, nil, tests, 1)}})...)
	}
	if len(sources) > 0 {
		jobs = append(jobs, simpleJob(contract.CategoryLint, "python", "ruff, flake8 or compileall", pythonLint()))
	}
	return jobs
}

var pytestSections = map[string]*regexp.Regexp{
	"pytest.ini": nil, ".pytest.ini": nil, "pytest.toml": nil,
	"pyproject.toml": regexp.MustCompile(`(?m)^\[tool\.pytest(\.ini_options)?\]`),
	"tox.ini":        regexp.MustCompile(`(?m)^\[pytest\]`),
	"setup.cfg":      regexp.MustCompile(`(?m)^\[tool:pytest\]`),
}

// configuresPytest reports whether a project configures pytest.
func configuresPytest(t *checkout) bool {
	for file, section := range pytestSections {
		if t.has(file) && (section == nil || section.MatchString(t.read(file))) {
			return true
		}
	}
	return false
}

// hasPythonAtTop reports whether the root contains Python files. A script elsewhere in a repository
// of another language does not make it a Python project.
func hasPythonAtTop(sources []string) bool {
	return slices.ContainsFunc(sources, func(f string) bool { return !strings.Contains(f, "/") })
}

// isPythonTest treats tests.py and test.py, Django's convention, as tests only if their
// content shows it.
func isPythonTest(t *checkout, f string) bool {
	base := path.Base(f)
	if base != "test.py" && base != "tests.py" {
		return true
	}
	text := t.read(f)
	return strings.Contains(text, "unittest") || strings.Contains(text, "pytest") || strings.Contains(text, "def test_")
}

// pythonTests runs pytest as the project does, or on some files. Without pytest, it runs unittest
// on the files that look like tests.
func pythonTests(t *checkout, files, known []string, shard int) Invocation {
	run := pytest(t, files, known, shard)
	run.Probe = []string{"python3", "-c", pythonHas, "pytest"}
	other := unittest(t, known)
	run.Instead = &other
	return run
}

// pytest adds only report options to the project's own options and replaces none. The xunit1 format
// contains the file and line of each case.
func pytest(t *checkout, files, known []string, shard int) Invocation {
	report := scratch("pytest", "", shard) + ".xml"
	args := []string{"python3", "-m", "pytest", "--junitxml=" + report, "-o", "junit_family=xunit1"}
	run := Invocation{
		Args: append(args, files...), Env: pythonEnv(t, nil), Source: sourceOf(t),
		Format: output.FormatJUnit, Reports: []string{report}, OrText: true, Runner: true, PrintedSummary: output.PytestPrinted,
		Ended: mustReport(pythonExits), Coverage: pytestCoverage(t),
	}
	run.RerunFailed = func(failed []output.Case, _ int) Invocation {
		if narrow := caseFiles(failed, known); len(narrow) > 0 {
			return pytest(t, narrow, narrow, shard)
		}
		return pytest(t, files, known, shard)
	}
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) {
		covered, has := inFiles(tests, known)
		narrow := pytest(t, has, has, shard)
		// A file that cannot be imported must not prevent the tests in other files from running.
		narrow.Args = append(narrow.Args, "--continue-on-collection-errors")
		return narrow, covered
	}
	return run
}

func unittest(t *checkout, files []string) Invocation {
	run := Invocation{
		Args: append([]string{"python3", "-m", "unittest", "-v"}, files...),
		Env:  pythonEnv(t, files), Source: sourceOf(t), Format: output.FormatUnittest, Runner: true, canary: unittestCanary,
		Audit:    func(root *os.Root, _ output.Paths, p *output.Results) { needPytest(root, files, p) },
		Coverage: []Coverage{coveragePy(false)},
	}
	run.Only = func(tests []pin.Added) (Invocation, []pin.Added) {
		covered, has := inFiles(tests, files)
		return unittest(t, has), covered
	}
	return run
}

var (
	importsPytest   = regexp.MustCompile(`(?m)^\s*(import|from)\s+pytest\b`)
	importsUnittest = regexp.MustCompile(`(?m)^\s*(import|from)\s+(unittest|django\.test)\b`)
	barePythonTest  = regexp.MustCompile(`(?m)^(async\s+)?def\s+test_`)
)

// needPytest finds files that unittest cannot run or, worse, silently skips: it does not treat
// functions outside classes as tests.
func needPytest(root *os.Root, files []string, p *output.Results) {
	for _, f := range files {
		text, _ := output.ReadRegular(root, f, maxSource)
		if importsPytest.Match(text) || barePythonTest.Match(text) && !importsUnittest.Match(text) {
			p.Problems = append(p.Problems, output.Problem{
				Level: output.Error, Path: f, Rule: RuleNoTests,
				Message: "the tests in this file did not run: they are written for pytest, which is not installed where checks run",
			})
		}
	}
}

// pythonEnv keeps Python from writing into the checkout and, for unittest, lets tests import
// modules next to them, as its discovery does.
func pythonEnv(t *checkout, tests []string) map[string]string {
	env := map[string]string{"PYTHONDONTWRITEBYTECODE": "1"}
	var dirs []string
	for _, f := range tests {
		if dir := path.Dir(f); dir != "." && !t.has(path.Join(dir, "__init__.py")) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) > 0 {
		env["PYTHONPATH"] = strings.Join(dirs, ":")
	}
	return env
}

// pythonSource is the directory of packages that cannot be imported until they are installed.
const pythonSource = "src"

// sourceOf returns the directory that a Python command needs on its path unless its packages are
// installed, or "" if there is none.
func sourceOf(t *checkout) string {
	if slices.ContainsFunc(t.files, func(f string) bool { return strings.HasPrefix(f, pythonSource+"/") && strings.HasSuffix(f, ".py") }) {
		return pythonSource
	}
	return ""
}

// pythonLint runs the best installed linter.
func pythonLint() Invocation {
	env := map[string]string{"NO_COLOR": "1", "PYTHONPYCACHEPREFIX": "/tmp/rgpt-pycache"}
	compile := Invocation{
		Args:   []string{"python3", "-m", "compileall", "-q", "-x", `(^|/)(node_modules|\.?venv|vendor|\.git|\.tox|\.rgpt-verify|testdata|fixtures)/`, "."},
		Env:    env,
		Format: output.FormatExitCode,
	}
	flake8 := Invocation{
		Probe: []string{"flake8", "--version"}, Instead: &compile,
		Args: []string{"flake8", "--extend-exclude=node_modules,venv,.venv,vendor,.rgpt-verify", "."}, Env: env, Format: output.FormatExitCode,
	}
	return Invocation{
		Probe: []string{"ruff", "--version"}, Instead: &flake8,
		Args: []string{"ruff", "check", "--no-cache", "--output-format=concise", "."}, Env: env, Format: output.FormatExitCode,
	}
}

// unittestCanary appends a module with one test to the list of modules, which unittest runs in
// order.
func unittestCanary(root *os.Root, inv Invocation, secret string) (Invocation, error) {
	module, test := CanaryName+secret[:8], "test_"+secret[8:]
	if err := MakeScratch(root); err != nil {
		return inv, err
	}
	source := "import unittest\n\n\nclass Last(unittest.TestCase):\n    def " + test + "(self):\n        pass\n"
	if err := root.WriteFile(path.Join(output.ScratchDir, module+".py"), []byte(source), 0o644); err != nil {
		return inv, err
	}
	inv.Args = append(slices.Clone(inv.Args), module)
	inv.Env = WithEnv(inv.Env, map[string]string{"PYTHONPATH": strings.TrimSuffix(output.ScratchDir+":"+inv.Env["PYTHONPATH"], ":")})
	inv.Ended = func(f *Finished, _ output.Paths) {
		seen := false
		f.Parsed.Cases = slices.DeleteFunc(f.Parsed.Cases, func(c output.Case) bool {
			canary := strings.HasSuffix(c.Test, "."+test)
			seen = seen || canary && c.Status == contract.TestPassed
			return canary
		})
		if f.Result.OK() && !seen && !f.Result.StderrTruncated {
			f.DropUnseen(output.Error, "", unseenMessage(f, "the sentinel test, which should run last, did not run", pythonExits), anyCase)
		}
	}
	return inv, nil
}

const pythonExits = "os._exit, sys.exit, os.exec and atexit"
