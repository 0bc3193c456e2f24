package contract

import (
	"fmt"
	"time"
)

// StepRepair names the executions of the Repair agent within a phase, as a step's id names
// executions of the builder.
const StepRepair = "repair"

// HealWorkflowID returns the workflow id of a heal: run-42/heal/3.
func HealWorkflowID(runID int64, number int) string {
	return fmt.Sprintf("run-%d/heal/%d", runID, number)
}

// RepairWorkflowID returns the workflow id of the Repair agent's loop in a
// heal: run-42/heal/3/step/repair.
func RepairWorkflowID(runID int64, number int) string {
	return HealWorkflowID(runID, number) + "/step/" + StepRepair
}

// HealInput is the input for healing one failure.
type HealInput struct {
	RunID      int64         `json:"run_id"`
	Number     int           `json:"number"` // of the run's heals, from 1
	Phase      Phase         `json:"phase"`
	Step       string        `json:"step,omitempty"` // the failed step, if any
	Execution  ExecutionRef  `json:"execution"`      // that failed
	Failure    Failure       `json:"failure"`
	Tried      []HealAction  `json:"tried,omitempty"` // for this failure before
	Asked      HealAction    `json:"asked,omitempty"` // by a person; empty: the next action in the table
	By         string        `json:"by,omitempty"`    // who asked; empty: the run itself
	Words      string        `json:"words,omitempty"` // from the person who asked, for the next attempt
	Workspace  Workspace     `json:"workspace"`       // where a repair starts
	Model      ModelChoice   `json:"model"`           // of the agent that failed
	Repair     ModelChoice   `json:"repair"`          // of the Repair agent
	Others     []ModelChoice `json:"others,omitempty"`
	PlanID     int64         `json:"plan_id,omitempty"`
	PlanGiven  bool          `json:"plan_given,omitempty"` // a person's plan is not replaced
	QuotaWait  time.Duration `json:"quota_wait"`
	Settings   LoopSettings  `json:"settings"`
	From       Workspace     `json:"from,omitzero"`   // where the failed step began
	Directives Directives    `json:"orders,omitzero"` // for the Repair agent, as of now; later ones come as signals
	// Generation is the generation of the Repair agent; above 1, the agent replaces a revoked one.
	Generation int       `json:"generation,omitempty"`
	Compacted  int       `json:"compacted,omitempty"` // number of times that its context was already halved
	Avoid      []string  `json:"avoid,omitempty"`     // workers whose machines failed in this run
	Check      int64     `json:"check,omitempty"`     // the message about the branch that reported the failure, if any
	Review     []string  `json:"review,omitempty"`    // ids of a review's findings that the repair must answer
	Base       Workspace `json:"base,omitzero"`       // with which tests are compared, slim; empty: the run's base commit
}

// Directive is the result of a heal: the next action of the run.
type Directive struct {
	Number int          `json:"number"`
	Action HealAction   `json:"action"`
	Failed string       `json:"failed,omitempty"` // why the action could not be carried out
	Back   Phase        `json:"back,omitempty"`   // the phase to continue from
	Model  *ModelChoice `json:"model,omitempty"`  // for the agent of Back
	Strict bool         `json:"strict,omitempty"` // the result is checked before it counts
	Schema bool         `json:"schema,omitempty"` // the provider gets the strict forms of schemas
	// Compact is the number of times that the next attempt's context is halved.
	Compact     int           `json:"compact,omitempty"`
	Worker      string        `json:"worker,omitempty"` // worker for the next attempts
	Change      *Change       `json:"change,omitempty"` // the patch; it is verified like any other change
	Credit      *Credit       `json:"credit,omitempty"` // of the change
	Wait        time.Duration `json:"wait,omitempty"`   // before the phase runs again
	Reason      string        `json:"reason,omitempty"` // of the wait, for people
	Ask         *Question     `json:"ask,omitempty"`    // only a person can help
	Usage       Usage         `json:"usage"`
	RepairFault *RepairFault  `json:"blame,omitempty"` // an error of the Repair agent
	// Class and Code describe the failure after the diagnosis.
	Class Class `json:"error_type"`
	Code  Code  `json:"code,omitempty"`
}

// RepairFault is an error of the Repair agent. It counts against the agent, like failures of the
// planner and the builder.
type RepairFault struct {
	Failure   Failure      `json:"failure"`
	Execution ExecutionRef `json:"execution"`
}

// Question is a question to a person when no other action is left.
type Question struct {
	Reason         string `json:"reason"`
	ActionRequired string `json:"action_required"`
}

// HealStatus is the state of a heal's row.
type HealStatus string

// The heal statuses.
const (
	HealStarted HealStatus = "started" // its action is being carried out
	HealApplied HealStatus = "applied" // the phase is running again
	HealSuccess HealStatus = "success" // the phase succeeded afterwards
	HealFailed  HealStatus = "failed"  // the action could not be carried out, or the phase failed again
)

// HealNote is a change to a heal's row. Empty fields change nothing.
type HealNote struct {
	Number      int        `json:"number"`
	Status      HealStatus `json:"status"`
	Phase       Phase      `json:"phase,omitempty"`
	Step        string     `json:"step,omitempty"`
	ExecutionID int64      `json:"execution_id,omitempty"` // that failed
	ErrorType   Class      `json:"error_type,omitempty"`
	Code        Code       `json:"error_code,omitempty"`
	Action      HealAction `json:"heal_action,omitempty"`
	RootCause   string     `json:"root_cause,omitempty"`
	By          string     `json:"asked_by,omitempty"`
	Output      HealOutput `json:"heal_output"`
}

// HealOutput is the heal_output of a heal's row. The content of each record is merged into the
// existing content.
type HealOutput struct {
	Message string         `json:"message,omitempty"` // what was done, for people
	Said    string         `json:"said,omitempty"`    // what the agent says it did, shortened
	Asked   string         `json:"asked,omitempty"`   // what a reviewer of the branch asked for, shortened; empty: nobody did
	Words   string         `json:"words,omitempty"`   // of the person who was asked
	Before  map[string]any `json:"before,omitempty"`
	After   map[string]any `json:"after,omitempty"`
	Diff    string         `json:"diff,omitempty"`   // of the code, shortened; the whole diff is the artifact heal/N/change.patch
	Result  string         `json:"result,omitempty"` // what became of it
	Back    Phase          `json:"back,omitempty"`   // where the run continued
	Usage   *Usage         `json:"cost,omitempty"`
	Change  *StepOutput    `json:"change,omitempty"` // of the builder: replaces the change of the failed step
}

// InterventionNote is the part of a record about a question to a person.
type InterventionNote struct {
	Number         int        `json:"number"` // of the run's interventions, from 1
	Status         string     `json:"status"` // open, resolved, expired
	Phase          Phase      `json:"phase,omitempty"`
	Reason         string     `json:"reason,omitempty"`
	ActionRequired string     `json:"action_required,omitempty"`
	Deadline       *time.Time `json:"deadline,omitempty"`
	By             string     `json:"resolved_by,omitempty"`
	Answer         string     `json:"answer,omitempty"` // retry or give_up
	Words          string     `json:"words,omitempty"`
}

// The subjects of a question to a person, besides plan and release.
const (
	InterventionHelp        = "intervention" // no action is left
	InterventionQuota       = "quota"        // the run waits for a provider's limit
	InterventionEnvironment = "environment"  // the repository cannot be set up, or its checks cannot run
)

// InterventionID returns the id that answers refer to: run-42/intervention/1.
func InterventionID(runID int64, number int) string {
	return fmt.Sprintf("run-%d/intervention/%d", runID, number)
}

// Lessons describe earlier attempts for the next attempt of a phase or step.
type Lessons struct {
	Heals      []int `json:"heals,omitempty"`      // numbers of the run's heals
	Strict     bool  `json:"strict,omitempty"`     // a change counts only when the project builds with it
	Generation int   `json:"generation,omitempty"` // of the agent; above 1, it replaces a revoked agent
	Schema     bool  `json:"schema,omitempty"`     // the provider gets the strict forms of schemas
	Compact    int   `json:"compact,omitempty"`    // number of times that the context is halved
}

// ResumePoint lets an attempt continue where an earlier one of the same step ended, with its
// conversation summarized.
type ResumePoint struct {
	Execution int64     `json:"execution_id"` // that ended
	From      Workspace `json:"from"`         // where the earlier attempt began; an attempt that begins elsewhere does not continue it
	At        Workspace `json:"at"`           // where it ended
}

// WorkersInput is the input for listing the workers of a queue.
type WorkersInput struct {
	Queue string `json:"queue"`
}

// WorkersResult lists the workers that serve a queue and have their own queue, most recently seen
// first.
type WorkersResult struct {
	Workers []string `json:"workers,omitempty"`
}

// HealTask is the Repair agent's task.
type HealTask struct {
	Number    int          `json:"number"`
	Step      string       `json:"step,omitempty"` // of the plan, if the Repair agent continues its work
	Execution ExecutionRef `json:"execution"`      // that failed
	Failure   Failure      `json:"failure"`
	RootCause string       `json:"root_cause"`
	Check     int64        `json:"check,omitempty"` // the message about the branch that reported the failure, if any
	// Review are the ids of a review's findings, each of which the agent must answer when it finishes.
	Review []string `json:"review,omitempty"`
}

// DiagnoseInput is the input for finding the cause of a failure.
type DiagnoseInput struct {
	Execution ExecutionRef `json:"execution"`
	Failure   Failure      `json:"failure"`
	Check     int64        `json:"check,omitempty"`
	Model     ModelChoice  `json:"model,omitzero"` // of the failed execution
}

// Diagnosis is a failure after an examination of the execution's results.
type Diagnosis struct {
	Failure   Failure `json:"failure"` // its class may have changed
	RootCause string  `json:"root_cause"`
	Asked     string  `json:"asked,omitempty"` // what a reviewer of the branch asked for, in place of a failure
	Model     Traits  `json:"model,omitzero"`
}

// Traits are the properties of a failed execution's model that determine which heal actions change
// its next request.
type Traits struct {
	FixedTemperature bool `json:"fixed_temperature,omitempty"` // it takes no temperature
	Effort           bool `json:"effort,omitempty"`            // its amount of reasoning can be set
	// ReasonedMost is set if at least half of its last response was reasoning.
	ReasonedMost bool `json:"reasoned_most,omitempty"`
}

// JudgeInput is the input for checking whether a repair is acceptable.
type JudgeInput struct {
	Execution ExecutionRef `json:"execution"` // of the repair
	Number    int          `json:"number"`    // of the heal
	From      Workspace    `json:"from"`
	To        Workspace    `json:"to"`
	// Step is the step whose failed work the repair continues, and StepFrom where that began; empty:
	// the repair continues what was accepted before.
	Step      string    `json:"step,omitempty"`
	StepFrom  Workspace `json:"step_from,omitzero"`
	LocalOnly bool      `json:"quick,omitempty"` // return Cold instead of fetching the repository
}

// Judgement is the diff of a repair, or why it is refused.
type Judgement struct {
	Cold    bool   `json:"cold,omitempty"`
	Refused string `json:"refused,omitempty"`
	Code    Code   `json:"code,omitempty"` // of the refusal: CodeForbidden for a path that no agent may change
	Diff    string `json:"diff,omitempty"` // shortened
}

// DefaultsInput is the input for creating missing configuration from the defaults that the
// repository documents.
type DefaultsInput struct {
	Execution ExecutionRef `json:"execution"`
	Workspace Workspace    `json:"workspace"`
	Wanted    string       `json:"wanted"` // the failure's text; only files that it names are created
}

// DefaultsResult lists the created files; none if the repository documents no defaults.
type DefaultsResult struct {
	Workspace Workspace `json:"workspace"`
	Created   []string  `json:"made,omitempty"`
}

// HandoffInput is the input for writing the handoff of a revoked agent.
type HandoffInput struct {
	Execution  ExecutionRef `json:"execution"` // its last
	Agent      Agent        `json:"agent"`
	Generation int          `json:"generation"`
	Reason     string       `json:"reason"`
}

// HandoffResult names the artifact with the handoff.
type HandoffResult struct {
	Artifact string `json:"artifact"`
}

// ReplaySpec is the set of changes for a phase that a replay repeats. It is returned with the
// execution that the replay begins.
type ReplaySpec struct {
	Step   string       `json:"step,omitempty"` // the step to repeat; empty: the whole phase
	Model  *ModelChoice `json:"model,omitempty"`
	Kept   []StepOutput `json:"kept,omitempty"` // outputs of steps that are not repeated
	Open   []int        `json:"open,omitempty"` // applied heals whose result was not recorded
	By     string       `json:"by,omitempty"`
	Reason string       `json:"reason,omitempty"`
	// Authors are those of the change so far. The repeated workflow forgets those that it noted after the phase
	// began.
	Authors []string `json:"authors,omitempty"`
}
