package showcase

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// healing is self-heal's reaction to a failure.
type healing struct {
	action  contract.HealAction
	cause   string // with the telling lines
	message string
	step    string
	before  map[string]any
	after   map[string]any
	patch   string // of the Repair agent
	turns   []turn // of the Repair agent
	took    time.Duration
	back    contract.Phase // to continue from; empty: the failed phase
	failed  string         // why the action could not be carried out
	by      string         // who requested it; empty: the run itself

	number int
	phase  contract.Phase
	class  contract.Class
	code   contract.Code
}

// recordHeal writes a complete heal of the current phase's failure.
func (t *runWriter) recordHeal(m healing) {
	t.healStarts(&m)
	t.healEnds(m)
}

// healStarts starts a heal and leaves it in progress.
func (t *runWriter) healStarts(m *healing) {
	if t.err != nil {
		return
	}
	t.heals++
	t.retries++
	m.number, m.phase, m.class, m.code = t.heals, t.phase, t.failure.Class, t.failure.Code
	t.status = contract.StatusSelfHeal
	t.happens(contract.EventRunUpdated, map[string]any{"status": t.status, "heal": m.number})
	t.wait(300 * time.Millisecond)
	choice := t.run.Settings.Models[contract.AgentOf(m.phase)]
	before := map[string]any{"model": choice.Provider + "/" + choice.Model}
	maps.Copy(before, m.before)
	t.recordOf(t.healWorkflow(m), 1, contract.Record{
		Heals: []contract.HealNote{{
			Number: m.number, Status: contract.HealStarted, Phase: m.phase, Step: m.step, ExecutionID: t.executions[m.phase].ID,
			ErrorType: m.class, Code: m.code, Action: m.action, RootCause: m.cause, By: m.by, Output: contract.HealOutput{Before: before},
		}},
		Events: event(contract.EventHealStarted, map[string]any{
			"heal": m.number, "phase": m.phase, "step": m.step, "error_type": m.class, "error_code": m.code, "heal_action": m.action, "root_cause": m.cause,
		}),
	})
	t.lastAction = m.action
	if len(m.turns) > 0 {
		t.repairs(*m)
	}
}

func (t *runWriter) healWorkflow(m *healing) string {
	return contract.HealWorkflowID(t.run.ID, m.number)
}

// repairs writes the work of the Repair agent.
func (t *runWriter) repairs(m healing) {
	choice := t.run.Settings.Models[contract.AgentRepair]
	workflow := contract.RepairWorkflowID(t.run.ID, m.number)
	e := t.recordOf(workflow, 1, contract.Record{
		Begin:  &contract.ExecutionBegin{Phase: m.phase, Step: contract.StepRepair, Agent: contract.AgentRepair, Model: choice},
		Events: event(contract.EventStepStarted, map[string]any{"step": contract.StepRepair}),
	}).Execution
	for n, w := range m.turns {
		t.now = t.thinks(e, choice, "repair@5be9f0a1c2d3", n+1, t.now, w)
	}
	if slices.ContainsFunc(m.turns, func(w turn) bool { return w.inFlight }) {
		return
	}
	t.recordOf(workflow, 2, contract.Record{
		End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted},
		Events: event(contract.EventStepCompleted, map[string]any{
			"step": contract.StepRepair, "attempt": e.Attempt, "turns": len(m.turns),
		}),
	})
}

// healEnds writes the outcome of a heal. Whether it helped is written after the phase has run
// again.
func (t *runWriter) healEnds(m healing) {
	t.wait(m.took)
	note := contract.HealNote{
		Number: m.number, Status: contract.HealApplied, ErrorType: m.class, Action: m.action,
		Output: contract.HealOutput{Message: m.message, After: m.after, Diff: m.patch, Back: m.phase},
	}
	if m.back != "" {
		note.Output.Back = m.back
	}
	if len(m.turns) > 0 {
		var used contract.Usage
		for _, w := range m.turns {
			u := contract.Usage{Calls: 1, PromptTokens: w.in, CompletionTokens: w.out}
			u.MicroUSD = t.f.cost(t.run.Settings.Models[contract.AgentRepair], u)
			used = used.Add(u)
		}
		note.Output.Usage = &used
	}
	if m.patch != "" {
		t.keeps(t.executions[m.phase].ID, file{fmt.Sprintf("heal/%d/change.patch", m.number), contract.ArtifactPatch, []byte(m.patch)})
	}
	var events []contract.EventDraft
	if m.failed != "" {
		note.Status, note.Output.Result = contract.HealFailed, m.failed
		events = event(contract.EventHealFailed, m.outcome(m.failed))
	} else {
		t.applied = append(t.applied, m)
	}
	t.recordOf(t.healWorkflow(&m), 2, contract.Record{Heals: []contract.HealNote{note}, Events: events})
}

func (m healing) outcome(result string) map[string]any {
	return map[string]any{"heal": m.number, "heal_action": m.action, "error_type": m.class, "error_code": m.code, "result": result}
}

// healResults writes the results of the applied heals.
func (t *runWriter) healResults(p contract.Phase, failure *contract.Failure) (notes []contract.HealNote, events []contract.EventDraft) {
	for _, m := range t.applied {
		status, kind, result := contract.HealSuccess, contract.EventHealSuccess, "the "+string(p)+" succeeded"
		switch {
		case failure != nil && t.done[m.step]:
			result = m.step + " succeeded"
		case failure != nil:
			status, kind, result = contract.HealFailed, contract.EventHealFailed, "the "+string(p)+" failed again: "+failure.Message
		}
		notes = append(notes, contract.HealNote{
			Number: m.number, Status: status, ErrorType: m.class, Action: m.action, Output: contract.HealOutput{Result: result},
		})
		events = append(events, contract.EventDraft{Type: kind, Payload: m.outcome(result)})
	}
	t.applied = nil
	return notes, events
}

// asks opens an approval: of the plan, or of the release.
func (t *runWriter) asks(kind string, wait time.Duration) {
	t.status, t.waiting = contract.StatusWaitingForApproval, kind
	id := fmt.Sprintf("run-%d/%s", t.run.ID, kind)
	until := t.now.Add(wait)
	t.record(contract.Record{
		Events: event(contract.EventApprovalRequested, map[string]any{"approval_id": id, "kind": kind, "deadline": until}),
		Notes:  map[string]string{"id": id, "kind": kind, "status": "pending", "deadline": until.Format(time.RFC3339)},
	})
}

// answers an approval.
func (t *runWriter) answers(kind, by, reason string, granted bool) {
	id := fmt.Sprintf("run-%d/%s", t.run.ID, kind)
	status, what := "granted", contract.EventApprovalGranted
	if !granted {
		status, what = "rejected", contract.EventApprovalRejected
	}
	t.waiting = ""
	t.status = t.phase.Running()
	t.record(contract.Record{
		Events: event(what, map[string]any{"approval_id": id, "kind": kind, "by": by, "reason": reason}),
		Notes:  map[string]string{"id": id, "kind": kind, "status": status, "by": by, "reason": reason},
	})
}

// needsHelp asks a person for help.
func (t *runWriter) needsHelp(kind, reason, action string, wait time.Duration) {
	t.questions++
	t.status, t.waiting = contract.StatusWaitingForApproval, kind
	until := t.now.Add(wait)
	t.record(contract.Record{
		Events: event(contract.EventInterventionRequested, map[string]any{
			"intervention_id": contract.InterventionID(t.run.ID, t.questions), "kind": kind, "phase": t.phase, "reason": reason,
			"action_required": action, "deadline": until,
		}),
		Interventions: []contract.InterventionNote{{
			Number: t.questions, Status: "open", Phase: t.phase, Reason: reason, ActionRequired: action, Deadline: &until,
		}},
	})
}

// helped writes a person's answer to a request for help.
func (t *runWriter) helped(by, answer, words string) {
	t.waiting = ""
	t.status = t.phase.Running()
	t.record(contract.Record{
		Events: event(contract.EventInterventionResolved, map[string]any{
			"intervention_id": contract.InterventionID(t.run.ID, t.questions), "by": by, "answer": answer, "reason": words,
		}),
		Interventions: []contract.InterventionNote{{Number: t.questions, Status: "resolved", By: by, Answer: answer, Words: words}},
	})
}

// pauses holds the run.
func (t *runWriter) pauses(by, reason string) {
	t.status, t.waiting = contract.StatusPaused, "paused by "+by
	t.happens(contract.EventRunUpdated, map[string]any{"status": t.status, "by": by, "reason": reason})
}

// switches switches the model of an agent.
func (t *runWriter) switches(agent contract.Agent, to contract.ModelChoice, by string) {
	t.run.Settings.Models[agent] = to
	t.happens(contract.EventModelSwitched, map[string]any{"agent": agent, "model": to, "by": by})
}

// replays repeats an ended run from a phase on, as a reset of its workflow does.
func (t *runWriter) replays(p contract.Phase, by, reason string, to *contract.ModelChoice) {
	t.do(func() error {
		_, err := t.f.store.AddReplay(t.ctx, t.run.ID, t.workflowRun, p, contract.ReplaySpec{Model: to, By: by, Reason: reason}, "")
		return err
	})
	t.workflowRun = uuidOf("run", t.run.ID, t.seq)
	t.failure, t.waiting, t.branch, t.commit, t.completed, t.retries = nil, "", "", "", nil, 0
	if to != nil {
		t.run.Settings.Models[contract.AgentOf(p)] = *to
	}
	e := t.starts(p)
	t.do(func() error {
		_, err := t.f.store.TakeReplay(t.ctx, e)
		return err
	})
	t.happens(contract.EventRunUpdated, map[string]any{"replay": p, "model": to, "kept_steps": []string{}, "by": by, "reason": reason})
}

// stays makes the run watch its branch.
func (t *runWriter) stays(d time.Duration) {
	until := t.now.Add(d)
	t.staying = &until
	t.happens(contract.EventStayStarted, map[string]any{
		"branch": t.branch, "commit": t.commit, "deadline": until, "max_repairs": t.run.Settings.Release.MaxRepairs,
	})
}

// receives writes a check message about the branch that requires a repair.
func (t *runWriter) receives(m contract.CheckMessage) {
	m.Commit = t.commit
	t.do(func() error {
		_, err := t.f.store.AddBranchMessage(t.ctx, t.workflowRun, contract.TakeCheckInput{
			RunID: t.run.ID, Repo: t.run.Repo, Branch: t.branch, MaxRepairs: 3, Message: m,
		})
		return err
	})
	failure := fail(contract.ClassAssertion, contract.CodeCheckFailed, "check "+m.Name+" failed on the released commit: "+m.Summary, m.Details)
	t.phase, t.status, t.failure = contract.PhaseTester, contract.PhaseTester.Error(), failure
	t.happens(contract.EventCheckReceived, map[string]any{
		"id": m.ID, "name": m.Name, "check_kind": m.Kind, "commit": t.commit, "url": m.URL, "by": m.By, "repair": 1, "status": t.status,
		"error_type": failure.Class, "error_message": failure.Message,
	})
}
