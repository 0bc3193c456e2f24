package contract

import (
	"fmt"
	"strings"
	"time"
)

// ActivityGate judges a change by guards and policies.
const ActivityGate = "rgpt.gate.Judge"

// The events of the policy gate: what it decided about a change.
const (
	EventGateAllowed       EventType = "gate.allowed"
	EventGateNeedsApproval EventType = "gate.needs_approval"
	EventGateDenied        EventType = "gate.denied"
)

// ApproverNotAuthor is the demand of a policy that the person who approves a release is not an author of
// its change: neither created the run nor steered or edited its change.
const ApproverNotAuthor = "not_author"

// GateSettings are the settings of a run's policy gate.
type GateSettings struct {
	// Policy is the built-in policy: default, strict or permissive.
	Policy string `json:"policy"`
	// Bundle is the digest of the operator's policies, which are stored with the first run that uses
	// them; empty: there are none.
	Bundle string     `json:"bundle,omitempty"`
	Limits GateLimits `json:"limits"`
	// Tests is how changes in tests are treated, as in verification.pinned_tests.
	Tests      string         `json:"tests,omitempty"`
	LabelRules GateLabelRules `json:"label_rules"`
	// Approver restricts the approvers of releases: ApproverNotAuthor; empty: anyone with a name.
	Approver string `json:"approver,omitempty"`
	// Review says how the change is reviewed before its release; nil: not at all.
	Review *ReviewSettings `json:"review,omitempty"`
	// Dependencies says how registries are asked about added dependencies; nil: not at all.
	Dependencies *GateDependencies `json:"dependencies,omitempty"`
}

// GateDependencies are the rules for dependencies that registries are asked about.
type GateDependencies struct {
	// MinAge is how long a version, and its package, must have been published; 0: any time.
	MinAge time.Duration `json:"min_age,omitempty"`
}

// GateLabelRules are the meanings of labels.
type GateLabelRules struct {
	Allowed   []string `json:"allowed,omitempty"`   // the only ones that runs may have; empty: any
	Automerge []string `json:"automerge,omitempty"` // with which a release may be merged without a person
	Blocked   []string `json:"blocked,omitempty"`   // with which nothing is released
	Review    []string `json:"review,omitempty"`    // with which a person must approve each release
}

// GateLimits limit a change. Zero: no limit.
type GateLimits struct {
	Files     int      `json:"files,omitempty"`
	Deletions int      `json:"deletions,omitempty"` // files
	Lines     int      `json:"lines,omitempty"`     // added and removed
	FileBytes int64    `json:"file_bytes,omitempty"`
	Bytes     int64    `json:"bytes,omitempty"`
	Allowed   []string `json:"allowed,omitempty"` // patterns of the only paths that may change; empty: all
}

// GateStage is the place in a run where a change is judged.
type GateStage string

// The stages.
const (
	GatePlan    GateStage = "plan"    // before the run uses a plan that a person or a deliberation made
	GateStep    GateStage = "step"    // before a step's change is applied
	GateRepair  GateStage = "repair"  // before a repair is applied
	GateRelease GateStage = "release" // before the run's change is released
)

// GateDecision is what the policies decided.
type GateDecision string

// The decisions, from the mildest.
const (
	GateAllow         GateDecision = "allow"
	GateNeedsApproval GateDecision = "needs_approval"
	GateDeny          GateDecision = "deny"
)

// Event returns the event of a decision.
func (d GateDecision) Event() EventType {
	switch d {
	case GateAllow:
		return EventGateAllowed
	case GateNeedsApproval:
		return EventGateNeedsApproval
	default:
		return EventGateDenied
	}
}

// GateReason is a reason for a decision.
type GateReason struct {
	Decision GateDecision `json:"decision"` // that it alone demands; allow: information
	// ID is that of the finding, if there is one.
	ID string `json:"id,omitempty"`
	// Source is who gave it: the name of a bundle of policies, or gate.
	Source string `json:"source,omitempty"`
	// Waived says that the operator's policies waived the finding.
	Waived bool   `json:"waived,omitempty"`
	Guard  string `json:"guard,omitempty"`
	Rule   string `json:"rule,omitempty"`
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"`
	Text   string `json:"text"` // what is wrong, and what to do
	// Approver restricts its approvers: ApproverNotAuthor; empty: anyone with a name.
	Approver string `json:"approver,omitempty"`
}

// String returns the reason for people: where, then what.
func (r GateReason) String() string {
	switch {
	case r.Path == "":
		return r.Text
	case r.Line == 0:
		return r.Path + ": " + r.Text
	}
	return fmt.Sprintf("%s:%d: %s", r.Path, r.Line, r.Text)
}

// GateInput is the input for judging a change.
type GateInput struct {
	Execution ExecutionRef `json:"execution"`
	Stage     GateStage    `json:"stage"`
	Step      string       `json:"step,omitempty"`
	From      Workspace    `json:"from"`
	To        Workspace    `json:"to"`
	// Stages are the states that lead from the base to To, slim: each becomes a commit. Only for a
	// release.
	Stages []Workspace `json:"stages,omitempty"`
	// Credits are those of the stages.
	Credits   []Credit `json:"credits,omitempty"`
	PlanID    int64    `json:"plan_id,omitempty"`
	LocalOnly bool     `json:"local_only,omitempty"` // return Cold instead of loading the repository
}

// GateVerdict is the gate's decision about a change, as the workflow keeps it.
type GateVerdict struct {
	ID       int64        `json:"id"`
	Decision GateDecision `json:"decision"`
	// Subject is the digest of what was judged.
	Subject string `json:"subject"`
	// Reasons are the first ones, the strictest first; Total is their number.
	Reasons []GateReason `json:"reasons,omitempty"`
	Total   int          `json:"total,omitempty"`
	// Approver restricts the approvers of the change: ApproverNotAuthor; empty: anyone with a name.
	Approver string `json:"approver,omitempty"`
	// ApprovedBy is the person who has approved the release of exactly this before, because of this very
	// verdict; empty: nobody.
	ApprovedBy string `json:"approved_by,omitempty"`
	// Authors are the first people that the database knows as authors of the change, if Approver says that
	// they may not approve it.
	Authors []string `json:"authors,omitempty"`
	Cold    bool     `json:"cold,omitempty"`
}

// MaxGateAuthors is the maximum number of authors of a verdict in a history. The releaser knows all.
const MaxGateAuthors = 200

// MaxGateReasons is the maximum number of reasons of a verdict in a history.
const MaxGateReasons = 10

// Summary lists the reasons for the decision in one line.
func (v GateVerdict) Summary() string {
	var texts []string
	for _, r := range v.Reasons {
		if r.Decision == v.Decision {
			texts = append(texts, r.String())
		}
	}
	words := strings.Join(texts, "; ")
	if more := v.Total - len(v.Reasons); more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return words
}

// GateRecord is a stored verdict.
type GateRecord struct {
	ID          int64     `json:"id"`
	RunID       int64     `json:"run_id"`
	ExecutionID int64     `json:"execution_id,omitempty"`
	Stage       GateStage `json:"stage"`
	Step        string    `json:"step,omitempty"`
	Author      string    `json:"author"`
	Subject     string    `json:"subject"`
	From        string    `json:"from_tree"`
	Tree        string    `json:"tree"`
	// Policies are the digests of the policies that decided, by name.
	Policies map[string]string `json:"policies"`
	// Policy is the digest of all that decided: policies, guards and settings.
	Policy string `json:"policy"`
	// Files are the first changed files, in order of their paths; FilesTotal is their number. Verdicts of
	// earlier versions have none.
	Files      []GateFile    `json:"files,omitempty"`
	FilesTotal int           `json:"files_total,omitempty"`
	Decision   GateDecision  `json:"decision"`
	Reasons    []GateReason  `json:"reasons"`
	Findings   []GateFinding `json:"findings"`
	// Automerge says that the release may be merged without a person.
	Automerge bool `json:"automerge"`
	// ApprovedBy is the person who approved what was judged; empty: nobody.
	ApprovedBy string    `json:"approved_by,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
}

// MaxGateFiles is the maximum number of changed files that a verdict lists.
const MaxGateFiles = 200

// GateFile is a changed file of a change that was judged.
type GateFile struct {
	Path    string `json:"path"`
	From    string `json:"from,omitempty"` // before a rename
	Status  string `json:"status"`         // added, changed, deleted, renamed or mode
	Added   int    `json:"added"`          // lines
	Removed int    `json:"removed"`
}

// GateFinding is something that a guard found in a change.
type GateFinding struct {
	Guard    string   `json:"guard"`
	Rule     string   `json:"rule"`
	Path     string   `json:"path,omitempty"` // empty: the change as a whole
	Line     int      `json:"line,omitempty"` // 0: the file as a whole
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
}
