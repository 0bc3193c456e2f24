package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PlannerSettings are the limits of the planner, which reads the repository before it plans.
type PlannerSettings struct {
	Turns    int   `json:"turns"` // model calls before there must be a plan; 1: the planner reads nothing
	Tokens   int64 `json:"tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`

	Critique CritiqueMode `json:"critique,omitempty"` // empty: off
	// QuestionWait is how long a person has to answer the planner's question; 0: it must not ask.
	QuestionWait time.Duration `json:"question_wait,omitempty"`

	EditBytes int `json:"edit_bytes,omitempty"` // of the edits that a plan may contain; 0: it must not contain any
}

// CritiqueMode says when a planner reviews its plan once more.
type CritiqueMode string

// When a planner reviews its plan.
const (
	CritiqueOff  CritiqueMode = "off"
	CritiqueAuto CritiqueMode = "auto" // if code finds something, or the goal is complex
	CritiqueOn   CritiqueMode = "on"
)

// ComplexGoal is the complexity from which a plan is reviewed even if code finds nothing wrong.
const ComplexGoal = 0.5

// Due reports whether a plan is to be reviewed.
func (m CritiqueMode) Due(complexity float64, findings int) bool {
	return m == CritiqueOn || m == CritiqueAuto && (findings > 0 || complexity >= ComplexGoal)
}

// PlanFinding is something that code found wrong with a plan.
type PlanFinding struct {
	Kind PlanFindingKind `json:"kind"`
	Step string          `json:"step,omitempty"`
	Text string          `json:"text"`
}

// PlanFindingKind is a kind of problem.
type PlanFindingKind string

// What code can find wrong with a plan.
const (
	PlanFailingCriterion PlanFindingKind = "failing_criterion" // the base commit already fails it
	PlanMissingFile      PlanFindingKind = "missing_file"      // it does not exist, and nothing creates it
	PlanSameFile         PlanFindingKind = "same_file"         // two independent steps change it
	PlanWithoutEdits     PlanFindingKind = "without_edits"     // its edits could not be made
	PlanOnlyChecks       PlanFindingKind = "only_checks"       // the step changes nothing
)

// MaxPlanFindings is the maximum number of findings about one plan.
const MaxPlanFindings = 10

// The outcomes of a planner's review of its plan.
const (
	ReviewKept      = "kept"
	ReviewCorrected = "corrected"
	ReviewUnusable  = "unusable" // the response was no plan; the plan stays as it was
)

// PlanState is the state that planning keeps from turn to turn. The conversation itself stays in the
// database.
type PlanState struct {
	Turn       int    `json:"turn,omitempty"`   // model calls made
	Prompt     string `json:"prompt,omitempty"` // version of the prompt
	Reads      int    `json:"reads,omitempty"`  // calls that showed the planner something
	ReadBytes  int    `json:"read_bytes,omitempty"`
	Violations int    `json:"violations,omitempty"` // actions outside the allowed tools or paths
	Draft      int    `json:"draft,omitempty"`      // the turn with the plan that is being reviewed; 0: none
	// Asked is the turn whose tool call AskedIndex is the planner's question that has no answer yet; 0:
	// there is none.
	Asked      int   `json:"asked,omitempty"`
	AskedIndex int   `json:"asked_index,omitempty"`
	Usage      Usage `json:"usage,omitzero"`
}

// PlanReview describes how a plan was checked before it was accepted, and what to expect of it.
type PlanReview struct {
	Estimate *PlanEstimate `json:"estimate,omitempty"`
	Risk     PlanRisk      `json:"risk,omitzero"`

	Turns   int           `json:"turns,omitempty"` // of planning
	Reads   int           `json:"reads,omitempty"` // calls that showed the planner something
	Notes   int           `json:"notes,omitempty"` // of the plan
	Dropped []DroppedNote `json:"dropped_notes,omitempty"`

	Findings []PlanFinding `json:"findings,omitempty"` // about the plan as it is
	Found    []PlanFinding `json:"found,omitempty"`    // about the plan that the planner reviewed
	Outcome  string        `json:"outcome,omitempty"`  // of the planner's review; empty: there was none
}

// DroppedNote is a note that the planner made and that is not part of the plan.
type DroppedNote struct {
	Place string `json:"place"`
	Why   string `json:"why"`
}

// PlanEstimate is what the steps of a plan and their first verification will probably take. It does
// not include heals.
type PlanEstimate struct {
	MicroUSD    *int64 `json:"micro_usd"` // nil: unknown
	CostBasis   string `json:"cost_basis"`
	CostSamples int    `json:"cost_samples,omitempty"` // the fewest earlier steps that a figure comes from
	DurationMS  *int64 `json:"duration_ms"`            // nil: unknown
	TimeBasis   string `json:"time_basis"`
	TimeSamples int    `json:"time_samples,omitempty"`
}

// What an estimate is based on.
const (
	BasisHistory = "history" // medians of earlier steps
	BasisPrices  = "prices"  // tokens of earlier steps with other models, at the model's prices
	BasisUnknown = "unknown" // too little is known
)

// CostFrom notes where a part of the cost comes from.
func (e *PlanEstimate) CostFrom(basis string, samples int) {
	if e.CostBasis == BasisUnknown || basis == BasisPrices {
		e.CostBasis = basis
	}
	if e.CostSamples == 0 || samples < e.CostSamples {
		e.CostSamples = samples
	}
}

// TimeFrom notes how many steps a part of the time comes from.
func (e *PlanEstimate) TimeFrom(samples int) {
	if e.TimeSamples == 0 || samples < e.TimeSamples {
		e.TimeSamples = samples
	}
}

// CostText returns the cost for people: $0.12 (at least 5 earlier steps of each kind).
func (e *PlanEstimate) CostText() string {
	if e == nil || e.MicroUSD == nil {
		return "unknown"
	}
	dollars := float64(*e.MicroUSD) / microsPerDollar
	digits := 2
	if dollars < 0.01 { //nolint:mnd // a cent
		digits = 4
	}
	text := fmt.Sprintf("about $%.*f (median of %d or more earlier steps", digits, dollars, e.CostSamples)
	if e.CostBasis == BasisPrices {
		text += " with other models, at the prices of this one"
	}
	return text + ")"
}

// TimeText returns the time for people.
func (e *PlanEstimate) TimeText() string {
	if e == nil || e.DurationMS == nil {
		return "unknown"
	}
	took := time.Duration(*e.DurationMS) * time.Millisecond
	if took >= time.Second {
		took = took.Round(time.Second)
	}
	return fmt.Sprintf("about %s (median of %d or more earlier steps, and of the tests)", took, e.TimeSamples)
}

const microsPerDollar = 1e6

// PlanRisk is the risk of a plan, with the reasons for it.
type PlanRisk struct {
	Level   Level    `json:"level"`
	Reasons []string `json:"reasons,omitempty"`
}

// Limits of a planner's question.
const (
	MinOptions      = 2
	MaxOptions      = 5
	MaxQuestionText = 1000 // bytes of the question, of its reason and of an option
)

// PlannerQuestion is a question of a planner to a person.
type PlannerQuestion struct {
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Default  string   `json:"default"` // the option that applies if nobody answers
	Why      string   `json:"why"`     // what depends on it
}

// Problem returns why a question cannot be asked, "" if it can.
func (q PlannerQuestion) Problem() string {
	texts := append([]string{q.Question, q.Why}, q.Options...)
	for _, t := range texts {
		if strings.TrimSpace(t) == "" || len(t) > MaxQuestionText {
			return fmt.Sprintf("the question, why it is asked and each option need 1 to %d bytes", MaxQuestionText)
		}
	}
	if n := len(q.Options); n < MinOptions || n > MaxOptions {
		return fmt.Sprintf("it has %d options; it needs %d to %d", n, MinOptions, MaxOptions)
	}
	for i, o := range q.Options {
		if slices.ContainsFunc(q.Options[:i], func(other string) bool { return strings.EqualFold(strings.TrimSpace(other), strings.TrimSpace(o)) }) {
			return "two options are the same"
		}
		if _, err := strconv.Atoi(strings.TrimSpace(o)); err == nil {
			return fmt.Sprintf("the option %q could be mistaken for the number of an option; say what it means, such as %q", o, o+" retries")
		}
	}
	if !slices.Contains(q.Options, q.Default) {
		return "the default is not one of the options; repeat the text of an option"
	}
	return ""
}

// Choose returns the option that a person means: by its number, counted from 1, or by its text.
func (q PlannerQuestion) Choose(answer string) (string, bool) {
	answer = strings.TrimSpace(answer)
	for i, o := range q.Options {
		if answer == strconv.Itoa(i+1) || strings.EqualFold(answer, strings.TrimSpace(o)) {
			return o, true
		}
	}
	return "", false
}

// PlannerInput is a planner's question with its answer.
type PlannerInput struct {
	Question string `json:"question"`
	Option   string `json:"option"`
	By       string `json:"by,omitempty"` // empty: nobody answered in time, and the default applies
	Words    string `json:"words,omitempty"`
}

// InputID returns the id of a run's question: run-42/input.
func InputID(runID int64) string { return fmt.Sprintf("run-%d/%s", runID, AskInput) }
