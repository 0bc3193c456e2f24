package output

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func caseNames(p Results) []string {
	var out []string
	for _, c := range p.Cases {
		out = append(out, c.Name)
	}
	return out
}

func TestNamesAndMarksBelongToTheRunThatPrintsThem(t *testing.T) {
	t.Parallel()
	const (
		nodeOfA = "ℹ tests 2\nℹ pass 1\nℹ fail 1\n\n✖ failing tests:\n\ntest at a.js:1:1\n✖ a fails (1.5ms)\n"
		nodeOfB = "✔ fine (1ms)\n✖ b fails (2ms)\nℹ tests 2\nℹ pass 1\nℹ fail 1\n\n✖ failing tests:\n\ntest at b.js:1:1\n✖ b fails (2ms)\n"
		green   = "ℹ tests 3\nℹ pass 3\nℹ fail 0\n"
		mochaA  = "\n  1 passing (4ms)\n  1 failing\n\n  1) a\n       fails:\n     Error: no\n\n"
		mochaB  = "  1) b fails\n\n  1 passing (4ms)\n  1 failing\n\n  1) b\n       fails:\n     Error: no\n\n"
		ava     = "  ✔ one\n  ✔ two\n  ✘ [fail]: three\n\n  1 test failed\n"
		jest    = "  ● a › fails\n\n    no\n\n  ● b › fails\n\n    no\n\nSummary of all failing tests\n  ● a › fails\n\n    no\n\n  ● b › fails\n\n    no\n\nTests:       2 failed, 1 passed, 3 total\n"
		suites  = " Failed Suites 1 \n\n FAIL  a.js > hook\nError: no\n\n      Tests  1 passed (1)\n"
		ctest   = "50% tests passed, 1 tests failed out of 2\n\nTotal Test time (real) =   1.01 sec\n\n" +
			"The following tests FAILED:\n\t  1 - a (Failed)\nErrors while running CTest\n"
	)
	for about, c := range map[string]struct {
		output string
		names  []string
		sum    contract.TestSummary
	}{
		"node after node":        {nodeOfA + nodeOfB, []string{"a fails", "b fails"}, contract.TestSummary{Passed: 2, Failed: 2}},
		"node after a green one": {green + nodeOfB, []string{"b fails"}, contract.TestSummary{Passed: 4, Failed: 1}},
		"mocha after mocha":      {mochaA + mochaB, []string{"a fails", "b fails"}, contract.TestSummary{Passed: 2, Failed: 2}},
		"ava after ava":          {ava + "\n" + ava, []string{"three", "three"}, contract.TestSummary{Passed: 4, Failed: 2}},
		"marks of mocha":         {"  ✔ at the top\n\n  1 passing (4ms)\n" + ava, []string{"three"}, contract.TestSummary{Passed: 3, Failed: 1}},
		"jest with a summary":    {jest, []string{"a › fails", "b › fails"}, contract.TestSummary{Passed: 1, Failed: 2}},
		"more names than failed": {"  ● a\n  ● b\nTests: 1 failed, 1 total\n  ● c\nTests: 1 failed, 1 total\n", []string{"a", "c"}, contract.TestSummary{Failed: 2}},
		"vitest on stderr": {
			" FAIL  a.js > a\n FAIL  b.js > b\n" + jest + "      Tests  1 failed | 1 passed (2)\n" + "      Tests  1 failed (1)\n",
			[]string{"a › fails", "b › fails", "a", "b"}, contract.TestSummary{Passed: 2, Failed: 4},
		},
		"names of another runner": {"FAILED a.py::b - no\n" + jest, []string{"a › fails", "b › fails"}, contract.TestSummary{Passed: 1, Failed: 2}},
		"vitest's headings":       {suites + " Failed Tests 1 \n FAIL  a.js > a\n      Tests  1 failed (1)\n", []string{"a"}, contract.TestSummary{Passed: 1, Failed: 1}},
		"CTest":                   {ctest, []string{"a"}, contract.TestSummary{Passed: 1, Failed: 1}},
		"CTest after CTest":       {ctest + strings.ReplaceAll(ctest, "- a", "- b"), []string{"a", "b"}, contract.TestSummary{Passed: 2, Failed: 2}},
		"what looks like CTest":   {"  1 - x (Failed)\n" + ctest, []string{"a"}, contract.TestSummary{Passed: 1, Failed: 1}},
		"CTest's skipped ones": {
			"100% tests passed, 0 tests failed out of 2\n\nThe following tests did not run:\n\t  1 - a (Skipped)\n\t  2 - b (Disabled)\n",
			nil, contract.TestSummary{Passed: 1, Skipped: 2},
		},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			p := ParseRunners([]byte(c.output), inWorkspace)
			require.Equal(t, c.names, caseNames(p))
			require.Equal(t, c.sum, *p.Reported)
		})
	}
}

func TestSubtestsOfPytestAreNoTestsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]contract.TestSummary{
		"2 failed, 1 passed, 2 subtests passed in 0.03s":                                       {Failed: 2, Passed: 1},
		"==== 1 passed, 1 skipped, 3 subtests passed, 1 subtests skipped in 0.03s ====":        {Passed: 1, Skipped: 1},
		"2 passed, 4 deselected, 3 subtests passed in 61.01s (0:01:01)":                        {Passed: 2},
		"1 passed, 1 warning, 2 subtests failed in 0.03s":                                      {Passed: 1, Failed: 2},
		"==== 1 failed, 2 passed, 1 subtests failed, 2 subtests passed, 1 error in 0.03s ====": {Passed: 2, Failed: 2},
		"3 subtests passed in 0.01s":                                                           {},
	} {
		p := ParseRunners([]byte(output+"\n"), inWorkspace)
		require.NotNil(t, p.Reported, output)
		require.Equal(t, want, *p.Reported, output)
		require.Equal(t, want, *PytestPrinted([]byte(output+"\n"), nil), output)
	}
	p := ParseRunners([]byte("SUBFAILED(i=1) test_s.py::test_subs - assert 1 != 1\nFAILED test_s.py::test_subs - contains 1 failed subtest\n"+
		"SUBFAILED[m] (i=2, j=3) test_s.py::T::test_u - AssertionError: 2 == 2\n3 failed, 4 passed in 0.02s\n"), inWorkspace)
	require.Equal(t, []string{"test_s.py::test_subs", "test_s.py::T::test_u"}, caseNames(p))
	require.Equal(t, contract.TestSummary{Failed: 3, Passed: 4}, *p.Reported)
}

func TestTODOTestsAreSubtractedFromPassedOnesOnce(t *testing.T) {
	t.Parallel()
	const (
		todo  = "TAP version 13\nok 1 a\nok 2 b # TODO\nok 3 c\n1..3\n# tests 3\n# pass  3\n"
		plain = "TAP version 13\nok 1 d\nok 2 e\n1..2\n# tests 2\n# pass  2\n"
		tells = "TAP version 13\nok 1 f\nok 2 g # TODO\n1..2\n# tests 2\n# pass 1\n# fail 0\n# todo 1\n"
	)
	for output, want := range map[string]contract.TestSummary{
		todo:                  {Passed: 2, Skipped: 1},
		todo + plain + plain:  {Passed: 6, Skipped: 1},
		todo + todo:           {Passed: 4, Skipped: 2},
		tells + plain:         {Passed: 3, Skipped: 1},
		tells + todo + plain:  {Passed: 5, Skipped: 2},
		tells + tells + plain: {Passed: 4, Skipped: 2},
	} {
		require.Equal(t, want, *parseTAP([]byte(output), inWorkspace, false).Reported, output)
	}
}

func BenchmarkManySumsOfRunners(b *testing.B) {
	data := []byte(strings.Repeat("ℹ tests 1\nℹ pass 1\n", 16_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		ParseRunners(data, inWorkspace)
	}
}
