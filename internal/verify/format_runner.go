package verify

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// parseRunners reads what test runners print for people: the sums at the end of
// each of their runs, and the names of failed tests. Several runs in one output,
// as of a script that starts two runners or of the packages of a workspace, add up.
// The sums are the runner's word; a failed test that has no place in them makes the
// output redder, never greener.
func parseRunners(data []byte, s site) parsed {
	var out parsed
	for _, stream := range streams(data) {
		one := parsed{}
		r := runnerText{out: &one, site: s, lines: stream}
		for r.at = 0; r.at < len(stream); r.at++ {
			r.line(stream[r.at])
		}
		out.add(one)
	}
	return out
}

// taskPrefix is what pnpm, yarn, lerna and turbo put before each line of a package:
// "packages/a test: ", "[a]: ", "@scope/a:test: ".
var taskPrefix = regexp.MustCompile(`^(?:\[[\w@/.-]{1,100}\]:|[\w@/.-]{1,100} (?:test|unit|spec)[\w:-]{0,50}:|[\w@/.-]{1,100}:(?:test|unit|spec)[\w:-]{0,50}:) ?`)

// maxStreams is how many packages of a workspace are told apart in one output.
const maxStreams = 200

// streams are the lines of an output, by the package that printed them.
func streams(data []byte) [][]string {
	index := map[string]int{}
	var out [][]string
	for _, line := range lines(data) {
		line = strings.TrimRight(clean(bound(line, 4096)), " \t")
		prefix := taskPrefix.FindString(line)
		key := strings.TrimRight(prefix, " ") // its empty lines end without it
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

// runnerText reads the lines of one stream.
type runnerText struct {
	out   *parsed
	site  site
	lines []string
	at    int
	names []string // failed tests of the run under way
	files int      // what failed in it besides tests: a file that does not load
}

// runnerSum is a line by which a runner ends its account, and what it says.
type runnerSum struct {
	re   *regexp.Regexp
	read func(r *runnerText, m []string) (contract.TestSummary, bool)
}

// words adds up counts with their words: "1 failed, 2 passed".
var countedWord = regexp.MustCompile(`(\d+) (?:tests? )?(known failure|expected fail|expected failure|failed|failures?|errors?|skipped|todo|pending|passed|xfailed|xpassed|deselected|ignored|uncaught|unhandled)`)

func words(text string) contract.TestSummary {
	var sum contract.TestSummary
	for _, m := range countedWord.FindAllStringSubmatch(text, 20) {
		n := number(m[1])
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

var runnerSums = []runnerSum{
	// jest: Tests:       1 failed, 1 skipped, 3 passed, 5 total
	{regexp.MustCompile(`^Tests:\s+(.*\d+ total)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// vitest: Tests  2 failed | 4 passed | 2 skipped | 1 todo (9)
	{regexp.MustCompile(`^\s+Tests\s{2}(no tests|\d+ (?:failed|passed|skipped|todo|expected fail)\b.*)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// pytest: ==== 4 failed, 5 passed, 4 errors in 0.04s ====
	{pytestSum, func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// cargo test: test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out
	{regexp.MustCompile(`^test result: \w+\. (\d+ passed; \d+ failed; \d+ ignored;)`), func(_ *runnerText, m []string) (contract.TestSummary, bool) { return words(m[1]), true }},
	// mocha: 3 passing (4ms), and below it 2 pending, 3 failing
	{regexp.MustCompile(`^ {2}(\d+) passing \(.{1,20}\)$`), (*runnerText).mocha},
	// uvu: Total:     4, and below it Passed:, Skipped:
	{regexp.MustCompile(`^ {2}Total: {4,}(\d+)$`), (*runnerText).uvu},
	// jasmine: 6 specs, 4 failures, 2 pending specs
	{regexp.MustCompile(`^(\d+) specs?, (\d+) failures?(?:, (\d+) pending specs?)?$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) {
		failed, pending := number(m[2]), number(m[3])
		return contract.TestSummary{Passed: max(0, number(m[1])-failed-pending), Failed: failed, Skipped: pending}, true
	}},
	// bun: 1 pass, and below it 1 skip, 1 todo, 4 fail
	{regexp.MustCompile(`^ *(\d+) pass$`), (*runnerText).bun},
	// ava: 2 tests failed, 1 known failure, 5 tests passed, …
	{avaSum, (*runnerText).ava},
	// node: ℹ tests 10, and below it ℹ pass 4, ℹ fail 3, …; tape: # tests 5
	{regexp.MustCompile(`^(?:ℹ|#) tests\s+(\d+)$`), (*runnerText).points},
	// unittest: Ran 5 tests in 0.1s
	{unittestRan, (*runnerText).unittest},
	// Maven: Tests run: 5, Failures: 1, Errors: 0, Skipped: 1
	{regexp.MustCompile(`^(?:\[(?:INFO|WARNING|ERROR)\] )?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) {
		failed, skipped := number(m[2])+number(m[3]), number(m[4])
		return contract.TestSummary{Passed: max(0, number(m[1])-failed-skipped), Failed: failed, Skipped: skipped}, true
	}},
	// ctest: 50% tests passed, 1 tests failed out of 2
	{regexp.MustCompile(`^\d+% tests passed, (\d+) tests? failed out of (\d+)$`), func(_ *runnerText, m []string) (contract.TestSummary, bool) {
		return contract.TestSummary{Passed: max(0, number(m[2])-number(m[1])), Failed: number(m[1])}, true
	}},
	// Automake: # TOTAL: 5, and below it # PASS:, # SKIP:, …
	{regexp.MustCompile(`^# TOTAL: +(\d+)$`), (*runnerText).automake},
}

var (
	// pytestSum is the last line of pytest. Without -q it stands between signs.
	pytestSum = regexp.MustCompile(`^=* ?((?:no tests ran|\d+ (?:failed|passed|skipped|deselected|xfailed|xpassed|errors?|warnings?))(?:, \d+ \w+)*) in [\d.]+s(?: \([\d:, a-z]+\))? ?=*$`)
	avaSum    = regexp.MustCompile(`^ {2}(\d+) (tests? failed|known failures?|tests? passed|tests? skipped|tests? todo|uncaught exceptions?|unhandled rejections?)$`)
)

func (r *runnerText) line(line string) {
	for _, s := range runnerSums {
		m := s.re.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if sum, ok := s.read(r, m); ok {
			r.end(sum)
		}
		return
	}
	r.failure(line)
}

// end closes the account of one run.
func (r *runnerText) end(sum contract.TestSummary) {
	if sum.Failed > 0 {
		for _, n := range slices.Compact(r.names) {
			r.out.cases = append(r.out.cases, testCase{TestCase: contract.TestCase{Name: n, Status: contract.TestFailed}})
		}
	}
	if r.out.sum == nil {
		r.out.sum = &contract.TestSummary{}
	}
	*r.out.sum = r.out.sum.Add(sum)
	r.out.unexplained = r.out.unexplained || r.files > 0
	r.names, r.files = nil, 0
}

// below reads lines of the form "  2 pending" that follow, and moves behind them.
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

// mocha puts an empty line before its sums, as tests that print seldom do. The
// failures come after them, each with a number and its titles.
func (r *runnerText) mocha(m []string) (contract.TestSummary, bool) {
	if r.at > 0 && r.lines[r.at-1] != "" {
		return contract.TestSummary{}, false
	}
	sum := contract.TestSummary{Passed: number(m[1])}
	r.below(mochaBelow, func(m []string) {
		if m[2] == "pending" {
			sum.Skipped = number(m[1])
		} else {
			sum.Failed = number(m[1])
		}
	})
	r.names = nil
	for n := r.at + 1; n < len(r.lines) && len(r.names) < min(sum.Failed, maxCases); n++ {
		if strings.HasPrefix(r.lines[n], "  "+itoa(len(r.names)+1)+") ") {
			r.names = append(r.names, mochaTitle(r.lines[n:]))
		}
	}
	return sum, true
}

var mochaNumber = regexp.MustCompile(`^ {2}\d+\) `)

// mochaTitle joins the titles of a failure, one on each line, the last with a colon.
func mochaTitle(all []string) string {
	var titles []string
	for n, line := range all[:min(len(all), 12)] {
		line = strings.TrimSpace(mochaNumber.ReplaceAllString(line, ""))
		if line == "" && n > 0 {
			break
		}
		titles = append(titles, strings.TrimSuffix(line, ":"))
		if strings.HasSuffix(line, ":") && n+1 < len(all) && !strings.HasPrefix(all[n+1], "       ") {
			break
		}
	}
	return name(strings.Join(titles, " "))
}

var uvuBelow = regexp.MustCompile(`^ {2}(Passed|Skipped): +(\d+)$`)

func (r *runnerText) uvu(m []string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	r.below(uvuBelow, func(m []string) {
		if m[1] == "Passed" {
			sum.Passed = number(m[2])
		} else {
			sum.Skipped = number(m[2])
		}
	})
	sum.Failed = max(0, number(m[1])-sum.Passed)
	return sum, true
}

var bunBelow = regexp.MustCompile(`^ *(\d+) (skip|todo|fail|filtered out|snapshots?|errors?|expect\(\) calls)$|^Ran (\d+) tests? across \d+ files?`)

// bun ends with "Ran 7 tests across 2 files": without it these are words of a test.
func (r *runnerText) bun(m []string) (contract.TestSummary, bool) {
	sum, ran := contract.TestSummary{Passed: number(m[1])}, false
	r.below(bunBelow, func(m []string) {
		switch m[2] {
		case "skip", "todo":
			sum.Skipped += number(m[1])
		case "fail":
			sum.Failed = number(m[1])
		case "":
			ran = true
		}
	})
	return sum, ran
}

// ava's sums are one block of lines; what was not a test is no failed test.
func (r *runnerText) ava(m []string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	add := func(m []string) {
		n := number(m[1])
		switch what := m[2]; {
		case strings.HasPrefix(what, "un"):
			r.files += n
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
	// Without "tests passed" some failed; then the marks tell how many passed.
	if sum.Failed > 0 || r.files > 0 {
		for _, line := range r.lines[:r.at] {
			if strings.HasPrefix(line, "  ✔ ") && !strings.HasPrefix(line, "  ✔ [expected fail]") {
				sum.Passed++
			}
		}
	}
	return sum, true
}

var pointsBelow = regexp.MustCompile(`^(?:ℹ|#) (suites|pass|fail|cancelled|skipped|skip|todo|duration_ms)\s+(\d+)(?:\.\d+)?$`)

// points are the sums of node's runner and of those that write TAP.
func (r *runnerText) points([]string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	told, spec := false, strings.HasPrefix(r.lines[r.at], "ℹ")
	r.below(pointsBelow, func(m []string) {
		n := number(m[2])
		switch m[1] {
		case "pass":
			sum.Passed, told = n, true
		case "fail", "cancelled":
			sum.Failed += n
		case "skip", "skipped", "todo":
			sum.Skipped += n
		}
	})
	if spec {
		r.names = nodeNames(r.lines[r.at:])
	}
	return sum, told
}

// nodeNames are the failed tests that node lists below its sums, each after its place.
func nodeNames(all []string) []string {
	var names []string
	for n := 1; n < len(all) && len(names) < maxCases; n++ {
		if m := nodeFailed.FindStringSubmatch(all[n]); m != nil && strings.HasPrefix(all[n-1], "test at ") {
			names = append(names, name(m[1]))
		}
	}
	return names
}

var unittestEnds = regexp.MustCompile(`^(OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)

// unittest says how many ran, and on one of the next lines what became of them.
func (r *runnerText) unittest(m []string) (contract.TestSummary, bool) {
	for _, line := range r.lines[r.at+1 : min(len(r.lines), r.at+5)] {
		end := unittestEnds.FindStringSubmatch(line)
		if end == nil {
			continue
		}
		return unittestSum(number(m[1]), end[2]), true
	}
	return contract.TestSummary{}, false
}

var unittestCount = regexp.MustCompile(`(failures|errors|skipped|expected failures|unexpected successes)=(\d+)`)

// unittestSum takes the counts apart: an expected failure has passed, an
// unexpected success has failed.
func unittestSum(ran int, text string) contract.TestSummary {
	var sum contract.TestSummary
	for part := range strings.SplitSeq(text, ", ") {
		m := unittestCount.FindStringSubmatch(part)
		if m == nil || !strings.HasPrefix(part, m[1]) {
			continue
		}
		switch m[1] {
		case "failures", "errors", "unexpected successes":
			sum.Failed += number(m[2])
		case "skipped":
			sum.Skipped += number(m[2])
		}
	}
	sum.Passed = max(0, ran-sum.Failed-sum.Skipped)
	return sum
}

var automakeBelow = regexp.MustCompile(`^# (PASS|SKIP|XFAIL|FAIL|XPASS|ERROR): +(\d+)$`)

func (r *runnerText) automake([]string) (contract.TestSummary, bool) {
	var sum contract.TestSummary
	told := false
	r.below(automakeBelow, func(m []string) {
		told = true
		n := number(m[2])
		switch m[1] {
		case "PASS", "XFAIL":
			sum.Passed += n
		case "SKIP":
			sum.Skipped += n
		default:
			sum.Failed += n
		}
	})
	return sum, told
}

var (
	vitestFailed  = regexp.MustCompile(`^ FAIL  (?:\|[^|]{1,60}\| )?(?:TS )?(\S+)(?: \[ .* \])?((?: > .+)?)$`)
	jestFailed    = regexp.MustCompile(`^ {2}● (.+)$`)
	avaFailed     = regexp.MustCompile(`^ {2}✘ \[fail\]: (.+?)(?: \(\d[\d.]*m?s\))?$`)
	bunFailed     = regexp.MustCompile(`^\(fail\) (.+?)(?: \[[\d.]+m?s\])?$`)
	uvuFailed     = regexp.MustCompile(`^ {3}FAIL {2}(?:(.+?) {2})?"(.*)"$`)
	numberedTitle = regexp.MustCompile(`^(\d+)\) (.+)$`)
	pytestFailed  = regexp.MustCompile(`^(?:FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - .*)?$`)
	ctestFailed   = regexp.MustCompile(`^\s+\d+ - (.+?) \((?:Failed|Timeout|SEGFAULT|Not Run|\w[\w ]*)\)`)
	makeFailed    = regexp.MustCompile(`^(?:FAIL|XPASS|ERROR): (\S+)$`)
	cargoFailed   = regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. FAILED$`)
	nodeFailed    = regexp.MustCompile(`^✖ (.+?) \([\d.]+ms\)$`)
	unittestFail  = regexp.MustCompile(`^(?:ERROR|FAIL): (\S+) \(([\w.]+)\)$`)
)

// failure takes in the name of a failed test.
func (r *runnerText) failure(line string) {
	add := func(n string) {
		if n = name(n); n != "" && len(r.names) < maxCases && !slices.Contains(r.names[max(0, len(r.names)-200):], n) {
			r.names = append(r.names, n)
		}
	}
	if m := vitestFailed.FindStringSubmatch(line); m != nil {
		if m[2] == "" || r.failedSuite() {
			r.file(m[1], "")
		} else {
			add(strings.ReplaceAll(strings.TrimPrefix(m[2], " > "), " > ", " › "))
		}
		return
	}
	if m := jestFailed.FindStringSubmatch(line); m != nil {
		switch {
		case m[1] == "Test suite failed to run":
			r.files++
		case m[1] != "Console" && !strings.HasPrefix(m[1], "Validation ") && !strings.HasPrefix(m[1], "Deprecation "):
			add(m[1])
		}
		return
	}
	for _, re := range []*regexp.Regexp{avaFailed, bunFailed, pytestFailed, ctestFailed, makeFailed, cargoFailed} {
		if m := re.FindStringSubmatch(line); m != nil {
			add(strings.ReplaceAll(m[1], " > ", " › "))
			return
		}
	}
	if m := uvuFailed.FindStringSubmatch(line); m != nil {
		add(strings.TrimPrefix(m[1]+" › "+m[2], " › "))
	}
	if m := unittestFail.FindStringSubmatch(line); m != nil {
		add(unittestID(m[1], m[2]))
	}
	if m := numberedTitle.FindStringSubmatch(line); m != nil && r.at+1 < len(r.lines) && strings.TrimSpace(r.lines[r.at+1]) == "Message:" {
		add(m[2]) // jasmine
	}
}

// failedSuite: vitest lists what is not a test under a heading of its own.
func (r *runnerText) failedSuite() bool {
	for n := r.at; n >= 0; n-- {
		switch {
		case strings.Contains(r.lines[n], " Failed Suites "):
			return true
		case strings.Contains(r.lines[n], " Failed Tests "):
			return false
		}
	}
	return false
}

// file notes a test file that failed as a whole.
func (r *runnerText) file(p, why string) {
	r.files++
	if f := r.site.rel(p); f != "" && len(r.out.problems) < maxFindings {
		text := "the test file failed outside of its tests"
		for _, line := range r.lines[r.at+1 : min(len(r.lines), r.at+6)] {
			if nodeError.MatchString(line) && why == "" {
				why = line
			}
		}
		if why != "" {
			text += ": " + why
		}
		r.out.problems = append(r.out.problems, problem{level: levelError, path: f, rule: "test-file", message: message(text)})
	}
}
