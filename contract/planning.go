package contract

// PlannerSettings are the limits of the planner, which reads the repository before it plans.
type PlannerSettings struct {
	Turns    int   `json:"turns"` // model calls before there must be a plan; 1: the planner reads nothing
	Tokens   int64 `json:"tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`

	Critique CritiqueMode `json:"critique,omitempty"` // empty: off
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
	PlanOnlyChecks       PlanFindingKind = "only_checks"       // the step changes nothing
)

// MaxPlanFindings is the maximum number of findings about one plan.
const MaxPlanFindings = 20

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
	Usage      Usage  `json:"usage,omitzero"`
}

// PlanReview describes how a plan was checked before it was accepted.
type PlanReview struct {
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
