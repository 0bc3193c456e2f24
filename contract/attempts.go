package contract

import (
	"fmt"
	"time"
)

// AgentJudge chooses among attempts that are equally good otherwise. Like AgentIndexer, it is not one
// of Agents: it carries out no phase, and its model is that of execution.attempts.judge.
const AgentJudge Agent = "judge"

// JudgeStep is the step under which the judge's call is recorded, in the phase of the tester.
const JudgeStep = "choice"

// WorkflowAttempts is the workflow type that chooses among the attempts at a goal.
const WorkflowAttempts = "rgpt.Attempts"

// Activities of attempts.
const (
	ActivityAttemptHeld    = "rgpt.attempts.Held"
	ActivityAttemptChoice  = "rgpt.attempts.Choice"
	ActivityAttemptsState  = "rgpt.attempts.State"
	ActivityAttemptsRank   = "rgpt.attempts.Rank"
	ActivityAttemptsJudge  = "rgpt.attempts.Judge"
	ActivityAttemptsDecide = "rgpt.attempts.Decide"
	ActivityAttemptsNotify = "rgpt.attempts.Notify"
)

const (
	// SignalAttempt tells the workflow of a group that something about an attempt has changed.
	SignalAttempt = "attempt"
	// SignalChoice tells an attempt that waits for the choice that it was made.
	SignalChoice = "choice"
)

// WaitsForChoice is the waiting_for value of an attempt that is ready for its release. Such a run does
// no work, so it does not count as running.
const WaitsForChoice = "choice"

// AttemptsWorkflowID returns the workflow id of a group of attempts: attempts-7.
func AttemptsWorkflowID(group int64) string { return fmt.Sprintf("attempts-%d", group) }

// Attempt is the place of a run among the attempts at the same goal. Such a run is released only if
// it is chosen.
type Attempt struct {
	Group  int64 `json:"group"`
	Number int   `json:"number"` // from 1
	Of     int   `json:"of"`     // number of attempts
}

// AttemptsSettings are how a group of attempts is decided. They are frozen when it is created.
type AttemptsSettings struct {
	// Judge is the model that decides among attempts that are equal otherwise; nil: the smallest change
	// wins.
	Judge *ModelChoice `json:"judge,omitempty"`
	// SizeMargin is the part of the smallest change by which another may be larger and still count as
	// equally large.
	SizeMargin  float64       `json:"size_margin"`
	StopAtFirst bool          `json:"stop_at_first,omitempty"`
	Budget      RunBudget     `json:"budget"` // of the judge's call: that of all attempts together
	Timeout     time.Duration `json:"timeout"`
}

// AttemptsInput starts the workflow of a group of attempts.
type AttemptsInput struct {
	Group    int64            `json:"group"`
	Tenant   string           `json:"tenant"`
	Settings AttemptsSettings `json:"settings"`
}

// AttemptsResult is the result of the workflow of a group of attempts.
type AttemptsResult struct {
	Group  int64  `json:"group"`
	Winner int64  `json:"winner,omitempty"` // run; 0: none
	Rule   string `json:"rule"`
}

// HeldInput describes an attempt that has passed its verification and waits for the choice.
type HeldInput struct {
	RunID     int64     `json:"run_id"`
	Attempt   Attempt   `json:"attempt"`
	Workspace Workspace `json:"workspace"`
}

// ChoiceInput asks whether the choice among attempts was made.
type ChoiceInput struct {
	RunID   int64   `json:"run_id"`
	Attempt Attempt `json:"attempt"`
}

// Choice is the choice among attempts, as one of them sees it.
type Choice struct {
	Made   bool   `json:"made"`
	Chosen bool   `json:"chosen"`
	Winner int64  `json:"winner,omitempty"` // run
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// AttemptsState is how far the attempts of a group are.
type AttemptsState struct {
	Ready   bool   `json:"ready"`   // it can be decided now
	Stopped bool   `json:"stopped"` // a person stopped all of them
	Ended   bool   `json:"ended"`   // none of them can win any more
	Decided bool   `json:"decided"`
	Winner  int64  `json:"winner,omitempty"`
	Rule    string `json:"rule,omitempty"`
}

// The rules by which an attempt wins.
const (
	RuleOnly     = "only"     // it is the only one that passed
	RuleFindings = "findings" // it has the fewest findings
	RuleSame     = "same"     // all that are equally good made the same change
	RuleSize     = "size"     // its change is the smallest
	RuleJudge    = "judge"    // the judge chose it
	RuleNone     = "none"     // none passed
	RuleStopped  = "stopped"  // a person stopped all of them
)

// AttemptsRanking is what checks and sizes decide about the attempts of a group.
type AttemptsRanking struct {
	Winner int64   `json:"winner,omitempty"` // run that wins without a judge; 0: none passed
	Rule   string  `json:"rule"`
	Reason string  `json:"reason"`
	Equal  []int64 `json:"equal,omitempty"` // runs that a judge must decide among, the winner first
}

// AttemptsJudgeInput asks the judge to decide among attempts.
type AttemptsJudgeInput struct {
	Execution ExecutionRef     `json:"execution"`
	Group     int64            `json:"group"`
	Runs      []int64          `json:"runs"`
	Settings  AttemptsSettings `json:"settings"`
}

// AttemptsJudgement is the answer of the judge.
type AttemptsJudgement struct {
	Winner int64  `json:"winner,omitempty"` // run; 0: the answer is unusable
	Reason string `json:"reason,omitempty"`
	Why    string `json:"why,omitempty"` // the answer is unusable
	Usage  Usage  `json:"usage"`
}

// AttemptsDecision is the choice among the attempts of a group.
type AttemptsDecision struct {
	Group  int64  `json:"group"`
	Winner int64  `json:"winner,omitempty"` // run; 0: none
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
	// JudgeRun is the run whose row has the judge's call; 0: none was made.
	JudgeRun int64 `json:"judge_run,omitempty"`
}
