package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/chain"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// CheckInvariants checks invariants that runs must satisfy under all circumstances:
//
//  1. each run is finished, or waits for a stated reason
//  2. each side effect happened once
//  3. the rows match the history
//  4. no phase or step ran before its dependencies
//  5. the booked usage is what the model served, and nothing was paid twice
//  6. nothing outside the workspaces changed
//  7. no secret appears anywhere
//  8. each history replays
//  9. a finished run has left nothing behind
//  11. what was released has a verdict of the gate, and the approval that it demands
//  12. the ledger is unbroken
//
// They hold for runs that healed themselves, that were repeated by a reset of their workflow, and
// that were forked from others. Only the test can check that the faults occurred and that most runs
// succeeded (10).
func CheckInvariants(tb testing.TB, s *Stack, runs ...int64) {
	tb.Helper()
	db, temporal := s.Store(tb), s.Temporal(tb)
	for _, id := range runs {
		c := &checked{TB: tb, s: s, db: db, temporal: temporal, id: id}
		c.read()
		c.isOver()
		c.happenedOnce()
		c.releasedOnce()
		c.judged()
		c.inOrder()
		c.asHistorySays()
		c.booked()
		c.cleanedUp()
	}
	require.Equal(tb, s.canary, digestOf(tb, filepath.Join(s.Dir, "canary")), "a directory outside every workspace changed")
	s.CheckSecrets(tb, runs...)
	report, err := chain.Verify(tb.Context(), db, nil)
	require.NoError(tb, err)
	require.True(tb, report.OK(), "the ledger is broken: %v", report.Faults)
}

// checked is a run that is being checked.
type checked struct {
	testing.TB
	s        *Stack
	db       *store.Store
	temporal client.Client
	id       int64
	run      views.RunDetails
	calls    []store.ModelCall
	plan     contract.Plan
	kept     []History
}

func (c *checked) read() {
	c.Helper()
	var err error
	c.run, err = views.New(c.db).RunDetails(c.Context(), c.id)
	require.NoError(c, err)
	c.calls, err = c.db.ModelCalls(c.Context(), c.id)
	require.NoError(c, err)
	if plan, err := c.db.Plan(c.Context(), c.id); err == nil {
		c.plan = plan
	}
}

// which prefixes a message with the run that it is about.
func (c *checked) which(format string, args ...any) string {
	return fmt.Sprintf("run %d (%s): %s", c.id, c.run.Status, fmt.Sprintf(format, args...))
}

func (c *checked) isOver() {
	c.Helper()
	switch c.run.Status {
	case contract.StatusPaused, contract.StatusWaitingForApproval, contract.StatusWaitingForInput:
		require.NotEmpty(c, c.run.WaitingFor, c.which("it waits without a reason"))
	default:
		require.True(c, c.run.Status.Terminal(), c.which("it is neither finished nor waiting for a person"))
		require.Equal(c, c.run.Status != contract.StatusDone, c.run.Failure != nil, c.which("a run has a failure exactly if it is not done"))
		require.NotNil(c, c.run.FinishedAt, c.which("it has no end time"))
	}
}

// happenedOnce checks the rows for duplicates and gaps.
func (c *checked) happenedOnce() {
	c.Helper()
	for i, e := range c.run.Events {
		require.Equal(c, int64(i+1), e.Seq, c.which("events are numbered without gaps"))
	}
	require.Equal(c, int64(len(c.run.Events)), c.run.EventSeq, c.which("the row has the number of its events"))
	attempts := map[string]int{}
	for _, e := range c.run.Executions {
		key := string(e.Phase) + "/" + e.Step
		attempts[key]++
		require.Equal(c, attempts[key], e.Attempt, c.which("attempts of %s are numbered from 1", key))
		if !deliberates(e) { // recoveries of a deliberation continue the count
			require.LessOrEqual(c, e.Attempt, 1+len(c.run.SelfHealEvents)+c.replays(), c.which("%s was repeated without a heal", key))
		}
		if c.run.Status.Terminal() {
			require.NotEqual(c, contract.ExecutionRunning, e.Status, c.which("%s is still running", key))
		}
	}
	c.announcedOnce()
	c.healedOnce()
	for _, a := range c.run.Approvals {
		require.False(c, c.run.Status.Terminal() && a.Status == "pending", c.which("it is finished, but approval %s is still pending", a.ID))
	}
	names := map[string]bool{}
	for _, a := range c.run.Artifacts {
		require.False(c, names[a.Name], c.which("artifact %s exists twice", a.Name))
		names[a.Name] = true
	}
	require.Len(c, c.run.Artifacts, c.count(contract.EventArtifactAdded, ""), c.which("each artifact is announced once"))
	require.Equal(c, 1, c.count(contract.EventRunCreated, ""), c.which("it was created once"))
}

// deliberates reports whether an execution belongs to a member of the deliberation that plans the
// run.
func deliberates(e store.Execution) bool {
	return e.Phase == contract.PhasePlanner && slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == e.Agent })
}

// replays returns the number of times that the run was replayed, according to its events.
func (c *checked) replays() int { return c.count(contract.EventRunUpdated, "replay") }

// outcomes counts the outcomes of the executions of a phase or of a step.
type outcomes struct{ began, completed, failed int }

// announcedOnce checks that each execution has one event for its start and one for its outcome. An
// end with an external cause (a stop, a timeout) may be reported only by the run.
func (c *checked) announcedOnce() {
	c.Helper()
	executed := map[[2]string]outcomes{}
	for _, e := range c.run.Executions {
		if deliberates(e) { // its pipeline reports it
			continue
		}
		key := [2]string{string(e.Phase), e.Step}
		if e.Step == contract.StepRepair {
			key[0] = "" // the same in all phases
		}
		f := executed[key]
		f.began++
		switch e.Status {
		case contract.ExecutionCompleted:
			f.completed++
		case contract.ExecutionFailed:
			f.failed++
		case contract.ExecutionRunning, contract.ExecutionCancelled:
		}
		executed[key] = f
	}
	for key, f := range executed {
		p, step := contract.Phase(key[0]), key[1]
		started, completed, failed := p.Started(), p.CompletedEvent(), p.ErrorEvent()
		if step != "" {
			started, completed, failed = contract.EventStepStarted, contract.EventStepCompleted, contract.EventStepError
		}
		require.Equal(c, f.began, c.count(started, step), c.which("each of %d executions of %s %s started once", f.began, p, step))
		require.Equal(c, f.completed, c.count(completed, step), c.which("each execution of %s %s completed once", p, step))
		ends := c.count(failed, step)
		require.GreaterOrEqual(c, ends, f.failed, c.which("each failed execution of %s %s has an event", p, step))
		require.LessOrEqual(c, ends, f.began-f.completed, c.which("each execution of %s %s ended once", p, step))
	}
}

// healedOnce checks that each heal has one row, one start and one end. A replayed run continues the
// numbering from the point of the replay.
func (c *checked) healedOnce() {
	c.Helper()
	ends := 0
	var counted []store.HealEvent // by the run as it is now
	for _, h := range c.run.SelfHealEvents {
		require.LessOrEqual(c, h.Number, len(counted)+1, c.which("heals are numbered without gaps"))
		if c.replays() == 0 {
			require.Equal(c, len(counted)+1, h.Number, c.which("heals are numbered without duplicates"))
		}
		counted = append(counted[:h.Number-1], h)
		if h.Status == contract.HealSuccess || h.Status == contract.HealFailed {
			ends++
			require.NotNil(c, h.FinishedAt, c.which("heal %d is %s, but has no end time", h.Number, h.Status))
		} else if c.run.Status.Terminal() {
			require.Failf(c, "a heal did not end", c.which("heal %d is %s", h.Number, h.Status))
		}
	}
	require.Equal(c, len(c.run.SelfHealEvents), c.count(contract.EventHealStarted, ""), c.which("each heal began once"))
	require.Equal(c, ends, c.count(contract.EventHealSuccess, "")+c.count(contract.EventHealFailed, ""), c.which("each heal ended once"))
	retries := 0
	for _, h := range counted[:min(len(counted), c.healsInHistory())] {
		if h.HealAction != contract.HealAskPerson {
			retries++
		}
	}
	if c.run.Status.Terminal() {
		require.Equal(c, retries, c.run.RetryCount, c.which("the row has the number of heals"))
	}
	for _, i := range c.run.Interventions {
		require.False(c, i.Status == "open" && c.run.Status.Terminal(), c.which("question %d is still open", i.Number))
	}
}

// healsInHistory returns the number of heals in the history of the run's workflow, before and after
// its last reset.
func (c *checked) healsInHistory() int {
	c.Helper()
	n := 0
	for _, e := range c.histories()[0].Events {
		if e.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetWorkflowType().GetName() == contract.WorkflowSelfHeal {
			n++
		}
	}
	return n
}

// histories returns the histories of the run, which are read once.
func (c *checked) histories() []History {
	c.Helper()
	if c.kept == nil {
		c.kept = c.s.Histories(c, c.id)
	}
	return c.kept
}

// takenOver reports whether a step was completed in the run that this one was forked from.
func (c *checked) takenOver(step string) bool {
	f := c.run.Settings.Fork
	return f != nil && slices.ContainsFunc(f.Kept, func(s contract.StepOutput) bool { return s.Step == step })
}

// repaired reports whether the Repair agent finished a step instead.
func (c *checked) repaired(step string) bool {
	return slices.ContainsFunc(c.run.SelfHealEvents, func(h store.HealEvent) bool {
		return h.Step == step && h.HealAction == contract.HealRepair && h.Status == contract.HealSuccess
	})
}

// count returns the number of events of a type and, unless step is empty, of a step.
func (c *checked) count(kind contract.EventType, step string) int {
	n := 0
	for _, e := range c.run.Events {
		if e.Type == kind && (step == "" || strings.Contains(string(e.Payload), `"`+step+`"`)) {
			n++
		}
	}
	return n
}

// releasedOnce checks that the branch has exactly the commits of the run's steps, and that a run
// that is not done has no branch.
func (c *checked) releasedOnce() {
	c.Helper()
	if strings.Contains(c.run.Repo, "://") {
		return
	}
	if c.run.Settings.ContinuedBranch() != "" {
		c.continuedOnce()
		return
	}
	branch := contract.Branch(c.id)
	if len(c.run.Lineage.FollowUps) > 0 { // they have moved it
		return
	}
	there := Git(c, c.run.Repo, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/"+branch)
	if c.run.ReleaseCommit == "" {
		require.Empty(c, there, c.which("nothing was released"))
		return
	}
	if c.replays() > 0 && c.run.Status != contract.StatusDone {
		return // the branch is from an earlier attempt, or was moved by someone else
	}
	require.Equal(c, branch+" "+c.run.ReleaseCommit, there, c.which("the branch is at the released commit"))
	if c.run.Settings.Release.Stay == 0 { // a run that watches its branch may fail to repair it
		require.Equal(c, contract.StatusDone, c.run.Status, c.which("only a run that is done has released"))
	}
	steps := strings.Fields(Git(c, c.run.Repo, "log", "--format=%(trailers:key=RGPT-Step,valueonly)", c.run.BaseCommit+".."+branch))
	runs := strings.Fields(Git(c, c.run.Repo, "log", "--format=%(trailers:key=RGPT-Run,valueonly)", c.run.BaseCommit+".."+branch))
	require.NotEmpty(c, steps, c.which("the branch has commits"))
	require.LessOrEqual(c, len(steps), len(c.plan.Steps)+len(c.run.SelfHealEvents), c.which("at most one commit for each step and heal"))
	sorted := slices.Compact(slices.Sorted(slices.Values(steps)))
	require.Len(c, steps, len(sorted), c.which("no step was committed twice: %v", steps))
	require.Equal(c, []string{fmt.Sprint(c.id)}, slices.Compact(runs), c.which("all commits are from this run"))
	merges := strings.Fields(Git(c, c.run.Repo, "log", "--merges", "--format=%(trailers:key=RGPT-Run,valueonly)", c.run.BaseCommit+".."+branch))
	require.LessOrEqual(c, len(merges), c.count(contract.EventStayUpdated, ""), c.which("the run has made no merges except with its base"))
}

// judged checks that exactly what was released was allowed by the policy gate, or approved by a person,
// before it was released.
func (c *checked) judged() {
	c.Helper()
	if c.run.Settings.Gate == nil || c.run.ReleaseCommit == "" || strings.Contains(c.run.Repo, "://") {
		return
	}
	tree := strings.TrimSpace(Git(c, c.run.Repo, "rev-parse", c.run.ReleaseCommit+"^{tree}"))
	verdict := slices.IndexFunc(c.run.Gate, func(v contract.GateRecord) bool {
		return v.Stage == contract.GateRelease && v.Tree == tree && (v.Decision == contract.GateAllow || v.Decision == contract.GateNeedsApproval && v.ApprovedBy != "")
	})
	require.GreaterOrEqual(c, verdict, 0, c.which("it released the tree %s, which the gate did not allow: %+v", tree, c.run.Gate))
	id := c.run.Gate[verdict].ID
	decided := slices.IndexFunc(c.run.Events, func(e contract.Event) bool {
		var of struct {
			Verdict int64 `json:"verdict_id"`
		}
		return json.Unmarshal(e.Payload, &of) == nil && of.Verdict == id
	})
	released := -1 // the last time: a run that is done again, or watches its branch, releases more than once
	for i, e := range c.run.Events {
		if e.Type == contract.PhaseReleaser.CompletedEvent() {
			released = i
		}
	}
	require.GreaterOrEqual(c, decided, 0, c.which("the verdict has no event"))
	require.True(c, released < 0 || decided < released, c.which("it was released before it was judged"))
}

// continuedOnce checks that a run that continues a branch has added its commits to it once, on top of
// where it started, and made no other branch.
func (c *checked) continuedOnce() {
	c.Helper()
	require.Empty(c, Git(c, c.run.Repo, "for-each-ref", "refs/heads/"+contract.Branch(c.id)), c.which("it has no branch of its own"))
	if c.run.ReleaseCommit == "" {
		return
	}
	require.Equal(c, c.run.Settings.FollowUp.Branch, c.run.ReleaseBranch, c.which("branch"))
	Git(c, c.run.Repo, "merge-base", "--is-ancestor", c.run.BaseCommit, c.run.ReleaseCommit)
	runs := strings.Fields(Git(c, c.run.Repo, "log", "--format=%(trailers:key=RGPT-Run,valueonly)", c.run.BaseCommit+".."+c.run.ReleaseCommit))
	require.Equal(c, []string{fmt.Sprint(c.id)}, slices.Compact(runs), c.which("all new commits are from this run"))
}

// inOrder checks that no phase or step began before its dependencies were done.
func (c *checked) inOrder() {
	c.Helper()
	before := contract.EventRunCreated
	for _, p := range contract.Phases() {
		if c.seq(p.Started(), "") == 0 {
			break
		}
		require.Less(c, c.mustSeq(before, ""), c.mustSeq(p.Started(), ""), c.which("%s came before %s", p.Started(), before))
		before = p.CompletedEvent()
	}
	for _, step := range c.plan.Steps {
		for _, need := range step.Dependencies {
			if at := c.seq(contract.EventStepStarted, step.ID); at > 0 && !c.takenOver(need) && !c.repaired(need) {
				require.Less(c, c.mustSeq(contract.EventStepCompleted, need), at, c.which("step %s began before %s was done", step.ID, need))
			}
		}
	}
}

// seq returns the number of the first event of a type and step, or 0 if there is none.
func (c *checked) seq(kind contract.EventType, step string) int64 {
	for _, e := range c.run.Events {
		if e.Type == kind && (step == "" || strings.Contains(string(e.Payload), `"`+step+`"`)) {
			return e.Seq
		}
	}
	return 0
}

func (c *checked) mustSeq(kind contract.EventType, step string) int64 {
	c.Helper()
	n := c.seq(kind, step)
	require.Positive(c, n, c.which("there is no event %s %s", kind, step))
	return n
}

// asHistorySays checks the rows against the state that a worker derives from the histories.
func (c *checked) asHistorySays() {
	c.Helper()
	var view contract.RunView
	Await(c, fmt.Sprintf("run %d to answer a query", c.id), time.Minute, func() (bool, string) {
		ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
		defer cancel()
		value, err := c.temporal.QueryWorkflow(ctx, contract.RunWorkflowID(c.id), "", contract.QueryState)
		if err == nil {
			err = value.Get(&view)
		}
		return err == nil, fmt.Sprint(err)
	})
	require.Equal(c, c.run.Status, view.Status, c.which("status"))
	require.Equal(c, c.run.Phase, view.Phase, c.which("phase"))
	require.Equal(c, c.run.WaitingFor, view.WaitingFor, c.which("reason for waiting"))
	if f := view.Failure; f != nil {
		f.Worker, f.Wait = "", 0 // inputs of a heal that rows do not store
	}
	require.Equal(c, c.run.Failure, view.Failure, c.which("failure"))
	require.Equal(c, c.run.ReleaseBranch, view.Branch, c.which("branch"))
	require.Equal(c, c.run.ReleaseCommit, view.Commit, c.which("commit"))
	require.Equal(c, c.run.RetryCount, view.RetryCount, c.which("number of heals"))
	if view.PlanID != 0 {
		require.Equal(c, c.run.PlanID, view.PlanID, c.which("current plan"))
	}
	if view.LastHealAction != "" && c.run.LastHealAction != nil {
		require.Equal(c, *c.run.LastHealAction, view.LastHealAction, c.which("last heal action"))
	}
	for _, step := range view.Steps {
		c.stepAsHistorySays(step)
	}
	c.healsAsHistorySays()
	if c.run.Status.Terminal() {
		c.resultAsHistorySays()
	}
	for _, history := range c.histories() {
		history.Replay(c)
	}
}

// healsAsHistorySays checks the rows of heals against the results of their workflows.
func (c *checked) healsAsHistorySays() {
	c.Helper()
	answers := map[string]contract.Directive{}
	for _, h := range c.histories() {
		end := h.Events[len(h.Events)-1].GetWorkflowExecutionCompletedEventAttributes()
		var d contract.Directive
		if end != nil && converter.GetDefaultDataConverter().FromPayloads(end.GetResult(), &d) == nil {
			answers[h.WorkflowID] = d
		}
	}
	last := map[int]store.HealEvent{} // by number; heals of earlier attempts no longer have a workflow
	for _, h := range c.run.SelfHealEvents {
		last[h.Number] = h
	}
	for number, h := range last {
		d, ended := answers[contract.HealWorkflowID(c.id, number)]
		require.Equal(c, ended, h.Status != contract.HealStarted, c.which("heal %d is %s", number, h.Status))
		if !ended {
			continue
		}
		require.Equal(c, []any{number, d.Action, d.Class, d.Code}, []any{d.Number, h.HealAction, h.ErrorType, h.ErrorCode}, c.which("heal %d", number))
		if d.Failed != "" {
			require.Equal(c, []any{contract.HealFailed, d.Failed}, []any{h.Status, h.Output().Result}, c.which("heal %d could not be carried out", number))
		}
	}
}

func (c *checked) stepAsHistorySays(step contract.StepView) {
	c.Helper()
	i := -1
	for n, e := range c.run.Executions {
		if e.Step == step.ID {
			i = n // the last counts
		}
	}
	if i < 0 && step.Status == contract.StepCompleted && c.takenOver(step.ID) {
		return
	}
	if i < 0 {
		require.Contains(c, []contract.StepStatus{contract.StepPending, contract.StepCancelled}, step.Status, c.which("step %s has no row", step.ID))
		return
	}
	row := c.run.Executions[i]
	if row.Status == contract.ExecutionCancelled && step.Status == contract.StepPending {
		return // it began in a workflow task that died, and no history knows of it
	}
	if row.Status != contract.ExecutionCompleted && step.Status == contract.StepCompleted {
		// The Repair agent completed it.
		require.True(c, c.repaired(step.ID), c.which("step %s is completed, but neither the builder nor the Repair agent completed it", step.ID))
		return
	}
	require.Equal(c, string(row.Status), string(step.Status), c.which("status of step %s", step.ID))
	if kept := step.Turns == 0 && c.replays() > 0; step.Status == contract.StepCompleted && !kept {
		require.Equal(c, row.Turns, step.Turns, c.which("turns of step %s", step.ID))
	}
}

func (c *checked) resultAsHistorySays() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	var result contract.RunResult
	require.NoError(c, c.temporal.GetWorkflow(ctx, contract.RunWorkflowID(c.id), "").Get(ctx, &result), c.which("its workflow succeeds"))
	if f := result.Failure; f != nil {
		f.Worker, f.Wait = "", 0
	}
	require.Equal(c, contract.RunResult{
		RunID: c.id, Status: c.run.Status, Branch: c.run.ReleaseBranch, Commit: c.run.ReleaseCommit, Failure: c.run.Failure,
	}, result, c.which("its workflow's result"))
}

// inFlight is the maximum time between the model's log entry of a response and the commit of its
// row, while many stacks share the processors. A process killed within it may lose the response; no client can reduce
// this time to zero.
const inFlight = 500 * time.Millisecond

// cancelTime is the maximum time between the model's log entry of a response and the row that says
// that its call was cancelled before the response was read.
const cancelTime = time.Second

// turn identifies a model call.
type turn struct {
	agent         string
	phase, step   string
	attempt, turn int
}

// booked checks that the cost in rows, in the budget and in the model's own log agree.
func (c *checked) booked() {
	c.Helper()
	var rows, unknown int64
	for _, call := range c.calls {
		rows += call.Usage.Tokens()
		unknown += call.Unsettled.Tokens // of workers that were killed
		if c.run.Status.Terminal() {
			require.NotEqual(c, "reserved", call.Status, c.which("a model call is still reserved"))
		}
	}
	budget, err := c.db.Budget(c.Context(), store.ScopeRun, fmt.Sprint(c.id))
	require.NoError(c, err)
	require.Equal(c, rows+unknown, budget.SpentTokens, c.which("the budget and its calls agree"))
	require.Equal(c, rows, c.run.Usage.Tokens(), c.which("the displayed total and its calls agree"))
	if c.run.Status.Terminal() {
		require.Zero(c, budget.ReservedTokens, c.which("tokens are still reserved"))
	}
	served := c.s.served(c.TB, c.id, unbooked{}, c.which)
	require.Equal(c, served, rows, c.which("the booked tokens are those that the model served"))
}

// unbooked says which turns of a run may have no booked call at all. By default, none.
type unbooked struct {
	abandoned func(turn) bool            // a response was lost in a kill, and the call was not repeated
	cancelled func(turn, time.Time) bool // the call was cancelled while a response of this time arrived
}

// served returns the tokens of the model's responses in a run, one response for each turn. A
// response that was lost in a kill was requested again, except in unbooked turns.
func (s *Stack) served(tb testing.TB, run int64, except unbooked, which func(string, ...any) string) (tokens int64) {
	tb.Helper()
	answered := map[turn][]scripted.LogEntry{}
	for _, e := range s.Requests(tb, run) {
		if e.Status == http.StatusOK {
			key := turn{e.Agent, e.Phase, e.Step, e.Attempt, e.Turn}
			answered[key] = append(answered[key], e)
		}
	}
	for key, entries := range answered {
		lost := entries[:len(entries)-1]
		if last := entries[len(entries)-1]; except.cancelled != nil && except.cancelled(key, last.Time) {
			tb.Logf("note: a call was cancelled while its response arrived: %v", last)
		} else if except.abandoned != nil && except.abandoned(key) {
			lost = entries
		} else {
			tokens += last.PromptTokens + last.CompletionTokens
		}
		for _, e := range lost {
			require.True(tb, s.KilledAfter(e.Time), which("the response to %v was neither booked nor lost in a kill: %v", key, entries))
			s.lost(tb)
		}
	}
	return tokens
}

// KilledAfter reports whether a process was killed while a response logged at the given time was
// being written to the database.
func (s *Stack) KilledAfter(at time.Time) bool {
	return slices.ContainsFunc(s.Kills(), func(k Kill) bool {
		return k.Role != devstack.RoleServer && k.At.After(at.Add(-inFlight)) && k.At.Before(at.Add(inFlight))
	})
}

// lost records a response that was lost in a kill.
func (s *Stack) lost(tb testing.TB) {
	tb.Logf("note: a response was lost between the model and its row")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostAnswers++
}

// LostAnswers returns the number of responses lost between the model and their rows.
func (s *Stack) LostAnswers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lostAnswers
}

// cleanedUp checks that a finished run has left nothing behind.
func (c *checked) cleanedUp() {
	c.Helper()
	if !c.run.Status.Terminal() {
		return
	}
	Await(c, fmt.Sprintf("the working directories of run %d and their locks to be removed", c.id), 30*time.Second, func() (bool, string) {
		var left []string
		for _, kind := range []string{"dirs", "locks"} {
			found, err := filepath.Glob(filepath.Join(c.s.DataDir, "cache", kind, fmt.Sprintf("%d+*", c.id)))
			if err != nil {
				return false, err.Error()
			}
			left = append(left, found...)
		}
		return len(left) == 0, strings.Join(left, ", ")
	})
}

// CheckSandboxes checks that no sandboxed process is running. Call it while no run is active.
func (s *Stack) CheckSandboxes(tb testing.TB) {
	tb.Helper()
	Await(tb, "all sandboxed processes to exit", 20*time.Second, func() (bool, string) {
		left := sandboxesOf(s.DataDir)
		return len(left) == 0, strings.Join(left, "; ")
	})
}

// exists reports whether a path exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
