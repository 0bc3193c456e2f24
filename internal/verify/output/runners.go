package output

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// ParseRunners reads the human-readable output of test runners: the summaries at the end of each
// run, and the names of failed tests. Several runs in one output, for example from a script that
// starts two runners or from the packages of a workspace, add up. The summaries are the runner's
// own. A failed test that they do not count adds a failure; nothing removes one.
func ParseRunners(data []byte, s Paths) Results {
	var out Results
	for _, stream := range streams(data) {
		one := Results{}
		r := runnerText{out: &one, paths: s, lines: stream}
		for r.at = 0; r.at < len(stream); r.at++ {
			r.line(stream[r.at])
		}
		one.Unexplained = one.Reported != nil && r.broken
		out.Add(one)
	}
	return out
}

// taskPrefix matches the prefix that pnpm, yarn, lerna and turbo add to each line of a package:
// "packages/a test: ", "[a]: ", "@scope/a:test: ".
var taskPrefix = regexp.MustCompile(`^(?:\[[\w@/.-]{1,100}\]:|[\w@/.-]{1,100} (?:test|unit|spec)[\w:-]{0,50}:|[\w@/.-]{1,100}:(?:test|unit|spec)[\w:-]{0,50}:) ?`)

// maxStreams is the maximum number of workspace packages that are distinguished in one output.
const maxStreams = 200

// streams groups the lines of an output by the package that printed them.
func streams(data []byte) [][]string {
	index := map[string]int{}
	var out [][]string
	for _, line := range Lines(data) {
		line = strings.TrimRight(Clean(Bound(line, 4096)), " \t")
		prefix := taskPrefix.FindString(line)
		key := strings.TrimRight(prefix, " ") // the prefix of an empty line has no trailing space
		at, seen := index[key]
		if !seen {
			if len(out) >= maxStreams {
				at = 0
			} else {
				at = len(out)
				index[key] = at
				out = append(out, nil)
			}
		}
		out[at] = append(out[at], line[len(prefix):])
	}
	return out
}

// runnerText reads the lines of one stream in one pass.
type runnerText struct {
	out     *Results
	paths   Paths
	lines   []string
	at      int
	names   map[string]*failedNames // failed tests that await a summary, by runner
	listing listing
	heading heading
	marks   int  // tests that ava marked as passed since the last summary
	broken  bool // something other than a test failed, such as loading a file
}

// runnerSum describes the summary line of a runner and how to read it.
type runnerSum struct {
	runner string
	re     *regexp.Regexp
	read   func(r *runnerText, m []string) (contract.TestSummary, bool)
}

// countedWord matches a count and its word, as in "1 failed, 2 passed".
var countedWord = regexp.MustCompile(`(\d+) (?:tests? )?(known failure|expected fail|expected failure|failed|failures?|errors?|skipped|todo|pending|passed|xfailed|xpassed|deselected|ignored|uncaught|unhandled)`)

func words(text string) contract.TestSummary {
	var sum contract.TestSummary
	for _, m := range countedWord.FindAllStringSubmatch(text, 20) {
		n := Number(m[1])
		switch m[2] {
		case "failed", "failure", "failures", "error", "errors":
			sum.Failed += n
		case "passed", "xpassed", "known failure", "expected fail", "expected failure":
			sum.Passed += n
		case "skipped", "todo", "pending", "xfailed", "ignored":
			sum.Skipped += n
		}
	}
	return sum
}

var pytestSubtests = regexp.MustCompile(`(\d+) subtests failed`)

// pytestWords counts tests, as pytest collects them, and not their subtests. Failed subtests count
// if the enclosing test is not reported as failed.
func pytestWords(text string) contract.TestSummary {
	sum := words(text)
	if m := pytestSubtests.FindStringSubmatch(text); m != nil && sum.Failed == 0 {
		sum.Failed = Number(m[1])
	}
	return sum
}

var runnerSums = []runnerSum{
	// jest: Tests:       1 failed, 1 skipped, 3 passed, 5 total
	{"jest", regexp.MustCompile(`^Tests:\s+(.*\d+ total)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// vitest: Tests  2 failed | 4 passed | 2 skipped | 1 todo (9)
	{"vitest", regexp.MustCompile(`^\s+Tests\s{2}(no tests|\d+ (?:failed|passed|skipped|todo|expected fail)\b.*)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// pytest: ==== 4 failed, 5 passed, 4 errors in 0.04s ====
	{"pytest", pytestSum, func(_ *runnerText, m []string) (contract.TestSummary, bool) { return pytestWords(m[1]), true }},
	// cargo test: test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out
	{"cargo", regexp.MustCompile(`^test result: \w+\. (\d+ passed; \d+ failed; \d+ ignored;)`), func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// mocha: 3 passing (4ms), and below it 2 pending, 3 failing
	{"mocha", regexp.MustCompile(`^ {2}(\d+) passing \(.{1,20}\)$`), (*runnerText).mocha},
	// uvu: Total:     4, and below it Passed:, Skipped:
	{"uvu", regexp.MustCompile(`^ {2}Total: {4,}(\d+)$`), (*runnerText).uvu},
	// jasmine: 6 specs, 4 failures, 2 pending specs
	{"jasmine", regexp.MustCompile(`^(\d+) specs?, (\d+) failures?(?:, (\d+) pending specs?)?$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) {
		failed, pending := Number(m[2]), Number(m[3])
		return contract.TestSummary{Passed: max(0, Number(m[1])-failed-pending), Failed: failed, Skipped: pending}, true
	}},
	// bun: 1 pass, and below it 1 skip, 1 todo, 4 fail
	{"bun", regexp.MustCompile(`^ *(\d+) pass$`), (*runnerText).bun},
	// ava: 2 tests failed, 1 known failure, 5 tests passed, …
	{"ava", avaSum, (*runnerText).ava},
	// node: ℹ tests 10, and below it ℹ pass 4, ℹ fail 3, …; tape: # tests 5
	{"node", regexp.MustCompile(`^(?:ℹ|#) tests\s+(\d+)$`), (*runnerText).points},
	// unittest: Ran 5 tests in 0.1s
	{"unittest", unittestRan, (*runnerText).unittest},
	// Maven: Tests run: 5, Failures: 1, Errors: 0, Skipped: 1
	{"maven", regexp.MustCompile(`^(?:\[(?:INFO|WARNING|ERROR)\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) {
		failed, skipped := Number(m[2])+Number(m[3]), Number(m[4])
		return contract.TestSummary{Passed: max(0, Number(m[1])-failed-skipped), Failed: failed, Skipped: skipped}, true
	}},
	// ctest: 50% tests passed, 1 tests failed out of 2
	{"ctest", regexp.MustCompile(`^\d+% tests passed, (\d+) tests? failed out of (\d+)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) {
		return contract.TestSummary{Passed: max(0, Number(m[2])-Number(m[1])), Failed: Number(m[1])}, true
	}},
	// Automake: # TOTAL: 5, and below it # PASS:, # SKIP:, …
	{"automake", regexp.MustCompile(`^# TOTAL: +(\d+)$`), (*runnerText).automake},
}

var (
	// pytestSum is the last line of pytest. Without -q, it is surrounded by equals signs.
	pytestSum = regexp.MustCompile(`^=* ?((?:no tests ran|\d+ (?:failed|passed|skipped|deselected|xfailed|xpassed|errors?|warnings?|subtests \w+))(?:, \d+ (?:subtests )?\w+)*) in [\d.]+s(?: \([\d:, a-z]+\))? ?=*$`)
	avaSum    = regexp.MustCompile(`^ {2}(\d+) (tests? failed|known failures?|tests? passed|tests? skipped|tests? todo|uncaught exceptions?|unhandled rejections?)$`)
)

func (r *runnerText) line(line string) {
	r.notice(line)
	for _, s := range runnerSums {
		m := s.re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if sum, ok := s.read(r, m); ok {
			r.end(s.runner, sum)
		}
		return
	}
	if !r.listed(line) {
		r.failure(line)
	}
}

// end records the summary of one run.
func (r *runnerText) end(runner string, sum contract.TestSummary) {
	taken := r.take(runner, sum.Failed)
	for _, n := range taken {
		r.failed(n)
	}
	r.listing, r.marks = listing{runner: runner, left: sum.Failed - len(taken)}, 0
	if r.out.Reported == nil {
		r.out.Reported = &contract.TestSummary{}
	}
	r.out.NotTAP = r.out.NotTAP || runner != "node"
	*r.out.Reported = r.out.Reported.Add(sum)
}

// below reads the lines of the form " 2 pending" that follow, and skips them.
func (r *runnerText) below(re *regexp.Regexp, each func(m []string)) {
	for r.at+1 < len(r.lines) {
		m := re.FindStringSubmatch(r.lines[r.at+1])
		if m == nil {
			return
		}
		each(m)
		r.at++
	}
}

var mochaBelow = regexp.MustCompile(`^ {2}(\d+) (pending|failing)$`)

// mocha prints an empty line before its summary, which tests rarely do.
func (r *runnerText) mocha(m []string) (contract.TestSummary, bool) {
	if r.at > 0 && r.lines[r.at-1] != "" {
		return contract.TestSummary{}, false
	}
	sum := contract.TestSummary{Passed: Number(m[1])}
	r.below(mochaBelow, func(m []string) {
		if m[2] == "pending" {
			sum.Skipped = Number(m[1])
		} else {
			sum.Failed = Number(m[1])
		}
	})
	return sum, true
}

var uvuBelow = regexp.MustCompile(`^ {2}(Passed|Skipped): +(\d+)$`)

func (r *runnerText) uvu(m []string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	r.below(uvuBelow, func(m []string) {
		if m[1] == "Passed" {
			sum.Passed = Number(m[2])
		} else {
			sum.Skipped = Number(m[2])
		}
	})
	sum.Failed = max(0, Number(m[1])-sum.Passed)
	return sum, true
}

var bunBelow = regexp.MustCompile(`^ *(\d+) (skip|todo|fail|filtered out|snapshots?|errors?|expect\(\) calls)$|^Ran (\d+) tests? across \d+ files?`)

// bun ends with "Ran 7 tests across 2 files": without that line, a test printed the counts.
func (r *runnerText) bun(m []string) (contract.TestSummary, bool) {
	sum, ran := contract.TestSummary{Passed: Number(m[1])}, false
	r.below(bunBelow, func(m []string) {
		switch m[2] {
		case "skip", "todo":
			sum.Skipped += Number(m[1])
		case "fail":
			sum.Failed = Number(m[1])
		case "":
			ran = true
		}
	})
	return sum, ran
}

// ava's summary is one block of lines; failures outside tests do not count as failed tests.
func (r *runnerText) ava(m []string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	others := 0
	add := func(m []string) {
		n := Number(m[1])
		switch what := m[2]; {
		case strings.HasPrefix(what, "un"):
			r.broken, others = true, others+n
		case strings.HasSuffix(what, "failed"):
			sum.Failed += n
		case strings.HasSuffix(what, "passed"), strings.HasPrefix(what, "known"):
			sum.Passed += n
		default:
			sum.Skipped += n
		}
	}
	add(m)
	r.below(avaSum, add)
	// After a failure, "tests passed" is missing; the marks then show how many passed.
	if sum.Failed > 0 || others > 0 {
		sum.Passed += r.marks
	}
	return sum, true
}

var pointsBelow = regexp.MustCompile(`^(?:ℹ|#) (suites|pass|fail|cancelled|skipped|skip|todo|duration_ms)\s+(\d+)(?:\.\d+)?$`)

// points reads the summaries of node's runner and of runners that write TAP.
func (r *runnerText) points([]string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	found := false
	r.below(pointsBelow, func(m []string) {
		n := Number(m[2])
		switch m[1] {
		case "pass":
			sum.Passed, found = n, true
		case "fail", "cancelled":
			sum.Failed += n
		case "skip", "skipped", "todo":
			sum.Skipped += n
		}
	})
	return sum, found
}

var unittestEnds = regexp.MustCompile(`^(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)

// unittest prints the number of tests, and the results on one of the next lines.
func (r *runnerText) unittest(m []string) (contract.TestSummary, bool) {
	for _, line := range r.lines[r.at+1 : min(len(r.lines), r.at+5)] {
		end := unittestEnds.FindStringSubmatch(line)
		if end == nil {
			continue
		}
		return unittestSum(Number(m[1]), end[2]), true
	}
	return contract.TestSummary{}, false
}

var unittestCount = regexp.MustCompile(`(failures|errors|skipped|expected failures|unexpected successes)=(\d+)`)

// unittestSum splits the counts: an expected failure has passed, an unexpected success has failed.
func unittestSum(ran int, text string) contract.TestSummary {
	var sum contract.TestSummary
	for part := range strings.SplitSeq(text, ", ") {
		m := unittestCount.FindStringSubmatch(part)
		if m == nil || !strings.HasPrefix(part, m[1]) {
			continue
		}
		switch m[1] {
		case "failures", "errors", "unexpected successes":
			sum.Failed += Number(m[2])
		case "skipped":
			sum.Skipped += Number(m[2])
		}
	}
	sum.Passed = max(0, ran-sum.Failed-sum.Skipped)
	return sum
}

var automakeBelow = regexp.MustCompile(`^# (PASS|SKIP|XFAIL|FAIL|XPASS|ERROR): +(\d+)$`)

func (r *runnerText) automake([]string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	found := false
	r.below(automakeBelow, func(m []string) {
		found = true
		n := Number(m[2])
		switch m[1] {
		case "PASS", "XFAIL":
			sum.Passed += n
		case "SKIP":
			sum.Skipped += n
		default:
			sum.Failed += n
		}
	})
	return sum, found
}

// PytestPrinted returns the summary that pytest prints. If a test passed and its teardown failed,
// the report contains it once, as failed; the printed summary counts it as both. The project's
// options may suppress the summary: then the report counts.
func PytestPrinted(stdout, _ []byte) *contract.TestSummary {
	all := Lines(stdout)
	for n := len(all) - 1; n >= max(0, len(all)-200); n-- {
		if m := pytestSum.FindStringSubmatch(strings.TrimSpace(Clean(Bound(all[n], 4096)))); m != nil {
			sum := pytestWords(m[1])
			return &sum
		}
	}
	return nil
}
