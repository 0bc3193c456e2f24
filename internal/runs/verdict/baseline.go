package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/pin"
)

// RuleMissing is the rule of the finding that tests of the base commit no longer run.
const RuleMissing = "tests-missing"

// RuleUnavailable is the rule of the finding that a check could not judge the commit.
const RuleUnavailable = "check-unavailable"

// Limits on the content of a comparison.
const (
	shownMissing   = 5    // missing tests listed in the finding
	maxComparedMsg = 2000 // maximum bytes of compared and generated messages
)

// Compared is the outcome of a check compared with its outcome on the base commit.
type Compared struct {
	// Result is the outcome after the comparison: Major, Medium and Minor count only new findings.
	Result contract.CheckResult
	// Findings are all findings on the changed code, each with its status.
	Findings []contract.Finding
	// Fixed are the findings of the base commit that no longer occur.
	Fixed []contract.Finding
}

// Compare compares the outcome of a check with base, the outcome of the same check on the base
// commit. pins are the findings about pinned tests, which take precedence for tests that a change
// removes; mode grades the missing tests that they do not mention. See "The baseline" in
// docs/ARCHITECTURE.md for the rules. Compare reads nothing and runs nothing.
func Compare(base, now Recorded, pins []contract.Finding, mode PinnedTests) Compared {
	out := Compared{Result: now.Result, Findings: slices.Clone(now.Findings)}
	tests := compareTests(base.Cases, now.Cases)
	out.Fixed = tests.match(base.Findings, out.Findings)
	if now.Result.Skipped {
		out.Fixed = nil // it is unknown what still occurs
	}
	if !base.Result.Skipped {
		lostScan(&out, now)
	}
	if f, lost := missingTests(base, now, pins, mode); lost {
		out.Findings = append(out.Findings, f)
	}
	r := &out.Result
	recount(r, now, out.Findings)
	r.Coverage = withBase(base.Result.Coverage, now.Result.Coverage)
	switch {
	case !now.Result.OK && !base.Result.OK && asOnBase(base, now, out.Findings, tests):
		r.OK, r.KnownOnly, r.Code = true, true, ""
		r.Message = fault.Clip("same as on the base commit: "+now.Result.Message, maxComparedMsg)
		redByMissing(r, out.Findings)
	case !now.Result.OK:
		r.Message = firstNew(out.Findings, now.Result.Message)
	default:
		redByMissing(r, out.Findings)
	}
	return out
}

// withBase adds the coverage of the base commit to that of a change.
func withBase(base, now *contract.Coverage) *contract.Coverage {
	if base == nil || now == nil || base.Lines == 0 {
		return now
	}
	out := *now
	out.Base = &base.LineCount
	return &out
}

// lostScan makes it a medium finding that a scan which judged the base cannot judge the change: the
// change may have made it impossible.
func lostScan(c *Compared, now Recorded) {
	found := false
	for i := range c.Findings {
		f := &c.Findings[i]
		if f.Category != contract.CategorySecurity || f.Rule != RuleUnavailable {
			continue
		}
		found = true
		if f.Status == contract.FindingNew && f.Severity == contract.SeverityMinor {
			f.Severity = contract.SeverityMedium
			c.Result.Minor, c.Result.Medium = max(0, c.Result.Minor-1), c.Result.Medium+1
		}
	}
	if now.Result.Skipped && !found {
		c.Findings = append(c.Findings, contract.Finding{
			Severity: contract.SeverityMedium, Category: now.Result.Check.Category, Rule: RuleUnavailable, Status: contract.FindingNew,
			Message: fault.Clip("the scan judged the base commit, but not the change: "+now.Result.Message, maxComparedMsg),
		})
	}
}

// recount counts new findings, starting from the check's own counts: its list of findings may be
// incomplete.
func recount(r *contract.CheckResult, now Recorded, findings []contract.Finding) {
	r.Known = 0
	for i, f := range findings {
		n := 0
		switch {
		case i >= len(now.Findings):
			n = 1 // made by the comparison
		case f.Status == contract.FindingKnown:
			n = -1
			r.Known++
		}
		switch f.Severity {
		case contract.SeverityMajor:
			r.Major = max(0, r.Major+n)
		case contract.SeverityMedium:
			r.Medium = max(0, r.Medium+n)
		default:
			r.Minor = max(0, r.Minor+n)
		}
	}
}

// redByMissing marks a check as failed if its findings report missing tests as major.
func redByMissing(r *contract.CheckResult, findings []contract.Finding) {
	for _, f := range findings {
		if f.Rule == RuleMissing && f.Severity == contract.SeverityMajor {
			r.OK, r.KnownOnly, r.Code, r.Message = false, false, contract.CodeFindings, f.Message
		}
	}
}

// firstNew returns the most informative line about the new failure of a check.
func firstNew(findings []contract.Finding, message string) string {
	for _, severity := range []contract.Severity{contract.SeverityMajor, contract.SeverityMedium} {
		for _, f := range findings {
			if f.Status != contract.FindingNew || f.Severity != severity {
				continue
			}
			if f.Location != "" {
				return f.Location + ": " + f.Message
			}
			return f.Message
		}
	}
	return message
}

// asOnBase reports whether a check that failed both on the base and now failed in the same way: it
// ended for the same reason, no other tests failed, and no new finding could have caused the
// failure.
func asOnBase(base, now Recorded, findings []contract.Finding, tests comparedTests) bool {
	b, n := base.Result, now.Result
	if n.Code != b.Code || len(tests.failed) > 0 || !allNamed(now, contract.TestFailed) && n.Summary.Failed > b.Summary.Failed {
		return false
	}
	if n.Major+n.Medium+n.Minor > len(now.Findings) && (n.Major > b.Major || n.Medium > b.Medium || n.Minor > b.Minor) {
		return false // unlisted findings may be new
	}
	byTests := n.Check.Category == contract.CategoryTest || n.Check.Category == contract.CategoryBuild
	for _, f := range findings {
		switch {
		case f.Status == contract.FindingKnown, f.Rule == RuleMissing:
		case byTests && (f.Severity == contract.SeverityMinor || tests.flaky[f.Rule]):
		case byFindings(n.Check) && f.Severity != contract.SeverityMajor:
		default:
			return false
		}
	}
	return true
}

// byFindings reports whether only major findings make a check fail: it is a detected scan, whose exit
// code does not count.
func byFindings(c contract.Check) bool {
	return c.Category == contract.CategorySecurity && c.ID != string(c.Category)+"-configured"
}

// allNamed reports whether all counted failures are listed by name.
func allNamed(r Recorded, status contract.TestStatus) bool {
	n := 0
	for _, c := range r.Cases {
		if c.Status == status {
			n++
		}
	}
	return status == contract.TestFailed && n >= r.Result.Summary.Failed
}

// comparedTests is the comparison of individual tests.
type comparedTests struct {
	known  map[string]int  // name → number of failed or flaky tests with it on the base
	red    map[string]bool // names of tests that are failed, flaky or quarantined on the base or now
	failed []string        // failed now, but not on the base
	flaky  map[string]bool // flaky or quarantined now
}

// compareTests finds new failures. If several packages contain tests with the same name, their
// numbers are compared.
func compareTests(base, now []contract.TestCase) comparedTests {
	out := comparedTests{known: map[string]int{}, red: map[string]bool{}, flaky: map[string]bool{}}
	for _, c := range base {
		if c.Status == contract.TestFailed || c.Status == contract.TestFlaky {
			out.known[c.Name]++
			out.red[c.Name] = true
		}
	}
	left := map[string]int{}
	maps.Copy(left, out.known)
	for _, c := range now {
		switch c.Status {
		case contract.TestFailed:
			if left[c.Name]--; left[c.Name] < 0 {
				out.failed = append(out.failed, c.Name)
			}
			out.red[c.Name] = true
		case contract.TestFlaky, contract.TestQuarantined:
			out.red[c.Name], out.flaky[c.Name] = true, true
		case contract.TestPassed, contract.TestSkipped:
		}
	}
	return out
}

// match sets the status of findings and returns the findings of the base that no longer occur. Each
// finding of the base matches at most one current finding. Findings about tests are matched by test
// name, all others by rule and message, first in the same file, then in any file, because files
// move. Then vulnerabilities are matched by their id and the dependency, unless they are more severe
// than on the base: another vulnerable version is no new vulnerability, but calling vulnerable code
// that was only imported is.
func (t comparedTests) match(base, now []contract.Finding) (fixed []contract.Finding) {
	taken := make([]bool, len(base))
	for i := range now {
		now[i].Status = contract.FindingNew
	}
	for pass, key := range []func(contract.Finding) string{t.keyHere, t.key, vulnerabilityKey} {
		free := map[string][]int{}
		for j := len(base) - 1; j >= 0; j-- {
			if k := key(base[j]); !taken[j] && k != "" {
				free[k] = append(free[k], j)
			}
		}
		for i := range now {
			k := key(now[i])
			at := free[k]
			if now[i].Status != contract.FindingNew || len(at) == 0 {
				continue
			}
			last := len(at) - 1
			if pass < 2 || !graver(now[i].Severity, base[at[last]].Severity) {
				now[i].Status, taken[at[last]], free[k] = contract.FindingKnown, true, at[:last]
			}
		}
	}
	for j, f := range base {
		if !taken[j] {
			fixed = append(fixed, f)
		}
	}
	return fixed
}

// vulnerabilityIDs match the ids of known vulnerabilities.
var vulnerabilityIDs = regexp.MustCompile(`^(?:CVE|GHSA|GO|OSV|PYSEC|RUSTSEC|MAL|npm)-[\w-]+$`)

func isVulnerability(f contract.Finding) bool {
	return f.Category == contract.CategorySecurity && vulnerabilityIDs.MatchString(f.Rule)
}

// vulnerabilityKey identifies a known vulnerability of a dependency, whose name begins the message. It
// is empty for other findings.
func vulnerabilityKey(f contract.Finding) string {
	dependency, _, ok := strings.Cut(f.Message, ": ")
	if !ok || !isVulnerability(f) {
		return ""
	}
	return f.Rule + "\x00" + dependency
}

// graver reports whether a severity is higher than another.
func graver(a, b contract.Severity) bool {
	all := contract.Severities()
	return slices.Index(all, a) < slices.Index(all, b)
}

// key identifies a finding regardless of its location.
func (t comparedTests) key(f contract.Finding) string {
	if t.red[f.Rule] {
		return "test\x00" + f.Rule
	}
	return string(f.Category) + "\x00" + f.Rule + "\x00" + timeless(f.Message)
}

// keyHere is like key, but includes the file.
func (t comparedTests) keyHere(f contract.Finding) string {
	file, _, _ := strings.Cut(f.Location, ":")
	return t.key(f) + "\x00" + file
}

// timelessParts match text that differs between two executions of the same code.
var timelessParts = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?`), "TIME"},
	{regexp.MustCompile(`0x[0-9a-fA-F]+`), "ADDRESS"},
	{regexp.MustCompile(`(?:\.{0,2}/)?(?:[\w.@+-]+/)+([\w.@+-]+)`), "$1"},
	{regexp.MustCompile(`(?:\d+(?:\.\d+)?(?:ns|µs|us|ms|s|m|h)\b|\d+(?:\.\d+)? ?(?:milliseconds?|seconds?|minutes?|ms|sec)\b|\d+m\d+(?:\.\d+)?s\b)`), "DURATION"},
	{regexp.MustCompile(`\b([Ll]ine) \d+`), "$1 N"},
	{regexp.MustCompile(`:\d+`), ":N"},
	{regexp.MustCompile(`\(\d+,\d+\)`), "(N)"},
}

func timeless(message string) string {
	message = message[:min(len(message), maxComparedMsg)]
	for _, p := range timelessParts {
		message = p.re.ReplaceAllString(message, p.by)
	}
	return strings.Join(strings.Fields(message), " ")
}

// missingTests returns the finding that tests of the base no longer run. There is none if the check
// ended before it could run them, because then it failed for that reason.
func missingTests(base, now Recorded, pins []contract.Finding, mode PinnedTests) (contract.Finding, bool) {
	ran := executed(now.Result.Summary)
	if !mode.On() || now.Result.Check.Category != contract.CategoryTest || !now.Result.OK && (ran == 0 || !slices.Contains([]contract.Code{contract.CodeTestsFailed, contract.CodeNoTests, ""}, now.Result.Code)) {
		return contract.Finding{}, false
	}
	message := ""
	if complete(base) && complete(now) {
		if lost := lostTests(base.Cases, now.Cases, pins); len(lost) > 0 {
			message = missingMessage(lost)
		}
	} else if before := executed(base.Result.Summary); ran < before && !slices.ContainsFunc(pins, takesAway) {
		message = fewerMessage(ran, before)
	}
	if message == "" {
		return contract.Finding{}, false
	}
	return missingFinding(message, mode), true
}

// missingFinding returns the finding for missing tests of the base, with a message.
func missingFinding(message string, mode PinnedTests) contract.Finding {
	f := contract.Finding{
		Severity: contract.SeverityMajor, Category: contract.CategoryTest, Rule: RuleMissing, Status: contract.FindingNew,
		Message: fault.Clip(message+"; restore them, or, if the goal is to change the tests, start again with --set verification.pinned_tests=report", maxComparedMsg),
	}
	if mode == PinnedReport {
		f.Severity = contract.SeverityMedium
	}
	return f
}

// fewerMessage returns the message for missing tests whose names are unknown.
func fewerMessage(ran, before int) string {
	if ran == 1 {
		return fmt.Sprintf("1 test ran, but %d ran on the base commit", before)
	}
	return fmt.Sprintf("%d tests ran, but %d ran on the base commit", ran, before)
}

// missingMessage returns the message that lists the missing tests, or the first of them.
func missingMessage(lost []string) string {
	if len(lost) == 1 {
		return "1 test from the base commit is missing: " + lost[0]
	}
	message := fmt.Sprintf("%d tests from the base commit are missing: %s", len(lost), strings.Join(lost[:min(len(lost), shownMissing)], ", "))
	if more := len(lost) - shownMissing; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return message
}

// LostChecks compares a plan with the checks that ran tests on the base commit. A check is lost if
// the plan contains neither its ID nor its command. A new test check replaces it (Check.Instead)
// and must run its tests; if there is no new test check, LostChecks returns a finding. The tests of
// a shard depend on the files, so shards are compared as a whole and do not replace other checks.
func LostChecks(base []contract.CheckResult, baseCommands map[string]string, stages [][]contract.Check, command func(id string) string) []contract.Finding {
	known, kept := map[string]bool{}, map[string]bool{} // by the base, by the plan
	for _, r := range base {
		note(known, r.Check)
		known["command "+baseCommands[r.Check.ID]] = true
	}
	var added []*contract.Check
	for _, stage := range stages {
		for i := range stage {
			c := &stage[i]
			if c.Category != contract.CategoryTest {
				continue
			}
			note(kept, *c)
			kept["command "+command(c.ID)] = true
			if c.Shards <= 1 && command(c.ID) != "" && !hasCheck(known, *c) && !known["command "+command(c.ID)] {
				added = append(added, c)
			}
		}
	}
	var lost []contract.Finding
	replaced := 0
	for _, r := range base {
		c := r.Check
		if c.Category != contract.CategoryTest || executed(r.Summary) == 0 || hasCheck(kept, c) || kept["command "+baseCommands[c.ID]] {
			continue
		}
		if len(added) > 0 {
			instead := added[min(replaced, len(added)-1)]
			instead.Instead = append(instead.Instead, c.ID)
			replaced++
			continue
		}
		lost = append(lost, contract.Finding{
			Severity: contract.SeverityMajor, Category: contract.CategoryTest, Rule: pinnedRule + string(pin.Excluded),
			Message: fault.Clip(fmt.Sprintf("the check %s ran %d tests on the base commit (`%s`), but no longer exists after the change",
				c.Name, executed(r.Summary), baseCommands[c.ID]), maxComparedMsg),
		})
	}
	return lost
}

// note records a check by its ID and by its kind, which its shards share.
func note(seen map[string]bool, c contract.Check) {
	seen["id "+c.ID], seen["kind "+kindOf(c)] = true, true
	if c.Shards > 1 {
		seen["shards "+kindOf(c)] = true
	}
}

// hasCheck reports whether a check was recorded: by its ID or, if either check is sharded, by its
// kind.
func hasCheck(seen map[string]bool, c contract.Check) bool {
	if c.Shards > 1 {
		return seen["kind "+kindOf(c)]
	}
	return seen["id "+c.ID] || seen["shards "+kindOf(c)]
}

// kindOf returns the ID of a check without its shard number: test-go for test-go-2.
func kindOf(c contract.Check) string {
	return strings.TrimRight(strings.TrimRight(c.ID, "0123456789"), "-")
}

// Replaced judges the outcome of a check that replaced others (Check.Instead), whose results on the
// base commit were base. All of its findings are new, and tests that only the replaced checks ran
// are missing. Tests are compared by the last part of their names, because runners format the rest
// differently, or by number if names are unknown.
func Replaced(base []Recorded, now Recorded, pins []contract.Finding, mode PinnedTests) Compared {
	out := Compared{Result: now.Result, Findings: slices.Clone(now.Findings)}
	for i := range out.Findings {
		out.Findings[i].Status = contract.FindingNew
	}
	if !mode.On() || !now.Result.OK && executed(now.Result.Summary) == 0 {
		return out
	}
	message := replacedTests(base, now, pins)
	if message == "" {
		return out
	}
	out.Findings = append(out.Findings, missingFinding(message, mode))
	recount(&out.Result, now, out.Findings)
	redByMissing(&out.Result, out.Findings)
	return out
}

// replacedTests returns the message that lists the tests of replaced checks that a check does not
// run, "" if there are none.
func replacedTests(base []Recorded, now Recorded, pins []contract.Finding) string {
	before, named := 0, true
	var cases []contract.TestCase
	for _, b := range base {
		before, named = before+executed(b.Result.Summary), named && complete(b) && !b.Result.Unnamed
		cases = append(cases, b.Cases...)
	}
	switch ran := executed(now.Result.Summary); {
	case named && complete(now) && !now.Result.Unnamed:
		count := map[string]int{}
		for _, c := range now.Cases {
			count[leaf(c.Name)]++
		}
		reported := goneByPins(pins)
		var lost []string
		for _, c := range cases {
			if count[leaf(c.Name)]--; count[leaf(c.Name)] < 0 && !reported(c.Name) {
				lost = append(lost, c.Name)
			}
		}
		if len(lost) > 0 {
			slices.Sort(lost)
			return missingMessage(lost)
		}
	case named:
		return fmt.Sprintf("this check replaces checks that ran %d tests on the base commit, but does not report which tests it ran", before)
	case ran < before && !slices.ContainsFunc(pins, takesAway):
		return fewerMessage(ran, before)
	}
	return ""
}

func executed(s contract.TestSummary) int { return s.Ran() }

// complete reports whether all tests of an outcome are known by name.
func complete(r Recorded) bool {
	s := r.Result.Summary
	return len(r.Cases) > 0 && len(r.Cases) == executed(s)+s.Skipped
}

// lostTests returns the tests of the base that no longer exist under any name. A new name in the
// same file or group counts as a rename.
func lostTests(base, now []contract.TestCase, pins []contract.Finding) []string {
	count := map[string]int{}
	for _, c := range now {
		count[c.Name]++
	}
	var gone []string
	for _, c := range base {
		if count[c.Name]--; count[c.Name] < 0 {
			gone = append(gone, c.Name)
		}
	}
	added := map[string]int{}
	for name, n := range count {
		if n > 0 {
			added[group(name)] += n
		}
	}
	slices.SortFunc(gone, cmp.Compare[string])
	reported := goneByPins(pins)
	return slices.DeleteFunc(gone, func(name string) bool {
		if reported(name) {
			return true
		}
		added[group(name)]--
		return added[group(name)] >= 0
	})
}

var parameter = regexp.MustCompile(`\[[^\[\]]*\]$`)

// group returns a test's name without its last part: its file, class, suite or package, depending
// on the runner.
func group(name string) string {
	head, _ := parted(name)
	return head
}

// leaf returns the last part of a test's name, with its parameters.
func leaf(name string) string {
	_, last := parted(name)
	return last + parameter.FindString(name)
}

// parted splits a test's name before its last part, ignoring parameters.
func parted(name string) (head, last string) {
	name = parameter.ReplaceAllString(name, "")
	for _, divider := range []string{" › ", " > ", "::", "/", "."} {
		if i := strings.LastIndex(name, divider); i >= 0 {
			return name[:i], name[i+len(divider):]
		}
	}
	return "", name
}

// takesAway reports whether a finding about pinned tests means that a test no longer runs.
func takesAway(f contract.Finding) bool {
	kind, ok := strings.CutPrefix(f.Rule, pinnedRule)
	return ok && slices.Contains([]pin.Kind{pin.Deleted, pin.RenamedAway, pin.Excluded}, pin.Kind(kind))
}

// oneSpelling normalizes test names, which runners and sources format differently.
var oneSpelling = strings.NewReplacer(" › ", " ", " > ", " ", "::", " ", "/", " ", ".", " ", "[", " [")

// goneByPins returns a function that reports whether a test was removed according to the findings
// about pinned tests. This includes tests nested in a named test, and its parameters.
func goneByPins(pins []contract.Finding) func(name string) bool {
	var names []string
	for _, f := range pins {
		if takesAway(f) {
			names = append(names, pin.NameIn(f.Message))
		}
	}
	return namedBy(names)
}

// namedBy returns a function that reports whether the name of a test, as a runner formats it, contains
// one of some names from sources.
func namedBy(sources []string) func(name string) bool {
	var names []string
	for _, name := range sources {
		if name = strings.TrimSpace(oneSpelling.Replace(name)); name != "" {
			names = append(names, " "+name+" ")
		}
	}
	return func(name string) bool {
		padded := " " + oneSpelling.Replace(name) + " "
		return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(padded, n) })
	}
}
