package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
)

// entries are quarantined tests by name.
func entries(names ...string) (out []contract.QuarantinedTest) {
	for i, name := range names {
		out = append(out, contract.QuarantinedTest{ID: int64(i + 1), Test: name, Reason: "slow", ExpiresAt: time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)})
	}
	return out
}

// onlyTests is the outcome of a check whose failed tests are the only reason for its failure.
func onlyTests(cases ...contract.TestCase) verdict.Recorded {
	r := ran(cases...)
	r.Result.OnlyTests = !r.Result.OK
	return r
}

func TestAFailureOfAQuarantinedTestIsCountedSeparatelyAndFailsNothing(t *testing.T) {
	t.Parallel()
	out := verdict.Quarantine(entries("m.A"), onlyTests(fail("m.A"), pass("m.B")), nil)
	require.True(t, out.Result.OK)
	require.Equal(t, contract.TestSummary{Passed: 1, Quarantined: 1}, out.Result.Summary)
	require.Equal(t, contract.TestQuarantined, out.Cases[0].Status)
	require.Equal(t, []int{0, 0, 1}, []int{out.Result.Major, out.Result.Medium, out.Result.Minor})
	require.Equal(t, "quarantined until 2030-01-02: m.A failed: wrong", out.Findings[0].Message)
	require.Empty(t, out.Result.Message)
	require.Empty(t, out.Result.Warning, "nothing is known about the base")
	require.Nil(t, verdict.Of([]contract.CheckResult{out.Result}, contract.Thresholds{}).Failure)
}

func TestAQuarantineHidesNothingButTheFailureOfItsOwnTest(t *testing.T) {
	t.Parallel()
	edited := entries("m.A")
	edited[0].Ignored = "the change edits a test with this name"
	elsewhere := entries("m.A")
	elsewhere[0].Check = "test-node"
	crashed := contract.TestCase{Name: "m.A", Status: contract.TestFailed, Message: "panic: nil map\nm.A"}
	timeout := onlyTests(fail("m.A"))
	timeout.Result.Code = contract.CodeTimeout
	unnamed := onlyTests(fail("m.A"))
	unnamed.Result.Unnamed = true
	build := onlyTests(fail("m.A"))
	build.Result.Check.Category = contract.CategoryBuild
	base := ran(pass("m.B"))
	for name, c := range map[string]struct {
		entries []contract.QuarantinedTest
		now     verdict.Recorded
		base    *verdict.Recorded
		warning string
	}{
		"another test failed":            {entries("m.A"), onlyTests(fail("m.A"), fail("m.B")), nil, ""},
		"something else failed":          {entries("m.A"), ran(fail("m.A")), nil, ""},
		"a finding about no test":        {entries("m.A"), with(onlyTests(fail("m.A")), finding(contract.SeverityMajor, "", "undefined: x", "b.go:1")), nil, ""},
		"the change edits it":            {edited, onlyTests(fail("m.A")), nil, "m.A: the change edits a test with this name"},
		"it is new":                      {entries("m.A"), onlyTests(fail("m.A"), pass("m.B")), &base, "m.A: it does not run on the base commit"},
		"its name is not unique":         {entries("m.A"), onlyTests(fail("m.A"), pass("m.A")), nil, "m.A: several tests of the check have this name"},
		"it ended its process":           {entries("m.A"), onlyTests(crashed), nil, "m.A: it ended its process, so other tests may not have run"},
		"its check is another":           {elsewhere, onlyTests(fail("m.A")), nil, ""},
		"the name is only a part":        {entries("m"), onlyTests(fail("m.A")), nil, ""},
		"the check timed out":            {entries("m.A"), timeout, nil, ""},
		"commands are counted as tests":  {entries("m.A"), unnamed, nil, ""},
		"it is the check that builds":    {entries("m.A"), build, nil, ""},
		"failures that nobody has named": {entries("m.A"), func() verdict.Recorded { r := onlyTests(fail("m.A")); r.Result.Summary.Failed = 2; return r }(), nil, ""},
	} {
		out := verdict.Quarantine(c.entries, c.now, c.base)
		require.False(t, out.Result.OK, name)
		require.NotNil(t, verdict.Of([]contract.CheckResult{out.Result}, contract.Thresholds{}).Failure, name)
		if c.warning == "" {
			require.Empty(t, out.Result.Warning, name)
		} else {
			require.Contains(t, out.Result.Warning, c.warning, name)
		}
	}
	out := verdict.Quarantine(entries("m.A"), onlyTests(fail("m.A"), fail("m.B")), nil)
	require.Equal(t, contract.TestSummary{Failed: 1, Quarantined: 1}, out.Result.Summary)
	require.Equal(t, "a_test.go:3: m.B failed: wrong", out.Result.Message, "not the message of the quarantined test")
}

func TestAQuarantinedTestThatFailsOnlyWithTheChangeIsAWarning(t *testing.T) {
	t.Parallel()
	base := ran(pass("m.A"), pass("m.B"))
	out := verdict.Quarantine(entries("m.A"), onlyTests(fail("m.A"), pass("m.B")), &base)
	require.True(t, out.Result.OK)
	require.Equal(t, "a quarantined test passed on the base commit, but failed in each attempt with this change: m.A", out.Result.Warning)
	report := verdict.Of([]contract.CheckResult{out.Result}, contract.Thresholds{})
	require.Nil(t, report.Failure)
	require.Equal(t, "test-go-1: "+out.Result.Warning, report.Warning)

	broken := ran(fail("m.A"), pass("m.B"))
	require.Empty(t, verdict.Quarantine(entries("m.A"), onlyTests(fail("m.A"), pass("m.B")), &broken).Result.Warning, "it also failed before")
}

func TestWhatIsQuarantinedAndWhatFailedBeforeAreIndependentOfEachOther(t *testing.T) {
	t.Parallel()
	base := ran(fail("m.Old"), pass("m.A"), pass("m.B"))
	now := verdict.Quarantine(entries("m.A"), onlyTests(fail("m.Old"), fail("m.A"), pass("m.B")), &base)
	require.False(t, now.Result.OK)
	out := verdict.Compare(base, now, nil, verdict.PinnedEnforce)
	require.True(t, out.Result.OK && out.Result.KnownOnly, "%+v", out.Result)
	require.Equal(t, contract.TestSummary{Passed: 1, Failed: 1, Quarantined: 1}, out.Result.Summary)

	// A test that no longer runs is missing, quarantined or not.
	now = verdict.Quarantine(entries("m.A"), onlyTests(pass("m.B"), fail("m.Old")), &base)
	out = verdict.Compare(base, now, nil, verdict.PinnedEnforce)
	require.False(t, out.Result.OK)
	require.Contains(t, out.Result.Message, "1 test from the base commit is missing: m.A")

	// The shards of a check are compared as a whole.
	first, second := ran(pass("m.A")), ran(pass("m.B"))
	for i, r := range []*verdict.Recorded{&first, &second} {
		r.Result.Check = contract.Check{ID: []string{"test-go-1", "test-go-2"}[i], Category: contract.CategoryTest, Shard: i + 1, Shards: 2}
	}
	whole := (&verdict.Baseline{Checks: []verdict.Recorded{first, second}}).Whole(second.Result.Check.AsRetest(1, 2))
	require.Len(t, whole.Cases, 2)
	require.Equal(t, 2, whole.Result.Summary.Passed)
}

func TestAFlakyTestThatIsQuarantinedIsNoMediumFinding(t *testing.T) {
	t.Parallel()
	out := verdict.Quarantine(entries("m.A"), ran(flaky("m.A"), flaky("m.B")), nil)
	require.Equal(t, []int{1, 1}, []int{out.Result.Medium, out.Result.Minor})
	require.Equal(t, contract.TestSummary{Flaky: 2}, out.Result.Summary, "that it is flaky is still true")
}

func TestAWarningAboutHostileNamesIsBounded(t *testing.T) {
	t.Parallel()
	var names []string
	var cases []contract.TestCase
	for range 100 {
		names = append(names, strings.Repeat("<script>", 120)+strings.Repeat("x", len(names)))
		cases = append(cases, fail(names[len(names)-1]))
	}
	now := onlyTests(cases...)
	base := now
	base.Cases = nil
	for _, name := range names {
		base.Cases = append(base.Cases, pass(name))
	}
	out := verdict.Quarantine(entries(names...), now, &base)
	require.True(t, out.Result.OK)
	require.Less(t, len(out.Result.Warning), 2100)
	require.Less(t, len(verdict.Of([]contract.CheckResult{out.Result, out.Result}, contract.Thresholds{}).Warning), 2100)
}

func TestTestsThatAChangeTouchesAreFoundByTheirNamesInTheSource(t *testing.T) {
	t.Parallel()
	list := verdict.TouchedTests(entries("example.com/m.TestA/case", "src/a.test.ts > List > renders [de]", "tests/test_a.py::TestB::test_c[1]", "m.TestOther"),
		[]string{"TestA", "", "test_c"}, []string{"List > renders"})
	var ignored []string
	for _, e := range list {
		ignored = append(ignored, e.Ignored)
	}
	require.Equal(t, []string{
		"the change edits a test with this name", "the change adds a test with this name", "the change edits a test with this name", "",
	}, ignored)
}
