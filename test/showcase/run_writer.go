package showcase

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // IDs of git objects are SHA-1 digests
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// runWriter writes the history of one run, in order, through the store functions that activities
// use. Its clock is in the past; the database's timestamps are moved there at the end. After the
// first error it stops writing; backdate returns the error.
type runWriter struct {
	ctx context.Context
	f   *dataset
	err error

	run    store.Run
	now    time.Time
	phase  contract.Phase
	status contract.Status

	workflowRun string
	seq         int64
	completed   *contract.Record
	executions  map[contract.Phase]contract.ExecutionRef
	plan        contract.Plan
	planID      int64
	done        map[string]bool // steps
	tree        string
	patch       string

	retries    int
	heals      int
	questions  int
	lastAction contract.HealAction
	applied    []healing
	waiting    string
	failure    *contract.Failure
	branch     string
	commit     string
	staying    *time.Time

	stamps stamps
}

// runOptions describe a run and its start.
type runOptions struct {
	project, goal, description string
	at                         time.Time
	models                     map[contract.Agent]contract.ModelChoice // in addition to those of the configuration
	settings                   func(*contract.Settings)
	givenPlan                  *contract.Plan
}

// begin creates a run.
func (f *dataset) begin(ctx context.Context, in runOptions) *runWriter {
	t := &runWriter{ctx: ctx, f: f, now: in.at, status: contract.StatusPending, executions: map[contract.Phase]contract.ExecutionRef{}, done: map[string]bool{}}
	settings, spec, err := f.freeze(in.project)
	if err != nil {
		t.err = err
		return t
	}
	maps.Copy(settings.Models, in.models)
	if in.settings != nil {
		in.settings(&settings)
	}
	settings.PlanGiven = in.givenPlan != nil
	t.run, _, t.err = f.store.CreateRun(ctx, store.NewRun{
		Project: in.project, GoalTitle: in.goal, GoalDescription: in.description, Settings: settings, Spec: spec,
		MaxRetries: settings.MaxRetries, GivenPlan: in.givenPlan,
	})
	if t.err != nil {
		return t
	}
	t.tree = settings.Repo.Tree
	t.workflowRun = uuidOf("run", t.run.ID, 1)
	t.stamp()
	return t
}

// do runs a function unless an earlier one failed.
func (t *runWriter) do(work func() error) {
	if t.err == nil {
		t.err = work()
	}
}

// wait lets time pass.
func (t *runWriter) wait(d time.Duration) { t.now = t.now.Add(d) }

// record writes a record of the run's own workflow: its state and the completion of the previous
// phase, as workflows write them.
func (t *runWriter) record(r contract.Record) (result contract.RecordResult) {
	t.do(func() (err error) {
		if done := t.completed; done != nil {
			t.completed = nil
			r.End, r.EndEvents = done.End, done.EndEvents
			r.Events, r.Heals = append(done.Events, r.Events...), append(done.Heals, r.Heals...)
		}
		t.seq++
		r.RunID, r.Seq, r.At = t.run.ID, t.seq, t.now
		r.Run = &contract.RunChange{
			Phase: t.phase, Status: t.status, RetryCount: t.retries, LastHealAction: string(t.lastAction), WaitingFor: t.waiting,
			Failure: t.failure, Branch: t.branch, Commit: t.commit, PlanID: t.planID, Finished: t.status.Terminal(),
			Staying: t.staying != nil, StayingUntil: t.staying,
		}
		result, err = t.f.store.Record(t.ctx, store.Source{WorkflowID: contract.RunWorkflowID(t.run.ID), WorkflowRunID: t.workflowRun}, r)
		return err
	})
	t.stamp()
	return result
}

// recordOf writes the records of a child's workflow.
func (t *runWriter) recordOf(workflow string, seq int64, r contract.Record) (result contract.RecordResult) {
	t.do(func() (err error) {
		r.RunID, r.Seq, r.At = t.run.ID, seq, t.now
		result, err = t.f.store.Record(t.ctx, store.Source{WorkflowID: workflow, WorkflowRunID: uuidOf(workflow, t.run.ID, t.executions[t.phase].ID)}, r)
		return err
	})
	t.stamp()
	return result
}

func event(kind contract.EventType, payload any) []contract.EventDraft {
	return []contract.EventDraft{{Type: kind, Payload: payload}}
}

// happens writes an event of the run.
func (t *runWriter) happens(kind contract.EventType, payload map[string]any) {
	t.record(contract.Record{Events: event(kind, payload)})
}

// starts begins a phase.
func (t *runWriter) starts(p contract.Phase) contract.ExecutionRef {
	t.phase, t.status = p, p.Running()
	agent := contract.AgentOf(p)
	result := t.record(contract.Record{
		Begin:  &contract.ExecutionBegin{Phase: p, Agent: agent, Model: t.run.Settings.Models[agent]},
		Events: event(p.Started(), nil),
	})
	t.executions[p] = result.Execution
	return result.Execution
}

// completes ends a phase successfully. The completion is written with the next record.
func (t *runWriter) completes(p contract.Phase, output any) {
	t.do(func() error {
		raw, err := json.Marshal(output)
		if err != nil {
			return err
		}
		t.status, t.failure = p.Completed(), nil
		notes, events := t.healResults(p, nil)
		t.completed = &contract.Record{
			End:    &contract.ExecutionEnd{ExecutionID: t.executions[p].ID, Status: contract.ExecutionCompleted, Output: raw},
			Events: append(event(p.CompletedEvent(), output), events...), Heals: notes,
		}
		t.completed.EndEvents = len(t.completed.Events)
		return nil
	})
}

// fails ends a phase with a failure.
func (t *runWriter) fails(p contract.Phase, failure *contract.Failure) {
	t.status, t.failure = p.Error(), failure
	notes, events := t.healResults(p, failure)
	t.record(contract.Record{
		End:    &contract.ExecutionEnd{ExecutionID: t.executions[p].ID, Status: contract.ExecutionFailed, Failure: failure},
		Events: append(event(p.ErrorEvent(), failure), events...), Heals: notes,
	})
}

// ends ends the run with a failure: as stopped if a person stopped it, otherwise as failed.
func (t *runWriter) ends(failure *contract.Failure) {
	t.status, t.failure, t.waiting = contract.StatusFailed, failure, ""
	if failure.Code == contract.CodeCancelled {
		t.status = contract.StatusCancelled
	}
	t.record(contract.Record{Events: event(contract.EventRunFailed, failure)})
}

// stops ends a run in the middle of a phase because a person stopped it.
func (t *runWriter) stops(by, reason string) {
	failure := fail(contract.ClassHuman, contract.CodeCancelled, "stopped by "+by+" ("+reason+"); partial results are kept", "")
	t.happens(contract.EventRunUpdated, map[string]any{"stopping": true, "by": by, "reason": reason})
	t.wait(2 * time.Second)
	t.record(contract.Record{End: &contract.ExecutionEnd{ExecutionID: t.executions[t.phase].ID, Status: contract.ExecutionCancelled, Failure: failure}})
	t.ends(failure)
}

// turn is one response of a model and its tool calls.
type turn struct {
	say      string
	calls    []use
	in, out  int64
	took     time.Duration
	failure  *contract.Failure
	inFlight bool // the model has not responded yet
}

// use is a tool call with its result.
type use struct {
	name    string
	args    map[string]any
	result  string
	took    time.Duration
	wrong   contract.Code
	changed bool // the workspace
}

// thinks writes the model calls and tool calls of one turn and returns the time at which they
// finished.
func (t *runWriter) thinks(e contract.ExecutionRef, choice contract.ModelChoice, version string, n int, at time.Time, w turn) time.Time {
	done := at.Add(w.took)
	usage := contract.Usage{Calls: 1, PromptTokens: w.in, CompletionTokens: w.out}
	usage.MicroUSD = t.f.cost(choice, usage)
	t.do(func() error {
		reserved, err := t.f.store.ReserveCall(t.ctx, store.Reservation{
			Execution: e, Turn: n, Provider: choice.Provider, Model: choice.Model, PromptVersion: version, Route: t.f.decided(e, choice, n, w.in),
			Prompt: w.in, Output: w.out + 500, Cost: func(int64) int64 { return usage.MicroUSD + 100 },
			Scopes: []store.Scope{store.RunScope(t.run.ID, contract.RunBudget{}), store.DayScope(at, 0, 0)},
		})
		t.stamps.call(e.ID, n, at, done, w.inFlight)
		switch {
		case err != nil || w.inFlight:
			return err
		case w.failure != nil:
			return t.f.store.FailCall(t.ctx, reserved.ID, w.failure, usage)
		}
		answer := model.Message{Role: model.RoleAssistant, Text: w.say}
		for i, c := range w.calls {
			answer.ToolCalls = append(answer.ToolCalls, model.ToolCall{ID: callID(e.ID, n, i), Name: c.name, Arguments: jsonOf(c.args)})
		}
		raw, err := json.Marshal(map[string]any{"text": w.say, "tool_calls": answer.ToolCalls, "finish_reason": "stop", "usage": usage, "model": choice.Model})
		if err != nil {
			return err
		}
		messages, err := messagesOf(answer)
		if err != nil {
			return err
		}
		return t.f.store.CompleteCall(t.ctx, reserved.ID, usage, w.took, raw, messages)
	})
	if w.inFlight || w.failure != nil {
		return done
	}
	for i, c := range w.calls {
		started := done
		done = started.Add(max(c.took, time.Millisecond))
		t.uses(e, n, i, started, done, c)
	}
	return done
}

func (t *runWriter) uses(e contract.ExecutionRef, n, i int, started, done time.Time, c use) {
	t.do(func() error {
		before := t.tree
		if c.changed {
			t.tree = objectID("tree", e.ID, n, i)
		}
		messages, err := messagesOf(model.Message{Role: model.RoleTool, ToolCallID: callID(e.ID, n, i), Text: c.result})
		if err != nil {
			return err
		}
		_, err = t.f.store.SaveToolResult(t.ctx, e.ID, n, i, store.ToolCall{
			Tool: c.name, TreeBefore: before, StartedAt: started, FinishedAt: done,
			Outcome: contract.ToolOutcome{
				OK: c.wrong == "", Code: c.wrong, Fingerprint: objectID(c.name, jsonOf(c.args))[:16],
				Workspace: contract.Workspace{Repo: t.run.Repo, Base: t.run.BaseCommit, Tree: t.tree},
			},
		}, messages[0])
		return err
	})
}

// opens stores the initial prompt of an agent.
func (t *runWriter) opens(e contract.ExecutionRef, p prompt.Prompt, err error) {
	t.do(func() error {
		if err != nil {
			return err
		}
		if err := t.f.store.SavePrompt(t.ctx, p.Name, p.Version, p.System); err != nil {
			return err
		}
		messages, err := messagesOf(model.Message{Role: model.RoleSystem, Text: p.System}, model.Message{Role: model.RoleUser, Text: p.Task})
		if err != nil {
			return err
		}
		return t.f.store.OpenConversation(t.ctx, e.ID, messages)
	})
}

// plans writes the planner's phase, up to its completion.
func (t *runWriter) plans(plan contract.Plan, took time.Duration) {
	e := t.starts(contract.PhasePlanner)
	p := t.asksForPlan(e)
	choice := t.run.Settings.Models[contract.AgentPlanner]
	t.now = t.thinks(e, choice, p.Version, 1, t.now, turn{say: jsonOf(plan), in: 8200, out: int64(220 * len(plan.Steps)), took: took})
	t.takesPlan(e, plan)
}

// asksForPlan opens the planner's conversation.
func (t *runWriter) asksForPlan(e contract.ExecutionRef) prompt.Prompt {
	p, err := prompt.Planner(prompt.PlannerTask{
		GoalTitle: t.run.GoalTitle, GoalDescription: t.run.GoalDescription, Branch: t.run.BaseBranch, Base: t.run.BaseCommit, Files: prompt.Overview{Text: listing},
	})
	t.opens(e, p, err)
	return p
}

// takesPlan stores the planner's plan as the current plan.
func (t *runWriter) takesPlan(e contract.ExecutionRef, plan contract.Plan) {
	t.do(func() (err error) {
		t.plan = plan
		t.planID, err = t.f.store.SavePlan(t.ctx, t.run.ID, e.ID, string(contract.AgentPlanner), plan)
		return err
	})
	t.completes(contract.PhasePlanner, map[string]any{"plan_id": t.planID, "steps": len(plan.Steps), "complexity_score": plan.ComplexityScore})
}

// stepWork is the builder's work on one step of the plan.
type stepWork struct {
	step    string
	turns   []turn
	failure *contract.Failure
	open    bool // still running at the end
}

// builds writes the work on steps, in parallel where possible, as the builder does it. It returns
// when all given steps have ended or are in progress.
func (t *runWriter) builds(work []stepWork) {
	r := schedule{ends: map[string]time.Time{}, slots: make([]time.Time, max(1, t.run.Settings.Parallel))}
	for i := range r.slots {
		r.slots[i] = t.now
	}
	for _, w := range work {
		r.add(t, w)
	}
	slices.SortStableFunc(r.actions, func(a, b action) int { return a.at.Compare(b.at) })
	for _, a := range r.actions {
		t.now = a.at
		a.do()
	}
	for _, end := range r.ends {
		if end.After(t.now) {
			t.now = end
		}
	}
}

// action is an action at a certain time.
type action struct {
	at time.Time
	do func()
}

// schedule determines when each step starts: as soon as its dependencies are done and a slot is
// free.
type schedule struct {
	actions []action
	ends    map[string]time.Time
	slots   []time.Time
}

// never is when the slot of a step in progress becomes free.
const never = 100 * time.Hour

func (r *schedule) add(t *runWriter, w stepWork) {
	slot := 0
	for i := range r.slots {
		if r.slots[i].Before(r.slots[slot]) {
			slot = i
		}
	}
	at := r.slots[slot].Add(50 * time.Millisecond)
	step, _ := t.plan.Step(w.step)
	for _, need := range step.Dependencies {
		if r.ends[need].After(at) {
			at = r.ends[need]
		}
	}
	var e contract.ExecutionRef
	var version string
	choice := t.run.Settings.Models[contract.AgentBuilder]
	r.actions = append(r.actions, action{at, func() { e, version = t.opensStep(w, choice) }})
	for n, one := range w.turns {
		started := at
		r.actions = append(r.actions, action{started, func() { t.thinks(e, choice, version, n+1, started, one) }})
		at = at.Add(lengthOf(one))
	}
	if w.open {
		r.slots[slot] = at.Add(never)
		return
	}
	r.actions = append(r.actions, action{at, func() { t.closesStep(e, w, choice, version) }})
	r.ends[w.step], r.slots[slot] = at, at
}

// lengthOf returns the duration of a turn, including its tools.
func lengthOf(w turn) time.Duration {
	all := w.took
	for _, c := range w.calls {
		all += max(c.took, time.Millisecond)
	}
	return all
}

func (t *runWriter) stepWorkflow(step string) string {
	return contract.StepWorkflowID(t.run.ID, step)
}

func (t *runWriter) opensStep(w stepWork, choice contract.ModelChoice) (contract.ExecutionRef, string) {
	step, _ := t.plan.Step(w.step)
	result := t.recordOf(t.stepWorkflow(w.step), 1, contract.Record{
		Begin:  &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: w.step, Agent: contract.AgentBuilder, Model: choice},
		Events: event(contract.EventStepStarted, map[string]any{"step": w.step}),
	})
	p, err := prompt.Builder(prompt.BuilderTask{
		GoalTitle: t.run.GoalTitle, GoalDescription: t.run.GoalDescription, PlanSummary: t.plan.Summary, Step: step, Repository: prompt.Repository{Files: prompt.Overview{Text: listing}},
	})
	t.opens(result.Execution, p, err)
	return result.Execution, p.Version
}

func (t *runWriter) closesStep(e contract.ExecutionRef, w stepWork, choice contract.ModelChoice, version string) {
	end := &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted, Failure: w.failure}
	told := event(contract.EventStepCompleted, map[string]any{"step": w.step, "attempt": e.Attempt, "turns": len(w.turns)})
	if w.failure != nil {
		end.Status = contract.ExecutionFailed
		told = event(contract.EventStepError, map[string]any{"step": w.step, "attempt": e.Attempt, "turns": len(w.turns), "failure": w.failure})
	} else {
		t.done[w.step] = true
		end.Output = json.RawMessage(jsonOf(contract.StepOutput{
			Change: contract.Change{Step: w.step, To: contract.Workspace{Tree: t.tree}},
			Credit: contract.Credit{Step: w.step, Model: choice.Model, Prompt: version},
		}))
	}
	t.recordOf(t.stepWorkflow(w.step), 2, contract.Record{End: end, Events: told})
}

// built ends the builder's phase with a patch.
func (t *runWriter) built(patch string) {
	t.do(func() (err error) {
		t.patch, err = t.f.blobs.Put(t.ctx, []byte(patch))
		return err
	})
	t.tree = objectID("tree", t.run.ID, patch)
	t.completes(contract.PhaseBuilder, map[string]any{"steps": len(t.plan.Steps), "tree": t.tree, "patch": t.patch})
}

// implements writes the builder's phase with every step of a plan, and returns the patch.
func (t *runWriter) implements(r *rand.Rand, plan contract.Plan) string {
	t.starts(contract.PhaseBuilder)
	t.builds(works(r, plan))
	patch := patchOf(plan)
	t.built(patch)
	return patch
}

// inspection is a check of the verification and its findings.
type inspection struct {
	check    contract.Check
	took     time.Duration
	cases    []contract.TestCase
	findings []contract.Finding
	red      bool
	message  string
	log      string
	files    []file
}

// checks writes checks, one after another.
func (t *runWriter) checks(all ...inspection) []contract.CheckResult {
	e := t.executions[contract.PhaseTester]
	var out []contract.CheckResult
	for _, c := range all {
		result := contract.CheckResult{Check: c.check, OK: !c.red, DurationMS: c.took.Milliseconds(), Message: c.message}
		if c.red {
			result.Code = contract.CodeCheckFailed
			if c.check.Category == contract.CategoryTest {
				result.Code = contract.CodeTestsFailed
			}
		}
		for _, one := range c.cases {
			result.Summary = result.Summary.Add(counted(one))
		}
		for _, f := range c.findings {
			switch f.Severity {
			case contract.SeverityMajor:
				result.Major++
			case contract.SeverityMedium:
				result.Medium++
			case contract.SeverityMinor:
				result.Minor++
			}
		}
		started := t.now
		t.wait(c.took)
		prefix := fmt.Sprintf("tester/%d/%s/", e.Attempt, c.check.ID)
		log := t.keeps(e.ID, append([]file{{prefix + "output.log", contract.ArtifactLog, []byte(cmp.Or(c.log, "ok\n"))}}, below(prefix, c.files)...)...)
		t.do(func() error {
			return t.f.store.SaveCheck(t.ctx, e, c.check.ID, result, c.cases, c.findings, log)
		})
		t.stamps.check(e.ID, c.check.ID, started, t.now)
		t.stamp()
		out = append(out, result)
	}
	return out
}

func counted(c contract.TestCase) contract.TestSummary {
	s := contract.TestSummary{DurationMS: c.DurationMS}
	switch c.Status {
	case contract.TestPassed:
		s.Passed = 1
	case contract.TestFailed:
		s.Failed = 1
	case contract.TestSkipped:
		s.Skipped = 1
	case contract.TestFlaky:
		s.Flaky = 1
	case contract.TestQuarantined:
		s.Quarantined = 1
	}
	return s
}

// file is an artifact before it is stored.
type file struct {
	name    string
	kind    contract.ArtifactType
	content []byte
}

func below(prefix string, files []file) []file {
	out := make([]file, len(files))
	for i, f := range files {
		out[i] = file{prefix + f.name, f.kind, f.content}
	}
	return out
}

// keeps stores artifacts and returns the digest of the first one.
func (t *runWriter) keeps(execution int64, files ...file) (digest string) {
	t.do(func() error {
		artifacts := make([]contract.Artifact, len(files))
		for i, f := range files {
			d, err := t.f.blobs.Put(t.ctx, f.content)
			if err != nil {
				return err
			}
			artifacts[i] = contract.Artifact{ExecutionID: execution, Name: f.name, Type: f.kind, Size: int64(len(f.content)), Digest: d}
		}
		if len(artifacts) > 0 {
			digest = artifacts[0].Digest
		}
		return t.f.store.AddArtifacts(t.ctx, t.run.ID, artifacts)
	})
	t.stamp()
	return digest
}

// tested ends the tester's phase, successfully or with the failures of its checks.
func (t *runWriter) tested(results []contract.CheckResult) {
	var sum contract.TestSummary
	var major, medium, minor int
	var failure *contract.Failure
	for _, r := range results {
		sum = sum.Add(r.Summary)
		major, medium, minor = major+r.Major, medium+r.Medium, minor+r.Minor
		if !r.OK && failure == nil {
			failure = fail(contract.ClassAssertion, r.Code, fmt.Sprintf("%s failed: %s", r.Check.Name, r.Message), r.Message)
		}
	}
	if failure != nil {
		t.fails(contract.PhaseTester, failure)
		return
	}
	t.completes(contract.PhaseTester, map[string]any{"summary": sum, "checks": results, "major": major, "medium": medium, "minor": minor})
}

// releases writes the releaser's phase: the branch, the report, and the zip archive.
func (t *runWriter) releases(patch string) {
	e := t.starts(contract.PhaseReleaser)
	t.wait(900 * time.Millisecond)
	t.branch, t.commit = t.run.Settings.Release.Branch, objectID("commit", t.run.ID, e.Attempt)
	if t.branch == "" {
		t.branch = contract.Branch(t.run.ID)
	}
	report := fmt.Sprintf("# Run %d\n\n%s\n\nReleased as `%s` at `%.12s`.\n", t.run.ID, t.run.GoalTitle, t.branch, t.commit)
	t.do(func() error {
		packed, err := zipOf(map[string][]byte{"report.md": []byte(report), "change.patch": []byte(patch)})
		if err != nil {
			return err
		}
		folder := ""
		if e.Attempt > 1 {
			folder = fmt.Sprintf("attempt-%d/", e.Attempt)
		}
		t.keeps(e.ID,
			file{folder + "report.md", contract.ArtifactReport, []byte(report)}, file{folder + "change.patch", contract.ArtifactPatch, []byte(patch)},
			file{folder + "run.json", contract.ArtifactJSON, []byte(jsonOf(map[string]any{"runId": t.run.ID, "status": "done", "branch": t.branch, "commit": t.commit}))},
			file{fmt.Sprintf("%srun-%d.zip", folder, t.run.ID), contract.ArtifactZip, packed})
		return nil
	})
	t.completes(contract.PhaseReleaser, map[string]any{"branch": t.branch, "commit": t.commit, "pushed": false})
}

// completesRelease writes the releaser's phase and all unwritten changes of the run.
func (t *runWriter) completesRelease(patch string) {
	t.releases(patch)
	t.record(contract.Record{})
}

func fail(class contract.Class, code contract.Code, message, cause string) *contract.Failure {
	return &contract.Failure{Class: class, Code: code, Message: message, Cause: cause}
}

func callID(execution int64, turn, index int) string {
	return fmt.Sprintf("call_%s", objectID("call", execution, turn, index)[:12])
}

func messagesOf(messages ...model.Message) ([]store.Message, error) {
	out := make([]store.Message, len(messages))
	for i, m := range messages {
		raw, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		out[i] = store.Message{Role: string(m.Role), Content: raw}
	}
	return out, nil
}

// jsonOf encodes a value that can always be encoded.
func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%q", err.Error())
	}
	return string(raw)
}

// objectID returns the ID of a git object that does not exist.
func objectID(parts ...any) string {
	sum := sha1.Sum(fmt.Append(nil, parts...)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

func uuidOf(parts ...any) string {
	id := objectID(parts...)
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", id[:8], id[8:12], id[13:16], id[17:20], id[20:32])
}
