package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// covering is the result of a check that measured changed files.
func covering(id string, total LineCount, base *LineCount, files ...FileCoverage) CheckResult {
	c := &Coverage{LineCount: total, Base: base, Changed: &ChangedLines{Files: files}}
	for _, f := range files {
		c.Changed.LineCount = c.Changed.Add(f.LineCount)
		c.Changed.Unknown += f.Unknown
	}
	return CheckResult{Check: Check{ID: id, Category: CategoryTest}, Coverage: c}
}

func TestALineIsCoveredIfAnyCheckCoversIt(t *testing.T) {
	t.Parallel()
	first := covering("test-go-1", LineCount{100, 50}, &LineCount{90, 45},
		FileCoverage{Path: "a.go", LineCount: LineCount{4, 2}, Executed: []LineRange{{1, 2}}, Missed: []LineRange{{3, 4}}},
		FileCoverage{Path: "b.js", Unknown: 7})
	second := covering("test-node-1", LineCount{10, 10}, &LineCount{10, 5},
		FileCoverage{Path: "a.go", LineCount: LineCount{3, 1}, Executed: []LineRange{{4, 4}}, Missed: []LineRange{{1, 1}, {3, 3}}},
		FileCoverage{Path: "b.js", LineCount: LineCount{2, 1}, Executed: []LineRange{{1, 1}}, Missed: []LineRange{{2, 2}}},
		FileCoverage{Path: "c.sql", Unknown: 3})
	retest := covering("test-go-1~2", LineCount{1, 1}, nil)
	retest.Check.Retest = 1
	got := MergeCoverage([]CheckResult{{}, first, second, retest})
	require.Equal(t, &Coverage{
		LineCount: LineCount{110, 60}, Base: &LineCount{100, 50},
		Changed: &ChangedLines{LineCount: LineCount{6, 4}, Unknown: 3, Files: []FileCoverage{
			{Path: "a.go", LineCount: LineCount{4, 3}, Missed: []LineRange{{3, 3}}},
			{Path: "b.js", LineCount: LineCount{2, 1}, Missed: []LineRange{{2, 2}}},
			{Path: "c.sql", Unknown: 3},
		}},
	}, got)
	require.Equal(t, "Coverage of the changed lines: 66.6 % (4 of 6), and 3 in files that were not measured; was 50 % overall, is 54.5 %", got.Summary())
	require.Equal(t, []string{"a.go line 3", "b.js line 2", "c.sql not measured"}, missedOf(got))
	require.Nil(t, MergeCoverage([]CheckResult{{}, retest}))
}

func missedOf(c *Coverage) (out []string) {
	for _, f := range c.Missed() {
		out = append(out, f.Path+" "+f.MissedText())
	}
	return out
}

func TestShardsHaveNoOverallCoverage(t *testing.T) {
	t.Parallel()
	file := func(executed, missed LineRange) FileCoverage {
		return FileCoverage{Path: "a.py", LineCount: LineCount{2, 1}, Executed: []LineRange{executed}, Missed: []LineRange{missed}}
	}
	one, two := covering("test-python-1", LineCount{9, 3}, nil, file(LineRange{1, 1}, LineRange{2, 2})), covering("test-python-2", LineCount{9, 3}, nil, file(LineRange{2, 2}, LineRange{1, 1}))
	one.Check.Shards, two.Check.Shards = 2, 2
	got := MergeCoverage([]CheckResult{one, two})
	require.Equal(t, "Coverage of the changed lines: 100 % (2 of 2)", got.Summary(), "each shard covers what the other misses")
	require.Empty(t, got.Missed())
}

func TestLinesThatAShardDoesNotListAreNotCountedAsMissed(t *testing.T) {
	t.Parallel()
	shard := func(f FileCoverage) CheckResult {
		f.Path, f.Lines = "a.go", 100
		r := covering("test-go-1", LineCount{}, nil, f)
		r.Check.Shards = 2
		return r
	}
	// The first lists all lines that it missed, and the second does, but not all that they executed.
	idle := shard(FileCoverage{LineCount: LineCount{Covered: 2}, Executed: []LineRange{{1, 2}}, Missed: []LineRange{{3, 100}}})
	busy := shard(FileCoverage{LineCount: LineCount{Covered: 90}, Executed: []LineRange{{40, 50}}, Missed: []LineRange{{91, 100}}, Omitted: 40})
	got := MergeCoverage([]CheckResult{idle, busy})
	require.Equal(t, LineCount{100, 90}, got.Changed.LineCount)
	require.Equal(t, []string{"a.go lines 91-100"}, missedOf(got))
	// The second does not list all that it missed either.
	busy = shard(FileCoverage{LineCount: LineCount{Covered: 80}, Missed: []LineRange{{91, 100}}, Omitted: 50})
	got = MergeCoverage([]CheckResult{idle, busy})
	require.Equal(t, LineCount{100, 80}, got.Changed.LineCount, "at least")
	require.Equal(t, []string{"a.go lines 91-100, …"}, missedOf(got))
}

func TestOfFilesThatAreNotListedTheBestShardCounts(t *testing.T) {
	t.Parallel()
	shard := func(covered int) CheckResult {
		r := covering("test-go-1", LineCount{}, nil)
		r.Check.Shards, r.Coverage.Changed.LineCount, r.Coverage.Changed.Omitted = 2, LineCount{100, covered}, 3
		return r
	}
	require.Equal(t, LineCount{100, 80}, MergeCoverage([]CheckResult{shard(10), shard(80), shard(20)}).Changed.LineCount)
}

func TestFilesThatAreNotListedStillCount(t *testing.T) {
	t.Parallel()
	one := covering("test-go-1", LineCount{}, nil, FileCoverage{Path: "a.go", LineCount: LineCount{4, 1}, Missed: []LineRange{{1, 2}}, Omitted: 1})
	one.Coverage.Changed.LineCount, one.Coverage.Changed.Omitted = LineCount{104, 51}, 9
	got := MergeCoverage([]CheckResult{one})
	require.Equal(t, LineCount{104, 51}, got.Changed.LineCount)
	require.Equal(t, 9, got.Changed.Omitted)
	require.Equal(t, []string{"a.go lines 1-2, …"}, missedOf(got))
}

func TestCoverageIsDescribedInOneLine(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Coverage{
		"Coverage: 99.9 % overall (1999 of 2000 lines)":                                    {LineCount: LineCount{2000, 1999}},
		"Coverage: no executable line was changed; was 50 % overall, is 100 %":             {LineCount: LineCount{2, 2}, Base: &LineCount{2, 1}, Changed: &ChangedLines{}},
		"Coverage of the changed lines: unknown (4 lines in files that were not measured)": {Changed: &ChangedLines{Unknown: 4}},
		"Coverage: unknown": {Note: "it failed"},
	} {
		require.Equal(t, want, c.Summary())
	}
}
