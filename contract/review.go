package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// AgentReviewer reviews the change of a run before its release. Like AgentJudge, it is not one of
// Agents: it carries out no phase.
const AgentReviewer Agent = "reviewer"

// ReviewStep is the step under which the reviewer's calls are recorded, in the phase of the tester.
const ReviewStep = "review"

// GuardReview is the guard of the findings of a review, and of what a review lacks.
const GuardReview = "review"

// Activities of a review.
const (
	ActivityReviewDue = "rgpt.review.Due" // whether a change must be reviewed
	ActivityReview    = "rgpt.review.Review"
)

// EventGateReviewed is the event of a review: what the reviewer found, or why it failed.
const EventGateReviewed EventType = "gate.reviewed"

// The values of ReviewSettings.Mode. Without settings, no change is reviewed.
const (
	ReviewOff    = "off"
	ReviewPolicy = "policy" // if a policy asks for it
	ReviewOn     = "on"
)

// ReviewModes returns the modes, the strictest first.
func ReviewModes() []string { return []string{ReviewOn, ReviewPolicy, ReviewOff} }

// ReviewSettings are the settings of the review of a run's change.
type ReviewSettings struct {
	Mode string `json:"mode"` // ReviewOn or ReviewPolicy
	// Model reviews; nil: one of the run's models that has not made the change.
	Model *ModelChoice `json:"model,omitempty"`
	// Rounds is how often major findings go back to an agent.
	Rounds    int           `json:"rounds,omitempty"`
	DiffBytes int           `json:"diff_bytes"` // of the diff that the reviewer sees
	Timeout   time.Duration `json:"timeout"`    // of one call
}

// ReviewItem is an item of the rubric by which a change is reviewed. It is the rule of a finding.
type ReviewItem string

// The items of the rubric.
const (
	ReviewGoal        ReviewItem = "goal"        // it does not do what was asked
	ReviewCorrectness ReviewItem = "correctness" // it does it wrongly
	ReviewSecurity    ReviewItem = "security"    // it opens a hole
	ReviewTests       ReviewItem = "tests"       // its tests do not prove it
	ReviewScope       ReviewItem = "scope"       // it changes what need not be changed
)

// ReviewItems returns the items of the rubric.
func ReviewItems() []ReviewItem {
	return []ReviewItem{ReviewGoal, ReviewCorrectness, ReviewSecurity, ReviewTests, ReviewScope}
}

// The rules of GuardReview that are not items of the rubric.
const (
	RuleReviewUnavailable = "unavailable" // the review failed
	RuleReviewMissing     = "missing"     // the change was not reviewed
	RuleReviewUnexamined  = "unexamined"  // a part of the change was not shown
)

// ReviewFinding is what a reviewer found wrong with a change. Its texts are a model's.
type ReviewFinding struct {
	ID       string     `json:"id"` // R1, R2, …: the same in all reviews of a run
	Item     ReviewItem `json:"item"`
	Severity Severity   `json:"severity"`       // major or minor
	Path     string     `json:"path,omitempty"` // empty: the change as a whole
	Line     int        `json:"line,omitempty"` // of the new version; 0: the file as a whole
	What     string     `json:"what"`
	Action   string     `json:"action,omitempty"` // what to do about it
	// Answer is what the agent said that was shown the finding: "" if it has not answered, or was not
	// shown it.
	Answer string `json:"answer,omitempty"`
	// State is what became of the finding of an earlier review: fixed, accepted or remains. Empty: a
	// new one.
	State string `json:"state,omitempty"`
}

// The states of a finding of an earlier review. Only ReviewRemains still counts.
const (
	ReviewFixed    = "fixed"    // the change no longer has the problem
	ReviewAccepted = "accepted" // the reviewer accepts the agent's reason not to change anything
	ReviewRemains  = "remains"
)

// Open reports whether the finding still counts.
func (f ReviewFinding) Open() bool { return f.State == "" || f.State == ReviewRemains }

// String returns the finding for people: where, then what.
func (f ReviewFinding) String() string {
	text := f.What
	if f.Action != "" {
		text += " " + f.Action
	}
	return GateReason{Path: f.Path, Line: f.Line, Text: text}.String()
}

// ReviewDueInput asks whether a change must be reviewed before its release.
type ReviewDueInput struct {
	Gate GateInput `json:"gate"` // as the change would be judged
}

// ReviewDue is the answer.
type ReviewDue struct {
	Due  bool `json:"due,omitempty"`
	Cold bool `json:"cold,omitempty"`
	// Known is the review of exactly this change, if it was made before and no agent has answered since.
	Known *ReviewResult `json:"known,omitempty"`
}

// ReviewInput is the input for a review.
type ReviewInput struct {
	Execution ExecutionRef  `json:"execution"` // of the reviewer
	Tester    ExecutionRef  `json:"tester"`    // whose checks the change has passed
	Round     int           `json:"round"`     // from 1
	PlanID    int64         `json:"plan_id"`
	From      Workspace     `json:"from"`
	To        Workspace     `json:"to"`
	Model     ModelChoice   `json:"model"`
	Fallbacks []ModelChoice `json:"fallbacks,omitempty"` // to use while Model is out
	// SameModel says that no model other than the author's was available.
	SameModel bool      `json:"same_model,omitempty"`
	Budget    RunBudget `json:"budget"`
	// Failure is why the review failed, which is to be stored; nil: review the change.
	Failure *Failure `json:"failure,omitempty"`
}

// ReviewResult is a review, as the workflow keeps it.
type ReviewResult struct {
	ID    int64    `json:"id"`
	Major int      `json:"major,omitempty"` // that still count
	Minor int      `json:"minor,omitempty"`
	Open  []string `json:"open,omitempty"` // ids of the major ones
	// Findings are the first major ones, with shortened texts.
	Findings []ReviewFinding `json:"findings,omitempty"`
	Model    string          `json:"model,omitempty"` // provider/model
	Prompt   string          `json:"prompt,omitempty"`
	// SameModel says that the author's model made the review, with a fresh context.
	SameModel bool   `json:"same_model,omitempty"`
	Failed    string `json:"failed,omitempty"` // why the change was not reviewed
	Usage     Usage  `json:"usage"`
}

// Summary lists the major findings in one line.
func (r ReviewResult) Summary() string {
	texts := make([]string, len(r.Findings))
	for i, f := range r.Findings {
		texts[i] = f.ID + " " + f.String()
	}
	words := strings.Join(texts, "; ")
	if more := r.Major - len(r.Findings); more > 0 {
		words += fmt.Sprintf("; and %d more", more)
	}
	return words
}

// ReviewRecord is a stored review.
type ReviewRecord struct {
	ID          int64  `json:"id"`
	RunID       int64  `json:"run_id"`
	ExecutionID int64  `json:"execution_id" doc:"of the reviewer"`
	Round       int    `json:"round" doc:"number of the review of the run"`
	From        string `json:"from_tree"`
	Tree        string `json:"tree"`
	Model       string `json:"model" doc:"that reviewed, as provider/model"`
	SameModel   bool   `json:"same_model" doc:"the model that made the change also reviewed it, with a fresh context, because no other one was available"`
	Prompt      string `json:"prompt,omitempty" doc:"version of the reviewer's prompt"`
	Failed      string `json:"failed,omitempty" doc:"why the change was not reviewed"`
	Summary     string `json:"summary,omitempty" doc:"what the reviewer says about the change"`
	// Findings are those of this review, and the major ones of the review before with what became of
	// them.
	Findings  []ReviewFinding `json:"findings"`
	Omitted   int             `json:"omitted,omitempty" doc:"number of further findings, which were left out"`
	Unshown   []string        `json:"unshown,omitempty" doc:"changed files that the reviewer saw only a part of, or nothing of"`
	CreatedAt time.Time       `json:"created_at"`
}

// Count returns the number of findings of a severity that still count.
func (r ReviewRecord) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Open() && f.Severity == s {
			n++
		}
	}
	return n
}

// Open returns the findings that still count, the major ones first.
func (r ReviewRecord) Open() []ReviewFinding {
	out := slices.DeleteFunc(slices.Clone(r.Findings), func(f ReviewFinding) bool { return !f.Open() })
	slices.SortStableFunc(out, func(a, b ReviewFinding) int {
		return slices.Index(Severities(), a.Severity) - slices.Index(Severities(), b.Severity)
	})
	return out
}
