package run

import (
	"cmp"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// controls is the effect of people's commands on a run.
type controls struct {
	paused   bool
	oneStep  bool // advance: pause again at the next phase
	stop     *contract.Failure
	stopper  *contract.PipelineCommand // the stop, for a deliberation that plans the run; nil: no stop to pass on
	timedOut bool
	approval *approval                     // that the run waits for
	last     *approval                     // the last one that was answered
	edited   map[int64]contract.PlanResult // plans that people edited and are about to approve
	changed  bool                          // a command was applied since the last phase began

	held    string // what the run waits for before its release: the choice among attempts, or its change set
	resumed bool   // it was resumed while it waits
}

// stopping reports whether the run was asked to stop, or its time is over.
func (c *controls) stopping() bool { return c.stop != nil }

// handle registers queries, updates and signals.
func (r *run) handle(ctx workflow.Context, before *snapshot) error {
	r.controls.edited = map[int64]contract.PlanResult{}
	var commandIDs, checkIDs []string
	if before != nil {
		commandIDs, checkIDs = before.Commands, before.Checks
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.RunView, error) {
		id := ""
		if a := r.controls.approval; a != nil && !a.answered() {
			id = a.id
		}
		view := r.View(r.in.RunID, id)
		view.Models = r.everyModel()
		return view, nil
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryPlan, func() (contract.Plan, error) { return r.Plan, nil }); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryTranscript, func() ([]contract.TranscriptKey, error) { return r.transcriptKeys(), nil }); err != nil {
		return err
	}
	r.commands = commands.Commands[contract.Command, contract.Ack]{
		ID:      func(c contract.Command) string { return c.ID },
		Accepts: r.accepts,
		Repeated: func(name string, _ contract.Command) contract.Ack {
			return contract.Ack{Status: r.Status, Message: name + " was already applied"}
		},
		Refused: r.refuse,
	}
	r.receiveLabels(ctx)
	approve := r.command(contract.UpdateApprove, r.checkApprove, r.applyApprove)
	approve.Prepare = r.readEdited
	if err := r.commands.Register(ctx, commandIDs,
		approve,
		r.command(contract.UpdateReject, r.checkReject, r.applyReject),
		r.command(contract.UpdatePause, r.checkPause, r.applyPause),
		r.command(contract.UpdateResume, r.checkResume, r.applyResume),
		r.command(contract.UpdateSwitchModel, r.checkSwitchModel, r.applySwitchModel),
		r.command(contract.UpdateHeal, r.checkHeal, r.applyHeal),
		r.command(contract.UpdateAnswer, r.checkInput, r.applyInput),
		r.command(contract.UpdateStop, nil, r.applyStop),
		r.command(contract.UpdateAdvance, r.checkAdvance, r.applyAdvance),
		r.command(contract.UpdateTell, r.checkTell, r.applyTell),
	); err != nil {
		return err
	}
	return r.handleChecks(ctx, checkIDs)
}

// command returns a command that changes the state and reports the outcome: as a record and, for
// its sender, as a message.
func (r *run) command(name string, check func(contract.Command) error, apply func(workflow.Context, contract.Command) (contract.Record, string)) commands.Command[contract.Command, contract.Ack] {
	return commands.Command[contract.Command, contract.Ack]{
		Name: name, Check: check,
		Apply: func(ctx workflow.Context, c contract.Command) (contract.Ack, error) {
			r.controls.changed = true
			what, message := apply(ctx, c)
			// The record must be written even if this very command requested a stop.
			last, done := workflow.NewDisconnectedContext(ctx)
			defer done()
			ack := contract.Ack{Applied: true, Status: r.Status, Message: message}
			_, err := r.transition(last, what)
			return ack, err
		},
	}
}

// refuse records why a signal had no effect, as long as the run accepts events.
func (r *run) refuse(ctx workflow.Context, name string, args contract.Command, why error) {
	reason := fault.Of(why).Message
	r.log.Warn("Rejected a signal", "signal", name, "by", args.By, "reason", reason)
	if r.Status.Terminal() && !r.Watch.On || r.controls.stopping() {
		return
	}
	if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{"refused": name, "by": args.By, "reason": reason})); err != nil {
		r.log.Error("Could not record that a signal was rejected", "signal", name, "error", err)
	}
}

// transcriptKeys returns where the run's conversations are stored, in the order of the
// phases and of the plan. Steps that never began have none.
func (r *run) transcriptKeys() []contract.TranscriptKey {
	keys := []contract.TranscriptKey{}
	if e := r.Executions[string(contract.PhasePlanner)]; e.ID != 0 && !r.in.Settings.PlanGiven {
		keys = append(keys, contract.TranscriptKey{
			Phase: contract.PhasePlanner, Agent: contract.AgentPlanner, Attempt: e.Attempt, ExecutionID: e.ID, Turns: max(1, r.Planning.Turn),
			Workflow: contract.RunWorkflowID(r.in.RunID),
		})
	}
	for _, s := range r.Steps {
		if s.Status == contract.StepPending {
			continue
		}
		id := contract.RunWorkflowID(r.in.RunID)
		if loop := r.loops[s.ID]; loop != nil {
			keys = append(keys, loop.Transcript(id))
			continue
		}
		if r.Apart[s.ID] {
			id = contract.StepWorkflowID(r.in.RunID, s.ID)
		}
		keys = append(keys, contract.TranscriptKey{
			Phase: contract.PhaseBuilder, Step: s.ID, Agent: contract.AgentBuilder, Attempt: s.Attempt,
			ExecutionID: r.Executions[s.ID].ID, Turns: s.Turns, Workflow: id,
		})
	}
	return keys
}

// accepts returns why a command cannot be accepted now, regardless of its own check.
func (r *run) accepts(name string, args contract.Command) error {
	if len(args.Reason) > commands.MaxReason {
		return commands.Rejected("the reason is %d bytes long, more than the %d allowed", len(args.Reason), commands.MaxReason)
	}
	if r.Watch.On && r.Status.Terminal() && !r.controls.stopping() {
		if name == contract.UpdateStop {
			return nil
		}
		return commands.Rejected("run %d is done and is only watching its branch, so %s has no effect; stop the run to end the watch", r.in.RunID, name)
	}
	if r.Status.Terminal() || r.controls.stopping() {
		return commands.Rejected("run %d has ended (%s); %s has no effect", r.in.RunID, r.Status, name)
	}
	return nil
}

func (r *run) checkPause(contract.Command) error {
	if r.controls.paused {
		return commands.Rejected("run %d is already paused", r.in.RunID)
	}
	return nil
}

func (r *run) applyPause(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	r.pause(ctx, "paused by "+c.By)
	return records.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status, "by": c.By, "reason": c.Reason}),
		"paused; running work finishes, but no new work starts"
}

// pause pauses the run and its agents.
func (r *run) pause(ctx workflow.Context, why string) {
	r.controls.paused = true
	if err := r.Interrupt(contract.StatusPaused, why); err != nil {
		r.log.Error("Could not pause", "error", err)
	}
	r.notifyAgents(ctx)
}

func (r *run) checkResume(contract.Command) error {
	if !r.controls.paused {
		return commands.Rejected("run %d is not paused; its status is %s", r.in.RunID, r.Status)
	}
	return nil
}

func (r *run) applyResume(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	r.unpause(ctx)
	return records.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status, "by": c.By}), "continues"
}

func (r *run) unpause(ctx workflow.Context) {
	r.controls.paused = false
	r.EndInterruption()
	if r.controls.held != "" {
		r.WaitingFor, r.controls.resumed = r.controls.held, true
	}
	if a := r.controls.approval; a != nil && !a.answered() {
		if err := r.Interrupt(a.status(), a.kind); err != nil {
			r.log.Error("Could not continue waiting for the answer", "error", err)
		}
	}
	r.notifyAgents(ctx)
}

func (r *run) checkAdvance(contract.Command) error {
	if !r.controls.paused {
		return commands.Rejected("run %d has the status %s and continues by itself; only a paused run can be advanced", r.in.RunID, r.Status)
	}
	return nil
}

// applyAdvance lets a paused run continue until the next phase.
func (r *run) applyAdvance(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	r.controls.oneStep = true
	r.unpause(ctx)
	return records.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status, "by": c.By, "advance": true}),
		"continues until the next phase, then pauses again"
}

func (r *run) applyStop(_ workflow.Context, c contract.Command) (contract.Record, string) {
	by := cmp.Or(c.By, "an unnamed service")
	r.controls.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "stopped by %s%s; partial results are kept", by, commands.Because(c.Reason)).Failure
	r.controls.stopper = &contract.PipelineCommand{ID: c.ID, By: by, Reason: c.Reason}
	r.cancel()
	return records.EventRecord(contract.EventRunUpdated, map[string]any{"stopping": true, "by": c.By, "reason": c.Reason}), "is being stopped"
}

// awaitStart waits until a phase may start: not paused, and approved if that is required.
func (r *run) awaitStart(ctx workflow.Context, p contract.Phase) *contract.Failure {
	if r.controls.oneStep && p != contract.PhasePlanner {
		r.controls.oneStep = false
		r.pause(ctx, "advanced to the "+string(p))
		if _, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status})); err != nil {
			return r.failureOf(err)
		}
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	if p == contract.PhaseReleaser && r.in.Settings.Attempt != nil && !r.Chosen {
		if failure := r.awaitChoice(ctx, *r.in.Settings.Attempt); failure != nil {
			return failure
		}
	}
	s := r.in.Settings
	switch {
	case p == contract.PhaseBuilder && s.ApprovePlan && !r.hasApproval(contract.ApprovalPlan):
		return r.askApproval(ctx, contract.ApprovalPlan)
	case p == contract.PhaseReleaser:
		return r.awaitTogether(ctx)
	}
	return nil
}

// awaitUnpaused waits while the run is paused.
func (r *run) awaitUnpaused(ctx workflow.Context) *contract.Failure {
	if r.controls.paused {
		if err := r.flush(ctx); err != nil {
			return r.failureOf(err)
		}
	}
	if err := workflow.Await(ctx, func() bool { return !r.controls.paused }); err != nil {
		return r.failureOf(err)
	}
	return nil
}
