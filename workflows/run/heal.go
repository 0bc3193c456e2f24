package run

import (
	"cmp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

// heal tries to heal a phase's failure. It returns the phase from which the run
// continues, or the failure that it ends with; neither means that the work is dropped.
func (r *run) heal(ctx workflow.Context, p contract.Phase, failure *contract.Failure) (contract.Phase, *contract.Failure) {
	if r.MaxRetries <= 0 || fault.Final(failure) {
		return "", failure
	}
	if agent := contract.AgentOf(p); p.UsesModel() { // the other phases report failures that they did not cause
		r.recordFailure(ctx, agent, contract.RepairFault{Failure: *failure, Execution: r.executionOf(p, r.Failed.Step)})
	}
	if back, end, done := r.afterPush(ctx, p, failure); done {
		return back, end
	}
	return r.healOrAsk(ctx, p, failure)
}

// healOrAsk carries out one action after the other until one could be applied, or a person gives up.
func (r *run) healOrAsk(ctx workflow.Context, p contract.Phase, failure *contract.Failure) (contract.Phase, *contract.Failure) {
	var asked contract.Command // by a person
	if failure.Code == contract.CodeReview {
		asked.Action = contract.HealRepair // the only action; what remains is judged
	}
	for {
		if end := r.awaitUnpaused(ctx); end != nil {
			return "", end
		}
		if r.controls.stopping() || ctx.Err() != nil {
			return "", failure
		}
		if back, end, done := r.takePush(ctx); done {
			return back, end
		}
		if asked.Action == "" && r.Heals.Count[p] >= r.MaxRetries {
			asked.Action = contract.HealAskPerson
		}
		d, err := r.selfHeal(ctx, p, failure, asked)
		if err != nil {
			return "", r.failureOf(err)
		}
		if end := r.awaitUnpaused(ctx); end != nil {
			return "", end
		}
		d = r.askAnyway(p, failure, asked, d)
		asked = contract.Command{}
		switch {
		case d.Ask != nil:
			next, back, end := r.askForHelp(ctx, p, failure, d)
			if next.Action == "" {
				return back, end
			}
			asked = next
		case d.Failed == "":
			return r.applyDirective(ctx, p, d)
		case failure.Code == contract.CodeReview:
			return p, nil // nothing was changed; the agent may have said why not
		}
	}
}

// askForHelp asks a person about a failure. It returns the action to take for it, else how the run continues.
func (r *run) askForHelp(ctx workflow.Context, p contract.Phase, failure *contract.Failure, d contract.Directive) (next contract.Command, back contract.Phase, end *contract.Failure) {
	if r.pushesFirst && r.Watch.On && (r.Updating() || r.Watch.Fixing != nil) {
		d.Ask.ActionRequired += "; or push the fix to the branch yourself"
	}
	a, end := r.intervene(ctx, p, d)
	if end != nil {
		return next, "", end
	}
	if a.withdrawn {
		r.markApplied()
		back, end, _ = r.afterMove(ctx, a.found)
		return next, back, end
	}
	r.Heals.Count[p], r.Heals.Tried, r.Watch.Moves = 0, map[string][]contract.HealAction{}, 0
	if back, end, done := r.beforeRetry(ctx); done {
		return next, back, end
	}
	action := r.actionAfter(a, failure)
	if action == "" {
		back, end = r.applyDirective(ctx, p, d)
		return next, back, end
	}
	r.markApplied() // it was used in another heal
	return contract.Command{Action: action, By: a.by, Reason: a.reason}, "", nil
}

// askAnyway asks a person even if the heal that should have asked has failed: otherwise the heal
// would be repeated endlessly, because no budget counts questions.
func (r *run) askAnyway(p contract.Phase, failure *contract.Failure, asked contract.Command, d contract.Directive) contract.Directive {
	if d.Failed == "" || asked.Action != contract.HealAskPerson {
		return d
	}
	d.Ask = fault.QuestionAbout(p, r.Failed.Step, failure)
	d.Ask.Reason += "; the heal also failed: " + d.Failed
	d.Failed = ""
	return d
}

// selfHeal lets a child workflow heal a failure.
func (r *run) selfHeal(ctx workflow.Context, p contract.Phase, failure *contract.Failure, asked contract.Command) (contract.Directive, error) {
	var d contract.Directive
	if r.Status != contract.StatusSelfHeal {
		if err := r.SetStatus(contract.StatusSelfHeal); err != nil {
			return d, err
		}
	}
	r.Heals.Number++
	if _, err := r.transition(ctx, contract.Record{Events: []contract.EventDraft{
		{Type: contract.EventRunUpdated, Payload: map[string]any{"status": r.Status, "heal": r.Heals.Number}},
	}}); err != nil {
		return d, err
	}
	s, agent := r.in.Settings, contract.AgentOf(p)
	key := triedAt(affinity.WorkKey(p, r.Failed.Step), failure)
	in := contract.HealInput{
		RunID: r.in.RunID, Number: r.Heals.Number, Phase: p, Step: r.Failed.Step, Execution: r.executionOf(p, r.Failed.Step),
		Failure: *failure, Tried: r.Heals.Tried[key], Asked: asked.Action, By: asked.By, Words: asked.Reason, Workspace: r.repairFrom(p),
		Model: r.Models[agent], Repair: r.Models[contract.AgentRepair], Others: r.otherModels(),
		PlanID: r.PlanID, PlanGiven: s.PlanGiven || r.Onto != nil, QuotaWait: s.QuotaWait, Settings: r.loopSettings(),
		From: r.Failed.From, Directives: r.instructionsFor(contract.AgentRepair), Generation: r.Heals.Budget(contract.AgentRepair).Generation,
		Compacted: r.Heals.Compact[affinity.WorkKey(p, r.Failed.Step)], Avoid: r.Heals.Excluded,
		Check: r.Watch.Check, Base: r.pushedBefore(),
	}
	if failure.Code == contract.CodeReview {
		in.Review = r.Review.Open
	}
	child := workflow.ExecuteChildWorkflow(options.Child(ctx, contract.HealWorkflowID(r.in.RunID, in.Number), contract.QueueRepair),
		contract.WorkflowSelfHeal, in)
	if child.GetChildWorkflowExecution().Get(ctx, nil) == nil {
		r.Heals.UnderWay = in.Number
		if r.Revision != in.Directives.Seq { // the run received a command in the meantime
			r.notifyHeal(ctx)
		}
	}
	err := child.Get(ctx, &d)
	r.Heals.UnderWay = 0
	if err != nil && ctx.Err() != nil {
		return d, ctx.Err()
	}
	if err != nil {
		// A heal that could not even begin counts as tried: the failure of the run is the one to be
		// healed, not the failed heal.
		d = contract.Directive{Number: in.Number, Action: asked.Action, Failed: fault.Of(err).Message, Class: failure.Class, Code: failure.Code}
	}
	if d.Failed == "" {
		r.Heals.Open = &state.AppliedHeal{Directive: d, Failed: p, Step: r.Failed.Step}
	}
	r.Usage = r.Usage.Add(d.Usage)
	r.LastHealAction = string(d.Action)
	if d.Action != contract.HealAskPerson {
		if !repeatable(d) {
			r.Heals.Tried[key] = append(r.Heals.Tried[key], d.Action)
		}
		r.Heals.Count[p]++
		r.RetryCount++
	}
	if d.RepairFault != nil {
		r.recordFailure(ctx, contract.AgentRepair, *d.RepairFault)
	}
	return d, ctx.Err() // a heal that was stopped has begun, and counts
}

// repeatable reports whether an action may be repeated for the same failure, because it would
// differ this time: a repair starts from the changes of the last one, another worker is chosen, or
// a context that overflowed is halved again. The budget limits the repetitions.
func repeatable(d contract.Directive) bool {
	return d.Failed == "" && (d.Action == contract.HealRepair || d.Worker != "" || d.Compact > 0 && d.Code == contract.CodeContextOverflow)
}

// triedAt returns the key of the failure for which actions count as tried. If other tests fail
// after a repair, that is a different failure: the repair made progress.
func triedAt(work string, f *contract.Failure) string {
	key := work + " " + string(f.Class)
	if f.Class == contract.ClassAssertion {
		key += " " + fault.WithoutNumbers(f.Message)
	}
	return key
}

// executionOf returns the last execution of a phase or of one of its steps.
func (r *run) executionOf(p contract.Phase, step string) contract.ExecutionRef {
	name := string(p)
	if step != "" {
		name = step
	}
	ref := r.Executions[name]
	ref.RunID, ref.Phase, ref.Step = r.in.RunID, p, step
	if ref.ID == 0 { // it failed before it began: use the execution of the phase
		ref = r.Executions[string(p)]
	}
	return ref
}

// repairFrom returns the workspace from which a repair of a phase starts.
func (r *run) repairFrom(p contract.Phase) contract.Workspace {
	if p == contract.PhaseBuilder && r.Failed.Workspace.Tree != "" {
		return r.Failed.Workspace.Of(r.in.Settings.Repo.Workspace())
	}
	return r.Workspace
}

// applyDirective applies a directive and returns the next phase.
func (r *run) applyDirective(ctx workflow.Context, p contract.Phase, d contract.Directive) (contract.Phase, *contract.Failure) {
	back := cmp.Or(d.Back, p)
	if d.Wait > 0 {
		if end := r.waitForQuota(ctx, p, d); end != nil {
			return "", end
		}
	}
	step := ""
	if back == contract.PhaseBuilder {
		step = r.Failed.Step
	}
	r.Heals.Lessons[affinity.WorkKey(back, step)] = append(r.Heals.Lessons[affinity.WorkKey(back, step)], d.Number)
	if d.Strict {
		r.Heals.Strict[back] = true
	}
	if d.Model != nil {
		r.setModel(contract.AgentOf(back), *d.Model)
	}
	r.applyForm(back, step, d)
	if d.Change != nil {
		r.takeOver(p, *d.Change, *d.Credit)
		if back == contract.PhaseReleaser {
			back = contract.PhaseTester // nothing is released unverified
		}
	} else if step != "" {
		r.undo(step)
	}
	if back == contract.PhasePlanner {
		// Another plan has other steps: the changes made for this plan no longer count.
		r.Done, r.Workspace = map[string]contract.Change{}, r.in.Settings.Repo.Workspace()
		r.Heals.ForgetSteps()
		for _, step := range workflow.DeterministicKeys(r.affinities) {
			if strings.HasPrefix(step, string(contract.PhaseBuilder)+"/") {
				delete(r.affinities, step)
			}
		}
	}
	r.markApplied()
	return back, nil
}

// markApplied records that the last heal has been applied.
func (r *run) markApplied() {
	if r.Heals.Open != nil {
		r.Heals.Applied, r.Heals.Open = append(r.Heals.Applied, *r.Heals.Open), nil
	}
}

// applyForm applies the parts of a directive that set the schemas, the context and the worker of
// the next attempts.
func (r *run) applyForm(back contract.Phase, step string, d contract.Directive) {
	key := affinity.WorkKey(back, step)
	switch {
	case d.Schema:
		r.Heals.Schema[back] = true
	case d.Code == contract.CodeBadRequest:
		delete(r.Heals.Schema, back) // this provider does not accept the strict schema
	}
	if d.Compact > 0 {
		r.Heals.Compact[key] = d.Compact
		if ended := r.Executions[step]; step != "" && ended.ID != 0 && r.Failed.Workspace.Tree != "" {
			r.Heals.ResumeFrom[step] = contract.ResumePoint{Execution: ended.ID, From: r.Failed.From, At: r.Failed.Workspace}
		}
	}
	if d.Worker != "" {
		r.affinityOf(back, step).Worker = d.Worker
		r.excludeFailedWorker()
	}
}

// undo discards the result of a step because it conflicts with other steps, and the
// results that build on it.
func (r *run) undo(step string) {
	delete(r.Done, step)
	for _, id := range r.Plan.Order() {
		if slices.Contains(r.Plan.Requires(id), step) {
			delete(r.Done, id)
		}
	}
}

// takeOver adopts a patch. A patch of the builder's work replaces the change of the failed step.
func (r *run) takeOver(p contract.Phase, c contract.Change, credit contract.Credit) {
	r.Credits[c.Step] = credit
	if p == contract.PhaseBuilder {
		if r.Failed.From.Tree != "" { // the repair started where the step had ended
			c.From = r.Failed.From
		}
		r.Done[c.Step] = c
		r.Step(c.Step).Status = contract.StepCompleted
		return
	}
	r.Changes = append(r.Changes, c)
	r.Workspace = c.To.Of(r.Workspace)
	r.Stages = append(r.Stages, c.To.Slim())
}

// openHealOutcomes records why the result of the open heals never became known: their phase never finished,
// or never began.
func (r *run) openHealOutcomes(result string) ([]contract.HealNote, []contract.EventDraft) {
	var notes []contract.HealNote
	var events []contract.EventDraft
	r.markApplied()
	for _, a := range r.Heals.Applied {
		notes = append(notes, contract.HealNote{
			Number: a.Number, Status: contract.HealFailed, ErrorType: a.Class, Action: a.Action, Output: contract.HealOutput{Result: result},
		})
		events = append(events, records.HealEvent(contract.EventHealFailed, a.Directive, result))
	}
	r.Heals.Applied = nil
	return notes, events
}

// healOutcomes returns the results of the applied heals. Heals of a phase that succeeded, or of a
// step that is done, have helped. When a phase fails, no other heal has helped.
func (r *run) healOutcomes(p contract.Phase, failure *contract.Failure) ([]contract.HealNote, []contract.EventDraft) {
	var notes []contract.HealNote
	var events []contract.EventDraft
	var waiting []state.AppliedHeal
	for _, a := range r.Heals.Applied {
		status, kind, result := contract.HealSuccess, contract.EventHealSuccess, "the "+string(a.Failed)+" succeeded"
		_, done := r.Done[a.Step]
		switch {
		case failure != nil && a.Failed == p && done && a.Step != r.Failed.Step && a.Change == nil:
			result = a.Step + " succeeded"
		case failure != nil:
			status, kind, result = contract.HealFailed, contract.EventHealFailed, "the "+string(p)+" failed again: "+failure.Message
		case a.Failed != p:
			waiting = append(waiting, a)
			continue
		}
		notes = append(notes, contract.HealNote{
			Number: a.Number, Status: status, ErrorType: a.Class, Action: a.Action, Output: contract.HealOutput{Result: result},
		})
		events = append(events, records.HealEvent(kind, a.Directive, result))
	}
	r.Heals.Applied = waiting
	return notes, events
}

// loopSettings returns the limits of this run's agent loops.
func (r *run) loopSettings() contract.LoopSettings {
	s := r.in.Settings
	return contract.LoopSettings{Agents: s.Agents, Budget: s.StepBudget, RunBudget: s.RunBudget, ModelTimeout: s.ModelTimeout, CommandTimeout: s.CommandTimeout, VerifyTimeout: s.VerifyTimeout, SetupTimeout: s.SetupTimeout(), ChecksTogether: s.ChecksTogether, Fallbacks: r.otherModels(), FinishRefusals: s.FinishRefusals, HoldFinish: s.FinishRefusals > 0}
}

// lessonsOf returns the lessons for the next attempt of a phase or step.
func (r *run) lessonsOf(p contract.Phase, step string) contract.Lessons {
	key := affinity.WorkKey(p, step)
	l := contract.Lessons{Heals: r.Heals.Lessons[key], Strict: r.Heals.Strict[p], Schema: r.Heals.Schema[p], Compact: r.Heals.Compact[key]}
	if c := r.Heals.Budgets[contract.AgentOf(p)]; c != nil {
		l.Generation = c.Generation
	}
	return l
}
