package verify

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

const pythonTests1 = `import sys
import unittest


class TestA(unittest.TestCase):
    def test_ok(self):
        sys.stderr.write("test_fake (tests.test_a.TestA.test_fake) ... ok\n")

    def test_bad(self):
        """It says what it does."""
        self.assertEqual(1, 2)

    @unittest.skip("later")
    def test_skip(self):
        pass

    def test_error(self):
        raise ValueError("strange")

    @unittest.expectedFailure
    def test_expected(self):
        self.fail()
`

// without runs everything but commands that contain a word: those fail, as if
// the tool were not installed.
type without struct {
	plainRunner
	words []string
}

func (w without) Run(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	for _, word := range w.words {
		if strings.Contains(strings.Join(c.Args, " "), word) {
			return sandbox.Result{ExitCode: 1}, nil
		}
	}
	return w.plainRunner.Run(ctx, c)
}

func TestPythonIsPlannedByFiles(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{
		"pyproject.toml": "", "src/m/__init__.py": "", "tests/test_a.py": "", "tests/test_b.py": "", "tests/helper.py": "",
		"venv/lib/test_c.py": "", "tests/conftest.py": "",
	})
	s := detected()
	s.Shards = 8
	p := plan(t, root, s)
	require.Equal(t, [][]string{{"test-python-1", "test-python-2"}, {"lint-python"}}, ids(p))
	require.Contains(t, p.Command("test-python-2"), " tests/test_b.py")
	require.NotContains(t, p.Command("test-python-2"), "test_a.py")
}

func TestUnittestResultsBecomeCasesAndFindings(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	root := checkout(t, map[string]string{"tests/test_a.py": pythonTests1, "tests/test_b.py": "import nowhere\n", "tests/helper.py": "X = 1\n"})
	o := runWith(t, root, "test-python-1", Env{Runner: without{words: []string{"pytest"}}, Settings: detected()})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeTestsFailed, o.Code)
	require.Equal(t, 3, o.Summary.Failed, "%+v\n%s", o.Cases, o.Log)
	require.Equal(t, 1, o.Summary.Skipped)
	bad := caseNamed(t, o, "test_a.TestA.test_bad")
	require.Equal(t, "tests/test_a.py:11", bad.Location)
	require.Equal(t, "AssertionError: 1 != 2", bad.Message)
	require.Equal(t, "tests/test_a.py:18", caseNamed(t, o, "test_error").Location)
	require.Equal(t, "tests/test_b.py:1", caseNamed(t, o, "test_b").Location)
	require.Equal(t, "ModuleNotFoundError: No module named 'nowhere'", caseNamed(t, o, "test_b").Message)
	require.Equal(t, contract.TestPassed, caseNamed(t, o, "test_expected").Status)
}

func TestPytestResultsBecomeCasesAndFindings(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	if exec.Command("python3", "-c", "import pytest").Run() != nil {
		t.Skip("pytest is not installed")
	}
	root := checkout(t, map[string]string{
		"pyproject.toml": "[project]\nname = 'm'\n", "src/m/__init__.py": "def one():\n    return 1\n",
		"tests/test_a.py": "import pytest\nfrom m import one\n\n\ndef test_one():\n    assert one() == 1\n\n\ndef test_two():\n    assert one() == 2\n\n\n@pytest.mark.skip(reason='later')\ndef test_later():\n    pass\n\n\ndef test_deep():\n    check()\n\n\ndef check():\n    raise KeyError('deep')\n",
		"tests/test_b.py": "import nowhere\n",
	})
	o := runCheck(t, root, "test-python-1", detected())
	require.False(t, o.OK)
	require.Equal(t, 1, o.Summary.Failed, "a file that cannot be imported keeps pytest from running: %+v\n%s", o.Cases, o.Log)
	require.Equal(t, "tests/test_b.py:1", o.Findings[0].Location)
	require.Contains(t, o.Findings[0].Message, "No module named 'nowhere'")

	root = checkout(t, map[string]string{
		"tests/test_a.py": "import pytest\n\n\ndef test_one():\n    assert 1 == 1\n\n\ndef test_two():\n    assert 1 == 2\n\n\n@pytest.mark.skip(reason='later')\ndef test_later():\n    pass\n\n\ndef test_deep():\n    check()\n\n\ndef check():\n    raise KeyError('deep')\n",
	})
	o = runCheck(t, root, "test-python-1", detected())
	require.Equal(t, contract.TestSummary{Passed: 1, Failed: 2, Skipped: 1, DurationMS: o.Summary.DurationMS}, o.Summary)
	require.Equal(t, "tests/test_a.py:9", caseNamed(t, o, "test_two").Location)
	require.Contains(t, caseNamed(t, o, "test_two").Message, "assert 1 == 2")
	require.Equal(t, "tests/test_a.py:22", caseNamed(t, o, "test_deep").Location)
	require.Equal(t, "later", caseNamed(t, o, "test_later").Message)
}

func TestAFlakyPythonTestRunsAgainWithItsFile(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	if exec.Command("python3", "-c", "import pytest").Run() != nil {
		t.Skip("pytest is not installed")
	}
	root := checkout(t, map[string]string{
		"tests/test_a.py": "import os\n\n\ndef test_flaky():\n    if not os.path.exists('ran'):\n        open('ran', 'w').close()\n        assert False\n",
		"tests/test_b.py": "def test_b():\n    pass\n",
	})
	s := detected()
	s.RerunFailed = 3
	o := runCheck(t, root, "test-python-1", s)
	require.True(t, o.OK, "%+v\n%s", o, o.Log)
	require.Equal(t, 1, o.Summary.Flaky)
	require.Equal(t, 1, o.Summary.Passed)
	require.Equal(t, 1, strings.Count(string(o.Log), " tests/test_a.py\n"), "%s", o.Log)
}

func TestPythonSyntaxErrorsAreLintFindings(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	root := checkout(t, map[string]string{"main.py": "def f():\n    return (\n", "lib/b.py": "if True:\nprint(1)\n", "ok.py": "x = 1\n"})
	o := runWith(t, root, "lint-python", Env{Runner: without{words: []string{"ruff", "flake8"}}, Settings: detected()})
	require.False(t, o.OK)
	require.Equal(t, contract.CodeCheckFailed, o.Code)
	require.Len(t, o.Findings, 2, "%v\n%s", located(o), o.Log)
	require.Equal(t, "lib/b.py:2", o.Findings[0].Location)
	require.Equal(t, "main.py:2", o.Findings[1].Location)
	require.Equal(t, contract.SeverityMedium, o.Findings[0].Severity)
	require.Contains(t, o.Findings[1].Message, "SyntaxError: '(' was never closed")
}

func TestTheBestInstalledPythonLinterIsTaken(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"main.py": ""})
	runner := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
		switch strings.Join(c.Args, " ") {
		case "ruff --version":
			return sandbox.Result{ExitCode: 127}, nil
		case "flake8 --version":
			return sandbox.Result{}, nil
		}
		return sandbox.Result{ExitCode: 1, Stdout: []byte("./main.py:3:1: F401 'os' imported but unused\n")}, nil
	}}
	o := runWith(t, root, "lint-python", Env{Runner: runner, Settings: detected()})
	require.Len(t, runner.commands, 3)
	require.Equal(t, []string{"medium main.py:3: 'os' imported but unused"}, located(o))
	require.Equal(t, "F401", o.Findings[0].Rule)
}

func TestPytestRunsByTheProjectsOwnConfiguration(t *testing.T) {
	t.Parallel()
	p := plan(t, checkout(t, map[string]string{"pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = [\"checks\"]\n", "checks/look_a.py": "", "a.py": ""}), detected())
	require.Equal(t, "python3 -m pytest --junitxml=.rgpt-verify/pytest-root-1.xml -o junit_family=xunit1", p.Command("test-python-1"))
}

func TestPytestCountsAsItPrints(t *testing.T) {
	t.Parallel()
	root := checkout(t, map[string]string{"test_a.py": ""})
	runner := &cannedRunner{answer: func(_ int, c sandbox.Command) (sandbox.Result, error) {
		if !strings.Contains(strings.Join(c.Args, " "), "--junitxml") {
			return sandbox.Result{}, nil
		}
		return sandbox.Result{ExitCode: 1, Stdout: []byte(recorded(t, "runners/pytest-cont.txt"))}, os.WriteFile(filepath.Join(root, reportOf(c)), []byte(recorded(t, "junit/pytest-errors.xml")), 0o600)
	}}
	o := runWith(t, root, "test-python-1", Env{Runner: runner, Settings: detected()})
	require.Equal(t, contract.TestSummary{Passed: 6, Failed: 8, Skipped: 2}, withoutTime(o.Summary), "5 passed, 1 xpassed, 4 failed, 4 errors, 1 skipped, 1 xfailed")
}

func TestTheSourcesOfTheWorkTreeAreTestedWhateverIsInstalled(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	files := map[string]string{"src/rgptsample/__init__.py": "where = 'work tree'\n", "tests/test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_where(self):\n        import rgptsample\n        self.assertEqual(rgptsample.where, 'work tree')\n"}
	for name, c := range map[string]struct{ pth, copied string }{
		"nothing is":       {"", ""},
		"a copy is":        {"", "where = 'a copy'\n"},
		"the work tree is": {"src", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := checkout(t, files)
			site := checkout(t, nil)
			if c.copied != "" {
				require.NoError(t, os.MkdirAll(filepath.Join(site, "rgptsample"), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(site, "rgptsample/__init__.py"), []byte(c.copied), 0o600))
			}
			if c.pth != "" {
				require.NoError(t, os.WriteFile(filepath.Join(site, "x.pth"), []byte(filepath.Join(root, c.pth)+"\n"), 0o600))
			}
			start := "import site, sys\nsite.addsitedir(" + strconv.Quote(site) + ")\n"
			base := checkout(t, nil)
			version, err := exec.Command("python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").Output()
			require.NoError(t, err)
			user := filepath.Join(base, "lib", strings.TrimSpace(string(version)), "site-packages")
			require.NoError(t, os.MkdirAll(user, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(user, "usercustomize.py"), []byte(start), 0o600))
			o := runWith(t, root, "test-python-1", Env{Runner: without{words: []string{"pytest"}}, Settings: detected(), Vars: map[string]string{"PYTHONUSERBASE": base}})
			require.Contains(t, string(o.Log), "python3 -m unittest")
			require.True(t, o.OK, "%s", o.Log)
			require.Equal(t, 1, o.Summary.Passed)
		})
	}
}
