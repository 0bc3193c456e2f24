package workflows

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/deliberationtest"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// deliberationFixture is what deliberations under test use: models that answer as configured, and the
// records that were written. Its members are real workflows.
type deliberationFixture struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment

	mu         sync.Mutex
	says       map[string][]contract.Move // by pipeline, member and turn: 7/ALPHA-2
	bad        map[string]string          // unusable answers
	fails      map[string]*fault.Error    // model calls that fail for good
	thinks     []contract.ThinkInput
	records    []contract.PipelineRecord
	numbers    map[string]bool
	ends       map[string]contract.ExecutionStatus // by member
	begun      map[string]int
	executions map[int64]string // by id, whose they are
	executed   []string         // events and activities, in order
	handoffs   []contract.Handoff
	created    []contract.NewPipeline
	closed     []contract.ClosePipelineInput
	broken     map[string]error // activity → its failure
	always     func(in contract.ThinkInput) []contract.Move
	paid       map[string]int // calls of a member, by its step, whose answers came too late
	onActivity func(n int)    // called at each activity, with its number
	taken      string         // the id of a workflow that already exists
	onCreate   func()         // called when the row of a recovery is created
	onRecord   func(contract.PipelineRecord)
	done       int           // activities so far
	away       int           // how many more times the database does not answer
	over       chan struct{} // closed when the host workflow has ended
}

func newDeliberationFixture(t *testing.T) *deliberationFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	f := &deliberationFixture{
		t: t, env: suite.NewTestWorkflowEnvironment(), says: map[string][]contract.Move{}, bad: map[string]string{}, fails: map[string]*fault.Error{},
		numbers: map[string]bool{}, ends: map[string]contract.ExecutionStatus{}, begun: map[string]int{}, broken: map[string]error{},
		paid: map[string]int{}, executions: map[int64]string{}, over: make(chan struct{}),
	}
	RegisterDeliberation(f.env)
	RegisterMember(f.env)
	// In Temporal's test environment children signal only parents that are
	// children themselves.
	f.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.DeliberationInput) (contract.DeliberationResult, error) {
		var out contract.DeliberationResult
		if f.taken != "" {
			ctx, done := workflow.WithCancel(ctx)
			defer done()
			if err := workflow.ExecuteChildWorkflow(options.Child(ctx, f.taken, contract.QueueRun), "sleeper").GetChildWorkflowExecution().Get(ctx, nil); err != nil {
				return out, err
			}
		}
		err := workflow.ExecuteChildWorkflow(options.Child(ctx, contract.PipelineWorkflowID(in.PipelineID), contract.QueueRun), contract.WorkflowDeliberation, in).Get(ctx, &out)
		return out, err
	}, workflow.RegisterOptions{Name: "host"})
	f.env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error { return workflow.Sleep(ctx, 24*time.Hour) }, workflow.RegisterOptions{Name: "sleeper"})
	f.env.SetTestTimeout(time.Minute)
	f.activities(f.env)
	return f
}

func (f *deliberationFixture) activities(env *testsuite.TestWorkflowEnvironment) {
	register := func(name string, fn any) {
		env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
	register(contract.ActivityRecord, f.execution)
	register(contract.ActivityOpenMember, func(context.Context, contract.OpenMemberInput) (contract.OpenMemberResult, error) {
		return contract.OpenMemberResult{Prompt: "alpha@1"}, nil
	})
	register(contract.ActivityThink, f.think)
	register(contract.ActivityPipelineRecord, f.record)
	register(contract.ActivityWriteHandoff, func(_ context.Context, in contract.WriteHandoffInput) (contract.WriteHandoffResult, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.executed = append(f.executed, "handoff")
		f.handoffs = append(f.handoffs, in.Handoff)
		return contract.WriteHandoffResult{Ref: fmt.Sprintf("pipeline-%d/handoff.json", in.Handoff.PipelineID)}, f.broken[contract.ActivityWriteHandoff]
	})
	register(contract.ActivityClosePipeline, func(_ context.Context, in contract.ClosePipelineInput) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.closed = append(f.closed, in)
		return f.broken[contract.ActivityClosePipeline]
	})
	register(contract.ActivityCreatePipeline, func(_ context.Context, in contract.NewPipeline) (contract.DeliberationInput, error) {
		if f.onCreate != nil {
			f.onCreate()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.created = append(f.created, in)
		return contract.DeliberationInput{
			PipelineID: in.Prior + 1, RunID: in.RunID, Tenant: "local", ForRun: in.ForRun, Attempt: in.Attempt, Task: deliberationtest.Task(), Settings: in.Settings, Inherited: in.Inherited,
		}, f.broken[contract.ActivityCreatePipeline]
	})
}

// countActivity counts an activity.
func (f *deliberationFixture) countActivity() {
	f.mu.Lock()
	f.done++
	n := f.done
	f.mu.Unlock()
	if f.onActivity != nil {
		f.onActivity(n)
	}
}

func (f *deliberationFixture) execution(_ context.Context, rec contract.Record) (contract.RecordResult, error) {
	f.countActivity()
	f.mu.Lock()
	defer f.mu.Unlock()
	var out contract.RecordResult
	if b := rec.Begin; b != nil {
		f.begun[b.Step]++
		out.Execution = contract.ExecutionRef{ID: int64(101 + len(f.executions)), RunID: rec.RunID, Phase: b.Phase, Step: b.Step, Agent: b.Agent, Attempt: f.begun[b.Step]}
		f.executions[out.Execution.ID] = b.Step
	}
	if e := rec.End; e != nil {
		out.Usage = f.usageOf(e.ExecutionID)
		f.ends[fmt.Sprint(e.ExecutionID)] = e.Status
		f.executed = append(f.executed, "member ended")
	}
	return out, nil
}

// usageOf returns the database's usage of an execution's calls.
func (f *deliberationFixture) usageOf(execution int64) (u contract.Usage) {
	for range f.paid[f.executions[execution]] {
		u = u.Add(oneCall)
	}
	for _, in := range f.thinks {
		if in.Execution.ID == execution {
			u = u.Add(oneCall)
		}
	}
	return u
}

// oneCall is what a model call costs.
var oneCall = contract.Usage{Calls: 1, PromptTokens: 100, CompletionTokens: 10, MicroUSD: 5}

func saying(pipeline int64, m contract.Member, turn int) string {
	return fmt.Sprintf("%d/%s-%d", pipeline, m, turn)
}

func (f *deliberationFixture) think(_ context.Context, in contract.ThinkInput) (contract.ThinkResult, error) {
	f.countActivity()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.thinks = append(f.thinks, in)
	key := saying(in.Brief.PipelineID, in.Brief.Member, in.Turn)
	if e := f.fails[key]; e != nil {
		return contract.ThinkResult{}, fault.ToTemporal(e, fault.RetryOf(e.Class).Attempts)
	}
	out := contract.ThinkResult{Moves: f.says[key], Usage: oneCall}
	if f.always != nil && out.Moves == nil {
		out.Moves = f.always(in)
	}
	if why := f.bad[key]; why != "" {
		out.Moves, out.Bad, out.Code = nil, why, contract.CodeInvalidOutput
	}
	return out, nil
}

func (f *deliberationFixture) record(ctx context.Context, rec contract.PipelineRecord) error {
	f.countActivity()
	if f.onRecord != nil {
		f.onRecord(rec)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away > 0 {
		f.away--
		return fault.ToTemporal(fault.New(contract.ClassInfra, contract.CodeDatabaseDown, "the database is away"), 1)
	}
	if err := f.broken[contract.ActivityPipelineRecord]; err != nil {
		return err
	}
	key := fmt.Sprint(activity.GetInfo(ctx).WorkflowExecution, rec.Seq)
	if f.numbers[key] {
		return nil
	}
	f.numbers[key] = true
	f.records = append(f.records, rec)
	for _, e := range rec.Events {
		f.executed = append(f.executed, string(e.Type))
	}
	return nil
}

// say sets what a member does in one of its turns.
func (f *deliberationFixture) say(m contract.Member, turn int, moves ...contract.Move) {
	f.says[saying(deliberationtest.PipelineID, m, turn)] = moves
}

// slow makes a turn take a while, in the time of the workflow.
func (f *deliberationFixture) slow(m contract.Member, turn int, d time.Duration) {
	f.env.OnActivity(contract.ActivityThink, mock.Anything, mock.MatchedBy(func(in contract.ThinkInput) bool {
		return in.Brief.Member == m && in.Turn == turn && in.Brief.PipelineID == deliberationtest.PipelineID
	})).Return(f.think).After(d).Maybe()
}

// begin runs a deliberation, and its recoveries, until they are over.
func (f *deliberationFixture) begin(change ...func(*contract.DeliberationInput)) {
	// For turns that are not slow: of several mocks the first match answers.
	f.env.OnActivity(contract.ActivityThink, mock.Anything, mock.Anything).Return(f.think).Maybe()
	f.env.ExecuteWorkflow("host", deliberationtest.Input(change...))
	close(f.over)
}

// stopFromActivity sends a stop by signal from within an activity and returns once it
// has been delivered, or an error if the workflow is over. The test environment's loop
// has to send it: SignalWorkflowByID is not safe for use by other goroutines.
func (f *deliberationFixture) stopFromActivity() error {
	sent := make(chan error, 1)
	f.after(0, func() {
		sent <- f.env.SignalWorkflowByID("pipeline-7", contract.UpdateStop, contract.PipelineCommand{ID: "s", By: "me"})
	})
	select {
	case err := <-sent:
		return err
	case <-f.over:
		return errors.New("the workflow is over")
	}
}

// deliberate runs a deliberation to its end, and returns how it ended.
func (f *deliberationFixture) deliberate(change ...func(*contract.DeliberationInput)) contract.DeliberationResult {
	f.t.Helper()
	f.begin(change...)
	require.True(f.t, f.env.IsWorkflowCompleted())
	require.NoError(f.t, f.env.GetWorkflowError())
	var out contract.DeliberationResult
	require.NoError(f.t, f.env.GetWorkflowResult(&out))
	return out
}

// events returns the events of a pipeline, in order.
func (f *deliberationFixture) events(pipeline int64) []contract.EventType {
	var out []contract.EventType
	for _, rec := range f.records {
		for _, e := range rec.Events {
			if rec.PipelineID == pipeline {
				out = append(out, e.Type)
			}
		}
	}
	return out
}

// commanded returns the recorded commands: to which pipeline, which and by whom.
func (f *deliberationFixture) commanded() (out []string) {
	for _, rec := range f.records {
		for _, e := range rec.Events {
			if said, ok := e.Payload.(map[string]any); ok && e.Type == contract.EventPipelineCommanded {
				out = append(out, fmt.Sprint(rec.PipelineID, " ", said["command"], " by ", said["by"]))
			}
		}
	}
	return out
}

// statuses returns the statuses that a pipeline passed through.
func (f *deliberationFixture) statuses(pipeline int64) []contract.PipelineStatus {
	var out []contract.PipelineStatus
	for _, rec := range f.records {
		for _, e := range rec.Events {
			if e.Type != contract.EventPipelineUpdated || rec.PipelineID != pipeline {
				continue
			}
			payload, _ := e.Payload.(map[string]any)
			status, _ := payload["status"].(string)
			out = append(out, contract.PipelineStatus(status))
		}
	}
	return out
}

// last returns the last change of a pipeline's row, with absent parts filled in.
func (f *deliberationFixture) last(pipeline int64) contract.PipelineChange {
	var out contract.PipelineChange
	for _, rec := range f.records {
		if rec.PipelineID == pipeline && rec.Change != nil {
			out = *rec.Change
		}
	}
	return out
}

// reports returns the reports of a pipeline by kind.
func (f *deliberationFixture) reports(pipeline int64) map[string]contract.DeliberationReport {
	out := map[string]contract.DeliberationReport{}
	for _, rec := range f.records {
		if rec.PipelineID == pipeline && rec.Change.Report != nil {
			out[rec.Change.Report.Kind] = *rec.Change.Report
		}
	}
	return out
}

// entries returns the newest state of each entry of a pipeline, by section and key.
func (f *deliberationFixture) entries(pipeline int64) map[string]contract.Entry {
	out := map[string]contract.Entry{}
	for _, rec := range f.records {
		for _, e := range rec.Entries {
			if rec.PipelineID == pipeline {
				out[string(e.Section)+"/"+e.Key] = e
			}
		}
	}
	return out
}

// errors returns what was refused of a pipeline's members.
func (f *deliberationFixture) errors() []contract.Error {
	var out []contract.Error
	for _, rec := range f.records {
		out = append(out, rec.Errors...)
	}
	return out
}

// turnsOf returns the input of a member's model, by turn from 1.
func (f *deliberationFixture) turnsOf(m contract.Member) []contract.Turn {
	var out []contract.Turn
	for _, in := range f.thinks {
		if in.Brief.Member == m && in.Brief.PipelineID == deliberationtest.PipelineID {
			out = append(out, in.Brief.Turn)
		}
	}
	return out
}

// after does something once the workflow has waited for d.
func (f *deliberationFixture) after(d time.Duration, do func()) { f.env.RegisterDelayedCallback(do, d) }

// command sends an update to the first deliberation.
func (f *deliberationFixture) command(name string, c contract.PipelineCommand) *pipelineAnswer {
	a := &pipelineAnswer{}
	err := f.env.UpdateWorkflowByID(contract.PipelineWorkflowID(deliberationtest.PipelineID), name, fmt.Sprint(name, c.ID), &testsuite.TestUpdateCallback{
		OnAccept: func() { a.accepted = true },
		OnReject: func(err error) { a.err = err },
		OnComplete: func(result any, err error) {
			a.err = err
			if ack, ok := result.(contract.PipelineAck); ok {
				a.ack = ack
			}
		},
	}, c)
	require.NoError(f.t, err)
	return a
}

type pipelineAnswer struct {
	accepted bool
	ack      contract.PipelineAck
	err      error
}

// view asks the first deliberation for its blackboard.
func (f *deliberationFixture) view() contract.DeliberationView {
	value, err := f.env.QueryWorkflowByID(contract.PipelineWorkflowID(deliberationtest.PipelineID), contract.QueryBlackboard)
	require.NoError(f.t, err)
	var v contract.DeliberationView
	require.NoError(f.t, value.Get(&v))
	return v
}
