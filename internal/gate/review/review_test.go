package review_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/review"
)

var edited = gatetest.Between(
	gatetest.Tree{"a.go": "package a\n", "gone.go": "package a\n// x\n", "kept.go": "package a\n"},
	gatetest.Tree{"a.go": "package a\n\nvar X = 1\n", "kept.go": "package a\n"},
)

func found(file string, line int) review.Finding {
	return review.Finding{Item: "correctness", Severity: "major", File: file, Line: line, Problem: "X is wrong.", Action: "Set it to 2."}
}

func of(t *testing.T, r review.Response, before review.Before) []contract.ReviewFinding {
	t.Helper()
	out, _, err := review.Of(t.Context(), edited, r, before)
	require.NoError(t, err)
	return out
}

func TestAFindingHasAPlaceOnlyIfTheChangeOrItsTreeHasIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		line int
		path string
		at   int
	}{
		{"a.go", 3, "a.go", 3}, {"./a.go", 1, "a.go", 1}, {"a.go", 4, "a.go", 0}, {"a.go", -1, "a.go", 0},
		{"kept.go", 1, "kept.go", 1}, {"gone.go", 1, "gone.go", 0}, {"none.go", 1, "", 0}, {"../a.go", 1, "", 0}, {"/etc/passwd", 1, "", 0}, {"", 3, "", 0},
	} {
		got := of(t, review.Response{Findings: []review.Finding{found(c.file, c.line)}}, review.Before{})
		require.Len(t, got, 1)
		require.Equal(t, []any{c.path, c.at, "R1"}, []any{got[0].Path, got[0].Line, got[0].ID}, c.file)
	}
}

func TestAReviewHasABoundedNumberOfFindingsAndSizes(t *testing.T) {
	t.Parallel()
	var r review.Response
	for i := range 50 {
		f := found("a.go", 1)
		f.Problem, f.Action = fmt.Sprint(i, strings.Repeat(" x", 5000)), "line\nline\x1b[31m\u202e"
		if f.Severity = "minor"; i >= 40 {
			f.Severity = "major"
		}
		r.Findings = append(r.Findings, f)
	}
	r.Findings = append(r.Findings, review.Finding{Item: "labels", Severity: "major", Problem: "x"}, review.Finding{Item: "goal", Severity: "major", Problem: " \n"})
	got, omitted, err := review.Of(t.Context(), edited, r, review.Before{})
	require.NoError(t, err)
	require.Len(t, got, review.MaxFindings)
	require.Equal(t, 22, omitted)
	require.Equal(t, contract.SeverityMajor, got[9].Severity, "the major ones stay")
	require.LessOrEqual(t, len(got[0].What), review.MaxText+64)
	require.Equal(t, "line line[31m", got[0].Action)
}

func TestAFindingStoredOrShownHasNoSecret(t *testing.T) {
	t.Parallel()
	secret := "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	f := found("a.go", 1)
	f.Problem = "It prints " + secret
	require.NotContains(t, of(t, review.Response{Findings: []review.Finding{f}}, review.Before{})[0].What, secret)
}

func TestAResponseThatIsNotAReviewIsRefused(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`{"summary": "s", "findings": [], "earlier": []}`: true,
		`{"summary": "s", "findings": [{"item": "goal", "severity": "major", "file": "a.go", "line": 1, "problem": "p", "action": "a"}], "earlier": []}`:    true,
		`{"summary": "s", "findings": [{"item": "goal", "severity": "critical", "file": "a.go", "line": 1, "problem": "p", "action": "a"}], "earlier": []}`: false,
		`{"summary": "s", "findings": [{"item": "secrets", "severity": "major", "file": "a.go", "line": 1, "problem": "p", "action": "a"}], "earlier": []}`: false,
		`{"summary": "s", "findings": [], "earlier": [], "decision": "allow"}`:                                                                              false,
		`{"summary": "s", "findings": [], "earlier": [{"id": "R1", "state": "waived", "why": ""}]}`:                                                         false,
		`approved`: false, ``: false, `[]`: false,
	} {
		_, err := review.Parse(review.Schema(), text)
		require.Equal(t, ok, err == nil, "%s: %v", text, err)
	}
}

func TestAnEarlierFindingIsGoneOnlyIfTheReviewerSaysSo(t *testing.T) {
	t.Parallel()
	before := review.Before{Numbered: 4, Answers: map[string]string{"R2": "not fixed: it is right", "R3": "fixed: done"}}
	for i := range 4 {
		before.Findings = append(before.Findings, contract.ReviewFinding{ID: fmt.Sprint("R", i+1), Item: contract.ReviewGoal, Severity: contract.SeverityMajor, What: "w", Path: "a.go", Line: 3})
	}
	got := of(t, review.Response{
		Findings: []review.Finding{found("a.go", 2)},
		Earlier:  []review.Earlier{{ID: "R1", State: "accepted"}, {ID: "R2", State: "accepted"}, {ID: "R3", State: "fixed"}},
	}, before)
	var states []string
	for _, f := range got {
		states = append(states, f.ID+" "+f.State)
	}
	require.Equal(t, []string{"R1 remains", "R2 accepted", "R3 fixed", "R4 remains", "R5 "}, states, "what nobody answered cannot be accepted")
	r := contract.ReviewRecord{Findings: got}
	require.Equal(t, 3, r.Count(contract.SeverityMajor))
	require.Equal(t, 5, review.Highest(got))
	messages := review.Findings(r)
	require.Contains(t, messages[0].Message, "The agent's answer: none.")
	for _, f := range review.Unreviewed(before) {
		require.True(t, f.Open())
	}
}

// Whatever a response says, it only adds findings of the guard review.
func TestAResponseCanOnlyAddFindings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		raw := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) review.Finding {
			return review.Finding{
				Item: rapid.SampledFrom([]string{"goal", "tests", "secrets", "labels", ""}).Draw(t, "item"), Severity: rapid.SampledFrom([]string{"major", "minor", "medium", ""}).Draw(t, "severity"),
				File: rapid.SampledFrom([]string{"a.go", "gone.go", "x", "../../etc/passwd"}).Draw(t, "file"), Line: rapid.Int().Draw(t, "line"), Problem: rapid.String().Draw(t, "problem"),
			}
		}), 0, 40).Draw(rt, "findings")
		got, _, err := review.Of(rt.Context(), edited, review.Response{Findings: raw}, review.Before{})
		require.NoError(rt, err)
		for _, f := range review.Findings(contract.ReviewRecord{Findings: got}) {
			require.Equal(rt, contract.GuardReview, f.Guard)
			require.Contains(rt, []string{"", "a.go", "gone.go"}, f.Path)
			require.LessOrEqual(rt, f.Line, 3)
			require.GreaterOrEqual(rt, f.Line, 0)
		}
	})
}

func TestAReviewThatFailedOrSawOnlyAPartIsAFinding(t *testing.T) {
	t.Parallel()
	got := review.Findings(contract.ReviewRecord{Failed: "the model is away", Unshown: []string{"big.go", "b"}})
	require.Equal(t, []string{contract.RuleReviewUnavailable, contract.RuleReviewUnexamined}, []string{got[0].Rule, got[1].Rule})
	require.Contains(t, got[0].Message, "the model is away")
	require.Contains(t, got[1].Message, "2 changed files")
	require.Equal(t, contract.SeverityMajor, review.Missing().Severity)
}

const twoFiles = `diff --git a/a.go b/a.go
index 1..2 100644
--- a/a.go
+++ b/a.go
@@ -1,3 +1,3 @@ func x
 one
-two
+2
 three
@@ -9 +9,2 @@
-nine
+9
+@@ -1 +1 @@ not a header
\ No newline at end of file
diff --git a/b.go b/b.go
new file mode 100644
--- /dev/null
+++ b/b.go
@@ -0,0 +1 @@
+diff --git a/c b/c
`

func TestTheLinesOfADiffHaveTheNumbersOfTheNewVersion(t *testing.T) {
	t.Parallel()
	got := review.Numbered(twoFiles)
	for _, line := range []string{
		"     1  one\n", "       -two\n", "     2 +2\n", "     3  three\n", "     9 +9\n", "    10 +@@ -1 +1 @@ not a header\n", "\\ No newline at end of file\n",
		"     1 +diff --git a/c b/c\n", "+++ b/a.go\n", "@@ -9 +9,2 @@\n",
	} {
		require.Contains(t, got, line)
	}
}

func TestADiffThatIsTooLargeIsCutVisiblyInItsLargeFiles(t *testing.T) {
	t.Parallel()
	whole, cut := review.Fit(twoFiles, len(twoFiles))
	require.Equal(t, twoFiles, whole)
	require.Empty(t, cut)

	large := "diff --git a/z b/z\n@@ -0,0 +1,999 @@\n" + strings.Repeat("+long line\n", 999)
	got, cut := review.Fit(large+twoFiles, 2000)
	require.Equal(t, []string{"z"}, cut)
	require.Equal(t, []string{"z", "a.go", "b.go"}, review.Names(large+twoFiles))
	require.Equal(t, []string{"a/x b/y z"}, review.Names("diff --git a/x b/y z\nrename from x\n"))
	require.True(t, strings.HasSuffix(got, twoFiles), "small files are whole")
	require.Contains(t, got, "[the rest of this file's diff is not shown:")
	require.Less(t, len(got), 2200)
	_, cut = review.Fit(strings.Repeat(large, 3), 10)
	require.Equal(t, []string{"z", "z", "z"}, cut)
}

func TestAnswersAreReadFromTheLinesOfASummary(t *testing.T) {
	t.Parallel()
	summary := "Done.\n\nR1: fixed: X is 2\n- **R2**: not fixed, because\nR3 is next\nR1: again\n* R4 - fixed.\nsee R5: no"
	got := review.Answers(summary)
	require.Equal(t, map[string]string{"R1": "fixed: X is 2", "R2": "not fixed, because", "R4": "fixed."}, got)
	require.Equal(t, []string{"R3", "R5"}, review.Unanswered(summary, []string{"R1", "R3", "R5"}))
	require.Empty(t, review.Unanswered("", nil))
}

func FuzzParse(f *testing.F) {
	f.Add(`{"summary": "s", "findings": [{"item": "goal", "severity": "major", "file": "a.go", "line": 1, "problem": "p", "action": "a"}], "earlier": []}`)
	f.Add(twoFiles)
	f.Fuzz(func(t *testing.T, text string) {
		_ = review.Numbered(text)
		_, _ = review.Fit(text, 20)
		_ = review.Answers(text)
		r, err := review.Parse(review.Schema(), text)
		if err != nil {
			return
		}
		out, _, err := review.Of(t.Context(), edited, r, review.Before{})
		require.NoError(t, err)
		_, err = json.Marshal(out)
		require.NoError(t, err)
	})
}
