package verdict_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
)

// ran is the outcome of a test check, with a finding for each failed or flaky test,
// like those of verification.
func ran(cases ...contract.TestCase) verdict.Recorded {
	r := verdict.Recorded{Result: contract.CheckResult{Check: check("test-go-1", contract.CategoryTest), OK: true}, Cases: cases}
	for _, c := range cases {
		switch c.Status {
		case contract.TestQuarantined: // made by the quarantine
		case contract.TestPassed:
			r.Result.Summary.Passed++
		case contract.TestSkipped:
			r.Result.Summary.Skipped++
		case contract.TestFlaky:
			r.Result.Summary.Flaky++
			r = with(r, finding(contract.SeverityMedium, c.Name, c.Name+" is flaky", ""))
		case contract.TestFailed:
			r.Result.Summary.Failed++
			r.Result.OK, r.Result.Code, r.Result.Message = false, contract.CodeTestsFailed, c.Name+" failed"
			r = with(r, finding(contract.SeverityMajor, c.Name, c.Name+" failed: "+c.Message, c.Location))
		}
	}
	return r
}

func finding(s contract.Severity, rule, message, location string) contract.Finding {
	return contract.Finding{Severity: s, Category: contract.CategoryTest, Rule: rule, Message: message, Location: location}
}

func with(r verdict.Recorded, findings ...contract.Finding) verdict.Recorded {
	for _, f := range findings {
		r.Findings = append(r.Findings, f)
		switch f.Severity {
		case contract.SeverityMajor:
			r.Result.Major++
		case contract.SeverityMedium:
			r.Result.Medium++
		default:
			r.Result.Minor++
		}
	}
	return r
}

func pass(name string) contract.TestCase {
	return contract.TestCase{Name: name, Status: contract.TestPassed}
}
func flaky(name string) contract.TestCase {
	return contract.TestCase{Name: name, Status: contract.TestFlaky}
}
func fail(name string) contract.TestCase {
	return contract.TestCase{Name: name, Status: contract.TestFailed, Message: "wrong", Location: "a_test.go:3"}
}

// red is a check that failed without naming a failed test.
func red(category contract.Category, code contract.Code, findings ...contract.Finding) verdict.Recorded {
	return with(verdict.Recorded{Result: contract.CheckResult{Check: check("x", category), Code: code, Message: "it failed"}}, findings...)
}

func TestOnlyWhatTheBaseDidNotHaveCounts(t *testing.T) {
	t.Parallel()
	broken := finding(contract.SeverityMajor, "", "undefined: x", "a.go:3")
	lint := finding(contract.SeverityMedium, "E501", "line too long", "a.py:3")
	for name, c := range map[string]struct {
		base, now     verdict.Recorded
		ok, knownOnly bool
		major, known  int
		fixed         int
	}{
		"nothing changed":                      {ran(pass("m.A")), ran(pass("m.A")), true, false, 0, 0, 0},
		"a test that failed before":            {ran(pass("m.A"), fail("m.B")), ran(pass("m.A"), fail("m.B")), true, true, 0, 1, 0},
		"and for another reason now":           {ran(fail("m.B")), ran(contract.TestCase{Name: "m.B", Status: contract.TestFailed, Message: "other"}), true, true, 0, 1, 0},
		"a test that passed before":            {ran(pass("m.A"), fail("m.B")), ran(fail("m.A"), fail("m.B")), false, false, 1, 1, 0},
		"a test that is fixed":                 {ran(pass("m.A"), fail("m.B")), ran(pass("m.A"), pass("m.B")), true, false, 0, 0, 1},
		"one fixed, one broken":                {ran(pass("m.A"), fail("m.B")), ran(fail("m.A"), pass("m.B")), false, false, 1, 0, 1},
		"a new test that fails":                {ran(fail("m.B")), ran(fail("m.B"), fail("m.New")), false, false, 1, 1, 0},
		"two of a name, one failed":            {ran(fail("m.B"), pass("m.B")), ran(fail("m.B"), fail("m.B")), false, false, 1, 1, 0},
		"flaky then and now":                   {ran(flaky("m.B")), ran(flaky("m.B")), true, false, 0, 1, 0},
		"flaky then, failed now":               {ran(flaky("m.B"), fail("m.C")), ran(fail("m.B"), fail("m.C")), true, true, 0, 2, 0},
		"flaky now beside what failed":         {ran(pass("m.A"), fail("m.B")), ran(flaky("m.A"), fail("m.B")), true, true, 0, 1, 0},
		"a build that was broken":              {red(contract.CategoryBuild, contract.CodeCheckFailed, broken), red(contract.CategoryBuild, contract.CodeCheckFailed, at(broken, "a.go:9")), true, true, 0, 1, 0},
		"a build broken elsewhere":             {red(contract.CategoryBuild, contract.CodeCheckFailed, broken), red(contract.CategoryBuild, contract.CodeCheckFailed, broken, broken), false, false, 1, 1, 0},
		"tests that did not build, and do now": {red(contract.CategoryTest, contract.CodeTestsFailed, broken), ran(fail("m.A")), false, false, 1, 0, 1},
		"a time-out then and now":              {red(contract.CategoryTest, contract.CodeTimeout, broken), red(contract.CategoryTest, contract.CodeTimeout, broken), true, true, 0, 1, 0},
		"a time-out now":                       {red(contract.CategoryTest, contract.CodeTestsFailed, broken), red(contract.CategoryTest, contract.CodeTimeout, broken), false, false, 0, 1, 0},
		"lint in a file that moved":            {red(contract.CategoryLint, contract.CodeCheckFailed, lint), red(contract.CategoryLint, contract.CodeCheckFailed, at(lint, "b.py:7")), true, true, 0, 1, 0},
		"lint that was clean":                  {verdict.Recorded{Result: contract.CheckResult{OK: true}}, red(contract.CategoryLint, contract.CodeCheckFailed, lint), false, false, 0, 0, 0},
		"one complaint more":                   {red(contract.CategoryLint, contract.CodeCheckFailed, lint), red(contract.CategoryLint, contract.CodeCheckFailed, lint, lint), false, false, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := verdict.Compare(c.base, c.now, nil, verdict.PinnedEnforce)
			require.Equal(t, []any{c.ok, c.knownOnly, c.major, c.known}, []any{got.Result.OK, got.Result.KnownOnly, got.Result.Major, got.Result.Known}, "%+v", got)
			require.Len(t, got.Fixed, c.fixed)
			if c.knownOnly {
				require.Contains(t, got.Result.Message, "as on the base commit")
				require.Empty(t, got.Result.Code)
				require.Nil(t, verdict.Of([]contract.CheckResult{got.Result}, contract.Thresholds{}).Failure)
			}
		})
	}
}

func TestAFailureThatIsTooFarDownToBeListedIsStillNew(t *testing.T) {
	t.Parallel()
	base, now := ran(pass("m.A"), fail("m.B")), ran(fail("m.A"), fail("m.B"))
	now.Findings = now.Findings[1:] // there were too many to keep
	require.False(t, verdict.Compare(base, now, nil, verdict.PinnedEnforce).Result.OK)
	base.Cases, now.Cases = nil, nil
	require.False(t, verdict.Compare(base, now, nil, verdict.PinnedEnforce).Result.OK, "by number, where names are not known")
}

func at(f contract.Finding, location string) contract.Finding {
	f.Location = location
	return f
}

func TestWhatDiffersBetweenTwoRunsOfTheSameCodeMakesNoFindingNew(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"a.c:3:5: took 12ms at 0x7ffee", "lib/a.c:99:1: took 3.5s at 0xdead"},
		{"panic in /workspace/a.go:10 after 1m2.5s", "panic in /tmp/x/a.go:12 after 4s"},
		{"failed at 2026-01-02T03:04:05Z on line 7", "failed at 2025-11-30T00:00:00Z on line 8"},
		{"dial 127.0.0.1:38451: refused", "dial 127.0.0.1:9: refused"},
		{"main.ts(3,5): bad", "main.ts(4,1): bad"},
	} {
		got := verdict.Compare(red(contract.CategoryBuild, contract.CodeCheckFailed, finding(contract.SeverityMajor, "", c[0], "a.c:3")),
			red(contract.CategoryBuild, contract.CodeCheckFailed, finding(contract.SeverityMajor, "", c[1], "a.c:99")), nil, verdict.PinnedEnforce)
		require.True(t, got.Result.KnownOnly, "%q and %q", c[0], c[1])
	}
	got := verdict.Compare(red(contract.CategoryBuild, contract.CodeCheckFailed, finding(contract.SeverityMajor, "", "undefined: x", "")),
		red(contract.CategoryBuild, contract.CodeCheckFailed, finding(contract.SeverityMajor, "", "undefined: y", "")), nil, verdict.PinnedEnforce)
	require.False(t, got.Result.OK)
}

func TestTestsOfTheBaseThatDoNotRunAnyMoreAreMissing(t *testing.T) {
	t.Parallel()
	base := ran(pass("m.A"), pass("m.TestLogin/expired"), fail("n.C"))
	for name, c := range map[string]struct {
		now  verdict.Recorded
		pins []contract.Finding
		says string
	}{
		"all are there":        {ran(pass("m.A"), pass("m.TestLogin/expired"), pass("n.C")), nil, ""},
		"one is gone":          {ran(pass("m.A"), pass("n.C")), nil, "1 test from the base commit is missing: m.TestLogin/expired"},
		"one that failed":      {ran(pass("m.A"), pass("m.TestLogin/expired")), nil, "missing: n.C"},
		"one has another name": {ran(pass("m.A"), pass("m.TestLogin/old"), pass("n.C")), nil, ""},
		"in another place":     {ran(pass("m.A"), pass("other.D"), pass("n.C")), nil, "missing: m.TestLogin/expired"},
		"pins tell of it":      {ran(pass("m.A"), pass("n.C")), []contract.Finding{{Rule: "pinned-tests/deleted", Message: "TestLogin was deleted"}}, ""},
		"of another":           {ran(pass("m.A"), pass("n.C")), []contract.Finding{{Rule: "pinned-tests/deleted", Message: "Login was deleted"}}, "missing"},
		"only edited":          {ran(pass("m.A"), pass("n.C")), []contract.Finding{{Rule: "pinned-tests/edited", Message: "TestLogin was changed"}}, "missing"},
		"skipped is told":      {ran(pass("m.A"), pass("m.TestLogin/expired"), contract.TestCase{Name: "n.C", Status: contract.TestSkipped}), nil, ""},
		"it did not build":     {red(contract.CategoryTest, contract.CodeTestsFailed), nil, ""},
		"two are gone":         {ran(pass("m.A")), nil, "2 tests from the base commit are missing: m.TestLogin/expired, n.C"},
		"only counts one":      {counted(1), nil, "1 test ran, but 3 ran on the base commit"},
		"only counts":          {counted(2), nil, "2 tests ran, but 3 ran on the base commit"},
		"enough of them":       {counted(3), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := verdict.Compare(base, c.now, c.pins, verdict.PinnedEnforce)
			reported := verdict.Compare(base, c.now, c.pins, verdict.PinnedReport)
			if c.says == "" {
				require.NotContains(t, rules(got), verdict.RuleMissing)
				return
			}
			last := got.Findings[len(got.Findings)-1]
			require.Equal(t, verdict.RuleMissing, last.Rule)
			require.Contains(t, last.Message, c.says)
			require.Equal(t, contract.SeverityMajor, last.Severity)
			require.False(t, got.Result.OK)
			require.NotNil(t, verdict.Of([]contract.CheckResult{got.Result}, contract.Thresholds{}).Failure)
			require.Nil(t, verdict.Of([]contract.CheckResult{got.Result}, contract.Thresholds{MaxMajor: 1}).Failure, "it counts by the threshold, as pinned tests do")
			require.Equal(t, contract.SeverityMedium, reported.Findings[len(reported.Findings)-1].Severity)
			require.True(t, reported.Result.OK)
			require.NotContains(t, rules(verdict.Compare(base, c.now, c.pins, verdict.PinnedOff)), verdict.RuleMissing)
		})
	}
}

func TestACheckThatRanTestsOnTheBaseAndRunsNoMoreIsLost(t *testing.T) {
	t.Parallel()
	check := func(id string) contract.Check {
		return contract.Check{ID: id, Name: id, Category: contract.CategoryTest}
	}
	had := func(id string, passed int) contract.CheckResult {
		return contract.CheckResult{Check: check(id), OK: true, Summary: contract.TestSummary{Passed: passed}}
	}
	base := []contract.CheckResult{had("go", 3), had("node", 4), had("python", 0)}
	commands := map[string]string{"go": "go test ./...", "node": "npm test", "python": "pytest"}
	lost := func(now map[string]string, checks ...contract.Check) []contract.Finding {
		return verdict.LostChecks(base, commands, [][]contract.Check{checks}, func(id string) string { return now[id] })
	}
	require.Empty(t, lost(commands, check("go"), check("node")), "what ran nothing is not missed")
	gone := lost(commands, check("go"))
	require.Len(t, gone, 1)
	require.Equal(t, contract.SeverityMajor, gone[0].Severity)
	require.Contains(t, gone[0].Message, "node")
	require.Contains(t, gone[0].Message, "4 tests")
	require.Len(t, lost(nil), 2)
	require.Empty(t, lost(map[string]string{"go": "go test ./...", "web": "npm test"}, check("go"), check("web")), "it has another id")
	require.Empty(t, lost(map[string]string{"go": "go test ./...", "web": "vitest run"}, check("go"), check("web")), "another runner took its place")
	require.Len(t, lost(commands, check("go"), check("python")), 1, "one that ran nothing stands for none")
	require.Len(t, lost(commands, check("go"), contract.Check{ID: "web", Category: contract.CategoryTest, Shards: 4}), 1, "shards stand for none")
	require.Len(t, lost(map[string]string{"go": "go test ./..."}, check("go"), check("none")), 1, "one that has no command runs none")
	lint := check("node")
	lint.Category = contract.CategoryLint
	require.Len(t, lost(commands, check("go"), lint), 1, "a lint runs no tests")

	result, graded := verdict.Pinned(gone, verdict.PinnedEnforce)
	require.False(t, result.OK)
	require.Equal(t, contract.SeverityMajor, graded[0].Severity)
	result, graded = verdict.Pinned(gone, verdict.PinnedReport)
	require.True(t, result.OK)
	require.Equal(t, contract.SeverityMedium, graded[0].Severity)
}

func TestAllShardsThatRanTestsOnTheBaseAreMissed(t *testing.T) {
	t.Parallel()
	shard := func(n int) contract.CheckResult {
		c := contract.Check{ID: fmt.Sprint("test-go-", n), Category: contract.CategoryTest, Shard: n, Shards: 2}
		return contract.CheckResult{Check: c, OK: true, Summary: contract.TestSummary{Passed: 3}}
	}
	base, commands := []contract.CheckResult{shard(1), shard(2)}, map[string]string{"test-go-1": "go test a", "test-go-2": "go test b"}
	require.Len(t, verdict.LostChecks(base, commands, nil, func(string) string { return "" }), 2)
	now := [][]contract.Check{{shard(1).Check}}
	require.Empty(t, verdict.LostChecks(base, commands, now, func(string) string { return "go test a b" }), "there is one less")
}

func TestACheckThatTakesThePlaceOfAnotherRunsItsTests(t *testing.T) {
	t.Parallel()
	base := []contract.CheckResult{{Check: check("test-go", contract.CategoryTest), OK: true, Summary: contract.TestSummary{Passed: 3}}}
	stages := [][]contract.Check{{check("test-make", contract.CategoryTest)}}
	require.Empty(t, verdict.LostChecks(base, map[string]string{"test-go": "go test ./..."}, stages, func(string) string { return "make test" }))
	require.Equal(t, []string{"test-go"}, stages[0][0].Instead)

	named := ran(pass("pkg.TestAdd"), pass("pkg.TestSub"), pass("pkg.TestMul"))
	unnamed := counted(3)
	for name, c := range map[string]struct {
		base, now verdict.Recorded
		pins      []contract.Finding
		message   string
	}{
		"the same, spelled in another way": {named, ran(pass("a.ts › TestAdd"), pass("a.ts › TestSub"), pass("TestMul"), pass("TestNew")), nil, ""},
		"one is missing":                   {named, ran(pass("TestAdd"), pass("TestSub"), pass("TestOther")), nil, "1 test from the base commit is missing: pkg.TestMul"},
		"one line that says ok":            {named, counted(1), nil, "does not report which tests it ran"},
		"as many, without names":           {named, counted(3), nil, "does not report which tests it ran"},
		"as many, and none had names":      {unnamed, counted(3), nil, ""},
		"fewer, and none had names":        {unnamed, counted(2), nil, "2 tests ran, but 3 ran on the base commit"},
		"none at all":                      {unnamed, counted(0), nil, "0 tests ran, but 3 ran on the base commit"},
		"one that pins report":             {named, ran(pass("TestAdd"), pass("TestSub")), []contract.Finding{{Rule: "pinned-tests/deleted", Message: "TestMul is deleted"}}, ""},
	} {
		out := verdict.Replaced([]verdict.Recorded{c.base}, c.now, c.pins, verdict.PinnedEnforce)
		require.Equal(t, c.message == "", out.Result.OK, name)
		require.Contains(t, out.Result.Message, c.message, name)
		require.True(t, verdict.Replaced([]verdict.Recorded{c.base}, c.now, c.pins, verdict.PinnedReport).Result.OK, name)
	}
	several := verdict.Replaced([]verdict.Recorded{counted(3), counted(2)}, counted(4), nil, verdict.PinnedEnforce)
	require.Contains(t, several.Result.Message, "4 tests ran, but 5 ran on the base commit")
}

func counted(passed int) verdict.Recorded {
	return verdict.Recorded{Result: contract.CheckResult{Check: check("test-node-1", contract.CategoryTest), OK: true, Summary: contract.TestSummary{Passed: passed}}}
}

func rules(c verdict.Compared) []string {
	var out []string
	for _, f := range c.Findings {
		out = append(out, f.Rule)
	}
	return out
}

func anyOutcome() *rapid.Generator[verdict.Recorded] {
	return rapid.Custom(func(t *rapid.T) verdict.Recorded {
		var cases []contract.TestCase
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 30), 0, 8).Draw(t, "cases") {
			cases = append(cases, contract.TestCase{
				Name: fmt.Sprintf("m.T%d", n%8), Status: []contract.TestStatus{contract.TestPassed, contract.TestFailed, contract.TestSkipped, contract.TestFlaky}[n%4],
			})
		}
		r := ran(cases...)
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 11), 0, 4).Draw(t, "problems") {
			severity := []contract.Severity{contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}[n%3]
			r = with(r, finding(severity, "rule", fmt.Sprintf("problem %c", 'a'+n%4), fmt.Sprintf("f%d.go:%d", n%2, n)))
			if severity == contract.SeverityMajor {
				r.Result.OK, r.Result.Code = false, contract.CodeTestsFailed
			}
		}
		return r
	})
}

func TestAChangeIsNeverBetterThanTheBaseByWhatItBreaks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base, now := anyOutcome().Draw(t, "base"), anyOutcome().Draw(t, "now")
		got := verdict.Compare(base, now, nil, verdict.PinnedEnforce)
		bad, failedNow := map[string]int{}, false
		for _, c := range base.Cases {
			if c.Status == contract.TestFailed || c.Status == contract.TestFlaky {
				bad[c.Name]++
			}
		}
		for _, c := range now.Cases {
			if c.Status == contract.TestFailed {
				bad[c.Name]--
				failedNow = failedNow || bad[c.Name] < 0
			}
		}
		if failedNow {
			require.False(t, got.Result.OK, "a test fails that did not")
		}
		if base.Result.OK && !now.Result.OK {
			require.False(t, got.Result.OK, "the base was green")
		}
		known := 0
		for i, f := range got.Findings {
			require.Contains(t, []contract.FindingStatus{contract.FindingNew, contract.FindingKnown}, f.Status)
			if f.Status == contract.FindingKnown {
				known++
			}
			if i < len(now.Findings) {
				f.Status = ""
				require.Equal(t, now.Findings[i], f, "nothing but the status changes")
			}
		}
		r := got.Result
		require.Equal(t, known, r.Known)
		require.Equal(t, len(got.Findings), r.Major+r.Medium+r.Minor+r.Known, "each finding is new or known")
		require.Len(t, got.Fixed, len(base.Findings)-known)
		for _, f := range now.Findings {
			require.Empty(t, f.Status, "what was recorded stays as it was")
		}
	})
}

func TestTheBaseBesideItselfHasNothingNew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := anyOutcome().Draw(t, "base")
		got := verdict.Compare(base, base, nil, verdict.PinnedEnforce)
		require.True(t, got.Result.OK)
		require.Equal(t, !base.Result.OK, got.Result.KnownOnly)
		require.Zero(t, got.Result.Major+got.Result.Medium+got.Result.Minor)
		require.Empty(t, got.Fixed)
		require.Nil(t, verdict.Of([]contract.CheckResult{got.Result}, contract.Thresholds{}).Failure)
	})
}

func TestTheCoverageOfTheBaseIsPartOfTheResult(t *testing.T) {
	t.Parallel()
	measured := func(c *contract.Coverage) verdict.Recorded {
		return verdict.Recorded{Result: contract.CheckResult{Check: check("test-go-1", contract.CategoryTest), OK: true, Coverage: c}}
	}
	before := &contract.Coverage{LineCount: contract.LineCount{Lines: 10, Covered: 5}}
	now := &contract.Coverage{LineCount: contract.LineCount{Lines: 12, Covered: 9}}
	out := verdict.Compare(measured(before), measured(now), nil, verdict.PinnedEnforce)
	require.Equal(t, &contract.LineCount{Lines: 10, Covered: 5}, out.Result.Coverage.Base)
	require.Nil(t, now.Base, "the outcome itself does not change")
	require.True(t, out.Result.OK)
	require.Empty(t, out.Findings, "coverage must not add findings")
	require.Nil(t, verdict.Compare(measured(before), measured(nil), nil, verdict.PinnedEnforce).Result.Coverage)
	require.Equal(t, now, verdict.Compare(measured(nil), measured(now), nil, verdict.PinnedEnforce).Result.Coverage)
}
