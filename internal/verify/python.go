package verify

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

var pythonMarkers = []string{"pyproject.toml", "setup.cfg", "setup.py", "pytest.ini", "tox.ini", "requirements.txt", "conftest.py"}

// pythonTestName is what pytest and unittest both take for tests; pytest's
// other habit, x_test.py, unittest runs when it is given the file.
var pythonTestName = regexp.MustCompile(`(^|/)(test_[^/]*|[^/]*_test|tests?)\.py$`)

// pythonHas answers whether a package is installed. The checkout itself is
// taken from the path first, or a file pytest.py in it would count.
const pythonHas = `import sys
sys.path = [p for p in sys.path if p not in ("", ".")]
import importlib.util as u
sys.exit(u.find_spec(sys.argv[1]) is None)`

// planPython tests by files and lints with what is installed, which is found
// out in the sandbox at the time of the run.
func planPython(t *tree, p planning) []job {
	sources := t.match(func(f string) bool { return strings.HasSuffix(f, ".py") && !inOutput(f) && !inFixture(path.Dir(f)) })
	tests := slices.DeleteFunc(slices.Clone(sources), func(f string) bool { return !pythonTestName.MatchString(f) || !isPythonTest(t, f) })
	marked := slices.ContainsFunc(pythonMarkers, t.has)
	if !marked && len(tests) == 0 && !hasPythonAtTop(sources) {
		return nil
	}
	var jobs []job
	if len(tests) > 0 {
		var all [][]invocation
		for n, shard := range roundRobin(tests, p.shards) {
			all = append(all, []invocation{pythonTests(t, shard, n+1)})
		}
		jobs = append(jobs, shardJobs("python", "Python tests", all)...)
	}
	if len(sources) > 0 {
		jobs = append(jobs, simpleJob(contract.CategoryLint, "python", "ruff, flake8 or compileall", pythonLint()))
	}
	return jobs
}

// hasPythonAtTop: a script somewhere in a repository of another language does
// not make it a Python project.
func hasPythonAtTop(sources []string) bool {
	return slices.ContainsFunc(sources, func(f string) bool { return !strings.Contains(f, "/") })
}

// tests.py and test.py are tests in Django's habit only if they say so.
func isPythonTest(t *tree, f string) bool {
	base := path.Base(f)
	if base != "test.py" && base != "tests.py" {
		return true
	}
	text := t.read(f)
	return strings.Contains(text, "unittest") || strings.Contains(text, "pytest") || strings.Contains(text, "def test_")
}

// pythonTests runs files with pytest, or with unittest where there is none.
func pythonTests(t *tree, files []string, shard int) invocation {
	run := pytest(t, files, shard)
	run.probe = []string{"python3", "-c", pythonHas, "pytest"}
	other := unittest(t, files)
	run.instead = &other
	return run
}

func pytest(t *tree, files []string, shard int) invocation {
	report := scratch("pytest", "", shard) + ".xml"
	// xunit1 names the file and line of each case.
	args := []string{"python3", "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", "--junitxml=" + report, "-o", "junit_family=xunit1"}
	run := invocation{
		args: append(args, files...), env: pythonEnv(t, nil),
		format: FormatJUnit, reports: []string{report},
	}
	run.again = func(failed []testCase) invocation {
		if known := caseFiles(failed, files); len(known) > 0 {
			return pytest(t, known, shard)
		}
		return pytest(t, files, shard)
	}
	run.only = func(tests []pin.Added) (invocation, []pin.Added) {
		covered, has := inFiles(tests, files)
		narrow := pytest(t, has, shard)
		// A file that cannot be imported must not keep the tests of others from running.
		narrow.args = append(narrow.args, "--continue-on-collection-errors")
		return narrow, covered
	}
	return run
}

func unittest(t *tree, files []string) invocation {
	run := invocation{
		args: append([]string{"python3", "-m", "unittest", "-v"}, files...),
		env:  pythonEnv(t, files), format: formatUnittest,
		audit: func(root *os.Root, _ site, p *parsed) { needPytest(root, files, p) },
	}
	run.only = func(tests []pin.Added) (invocation, []pin.Added) {
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

// needPytest finds files that unittest cannot run or, worse, passes over in
// silence: functions outside of classes are no tests to it.
func needPytest(root *os.Root, files []string, p *parsed) {
	for _, f := range files {
		text, _ := readRegular(root, f, maxSource)
		if importsPytest.Match(text) || barePythonTest.Match(text) && !importsUnittest.Match(text) {
			p.problems = append(p.problems, problem{
				level: levelError, path: f, rule: ruleNoTests,
				message: "the tests of this file are written for pytest, and pytest is not installed where checks run: they did not run",
			})
		}
	}
}

// pythonEnv lets tests import what they would find after an installation (src)
// and, as unittest's discovery does, what lies beside them.
func pythonEnv(t *tree, tests []string) map[string]string {
	var dirs []string
	if slices.ContainsFunc(t.files, func(f string) bool { return strings.HasPrefix(f, "src/") && strings.HasSuffix(f, ".py") }) {
		dirs = append(dirs, "src")
	}
	for _, f := range tests {
		if dir := path.Dir(f); dir != "." && !t.has(path.Join(dir, "__init__.py")) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	env := map[string]string{"PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1", "PY_COLORS": "0"}
	if len(dirs) > 0 {
		env["PYTHONPATH"] = strings.Join(dirs, ":")
	}
	return env
}

// pythonLint takes the best linter that is installed.
func pythonLint() invocation {
	env := map[string]string{"NO_COLOR": "1", "PYTHONPYCACHEPREFIX": "/tmp/rgpt-pycache"}
	compile := invocation{
		args:   []string{"python3", "-m", "compileall", "-q", "-x", `(^|/)(node_modules|\.?venv|vendor|\.git|\.tox|\.rgpt-verify|testdata|fixtures)/`, "."},
		env:    env,
		format: FormatExitCode,
	}
	flake8 := invocation{
		probe: []string{"flake8", "--version"}, instead: &compile,
		args: []string{"flake8", "--extend-exclude=node_modules,venv,.venv,vendor,.rgpt-verify", "."}, env: env, format: FormatExitCode,
	}
	return invocation{
		probe: []string{"ruff", "--version"}, instead: &flake8,
		args: []string{"ruff", "check", "--no-cache", "--output-format=concise", "."}, env: env, format: FormatExitCode,
	}
}
