package verify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

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
	if len(f.list) >= output.MaxFindings {
		f.dropped++
		if sev == contract.SeverityMajor {
			f.majors++
		}
		return
	}
	f.seen[finding] = true
	f.list = append(f.list, finding)
}

// bounded returns the list, with a note if some findings did not fit.
func (f *findings) bounded() []contract.Finding {
	if f.dropped == 0 {
		return f.list
	}
	return append(f.list, contract.Finding{
		Severity: contract.SeverityMinor, Category: f.category,
		Message: fmt.Sprintf("%d more findings are not listed", f.dropped),
	})
}

// judge turns one execution into findings.
func (r *run) judge(f *findings, e *execution) {
	for _, note := range e.notes {
		f.add(contract.SeverityMinor, note, "", "")
	}
	for _, c := range e.Parsed.Cases {
		r.judgeCase(f, c)
	}
	if o := e.startFailure(); o != nil {
		f.add(r.unavailable(), o.message(e), "", verdict.RuleUnavailable)
		return
	}
	if e.unjudged != "" && !r.absent() {
		f.add(contract.SeverityMinor, "skipped: "+e.unjudged, "", verdict.RuleUnavailable)
	}
	explained := len(e.Parsed.Failed()) > 0
	for _, p := range e.Parsed.Problems {
		explained = explained || p.Level == output.Error
		f.add(r.graded(p), p.Message, p.Location(), p.Rule)
	}
	r.judgeNetwork(f, e)
	switch {
	case !e.failed():
	case e.interruption() != "":
		f.add(r.severity(output.Error), brokenMessage(e, r), "", string(e.interruption()))
	case !explained:
		f.add(r.severity(output.Error), unexplained(e), "", "exit-code")
	}
}

// judgeNetwork reports the network requests of a failed check that were blocked.
func (r *run) judgeNetwork(f *findings, e *execution) {
	key := checks.NetworkSetting(r.job.Check.Category)
	switch {
	case !e.failed():
	case len(e.Result.Refused) > 0:
		hosts := refusedHosts(e.Result.Refused)
		f.add(contract.SeverityMinor, fmt.Sprintf("the command tried to reach hosts that are not allowed: %s. Only the operator can allow them, in %s",
			strings.Join(hosts, ", "), key), "", "network")
	case len(e.Invocation.Network) == 0 && offline.Match(tail(e)):
		f.add(contract.SeverityMinor, fmt.Sprintf("a download was blocked because commands have no network access; to allow it, list the hosts in %s, for example as [packages.example.com]", key), "", "network")
	}
}

// refusedHosts returns a few of the refused hosts, without duplicates. Their names are untrusted
// text from the command.
func refusedHosts(all []string) []string {
	const most, longest = 5, 100
	hosts := slices.Compact(slices.Sorted(slices.Values(all)))
	more := len(hosts) - most
	hosts = hosts[:min(len(hosts), most)]
	for i := range hosts {
		hosts[i] = output.Bound(hosts[i], longest)
	}
	if more > 0 {
		hosts = append(hosts, fmt.Sprintf("and %d more", more))
	}
	return hosts
}

// offline matches the messages of tools that cannot reach a registry.
var offline = regexp.MustCompile(`(?i)GOPROXY=off|no required module provides package|ENOTFOUND|EAI_AGAIN|ENOTCACHED|offline mode|--offline|Could not resolve host|Temporary failure in name resolution|network is unreachable`)

func (r *run) judgeCase(f *findings, c output.Case) {
	switch c.Status {
	case contract.TestFailed:
		f.add(r.severity(output.Error), caseMessage(c, "failed"), c.Location, c.Name)
	case contract.TestFlaky:
		f.add(contract.SeverityMedium, caseMessage(c, "is flaky: it failed, then passed when run again"), c.Location, c.Name)
	case contract.TestPassed, contract.TestSkipped, contract.TestQuarantined:
	}
}

func caseMessage(c output.Case, what string) string {
	text := c.Name + " " + what
	if line := fault.FirstLine(c.Message); line != "" {
		text += ": " + line
	}
	return fault.Clip(text, output.MaxMessage)
}

// unavailable returns the severity of a command that could not start: minor for a lint.
func (r *run) unavailable() contract.Severity {
	if r.job.Check.Category == contract.CategoryLint {
		return contract.SeverityMinor
	}
	return r.severity(output.Error)
}

// severity converts a tool's level (error, warning or note) to a severity.
func (r *run) severity(l output.Level) contract.Severity {
	c := r.job.Check.Category
	switch {
	case l == output.Error && r.job.Severity != "":
		return r.job.Severity
	case l == output.Error && c == contract.CategoryLint:
		return contract.SeverityMedium
	case l == output.Error:
		return contract.SeverityMajor
	case l == output.Warning && (c == contract.CategorySecurity || c == contract.CategoryTest):
		return contract.SeverityMedium
	}
	return contract.SeverityMinor
}
