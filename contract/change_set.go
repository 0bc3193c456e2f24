package contract

import (
	"fmt"
	"time"
)

// WorkflowChangeSet is the workflow type that releases the runs of a change set together.
const WorkflowChangeSet = "rgpt.ChangeSet"

// Activities of change sets.
const (
	ActivityChangeSetReady  = "rgpt.changeset.Ready"
	ActivityChangeSetDecide = "rgpt.changeset.Decide"
	ActivityChangeSetNotify = "rgpt.changeset.Notify"
	ActivityChangeSetLink   = "rgpt.changeset.Link"
)

const (
	// SignalChangeSet tells the workflow of a change set that something about one of its runs has changed.
	SignalChangeSet = "change-set"
	// SignalChangeSetDecided tells a run that waits for the others of its change set that it was decided
	// about.
	SignalChangeSetDecided = "change-set-decided"
)

// WaitsForChangeSet is the waiting_for value of a run that is ready for its release and waits for the
// others of its change set. Such a run does no work, so it does not count as running.
const WaitsForChangeSet = "change_set"

// ChangeSetWorkflowID returns the workflow id of a change set: changeset-7.
func ChangeSetWorkflowID(set int64) string { return fmt.Sprintf("changeset-%d", set) }

// ChangeSetWaitingID identifies a wait of a change set for a person: changeset-7/waiting/1.
func ChangeSetWaitingID(set int64, wait int) string {
	return fmt.Sprintf("%s/waiting/%d", ChangeSetWorkflowID(set), wait)
}

// ChangeSetWaiting is the payload of EventChangeSetWaiting: some runs of a change set are ready, the others
// are not, and a person decides what happens.
type ChangeSetWaiting struct {
	ChangeSet      int64              `json:"change_set"`
	WaitingID      string             `json:"waiting_id"` // the same in the events of all its runs
	Kind           string             `json:"kind"`       // WaitsForChangeSet
	Reason         string             `json:"reason"`
	ActionRequired string             `json:"action_required"`
	Ready          []ChangeSetRun     `json:"ready"`
	Missing        []MissingChangeRun `json:"missing"`
	Commands       []string           `json:"commands"` // of rgpt, one of which a person chooses
}

// ChangeSetRun names a run of a change set.
type ChangeSetRun struct {
	RunID   int64  `json:"run_id"`
	Project string `json:"project"`
}

// MissingChangeRun is a run of a change set that is not ready, and why.
type MissingChangeRun struct {
	ChangeSetRun

	Status  Status `json:"status"`
	Why     string `json:"why"`
	Failure string `json:"failure,omitempty"` // beginning of its message
}

// ChangeSetResolved is the payload of EventChangeSetResolved.
type ChangeSetResolved struct {
	ChangeSet int64  `json:"change_set"`
	WaitingID string `json:"waiting_id"`
	Outcome   string `json:"outcome,omitempty"` // absent: the set was not decided about; a run that was missing works again
	Reason    string `json:"reason,omitempty"`
}

// ChangeSetMember is the place of a run in a change set: runs that change several repositories for one
// goal and are released together.
type ChangeSetMember struct {
	Set    int64 `json:"set"`
	Number int   `json:"number"` // from 1
	Of     int   `json:"of"`     // number of runs
}

// What happens to the runs of a change set that are ready if others of it are not.
const (
	IncompleteDraft   = "draft"   // they are released; their pull requests are drafts
	IncompleteRelease = "release" // they are released
	IncompleteHold    = "hold"    // they wait until a person decides
)

// ChangeSetSettings are how a change set is released. They are frozen when it is created.
type ChangeSetSettings struct {
	Incomplete string        `json:"incomplete" enum:"draft,release,hold" doc:"what happens to the runs that are ready if others are not"`
	Wait       time.Duration `json:"wait" doc:"nanoseconds that the first run that is ready waits for the others"`
	Follow     time.Duration `json:"follow" doc:"nanoseconds after the decision for which pull requests are kept up to date"`
	Tokens     int64         `json:"tokens,omitempty" doc:"limit of all runs together; absent: none"`
	MicroUSD   int64         `json:"micro_usd,omitempty" doc:"limit of all runs together, in millionths of a US dollar; absent: none"`
}

// ChangeSetBudget limits the model calls of all runs of a change set together. Zero means no limit of that
// kind.
type ChangeSetBudget struct {
	Set      int64 `json:"set"`
	Tokens   int64 `json:"tokens,omitempty"`
	MicroUSD int64 `json:"micro_usd,omitempty"`
}

// ChangeSetInput starts the workflow of a change set.
type ChangeSetInput struct {
	Set       int64  `json:"set"`
	Tenant    string `json:"tenant"`
	Following bool   `json:"following,omitempty"` // it was decided about, and its runs know that
}

// ChangeSetResult is the result of the workflow of a change set.
type ChangeSetResult struct {
	Set     int64  `json:"set"`
	Outcome string `json:"outcome"`
}

// Outcomes of change sets.
const (
	OutcomeComplete   = "complete"   // all runs were ready
	OutcomeIncomplete = "incomplete" // some were; what is missing is named
	OutcomeNone       = "none"       // none was ready, and none can be any more
	OutcomeStopped    = "stopped"    // a person stopped all of them
)

// ChangeSetOutcomes returns all outcomes.
func ChangeSetOutcomes() []string {
	return []string{OutcomeComplete, OutcomeIncomplete, OutcomeNone, OutcomeStopped}
}

// ReadyInput says that a run is ready for its release, and asks whether it may be released.
type ReadyInput struct {
	RunID  int64           `json:"run_id"`
	Member ChangeSetMember `json:"member"`
}

// ReadyAnswer is the decision about a change set as one of its runs sees it.
type ReadyAnswer struct {
	Decided bool   `json:"decided"`
	Release bool   `json:"release"` // this run is released
	Outcome string `json:"outcome,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// ChangeSetDecision is the decision about a change set, as far as it was made.
type ChangeSetDecision struct {
	Outcome string        `json:"outcome,omitempty"` // empty: it was not decided yet
	Reason  string        `json:"reason,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"` // until time decides, or a person must; 0: time changes nothing
}

// ChangeSetLinked is what is left to do about the pull requests of a change set.
type ChangeSetLinked struct {
	Over    bool `json:"over"`              // nothing about them changes any more
	Updated int  `json:"updated,omitempty"` // number of pull requests that got another text
}
