// Package run is the workflow of one orchestration: a goal, a repository, and the
// phases that turn them into a released branch.
package run

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/agentloop"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// Workflow is one orchestration of one goal against one repository: planner, builder, tester,
// releaser, in this order, each a phase with its own agent. People's commands arrive as updates and
// signals (commands.go). The result describes the end of the run; an error of the workflow itself
// means that its last state could not be written.
func Workflow(ctx workflow.Context, in contract.RunInput) (contract.RunResult, error) {
	r := newRun(ctx, in)
	work, cancel := workflow.WithCancel(ctx)
	r.cancel = cancel // a command may arrive before the workflow's first task
	before, err := r.restore(in.Continued)
	if err == nil {
		err = r.handle(ctx, before)
	}
	if err != nil {
		return contract.RunResult{}, err
	}
	return r.run(ctx, work, before)
}

// run is the workflow's state: the run's own state (pure), and the state of its coordination.
type run struct {
	state.State
	in        contract.RunInput
	log       log.Logger
	rows      *records.Recorder
	controls  controls // effects of commands: pause, stop, approvals
	commands  commands.Commands[contract.Command, contract.Ack]
	checks    commands.Commands[contract.CheckMessage, contract.Ack]
	cancel    workflow.CancelFunc
	stopClock workflow.CancelFunc // stops the timer for the run's time limit

	runDeadline time.Time // when the run must have ended; zero: no limit
	tooLarge    bool      // to continue as new
	continued   error     // returned by the workflow to continue as new

	completed         *contract.Record                        // of a phase, not written yet; see complete
	loops             map[string]*agentloop.Loop              // steps that this workflow carries out now
	stepRows          map[string]*records.Recorder            // of the steps that this workflow carried out
	reachable         map[string]bool                         // steps whose workflows have started and can be signalled
	affinities        map[string]*affinity.Affinity           // by phase or step
	takesPushes       bool                                    // the run continues from what people push to its branch
	looksAgain        bool                                    // messages about unknown commits wait if the branch cannot be looked at
	pushesFirst       bool                                    // a push ends the work on a failure of the branch, also while a person is asked
	updates           bool                                    // the run brings the base of its pull request into its branch
	atOnce            bool                                    // a change of labels is judged at once
	judging           bool                                    // a change of labels is being judged
	relabels          int                                     // judgements of labels since a person answered
	relabelledAt      time.Time                               // when the last one began
	shown             shown                                   // in Temporal
	deliberation      workflow.ChildWorkflowFuture            // the latest one about the plan; nil: none
	knownMemberModels map[contract.Agent]contract.ModelChoice // models of the deliberation's members, as last sent to them
}

func newRun(ctx workflow.Context, in contract.RunInput) *run {
	r := &run{
		State:      state.New(in),
		in:         in,
		log:        log.With(workflow.GetLogger(ctx), "run", in.RunID),
		rows:       records.NewRecorder(ctx, in.RunID),
		loops:      map[string]*agentloop.Loop{},
		stepRows:   map[string]*records.Recorder{},
		reachable:  map[string]bool{},
		affinities: map[string]*affinity.Affinity{},
		shown:      shown{Phase: contract.PhasePlanner, Status: contract.StatusPending}, // as it was started with
	}
	if f := in.Settings.Fork; f != nil {
		r.keepSteps(f.Kept)
	}
	return r
}

// keepSteps adopts the results of steps that are not repeated.
func (r *run) keepSteps(steps []contract.StepOutput) {
	for _, s := range steps {
		r.Done[s.Step], r.Credits[s.Step] = s.Change, s.Credit
	}
}

// run runs the phases. They have their own context, which a stop cancels; the final writes run on a
// disconnected context.
func (r *run) run(ctx, work workflow.Context, before *snapshot) (contract.RunResult, error) {
	r.askVersions(ctx)
	r.startClock(work)
	failure := r.carryOut(work, before)
	if r.continued != nil {
		return contract.RunResult{}, r.continued
	}
	r.recordCancel(ctx)
	r.cancel()
	return r.finish(ctx, failure)
}

// carryOut runs all phases, or those after the snapshot.
func (r *run) carryOut(ctx workflow.Context, before *snapshot) (failure *contract.Failure) {
	switch {
	case before == nil:
		if failure = r.prepare(ctx); failure != nil {
			return failure
		}
		if r.in.Settings.PrepareOnly {
			return r.awaitUnpaused(ctx)
		}
		failure = r.runFrom(ctx, contract.PhasePlanner)
	case before.Next != "":
		failure = r.runFrom(ctx, before.Next)
		if failure == nil && r.continued == nil && r.Watch.On {
			failure = r.checkFixed(ctx)
		}
	}
	if failure == nil && r.continued == nil && r.watchesBranch() {
		failure = r.watchBranch(ctx)
	}
	return failure
}

// runFrom runs the phases in order, starting with the given one. After a failure is healed, it
// continues from the phase that the heal names. It returns the failure that the run ends with, if
// any.
func (r *run) runFrom(ctx workflow.Context, first contract.Phase) *contract.Failure {
	if first == "" { // the work was dropped
		return nil
	}
	phases := contract.Phases()
	for i := slices.Index(phases, first); i < len(phases); i++ {
		if r.mustContinue(ctx) {
			if err := r.continueAsNew(ctx, phases[i]); err != nil || r.continued != nil {
				return r.failureOf(err)
			}
		}
		failure := r.runPhase(ctx, phases[i])
		if failure == nil {
			if phases[i] == contract.PhasePlanner && r.in.Settings.PlanOnly {
				return nil
			}
			continue
		}
		back, failure := r.heal(ctx, phases[i], failure)
		if failure != nil || back == "" {
			return failure
		}
		i = slices.Index(phases, back) - 1
	}
	return nil
}

// recordCancel records a cancellation that came from Temporal itself, not as a command, as a stop.
func (r *run) recordCancel(ctx workflow.Context) {
	if ctx.Err() != nil && !r.controls.stopping() {
		r.controls.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "cancelled in Temporal; partial results are kept").Failure
	}
}

// runPhase runs a phase from running to completed, or returns its failure.
func (r *run) runPhase(ctx workflow.Context, p contract.Phase) *contract.Failure {
	if failure := r.awaitStart(ctx, p); failure != nil {
		return failure
	}
	if failure := r.separateCommands(ctx); failure != nil {
		return failure
	}
	if failure := r.awaitLabels(ctx, p); failure != nil {
		return failure
	}
	execution, err := r.begin(ctx, p)
	if err != nil {
		return r.failureOf(err)
	}
	r.Failed = state.FailedWork{}
	output, failure := r.phaseWork(ctx, p, execution)
	// A failure during a pause is not healed until the run continues.
	if held := r.awaitUnpaused(ctx); failure == nil {
		failure = held
	}
	if failure == nil {
		return r.failureOf(r.complete(p, execution, output))
	}
	return r.fail(ctx, p, execution, failure)
}

// phaseWork does the work of a phase and returns the output that the run shows.
func (r *run) phaseWork(ctx workflow.Context, p contract.Phase, execution contract.ExecutionRef) (any, *contract.Failure) {
	switch p {
	case contract.PhasePlanner:
		return r.plan(ctx, execution)
	case contract.PhaseBuilder:
		return r.build(ctx)
	case contract.PhaseTester:
		return r.test(ctx, execution)
	default:
		return r.releaseBranch(ctx, execution)
	}
}

// separateCommands makes a phase begin in a later workflow task than the last applied command:
// otherwise, a replay from the phase would wait for the same answer again.
func (r *run) separateCommands(ctx workflow.Context) *contract.Failure {
	for r.controls.changed {
		r.controls.changed = false
		if err := options.NewTask(ctx); err != nil {
			return r.failureOf(err)
		}
		if failure := r.awaitUnpaused(ctx); failure != nil { // the run may have been paused meanwhile
			return failure
		}
	}
	return nil
}

// begin sets the run's phase to running.
func (r *run) begin(ctx workflow.Context, p contract.Phase) (contract.ExecutionRef, error) {
	r.Phase = p
	if err := r.SetStatus(p.Running()); err != nil {
		return contract.ExecutionRef{}, err
	}
	agent := contract.AgentOf(p)
	result, err := r.transition(ctx, contract.Record{
		Begin:  &contract.ExecutionBegin{Phase: p, Agent: agent, Model: r.Models[agent]},
		Events: []contract.EventDraft{{Type: p.Started()}},
	})
	r.Executions[string(p)] = result.Execution
	if o := result.Replay; o != nil && err == nil {
		err = r.replayed(ctx, p, *o)
	}
	return result.Execution, err
}

// replayed applies the changes for a phase that a replay repeats, and records that.
func (r *run) replayed(ctx workflow.Context, p contract.Phase, o contract.ReplaySpec) error {
	if o.Model != nil {
		r.setModel(contract.AgentOf(p), *o.Model)
	}
	for _, by := range o.Authors {
		r.AddAuthor(by)
	}
	// The results of the other heals were recorded before.
	r.Heals.Applied = slices.DeleteFunc(r.Heals.Applied, func(a state.AppliedHeal) bool { return !slices.Contains(o.Open, a.Number) })
	kept := []string{}
	if p == contract.PhaseBuilder {
		r.Done = map[string]contract.Change{}
		r.keepSteps(o.Kept)
		for _, s := range o.Kept {
			kept = append(kept, s.Step)
		}
	}
	_, err := r.transition(ctx, records.EventRecord(contract.EventRunUpdated, map[string]any{
		"replay": p, "step": o.Step, "model": o.Model, "kept_steps": kept, "by": o.By, "reason": o.Reason,
	}))
	return err
}

// complete sets the run's phase to completed. This is written with the next change: usually the
// next phase begins immediately, and both are one record with two events. Before the run waits for
// anything, it is written separately (flush).
func (r *run) complete(p contract.Phase, execution contract.ExecutionRef, output any) error {
	if err := r.SetStatus(p.Completed()); err != nil {
		return err
	}
	raw, err := json.Marshal(output)
	if err != nil {
		return err
	}
	r.Failure = nil // what was healed is not a failure of the run
	notes, events := r.healOutcomes(p, nil)
	r.completed = &contract.Record{
		End:    &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCompleted, Output: raw},
		Events: append([]contract.EventDraft{{Type: p.CompletedEvent(), Payload: output}}, events...),
		Heals:  notes,
	}
	r.completed.EndEvents = len(r.completed.Events)
	return nil
}

// flush writes a phase's unwritten completion, if any.
func (r *run) flush(ctx workflow.Context) error {
	if r.completed == nil {
		return nil
	}
	_, err := r.transition(ctx, contract.Record{})
	return err
}

// fail sets the run's phase to failed. A stop is not a failure of the phase: its execution is
// cancelled, and finish records the rest.
func (r *run) fail(ctx workflow.Context, p contract.Phase, execution contract.ExecutionRef, failure *contract.Failure) *contract.Failure {
	end := &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionFailed, Failure: failure}
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	r.recordCancel(ctx)
	if r.controls.stopping() {
		end.Status = contract.ExecutionCancelled
		if err := r.rows.Write(last, contract.Record{End: end}); err != nil {
			r.log.Error("Could not record the end of a stopped phase", "phase", p, "error", err)
		}
		return failure
	}
	r.Failure = failure
	if err := r.SetStatus(p.Error()); err != nil {
		return r.failureOf(err)
	}
	notes, events := r.healOutcomes(p, failure)
	_, err := r.transition(last, contract.Record{
		End:    end,
		Events: append([]contract.EventDraft{{Type: p.ErrorEvent(), Payload: failure}}, events...),
		Heals:  notes,
	})
	if err != nil {
		return r.failureOf(err)
	}
	return failure
}

// finish ends the run: done, failed or cancelled, with everything kept.
func (r *run) finish(ctx workflow.Context, failure *contract.Failure) (contract.RunResult, error) {
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var events []contract.EventDraft
	switch {
	case r.Watch.On:
		failure, events = r.endWatch(ctx, failure)
	case r.Status == contract.StatusDone:
		failure = nil // released before it could be stopped
	case r.controls.stopping():
		failure = r.controls.stop
		r.Status, r.PausedFrom, r.WaitingFor = contract.StatusCancelled, "", ""
		if r.controls.timedOut {
			r.Status = contract.StatusFailed
		}
		events = []contract.EventDraft{{Type: contract.EventRunFailed, Payload: failure}}
	case failure != nil:
		r.Status, r.PausedFrom, r.WaitingFor = contract.StatusFailed, "", ""
		events = []contract.EventDraft{{Type: contract.EventRunFailed, Payload: failure}}
	default: // only a plan or an environment was requested
		r.Status = contract.StatusDone
		events = []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.Status}}}
	}
	r.Failure = failure
	notes, healed := r.openHealOutcomes("the run ended first")
	events = append(healed, events...)
	if len(events) > 0 || len(notes) > 0 || r.completed != nil {
		if _, err := r.transition(last, contract.Record{Events: events, Heals: notes}); err != nil {
			return contract.RunResult{}, err
		}
	}
	r.cleanUp(last)
	r.answerRest(last, failure)
	r.tellGroup(last)
	r.tellSet(last)
	if err := workflow.Await(last, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return contract.RunResult{}, err
	}
	return contract.RunResult{RunID: r.in.RunID, Status: r.Status, Branch: r.Branch, Commit: r.Commit, Failure: failure}, nil
}

// cleanUp removes the run's directories on the host that most likely has them: that of the workflow, if it has
// any, else one of a builder. Each worker sweeps its own later. They are caches: leftovers only cost disk space,
// so a failure is only logged.
func (r *run) cleanUp(ctx workflow.Context) {
	found := false
	var err error
	if r.lean() {
		err = workflow.ExecuteLocalActivity(options.LocalOnce(ctx), contract.ActivityCleanUp, r.in.RunID).Get(ctx, &found)
	}
	if err == nil && !found {
		activity := options.Remote(ctx, contract.QueueBuilder, options.CleanUpTimeout)
		activity = workflow.WithScheduleToCloseTimeout(activity, options.CleanUpTimeout)
		err = workflow.ExecuteActivity(activity, contract.ActivityCleanUp, r.in.RunID).Get(ctx, nil)
	}
	if err != nil {
		r.log.Warn("Could not remove the run's working directories; the worker's sweep will remove them", "error", err)
	}
}

// plan gets the run's plan: from the model, from a deliberation, or from the run's input.
func (r *run) plan(ctx workflow.Context, execution contract.ExecutionRef) (any, *contract.Failure) {
	var result contract.PlanResult
	var err error
	r.Planning = contract.PlanState{}
	switch {
	case r.in.Settings.PlanGiven:
		result, err = r.adopt(ctx, r.in.PlanID)
	case r.in.Settings.Deliberation != nil:
		result, err = r.planTogether(ctx, execution)
	default:
		result, err = r.askPlanner(ctx, execution)
	}
	if err != nil {
		return nil, fault.Of(err)
	}
	r.SetPlan(result.ID, result.Plan)
	r.Usage = r.Usage.Add(result.Usage)
	return planOutput{
		PlanID: result.ID, Steps: len(result.Plan.Steps), Complexity: result.Plan.ComplexityScore, Usage: result.Usage, PipelineID: r.pipelineID(),
		Review: result.Review,
	}, nil
}

// askPlanner lets the planner's model read the repository until it has a plan, which is made from
// the consensus of a deliberation if there was one. Runs that were created before planners had tools
// have their plan after one turn.
func (r *run) askPlanner(ctx workflow.Context, execution contract.ExecutionRef) (contract.PlanResult, error) {
	var used contract.Usage
	for {
		result, err := r.planTurn(ctx, execution)
		used = used.Add(result.Usage)
		if err == nil && result.More {
			r.Planning = result.State
			err = r.betweenTurns(ctx, result.Ask)
		}
		if err != nil {
			r.Usage = r.Usage.Add(used)
			return result, err
		}
		if !result.More {
			r.Planning, result.Usage = result.State, used
			return result, nil
		}
	}
}

// betweenTurns asks a person what the planner must know, if anything, and waits while the run is
// paused: a paused run calls no model.
func (r *run) betweenTurns(ctx workflow.Context, q *contract.PlannerQuestion) error {
	var failure *contract.Failure
	if q != nil {
		failure = r.askForInput(ctx, *q)
	}
	if failure == nil {
		failure = r.awaitUnpaused(ctx)
	}
	if failure != nil {
		return fault.Restore(*failure)
	}
	return nil
}

// planTurn makes one turn of planning, with the model that the planner has now.
func (r *run) planTurn(ctx workflow.Context, execution contract.ExecutionRef) (contract.PlanResult, error) {
	s := r.in.Settings
	over := 0.0
	if s.Deliberation != nil && r.Consensus == nil {
		over = s.Deliberation.GammaComplexityOver
	}
	var result contract.PlanResult
	err := r.affinityOf(contract.PhasePlanner, "").Execute(ctx, s.ModelTimeout+options.ModelWait, contract.ActivityPlan, contract.PlanInput{
		Execution: execution, Repo: s.Repo, Model: r.Models[contract.AgentPlanner], Budget: s.RunBudget, Timeout: s.ModelTimeout,
		Branch: r.branchToRelease(), Lessons: r.lessonsOf(contract.PhasePlanner, ""), Consensus: r.Consensus,
		Fallbacks: r.otherModels(), Planner: s.Planner, State: r.Planning, Violations: s.Agents.Violations, DeliberateOver: over,
		Input: r.Input,
	}).Get(ctx, &result)
	return result, err
}

// adopt reads a plan that a person supplied or edited, and checks it.
func (r *run) adopt(ctx workflow.Context, planID int64) (contract.PlanResult, error) {
	var result contract.PlanResult
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityAdoptPlan, contract.AdoptPlanInput{
		RunID: r.in.RunID, PlanID: planID,
	}).Get(ctx, &result)
	return result, err
}

// branchToRelease returns the branch that must be free at the end, if the run has a release and has
// not released it before.
func (r *run) branchToRelease() string {
	if r.in.Settings.PlanOnly || r.Commit != "" {
		return ""
	}
	return r.in.Settings.Release.Branch
}

// planOutput is the content of a run's planner_output besides the plan, which is read from its own
// table.
type planOutput struct {
	PlanID     int64          `json:"plan_id"`
	Steps      int            `json:"steps"`
	Complexity float64        `json:"complexity_score"`
	Usage      contract.Usage `json:"usage"`
	PipelineID int64          `json:"pipeline_id,omitempty"` // of the deliberation that produced the plan

	Review *contract.PlanReview `json:"review,omitempty"` // nil: nothing was checked
}

// startClock stops the run when its time is up.
func (r *run) startClock(ctx workflow.Context) {
	most := r.in.Settings.RunBudget.Time
	if most <= 0 || r.Watch.On {
		return
	}
	if r.runDeadline.IsZero() {
		r.runDeadline = workflow.Now(ctx).Add(most)
	}
	if r.in.Settings.Release.Stay > 0 {
		ctx, r.stopClock = workflow.WithCancel(ctx)
	}
	left := r.runDeadline.Sub(workflow.Now(ctx))
	workflow.Go(ctx, func(ctx workflow.Context) {
		for left > 0 {
			if err := workflow.NewTimer(ctx, left).Get(ctx, nil); err != nil {
				return // the run ended first
			}
			// While the run waits for the others of its change set, its time stands still.
			if err := workflow.Await(ctx, func() bool { return r.controls.held != contract.WaitsForChangeSet }); err != nil {
				return
			}
			left = r.timeLeft(ctx, most)
			r.runDeadline = workflow.Now(ctx).Add(left)
		}
		if ctx.Err() != nil {
			return // it ended, or was released, during the lookup
		}
		r.controls.timedOut = true
		r.controls.stop = &fault.New(contract.ClassInfra, contract.CodeRunTimeout,
			"the run exceeded its time limit of %s (execution.run.time); its partial results are kept", most).Failure
		r.controls.stopper = &contract.PipelineCommand{By: contract.RunWorkflowID(r.in.RunID), Reason: "its time limit of " + most.String() + " was reached (execution.run.time)"}
		r.cancel()
	})
}

// timeLeft returns what is left of a run's time when the timer fires. A replayed run has the timer
// of its first attempt.
func (r *run) timeLeft(ctx workflow.Context, most time.Duration) time.Duration {
	var from time.Time
	err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityRunTimeFrom, r.in.RunID).Get(ctx, &from)
	if err != nil {
		r.log.Error("Could not determine how long the run has been working; treating its time limit as reached", "error", err)
		return 0
	}
	return most - workflow.Now(ctx).Sub(from) + state.Waited(r.Waits, from)
}

// transition writes the run's current state with its events, and shows it in Temporal's search
// attributes.
func (r *run) transition(ctx workflow.Context, rec contract.Record) (contract.RecordResult, error) {
	if err := r.show(ctx); err != nil {
		return contract.RecordResult{}, err
	}
	return r.rows.WriteLatest(ctx, func() contract.Record {
		if done := r.completed; done != nil {
			r.completed = nil
			rec.End, rec.EndEvents, rec.Events, rec.Heals = done.End, done.EndEvents, append(done.Events, rec.Events...), append(done.Heals, rec.Heals...)
		}
		rec.Run = r.RowChange()
		return rec
	})
}

// lean reports whether the run was started by code that saves events: see contract.LogicLean.
func (r *run) lean() bool { return r.in.Logic >= contract.LogicLean }

// shown are the values of Temporal's search attributes that follow the run's state.
type shown struct {
	Phase     contract.Phase  `json:"phase,omitempty"`
	Status    contract.Status `json:"status,omitempty"`
	ErrorType contract.Class  `json:"error_type,omitempty"`
}

// show updates Temporal's search attributes, of which each update costs a write of its own, if they have changed.
func (r *run) show(ctx workflow.Context) error {
	now, always := shown{Phase: r.Phase, Status: r.Status}, !r.lean()
	if r.Failure != nil {
		now.ErrorType = r.Failure.Class
	}
	var attributes []temporal.SearchAttributeUpdate
	if always || now.Phase != r.shown.Phase {
		attributes = append(attributes, options.KeyPhase.ValueSet(string(now.Phase)))
	}
	if always || now.Status != r.shown.Status {
		attributes = append(attributes, options.KeyStatus.ValueSet(string(now.Status)))
	}
	switch {
	case now.ErrorType != "" && (always || now.ErrorType != r.shown.ErrorType):
		attributes = append(attributes, options.KeyErrorType.ValueSet(string(now.ErrorType)))
	case now.ErrorType == "" && r.shown.ErrorType != "": // healed
		attributes = append(attributes, options.KeyErrorType.ValueUnset())
	}
	if len(attributes) == 0 {
		return nil
	}
	r.shown = now
	return workflow.UpsertTypedSearchAttributes(ctx, attributes...)
}

// failureOf turns an error of the workflow's own work into a failure, nil for none.
func (r *run) failureOf(err error) *contract.Failure {
	if r.controls.stopping() {
		return r.controls.stop
	}
	return fault.Of(err)
}
