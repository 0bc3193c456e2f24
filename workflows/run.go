package workflows

import (
	"encoding/json"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Run is one orchestration of one goal against one repository: planner,
// builder, tester, releaser, in this order, each a phase with its own agent.
// Commands of people come in as updates and signals (run_handlers.go). The
// result says how the run ended; an error of the workflow itself means that its
// last state could not be written.
func Run(ctx workflow.Context, in contract.RunInput) (contract.RunResult, error) {
	r := newRun(ctx, in)
	if err := r.handle(ctx); err != nil {
		return contract.RunResult{}, err
	}
	return r.run(ctx)
}

// run is the workflow's state: the run's own (pure) and what coordinates it.
type run struct {
	runState
	in     contract.RunInput
	log    log.Logger
	rows   *recorder
	held   holds // what people asked for: pause, stop, approvals
	cancel workflow.CancelFunc

	completed  *contract.Record                 // of a phase, not written yet; see complete
	executions map[string]contract.ExecutionRef // the last of each phase and step, by name
	reachable  map[string]bool                  // steps whose workflows have started
	credits    map[string]contract.Credit       // by step
	changes    []contract.Change                // what the steps did, in plan order
	workspace  contract.Workspace               // all changes together
	stages     []contract.Workspace             // after each change
}

func newRun(ctx workflow.Context, in contract.RunInput) *run {
	return &run{
		runState:   newRunState(in),
		in:         in,
		log:        log.With(workflow.GetLogger(ctx), "run", in.RunID),
		rows:       newRecorder(ctx, in.RunID),
		executions: map[string]contract.ExecutionRef{},
		reachable:  map[string]bool{},
		credits:    map[string]contract.Credit{},
		workspace:  in.Settings.Repo.Workspace(),
	}
}

// run passes through the phases. Work happens on a context of its own, which a
// stop cancels; what must still be said afterwards is said on a disconnected one.
func (r *run) run(ctx workflow.Context) (contract.RunResult, error) {
	work, cancel := workflow.WithCancel(ctx)
	r.cancel = cancel
	r.deadline(work)

	var failure *contract.Failure
	for _, p := range contract.Phases() {
		if failure = r.pass(work, p); failure != nil {
			break
		}
		if p == contract.PhasePlanner && r.in.Settings.PlanOnly {
			break
		}
	}
	r.noteCancel(ctx)
	cancel()
	return r.finish(ctx, failure)
}

// noteCancel takes a cancellation that came from Temporal itself, rather than
// as a command, for the stop that it is.
func (r *run) noteCancel(ctx workflow.Context) {
	if ctx.Err() != nil && r.held.stop == nil {
		r.held.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "cancelled in Temporal; partial results are kept").Failure
	}
}

// pass carries a phase through from running to completed, or says why it could not.
func (r *run) pass(ctx workflow.Context, p contract.Phase) *contract.Failure {
	if failure := r.ready(ctx, p); failure != nil {
		return failure
	}
	execution, err := r.begin(ctx, p)
	if err != nil {
		return r.why(err)
	}
	output, failure := r.work(ctx, p, execution)
	if failure == nil {
		failure = r.unheld(ctx)
	}
	if failure == nil {
		return r.why(r.complete(p, execution, output))
	}
	return r.fail(ctx, p, execution, failure)
}

// work does what a phase is there for. Its output is what the run shows of it.
func (r *run) work(ctx workflow.Context, p contract.Phase, execution contract.ExecutionRef) (any, *contract.Failure) {
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

// begin makes the run's phase running.
func (r *run) begin(ctx workflow.Context, p contract.Phase) (contract.ExecutionRef, error) {
	r.phase = p
	if err := r.become(p.Running()); err != nil {
		return contract.ExecutionRef{}, err
	}
	agent := contract.AgentOf(p)
	result, err := r.transition(ctx, contract.Record{
		Begin:  &contract.ExecutionBegin{Phase: p, Agent: agent, Model: r.models[agent]},
		Events: []contract.EventDraft{{Type: p.Started()}},
	})
	r.executions[string(p)] = result.Execution
	return result.Execution, err
}

// complete makes the run's phase completed. That is written with what follows:
// most often the next phase begins at once, and both are one record with two
// events. Whatever the run would wait for first writes it (flush).
func (r *run) complete(p contract.Phase, execution contract.ExecutionRef, output any) error {
	if err := r.become(p.Completed()); err != nil {
		return err
	}
	raw, err := json.Marshal(output)
	if err != nil {
		return err
	}
	r.completed = &contract.Record{
		End:    &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCompleted, Output: raw},
		Events: []contract.EventDraft{{Type: p.CompletedEvent(), Payload: output}},
	}
	return nil
}

// flush writes a phase's completion that nothing followed yet.
func (r *run) flush(ctx workflow.Context) error {
	if r.completed == nil {
		return nil
	}
	_, err := r.transition(ctx, contract.Record{})
	return err
}

// fail makes the run's phase failed. A stop is no failure of the phase: its
// execution is cancelled, and finish says the rest.
func (r *run) fail(ctx workflow.Context, p contract.Phase, execution contract.ExecutionRef, failure *contract.Failure) *contract.Failure {
	end := &contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionFailed, Failure: failure}
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	r.noteCancel(ctx)
	if r.held.stop != nil {
		end.Status = contract.ExecutionCancelled
		if err := r.rows.write(last, contract.Record{End: end}); err != nil {
			r.log.Error("Could not record the end of a stopped phase", "phase", p, "error", err)
		}
		return failure
	}
	r.failure = failure
	if err := r.become(p.Error()); err != nil {
		return r.why(err)
	}
	_, err := r.transition(last, contract.Record{
		End:    end,
		Events: []contract.EventDraft{{Type: p.ErrorEvent(), Payload: failure}},
	})
	if err != nil {
		return r.why(err)
	}
	return failure
}

// finish ends the run: done, failed or cancelled, with everything kept.
func (r *run) finish(ctx workflow.Context, failure *contract.Failure) (contract.RunResult, error) {
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var events []contract.EventDraft
	switch {
	case r.status == contract.StatusDone:
		failure = nil // released before anybody could stop it
	case r.held.stop != nil:
		failure = r.held.stop
		r.status, r.pausedFrom, r.waitingFor = contract.StatusCancelled, "", ""
		if r.held.timedOut {
			r.status = contract.StatusFailed
		}
		events = []contract.EventDraft{{Type: contract.EventRunFailed, Payload: failure}}
	case failure != nil:
		r.status, r.pausedFrom, r.waitingFor = contract.StatusFailed, "", ""
		events = []contract.EventDraft{{Type: contract.EventRunFailed, Payload: failure}}
	default: // a plan and nothing more
		r.status = contract.StatusDone
		events = []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.status}}}
	}
	r.failure = failure
	if len(events) > 0 || r.completed != nil {
		if _, err := r.transition(last, contract.Record{Events: events}); err != nil {
			return contract.RunResult{}, err
		}
	}
	r.cleanUp(last)
	if err := workflow.Await(last, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return contract.RunResult{}, err
	}
	return contract.RunResult{RunID: r.in.RunID, Status: r.status, Branch: r.branch, Commit: r.commit, Failure: failure}, nil
}

// cleanUp removes the run's directories on the host that most likely has them;
// each worker sweeps its own later. They are caches: what is left behind costs
// disk space and nothing else, so a failure is only logged.
func (r *run) cleanUp(ctx workflow.Context) {
	options := long(ctx, contract.QueueBuilder, cleanUpTime)
	options = workflow.WithScheduleToCloseTimeout(options, cleanUpTime)
	if err := workflow.ExecuteActivity(options, contract.ActivityCleanUp, r.in.RunID).Get(ctx, nil); err != nil {
		r.log.Warn("Could not remove the run's working directories now; the worker's sweep will", "error", err)
	}
}

// plan gets the run's plan: from the model, or the one that came with the run.
func (r *run) plan(ctx workflow.Context, execution contract.ExecutionRef) (any, *contract.Failure) {
	s := r.in.Settings
	var result contract.PlanResult
	var err error
	if s.PlanGiven {
		result, err = r.adopt(ctx, r.in.PlanID)
	} else {
		err = workflow.ExecuteActivity(long(ctx, contract.QueuePlanner, s.ModelTimeout+modelWait), contract.ActivityPlan, contract.PlanInput{
			Execution: execution, Repo: s.Repo, Model: r.models[contract.AgentPlanner], Budget: s.RunBudget, Timeout: s.ModelTimeout,
			Branch: r.branchToRelease(),
		}).Get(ctx, &result)
	}
	if err != nil {
		return nil, fault.Of(err)
	}
	r.setPlan(result.ID, result.Plan)
	r.usage = r.usage.Add(result.Usage)
	return planOutput{PlanID: result.ID, Steps: len(result.Plan.Steps), Complexity: result.Plan.ComplexityScore, Usage: result.Usage}, nil
}

// adopt reads a plan that a person gave or edited, and checks it.
func (r *run) adopt(ctx workflow.Context, planID int64) (contract.PlanResult, error) {
	var result contract.PlanResult
	err := workflow.ExecuteLocalActivity(short(ctx), contract.ActivityAdoptPlan, contract.AdoptPlanInput{
		RunID: r.in.RunID, PlanID: planID,
	}).Get(ctx, &result)
	return result, err
}

// branchToRelease names the branch that must be free at the end, if the run
// comes that far and has not released it before.
func (r *run) branchToRelease() string {
	if r.in.Settings.PlanOnly || r.commit != "" {
		return ""
	}
	return r.in.Settings.Release.Branch
}

// planOutput is what a run's planner_output holds beside the plan, which is
// read from its own table.
type planOutput struct {
	PlanID     int64          `json:"plan_id"`
	Steps      int            `json:"steps"`
	Complexity float64        `json:"complexity_score"`
	Usage      contract.Usage `json:"usage"`
}

// deadline stops the run when its time is up.
func (r *run) deadline(ctx workflow.Context) {
	most := r.in.Settings.RunBudget.Time
	if most <= 0 {
		return
	}
	workflow.Go(ctx, func(ctx workflow.Context) {
		if err := workflow.NewTimer(ctx, most).Get(ctx, nil); err != nil {
			return // the run ended first
		}
		r.held.timedOut = true
		r.held.stop = &fault.New(contract.ClassInfra, contract.CodeRunTimeout,
			"the run took longer than the %s it may (execution.run.time); its partial results are kept", most).Failure
		r.cancel()
	})
}

// transition writes the run's present state with what goes along, and shows it
// in Temporal's search attributes.
func (r *run) transition(ctx workflow.Context, rec contract.Record) (contract.RecordResult, error) {
	attributes := []temporal.SearchAttributeUpdate{
		keyPhase.ValueSet(string(r.phase)),
		keyStatus.ValueSet(string(r.status)),
	}
	if r.failure != nil {
		attributes = append(attributes, keyErrorType.ValueSet(string(r.failure.Class)))
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, attributes...); err != nil {
		return contract.RecordResult{}, err
	}
	return r.rows.writeFor(ctx, func() contract.Record {
		if done := r.completed; done != nil {
			r.completed = nil
			rec.End, rec.Events = done.End, append(done.Events, rec.Events...)
		}
		rec.Run = r.change()
		return rec
	})
}

var (
	keyPhase     = temporal.NewSearchAttributeKeyKeyword(contract.AttributePhase)
	keyStatus    = temporal.NewSearchAttributeKeyKeyword(contract.AttributeStatus)
	keyErrorType = temporal.NewSearchAttributeKeyKeyword(contract.AttributeErrorType)
)

// why turns an error of the workflow's own work into a failure, nil for none.
func (r *run) why(err error) *contract.Failure {
	if r.held.stop != nil {
		return r.held.stop
	}
	return fault.Of(err)
}
