package verify

import (
	"context"
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

// planPython tests with what the project is set up for and lints with what is
// installed, which is found out in the sandbox at the time of the run. Which tests
// there are, pytest's own configuration decides; files are dealt to shards only
// where the settings ask for several.
func planPython(t *tree, p planning) []job {
	sources := t.match(func(f string) bool { return strings.HasSuffix(f, ".py") && !inOutput(f) && !inFixture(path.Dir(f)) })
	tests := slices.DeleteFunc(slices.Clone(sources), func(f string) bool { return !pythonTestName.MatchString(f) || !isPythonTest(t, f) })
	marked := slices.ContainsFunc(pythonMarkers, t.has)
	if !marked && len(tests) == 0 && !hasPythonAtTop(sources) {
		return nil
	}
	var jobs []job
	switch {
	case len(tests) > 0 && p.shards > 1:
		var all [][]invocation
		for n, shard := range roundRobin(tests, p.shards) {
			all = append(all, []invocation{pythonTests(t, shard, shard, n+1)})
		}
		jobs = append(jobs, shardJobs("python", "Python tests", all)...)
	case len(tests) > 0 || configuresPytest(t):
		jobs = append(jobs, shardJobs("python", "Python tests", [][]invocation{{pythonTests(t, nil, tests, 1)}})...)
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

// configuresPytest reports whether a project says how pytest is to be run.
func configuresPytest(t *tree) bool {
	for file, section := range pytestSections {
		if t.has(file) && (section == nil || section.MatchString(t.read(file))) {
			return true
		}
	}
	return false
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

// pythonTests runs pytest as the project does, or on some files; where there is no
// pytest, unittest on the files that look like tests.
func pythonTests(t *tree, files, known []string, shard int) invocation {
	run := pytest(t, files, known, shard)
	run.probe = []string{"python3", "-c", pythonHas, "pytest"}
	other := unittest(t, known)
	run.instead = &other
	return run
}

// pytest adds to the project's own options only what makes a report, and takes the
// place of none: xunit1 names the file and line of each case.
func pytest(t *tree, files, known []string, shard int) invocation {
	report := scratch("pytest", "", shard) + ".xml"
	args := []string{"python3", "-m", "pytest", "--junitxml=" + report, "-o", "junit_family=xunit1"}
	run := invocation{
		args: append(args, files...), env: pythonEnv(t, nil), source: sourceOf(t),
		format: FormatJUnit, reports: []string{report}, orText: true, runner: true, printed: pytestPrinted,
		ended: mustReport(pythonExits),
	}
	run.again = func(failed []testCase) invocation {
		if narrow := caseFiles(failed, known); len(narrow) > 0 {
			return pytest(t, narrow, narrow, shard)
		}
		return pytest(t, files, known, shard)
	}
	run.only = func(tests []pin.Added) (invocation, []pin.Added) {
		covered, has := inFiles(tests, known)
		narrow := pytest(t, has, has, shard)
		// A file that cannot be imported must not keep the tests of others from running.
		narrow.args = append(narrow.args, "--continue-on-collection-errors")
		return narrow, covered
	}
	return run
}

// pytestPrinted is what pytest says at its end. Its report has a test that passed and
// whose teardown then failed once, as failed; pytest counts it as both. What it
// says may be kept quiet by the project's options: then the report counts.
func pytestPrinted(stdout, _ []byte) *contract.TestSummary {
	all := lines(stdout)
	for n := len(all) - 1; n >= max(0, len(all)-200); n-- {
		if m := pytestSum.FindStringSubmatch(strings.TrimSpace(clean(bound(all[n], 4096)))); m != nil {
			sum := pytestWords(m[1])
			return &sum
		}
	}
	return nil
}

func unittest(t *tree, files []string) invocation {
	run := invocation{
		args: append([]string{"python3", "-m", "unittest", "-v"}, files...),
		env:  pythonEnv(t, files), source: sourceOf(t), format: formatUnittest, runner: true, canary: unittestCanary,
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

// pythonEnv keeps Python from writing into the checkout and, for unittest, lets
// tests import what lies beside them, as its discovery does.
func pythonEnv(t *tree, tests []string) map[string]string {
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

// pythonSource is where packages lie that are imported only once they are installed.
const pythonSource = "src"

// pythonInstalled ends with 0 where each package that src holds is imported from the
// work tree as things are: by an editable installation. Any other copy of it would be
// tested in place of the change.
const pythonInstalled = `import os, sys
sys.path = [p for p in sys.path if p not in ("", ".")]
import importlib.util as u
src = os.path.realpath(sys.argv[1])
def here(name):
    try:
        spec = u.find_spec(name)
    except (ImportError, ValueError):
        return False
    places = list(spec.submodule_search_locations or []) + [spec.origin or ""] if spec else []
    return any(os.path.realpath(p).startswith(src + os.sep) for p in places)
found = []
for e in os.scandir(src):
    if e.is_dir() and os.path.exists(os.path.join(e.path, "__init__.py")): found.append(e.name)
    elif e.is_file() and e.name.endswith(".py"): found.append(e.name[:-3])
sys.exit(not (found and all(here(n) for n in found if n.isidentifier())))`

// sourceOf is the folder that a Python command needs on its path unless its packages
// are installed from there, "" for none.
func sourceOf(t *tree) string {
	if slices.ContainsFunc(t.files, func(f string) bool { return strings.HasPrefix(f, pythonSource+"/") && strings.HasSuffix(f, ".py") }) {
		return pythonSource
	}
	return ""
}

// withSource puts the sources on the path of a Python command where they are not
// installed from the checkout.
func (r *run) withSource(ctx context.Context, inv invocation) (invocation, error) {
	if inv.source == "" {
		return inv, nil
	}
	if r.installed == nil {
		result, err := r.command(ctx, invocation{args: []string{"python3", "-c", pythonInstalled, inv.source}, dir: inv.dir, env: inv.env}, nil)
		if err != nil {
			return inv, err
		}
		ok := result.OK()
		r.installed = &ok
	}
	if !*r.installed {
		inv.env = withEnv(inv.env, map[string]string{"PYTHONPATH": strings.TrimSuffix(inv.source+":"+inv.env["PYTHONPATH"], ":")})
	}
	return inv, nil
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
