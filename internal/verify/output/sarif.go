package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
)

// parseSARIF reads the results of a static analysis.
func parseSARIF(data []byte, s Paths) (Results, error) {
	var log sarif.Report
	if err := json.Unmarshal(data, &log); err != nil {
		return Results{}, err
	}
	if log.Version == "" && log.Runs == nil {
		return Results{}, errors.New("it is not a SARIF log")
	}
	var out Results
	for _, run := range log.Runs {
		if run == nil {
			continue
		}
		rules := sarifRules(run)
		for _, r := range run.Results {
			if r != nil && counts(r) {
				out.Problems = append(out.Problems, sarifProblem(run, r, rules, s))
			}
		}
		out.Problems = append(out.Problems, sarifFailures(run)...)
	}
	return out, nil
}

// counts reports whether a result is a current problem.
func counts(r *sarif.Result) bool {
	if r.Kind != "" && r.Kind != "fail" && r.Kind != "review" && r.Kind != "open" {
		return false
	}
	return r.BaselineState == nil || *r.BaselineState != "absent"
}

func sarifProblem(run *sarif.Run, r *sarif.Result, rules map[string]*sarif.ReportingDescriptor, s Paths) Problem {
	rule := sarifRule(run, r, rules)
	p := Problem{Level: sarifLevel(r.Level, rule), Rule: Name(sarifRuleID(r, rule)), Message: Message(sarifText(r, rule))}
	p.Message = cmp.Or(p.Message, p.Rule)
	// A suppression in the code may be part of the change under review, so it makes a result minor
	// instead of hiding it.
	if len(r.Suppressions) > 0 {
		p.Level, p.Message = Note, Message("suppressed: "+p.Message)
	}
	for _, l := range r.Locations {
		if l == nil || l.PhysicalLocation == nil || l.PhysicalLocation.ArtifactLocation == nil {
			continue
		}
		p.Path = s.Rel(sarifURI(run, l.PhysicalLocation.ArtifactLocation))
		if region := l.PhysicalLocation.Region; region != nil && region.StartLine != nil {
			p.Line = max(0, *region.StartLine)
		}
		break
	}
	return p
}

// sarifURI resolves a location against the base that it names.
func sarifURI(run *sarif.Run, a *sarif.ArtifactLocation) string {
	if a.URI == nil {
		return ""
	}
	uri := *a.URI
	if u, err := url.PathUnescape(uri); err == nil && !strings.Contains(uri, "://") {
		uri = u
	}
	if a.URIBaseID != nil && !strings.Contains(uri, "://") && !strings.HasPrefix(uri, "/") {
		if base, ok := run.OriginalUriBaseIds[*a.URIBaseID]; ok && base.URI != nil && strings.HasPrefix(*base.URI, "file:///") {
			return strings.TrimSuffix(*base.URI, "/") + "/" + uri
		}
	}
	return uri
}

// sarifRules maps the ids of a run's rules to the rules.
func sarifRules(run *sarif.Run) map[string]*sarif.ReportingDescriptor {
	rules := map[string]*sarif.ReportingDescriptor{}
	if run.Tool == nil || run.Tool.Driver == nil {
		return rules
	}
	for _, d := range run.Tool.Driver.Rules {
		if d != nil && d.ID != nil {
			rules[*d.ID] = d
		}
	}
	return rules
}

func sarifRule(run *sarif.Run, r *sarif.Result, rules map[string]*sarif.ReportingDescriptor) *sarif.ReportingDescriptor {
	if r.RuleID != nil {
		return rules[*r.RuleID]
	}
	if run.Tool == nil || run.Tool.Driver == nil || r.RuleIndex < 0 || r.RuleIndex >= len(run.Tool.Driver.Rules) {
		return nil
	}
	return run.Tool.Driver.Rules[r.RuleIndex]
}

func sarifRuleID(r *sarif.Result, rule *sarif.ReportingDescriptor) string {
	switch {
	case r.RuleID != nil:
		return *r.RuleID
	case rule != nil && rule.ID != nil:
		return *rule.ID
	}
	return ""
}

// sarifLevel: the result's level, otherwise the rule's, otherwise warning, as in the standard.
func sarifLevel(l string, rule *sarif.ReportingDescriptor) Level {
	if l == "" && rule != nil && rule.DefaultConfiguration != nil {
		l = rule.DefaultConfiguration.Level
	}
	switch l {
	case "error":
		return Error
	case "note", "none":
		return Note
	}
	return Warning
}

// sarifText is a result's message: its own, or the rule's template filled in.
func sarifText(r *sarif.Result, rule *sarif.ReportingDescriptor) string {
	m := r.Message
	if m == nil {
		return ""
	}
	text := first(m.Text, m.Markdown)
	if text == "" && m.ID != nil && rule != nil {
		template := rule.MessageStrings[*m.ID]
		text = first(template.Text, template.Markdown)
	}
	for n, arg := range m.Arguments[:min(len(m.Arguments), 10)] {
		text = strings.ReplaceAll(Bound(text, 8*MaxMessage), "{"+itoa(n)+"}", Bound(arg, MaxMessage))
	}
	return text
}

func first(texts ...*string) string {
	for _, t := range texts {
		if t != nil && *t != "" {
			return *t
		}
	}
	return ""
}

// sarifFailures returns the failures of an analysis: a failed analysis without results proves
// nothing.
func sarifFailures(run *sarif.Run) []Problem {
	var out []Problem
	for _, i := range run.Invocations {
		if i == nil || i.ExecutionSuccessful == nil || *i.ExecutionSuccessful {
			continue
		}
		text := "the analysis did not complete successfully"
		for _, n := range i.ToolExecutionNotifications {
			if n != nil && n.Message != nil && first(n.Message.Text) != "" {
				text += ": " + first(n.Message.Text)
				break
			}
		}
		out = append(out, Problem{Level: Error, Message: Message(text)})
	}
	return out
}
