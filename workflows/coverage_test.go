package workflows

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
)

// TestEveryWorkflowEndingAndActionHasARecordedHistory fails when a run can do something
// new that no history shows: what is not recorded can be changed without the replay
// test noticing.
func TestEveryWorkflowEndingAndActionHasARecordedHistory(t *testing.T) {
	t.Parallel()
	kinds, endings, carriedOut := map[string]bool{}, map[contract.Status]bool{}, map[contract.HealAction]bool{}
	unbegun := map[string]bool{} // kinds that were stopped before their first task
	resets, continued, parts, moved := 0, 0, 0, 0
	require.NoError(t, filepath.WalkDir("testdata/histories", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".json.gz") {
			return err
		}
		events := readHistory(t, file).Events
		kind := events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
		kinds[kind] = true
		unbegun[kind] = unbegun[kind] || stoppedFirst(events)
		for _, e := range events {
			if e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
				resets++
			}
			if kind == contract.WorkflowRun && e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == contract.ActivityThink {
				parts++
			}
		}
		if kind == contract.WorkflowStep && decoded[contract.StepInput](t, events[0].GetWorkflowExecutionStartedEventAttributes().GetInput()).State != nil {
			moved++
		}
		if continuedAsNew(events) {
			continued++
			return nil
		}
		result := events[len(events)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult()
		switch kind {
		case contract.WorkflowRun:
			endings[decoded[contract.RunResult](t, result).Status] = true
		case contract.WorkflowSelfHeal:
			carriedOut[decoded[contract.Directive](t, result).Action] = true
		}
		return nil
	}))
	for _, kind := range []string{contract.WorkflowRun, contract.WorkflowStep, contract.WorkflowSelfHeal, contract.WorkflowDeliberation, contract.WorkflowMember, contract.WorkflowTrigger, contract.WorkflowMergeQueue} {
		require.True(t, kinds[kind], "there is no history of %s", kind)
	}
	for _, s := range contract.Statuses() {
		require.Equal(t, s.Terminal(), endings[s], "histories of runs that ended as %s", s)
	}
	var lacking []contract.HealAction
	for _, a := range contract.HealActions() {
		if !carriedOut[a] {
			lacking = append(lacking, a)
		}
	}
	require.Empty(t, lacking, "no history has a heal by them; add an ending to test/recordhistories and record it into a new folder")
	require.Positive(t, resets, "no history is of a run that was done again")
	require.Positive(t, parts, "no history is of a run that carried out a step as a part of its workflow")
	require.Positive(t, moved, "no history is of a step that moved to a workflow of its own")
	require.Positive(t, continued, "no history is of a run that continued as new")
	for _, kind := range []string{contract.WorkflowStep, contract.WorkflowMember} {
		require.True(t, unbegun[kind], "no history is of a %s that was stopped before its first task", kind)
	}
}

// continuedAsNew reports whether a workflow continued in another history.
func continuedAsNew(events []*historypb.HistoryEvent) bool {
	return events[len(events)-1].GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
}

// stoppedFirst reports whether a workflow was cancelled before its first task.
func stoppedFirst(events []*historypb.HistoryEvent) bool {
	at := func(kind enumspb.EventType) int {
		return slices.IndexFunc(events, func(e *historypb.HistoryEvent) bool { return e.GetEventType() == kind })
	}
	cancelled := at(enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED)
	return cancelled >= 0 && cancelled < at(enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
}

// recorded is what a history shows of a deliberation.
type recorded struct {
	contract.DeliberationResult
	in        contract.DeliberationInput
	statuses  []string // in order
	failed    int      // members whose model calls failed for good
	recovers  bool     // another one followed
	calledOff bool     // the announced recovery did not follow
	updates   int      // moves of members that came as updates
}

// before returns the status in which the deliberation ended.
func (r recorded) before() contract.PipelineStatus {
	return contract.PipelineStatus(r.statuses[len(r.statuses)-2])
}

func recordedDeliberation(t *testing.T, events []*historypb.HistoryEvent) recorded {
	t.Helper()
	r := recorded{
		DeliberationResult: decoded[contract.DeliberationResult](t, events[len(events)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult()),
		in:                 decoded[contract.DeliberationInput](t, events[0].GetWorkflowExecutionStartedEventAttributes().GetInput()),
	}
	for _, e := range events {
		if status := e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()[contract.AttributeStatus]; status != nil {
			r.statuses = append(r.statuses, decoded[string](t, &commonpb.Payloads{Payloads: []*commonpb.Payload{status}}))
		}
		if e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName() == contract.SignalMoves {
			r.updates++
		}
		r.calledOff = r.calledOff || records(e, contract.EventRecoveryFailed)
		ended := e.GetChildWorkflowExecutionCompletedEventAttributes()
		switch ended.GetWorkflowType().GetName() {
		case contract.WorkflowMember:
			if decoded[contract.MemberResult](t, ended.GetResult()).Failure != nil {
				r.failed++
			}
		case contract.WorkflowDeliberation:
			r.recovers = true
		}
	}
	return r
}

// TestEveryEndingOfADeliberationHasARecordedHistory does the same for pipelines.
func TestEveryEndingOfADeliberationHasARecordedHistory(t *testing.T) {
	t.Parallel()
	var all []recorded
	told := false     // a member's turn that the activity of its model call reported, as usual
	planless := false // a run that was stopped while its planner deliberated
	given := false    // a member's turn that came as an update
	switched := false // a run that sent its planner's deliberation another model
	files, err := filepath.Glob("testdata/histories/*/*.json.gz")
	require.NoError(t, err)
	for _, file := range files {
		events := readHistory(t, file).Events
		switch events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName() {
		case contract.WorkflowDeliberation:
			all = append(all, recordedDeliberation(t, events))
		case contract.WorkflowMember:
			told, given = told || slices.ContainsFunc(events, endsModelCall), given || slices.ContainsFunc(events, givenByUpdate)
		case contract.WorkflowRun:
			if continuedAsNew(events) {
				continue
			}
			result := decoded[contract.RunResult](t, events[len(events)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult())
			switched = switched || slices.ContainsFunc(events, switchesModels)
			planless = planless || result.Status == contract.StatusCancelled && slices.ContainsFunc(events, endsDeliberation)
		}
	}
	require.True(t, given, "no history is of a member that was given a turn by an update")
	require.True(t, switched, "no history is of a run that switched a model while it deliberated")
	require.True(t, planless, "no history is of a run that was stopped while it deliberated")
	require.True(t, told, "no history is of a member whose moves the activity of its model call told")
	stopped := func(in contract.PipelineStatus, code contract.Code) func(recorded) bool {
		return func(r recorded) bool {
			return r.Status == contract.PipelineStopped && r.before() == in && r.Failure.Code == code
		}
	}
	want := map[string]func(recorded) bool{
		"completed by votes":           func(r recorded) bool { return r.Status == contract.PipelineCompleted && r.By == "" },
		"completed by GAMMA's verdict": func(r recorded) bool { return r.Status == contract.PipelineCompleted && r.By == contract.Gamma },
		"stopped in its opening":       stopped(contract.PipelineRunning, contract.CodeCancelled),
		"stopped at its report":        stopped(contract.PipelineReport, contract.CodeCancelled),
		"stopped in its exchange":      stopped(contract.PipelineOrchestrating, contract.CodeCancelled),
		"continued by nobody":          stopped(contract.PipelineReport, contract.CodeApprovalExpired),
		"done without an agreement": func(r recorded) bool {
			return r.Status == contract.PipelineOrchestrationFailed && r.AbortReason == ""
		},
		"one agent dead":   func(r recorded) bool { return r.Consensus && r.failed == 1 },
		"both agents dead": func(r recorded) bool { return r.Status == contract.PipelineFailed && r.failed == len(state.Peers()) },
		"recovered":        func(r recorded) bool { return r.recovers && r.Consensus },
		"stopped while it was recovered": func(r recorded) bool {
			return r.recovers && r.Status == contract.PipelineStopped && r.before() != contract.PipelineReport
		},
		"stopped with the one that it recovers, and says by whom": func(r recorded) bool {
			return r.in.Attempt > 1 && r.Status == contract.PipelineStopped && strings.HasPrefix(r.Failure.Message, "stopped by ")
		},
		"decided by a turn that ended after the last round": func(r recorded) bool {
			return r.By == contract.Gamma && r.Metrics.Iterations == r.in.Settings.Iterations
		},
		"recovered in vain":                  func(r recorded) bool { return r.recovers && !r.Consensus && r.Attempts > 2 },
		"planning a run":                     func(r recorded) bool { return r.in.ForRun && r.Consensus },
		"stopped with the run that it plans": func(r recorded) bool { return r.in.ForRun && r.Status == contract.PipelineStopped },
		"to be recovered, and is not":        func(r recorded) bool { return r.calledOff && !r.recovers },
		"told of moves by updates":           func(r recorded) bool { return r.updates > 0 },
	}
	for _, reason := range []contract.AbortReason{contract.AbortStuck, contract.AbortIterationLimit, contract.AbortTimeout} {
		want["given up: "+string(reason)] = func(r recorded) bool { return !r.recovers && r.AbortReason == reason }
	}
	for _, reason := range contract.GammaReasons() {
		want["with GAMMA: "+string(reason)] = func(r recorded) bool { return !r.recovers && r.Metrics.GammaReason == reason }
	}
	for ending, shows := range want {
		require.True(t, slices.ContainsFunc(all, shows), "no history is of a deliberation that is %s; add it to test/recordhistories and record it into a new folder", ending)
	}
}

// endsModelCall reports whether an event is the end of a model call that sent the
// deliberation its moves.
func endsModelCall(e *historypb.HistoryEvent) bool {
	payloads := e.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads()
	var r contract.ThinkResult
	return len(payloads) > 0 && json.Unmarshal(payloads[0].GetData(), &r) == nil && r.MovesSent
}

// givenByUpdate reports whether an event is a member's turn that came as an update.
func givenByUpdate(e *historypb.HistoryEvent) bool {
	return e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName() == contract.SignalTurn
}

// endsDeliberation reports whether an event is the end of a deliberation that was
// stopped.
func endsDeliberation(e *historypb.HistoryEvent) bool {
	ended := e.GetChildWorkflowExecutionCompletedEventAttributes()
	var r contract.DeliberationResult
	return ended.GetWorkflowType().GetName() == contract.WorkflowDeliberation && len(ended.GetResult().GetPayloads()) > 0 &&
		json.Unmarshal(ended.GetResult().GetPayloads()[0].GetData(), &r) == nil && r.Status == contract.PipelineStopped
}

// switchesModels reports whether an event is a run sending its deliberation other
// models.
func switchesModels(e *historypb.HistoryEvent) bool {
	return e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName() == contract.UpdateSwitchModel
}

// records reports whether an event is of a deliberation that records an event of a kind.
func records(e *historypb.HistoryEvent, kind contract.EventType) bool {
	payloads := e.GetActivityTaskScheduledEventAttributes().GetInput().GetPayloads()
	var rec contract.PipelineRecord
	return len(payloads) > 0 && json.Unmarshal(payloads[0].GetData(), &rec) == nil &&
		slices.ContainsFunc(rec.Events, func(d contract.EventDraft) bool { return d.Type == kind })
}

// decoded reads a workflow's result.
func decoded[T any](t *testing.T, result *commonpb.Payloads) (v T) {
	t.Helper()
	require.NotEmpty(t, result.GetPayloads())
	require.NoError(t, json.Unmarshal(result.GetPayloads()[0].GetData(), &v))
	return v
}
