// Package deliberation has the workflow of a pipeline, in which ALPHA, BETA and GAMMA deliberate,
// and the workflow of a member.
package deliberation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// Workflow is one pipeline: ALPHA and BETA work on an objective, each alone, then exchange their
// findings until they agree, GAMMA decides, or it is aborted. Its state is in package state;
// members are child workflows to which it assigns turns. If it fails, another deliberation recovers
// it: its child, whose result it returns.
//
// Its history stays short enough without continue-as-new: rounds are bounded
// (deliberation.iterations), turns within a round too (turnsInRound), and a flood is
// refused without a separate record for each message.
func Workflow(ctx workflow.Context, in contract.DeliberationInput) (contract.DeliberationResult, error) {
	d := newDeliberation(ctx, in)
	work, cancel := workflow.WithCancel(ctx)
	d.cancel = cancel // a command may arrive before the workflow's first task
	if err := d.handle(ctx); err != nil {
		return contract.DeliberationResult{}, err
	}
	return d.run(ctx, work)
}

// deliberation carries out what its state decides.
type deliberation struct {
	*state.State
	log     log.Logger
	rows    *recordWriter
	members map[contract.Member]*memberHandle
	alarm   alarm
	dirty   bool // the state has changed since the main coroutine last saw it

	cancel      workflow.CancelFunc       // of the work
	stop        *contract.Failure         // why a stop was requested; nil: not requested
	stopper     *contract.PipelineCommand // the command that requested the stop; nil: cancelled, or nobody continued it
	continued   bool                      // requested
	shownStatus contract.PipelineStatus
	announced   bool                         // the end announced a recovery
	recovery    workflow.CancelFunc          // of the deliberation that recovers this one
	successor   workflow.ChildWorkflowFuture // that deliberation
	ordered     int64                        // Order of the last switch of models

	recordsCommands bool // at once; else, where a record has room for them
}

// memberHandle is a handle to a member's workflow.
type memberHandle struct {
	child  workflow.ChildWorkflowFuture
	cancel workflow.CancelFunc
	ended  bool
}

func newDeliberation(ctx workflow.Context, in contract.DeliberationInput) *deliberation {
	d := &deliberation{
		State:   state.New(in, workflow.Now(ctx)),
		log:     log.With(workflow.GetLogger(ctx), "pipeline", in.PipelineID, "run", in.RunID),
		members: map[contract.Member]*memberHandle{},
	}
	d.rows = newRecordWriter(ctx, d.State)
	// Asked here and not when a command arrives: the SDK loses count of the events of a workflow task in which a
	// version is asked for and then children are cancelled, and such a history does not replay.
	d.recordsCommands = workflow.GetVersion(ctx, "record-commands", workflow.DefaultVersion, 1) >= 1
	return d
}

// run runs a pipeline from start to end. The deliberation has its own context, which a stop
// cancels; everything after that runs on a disconnected context.
func (d *deliberation) run(ctx, work workflow.Context) (contract.DeliberationResult, error) {
	out := d.live(work)
	d.recordCancel(ctx)
	d.cancel()

	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	d.end(last, out)
	if err := d.rows.flush(last); err != nil {
		return contract.DeliberationResult{}, err
	}
	result := d.recover(last, ctx, out)
	if err := workflow.Await(last, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return result, err
	}
	return result, d.rows.flush(last)
}

// live runs the opening, the report and the exchange, and returns the outcome of the deliberation.
func (d *deliberation) live(ctx workflow.Context) *state.Outcome {
	for _, part := range []func(workflow.Context) (*state.Outcome, error){d.open, d.reportBack, d.orchestrate} {
		out, err := part(ctx)
		if err != nil {
			return d.interrupted(err)
		}
		if out != nil {
			return out
		}
	}
	return &state.Outcome{Status: contract.PipelineOrchestrationFailed}
}

// interrupted returns the outcome of a deliberation whose work was interrupted.
func (d *deliberation) interrupted(err error) *state.Outcome {
	if d.stop == nil && !temporal.IsCanceledError(err) {
		return &state.Outcome{Status: contract.PipelineFailed, Failure: fault.Of(err)}
	}
	return &state.Outcome{Status: contract.PipelineStopped}
}

// recordCancel records a cancellation by Temporal, or by the run that this deliberation plans, as a
// stop.
func (d *deliberation) recordCancel(ctx workflow.Context) {
	if ctx.Err() == nil {
		return
	}
	commands.RunSignalHandlers(ctx) // a stop command that arrived with the cancellation names its author and reason
	if d.stop == nil {
		d.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "the deliberation was cancelled; partial results are kept").Failure
	}
}

// open spawns the members and waits for their opening turns.
func (d *deliberation) open(ctx workflow.Context) (*state.Outcome, error) {
	for _, m := range state.Peers() {
		d.spawn(ctx, m, "")
	}
	d.become(ctx, contract.PipelineRunning, "")
	err := d.until(ctx, func(now time.Time) bool { return d.OpeningOver(now) })
	return d.PeersGone(), err
}

// reportBack reports the result of the opening, and waits for a person to continue,
// unless it continues automatically.
func (d *deliberation) reportBack(ctx workflow.Context) (*state.Outcome, error) {
	waiting := ""
	if !d.Settings.AutoContinue && !d.continued {
		waiting = contract.UpdateContinue
	}
	d.become(ctx, contract.PipelineReport, waiting)
	d.AddReport(contract.ReportCheckpoint, d.Status, "after the opening turns: "+d.Summary(), workflow.Now(ctx))
	if waiting == "" {
		return nil, nil
	}
	until := workflow.Now(ctx).Add(d.Settings.ContinueWait)
	err := d.until(ctx, func(now time.Time) bool { return d.continued || d.PeersGone() != nil || !now.Before(until) })
	if out := d.PeersGone(); out != nil || err != nil {
		return out, err
	}
	if !d.continued {
		d.stop = &fault.New(contract.ClassHuman, contract.CodeApprovalExpired,
			"no 'continue' command was received within %s (deliberation.continue_wait); start the pipeline again, or use --auto-continue", d.Settings.ContinueWait).Failure
		return &state.Outcome{Status: contract.PipelineStopped}, nil
	}
	return nil, nil
}

// orchestrate runs the exchange to its end.
func (d *deliberation) orchestrate(ctx workflow.Context) (*state.Outcome, error) {
	d.become(ctx, contract.PipelineOrchestrating, "")
	var out *state.Outcome
	err := d.until(ctx, func(now time.Time) bool {
		out = d.Conclude(now)
		return out != nil
	})
	return out, err
}

// until assigns turns to members, and lets GAMMA join, until a condition holds. It acts on events
// and deadlines; it does not poll.
func (d *deliberation) until(ctx workflow.Context, over func(now time.Time) bool) error {
	defer d.alarm.off()
	for {
		d.dirty = false
		d.dismissRevoked()
		now := workflow.Now(ctx)
		if over(now) {
			return nil
		}
		if reason, wanted := d.GammaWanted(now); wanted {
			d.spawn(ctx, contract.Gamma, reason)
		}
		for _, g := range d.NextTurns(now) {
			d.giveTurn(ctx, g)
		}
		for _, s := range d.Living() { // turns that arrived before they were assigned
			if d.ReceiveEarly(s, now) {
				d.dirty = true
			}
		}
		d.alarm.set(ctx, d.NextDeadline(now), func() { d.dirty = true })
		if err := workflow.Await(ctx, func() bool { return d.dirty }); err != nil {
			return err
		}
	}
}

// become changes the pipeline's status, and its search attribute in Temporal.
func (d *deliberation) become(ctx workflow.Context, s contract.PipelineStatus, waiting string) {
	d.SetStatus(s, workflow.Now(ctx), waiting)
	attributes := []temporal.SearchAttributeUpdate{options.KeyStatus.ValueSet(string(s))}
	if d.shownStatus == "" {
		attributes = append(attributes, options.KeyTenant.ValueSet(d.Input.Tenant), options.KeyRun.ValueSet(d.Input.RunID))
	}
	d.shownStatus = s
	if err := workflow.UpsertTypedSearchAttributes(ctx, attributes...); err != nil {
		d.log.Error("Could not update the status shown in Temporal", "status", s, "error", err)
	}
}

// spawn starts a member's workflow. It ends when it is cancelled, on its own or with the
// deliberation.
func (d *deliberation) spawn(ctx workflow.Context, m contract.Member, reason contract.GammaReason) {
	token := newToken(ctx)
	d.Join(m, token, reason, workflow.Now(ctx))
	s := d.Settings
	own, cancel := workflow.NewDisconnectedContext(ctx)
	child := workflow.ExecuteChildWorkflow(
		options.Child(own, contract.MemberWorkflowID(d.Input.PipelineID, m), contract.QueuePlanner), contract.WorkflowMember, contract.MemberInput{
			PipelineID: d.Input.PipelineID, RunID: d.Input.RunID, Attempt: d.Input.Attempt, Member: m, Token: token,
			Model: s.Models[m.Agent()], Budget: s.Budget, ModelTimeout: s.ModelTimeout, MovesPerTurn: s.MovesPerTurn, TextLimit: s.TextLimit,
			Fallbacks: s.Fallbacks,
		})
	h := &memberHandle{child: child, cancel: cancel}
	d.members[m] = h
	workflow.Go(own, func(ctx workflow.Context) {
		r := contract.MemberResult{Member: m}
		if err := child.Get(ctx, &r); err != nil {
			r.Failure = fault.Of(err)
		}
		h.ended, d.dirty = true, true
		d.MemberEnded(m, r)
	})
}

// giveTurn sends a member its turn.
func (d *deliberation) giveTurn(ctx workflow.Context, g state.TurnGrant) {
	h := d.members[g.To]
	workflow.Go(ctx, func(ctx workflow.Context) {
		sent := h.child.SignalChildWorkflow(ctx, contract.SignalTurn, g.Turn)
		err := deliver(ctx, sent, contract.DeliverInput{WorkflowID: contract.MemberWorkflowID(d.Input.PipelineID, g.To), Turn: &g.Turn})
		if err == nil || ctx.Err() != nil {
			return
		}
		d.log.Warn("Could not deliver a turn to a member", "member", g.To, "turn", g.Turn.Number, "error", err)
		if f := fault.Of(err); !hasEnded(err) { // a member that has ended reports that in its result
			d.Revoke(d.Participant(g.To), "its turn could not be delivered: "+f.Message, contract.Error{Class: f.Class, Code: f.Code})
			d.dirty = true
		}
	})
}

// dismissRevoked cancels the workflows of members that were revoked.
func (d *deliberation) dismissRevoked() {
	for _, s := range d.Participants {
		if h := d.members[s.Member]; s.RevokeReason != "" && !h.ended {
			h.cancel()
		}
	}
}

// dismiss ends all members: their pending calls are cancelled. It waits for them, but
// not forever, because a worker may be down.
func (d *deliberation) dismiss(ctx workflow.Context) {
	d.Closed = true
	for _, s := range d.Participants {
		d.members[s.Member].cancel()
	}
	gone, err := workflow.AwaitWithTimeout(ctx, options.MemberPatience, func() bool {
		for _, s := range d.Participants {
			if !d.members[s.Member].ended {
				return false
			}
		}
		return true
	})
	if err != nil || !gone {
		d.log.Warn("Members did not stop in time; they will stop when their worker is back", "waited", options.MemberPatience, "error", err)
	}
}

// end ends the deliberation with the required steps, in order.
func (d *deliberation) end(ctx workflow.Context, out *state.Outcome) {
	d.Decided = true
	d.CloseRound()
	switch {
	case out.Status == contract.PipelineCompleted:
		d.complete(ctx, out.Choice)
	case d.stop != nil || out.Status == contract.PipelineStopped:
		out.Status, out.Abort, out.Failure = contract.PipelineStopped, "", d.stop
		d.interrupt(ctx)
	default:
		d.giveUp(ctx, out)
	}
	d.finish(ctx, out)
}

// complete makes the chosen version the consensus.
func (d *deliberation) complete(ctx workflow.Context, chosen *state.Choice) {
	final := d.AcceptConsensus(chosen, workflow.Now(ctx))
	d.Ending.Consensus = &final
	d.dismiss(ctx)
	d.EndParticipants(contract.MemberDone)
	d.AddReport(contract.ReportFinal, contract.PipelineCompleted, fmt.Sprintf("consensus on %s, version %d: %s", chosen.Key, chosen.Version, d.Summary()), workflow.Now(ctx))
}

// interrupt keeps the results of a deliberation that was stopped.
func (d *deliberation) interrupt(ctx workflow.Context) {
	d.Ending.Failure = d.stop
	d.dismiss(ctx)
	d.EndParticipants(contract.MemberRevoked)
	d.RecordNoConsensus(d.stop.Message, workflow.Now(ctx))
	d.AddReport(contract.ReportPartial, contract.PipelineStopped, d.stop.Message+": "+d.Summary(), workflow.Now(ctx))
}

// giveUp ends a deliberation that failed. It writes its handoff before its members are
// revoked: the handoff must not depend on how they end.
func (d *deliberation) giveUp(ctx workflow.Context, out *state.Outcome) {
	reason, kind := reasonOf(out), contract.ReportPartial
	d.Ending.AbortReason = out.Abort
	d.Ending.Failure = out.Failure
	if d.Ending.Failure == nil {
		d.Ending.Failure = &fault.New(contract.ClassLogic, contract.CodeNoConsensus, "the deliberation reached no consensus (%s): %s", reason, d.RecoveryHint(reason)).Failure
	}
	if out.Abort != "" {
		d.AddEvent(contract.EventOrchestrationAborted, map[string]any{"abort_reason": out.Abort, "iteration": d.Metrics.Iterations})
	}
	if out.Status == contract.PipelineFailed {
		kind = contract.ReportCheckpoint
	}
	d.writeHandoff(ctx, reason)
	d.dismiss(ctx)
	d.EndParticipants(contract.MemberRevoked)
	d.AddEvent(contract.EventAgentsRevoked, map[string]any{"members": names(d.Participants)})
	d.RecordNoConsensus("no consensus: "+reason, workflow.Now(ctx))
	d.AddEvent(contract.EventPartialCollected, map[string]any{
		"proposals": len(d.EntriesOf(contract.MovePropose)), "syntheses": len(d.EntriesOf(contract.MoveSynthesise)), "messages": d.Metrics.TotalMessages, "votes": d.Metrics.Votes,
	})
	d.AddReport(kind, out.Status, "no consensus ("+reason+"): "+d.Summary(), workflow.Now(ctx))
	d.AddEvent(contract.EventPartialReportWritten, map[string]any{"kind": kind})
	d.RecordFailureContext(reason, workflow.Now(ctx))
}

// reasonOf returns why a deliberation failed.
func reasonOf(out *state.Outcome) string {
	switch {
	case out.Abort != "":
		return string(out.Abort)
	case out.Status == contract.PipelineFailed:
		return contract.ReasonAgentsFailed
	}
	return contract.ReasonNoConsensus
}

func names(seats []*state.Participant) []string {
	var out []string
	for _, s := range seats {
		out = append(out, string(s.Member))
	}
	return out
}

// writeHandoff writes the handoff. If that fails, the deliberation ends without a handoff, and
// records the failure.
func (d *deliberation) writeHandoff(ctx workflow.Context, reason string) {
	var written contract.WriteHandoffResult
	err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityWriteHandoff, contract.WriteHandoffInput{
		RunID: d.Input.RunID, Handoff: d.Handoff(reason, workflow.Now(ctx)),
	}).Get(ctx, &written)
	d.Ending.HandoffRef = written.Ref
	payload := map[string]any{"handoff_ref": written.Ref}
	if err != nil {
		why := fault.Of(err).Message
		d.log.Error("Could not write the handoff", "error", err)
		d.Ending.Notes = append(d.Ending.Notes, "the handoff could not be written: "+why)
		payload["error_message"] = why
	}
	d.AddEvent(contract.EventHandoffWritten, payload)
}

// finish records the end in the row.
func (d *deliberation) finish(ctx workflow.Context, out *state.Outcome) {
	now := workflow.Now(ctx)
	d.Metrics.End = &now
	d.Ending.Finished = true
	d.announced = d.recovers(out)
	d.become(ctx, out.Status, "")
	payload := map[string]any{
		"status": out.Status, "consensus": d.Metrics.Consensus, "task_id": d.Input.Task.TaskID, "metrics": d.Measured(), "abort_reason": out.Abort,
		"requires_auto_recovery": d.announced, "agents": d.Agents(),
	}
	if d.Ending.Failure != nil {
		payload["failure"] = d.Ending.Failure
	}
	if d.Decision != nil {
		payload["result"] = map[string]any{"key": d.Decision.Key, "version": d.Decision.Version, "by": d.Decision.By, "text": d.Decision.Text.Head}
	}
	d.AddEvent(contract.EventOrchestrationComplete, payload)
}

// recovers reports whether a recovery follows.
func (d *deliberation) recovers(out *state.Outcome) bool {
	if d.stop != nil || d.Input.Attempt > d.Settings.Recoveries {
		return false
	}
	switch out.Status {
	case contract.PipelineTimeout, contract.PipelineOrchestrationFailed:
		return true
	case contract.PipelineFailed: // with the same agents it would fail again
		f := out.Failure
		return f != nil && (f.Class == contract.ClassInfra || f.Class == contract.ClassLLM)
	default:
		return false
	}
}

// recover returns the final result, of this deliberation or of its recovery. A stop in the meantime
// stops the recovery. If an announced recovery does not start, that is recorded, so that nobody
// waits for it.
func (d *deliberation) recover(ctx, outer workflow.Context, out *state.Outcome) contract.DeliberationResult {
	own := d.result(out)
	if !d.announced {
		return own
	}
	if d.stop != nil || outer.Err() != nil { // between the end and here
		d.recordCancel(outer)
		d.recoveryFailed(fault.Restore(*d.stop))
		why := *d.Ending.Failure
		why.Class, why.Code = d.stop.Class, d.stop.Code // what a person stopped is not retried
		own.Failure = &why
		return own
	}
	ctx, d.recovery = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		outer.Done().Receive(ctx, nil)
		d.recovery()
	})
	next := d.nextAttempt(out)
	result, err := RunChild(ctx, next, Hooks{
		StoppedBy: func() *contract.PipelineCommand { return d.stopper },
		Created: func(next contract.DeliberationInput) {
			d.Ending.RecoveredBy = next.PipelineID
			d.AddEvent(contract.EventRecoveryStarted, map[string]any{"recovered_by": next.PipelineID, "attempt": next.Attempt, "handoff_ref": d.Ending.HandoffRef})
		},
		Starting: func(child workflow.ChildWorkflowFuture) {
			if d.successor = child; !SameModels(next.Settings.Models, d.Settings.Models) { // switched while its row was being created
				d.switchRecoveryModels(ctx, contract.PipelineCommand{By: contract.PipelineWorkflowID(d.Input.PipelineID)})
			}
		},
	})
	if err != nil { // the end of this deliberation is unchanged
		d.log.Error("Could not recover a deliberation", "recovery", d.Ending.RecoveredBy, "error", err)
		d.recoveryFailed(err)
		own.Failure = d.Ending.Failure
		return own
	}
	if f := result.Failure; f != nil && (result.Status == contract.PipelineStopped || f.Class == contract.ClassHuman) {
		d.extendFailure(fmt.Sprintf("; its recovery, pipeline %d, ended with: %s", result.PipelineID, f.Message))
		d.RowStale = true
	}
	result.Usage = own.Usage.Add(result.Usage)
	return result
}

// extendFailure adds to the reason why this deliberation failed.
func (d *deliberation) extendFailure(words string) {
	failure := *d.Ending.Failure
	failure.Message += words
	d.Ending.Failure = &failure
}

// recoveryFailed records why the announced recovery failed, and notifies a workflow that waits
// for one that was never created.
func (d *deliberation) recoveryFailed(err error) {
	d.announced = false
	why := fault.Of(err).Message
	d.extendFailure("; it could not be recovered: " + why)
	var never *neverStarted
	switch {
	case errors.As(err, &never), d.Ending.RecoveredBy == 0:
		d.AddEvent(contract.EventRecoveryFailed, map[string]any{"error_message": why})
	default: // a recovery that began is reported in its own row
		d.RowStale = true
	}
}

// nextAttempt returns the deliberation to start as the next attempt.
func (d *deliberation) nextAttempt(out *state.Outcome) contract.NewPipeline {
	s := d.Settings
	s.AutoContinue = s.AutoContinue || d.continued
	return contract.NewPipeline{
		RunID: d.Input.RunID, ForRun: d.Input.ForRun, Prior: d.Input.PipelineID, Attempt: d.Input.Attempt + 1, Settings: s, Inherited: d.Inherit(reasonOf(out)),
	}
}

// Hooks connects a deliberation and the workflow that starts it.
type Hooks struct {
	StoppedBy func() *contract.PipelineCommand         // who stopped it and why; nil: unknown, so it is cancelled
	Created   func(contract.DeliberationInput)         // its row exists
	Starting  func(child workflow.ChildWorkflowFuture) // its workflow is about to start
}

// RunChild creates the row of a deliberation, starts its workflow as a child, and returns its
// result. A row must be closed once it exists, so a cancellation during its creation is delivered
// after the child has started.
func RunChild(ctx workflow.Context, n contract.NewPipeline, k Hooks) (contract.DeliberationResult, error) {
	var result contract.DeliberationResult
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var in contract.DeliberationInput
	if err := workflow.ExecuteActivity(options.Persistent(last), contract.ActivityCreatePipeline, n).Get(last, &in); err != nil {
		return result, err
	}
	k.Created(in)
	childCtx, cancel := workflow.WithCancel(last)
	child := workflow.ExecuteChildWorkflow(options.Child(childCtx, contract.PipelineWorkflowID(in.PipelineID), contract.QueueRun), contract.WorkflowDeliberation, in)
	k.Starting(child)
	if err := child.GetChildWorkflowExecution().Get(last, nil); err != nil {
		return result, neverBegan(last, in.PipelineID, err)
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		if child.IsReady() {
			return
		}
		own, done := workflow.NewDisconnectedContext(ctx)
		defer done()
		if by := k.StoppedBy(); by == nil || !stopChild(own, child, *by) {
			cancel()
		}
	})
	err := child.Get(last, &result)
	return result, err
}

// neverBegan closes the row of a deliberation whose workflow could not be started, with the reason.
func neverBegan(ctx workflow.Context, id int64, why error) error {
	failure := fault.New(contract.ClassInfra, contract.CodeUnavailable,
		"pipeline %d did not start: its workflow could not be started (%s); check that Temporal is available, and try again", id, fault.Of(why).Message)
	if err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityClosePipeline, contract.ClosePipelineInput{
		PipelineID: id, Failure: failure.Failure,
	}).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("Could not close a pipeline that did not start", "pipeline", id, "error", err)
	}
	return &neverStarted{failure}
}

// neverStarted is the error of a deliberation that never began.
type neverStarted struct{ error }

func (u *neverStarted) Unwrap() error { return u.error }

// stopChild asks a deliberation to stop, and reports whether it ended in time.
func stopChild(ctx workflow.Context, child workflow.ChildWorkflowFuture, by contract.PipelineCommand) bool {
	by.Passed = true
	if err := child.SignalChildWorkflow(ctx, contract.UpdateStop, by).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("Could not send the stop signal to a deliberation; cancelling it", "error", err)
		return false
	}
	ended, err := workflow.AwaitWithTimeout(ctx, options.StopPatience, child.IsReady)
	return ended && err == nil
}

// result returns the result of this deliberation.
func (d *deliberation) result(out *state.Outcome) contract.DeliberationResult {
	r := contract.DeliberationResult{
		PipelineID: d.Input.PipelineID, Status: out.Status, Consensus: d.Metrics.Consensus, AbortReason: out.Abort, Attempts: d.Input.Attempt,
		Metrics: d.Measured(), Failure: d.Ending.Failure,
	}
	for _, s := range d.Participants {
		r.Usage = r.Usage.Add(s.View.Usage)
	}
	if final := d.Ending.Consensus; final != nil {
		r.Key, r.Version, r.Final, r.By, r.Decision = out.Choice.Key, out.Choice.Version, final.Value, out.Choice.By, d.Decision
	}
	return r
}

// alarm is the only timer of a deliberation. It fires at the next deadline.
type alarm struct {
	at     time.Time
	cancel workflow.CancelFunc
}

// set sets the alarm. A timer that fires earlier is kept: progress keeps moving the deadline, and
// firing too early costs less than a new timer.
func (a *alarm) set(ctx workflow.Context, at time.Time, ring func()) {
	if a.cancel != nil && !at.Before(a.at) {
		return
	}
	a.off()
	if at.IsZero() {
		return
	}
	ctx, a.cancel = workflow.WithCancel(ctx)
	a.at = at
	timer := workflow.NewTimer(ctx, at.Sub(workflow.Now(ctx)))
	workflow.Go(ctx, func(ctx workflow.Context) {
		if timer.Get(ctx, nil) == nil {
			a.cancel = nil
			ring()
		}
	})
}

// off cancels the alarm.
func (a *alarm) off() {
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
}

// SameModels reports whether the members of a deliberation have the same models.
func SameModels(a, b map[contract.Agent]contract.ModelChoice) bool {
	return !slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return a[m.Agent()] != b[m.Agent()] })
}
