package run

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/flow"
)

// controls is what people asked of a run.
type controls struct {
	paused   bool
	oneStep  bool // advance: pause again at the next phase
	stop     *contract.Failure
	stopper  *contract.PipelineCommand // what a deliberation that plans the run is told of the stop; nil: nothing
	timedOut bool
	revision int64                         // Seq of the last orders that the steps were told
	approval *approval                     // the one that the run waits for
	edited   map[int64]contract.PlanResult // plans that people edited and are about to approve
	applied  map[string]struct{}           // ids of commands already applied
	changed  bool                          // a command was applied since the last phase began
	approved map[string]consent            // what was approved, by kind

	failingBaseAccepted bool // a person lets the run go on from a base commit that fails its checks
}

// consent is an approval that was given: to what, and by whom.
type consent struct{ subject, by string }

// approval is a question to a person. It fails closed: no answer is a no.
type approval struct {
	id       string
	kind     string              // plan, release, intervention, quota, environment
	action   contract.HealAction // heal: what to do
	granted  bool
	rejected bool
	expired  bool
	by       string
	reason   string
	planID   int64 // of the plan that was approved as a person edited it
}

func (a *approval) answered() bool { return a.granted || a.rejected || a.expired }

// command is one thing that a person or service can ask of a run, as an update
// and as a signal of the same name.
type command struct {
	name string
	// check says why the command makes no sense now; it changes nothing.
	check func(r *run, c contract.Command) error
	// prepare fetches what apply needs. It may take time, in which others may be
	// faster; it changes nothing that counts. Most commands need none.
	prepare func(r *run, ctx workflow.Context, c contract.Command) error
	// apply changes the state and returns what happened, as a record and as words.
	apply func(r *run, ctx workflow.Context, c contract.Command) (contract.Record, string)
}

// commands in a fixed order: registration must be the same at each replay.
var commands = []command{
	{contract.UpdateApprove, (*run).checkApprove, (*run).readEdited, (*run).applyApprove},
	{contract.UpdateReject, (*run).checkAnswer, nil, (*run).applyReject},
	{contract.UpdatePause, (*run).checkPause, nil, (*run).applyPause},
	{contract.UpdateResume, (*run).checkResume, nil, (*run).applyResume},
	{contract.UpdateSwitchModel, (*run).checkSwitchModel, nil, (*run).applySwitchModel},
	{contract.UpdateHeal, (*run).checkHeal, nil, (*run).applyHeal},
	{contract.UpdateStop, nil, nil, (*run).applyStop},
	{contract.UpdateAdvance, (*run).checkAdvance, nil, (*run).applyAdvance},
}

// handle registers queries, updates and signals.
func (r *run) handle(ctx workflow.Context) error {
	r.controls.applied, r.controls.edited, r.controls.approved = map[string]struct{}{}, map[int64]contract.PlanResult{}, map[string]consent{}
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
	for _, c := range commands {
		if err := r.handleCommand(ctx, c); err != nil {
			return err
		}
	}
	return r.handleChecks(ctx)
}

func (r *run) handleCommand(ctx workflow.Context, c command) error {
	update := func(ctx workflow.Context, args contract.Command) (contract.Ack, error) { return r.apply(ctx, c, args) }
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
			err := r.validate(c, args)
			if err == nil {
				_, err = r.apply(ctx, c, args)
			}
			if err != nil {
				r.refuse(ctx, c, args, err)
			}
		}
	})
	return nil
}

// refuse says why a signal had no effect. It cannot be answered, so that is an
// event of the run, as long as the run has any.
func (r *run) refuse(ctx workflow.Context, c command, args contract.Command, why error) {
	reason := fault.Of(why).Message
	r.log.Warn("Refused a signal", "signal", c.name, "by", args.By, "reason", reason)
	if r.Status.Terminal() && !r.Watch.On || r.controls.stop != nil {
		return
	}
	if _, err := r.transition(ctx, flow.EventRecord(contract.EventRunUpdated, map[string]any{"refused": c.name, "by": args.By, "reason": reason})); err != nil {
		r.log.Error("Could not record that a signal was refused", "signal", c.name, "error", err)
	}
}

// transcriptKeys says where the run's conversations lie, in the order of the phases
// and of the plan. Steps that never began have none.
func (r *run) transcriptKeys() []contract.TranscriptKey {
	keys := []contract.TranscriptKey{}
	if e := r.executions[string(contract.PhasePlanner)]; e.ID != 0 && !r.in.Settings.PlanGiven {
		keys = append(keys, contract.TranscriptKey{
			Phase: contract.PhasePlanner, Agent: contract.AgentPlanner, Attempt: e.Attempt, ExecutionID: e.ID, Turns: 1,
			Workflow: contract.RunWorkflowID(r.in.RunID),
		})
	}
	for _, s := range r.Steps {
		if s.Status == contract.StepPending {
			continue
		}
		keys = append(keys, contract.TranscriptKey{
			Phase: contract.PhaseBuilder, Step: s.ID, Agent: contract.AgentBuilder, Attempt: s.Attempt,
			ExecutionID: r.executions[s.ID].ID, Turns: s.Turns, Workflow: contract.StepWorkflowID(r.in.RunID, s.ID),
		})
	}
	return keys
}

// validate says why a command cannot be accepted. It must not change anything.
func (r *run) validate(c command, args contract.Command) error {
	if r.applied(args) {
		return nil // acknowledged again
	}
	if len(args.Reason) > flow.MaxReason {
		return flow.Rejected("the reason is %d bytes long, more than the %d allowed", len(args.Reason), flow.MaxReason)
	}
	if r.Watch.On && r.Status.Terminal() && r.controls.stop == nil {
		if c.name == contract.UpdateStop {
			return nil
		}
		return flow.Rejected("run %d is done and only stays with its branch; %s changes nothing, stop ends that", r.in.RunID, c.name)
	}
	if r.Status.Terminal() || r.controls.stop != nil {
		return flow.Rejected("run %d has ended (%s); %s changes nothing any more", r.in.RunID, r.Status, c.name)
	}
	if c.check == nil {
		return nil
	}
	return c.check(r, args)
}

// apply applies a command once and writes what happened.
func (r *run) apply(ctx workflow.Context, c command, args contract.Command) (contract.Ack, error) {
	if c.prepare != nil && !r.applied(args) {
		if err := c.prepare(r, ctx, args); err != nil {
			return contract.Ack{}, err
		}
		if err := r.validate(c, args); err != nil {
			return contract.Ack{}, flow.Rejected("somebody was faster: %s", fault.Of(err).Message)
		}
	}
	if r.applied(args) {
		return contract.Ack{Status: r.Status, Message: c.name + " had been applied before"}, nil
	}
	r.controls.applied[args.ID], r.controls.changed = struct{}{}, true
	what, words := c.apply(r, ctx, args)
	// The record outlives a stop that this very command may have asked for.
	last, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	ack := contract.Ack{Applied: true, Status: r.Status, Message: words}
	_, err := r.transition(last, what)
	return ack, err
}

// applied reports whether a command with this id has been applied.
func (r *run) applied(c contract.Command) bool {
	_, done := r.controls.applied[c.ID]
	return done && c.ID != ""
}

func (r *run) checkAnswer(c contract.Command) error {
	a := r.controls.approval
	switch {
	case a == nil:
		return flow.Rejected("run %d waits for no approval; it is %s", r.in.RunID, r.Status)
	case c.ApprovalID != "" && c.ApprovalID != a.id:
		return flow.Rejected("run %d waits for approval %s, not %s", r.in.RunID, a.id, c.ApprovalID)
	case a.answered():
		return flow.Rejected("approval %s has been answered", a.id)
	}
	return nil
}

func (r *run) checkApprove(c contract.Command) error {
	if err := r.checkAnswer(c); err != nil {
		return err
	}
	a := r.controls.approval
	switch {
	case c.PlanID != 0 && a.kind != contract.ApprovalPlan:
		return flow.Rejected("approval %s is about the %s; the plan cannot be edited any more", a.id, a.kind)
	case a.kind == contract.ApprovalRelease && r.protected.Total > 0 && contract.Nameless(c.By):
		return flow.Rejected("approval %s is about protected files (%s), which only a person with a name can approve", a.id, r.protected.Words())
	}
	return nil
}

// readEdited reads the plan that a person edited and wants approved. It counts
// once the approval is accepted: of two people who answer at the same time one
// is told that the other was faster, and that one's plan changes nothing.
func (r *run) readEdited(ctx workflow.Context, c contract.Command) error {
	if c.PlanID == 0 {
		return nil
	}
	plan, err := r.adopt(ctx, c.PlanID)
	if err != nil {
		return flow.Rejected("plan %d cannot be approved: %s", c.PlanID, fault.Of(err).Message)
	}
	r.controls.edited[c.PlanID] = plan
	return nil
}

func (r *run) applyApprove(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	a.granted, a.by, a.reason, a.planID = true, c.By, c.Reason, c.PlanID
	if c.PlanID != 0 {
		r.SetPlan(c.PlanID, r.controls.edited[c.PlanID].Plan)
	}
	return r.answer(contract.EventApprovalGranted, "granted"), "approval " + a.id + " granted"
}

func (r *run) applyReject(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	a.rejected, a.by, a.reason = true, c.By, c.Reason
	rec := r.answer(contract.EventApprovalRejected, "rejected")
	if a.kind == contract.ApprovalPlan || a.kind == contract.ApprovalRelease {
		r.addNoApproval(&rec, a)
	}
	return rec, "approval " + a.id + " rejected"
}

// addNoApproval adds to a record what people find afterwards of an approval that was
// not given: why the run ended, and what they can do next.
func (r *run) addNoApproval(rec *contract.Record, a *approval) {
	r.heals.questions++
	note := contract.InterventionNote{
		Number: r.heals.questions, Status: "resolved", Phase: r.Phase, Reason: r.noApproval(a).Message, ActionRequired: r.adviceAfterNo(a.kind),
		By: a.by, Answer: "give_up", Words: a.reason,
	}
	kind := contract.EventInterventionResolved
	if a.expired {
		note.Status, kind = "expired", contract.EventInterventionExpired
	}
	rec.Interventions = append(rec.Interventions, note)
	rec.Events = append(rec.Events, contract.EventDraft{Type: kind, Payload: map[string]any{
		"intervention_id": contract.InterventionID(r.in.RunID, note.Number), "kind": a.kind, "approval_id": a.id, "phase": note.Phase,
		"reason": note.Reason, "action_required": note.ActionRequired, "by": a.by, "answer": note.Answer,
	}})
}

// noApproval is the failure that an approval ends its run with.
func (r *run) noApproval(a *approval) *contract.Failure {
	if a.rejected {
		return &fault.New(contract.ClassHuman, contract.CodeRejected, "%s rejected the %s%s", a.by, a.kind, flow.Because(a.reason)).Failure
	}
	return &fault.New(contract.ClassHuman, contract.CodeApprovalExpired,
		"nobody approved the %s within %s (execution.approval.wait), which counts as a no", a.kind, r.in.Settings.ApprovalWait).Failure
}

// adviceAfterNo says what people can do with a run that was not approved.
func (r *run) adviceAfterNo(kind string) string {
	if kind == contract.ApprovalPlan {
		return fmt.Sprintf("to be asked again, about a plan made anew: rgpt run resume %d; for another goal or a plan of your own start a new run", r.in.RunID)
	}
	return fmt.Sprintf("to be asked again, after another test: rgpt run resume %d; to build or plan anew: rgpt run replay %d --phase builder, or planner",
		r.in.RunID, r.in.RunID)
}

func (r *run) checkHeal(c contract.Command) error {
	if a := r.controls.approval; a == nil || a.answered() || a.kind != kindIntervention {
		return flow.Rejected("run %d asks for no help; it is %s and heals itself", r.in.RunID, r.Status)
	}
	if c.Action != "" && !c.Action.Valid() {
		return flow.Rejected("no heal action is called %q", c.Action)
	}
	return r.checkAnswer(c)
}

// applyHeal answers a request for help with what is to be done.
func (r *run) applyHeal(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	a.granted, a.by, a.reason, a.action = true, c.By, c.Reason, c.Action
	return r.answer(contract.EventApprovalGranted, "granted"), "is being healed"
}

// answer ends the wait for the open approval, unless the run is paused as well,
// and returns what is to be written of it.
func (r *run) answer(event contract.EventType, status string) contract.Record {
	a := r.controls.approval
	if !r.controls.paused {
		r.EndInterruption()
	}
	if a.kind == kindIntervention || a.kind == kindQuota || a.kind == kindEnvironment {
		// What it came to is written by whoever asked.
		return flow.EventRecord(contract.EventRunUpdated, map[string]any{"answered": a.id, "by": a.by, "reason": a.reason})
	}
	rec := flow.EventRecord(event, a.payload())
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": status, "by": a.by, "reason": a.reason}
	return rec
}

func (a *approval) payload() map[string]any {
	out := map[string]any{"approval_id": a.id, "kind": a.kind, "by": a.by, "reason": a.reason}
	if a.planID != 0 {
		out["plan_id"] = a.planID
	}
	return out
}

func (r *run) checkPause(contract.Command) error {
	if r.controls.paused {
		return flow.Rejected("run %d is paused already", r.in.RunID)
	}
	return nil
}

func (r *run) applyPause(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	r.pause(ctx, "paused by "+c.By)
	return flow.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status, "by": c.By, "reason": c.Reason}),
		"paused; what is under way finishes, nothing new starts"
}

// pause holds the run and the agents that work for it.
func (r *run) pause(ctx workflow.Context, why string) {
	r.controls.paused = true
	if err := r.Interrupt(contract.StatusPaused, why); err != nil {
		r.log.Error("Could not pause", "error", err)
	}
	r.notifyAgents(ctx)
}

func (r *run) checkResume(contract.Command) error {
	if !r.controls.paused {
		return flow.Rejected("run %d is not paused; it is %s", r.in.RunID, r.Status)
	}
	return nil
}

func (r *run) applyResume(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	r.unpause(ctx)
	return flow.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status, "by": c.By}), "goes on"
}

func (r *run) unpause(ctx workflow.Context) {
	r.controls.paused = false
	r.EndInterruption()
	if a := r.controls.approval; a != nil && !a.answered() {
		if err := r.Interrupt(contract.StatusWaitingForApproval, a.kind); err != nil {
			r.log.Error("Could not wait on for the approval", "error", err)
		}
	}
	r.notifyAgents(ctx)
}

func (r *run) checkAdvance(contract.Command) error {
	if !r.controls.paused {
		return flow.Rejected("run %d is %s and goes on by itself; advance moves a paused run to the next phase", r.in.RunID, r.Status)
	}
	return nil
}

// applyAdvance lets a paused run go on as far as the next phase.
func (r *run) applyAdvance(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	r.controls.oneStep = true
	r.unpause(ctx)
	return flow.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status, "by": c.By, "advance": true}),
		"goes on until the next phase, then pauses again"
}

func (r *run) checkSwitchModel(c contract.Command) error {
	if c.Model == nil || c.Model.Provider == "" || c.Model.Model == "" {
		return flow.Rejected("switch_model needs a provider and a model")
	}
	if known := r.providers(); !slices.Contains(known, c.Model.Provider) {
		return flow.Rejected("run %d has no model provider %q; it was started with %s", r.in.RunID, c.Model.Provider, flow.ListFew(known))
	}
	_, known := r.Models[c.Agent]
	switch isMember := slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == c.Agent }); {
	case c.Agent == "", known:
		return nil
	case !isMember:
		return flow.Rejected("no agent is called %q", fault.Clip(string(c.Agent), flow.MaxName))
	case !r.deliberates(c.Agent):
		return flow.Rejected("nobody deliberates about the plan of run %d (plan_by planner), so %s is never asked; switch the planner's model instead", r.in.RunID, c.Agent)
	case r.consensus != nil:
		return flow.Rejected("the deliberation about the plan of run %d is over (pipeline %d), so %s is not asked any more; to deliberate anew: rgpt run replay %d --phase planner",
			r.in.RunID, r.consensus.PipelineID, c.Agent, r.in.RunID)
	}
	return nil
}

// providers names the providers that the run was started with: those that are
// configured, and that its models use anyway.
func (r *run) providers() []string {
	known := slices.Clone(r.in.Settings.Providers)
	for _, agent := range workflow.DeterministicKeys(r.Models) {
		known = append(known, r.Models[agent].Provider)
	}
	slices.Sort(known)
	return slices.Compact(known)
}

func (r *run) applySwitchModel(ctx workflow.Context, c contract.Command) (contract.Record, string) {
	for _, agent := range workflow.DeterministicKeys(r.Models) {
		if c.Agent == "" || c.Agent == agent {
			r.setModel(agent, *c.Model)
		}
	}
	for _, m := range contract.Members() {
		if r.deliberates(m.Agent()) && (c.Agent == "" || c.Agent == m.Agent()) {
			r.switched[m.Agent()] = *c.Model
		}
	}
	r.notifyAgents(ctx)
	r.syncDeliberationModels(ctx)
	whom := "all agents"
	if c.Agent != "" {
		whom = "the " + string(c.Agent)
	}
	return flow.EventRecord(contract.EventModelSwitched, map[string]any{"agent": c.Agent, "model": c.Model, "by": c.By}),
		fmt.Sprintf("%s use %s of %s from the next call on", whom, c.Model.Model, c.Model.Provider)
}

func (r *run) applyStop(_ workflow.Context, c contract.Command) (contract.Record, string) {
	by := c.By
	if by == "" {
		by = "an unnamed service"
	}
	r.controls.stop = &fault.New(contract.ClassHuman, contract.CodeCancelled, "stopped by %s%s; partial results are kept", by, flow.Because(c.Reason)).Failure
	r.controls.stopper = &contract.PipelineCommand{ID: c.ID, By: by, Reason: c.Reason}
	r.cancel()
	return flow.EventRecord(contract.EventRunUpdated, map[string]any{"stopping": true, "by": c.By, "reason": c.Reason}), "is being stopped"
}

// notifyAgents tells the steps and the heal that are under way how things are to
// be from now on.
func (r *run) notifyAgents(ctx workflow.Context) {
	r.controls.revision++
	r.notifyHeal(ctx)
	for _, s := range r.Steps {
		if r.reachable[s.ID] {
			r.notifyStep(ctx, s.ID)
		}
	}
}

func (r *run) notifyStep(ctx workflow.Context, step string) {
	r.notify(ctx, contract.StepWorkflowID(r.in.RunID, step), contract.AgentBuilder)
}

// notifyHeal tells a heal that is under way, which passes it on to the Repair agent.
func (r *run) notifyHeal(ctx workflow.Context) {
	if n := r.heals.underWay; n > 0 {
		r.notify(ctx, contract.HealWorkflowID(r.in.RunID, n), contract.AgentRepair)
	}
}

// instructionsFor says how things are to be from now on for an agent.
func (r *run) instructionsFor(agent contract.Agent) contract.Orders {
	return contract.Orders{Seq: r.controls.revision, Paused: r.controls.paused, Model: r.Models[agent]}
}

func (r *run) notify(ctx workflow.Context, id string, agent contract.Agent) {
	orders := r.instructionsFor(agent)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// What has just ended needs no orders any more.
		if err := workflow.SignalExternalWorkflow(ctx, id, "", contract.SignalOrders, orders).Get(ctx, nil); err != nil {
			r.log.Info("A child did not take its orders", "workflow", id, "error", err)
		}
	})
}

// awaitStart waits until a phase may start: not paused, and approved where that was asked.
func (r *run) awaitStart(ctx workflow.Context, p contract.Phase) *contract.Failure {
	if r.controls.oneStep && p != contract.PhasePlanner {
		r.controls.oneStep = false
		r.pause(ctx, "advanced as far as the "+string(p))
		if _, err := r.transition(ctx, flow.EventRecord(contract.EventRunUpdated, map[string]any{"status": r.Status})); err != nil {
			return r.failureOf(err)
		}
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	s := r.in.Settings
	switch {
	case p == contract.PhaseBuilder && s.ApprovePlan && !r.hasApproval(contract.ApprovalPlan):
		return r.ask(ctx, contract.ApprovalPlan)
	case p == contract.PhaseReleaser && (s.ApproveRelease || r.protected.Total > 0) && !r.hasApproval(contract.ApprovalRelease):
		return r.ask(ctx, contract.ApprovalRelease)
	}
	return nil
}

// hasApproval reports whether a person has approved just this before: a phase
// that is healed and runs again asks again only for what has changed.
func (r *run) hasApproval(kind string) bool {
	return r.controls.approved[kind].subject == r.subject(kind)
}

// approverOf names the person who approved just this, "" where nobody did.
func (r *run) approverOf(kind string) string {
	if !r.hasApproval(kind) {
		return ""
	}
	return r.controls.approved[kind].by
}

// subject names what an approval is about: the plan, or the tree to release.
func (r *run) subject(kind string) string {
	if kind == contract.ApprovalPlan {
		return fmt.Sprint("plan ", r.PlanID)
	}
	return "tree " + r.workspace.Tree
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

// ask waits for a person's answer until the deadline. Silence is a no.
func (r *run) ask(ctx workflow.Context, kind string) *contract.Failure {
	wait := r.in.Settings.ApprovalWait
	a := &approval{id: fmt.Sprintf("run-%d/%s", r.in.RunID, kind), kind: kind}
	r.controls.approval = a
	if err := r.Interrupt(contract.StatusWaitingForApproval, kind); err != nil {
		return r.failureOf(err)
	}
	until := workflow.Now(ctx).Add(wait)
	payload := map[string]any{"approval_id": a.id, "kind": kind, "deadline": until}
	notes := map[string]string{"id": a.id, "kind": kind, "status": "pending", "deadline": until.Format(time.RFC3339)}
	if kind == contract.ApprovalRelease && r.protected.Total > 0 {
		notes["reason"] = "protected files would be pushed: " + r.protected.Words()
		payload["reason"], payload["protected"] = notes["reason"], r.protected
	}
	if _, err := r.transition(ctx, contract.Record{
		Events: []contract.EventDraft{{Type: contract.EventApprovalRequested, Payload: payload}}, Notes: notes,
	}); err != nil {
		return r.failureOf(err)
	}
	if err := r.awaitAnswer(ctx, a, wait, flow.EventRecord(contract.EventApprovalReminded, payload)); err != nil {
		return r.failureOf(err)
	}
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return failure
	}
	r.controls.approval = nil
	return r.verdict(ctx, a)
}

// verdict says what an approval's answer means for the run. A yes and a no were
// written when they came; silence is written now.
func (r *run) verdict(ctx workflow.Context, a *approval) *contract.Failure {
	r.EndInterruption()
	switch {
	case a.rejected:
		return r.noApproval(a)
	case a.granted:
		r.controls.approved[a.kind] = consent{r.subject(a.kind), a.by}
		return nil
	}
	rec := flow.EventRecord(contract.EventApprovalExpired, a.payload())
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": "expired"}
	r.addNoApproval(&rec, a)
	if _, err := r.transition(ctx, rec); err != nil {
		return r.failureOf(err)
	}
	return r.noApproval(a)
}
