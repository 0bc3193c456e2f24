package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// Task queues. Each agent polls its own, so that each can run and scale on its own host.
const (
	QueueRun      = "rgpt-run"
	QueuePlanner  = "rgpt-planner"
	QueueBuilder  = "rgpt-builder"
	QueueTester   = "rgpt-tester"
	QueueReleaser = "rgpt-releaser"
	QueueAnalyzer = "rgpt-analyzer"
	QueueRepair   = "rgpt-repair"
)

// QueueOf returns the queue that does the work of a phase.
func QueueOf(p Phase) string {
	switch p {
	case PhasePlanner:
		return QueuePlanner
	case PhaseBuilder:
		return QueueBuilder
	case PhaseTester:
		return QueueTester
	default:
		return QueueReleaser
	}
}

// QueueOfWorker returns the queue that only one worker polls, for work that must be
// done there and nowhere else: rgpt-worker/host:4711:3f9a.
func QueueOfWorker(identity string) string { return "rgpt-worker/" + identity }

// Workflow types.
const (
	WorkflowRun  = "rgpt.Run"
	WorkflowStep = "rgpt.Step"
	// WorkflowSelfHeal heals one failure of a run.
	WorkflowSelfHeal = "rgpt.SelfHeal"
	// WorkflowTrigger adds a time of a schedule to a trigger.
	WorkflowTrigger = "rgpt.Trigger"
)

// Activity types, named after the agent that carries them out.
const (
	ActivityRecord     = "rgpt.record.Record"
	ActivityPlan       = "rgpt.planner.Plan"
	ActivityAdoptPlan  = "rgpt.planner.Adopt"
	ActivityOpenStep   = "rgpt.builder.OpenStep"
	ActivityIntegrate  = "rgpt.builder.Integrate"
	ActivityThink      = "rgpt.model.Think"
	ActivityTool       = "rgpt.tools.Call"
	ActivityTestPlan   = "rgpt.tester.Plan"
	ActivityVerify     = "rgpt.tester.Verify"
	ActivityTestReport = "rgpt.tester.Report"
	ActivityRelease    = "rgpt.releaser.Release"
	ActivityCleanUp    = "rgpt.releaser.CleanUp"
	ActivityProtected  = "rgpt.releaser.Protected"

	ActivityPullRequest = "rgpt.releaser.PullRequest"

	ActivityDiagnose       = "rgpt.repair.Diagnose"
	ActivityJudge          = "rgpt.repair.Judge"
	ActivityCreateDefaults = "rgpt.repair.CreateDefaults"
	ActivityHandoff        = "rgpt.repair.Handoff"
	ActivityRunTimeFrom    = "rgpt.run.RunTimeFrom"
	ActivityWorkers        = "rgpt.repair.Workers"

	ActivityTrigger = "rgpt.trigger.Fire"
)

// Queries of a run.
const (
	QueryState      = "state"
	QueryPlan       = "plan"
	QueryTranscript = "transcript"
)

// Updates of a run. Each also exists as a signal of the same name, for services that
// can only signal; updates are validated and acknowledged.
const (
	UpdateApprove     = "approve"
	UpdateReject      = "reject"
	UpdatePause       = "pause"
	UpdateResume      = "resume"
	UpdateSwitchModel = "switch_model"
	UpdateHeal        = "heal"
	UpdateAnswer      = "answer"
	UpdateStop        = "stop"
	UpdateAdvance     = "advance"
	UpdateTell        = "tell"
)

// SignalDirectives sends a step the current directives of its run; see Directives.
const SignalDirectives = "orders"

// PayloadLimit is the maximum size in bytes of an input or result of a workflow, activity, signal
// or update: payloads stay in the history and are read again at each replay. Larger data belongs in
// the database or in an artifact. A larger payload is a failure with CodeTooLarge.
const PayloadLimit = 64 << 10

// Search attributes, with which Temporal's Web UI lists and filters runs.
const (
	AttributeTenant    = "RgptTenant"
	AttributeProject   = "RgptProject"
	AttributeRun       = "RgptRun"
	AttributePhase     = "RgptPhase"
	AttributeStatus    = "RgptStatus"
	AttributeErrorType = "RgptErrorType"
)

// SearchAttributes returns every custom search attribute with its Temporal type, in the order of
// registration.
func SearchAttributes() [][2]string {
	return [][2]string{
		{AttributeTenant, "Keyword"},
		{AttributeProject, "Keyword"},
		{AttributeRun, "Int"},
		{AttributePhase, "Keyword"},
		{AttributeStatus, "Keyword"},
		{AttributeErrorType, "Keyword"},
	}
}

// RunWorkflowID returns the workflow id of a run: run-42.
func RunWorkflowID(runID int64) string { return fmt.Sprintf("run-%d", runID) }

// triggerSchedule is the beginning of the ids of the schedules of triggers.
const triggerSchedule = "trigger/"

// TriggerScheduleID returns the id of the schedule of a trigger: trigger/nightly.
func TriggerScheduleID(trigger string) string { return triggerSchedule + trigger }

// TriggerOfSchedule returns the trigger that a schedule belongs to. It reports false for schedules of
// others.
func TriggerOfSchedule(id string) (string, bool) { return strings.CutPrefix(id, triggerSchedule) }

// StepWorkflowID returns the workflow id of a step: run-42/step/step-001.
func StepWorkflowID(runID int64, stepID string) string {
	return fmt.Sprintf("run-%d/step/%s", runID, stepID)
}

// RunIDOfWorkflow returns the run that a workflow id belongs to: 42 for run-42 and for
// each of its children. It reports false for any other id.
func RunIDOfWorkflow(workflowID string) (int64, bool) {
	head, _, _ := strings.Cut(workflowID, "/")
	digits, ok := strings.CutPrefix(head, "run-")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id <= 0 || strconv.FormatInt(id, 10) != digits {
		return 0, false
	}
	return id, true
}

// Branch returns the branch on which a run's work is released: rgpt/run-42.
func Branch(runID int64) string { return fmt.Sprintf("rgpt/run-%d", runID) }

// EventID returns the public id of an event: run-42/17.
func EventID(runID, seq int64) string { return fmt.Sprintf("run-%d/%d", runID, seq) }

// WebhookTestID returns the id of a webhook's test message: webhook-3/test/12.
func WebhookTestID(webhook, delivery int64) string {
	return fmt.Sprintf("webhook-%d/test/%d", webhook, delivery)
}

// What approvals are about.
const (
	ApprovalPlan    = "plan"
	ApprovalRelease = "release"
	// AskInput is a question of the planner, which is answered rather than approved.
	AskInput = "input"
)
