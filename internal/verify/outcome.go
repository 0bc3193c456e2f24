package verify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// outcome sums up what ran.
func (r *run) outcome() Outcome {
	o := Outcome{Duration: time.Since(r.started)}
	f := findings{category: r.job.check.Category, list: r.job.known}
	for _, e := range r.executions {
		r.judge(&f, e)
	}
	cases := r.cases()
	if r.ranNothing() {
		f.list = append(f.list, r.noTests())
	}
	o.Cases, o.Summary = caseList(cases, &f), r.summary()
	o.Unnamed = r.job.check.Category == contract.CategoryTest && slices.ContainsFunc(r.executions, func(e *execution) bool {
		return !e.run.setup && e.obstacle() == nil && !e.counted
	})
	o.Summary.DurationMS = o.Duration.Milliseconds()
	o.Findings = f.bounded()
	o.Artifacts = r.artifacts()
	o.Log = []byte(clean(string(r.log.Bytes())))
	o.Code = r.code(o, f)
	o.OK = o.Code == ""
	if !o.OK {
		o.Message = r.telling(o)
	}
	o.Started = true
	if e := r.unstarted(); e != nil {
		o.Started, o.Cause = false, e.obstacle().what
	}
	return o
}

// findings collects the findings of one category, each once.
type findings struct {
	category contract.Category
	list     []contract.Finding
	seen     map[contract.Finding]bool
	dropped  int
	majors   int
}

func (f *findings) add(sev contract.Severity, message, location, rule string) {
	finding := contract.Finding{
		Severity: sev, Category: f.category, Message: message,
		Location: location, Rule: rule,
	}
	if f.seen == nil {
		f.seen = map[contract.Finding]bool{}
	}
	if f.seen[finding] {
		return
	}
	if len(f.list) >= maxFindings {
		f.dropped++
		if sev == contract.SeverityMajor {
			f.majors++
		}
		return
	}
	f.seen[finding] = true
	f.list = append(f.list, finding)
}

// bounded is the list with a note about what did not fit.
func (f *findings) bounded() []contract.Finding {
	if f.dropped == 0 {
		return f.list
	}
	return append(f.list, contract.Finding{
		Severity: contract.SeverityMinor, Category: f.category,
		Message: fmt.Sprintf("%d more findings are left out", f.dropped),
	})
}

// judge turns one execution into findings.
func (r *run) judge(f *findings, e *execution) {
	for _, note := range e.notes {
		f.add(contract.SeverityMinor, note, "", "")
	}
	for _, c := range e.parsed.cases {
		r.judgeCase(f, c)
	}
	if o := e.obstacle(); o != nil {
		f.add(r.unavailable(), o.message(e), "", ruleUnavailable)
		return
	}
	told := len(e.parsed.failed()) > 0
	for _, p := range e.parsed.problems {
		told = told || p.level == levelError
		f.add(r.severity(p.level), p.message, p.location(), p.rule)
	}
	r.judgeNetwork(f, e)
	switch {
	case !e.red():
	case e.broken() != "":
		f.add(r.severity(levelError), brokenMessage(e, r), "", string(e.broken()))
	case !told:
		f.add(r.severity(levelError), unexplained(e), "", "exit-code")
	}
}

// NetworkSetting names the line of configuration that lists the hosts which checks of
// a category may reach.
func NetworkSetting(c contract.Category) string {
	if c == contract.CategoryCustom {
		return "network of the check in verification.custom"
	}
	return fmt.Sprintf("verification.%s.network", c)
}

// judgeNetwork says of a red check what it wanted of the network and did not
// get.
func (r *run) judgeNetwork(f *findings, e *execution) {
	key := NetworkSetting(r.job.check.Category)
	switch {
	case !e.red():
	case len(e.result.Refused) > 0:
		hosts := refusedHosts(e.result.Refused)
		f.add(contract.SeverityMinor, fmt.Sprintf("the command tried to reach hosts that are not allowed: %s. Only the operator can allow them, in %s",
			strings.Join(hosts, ", "), key), "", "network")
	case len(e.run.network) == 0 && offline.Match(tail(e)):
		f.add(contract.SeverityMinor, fmt.Sprintf("a download was blocked because commands have no network; to allow it, list the hosts in %s, such as [registry.npmjs.org]", key), "", "network")
	}
}

// refusedHosts names some of many hosts, each once. They are what a command
// asked for: text that it chose.
func refusedHosts(all []string) []string {
	const most, longest = 5, 100
	hosts := union(all, nil)
	more := len(hosts) - most
	hosts = hosts[:min(len(hosts), most)]
	for i := range hosts {
		hosts[i] = bound(hosts[i], longest)
	}
	if more > 0 {
		hosts = append(hosts, fmt.Sprintf("and %d more", more))
	}
	return hosts
}

// offline matches what tools print when they may not reach a registry.
var offline = regexp.MustCompile(`(?i)GOPROXY=off|no required module provides package|ENOTFOUND|EAI_AGAIN|ENOTCACHED|offline mode|--offline|Could not resolve host|Temporary failure in name resolution|network is unreachable`)

// tail is the end of what a command printed.
func tail(e *execution) []byte {
	const size = 16 << 10
	out, errs := e.result.Stdout, e.result.Stderr
	return slices.Concat(out[max(0, len(out)-size):], errs[max(0, len(errs)-size):])
}

func (r *run) judgeCase(f *findings, c testCase) {
	switch c.Status {
	case contract.TestFailed:
		f.add(r.severity(levelError), caseMessage(c, "failed"), c.Location, c.Name)
	case contract.TestFlaky:
		f.add(contract.SeverityMedium, caseMessage(c, "is flaky: it failed, then passed when run again"), c.Location, c.Name)
	case contract.TestPassed, contract.TestSkipped:
	}
}

func caseMessage(c testCase, what string) string {
	text := c.Name + " " + what
	if line := firstLine(c.Message); line != "" {
		text += ": " + line
	}
	return fault.Clip(text, maxMessage)
}

// unavailable grades that a command could not start: of a lint it is worth a note.
func (r *run) unavailable() contract.Severity {
	if r.job.check.Category == contract.CategoryLint {
		return contract.SeverityMinor
	}
	return r.severity(levelError)
}

// severity grades what a tool calls an error, a warning or a note.
func (r *run) severity(l level) contract.Severity {
	c := r.job.check.Category
	switch {
	case l == levelError && r.job.severity != "":
		return r.job.severity
	case l == levelError && c == contract.CategoryLint:
		return contract.SeverityMedium
	case l == levelError:
		return contract.SeverityMajor
	case l == levelWarning && (c == contract.CategorySecurity || c == contract.CategoryTest):
		return contract.SeverityMedium
	}
	return contract.SeverityMinor
}

// brokenMessage says what ended a command and what to do about it.
func brokenMessage(e *execution, r *run) string {
	command := fault.Clip(clean(e.run.String()), 200)
	switch {
	case e.result.TimedOut:
		limit, _ := r.timeout()
		return fmt.Sprintf("`%s` was ended at the time limit of the check, %s", command, limit)
	case e.result.LimitExceeded != "":
		return fmt.Sprintf("`%s` was ended because it went over the limit of %s", command, e.result.LimitExceeded)
	case e.result.Signal != "":
		return fmt.Sprintf("`%s` was ended by the signal %s%s", command, e.result.Signal, because(e))
	}
	return fmt.Sprintf("`%s` crashed: exit code %d, as after signal %d%s", command, e.result.ExitCode, e.result.ExitCode-128, because(e))
}

// unexplained is the finding about a red command that names no cause itself.
func unexplained(e *execution) string {
	text := fmt.Sprintf("`%s` ended with exit code %d", fault.Clip(clean(e.run.String()), 200), e.result.ExitCode)
	switch {
	case e.parsed.summary().Failed > 0:
		text = fmt.Sprintf("%d tests failed in `%s`", e.parsed.summary().Failed, fault.Clip(clean(e.run.String()), 200))
	case e.parsed.summary().Passed+len(e.parsed.cases) > 0:
		text += " although no test failed"
	case e.counted && e.parsed.summary() == contract.TestSummary{}:
		text += " without running a test"
	}
	return fault.Clip(text+because(e), maxMessage)
}

// because quotes the line of the output that tells most.
func because(e *execution) string {
	line := tellingLine(e.result.Stderr)
	if line == "" {
		line = tellingLine(e.result.Stdout)
	}
	if line == "" {
		return ""
	}
	return ": " + fault.Clip(line, 300)
}

// tellingLine is the last line that speaks of an error, else the last line.
func tellingLine(out []byte) string {
	all := lines(out[max(0, len(out)-16<<10):])
	last := ""
	for n := len(all) - 1; n >= 0; n-- {
		line := strings.TrimSpace(clean(all[n]))
		if line == "" {
			continue
		}
		low := strings.ToLower(line)
		if strings.Contains(low, "error") || strings.Contains(low, "fail") || strings.Contains(low, "not found") || strings.Contains(low, "denied") {
			return line
		}
		if last == "" {
			last = line
		}
	}
	return last
}

// cases are those of all executions; a command that says nothing of tests is
// one case itself.
func (r *run) cases() []testCase {
	var all []testCase
	if r.job.check.Category != contract.CategoryTest {
		return nil
	}
	for _, e := range r.executions {
		switch {
		case e.run.setup, e.obstacle() != nil:
		case e.counted:
			all = append(all, e.parsed.cases...)
		default:
			all = append(all, commandAsCase(e))
		}
	}
	return all
}

// summary counts the tests of all executions.
func (r *run) summary() contract.TestSummary {
	var sum contract.TestSummary
	if r.job.check.Category != contract.CategoryTest {
		return sum
	}
	for _, e := range r.executions {
		switch {
		case e.run.setup, e.obstacle() != nil:
		case e.counted:
			sum = sum.Add(e.parsed.summary())
		default:
			sum = sum.Add(summarise([]testCase{commandAsCase(e)}))
		}
	}
	return sum
}

func commandAsCase(e *execution) testCase {
	c := testCase{}
	c.Name = name(e.run.String())
	c.DurationMS = e.result.Duration.Milliseconds()
	c.Status = contract.TestPassed
	if e.red() {
		c.Status, c.Message = contract.TestFailed, unexplained(e)
	}
	return c
}

// caseList bounds number and texts of cases. Failed ones are kept first, since
// they are what is read; the order stays.
func caseList(cases []testCase, f *findings) []contract.TestCase {
	room := maxCases
	for _, c := range cases {
		if c.Status == contract.TestFailed || c.Status == contract.TestFlaky {
			room--
		}
	}
	room = max(0, room)
	var out []contract.TestCase
	texts := maxMessages
	for _, c := range cases {
		red := c.Status == contract.TestFailed || c.Status == contract.TestFlaky
		if !red {
			if room == 0 {
				continue
			}
			room--
		}
		if len(out) >= maxCases {
			break
		}
		if texts -= len(c.Message); texts < 0 {
			c.Message = ""
		}
		out = append(out, c.TestCase)
	}
	if left := len(cases) - len(out); left > 0 {
		f.add(contract.SeverityMinor, fmt.Sprintf("%d more test cases are counted but not listed", left), "", "")
	}
	return out
}

func summarise(cases []testCase) contract.TestSummary {
	var s contract.TestSummary
	for _, c := range cases {
		switch c.Status {
		case contract.TestPassed:
			s.Passed++
		case contract.TestFailed:
			s.Failed++
		case contract.TestSkipped:
			s.Skipped++
		case contract.TestFlaky:
			s.Flaky++
		}
	}
	return s
}

// ranNothing: a test check that ended well, in which no test did anything.
func (r *run) ranNothing() bool {
	if r.job.check.Category != contract.CategoryTest || len(r.executions) == 0 {
		return false
	}
	for _, e := range r.executions {
		if e.red() {
			return false
		}
	}
	s := r.summary()
	return s.Passed+s.Failed+s.Flaky == 0
}

// noTests: one shard of several may be without a test where another has some;
// only the whole can lack what is required.
func (r *run) noTests() contract.Finding {
	what, severity := "no tests were run", contract.SeverityMinor
	whole := r.job.check.Shards <= 1
	if skipped := r.summary().Skipped; skipped > 0 {
		what = fmt.Sprintf("no tests were run: all %d were skipped", skipped)
		if whole {
			severity = contract.SeverityMedium
		}
	}
	return noTests(what, severity, r.env.Settings.RequireTests && whole)
}

func (r *run) artifacts() []ArtifactFile {
	var all []ArtifactFile
	for _, e := range r.executions {
		s := site{root: r.root, dir: e.run.dir}
		all = append(all, artifactFiles(r.dir, s, e.parsed.artifacts)...)
	}
	return uniqueNames(all[:min(len(all), maxArtifacts)])
}

// code says why the check is not OK.
func (r *run) code(o Outcome, f findings) contract.Code {
	red := o.Summary.Failed > 0 || f.majors > 0
	for _, want := range []contract.Code{contract.CodeTimeout, contract.CodeCommandCrashed} {
		for _, e := range r.executions {
			if e.broken() == want {
				return want
			}
		}
	}
	lint := r.job.check.Category == contract.CategoryLint
	for _, e := range r.executions {
		red = red || e.red() && (!lint || e.obstacle() == nil)
	}
	if r.unstarted() != nil && !lint && o.Summary.Failed == 0 {
		return contract.CodeMissing
	}
	none := false
	for _, finding := range o.Findings {
		if finding.Severity == contract.SeverityMajor {
			none = none || finding.Rule == ruleNoTests
			red = red || finding.Rule != ruleNoTests
		}
	}
	switch {
	case red && r.job.check.Category == contract.CategoryTest:
		return contract.CodeTestsFailed
	case red:
		return contract.CodeCheckFailed
	case none:
		return contract.CodeNoTests
	}
	return ""
}

// telling is the line that says most about a red check.
func (r *run) telling(o Outcome) string {
	for _, e := range r.executions {
		if o := e.obstacle(); o != nil && r.job.check.Category != contract.CategoryLint {
			return o.message(e)
		}
		if e.broken() != "" {
			return brokenMessage(e, r)
		}
	}
	var best contract.Finding
	for _, f := range o.Findings {
		if best.Message == "" || rank(f.Severity) > rank(best.Severity) {
			best = f
		}
	}
	text := best.Message
	if best.Location != "" {
		text = best.Location + ": " + text
	}
	if more := o.Summary.Failed - 1; more > 0 {
		text = fault.Clip(text, maxMessage-40) + fmt.Sprintf(" (and %d more failed tests)", more)
	}
	return text
}

func rank(s contract.Severity) int {
	switch s {
	case contract.SeverityMajor:
		return 3
	case contract.SeverityMedium:
		return 2
	default:
		return 1
	}
}
