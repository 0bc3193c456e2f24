package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// holds is what people asked of a run.
type holds struct {
	paused   bool
	oneStep  bool // advance: pause again at the next phase
	stop     *contract.Failure
	timedOut bool
	approval *approval           // the open one
	seen     map[string]struct{} // ids of commands already applied
}

// approval is a question to a person. It fails closed: no answer is a no.
type approval struct {
	id       string
	kind     string // plan, release
	granted  bool
	rejected bool
	expired  bool
	by       string
	reason   string
	edited   bool
}

func (a *approval) answered() bool { return a.granted || a.rejected || a.expired }

// command is one thing that a person or service can ask of a run, as an update
// and as a signal of the same name.
type command struct {
	name string
	// check says why the command makes no sense now; it changes nothing.
	check func(r *run, c contract.Command) error
	// apply changes the state and returns what happened, as an event and as words.
	apply func(r *run, ctx workflow.Context, c contract.Command) (contract.EventDraft, string)
}

// commands in a fixed order: registration must be the same at each replay.
var commands = []command{
	{contract.UpdateApprove, (*run).checkAnswer, (*run).applyApprove},
	{contract.UpdateReject, (*run).checkAnswer, (*run).applyReject},
	{contract.UpdatePause, (*run).checkPause, (*run).applyPause},
	{contract.UpdateResume, (*run).checkResume, (*run).applyResume},
	{contract.UpdateSwitchModel, (*run).checkSwitchModel, (*run).applySwitchModel},
	{contract.UpdateStop, nil, (*run).applyStop},
	{contract.UpdateAdvance, (*run).checkAdvance, (*run).applyAdvance},
}

// handle registers queries, updates and signals.
func (r *run) handle(ctx workflow.Context) error {
	r.held.seen = map[string]struct{}{}
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.RunView, error) {
		id := ""
		if r.held.approval != nil {
			id = r.held.approval.id
		}
		return r.view(r.in.RunID, id), nil
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryPlan, func() (contract.Plan, error) { return r.runState.plan, nil }); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryTranscript, func() ([]contract.StepView, error) { return r.steps, nil }); err != nil {
		return err
	}
	for _, c := range commands {
		if err := r.handleCommand(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) handleCommand(ctx workflow.Context, c command) error {
	update := func(ctx workflow.Context, args contract.Command) (contract.Ack, error) { return r.obey(ctx, c, args) }
	validator := func(_ workflow.Context, args contract.Command) error { return r.validate(c, args) }
	if err := workflow.SetUpdateHandlerWithOptions(ctx, c.name, update, workflow.UpdateHandlerOptions{Validator: validator}); err != nil {
		return err
	}
	signals := workflow.GetSignalChannel(ctx, c.name)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var args contract.Command
			if !signals.Receive(ctx, &args) {
				return
			}
			// A signal cannot be answered; what makes no sense is logged.
			if err := r.validate(c, args); err != nil {
				r.log.Warn("Ignored a signal", "signal", c.name, "by", args.By, "error", err)
			} else if _, err := r.obey(ctx, c, args); err != nil {
				r.log.Error("Could not carry out a signal", "signal", c.name, "by", args.By, "error", err)
			}
		}
	})
	return nil
}

// validate says why a command cannot be accepted. It must not change anything.
func (r *run) validate(c command, args contract.Command) error {
	if _, done := r.held.seen[args.ID]; done && args.ID != "" {
		return nil // acknowledged again
	}
	if r.status.Terminal() || r.held.stop != nil {
		return rejected("run %d has ended (%s); %s changes nothing any more", r.in.RunID, r.status, c.name)
	}
	if c.check == nil {
		return nil
	}
	return c.check(r, args)
}

// obey applies a command once and writes what happened.
func (r *run) obey(ctx workflow.Context, c command, args contract.Command) (contract.Ack, error) {
	if _, done := r.held.seen[args.ID]; done && args.ID != "" {
		return contract.Ack{Status: r.status, Message: c.name + " had been applied before"}, nil
	}
	r.held.seen[args.ID] = struct{}{}
	event, words := c.apply(r, ctx, args)
	// The record outlives a stop that this very command may have asked for.
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	ack := contract.Ack{Applied: true, Status: r.status, Message: words}
	if _, err := r.transition(last, contract.Record{Events: []contract.EventDraft{event}}); err != nil {
		return ack, err
	}
	return ack, nil
}

func rejected(format string, args ...any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf(format, args...), string(contract.ClassHuman), nil)
}

func (r *run) checkAnswer(c contract.Command) error {
	a := r.held.approval
	switch {
	case a == nil:
		return rejected("run %d waits for no approval; it is %s", r.in.RunID, r.status)
	case c.ApprovalID != "" && c.ApprovalID != a.id:
		return rejected("run %d waits for approval %s, not %s", r.in.RunID, a.id, c.ApprovalID)
	case a.answered():
		return rejected("approval %s has been answered", a.id)
	}
	return nil
}

func (r *run) applyApprove(_ workflow.Context, c contract.Command) (contract.EventDraft, string) {
	a := r.held.approval
	a.granted, a.by, a.reason, a.edited = true, c.By, c.Reason, c.PlanEdited
	return contract.EventDraft{Type: contract.EventApprovalGranted, Payload: a.payload()}, "approval " + a.id + " granted"
}

func (r *run) applyReject(_ workflow.Context, c contract.Command) (contract.EventDraft, string) {
	a := r.held.approval
	a.rejected, a.by, a.reason = true, c.By, c.Reason
	return contract.EventDraft{Type: contract.EventApprovalRejected, Payload: a.payload()}, "approval " + a.id + " rejected"
}

func (a *approval) payload() map[string]any {
	return map[string]any{"approval_id": a.id, "kind": a.kind, "by": a.by, "reason": a.reason}
}

func (r *run) checkPause(contract.Command) error {
	if r.held.paused {
		return rejected("run %d is paused already", r.in.RunID)
	}
	return nil
}

func (r *run) applyPause(ctx workflow.Context, c contract.Command) (contract.EventDraft, string) {
	r.pause(ctx, "paused by "+c.By)
	return contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.status, "by": c.By, "reason": c.Reason}},
		"paused; what is under way finishes, nothing new starts"
}

// pause holds the run and the agents that work for it.
func (r *run) pause(ctx workflow.Context, why string) {
	r.held.paused = true
	if err := r.hold(contract.StatusPaused, why); err != nil {
		r.log.Error("Could not pause", "error", err)
	}
	r.tellSteps(ctx, contract.UpdatePause, contract.Command{})
}

func (r *run) checkResume(contract.Command) error {
	if !r.held.paused {
		return rejected("run %d is not paused; it is %s", r.in.RunID, r.status)
	}
	return nil
}

func (r *run) applyResume(ctx workflow.Context, c contract.Command) (contract.EventDraft, string) {
	r.unpause(ctx)
	return contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.status, "by": c.By}}, "goes on"
}

func (r *run) unpause(ctx workflow.Context) {
	r.held.paused = false
	r.release()
	if a := r.held.approval; a != nil && !a.answered() {
		if err := r.hold(contract.StatusWaitingForApproval, a.kind); err != nil {
			r.log.Error("Could not wait on for the approval", "error", err)
		}
	}
	r.tellSteps(ctx, contract.UpdateResume, contract.Command{})
}

func (r *run) checkAdvance(contract.Command) error {
	if !r.held.paused {
		return rejected("run %d is %s and goes on by itself; advance moves a paused run to the next phase", r.in.RunID, r.status)
	}
	return nil
}

// applyAdvance lets a paused run go on as far as the next phase.
func (r *run) applyAdvance(ctx workflow.Context, c contract.Command) (contract.EventDraft, string) {
	r.held.oneStep = true
	r.unpause(ctx)
	return contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.status, "by": c.By, "advance": true}},
		"goes on until the next phase, then pauses again"
}

func (r *run) checkSwitchModel(c contract.Command) error {
	if c.Model == nil || c.Model.Provider == "" || c.Model.Model == "" {
		return rejected("switch_model needs a provider and a model")
	}
	if _, ok := r.models[c.Agent]; c.Agent != "" && !ok {
		return rejected("no agent is called %q", c.Agent)
	}
	return nil
}

func (r *run) applySwitchModel(ctx workflow.Context, c contract.Command) (contract.EventDraft, string) {
	next := map[contract.Agent]contract.ModelChoice{}
	for _, agent := range workflow.DeterministicKeys(r.models) {
		next[agent] = r.models[agent]
		if c.Agent == "" || c.Agent == agent {
			next[agent] = *c.Model
		}
	}
	r.models = next
	r.tellSteps(ctx, contract.UpdateSwitchModel, c)
	whom := "all agents"
	if c.Agent != "" {
		whom = "the " + string(c.Agent)
	}
	return contract.EventDraft{Type: contract.EventModelSwitched, Payload: map[string]any{"agent": c.Agent, "model": c.Model, "by": c.By}},
		fmt.Sprintf("%s use %s of %s from the next call on", whom, c.Model.Model, c.Model.Provider)
}

func (r *run) applyStop(_ workflow.Context, c contract.Command) (contract.EventDraft, string) {
	by := c.By
	if by == "" {
		by = "an unnamed service"
	}
	r.held.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "stopped by %s%s; partial results are kept", by, because(c.Reason)).Failure
	r.cancel()
	return contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{"stopping": true, "by": c.By, "reason": c.Reason}}, "is being stopped"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// tellSteps passes a command on to the steps that are under way.
func (r *run) tellSteps(ctx workflow.Context, name string, c contract.Command) {
	for _, s := range r.steps {
		if r.reachable[s.ID] {
			r.tellStep(ctx, s.ID, name, c)
		}
	}
}

func (r *run) tellStep(ctx workflow.Context, step, name string, c contract.Command) {
	id := contract.StepWorkflowID(r.in.RunID, step)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// A step that has just ended needs the command no more.
		if err := workflow.SignalExternalWorkflow(ctx, id, "", name, c).Get(ctx, nil); err != nil {
			r.log.Info("A step did not take a command", "step", id, "command", name, "error", err)
		}
	})
}

// ready waits until a phase may start: not paused, and approved where that was asked.
func (r *run) ready(ctx workflow.Context, p contract.Phase) *contract.Failure {
	if r.held.oneStep && p != contract.PhasePlanner {
		r.held.oneStep = false
		r.pause(ctx, "advanced as far as the "+string(p))
		event := contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.status}}
		if _, err := r.transition(ctx, contract.Record{Events: []contract.EventDraft{event}}); err != nil {
			return r.why(err)
		}
	}
	if failure := r.unheld(ctx); failure != nil {
		return failure
	}
	s := r.in.Settings
	switch {
	case p == contract.PhaseBuilder && s.ApprovePlan:
		return r.approvePlan(ctx)
	case p == contract.PhaseReleaser && s.ApproveRelease:
		return r.ask(ctx, "release")
	}
	return nil
}

// unheld waits while the run is paused.
func (r *run) unheld(ctx workflow.Context) *contract.Failure {
	if err := workflow.Await(ctx, func() bool { return !r.held.paused }); err != nil {
		return r.why(err)
	}
	return nil
}

// approvePlan waits for a person's yes to the plan, who may have edited it.
func (r *run) approvePlan(ctx workflow.Context) *contract.Failure {
	if failure := r.ask(ctx, "plan"); failure != nil {
		return failure
	}
	if !r.held.approval.edited {
		return nil
	}
	var result contract.PlanResult
	err := workflow.ExecuteLocalActivity(short(ctx), contract.ActivityAdoptPlan, contract.PlanInput{
		Execution: contract.ExecutionRef{RunID: r.in.RunID, Phase: contract.PhasePlanner},
	}).Get(ctx, &result)
	if err != nil {
		return r.why(err)
	}
	r.setPlan(result.Plan)
	return nil
}

// ask waits for a person's answer until the deadline. Silence is a no.
func (r *run) ask(ctx workflow.Context, kind string) *contract.Failure {
	wait := r.in.Settings.ApprovalWait
	a := &approval{id: fmt.Sprintf("run-%d/%s", r.in.RunID, kind), kind: kind}
	r.held.approval = a
	if err := r.hold(contract.StatusWaitingForApproval, kind); err != nil {
		return r.why(err)
	}
	until := workflow.Now(ctx).Add(wait)
	asked := contract.EventDraft{Type: contract.EventApprovalRequested, Payload: map[string]any{"approval_id": a.id, "kind": kind, "deadline": until}}
	if _, err := r.transition(ctx, contract.Record{
		Events: []contract.EventDraft{asked},
		Notes:  map[string]string{"id": a.id, "kind": kind, "status": "pending", "deadline": until.Format(time.RFC3339)},
	}); err != nil {
		return r.why(err)
	}
	answered, err := workflow.AwaitWithTimeout(ctx, wait, func() bool { return a.answered() && !r.held.paused })
	if err != nil {
		return r.why(err)
	}
	if !answered && !a.answered() {
		a.expired = true
	}
	if failure := r.unheld(ctx); failure != nil {
		return failure
	}
	return r.answered(ctx, a)
}

// answered takes note of an approval's answer.
func (r *run) answered(ctx workflow.Context, a *approval) *contract.Failure {
	r.release()
	status, failure := "granted", (*contract.Failure)(nil)
	var events []contract.EventDraft
	switch {
	case a.rejected:
		status = "rejected"
		failure = &fault.New(contract.ClassHuman, contract.CodeRejected, "%s rejected the %s%s", a.by, a.kind, because(a.reason)).Failure
	case a.expired:
		status = "expired"
		failure = &fault.New(contract.ClassHuman, contract.CodeApprovalExpired,
			"nobody approved the %s within %s (execution.approval.wait), which counts as a no", a.kind, r.in.Settings.ApprovalWait).Failure
		events = append(events, contract.EventDraft{Type: contract.EventApprovalExpired, Payload: a.payload()})
	}
	_, err := r.transition(ctx, contract.Record{Events: events, Notes: map[string]string{
		"id": a.id, "kind": a.kind, "status": status, "by": a.by, "reason": a.reason,
	}})
	if err != nil {
		return r.why(err)
	}
	return failure
}
