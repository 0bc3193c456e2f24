package output

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// failedNames are the names of one runner's failed tests without duplicates: jest repeats them in a
// summary.
type failedNames struct {
	list []string
	seen map[string]bool
}

// wait stores the name of a failed test until the next summary of its runner.
func (r *runnerText) wait(runner, n string) {
	names := r.names[runner]
	if names == nil {
		if r.names == nil {
			r.names = map[string]*failedNames{}
		}
		names = &failedNames{seen: map[string]bool{}}
		r.names[runner] = names
	}
	if n = Name(n); n != "" && !names.seen[n] && len(names.list) < MaxCases {
		names.seen[n] = true
		names.list = append(names.list, n)
	}
}

// take returns the names that belong to a summary of a runner, at most as many as it counts.
// Surplus names are not its tests. Only vitest prints failures and summaries on different streams,
// so its surplus names may belong to a later run.
func (r *runnerText) take(runner string, failed int) []string {
	names := r.names[runner]
	if names == nil {
		return nil
	}
	taken := names.list[:min(failed, len(names.list))]
	if runner != "vitest" {
		delete(r.names, runner)
		return taken
	}
	for _, n := range taken {
		delete(names.seen, n)
	}
	names.list = names.list[len(taken):]
	return taken
}

// failed adds the case of a failed test.
func (r *runnerText) failed(n string) {
	if n != "" && len(r.out.Cases) < MaxCases {
		r.out.Cases = append(r.out.Cases, Case{TestCase: contract.TestCase{Name: n, Status: contract.TestFailed}})
	}
}

// heading identifies a runner's last heading and thus the meaning of the lines below it.
type heading int

const (
	noHeading    heading = iota
	failedSuites         // vitest: files and hooks
	failedTests          // vitest
	failedCTests
	skippedCTests
)

// notice records the context that later lines need.
func (r *runnerText) notice(line string) {
	switch {
	case strings.Contains(line, " Failed Suites "):
		r.heading = failedSuites
	case strings.Contains(line, " Failed Tests "):
		r.heading = failedTests
	case line == "The following tests FAILED:":
		r.heading = failedCTests
	case line == "The following tests did not run:":
		r.heading = skippedCTests
	case strings.HasPrefix(line, "  ✔ ") && !strings.HasPrefix(line, "  ✔ [expected fail]"):
		r.marks++
	}
}

// listing tracks the failed tests that may be listed below a summary.
type listing struct {
	runner string
	left   int // failed tests without a name so far
	named  int
}

// listed reads a line of the lists that mocha, node and CTest print below their summaries.
func (r *runnerText) listed(line string) bool {
	switch {
	case r.heading == failedCTests || r.heading == skippedCTests:
		return r.ctest(line)
	case r.listing.left <= 0:
		return false
	case r.listing.runner == "mocha" && strings.HasPrefix(line, "  "+itoa(r.listing.named+1)+") "):
		r.list(mochaTitle(r.lines[r.at:]))
		return true
	case r.listing.runner == "node" && r.at > 0 && strings.HasPrefix(r.lines[r.at-1], "test at "):
		m := nodeFailed.FindStringSubmatch(line)
		if m != nil {
			r.list(Name(m[1]))
		}
		return m != nil
	}
	return false
}

// list records the name of a failed test of the summary above.
func (r *runnerText) list(n string) {
	r.listing.left--
	r.listing.named++
	r.failed(n)
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
	return Name(strings.Join(titles, " "))
}

var (
	vitestFailed  = regexp.MustCompile(`^ FAIL  (?:\|[^|]{1,60}\| )?(?:TS )?(\S+)(?: \[ .* \])?((?: > .+)?)$`)
	jestFailed    = regexp.MustCompile(`^ {2}● (.+)$`)
	uvuFailed     = regexp.MustCompile(`^ {3}FAIL {2}(?:(.+?) {2})?"(.*)"$`)
	numberedTitle = regexp.MustCompile(`^(\d+)\) (.+)$`)
	ctestListed   = regexp.MustCompile(`^\s+\d+ - (.+?) \((\w[\w ]*)\)`)
	nodeFailed    = regexp.MustCompile(`^✖ (.+?) \([\d.]+ms\)$`)
	unittestFail  = regexp.MustCompile(`^(?:ERROR|FAIL): (\S+) \(([\w.]+)\)$`)
)

// failedLines name a failed test on one line, before the summary.
var failedLines = []struct {
	runner string
	re     *regexp.Regexp
}{
	{"ava", regexp.MustCompile(`^ {2}✘ \[fail\]: (.+?)(?: \(\d[\d.]*m?s\))?$`)},
	{"bun", regexp.MustCompile(`^\(fail\) (.+?)(?: \[[\d.]+m?s\])?$`)},
	{"pytest", regexp.MustCompile(`^(?:FAILED|ERROR|SUBFAIL(?:ED)?(?:\[.*?\])? ?(?:\(.*?\))?) (\S+?\.py(?:::.+?)?)(?: - .*)?$`)},
	{"automake", regexp.MustCompile(`^(?:FAIL|XPASS|ERROR): (\S+)$`)},
	{"cargo", regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. FAILED$`)},
}

// ctest reads a line below a CTest heading.
func (r *runnerText) ctest(line string) bool {
	m := ctestListed.FindStringSubmatch(line)
	below := r.listing.runner == "ctest"
	switch {
	case strings.HasPrefix(line, "The following tests "): // the heading itself
	case m == nil:
		r.heading = noHeading
		return false
	case r.heading == skippedCTests && below:
		r.skippedCTest(m[2])
	case r.heading == skippedCTests, m[2] == "Skipped", m[2] == "Disabled":
	case !below:
		r.wait("ctest", m[1])
	case r.listing.left > 0:
		r.list(Name(m[1]))
	}
	return true
}

// skippedCTest corrects the summary above, which counts a skipped test as passed and a disabled
// test not at all.
func (r *runnerText) skippedCTest(why string) {
	switch why {
	case "Skipped":
		r.out.Reported.Passed = max(0, r.out.Reported.Passed-1)
		r.out.Reported.Skipped++
	case "Disabled":
		r.out.Reported.Skipped++
	}
}

// failure reads the name of a failed test that precedes the summary.
func (r *runnerText) failure(line string) {
	if m := vitestFailed.FindStringSubmatch(line); m != nil {
		r.vitest(m)
		return
	}
	if m := jestFailed.FindStringSubmatch(line); m != nil {
		r.jest(m[1])
		return
	}
	for _, f := range failedLines {
		if m := f.re.FindStringSubmatch(line); m != nil {
			r.wait(f.runner, strings.ReplaceAll(m[1], " > ", " › "))
			return
		}
	}
	if m := uvuFailed.FindStringSubmatch(line); m != nil {
		r.wait("uvu", strings.TrimPrefix(m[1]+" › "+m[2], " › "))
	}
	if m := unittestFail.FindStringSubmatch(line); m != nil {
		r.wait("unittest", unittestID(m[1], m[2]))
	}
	if m := numberedTitle.FindStringSubmatch(line); m != nil && r.at+1 < len(r.lines) && strings.TrimSpace(r.lines[r.at+1]) == "Message:" {
		r.wait("jasmine", m[2])
	}
}

// vitest lists failures outside tests under a separate heading.
func (r *runnerText) vitest(m []string) {
	if m[2] == "" || r.heading == failedSuites {
		r.file(m[1])
		return
	}
	r.wait("vitest", strings.ReplaceAll(strings.TrimPrefix(m[2], " > "), " > ", " › "))
}

// jest uses the same marker for failed tests and for other messages.
func (r *runnerText) jest(title string) {
	switch {
	case title == "Test suite failed to run":
		r.broken = true
	case title != "Console" && !strings.HasPrefix(title, "Validation ") && !strings.HasPrefix(title, "Deprecation "):
		r.wait("jest", title)
	}
}

// file records a test file that failed as a whole, with the error below it.
func (r *runnerText) file(p string) {
	r.broken = true
	f := r.paths.Rel(p)
	if f == "" || len(r.out.Problems) >= MaxFindings {
		return
	}
	text := "the test file failed outside of its tests"
	for _, line := range r.lines[r.at+1 : min(len(r.lines), r.at+6)] {
		if nodeError.MatchString(line) {
			text += ": " + line
			break
		}
	}
	r.out.Problems = append(r.out.Problems, Problem{Level: Error, Path: f, Rule: "test-file", Message: Message(text)})
}
