package draw

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/tester/standalone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAGoalDoesNotSayWhereItsSolutionIs(t *testing.T) {
	t.Parallel()
	g := goalOf("Fix the parser (#123)\n\nIt crashes, see https://example.com/pull/9 and o/n#7.\nBroken since 0123abcd.\n\n\n\nFixes #12\nSigned-off-by: A <a@example.com>\n")
	require.Equal(t, "Fix the parser", g.Title)
	require.NotRegexp(t, `#|https|0123abcd|Signed`, g.Description)
	require.Contains(t, g.Description, "It crashes,")
	require.Equal(t, "Expire items", goalOf("Fix #292, fix #205: Expire items").Title)
	require.True(t, fixes("Avoid a crash"))
	require.False(t, fixes("Add a feature"))
}

func TestALeakIsNamed(t *testing.T) {
	t.Parallel()
	task := eval.Task{
		Goal:       eval.Goal{Title: "Fix it", Description: "Nothing is said."},
		Solution:   "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+    return compute(value)\n",
		Tests:      eval.Tests{Patch: "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-x\n+y\n"},
		FailToPass: []string{"tests.test_a.test_compute_value"},
	}
	require.Empty(t, Leak(task))
	require.Empty(t, leakedTest(task))
	task.Goal.Description = "Just write return compute(value) there."
	require.Contains(t, Leak(task), "quotes the solution")
	task.Goal.Description = "See tests/test_a.py."
	require.Contains(t, Leak(task), "names the hidden test file")
	task.Goal.Description = "test_compute_value fails."
	require.Equal(t, "tests.test_a.test_compute_value", leakedTest(task))
}

func TestARepositoryHasAShortName(t *testing.T) {
	t.Parallel()
	for repo, want := range map[string]string{
		"pallets/click": "pallets-click", "https://example.com/o/n.git": "o-n", "/srv/repos/my app/": "repos-my-app", "git@host:o/n.git": "o-n",
	} {
		require.Equal(t, want, name(repo))
	}
}

func TestTestsThatDoNotAlwaysPassAreInNoList(t *testing.T) {
	t.Parallel()
	var task eval.Task
	require.Empty(t, named(&task,
		[]string{"at[10:01]", "flaky", "kept"}, []string{"at[10:02]", "broken", "fixed", "flaky", "kept"}, []string{"at[10:03]", "fixed", "kept"}))
	require.Equal(t, []string{"fixed"}, task.FailToPass)
	require.Equal(t, []string{"kept"}, task.PassToPass)
	require.Contains(t, named(&task, []string{"kept"}, []string{"at[10:02]", "kept"}, []string{"at[10:03]", "kept"}), "at[10:02]")
	task.Goal.Description = "It breaks test_of_the_parser."
	require.Contains(t, named(&task, nil, []string{"a.test_of_the_parser"}, []string{"a.test_of_the_parser"}), "names the hidden test")
}

func TestACommitWithoutPassingTestsIsExplained(t *testing.T) {
	t.Parallel()
	test := contract.CheckResult{Check: contract.Check{ID: "test-go-1", Category: contract.CategoryTest}, Message: "go.mod file not found\nmore"}
	pinned := contract.CheckResult{Check: contract.Check{ID: contract.CheckPinnedTests, Category: contract.CategoryTest}, Major: 1, Message: "1 test is missing"}
	require.Equal(t, ": test-go-1: go.mod file not found", failure(standalone.Report{Checks: []contract.CheckResult{test}}))
	require.Empty(t, failure(standalone.Report{}))
	require.Empty(t, weakens(standalone.Report{Checks: []contract.CheckResult{test}}))
	require.Contains(t, weakens(standalone.Report{Checks: []contract.CheckResult{test, pinned}}), "1 test is missing")
	require.Contains(t, unreleasable(standalone.Report{Checks: []contract.CheckResult{test}}), "test-go-1: go.mod file not found")
	lost := contract.CheckResult{Check: test.Check, OK: true, Major: 1, Message: "2 tests from the base commit are missing"}
	require.Contains(t, unreleasable(standalone.Report{Checks: []contract.CheckResult{lost}}), "are missing")
	require.Empty(t, unreleasable(standalone.Report{Checks: []contract.CheckResult{{Check: test.Check, OK: true, Medium: 1}}}))
}
