// Package labels is the guard of the labels of a run. They only make the gate stricter or tell a
// policy what is wanted: no label removes a finding.
//
//	Rule              Severity   Meaning                                      What to do
//	blocked           major      a label forbids that the change is applied   remove the label, if it is settled
//	needs-approval    medium     a label asks for an approval                 let a person approve the change
//	automerge         minor      a label wants the change merged without a    nothing
//	                             person, if all else allows it
//	conflict          minor      labels contradict each other; the strictest  remove one of them
//	                             decides
//	unknown           medium     a label of RocketGPT that does not exist,    correct its name
//	                             perhaps a misspelled one
package labels

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Name is the name of the guard.
const Name = "labels"

// The rules of the findings that a policy uses.
const (
	RuleBlocked       = "blocked"
	RuleNeedsApproval = "needs-approval"
	RuleAutomerge     = "automerge"
	RuleConflict      = "conflict"
	RuleUnknown       = "unknown"
)

// Prefix is that of RocketGPT's own labels: rgpt:automerge, rgpt:needs-approval and rgpt:blocked.
const Prefix = "rgpt:"

// maxLabels is the number of labels that are read. More of them need a person.
const maxLabels = 1000

// Guard finds what the labels of a run say about its change.
var Guard change.Guard = guard{}

type guard struct{}

func (guard) Name() string { return Name }

// meaning is what a label means, strictest first.
type meaning struct {
	rule     string
	severity contract.Severity
	says     string
}

var meanings = []meaning{
	{RuleBlocked, contract.SeverityMajor, "forbids that the change is applied; remove the label once that is settled"},
	{RuleNeedsApproval, contract.SeverityMedium, "asks for the approval of a person"},
	{RuleAutomerge, contract.SeverityMinor, "wants the change merged without a person, if all else allows it"},
}

// Judge implements change.Guard.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	known := rulesOf(c.Limits.Labels)
	var found []change.Finding
	add := func(rule string, severity contract.Severity, format string, args ...any) {
		found = append(found, change.Finding{Guard: Name, Rule: rule, Severity: severity, Message: fmt.Sprintf(format, args...)})
	}
	by := map[string]string{} // the first label of each rule
	for i, label := range c.Labels {
		if i == maxLabels {
			add(RuleNeedsApproval, contract.SeverityMedium, "the run has %d labels, of which %d were read; let a person look at them", len(c.Labels), maxLabels)
			break
		}
		name := plain(label)
		rule, ok := known[name]
		switch {
		case ok && by[rule] == "":
			by[rule] = label
		case !ok && strings.HasPrefix(name, Prefix):
			add(RuleUnknown, contract.SeverityMedium, "the label %s does not exist; RocketGPT's labels are %sautomerge, %sneeds-approval and %sblocked",
				change.Clean(label), Prefix, Prefix, Prefix)
		}
	}
	for i, m := range meanings {
		label, set := by[m.rule]
		if !set {
			continue
		}
		add(m.rule, m.severity, "the label %s %s", change.Clean(label), m.says)
		for _, weaker := range meanings[i+1:] {
			if other, both := by[weaker.rule]; both && weaker.rule == RuleAutomerge {
				add(RuleConflict, contract.SeverityMinor, "the labels %s and %s contradict each other; %s decides, because it is stricter",
					change.Clean(label), change.Clean(other), change.Clean(label))
			}
		}
	}
	return found, nil
}

// rulesOf returns the rules of all labels. A label that is configured for several has the strictest.
func rulesOf(configured change.Labels) map[string]string {
	out := map[string]string{}
	sets := [][]string{configured.Blocked, configured.NeedsApproval, configured.Automerge}
	for i, m := range slices.Backward(meanings) {
		out[Prefix+m.rule] = m.rule
		for _, label := range sets[i] {
			if name := plain(label); name != "" {
				out[name] = m.rule
			}
		}
	}
	// A configuration cannot weaken the labels of RocketGPT.
	for _, m := range meanings {
		out[Prefix+m.rule] = m.rule
	}
	return out
}

// plain returns a label without case, surrounding space, invisible characters and other forms of the
// same letters, so that a label that looks like a known one is taken for it.
func plain(label string) string {
	label = strings.Map(func(r rune) rune {
		if change.Invisible(r) {
			return -1
		}
		return r
	}, label)
	return strings.TrimSpace(strings.ToLower(norm.NFKC.String(label)))
}
