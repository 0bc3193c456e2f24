package judge_test

import (
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/judge"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	goleak.VerifyTestMain(m)
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

// commit writes files and commits them on top of base.
func commit(t *testing.T, dir, base string, files map[string]string) string {
	t.Helper()
	if base != "" {
		git(t, dir, "checkout", "-q", base)
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-qm", "Change")
	return git(t, dir, "rev-parse", "HEAD")
}

func TestHiddenTestsDecide(t *testing.T) {
	t.Parallel()
	sandboxtest.Executable(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	git(t, dir, "init", "-q", "-b", "main")
	base := commit(t, dir, "", map[string]string{"answer": "41\n"})
	right := commit(t, dir, base, map[string]string{"answer": "42\n"})
	cheat := commit(t, dir, base, map[string]string{
		"answer": "0\n", "rgpt.yaml": "verification: {test: {command: 'echo fine > report.xml'}}\n", "hidden.sh": "#!/bin/sh\nexit 0\n",
	})
	hidden := commit(t, dir, base, map[string]string{"hidden.sh": `#!/bin/sh
if [ "$(cat answer)" = 42 ]; then body=; else body='<failure message="no"/>'; fi
printf '<testsuite><testcase classname="hidden" name="answer">%s</testcase></testsuite>' "$body" > report.xml
[ -z "$body" ]
`})
	task := eval.Task{
		ID: "answer", Repo: dir, Base: base, Goal: eval.Goal{Title: "Find the answer"}, FailToPass: []string{"hidden.answer"},
		Tests: eval.Tests{Patch: git(t, dir, "diff", "--binary", base, hidden) + "\n", Command: "sh hidden.sh", Format: "junit", Report: "report.xml"},
	}
	j := judge.Judge{Config: config.Default(), DataDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for commit, solved := range map[string]bool{right: true, base: false, cheat: false} {
		v, err := j.Judge(t.Context(), task, dir, commit)
		require.NoError(t, err)
		require.Equal(t, solved, v.Solved, "%+v", v)
		if !solved {
			require.Equal(t, judge.ReasonHiddenTests, v.Reason)
			require.Contains(t, v.Detail, "hidden.answer")
			require.Equal(t, evals.Count{Passed: 0, Total: 1}, v.Tests.FailToPass)
		}
	}
}

func TestTestsAreFoundUnderTheNamesOfPublishedSets(t *testing.T) {
	t.Parallel()
	r := standalone.Report{Checks: []contract.CheckResult{{OK: true}}}
	r.OK = true
	for name, status := range map[string]contract.TestStatus{
		"tests.test_a.TestB.test_c[x-1]": contract.TestPassed, "app.tests.Case.test_d": contract.TestPassed,
		"tests.test_a.test_skipped": contract.TestSkipped, "tests.test_a.test_failed": contract.TestFailed,
	} {
		r.Results = append(r.Results, contract.TestCase{Name: name, Status: status})
	}
	r.Results = append(r.Results, contract.TestCase{Name: "twice", Status: contract.TestPassed}, contract.TestCase{Name: "twice", Status: contract.TestFailed})
	for name, passes := range map[string]bool{
		"tests/test_a.py::TestB::test_c[x-1]": true, "test_d (app.tests.Case)": true, "tests.test_a.TestB.test_c[x-1]": true,
		"tests/test_a.py::test_skipped": false, "tests/test_a.py::test_failed": false, "tests/test_a.py::test_missing": false, "twice": false,
	} {
		require.Equal(t, passes, judge.Of(eval.Task{FailToPass: []string{name}}, r).Solved, name)
	}
	require.Equal(t, judge.ReasonEnvironment, judge.Of(eval.Task{}, standalone.Report{}).Reason)
	require.Equal(t, []string{"app.tests.Case.test_d", "tests.test_a.TestB.test_c[x-1]"}, judge.Passed(r.Results))
}
