package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

func TestTwoStoredRunsAreComparedWhatIsWorseFirst(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	p.fill(t, "divide")
	p.fill(t, "multiply")
	r := p.ok(t, "run", "diff", "1", "2")
	golden(t, "diff.txt", r.out)
	require.Less(t, strings.Index(r.out, "Worse: "), strings.Index(r.out, "Better: "))

	require.Contains(t, p.ok(t, "run", "diff", "run-1", "#1", "--exit-code").out, "Worse: none", "a run is not worse than itself")
	require.Equal(t, exitFailed, p.run(t, "run", "diff", "1", "2", "--exit-code").code)
	require.Contains(t, p.ok(t, "run", "diff", "1@1", "2@1").out, "tester failed")
	require.Equal(t, p.ok(t, "run", "diff", "1@1", "1@1").out, p.ok(t, "run", "diff", "1", "--attempts", "1,1").out)

	var d diff.Diff
	asJSON := p.run(t, "run", "diff", "1", "2", "--json", "--exit-code")
	require.Equal(t, exitFailed, asJSON.code)
	require.NoError(t, json.Unmarshal([]byte(asJSON.out), &d))
	require.Equal(t, diff.KindFailure, d.Regressions[0].Kind)
	require.Equal(t, "multiply", d.Tests.NewFailures[0].Name)
	require.Less(t, strings.Index(asJSON.out, `"regressions"`), strings.Index(asJSON.out, `"plan"`))
}

func TestComparisonsOfWhatIsNotThereExitWith4(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	p.fill(t, "x")
	for _, line := range []string{
		"run diff", "run diff 1", "run diff 1 2 3", "run diff 1 x", "run diff 1 999", "run diff 999 1", "run diff 1 1@2", "run diff 1@0 1", "run diff 1@x 1",
		"run diff 1 --attempts 1", "run diff 1 --attempts 1,2,3", "run diff 1 1 --attempts 1,2", "run diff 1@1 --attempts 1,2", "run diff 1 --attempts 1,2", "run diff 1 --attempts 0,1",
		"run diff 1 1 --phase nonsense", "run diff 1@1 1 --phase releaser", "run diff 1 --attempts x,y",
	} {
		r := p.run(t, strings.Fields(line)...)
		require.Equal(t, exitInput, r.code, "rgpt %s\n%s\n%s", line, r.out, r.errs)
		require.Empty(t, r.out, line)
		require.True(t, strings.HasPrefix(r.errs, "rgpt: "), "%s: %s", line, r.errs)
	}
	require.Contains(t, p.run(t, "run", "diff", "1", "1@2").errs, "no attempt 2 of the tester (attempts recorded: 1)")
}

// compared is a side with something in every part of a comparison.
func compared(run int64, took time.Duration, patch string, cases ...contract.TestCase) diff.Side {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended := began.Add(took)
	tester := store.Execution{ExecutionRef: contract.ExecutionRef{Phase: contract.PhaseTester, Attempt: 1}, StartedAt: began, FinishedAt: &ended}
	check := store.Check{Result: contract.CheckResult{Check: contract.Check{ID: "test-go-1", Category: contract.CategoryTest}, DurationMS: 40}, Cases: cases}
	return diff.Side{
		Ref: diff.Ref{Run: run}, Goal: "Add division", Status: "done", Base: "c0ffeec0ffeec0ffee", Repo: "/r",
		Code: diff.Code{Tree: fmt.Sprintf("beef%d", run), Patch: []byte(patch)}, Tester: &tester, Checks: []store.Check{check}, Phases: []store.Execution{tester},
	}
}

func added(lines ...string) string {
	id := strings.Repeat(fmt.Sprint(len(lines)), 40)
	return fmt.Sprintf("diff --git a/calc.go b/calc.go\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..%s\n--- /dev/null\n+++ b/calc.go\n@@ -0,0 +1,%d @@\n+%s\n",
		id, len(lines), strings.Join(lines, "\n+"))
}

func TestAllPartsOfAComparisonAreShown(t *testing.T) {
	t.Parallel()
	hostile := "Test\x1b[2JX\u202e\n"
	left := compared(41, time.Second, added("package calc", "// one"),
		contract.TestCase{Name: "TestAdd", Status: contract.TestPassed}, contract.TestCase{Name: "TestOld", Status: contract.TestFailed}, contract.TestCase{Name: "TestSub", Status: contract.TestFailed})
	right := compared(42, 5*time.Second, added("package calc", "// two", "\x1b[31mred"),
		contract.TestCase{Name: "TestAdd", Status: contract.TestFlaky}, contract.TestCase{Name: "TestOld", Status: contract.TestFailed}, contract.TestCase{Name: "TestSub", Status: contract.TestPassed})
	for i := range listedPoints + 3 {
		right.Checks[0].Cases = append(right.Checks[0].Cases, contract.TestCase{Name: fmt.Sprintf("%s%02d", hostile, i), Status: contract.TestFailed})
	}
	left.Plan = &contract.Plan{Steps: []contract.Step{{ID: "step-001", Name: "same"}, {ID: "step-002", Name: "old"}, {ID: "step-003", Name: hostile}}}
	right.Plan = &contract.Plan{Steps: []contract.Step{{ID: "step-001", Name: "same"}, {ID: "step-002", Name: "new", RiskLevel: contract.LevelHigh}, {ID: "step-004", Name: "more"}}}
	right.Findings = []store.Finding{{Finding: contract.Finding{Severity: contract.SeverityMedium, Category: contract.CategoryLint, Message: hostile, Location: "calc.go:3"}, CheckID: "lint-go"}}
	right.Heals = []store.HealEvent{{Phase: "tester", ErrorType: "ASSERTION_ERROR", HealAction: "repair"}}
	left.Usage, right.Usage = contract.Usage{Calls: 2, PromptTokens: 100, MicroUSD: 20_000}, contract.Usage{Calls: 3, PromptTokens: 90, CompletionTokens: 60, MicroUSD: 90_000}
	right.Models = []views.ModelUsage{{Agent: contract.AgentBuilder, Provider: "scripted", Model: "m"}}
	right.Notes = []string{"42: a note"}
	var out, errs bytes.Buffer
	a := newApp(nil, &out, &errs)
	a.printDiff(diff.Compare(left, right), true)
	golden(t, "diff_full.txt", out.String())
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\u202e")
}
