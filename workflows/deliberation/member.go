package deliberation

import (
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// Member is the workflow of ALPHA, BETA or GAMMA: it waits for its turn, lets its model think about
// what happened since its last one, and sends the model's moves to its deliberation. Each turn is
// one model call. It ends when it is cancelled or when a call fails for good; a failed member is
// returned as a result with a failure, not as an error.
func Member(ctx workflow.Context, in contract.MemberInput) (contract.MemberResult, error) {
	m := &member{in: in, rows: records.NewRecorder(ctx, in.RunID), log: log.With(workflow.GetLogger(ctx), "pipeline", in.PipelineID, "member", in.Member), model: in.Model}
	failure := fault.Of(m.acceptTurnUpdates(ctx))
	if failure == nil {
		failure = m.open(ctx)
	}
	for failure == nil {
		var turn contract.Turn
		if turn, failure = m.next(ctx); failure == nil {
			failure = m.takeTurn(ctx, turn)
		}
	}
	return m.finish(ctx, failure)
}

// member is the state of a member's workflow.
type member struct {
	in        contract.MemberInput
	log       log.Logger
	rows      *records.Recorder
	model     contract.ModelChoice
	execution contract.ExecutionRef
	turns     int
	usage     contract.Usage
	calling   bool             // a model call was interrupted
	delivered workflow.Channel // turns that were sent as updates
}

// open begins the member's execution and its conversation.
func (m *member) open(ctx workflow.Context) *contract.Failure {
	agent := m.in.Member.Agent()
	begin := contract.Record{Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Step: string(agent), Agent: agent, Model: m.model}}
	if ctx.Err() != nil {
		var stopped *contract.Failure
		m.execution, stopped = m.rows.BeginStopped(ctx, begin)
		return stopped
	}
	began, err := m.rows.WriteLatest(ctx, func() contract.Record { return begin })
	if err != nil {
		return fault.Of(err)
	}
	m.execution = began.Execution
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	return fault.Of(workflow.ExecuteLocalActivity(options.Local(last), contract.ActivityOpenMember, contract.OpenMemberInput{
		Execution: m.execution, PipelineID: m.in.PipelineID, Member: m.in.Member, Attempt: m.in.Attempt,
	}).Get(last, nil))
}

// next waits for the member's next turn. It drops turns that were already taken, and
// turns that do not come from its deliberation.
func (m *member) next(ctx workflow.Context) (contract.Turn, *contract.Failure) {
	turns := workflow.GetSignalChannel(ctx, contract.SignalTurn)
	var turn contract.Turn
	for turn.Number <= m.turns || !m.isOwn(turn) {
		if ctx.Err() != nil {
			return turn, fault.Of(ctx.Err())
		}
		turn = contract.Turn{}
		selector := workflow.NewSelector(ctx)
		read := func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &turn) }
		selector.AddReceive(turns, read)
		selector.AddReceive(m.delivered, read)
		selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
		selector.Select(ctx)
		if turn.Number > 0 && !m.isOwn(turn) {
			m.log.Warn("Dropped a turn that belongs to another deliberation", "turn", turn.Number)
		}
	}
	return turn, nil
}

// takeTurn makes one model call and delivers the result. The activity signals the deliberation
// itself, so that the other members need not wait for this workflow; if it cannot, this workflow
// sends the signal. A turn that is delivered twice counts once.
func (m *member) takeTurn(ctx workflow.Context, turn contract.Turn) *contract.Failure {
	if turn.Model != nil {
		m.model = *turn.Model
	}
	m.turns, m.calling, turn.Token = turn.Number, true, ""
	brief := contract.Brief{
		PipelineID: m.in.PipelineID, Member: m.in.Member, Turn: turn, MovesPerTurn: m.in.MovesPerTurn, TextLimit: m.in.TextLimit, Token: m.in.Token,
	}
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		brief.Parent = parent.ID
	}
	var think contract.ThinkResult
	err := workflow.ExecuteActivity(options.Remote(ctx, contract.QueuePlanner, m.in.ModelTimeout+options.ModelWait), contract.ActivityThink, contract.ThinkInput{
		Execution: m.execution, Turn: m.turns, Model: m.model, Budget: m.in.Budget, Timeout: m.in.ModelTimeout, Brief: &brief,
		Fallbacks: m.in.Fallbacks,
	}).Get(ctx, &think)
	if err != nil {
		return fault.Of(err)
	}
	m.calling = false
	m.usage = m.usage.Add(think.Usage)
	if think.MovesSent {
		return nil
	}
	if brief.Parent == "" {
		return &fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s does not belong to a deliberation; pipelines start their members themselves", m.in.Member).Failure
	}
	moves := brief.Moves(m.execution, think)
	sent := workflow.SignalExternalWorkflow(ctx, brief.Parent, "", contract.SignalMoves, moves)
	return fault.Of(deliver(ctx, sent, contract.DeliverInput{WorkflowID: brief.Parent, Moves: &moves}))
}

// finish closes the execution. A member that was cancelled between its turns has
// completed its work.
func (m *member) finish(ctx workflow.Context, failure *contract.Failure) (contract.MemberResult, error) {
	end := &contract.ExecutionEnd{ExecutionID: m.execution.ID, Status: contract.ExecutionFailed, Failure: failure}
	if ctx.Err() != nil {
		end.Status, end.Failure = contract.ExecutionCompleted, nil
		if m.calling || m.turns == 0 {
			end.Status = contract.ExecutionCancelled
		}
	}
	result := contract.MemberResult{
		Member: m.in.Member, ExecutionID: m.execution.ID, Attempt: m.execution.Attempt, Turns: m.turns, Usage: m.usage, Failure: end.Failure,
	}
	if m.calling {
		result.Turns--
	}
	if m.execution.ID == 0 {
		return result, nil
	}
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	ended, err := m.rows.WriteLatest(last, func() contract.Record { return contract.Record{End: end} })
	if ended.Usage.Calls >= result.Usage.Calls { // a call is paid for even if its response arrived too late
		result.Usage = ended.Usage
	}
	return result, err
}
