package workflows

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
)

// Deliberation is one pipeline: ALPHA and BETA work on an objective, each on its
// own, then exchange what they found until they agree, GAMMA decides, or it is
// given up. What it knows is its state (council); members are child workflows
// that it gives turns. One that came to nothing is recovered by another one,
// which is its child, and whose result it returns.
//
// Its history stays short enough without continuing as new: rounds are bounded
// (deliberation.iterations), turns within a round too (turnsInRound), and what
// floods is refused without a record of its own.
func Deliberation(ctx workflow.Context, in contract.DeliberationInput) (contract.DeliberationResult, error) {
	d := newDeliberation(ctx, in)
	work, cancel := workflow.WithCancel(ctx)
	d.cancel = cancel // a command may have come before the workflow's first task
	if err := d.handle(ctx); err != nil {
		return contract.DeliberationResult{}, err
	}
	return d.run(ctx, work)
}

// deliberation coordinates what its council decides.
type deliberation struct {
	*council
	log     log.Logger
	rows    *minutes
	members map[contract.Member]*memberHandle
	alarm   alarm
	stirred bool // something happened that the main coroutine has not seen

	cancel    workflow.CancelFunc       // of the work
	stop      *contract.Failure         // asked for
	stopper   *contract.PipelineCommand // that asked for it; nil: it was cancelled, or nobody continued it
	continued bool                      // asked for
	seen      map[string]struct{}       // ids of commands already applied
	shown     contract.PipelineStatus
	announced bool                         // the end said that a recovery follows
	recovery  workflow.CancelFunc          // of the deliberation that recovers this one
	successor workflow.ChildWorkflowFuture // that deliberation
	ordered   int64                        // Order of the last switch of models
}

// memberHandle is a member's workflow.
type memberHandle struct {
	child  workflow.ChildWorkflowFuture
	cancel workflow.CancelFunc
	over   bool
}

func newDeliberation(ctx workflow.Context, in contract.DeliberationInput) *deliberation {
	d := &deliberation{
		council: newCouncil(in, workflow.Now(ctx)),
		log:     log.With(workflow.GetLogger(ctx), "pipeline", in.PipelineID, "run", in.RunID),
		members: map[contract.Member]*memberHandle{},
		seen:    map[string]struct{}{},
	}
	d.rows = newMinutes(ctx, d.council)
	return d
}

// run is the life of a pipeline. Work happens on a context of its own, which a
// stop cancels; what must still be done afterwards happens on a disconnected one.
func (d *deliberation) run(ctx, work workflow.Context) (contract.DeliberationResult, error) {
	out := d.live(work)
	d.noteCancel(ctx)
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

// live passes through spawn, opening, report and exchange. It returns how the
// deliberation ends.
func (d *deliberation) live(ctx workflow.Context) *outcome {
	for _, part := range []func(workflow.Context) (*outcome, error){d.open, d.reportBack, d.orchestrate} {
		out, err := part(ctx)
		if err != nil {
			return d.stopped(err)
		}
		if out != nil {
			return out
		}
	}
	return &outcome{status: contract.PipelineOrchestrationFailed}
}

// stopped is how a deliberation ends whose work was interrupted.
func (d *deliberation) stopped(err error) *outcome {
	if d.stop == nil && !temporal.IsCanceledError(err) {
		return &outcome{status: contract.PipelineFailed, failure: fault.Of(err)}
	}
	return &outcome{status: contract.PipelineStopped}
}

// noteCancel takes a cancellation that came from Temporal, or from the run that
// this deliberation plans, for the stop that it is.
func (d *deliberation) noteCancel(ctx workflow.Context) {
	if ctx.Err() == nil {
		return
	}
	letSignalsBeHeard(ctx) // a stop that came together with it says who wants it, and why
	if d.stop == nil {
		d.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "the deliberation was cancelled; partial results are kept").Failure
	}
}

// letSignalsBeHeard lets the coroutines that signals of this workflow task woke go
// first. It takes no time, and is no command.
func letSignalsBeHeard(ctx workflow.Context) {
	own, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	heard := false
	workflow.Go(own, func(workflow.Context) { heard = true }) // the last in the row
	_ = workflow.Await(own, func() bool { return heard })     // nothing cancels it
}

// open spawns the members and lets them do their opening work.
func (d *deliberation) open(ctx workflow.Context) (*outcome, error) {
	for _, m := range peers() {
		d.spawn(ctx, m, "")
	}
	d.become(ctx, contract.PipelineRunning, "")
	err := d.until(ctx, func(now time.Time) bool { return d.openingOver(now) })
	return d.bothGone(), err
}

// reportBack reports what the opening came to, and waits for a person to say that
// it goes on, unless it does so by itself.
func (d *deliberation) reportBack(ctx workflow.Context) (*outcome, error) {
	waiting := ""
	if !d.settings.AutoContinue && !d.continued {
		waiting = contract.UpdateContinue
	}
	d.become(ctx, contract.PipelineReport, waiting)
	d.report(contract.ReportCheckpoint, d.status, "after the opening work: "+d.summary(), workflow.Now(ctx))
	if waiting == "" {
		return nil, nil
	}
	until := workflow.Now(ctx).Add(d.settings.ContinueWait)
	err := d.until(ctx, func(now time.Time) bool { return d.continued || d.bothGone() != nil || !now.Before(until) })
	if out := d.bothGone(); out != nil || err != nil {
		return out, err
	}
	if !d.continued {
		d.stop = &fault.New(contract.ClassHuman, contract.CodeApprovalExpired,
			"nobody said 'continue' within %s (deliberation.continue_wait); start it again, or with --auto-continue", d.settings.ContinueWait).Failure
		return &outcome{status: contract.PipelineStopped}, nil
	}
	return nil, nil
}

// orchestrate is the exchange, to its end.
func (d *deliberation) orchestrate(ctx workflow.Context) (*outcome, error) {
	d.become(ctx, contract.PipelineOrchestrating, "")
	var out *outcome
	err := d.until(ctx, func(now time.Time) bool {
		out = d.conclude(now)
		return out != nil
	})
	return out, err
}

// until lets members take turns, and GAMMA join, until a condition holds. It does
// something when something happens, or when it is time; nothing polls.
func (d *deliberation) until(ctx workflow.Context, over func(now time.Time) bool) error {
	defer d.alarm.off()
	for {
		d.stirred = false
		d.dismissRevoked()
		now := workflow.Now(ctx)
		if over(now) {
			return nil
		}
		if reason, wanted := d.gammaWanted(now); wanted {
			d.spawn(ctx, contract.Gamma, reason)
		}
		for _, g := range d.grants(now) {
			d.giveTurn(ctx, g)
		}
		for _, s := range d.living() { // what came before its turn was given
			if d.hearHeld(s, now) {
				d.stirred = true
			}
		}
		d.alarm.set(ctx, d.deadline(now), func() { d.stirred = true })
		if err := workflow.Await(ctx, func() bool { return d.stirred }); err != nil {
			return err
		}
	}
}

// become moves the pipeline to another status, which Temporal shows, too.
func (d *deliberation) become(ctx workflow.Context, s contract.PipelineStatus, waiting string) {
	d.council.become(s, workflow.Now(ctx), waiting)
	attributes := []temporal.SearchAttributeUpdate{keyStatus.ValueSet(string(s))}
	if d.shown == "" {
		attributes = append(attributes, keyTenant.ValueSet(d.in.Tenant), keyRun.ValueSet(d.in.RunID))
	}
	d.shown = s
	if err := workflow.UpsertTypedSearchAttributes(ctx, attributes...); err != nil {
		d.log.Error("Could not show the status in Temporal", "status", s, "error", err)
	}
}

// spawn starts a member's workflow. It ends when it is cancelled: for itself, or
// with the deliberation.
func (d *deliberation) spawn(ctx workflow.Context, m contract.Member, reason contract.GammaReason) {
	token := newToken(ctx)
	d.join(m, token, reason, workflow.Now(ctx))
	s := d.settings
	own, cancel := workflow.NewDisconnectedContext(ctx)
	child := workflow.ExecuteChildWorkflow(
		childOptions(own, contract.MemberWorkflowID(d.in.PipelineID, m), contract.QueuePlanner), contract.WorkflowMember, contract.MemberInput{
			PipelineID: d.in.PipelineID, RunID: d.in.RunID, Attempt: d.in.Attempt, Member: m, Token: token,
			Model: s.Models[m.Agent()], Budget: s.Budget, ModelTimeout: s.ModelTimeout, MovesPerTurn: s.MovesPerTurn, TextLimit: s.TextLimit,
		})
	h := &memberHandle{child: child, cancel: cancel}
	d.members[m] = h
	workflow.Go(own, func(ctx workflow.Context) {
		r := contract.MemberResult{Member: m}
		if err := child.Get(ctx, &r); err != nil {
			r.Failure = fault.Of(err)
		}
		h.over, d.stirred = true, true
		d.ended(m, r)
	})
}

// giveTurn tells a member that it is its turn.
func (d *deliberation) giveTurn(ctx workflow.Context, g grant) {
	h := d.members[g.to]
	workflow.Go(ctx, func(ctx workflow.Context) {
		sent := h.child.SignalChildWorkflow(ctx, contract.SignalTurn, g.turn)
		err := deliver(ctx, sent, contract.DeliverInput{WorkflowID: contract.MemberWorkflowID(d.in.PipelineID, g.to), Turn: &g.turn})
		if err == nil || ctx.Err() != nil {
			return
		}
		d.log.Warn("A member did not take its turn", "member", g.to, "turn", g.turn.Number, "error", err)
		if f := fault.Of(err); !ended(err) { // one that has ended tells so by its result
			d.revoke(d.seat(g.to), "it could not be told of its turn: "+f.Message, contract.Error{Class: f.Class, Code: f.Code})
			d.stirred = true
		}
	})
}

// dismissRevoked ends the workflows of members that were revoked.
func (d *deliberation) dismissRevoked() {
	for _, s := range d.seats {
		if h := d.members[s.member]; s.revoke != "" && !h.over {
			h.cancel()
		}
	}
}

// dismiss ends all members: their pending calls are cancelled. It waits for them,
// but not without end for a worker that is away.
func (d *deliberation) dismiss(ctx workflow.Context) {
	d.over = true
	for _, s := range d.seats {
		d.members[s.member].cancel()
	}
	gone, err := workflow.AwaitWithTimeout(ctx, memberPatience, func() bool {
		for _, s := range d.seats {
			if !d.members[s.member].over {
				return false
			}
		}
		return true
	})
	if err != nil || !gone {
		d.log.Warn("Members did not end in time; they will when their worker is back", "waited", memberPatience, "error", err)
	}
}

// end carries out how a deliberation ends, in the order of its steps.
func (d *deliberation) end(ctx workflow.Context, out *outcome) {
	d.decided = true
	d.closeRound()
	switch {
	case out.status == contract.PipelineCompleted:
		d.complete(ctx, out.choice)
	case d.stop != nil || out.status == contract.PipelineStopped:
		out.status, out.abort, out.failure = contract.PipelineStopped, "", d.stop
		d.interrupt(ctx)
	default:
		d.giveUp(ctx, out)
	}
	d.finish(ctx, out)
}

// complete makes what was chosen the consensus.
func (d *deliberation) complete(ctx workflow.Context, chosen *choice) {
	final := d.accept(chosen, workflow.Now(ctx))
	d.ending.consensus = &final
	d.dismiss(ctx)
	d.leave(contract.MemberDone)
	d.report(contract.ReportFinal, contract.PipelineCompleted, fmt.Sprintf("consensus on %s, version %d: %s", chosen.key, chosen.version, d.summary()), workflow.Now(ctx))
}

// interrupt keeps what there is of a deliberation that was stopped.
func (d *deliberation) interrupt(ctx workflow.Context) {
	d.ending.failure = d.stop
	d.dismiss(ctx)
	d.leave(contract.MemberRevoked)
	d.failFinal(d.stop.Message, workflow.Now(ctx))
	d.report(contract.ReportPartial, contract.PipelineStopped, d.stop.Message+": "+d.summary(), workflow.Now(ctx))
}

// giveUp ends a deliberation that came to nothing. What it leaves is written
// before its members are revoked: it must not depend on how they end.
func (d *deliberation) giveUp(ctx workflow.Context, out *outcome) {
	reason, kind := reasonOf(out), contract.ReportPartial
	d.ending.abort = out.abort
	d.ending.failure = out.failure
	if d.ending.failure == nil {
		d.ending.failure = &fault.New(contract.ClassLogic, contract.CodeNoConsensus, "the deliberation found no consensus (%s): %s", reason, d.hint(reason)).Failure
	}
	if out.abort != "" {
		d.tell(contract.EventOrchestrationAborted, map[string]any{"abort_reason": out.abort, "iteration": d.metrics.Iterations})
	}
	if out.status == contract.PipelineFailed {
		kind = contract.ReportCheckpoint
	}
	d.writeHandoff(ctx, reason)
	d.dismiss(ctx)
	d.leave(contract.MemberRevoked)
	d.tell(contract.EventAgentsRevoked, map[string]any{"members": names(d.seats)})
	d.failFinal("no consensus: "+reason, workflow.Now(ctx))
	d.tell(contract.EventPartialCollected, map[string]any{
		"proposals": len(d.of(contract.MovePropose)), "syntheses": len(d.of(contract.MoveSynthesise)), "messages": d.metrics.TotalMessages, "votes": d.metrics.Votes,
	})
	d.report(kind, out.status, "no consensus ("+reason+"): "+d.summary(), workflow.Now(ctx))
	d.tell(contract.EventPartialReportWritten, map[string]any{"kind": kind})
	d.failed(reason, workflow.Now(ctx))
}

// reasonOf says why a deliberation came to nothing.
func reasonOf(out *outcome) string {
	switch {
	case out.abort != "":
		return string(out.abort)
	case out.status == contract.PipelineFailed:
		return contract.ReasonAgentsFailed
	}
	return contract.ReasonNoConsensus
}

func names(seats []*seat) []string {
	var out []string
	for _, s := range seats {
		out = append(out, string(s.member))
	}
	return out
}

// writeHandoff leaves in writing what was found. A deliberation ends without it,
// too, and says so.
func (d *deliberation) writeHandoff(ctx workflow.Context, reason string) {
	var written contract.WriteHandoffResult
	err := workflow.ExecuteActivity(recording(ctx), contract.ActivityWriteHandoff, contract.WriteHandoffInput{
		RunID: d.in.RunID, Handoff: d.handoffOf(reason, workflow.Now(ctx)),
	}).Get(ctx, &written)
	d.ending.handoff = written.Ref
	payload := map[string]any{"handoff_ref": written.Ref}
	if err != nil {
		why := fault.Of(err).Message
		d.log.Error("Could not write the handoff", "error", err)
		d.ending.notes = append(d.ending.notes, "the handoff could not be written: "+why)
		payload["error_message"] = why
	}
	d.tell(contract.EventHandoffWritten, payload)
}

// finish makes the row show the end.
func (d *deliberation) finish(ctx workflow.Context, out *outcome) {
	now := workflow.Now(ctx)
	d.metrics.End = &now
	d.ending.finished = true
	d.announced = d.recovers(out)
	d.become(ctx, out.status, "")
	payload := map[string]any{
		"status": out.status, "consensus": d.metrics.Consensus, "task_id": d.in.Task.TaskID, "metrics": d.measured(), "abort_reason": out.abort,
		"requires_auto_recovery": d.announced, "agents": d.agents(),
	}
	if d.ending.failure != nil {
		payload["failure"] = d.ending.failure
	}
	if d.decision != nil {
		payload["result"] = map[string]any{"key": d.decision.Key, "version": d.decision.Version, "by": d.decision.By, "text": d.decision.Text.Head}
	}
	d.tell(contract.EventOrchestrationComplete, payload)
}

// recovers reports whether another deliberation follows.
func (d *deliberation) recovers(out *outcome) bool {
	if d.stop != nil || d.in.Attempt > d.settings.Recoveries {
		return false
	}
	switch out.status {
	case contract.PipelineTimeout, contract.PipelineOrchestrationFailed:
		return true
	case contract.PipelineFailed: // with the same agents it would fail again
		f := out.failure
		return f != nil && (f.Class == contract.ClassInfra || f.Class == contract.ClassLLM)
	default:
		return false
	}
}

// recover returns how it all ended: with this deliberation, or with the one that
// recovers it. A stop that comes meanwhile is one of the recovery. That none
// comes although it was announced is told, so that nobody waits for it.
func (d *deliberation) recover(ctx, outer workflow.Context, out *outcome) contract.DeliberationResult {
	own := d.result(out)
	if !d.announced {
		return own
	}
	if d.stop != nil || outer.Err() != nil { // between the end and here
		d.noteCancel(outer)
		d.unrecovered(fault.Restore(*d.stop))
		why := *d.ending.failure
		why.Class, why.Code = d.stop.Class, d.stop.Code // nobody is to try again what somebody stopped
		own.Failure = &why
		return own
	}
	ctx, d.recovery = workflow.WithCancel(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		outer.Done().Receive(ctx, nil)
		d.recovery()
	})
	next := d.nextAttempt(out)
	result, err := deliberateIn(ctx, next, kin{
		stopper: func() *contract.PipelineCommand { return d.stopper },
		made: func(next contract.DeliberationInput) {
			d.ending.recovery = next.PipelineID
			d.tell(contract.EventRecoveryStarted, map[string]any{"recovered_by": next.PipelineID, "attempt": next.Attempt, "handoff_ref": d.ending.handoff})
		},
		begins: func(child workflow.ChildWorkflowFuture) {
			if d.successor = child; !sameModels(next.Settings.Models, d.settings.Models) { // switched while its row was made
				d.tellRecovery(ctx)
			}
		},
	})
	if err != nil { // how this one ended stands
		d.log.Error("Could not recover a deliberation", "recovery", d.ending.recovery, "error", err)
		d.unrecovered(err)
		own.Failure = d.ending.failure
		return own
	}
	if f := result.Failure; f != nil && (result.Status == contract.PipelineStopped || f.Class == contract.ClassHuman) {
		d.amend(fmt.Sprintf("; pipeline %d, which recovered it, ended so: %s", result.PipelineID, f.Message))
		d.changed = true
	}
	result.Usage = own.Usage.Add(result.Usage)
	return result
}

// amend adds to why this deliberation came to nothing.
func (d *deliberation) amend(words string) {
	failure := *d.ending.failure
	failure.Message += words
	d.ending.failure = &failure
}

// unrecovered says why the recovery that the end announced came to nothing, and
// tells whoever waits for one that was never made.
func (d *deliberation) unrecovered(err error) {
	d.announced = false
	why := fault.Of(err).Message
	d.amend("; it could not be recovered: " + why)
	var never *unstarted
	switch {
	case errors.As(err, &never), d.ending.recovery == 0:
		d.tell(contract.EventRecoveryFailed, map[string]any{"error_message": why})
	default: // what happened to one that began stands in its own row
		d.changed = true
	}
}

// nextAttempt is the deliberation that follows.
func (d *deliberation) nextAttempt(out *outcome) contract.NewPipeline {
	s := d.settings
	s.AutoContinue = s.AutoContinue || d.continued
	return contract.NewPipeline{
		RunID: d.in.RunID, ForRun: d.in.ForRun, Prior: d.in.PipelineID, Attempt: d.in.Attempt + 1, Settings: s, Inherited: d.inherit(reasonOf(out)),
	}
}

// kin is what a deliberation and the workflow that starts it know of each other.
type kin struct {
	stopper func() *contract.PipelineCommand         // who stops it and why, when it is to be; nil: that is not known, it is cancelled
	made    func(contract.DeliberationInput)         // its row is there
	begins  func(child workflow.ChildWorkflowFuture) // its workflow is about to start
}

// deliberateIn makes the row of a deliberation, starts its workflow as a child, and
// returns how it ended. A row that is there must come to an end, so a cancellation
// that comes while it is made reaches the child once that has started.
func deliberateIn(ctx workflow.Context, n contract.NewPipeline, k kin) (contract.DeliberationResult, error) {
	var result contract.DeliberationResult
	if ctx.Err() != nil {
		return result, ctx.Err()
	}
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var in contract.DeliberationInput
	if err := workflow.ExecuteActivity(recording(last), contract.ActivityCreatePipeline, n).Get(last, &in); err != nil {
		return result, err
	}
	k.made(in)
	childCtx, cancel := workflow.WithCancel(last)
	child := workflow.ExecuteChildWorkflow(childOptions(childCtx, contract.PipelineWorkflowID(in.PipelineID), contract.QueueRun), contract.WorkflowDeliberation, in)
	k.begins(child)
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
		if by := k.stopper(); by == nil || !stopped(own, child, *by) {
			cancel()
		}
	})
	err := child.Get(last, &result)
	return result, err
}

// neverBegan closes the row of a deliberation whose workflow could not be started,
// and says why that was.
func neverBegan(ctx workflow.Context, id int64, why error) error {
	failure := fault.New(contract.ClassInfra, contract.CodeUnavailable,
		"pipeline %d never began: its workflow could not be started (%s); see that Temporal is well, and try again", id, fault.Of(why).Message)
	if err := workflow.ExecuteActivity(recording(ctx), contract.ActivityClosePipeline, contract.ClosePipelineInput{
		PipelineID: id, Failure: failure.Failure,
	}).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("Could not close a pipeline that never began", "pipeline", id, "error", err)
	}
	return &unstarted{failure}
}

// unstarted is the error of a deliberation that never began.
type unstarted struct{ error }

func (u *unstarted) Unwrap() error { return u.error }

// stopped tells a deliberation to stop, and reports whether it ended in time.
func stopped(ctx workflow.Context, child workflow.ChildWorkflowFuture, by contract.PipelineCommand) bool {
	if err := child.SignalChildWorkflow(ctx, contract.UpdateStop, by).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("Could not tell a deliberation who stops it; it is cancelled", "error", err)
		return false
	}
	ended, err := workflow.AwaitWithTimeout(ctx, stopPatience, child.IsReady)
	return ended && err == nil
}

// result is how this deliberation ended.
func (d *deliberation) result(out *outcome) contract.DeliberationResult {
	r := contract.DeliberationResult{
		PipelineID: d.in.PipelineID, Status: out.status, Consensus: d.metrics.Consensus, AbortReason: out.abort, Attempts: d.in.Attempt,
		Metrics: d.measured(), Failure: d.ending.failure,
	}
	for _, s := range d.seats {
		r.Usage = r.Usage.Add(s.view.Usage)
	}
	if final := d.ending.consensus; final != nil {
		r.Key, r.Version, r.Final, r.By, r.Decision = out.choice.key, out.choice.version, final.Value, out.choice.by, d.decision
	}
	return r
}

// alarm is the one timer of a deliberation: for the next moment at which time
// alone changes something.
type alarm struct {
	at     time.Time
	cancel workflow.CancelFunc
}

// set moves the alarm. The timer before it is cancelled, unless it comes first
// anyway: each progress moves the moment on, and a ring too early costs less.
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

// off takes the alarm back.
func (a *alarm) off() {
	if a.cancel != nil {
		a.cancel()
		a.cancel = nil
	}
}

// sameModels reports whether the members of a deliberation have the same models.
func sameModels(a, b map[contract.Agent]contract.ModelChoice) bool {
	return !slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return a[m.Agent()] != b[m.Agent()] })
}
