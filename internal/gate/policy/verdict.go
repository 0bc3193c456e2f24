package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
)

// VerdictVersion is the version of Verdict, with the same rules as InputVersion.
const VerdictVersion = 1

// The limits of a verdict. Reasons over MaxReasons are counted, the least serious ones first.
const (
	MaxReasons   = 200
	MaxReasonLen = 1000 // characters of a text
)

// Decision is what may happen to a change.
type Decision string

// The decisions. As the decision of a reason, Allow means information.
const (
	Allow         Decision = "allow"
	NeedsApproval Decision = "needs_approval"
	Deny          Decision = "deny"
)

// rank orders decisions, the strictest first.
func (d Decision) rank() int { return slices.Index([]Decision{Deny, NeedsApproval, Allow}, d) }

// Verdict is the result of judging a change. The decision is deny if a reason denies the change,
// otherwise needs_approval if a reason asks for approval, otherwise allow.
type Verdict struct {
	Version  int      `json:"version"`
	Decision Decision `json:"decision"`
	// Automerge says that a release may be merged without a person.
	Automerge bool `json:"automerge"`
	// Review says that the policies ask for a review by another model than the author's.
	Review bool `json:"review"`
	// Reasons are sorted: the strictest first, then by path and line.
	Reasons []Reason `json:"reasons"`
	// Omitted is the number of reasons over MaxReasons.
	Omitted int `json:"omitted"`
	// Bundles are the policies that were evaluated.
	Bundles []Bundle `json:"bundles"`
	// Input is the digest of the judged Input.
	Input string `json:"input"`
	// Digest identifies Input and Bundles: the same digest has the same verdict.
	Digest string `json:"digest"`
}

// Bundle identifies policies by their content.
type Bundle struct {
	// Name is default, strict, permissive, operator or repository.
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// Reason says why, and what to do.
type Reason struct {
	// ID is that of the finding, if there is one; approvals name it.
	ID       string   `json:"id"`
	Decision Decision `json:"decision"`
	Text     string   `json:"text"`
	// Source is the name of the bundle that gave the reason, or gate.
	Source string `json:"source"`
	Guard  string `json:"guard,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"`
	// Approver restricts the approvers of a reason for approval: not_author; empty: anyone with a name.
	Approver string `json:"approver,omitempty"`
	// ApprovedBy is the person whose approval turned a reason for approval into information.
	ApprovedBy string `json:"approved_by,omitempty"`
	// Waived says that the operator's policies waived the finding; it is only information.
	Waived bool `json:"waived,omitempty"`
}

// ApproverAnyone is the value of approver with which a reason may be approved by every named person.
const ApproverAnyone = "anyone"

// SourceGate is the source of reasons that the gate itself gives, not a bundle.
const SourceGate = "gate"

// decide combines reasons into a verdict.
func decide(reasons []Reason, approvals []Approval, automerge bool) Verdict {
	v := Verdict{Version: VerdictVersion, Decision: Allow}
	for i := range reasons {
		approve(&reasons[i], approvals)
		if reasons[i].Decision.rank() < v.Decision.rank() {
			v.Decision = reasons[i].Decision
		}
	}
	slices.SortStableFunc(reasons, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(a.Decision.rank(), b.Decision.rank()), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Guard, b.Guard), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Text, b.Text))
	})
	if v.Omitted = max(0, len(reasons)-MaxReasons); v.Omitted > 0 {
		reasons = reasons[:MaxReasons]
	}
	v.Reasons, v.Automerge = list(reasons), automerge && v.Decision == Allow
	return v
}

// approve turns a reason for approval that a person approved into information.
func approve(r *Reason, approvals []Approval) {
	if r.Decision != NeedsApproval {
		return
	}
	for _, a := range approvals {
		if strings.TrimSpace(a.By) != "" && (slices.Contains(a.Reasons, r.ID) || r.Path != "" && slices.Contains(a.Paths, r.Path)) {
			r.Decision, r.ApprovedBy = Allow, text(a.By)
			return
		}
	}
}

// reasonOf reads a reason of a policy: a text, or an object with at least a text. Anything else
// counts too, because a policy that gives it wants to stop the change.
func reasonOf(value any, d Decision, source string) Reason {
	r := Reason{Decision: d, Source: source}
	switch v := value.(type) {
	case string:
		r.Text = text(v)
	case map[string]any:
		r.Text, r.Guard, r.Rule, r.Path = text(field(v, "text")), text(field(v, "guard")), text(field(v, "rule")), field(v, "path")
		if !utf8.ValidString(r.Path) || len(r.Path) > maxPath {
			r.Path = ""
		}
		if demanded, given := v["approver"]; given && d == NeedsApproval && demanded != ApproverAnyone {
			r.Approver = contract.ApproverNotAuthor // the strictest, also for what is misspelt
		}
		r.Line, r.ID = max(0, number(v["line"])), text(field(v, "id"))
	}
	if r.Text == "" {
		r.Text = text(fmt.Sprintf("the policy gives no text for this reason: %v", value))
	}
	if r.ID == "" {
		r.ID = identify(r.Source, r.Guard, r.Rule, r.Path, r.Line, r.Text)
	}
	return r
}

// maxPath is the maximum length of a path in bytes.
const maxPath = 4096

func field(v map[string]any, name string) string {
	s, _ := v[name].(string)
	return s
}

// text removes what could hide or forge text, and limits its length.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > MaxReasonLen {
		return string(runes[:MaxReasonLen]) + "…"
	}
	return s
}
