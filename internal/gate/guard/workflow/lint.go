package workflow

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rhysd/actionlint"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// maxComplaints is the number of actionlint's complaints about one file that are reported.
const maxComplaints = 10

// place is what a complaint says about places, which move with other lines.
var place = regexp.MustCompile(`line:?\s*\d+(?:,\s*col(?:umn)?:?\s*\d+)?`)

// lint reports what actionlint says about the new version of a workflow but not about the old one.
func (j *judge) lint(f change.File, existed bool) {
	old := map[string]int{}
	if existed {
		if complaints, err := complaints(f.Before.Content); err == nil {
			for _, c := range complaints {
				old[c.Kind+place.ReplaceAllString(c.Message, "")]++
			}
		}
	}
	complaints, err := complaints(f.After.Content)
	if err != nil {
		j.add("workflow-unread", contract.SeverityMedium, f.Path, 0, "%s cannot be examined by actionlint: %s; look at it", change.Clean(f.Path), change.Clean(err.Error()))
		return
	}
	n := 0
	for _, c := range complaints {
		key := c.Kind + place.ReplaceAllString(c.Message, "")
		if old[key]--; old[key] >= 0 {
			continue
		}
		injection := strings.Contains(c.Message, "is potentially untrusted")
		if n++; n > maxComplaints && !injection {
			continue
		}
		switch {
		case injection && j.knows(f.Path, c):
		case injection:
			j.add("script-injection", contract.SeverityMajor, f.Path, c.Line, "anyone can write a text that becomes a part of a script; pass it by an environment variable (%s)", brief(c.Message))
		case c.Kind == "syntax-check":
			j.add("workflow-invalid", contract.SeverityMedium, f.Path, c.Line, "actionlint: %s; correct it", brief(c.Message))
		default:
			j.add("workflow-lint", contract.SeverityMinor, f.Path, c.Line, "actionlint: %s (%s); correct it", brief(c.Message), c.Kind)
		}
	}
	if n > maxComplaints {
		j.add("workflow-lint", contract.SeverityMinor, f.Path, 0, "actionlint has %d more new complaints about %s; correct them", n-maxComplaints, change.Clean(f.Path))
	}
}

// knows reports whether there is already a finding about an untrusted text.
func (j *judge) knows(path string, c *actionlint.Error) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Message, `"`), `"`)
	return slices.ContainsFunc(j.found, func(f change.Finding) bool {
		return f.Rule == "script-injection" && f.Path == path && f.Severity == contract.SeverityMajor && (f.Line == c.Line || strings.Contains(f.Message, name))
	})
}

// brief returns the start of a complaint.
func brief(message string) string { return strings.TrimSuffix(change.Clean(message), ".") }

// complaints are those of actionlint about a workflow, without its checks that run programs or read
// other files. parse has accepted the content.
func complaints(content []byte) (found []*actionlint.Error, err error) {
	defer func() {
		// The library panics on what it considers impossible.
		if p := recover(); p != nil {
			found, err = nil, fmt.Errorf("it failed (%T)", p)
		}
	}()
	workflow, found := actionlint.Parse(content)
	if workflow == nil {
		return found, nil
	}
	// Without a project, these look for no files.
	actions, called := actionlint.NewLocalActionsCache(nil, nil), actionlint.NewLocalReusableWorkflowCache(nil, "", nil)
	rules := []actionlint.Rule{
		actionlint.NewRuleMatrix(), actionlint.NewRuleCredentials(), actionlint.NewRuleShellName(), actionlint.NewRuleRunnerLabel(),
		actionlint.NewRuleEvents(), actionlint.NewRuleJobNeeds(), actionlint.NewRuleAction(actions), actionlint.NewRuleEnvVar(),
		actionlint.NewRuleID(), actionlint.NewRuleGlob(), actionlint.NewRulePermissions(), actionlint.NewRuleWorkflowCall("", called),
		actionlint.NewRuleExpression(actions, called), actionlint.NewRuleDeprecatedCommands(), actionlint.NewRuleIfCond(),
	}
	visitor := actionlint.NewVisitor()
	for _, r := range rules {
		visitor.AddPass(r)
	}
	if err := visitor.Visit(workflow); err != nil {
		return nil, err
	}
	for _, r := range rules {
		found = append(found, r.Errs()...)
	}
	slices.SortStableFunc(found, func(a, b *actionlint.Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return found, nil
}
