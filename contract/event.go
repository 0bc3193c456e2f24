package contract

import (
	"encoding/json"
	"time"
)

// EventType is the type of an event.
type EventType string

// The events of a run. Started, CompletedEvent and ErrorEvent return the events of a phase.
const (
	EventRunCreated        EventType = "run.created"
	EventRunUpdated        EventType = "run.updated"
	EventRunFailed         EventType = "run.failed"
	EventStepStarted       EventType = "step.started"
	EventStepCompleted     EventType = "step.completed"
	EventStepError         EventType = "step.error"
	EventFindingAdded      EventType = "finding.added"
	EventArtifactAdded     EventType = "artifact.added"
	EventApprovalRequested EventType = "approval.requested"
	EventApprovalReminded  EventType = "approval.reminded"
	EventApprovalEscalated EventType = "approval.escalated" // a reminder to further receivers
	EventApprovalGranted   EventType = "approval.granted"
	EventApprovalRejected  EventType = "approval.rejected"
	EventApprovalExpired   EventType = "approval.expired"
	EventMessageAdded      EventType = "message.added"     // a person wrote a message to the run's agents
	EventMessageDelivered  EventType = "message.delivered" // an agent got messages before a turn
	EventInputRequested    EventType = "input.requested"
	EventInputReminded     EventType = "input.reminded"
	EventInputEscalated    EventType = "input.escalated"
	EventInputAnswered     EventType = "input.answered" // by a person, or by the deadline with the default
	EventBudgetWarning     EventType = "budget.warning" // a budget is nearly used up
	EventModelSwitched     EventType = "model.switched"
	EventModelFallback     EventType = "model.fallback" // an agent uses another model, because its own is out
	EventModelRestored     EventType = "model.restored" // an agent uses its own model again
	EventModelWaiting      EventType = "model.waiting"  // a model call waits for its turn at a provider
	EventHealStarted       EventType = "heal.started"
	EventHealSuccess       EventType = "heal.success" // the phase succeeded afterwards
	EventHealFailed        EventType = "heal.failed"
	EventAgentRevoked      EventType = "agent.revoked"

	EventStayStarted   EventType = "stay.started"  // the run watches its branch
	EventStayPushed    EventType = "stay.pushed"   // people pushed to it, and the run continues from there
	EventStayUpdating  EventType = "stay.updating" // the base of its pull request is brought in
	EventStayUpdated   EventType = "stay.updated"  // that was released
	EventStayEnded     EventType = "stay.ended"
	EventCheckReceived EventType = "check.received" // a fix begins
	EventCheckPassed   EventType = "check.passed"
	EventCheckIgnored  EventType = "check.ignored" // one message, or a number of them

	EventPullRequestPrefix            = "pr." // of the events of pull requests
	EventPullRequestOpened  EventType = "pr.opened"
	EventPullRequestUpdated EventType = "pr.updated" // another commit was released to it
	EventPullRequestMerged  EventType = "pr.merged"
	EventPullRequestClosed  EventType = "pr.closed" // without a merge

	EventChangeSetWaiting  EventType = "change_set.waiting"  // the run is ready, and a person must decide about its change set
	EventChangeSetResolved EventType = "change_set.resolved" // that is not needed any more

	EventTriggerFired EventType = "trigger.fired" // a trigger created the run

	// Outcomes of deliveries without a run. Only webhooks get them; the database adds them when a delivery ends.
	EventTriggerSkipped EventType = "trigger.skipped"
	EventTriggerFailed  EventType = "trigger.failed" // its run could not be created

	EventInterventionRequested EventType = "intervention.requested"
	EventInterventionReminded  EventType = "intervention.reminded"
	EventInterventionEscalated EventType = "intervention.escalated"
	EventInterventionResolved  EventType = "intervention.resolved"
	EventInterventionExpired   EventType = "intervention.expired"
)

// Started returns the event of a phase that begins, such as planner.started.
func (p Phase) Started() EventType { return EventType(string(p) + ".started") }

// CompletedEvent returns the event of a phase that succeeded, such as planner.completed.
func (p Phase) CompletedEvent() EventType { return EventType(string(p) + ".completed") }

// ErrorEvent returns the event of a phase that failed, such as planner.error.
func (p Phase) ErrorEvent() EventType { return EventType(string(p) + ".error") }

// Event is an event of a run. Seq counts the run's events from 1 without gaps, in the order in
// which they were committed.
type Event struct {
	RunID     int64           `json:"run_id"`
	Seq       int64           `json:"seq"`
	Type      EventType       `json:"event_type"`
	Payload   json.RawMessage `json:"payload"`
	CreatedAt time.Time       `json:"created_at"`
}

// PipelineID returns the pipeline that the event is about, 0 if none.
func (e Event) PipelineID() int64 {
	var named struct {
		ID int64 `json:"pipeline_id"`
	}
	if json.Unmarshal(e.Payload, &named) != nil {
		return 0
	}
	return named.ID
}

// EventDraft is an event to be written to the database.
type EventDraft struct {
	Type    EventType `json:"type"`
	Payload any       `json:"payload,omitempty"`
}

// Record is one transition of a run to be written to the database: the run's new state and its
// events, in one transaction. The workflow execution that sends it, or each part of it, counts its records in Seq from
// 1; (workflow id, workflow run id, Seq) makes a repeat harmless. If a workflow task fails before
// completion and is repeated, different records may have the same numbers: Task identifies the task
// that wrote them. If one record both ends and begins an execution, End comes first.
type Record struct {
	RunID         int64              `json:"run_id"`
	Workflow      string             `json:"workflow,omitempty"` // the id under which it is numbered, if its sender is a part of a workflow; empty: that of the workflow
	Seq           int64              `json:"seq"`
	Task          int64              `json:"task,omitempty"` // the workflow task that wrote it, as the length of its history; 0: unknown
	At            time.Time          `json:"at"`             // workflow time
	Run           *RunChange         `json:"run,omitempty"`
	Begin         *ExecutionBegin    `json:"begin,omitempty"`
	End           *ExecutionEnd      `json:"end,omitempty"`
	EndEvents     int                `json:"end_events,omitempty"` // number of Events, from the first, that belong to End or, without it, to what was before Begin: they are written once
	Events        []EventDraft       `json:"events,omitempty"`
	Heals         []HealNote         `json:"heals,omitempty"`
	Interventions []InterventionNote `json:"interventions,omitempty"`
	Notes         map[string]string  `json:"notes,omitempty"` // approval bookkeeping: id, kind, status, by, reason, subject, deadline, verdict
}

// RunChange is the part of the run's row that a transition sets.
type RunChange struct {
	Phase          Phase    `json:"phase,omitempty"`
	Status         Status   `json:"status"`
	RetryCount     int      `json:"retry_count"`
	LastHealAction string   `json:"last_heal_action,omitempty"`
	WaitingFor     string   `json:"waiting_for,omitempty"`
	Failure        *Failure `json:"failure,omitempty"`
	Branch         string   `json:"branch,omitempty"`
	Commit         string   `json:"commit,omitempty"`
	PlanID         int64    `json:"plan_id,omitempty"` // of the new current plan; 0 leaves it unchanged
	Finished       bool     `json:"finished,omitempty"`
	// Staying is true while the run's workflow still runs after its release: the run's status may
	// change although it is over.
	Staying      bool       `json:"staying,omitempty"`
	StayingUntil *time.Time `json:"staying_until,omitempty"`
}

// ExecutionBegin opens an execution: one attempt of a phase, or of a step if Step is set.
type ExecutionBegin struct {
	Phase Phase       `json:"phase"`
	Step  string      `json:"step,omitempty"`
	Agent Agent       `json:"agent"`
	Model ModelChoice `json:"model"`
	// With identifies what the execution works with, such as its plan and the changes that it starts from. A
	// record with something else is another one. Empty: only the phase and the step identify it.
	With string `json:"with,omitempty"`
}

// ExecutionStatus is the state of an execution's row.
type ExecutionStatus string

// The execution statuses.
const (
	ExecutionRunning   ExecutionStatus = "running"
	ExecutionCompleted ExecutionStatus = "completed"
	ExecutionFailed    ExecutionStatus = "failed"
	ExecutionCancelled ExecutionStatus = "cancelled"
)

// ExecutionEnd closes an execution.
type ExecutionEnd struct {
	ExecutionID int64           `json:"execution_id"`
	Status      ExecutionStatus `json:"status"`
	Failure     *Failure        `json:"failure,omitempty"`
	Output      json.RawMessage `json:"output,omitempty"` // becomes the phase's output on the run as well
}

// RecordResult is the result of writing a Record. Execution is the one that Begin opened; Replay is
// set if it belongs to a replay. Usage is the total paid usage of the execution that End closed,
// including calls whose responses arrived too late.
type RecordResult struct {
	Execution ExecutionRef `json:"execution"`
	Replay    *ReplaySpec  `json:"replay,omitempty"`
	Usage     Usage        `json:"usage,omitzero"`
}

// ExecutionRef identifies one attempt of a phase or step.
type ExecutionRef struct {
	ID      int64  `json:"id"` // orchestrator_executions.id
	RunID   int64  `json:"run_id"`
	Phase   Phase  `json:"phase"`
	Step    string `json:"step,omitempty"`
	Agent   Agent  `json:"agent"`
	Attempt int    `json:"attempt"` // from 1
}
