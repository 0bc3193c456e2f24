package run

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// question is a request to a person: to approve a run's plan or release, or to help with a problem.
type question struct {
	kind  string // contract.ApprovalPlan, …; contract.InterventionHelp, …
	phase contract.Phase
	wait  time.Duration
	// problem is the subject of an intervention; nil for an approval.
	problem *contract.Question
	// input is a question of the planner; nil for all others.
	input *contract.PlannerQuestion
	// optional lets the run continue if nobody answers. For every other question no answer
	// means no.
	optional bool
}

// approval is a question that was asked, and its answer.
type approval struct {
	id        string
	kind      string
	subject   string              // of an approval, when it was asked for
	action    contract.HealAction // for help: the action to take
	granted   bool
	rejected  bool
	expired   bool
	withdrawn bool
	found     moves // by the look at the branch, if people pushed to it meanwhile
	by        string
	reason    string
	planID    int64 // the plan that was approved as a person edited it

	input  *contract.PlannerQuestion // of the planner
	option string                    // that was chosen for it
}

func (a *approval) answered() bool { return a.granted || a.rejected || a.expired }

// intervention reports whether the question asks for help rather than approval.
func (a *approval) intervention() bool {
	return a.kind == contract.InterventionHelp || a.kind == contract.InterventionQuota || a.kind == contract.InterventionEnvironment
}

// outcome says how an approval was answered, and its author.
func (a *approval) outcome() string {
	answer := "granted"
	if a.rejected {
		answer = "rejected"
	}
	return fmt.Sprintf("approval %s has already been %s by %s", a.id, answer, cmp.Or(a.by, "an unnamed service"))
}

// payload returns the event payload for an approval's answer.
func (a *approval) payload() map[string]any {
	out := map[string]any{"approval_id": a.id, "kind": a.kind, "by": a.by, "reason": a.reason}
	if a.planID != 0 {
		out["plan_id"] = a.planID
	}
	return out
}

// ask asks a person and waits for the answer, or until the time limit. Meanwhile the run's status
// is waiting_for_approval or waiting_for_input. A paused run keeps waiting until it is resumed.
func (r *run) ask(ctx workflow.Context, q question) (*approval, *contract.Failure) {
	w := &waiting{q: q, plan: r.remindersOf(q)}
	var err error
	w.approval, w.event, err = r.open(ctx, q, w.plan)
	if err == nil {
		w.since = workflow.Now(ctx)
		err = r.awaitAnswer(ctx, w)
	}
	for err == nil && r.outOfDate(w.approval) {
		if w.kind == contract.InterventionHelp {
			err = r.pushedWhileAsked(ctx, w.approval)
		} else if failure := r.judgeAsked(ctx, w.approval); failure != nil {
			return nil, failure
		}
		if err != nil || w.withdrawn {
			break
		}
		w.waited = workflow.Now(ctx).Sub(w.since)
		err = r.awaitAnswer(ctx, w)
	}
	if err != nil {
		return nil, r.failureOf(err)
	}
	a := w.approval
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return nil, failure
	}
	r.EndInterruption()
	return a, nil
}

// open records a question with its planned reminders. It returns what the events of the reminders say
// besides.
func (r *run) open(ctx workflow.Context, q question, plan []reminder) (*approval, map[string]any, error) {
	now := workflow.Now(ctx)
	until := now.Add(q.wait)
	var asked contract.Record
	var payload map[string]any
	a := &approval{kind: q.kind, input: q.input}
	switch {
	case q.input != nil:
		a.id = contract.InputID(r.in.RunID)
		var err error
		if asked, payload, err = r.inputRecord(*q.input, until); err != nil {
			return a, payload, err
		}
	case q.problem == nil:
		a.id = fmt.Sprintf("run-%d/%s", r.in.RunID, q.kind)
		asked, payload = r.approvalRecord(a, until)
	default:
		r.Heals.Questions++
		a.id = contract.InterventionID(r.in.RunID, r.Heals.Questions)
		reason, action := q.problem.Reason, q.problem.ActionRequired
		payload = map[string]any{"intervention_id": a.id, "kind": q.kind, "phase": q.phase, "reason": reason, "action_required": action, "deadline": until}
		asked = records.EventRecord(contract.EventInterventionRequested, payload)
		asked.Interventions = []contract.InterventionNote{{
			Number: r.Heals.Questions, Status: "open", Phase: q.phase, Reason: reason, ActionRequired: action, Deadline: &until,
		}}
	}
	asked.Events[0].Payload = withReminders(payload, now, plan)
	r.controls.approval = a
	if err := r.Interrupt(a.status(), q.kind); err != nil {
		return a, payload, err
	}
	_, err := r.transition(ctx, asked)
	return a, payload, err
}

// approvalRecord returns the record of a request for an approval, and the content of its event.
func (r *run) approvalRecord(a *approval, until time.Time) (contract.Record, map[string]any) {
	a.subject = r.subject(a.kind)
	payload := map[string]any{"approval_id": a.id, "kind": a.kind, "deadline": until}
	notes := map[string]string{"id": a.id, "kind": a.kind, "status": "pending", "deadline": until.Format(time.RFC3339), "subject": a.subject}
	if reason := r.releaseReason(); a.kind == contract.ApprovalRelease && reason != "" {
		notes["reason"], payload["reason"] = reason, reason
		if r.Protected.Total > 0 {
			payload["protected"] = r.Protected
		}
		if r.Gate.ID != 0 {
			payload["verdict_id"], payload["subject"] = r.Gate.ID, r.Gate.Subject
		}
	}
	if a.kind == contract.ApprovalRelease && r.Gate.ID != 0 {
		notes["verdict"] = fmt.Sprint(r.Gate.ID)
	}
	if a.kind == contract.ApprovalRelease && r.needsOther() {
		payload["approver"], payload["authors"] = contract.ApproverNotAuthor, r.Authors
	}
	asked := records.EventRecord(contract.EventApprovalRequested, payload)
	asked.Notes = notes
	return asked, payload
}

// askApproval asks a person to approve the plan or the release. If it is not approved, askApproval
// returns the failure that the run ends with. A question that is withdrawn leaves the approval open.
func (r *run) askApproval(ctx workflow.Context, kind string) *contract.Failure {
	a, failure := r.ask(ctx, question{kind: kind, phase: r.Phase, wait: r.in.Settings.ApprovalWait})
	if failure != nil {
		return failure
	}
	r.controls.approval = nil
	switch {
	case a.withdrawn:
		return nil
	case a.rejected: // recorded when the answer was received, like an approval
		return r.notApproved(a)
	case a.granted:
		r.relabels = 0
		r.Approved[a.kind] = state.Consent{Subject: r.subject(a.kind), By: a.by, Verdict: r.verdictOf(a.kind)}
		return nil
	}
	rec := records.EventRecord(contract.EventApprovalExpired, a.payload())
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": "expired"}
	r.addNotApproved(&rec, a)
	if _, err := r.transition(ctx, rec); err != nil {
		return r.failureOf(err)
	}
	return r.notApproved(a)
}

// hasApproval reports whether a person has already approved this very plan or tree: a phase that
// runs again after a heal asks again only if it has changed, or if other guards or policies have made
// another verdict about it.
func (r *run) hasApproval(kind string) bool {
	given := r.Approved[kind]
	if r.atOnce && given.Verdict != 0 && given.Verdict != r.verdictOf(kind) {
		return false
	}
	return given.Subject == r.subject(kind)
}

// verdictOf returns the gate's verdict that an approval is about, 0 for none.
func (r *run) verdictOf(kind string) int64 {
	if kind != contract.ApprovalRelease {
		return 0
	}
	return r.Gate.ID
}

// approverOf returns the person who approved this very plan or tree, "" if nobody did.
func (r *run) approverOf(kind string) string {
	if !r.hasApproval(kind) {
		return ""
	}
	return r.Approved[kind].By
}

// subject returns what an approval is about: the plan, or what is to be released.
func (r *run) subject(kind string) string {
	if kind == contract.ApprovalPlan {
		return fmt.Sprint("plan ", r.PlanID)
	}
	if r.Gate.Subject != "" {
		return r.Gate.Subject
	}
	return "tree " + r.Workspace.Tree
}

// addNotApproved adds an explanation to a record after an approval was refused or expired: why the
// run ended, and what people can do next.
func (r *run) addNotApproved(rec *contract.Record, a *approval) {
	r.Heals.Questions++
	note, kind := r.resolution(a)
	note.Phase, note.Reason, note.ActionRequired, note.Answer = r.Phase, r.notApproved(a).Message, r.adviceNotApproved(a.kind), answerGiveUp
	rec.Interventions = append(rec.Interventions, note)
	rec.Events = append(rec.Events, contract.EventDraft{Type: kind, Payload: map[string]any{
		"intervention_id": contract.InterventionID(r.in.RunID, note.Number), "kind": a.kind, "approval_id": a.id, "phase": note.Phase,
		"reason": note.Reason, "action_required": note.ActionRequired, "by": a.by, "answer": note.Answer,
	}})
}

// notApproved returns the failure of a run whose plan or release was not approved.
func (r *run) notApproved(a *approval) *contract.Failure {
	if a.rejected {
		return &fault.New(contract.ClassHuman, contract.CodeRejected, "%s rejected the %s%s", a.by, a.kind, commands.Because(a.reason)).Failure
	}
	return &fault.New(contract.ClassHuman, contract.CodeApprovalExpired,
		"the %s was not approved within %s (execution.approval.wait), which counts as a rejection", a.kind, r.in.Settings.ApprovalWait).Failure
}

// adviceNotApproved returns the next steps for a run that was not approved.
func (r *run) adviceNotApproved(kind string) string {
	if kind == contract.ApprovalPlan {
		return fmt.Sprintf("to get a new plan to approve: rgpt run resume %d; for a different goal or your own plan, start a new run", r.in.RunID)
	}
	return fmt.Sprintf("to test again and request approval again: rgpt run resume %d; to build or plan again: rgpt run replay %d --phase builder (or planner)",
		r.in.RunID, r.in.RunID)
}

// The results of an intervention.
const (
	answerRetry  = "retry"
	answerGiveUp = "give_up"
)

// resolution returns an intervention's answer as rows and events show it.
func (r *run) resolution(a *approval) (contract.InterventionNote, contract.EventType) {
	note := contract.InterventionNote{Number: r.Heals.Questions, Status: "resolved", By: a.by, Answer: answerRetry, Words: a.reason}
	switch {
	case a.rejected:
		note.Answer = answerGiveUp
	case a.withdrawn:
		note.Answer = "" // the words say what was pushed
	case a.expired:
		note.Status, note.Answer = "expired", answerGiveUp
		return note, contract.EventInterventionExpired
	}
	return note, contract.EventInterventionResolved
}

// resolved returns the event of an intervention that was answered or expired.
func (a *approval) resolved(kind contract.EventType, note contract.InterventionNote) contract.EventDraft {
	return contract.EventDraft{Type: kind, Payload: map[string]any{"intervention_id": a.id, "by": note.By, "answer": note.Answer, "reason": a.reason}}
}

// notHelped returns the failure of a problem that no one helped with, nil if someone did.
func (r *run) notHelped(a *approval, class contract.Class, code contract.Code, problem string) *contract.Failure {
	switch {
	case a.rejected:
		return &contract.Failure{Class: class, Code: code, Message: fmt.Sprintf("%s gave up%s: %s", a.by, commands.Because(a.reason), problem)}
	case a.expired:
		return &contract.Failure{Class: class, Code: code, Message: fmt.Sprintf(
			"no answer was received within %s (execution.intervention.wait): %s", r.in.Settings.InterventionWait, problem)}
	}
	return nil
}

// intervene asks a person for help with a failure. It returns the answer, or the
// failure that the run ends with.
func (r *run) intervene(ctx workflow.Context, p contract.Phase, d contract.Directive) (*approval, *contract.Failure) {
	a, failure := r.ask(ctx, question{kind: contract.InterventionHelp, phase: p, wait: r.in.Settings.InterventionWait, problem: d.Ask})
	if failure != nil {
		return nil, failure
	}
	note, kind := r.resolution(a)
	rec := contract.Record{Events: []contract.EventDraft{a.resolved(kind, note)}, Interventions: []contract.InterventionNote{note}}
	heal := contract.HealNote{Number: d.Number, Status: contract.HealApplied, ErrorType: d.Class, Action: d.Action, Output: contract.HealOutput{Words: a.reason, Message: a.by + " asked for another attempt"}}
	if a.withdrawn {
		heal.Output = contract.HealOutput{Message: a.reason}
	}
	if failure = r.notHelped(a, d.Class, d.Code, d.Ask.Reason); failure != nil {
		r.Heals.Open = nil
		heal.Status, heal.Output.Message = contract.HealFailed, "no answer was received in time"
		if a.rejected {
			heal.Output.Message = a.by + " gave up"
		}
		rec.Events = append(rec.Events, records.HealEvent(contract.EventHealFailed, d, heal.Output.Message))
	}
	rec.Heals = []contract.HealNote{heal}
	if _, err := r.transition(ctx, rec); err != nil {
		return a, r.failureOf(err)
	}
	return a, failure
}

// waitForQuota waits on a durable timer until a limit's window ends. A person can end
// the wait with an approval, or end the run with a rejection.
func (r *run) waitForQuota(ctx workflow.Context, p contract.Phase, d contract.Directive) *contract.Failure {
	a, failure := r.ask(ctx, question{kind: contract.InterventionQuota, phase: p, wait: d.Wait, optional: true, problem: &contract.Question{
		Reason:         "waits for the limit to reset: " + d.Reason,
		ActionRequired: "none: the run continues at the deadline; approve to continue now, or reject to give up",
	}})
	if failure != nil {
		return failure
	}
	note, _ := r.resolution(a)
	if a.expired {
		note.Status, note.Answer, note.By = "resolved", answerRetry, "the clock"
	}
	rec := contract.Record{Interventions: []contract.InterventionNote{note}, Events: []contract.EventDraft{a.resolved(contract.EventInterventionResolved, note)}}
	if a.rejected {
		r.Heals.Open = nil
		result := a.by + " chose not to wait"
		rec.Heals = append(rec.Heals, contract.HealNote{
			Number: d.Number, Status: contract.HealFailed, ErrorType: d.Class, Action: d.Action, Output: contract.HealOutput{Result: result},
		})
		rec.Events = append(rec.Events, records.HealEvent(contract.EventHealFailed, d, result))
		failure = &fault.New(contract.ClassInfra, contract.CodeQuotaExhausted, "%s chose not to wait for the provider's limit to reset%s", a.by, commands.Because(a.reason)).Failure
	}
	if _, err := r.transition(ctx, rec); err != nil {
		return r.failureOf(err)
	}
	return failure
}

// checkAnswer returns why an answer cannot be accepted now.
func (r *run) checkAnswer(c contract.Command) error {
	a := r.controls.approval
	switch {
	case a == nil && r.controls.last != nil && (c.ApprovalID == "" || c.ApprovalID == r.controls.last.id):
		return commands.Rejected("run %d is not waiting for an approval (its status is %s); %s", r.in.RunID, r.Status, r.controls.last.outcome())
	case a == nil:
		return commands.Rejected("run %d is not waiting for an approval; its status is %s", r.in.RunID, r.Status)
	case c.ApprovalID != "" && c.ApprovalID != a.id:
		return commands.Rejected("run %d is waiting for approval %s, not %s", r.in.RunID, a.id, c.ApprovalID)
	case a.answered():
		return commands.Rejected("%s", a.outcome())
	case a.input != nil:
		return commands.Rejected("run %d asks a question that needs one of %d options: rgpt run answer %d OPTION", r.in.RunID, len(a.input.Options), r.in.RunID)
	}
	return nil
}

// otherSubject returns the error of an answer that is about another subject than the one that a person is
// asked about now.
func (r *run) otherSubject(c contract.Command, now string) error {
	a := r.controls.approval
	if c.Subject == "" || a.intervention() || c.Subject == now {
		return nil
	}
	return commands.Rejected("approval %s is about %s now, not %s; look at it again (rgpt run inspect %d)", a.id, now, c.Subject, r.in.RunID)
}

// checkReject accepts a rejection of what the person was asked about, also while it is judged again.
func (r *run) checkReject(c contract.Command) error {
	if err := r.checkAnswer(c); err != nil {
		return err
	}
	return r.otherSubject(c, r.controls.approval.subject)
}

func (r *run) checkApprove(c contract.Command) error {
	if err := r.checkAnswer(c); err != nil {
		return err
	}
	a := r.controls.approval
	if err := r.otherSubject(c, r.subject(a.kind)); err != nil {
		return err
	}
	switch {
	case c.PlanID != 0 && a.kind != contract.ApprovalPlan:
		return commands.Rejected("approval %s is for the %s; the plan can no longer be edited", a.id, a.kind)
	case a.kind == contract.ApprovalRelease && r.atOnce && (r.mustJudge() || r.judging):
		return commands.Rejected("the labels of run %d were changed, so its release is judged again; look at the verdict (rgpt run inspect %d), then answer",
			r.in.RunID, r.in.RunID)
	case a.kind == contract.ApprovalRelease && contract.Nameless(c.By):
		if _, named := r.needsRelease(); named {
			return commands.Rejected("approval %s needs a named person (%s)", a.id, r.releaseReason())
		}
	case a.kind == contract.ApprovalRelease && r.needsOther() && r.Authored(c.By):
		return commands.Rejected("approval %s needs a person who is not an author of the change; %s created the run, or steered or edited its change (authors: %s)",
			a.id, c.By, commands.ListFew(r.Authors))
	}
	return nil
}

// readEdited reads the plan that a person edited and wants to approve. It takes effect once the
// approval is accepted: if two people answer at the same time, the second is refused and its plan
// has no effect.
func (r *run) readEdited(ctx workflow.Context, c contract.Command) error {
	if c.PlanID == 0 {
		return nil
	}
	plan, err := r.adopt(ctx, c.PlanID)
	if err != nil {
		return commands.Rejected("plan %d cannot be approved: %s", c.PlanID, fault.Of(err).Message)
	}
	r.controls.edited[c.PlanID] = plan
	return nil
}

func (r *run) applyApprove(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	a.granted, a.by, a.reason, a.planID = true, c.By, c.Reason, c.PlanID
	if c.PlanID != 0 || a.intervention() && c.Reason != "" { // instructions for the agents
		r.AddAuthor(c.By)
	}
	if c.PlanID != 0 {
		r.SetPlan(c.PlanID, r.controls.edited[c.PlanID].Plan)
		r.Planning.Prompt = "" // a person made this plan
	}
	return r.answer(contract.EventApprovalGranted, "granted"), "approval " + a.id + " granted"
}

func (r *run) applyReject(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	a.rejected, a.by, a.reason = true, c.By, c.Reason
	rec := r.answer(contract.EventApprovalRejected, "rejected")
	if !a.intervention() {
		r.addNotApproved(&rec, a)
	}
	return rec, "approval " + a.id + " rejected"
}

func (r *run) checkHeal(c contract.Command) error {
	if a := r.controls.approval; a == nil || a.answered() || a.kind != contract.InterventionHelp {
		return commands.Rejected("run %d is not waiting for an intervention; its status is %s", r.in.RunID, r.Status)
	}
	if c.Action != "" && !c.Action.Valid() {
		return commands.Rejected("unknown heal action %q", c.Action)
	}
	return r.checkAnswer(c)
}

// applyHeal answers a request for help with the action to take.
func (r *run) applyHeal(_ workflow.Context, c contract.Command) (contract.Record, string) {
	a := r.controls.approval
	a.granted, a.by, a.reason, a.action = true, c.By, c.Reason, c.Action
	if c.Reason != "" {
		r.AddAuthor(c.By)
	}
	return r.answer(contract.EventApprovalGranted, "granted"), "is being healed"
}

// answer ends the wait for the open question, unless the run is also paused, and
// returns the record of the answer.
func (r *run) answer(event contract.EventType, status string) contract.Record {
	a := r.controls.approval
	if !r.controls.paused {
		r.EndInterruption()
	}
	if a.intervention() {
		// The caller of ask writes the result.
		return records.EventRecord(contract.EventRunUpdated, map[string]any{"answered": a.id, "by": a.by, "reason": a.reason})
	}
	r.controls.last = a
	subject := r.subject(a.kind)
	if a.rejected { // perhaps while it is judged again
		subject = a.subject
	}
	rec := records.EventRecord(event, a.payload())
	rec.Notes = map[string]string{"id": a.id, "kind": a.kind, "status": status, "by": a.by, "reason": a.reason, "subject": subject}
	return rec
}
