package harness

import (
	"context"
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
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// CheckInvariants checks what must hold for runs whatever happened to them:
//
//  1. each is over, or waits with a named reason
//  2. each side effect happened once
//  3. the rows are what the history says
//  4. no phase or step ran before what it depends on
//  5. what was booked is what the model served, and nothing was paid twice
//  6. nothing outside the workspaces changed
//  7. no secret is anywhere
//  8. each history replays
//  9. nothing is left of a run that is over
//
// They hold for runs that healed themselves, that were repeated by a reset of
// their workflow, and that were forked from others. That the faults fired and
// that most runs ended well (10) only the test knows.
func CheckInvariants(tb testing.TB, s *Stack, runs ...int64) {
	tb.Helper()
	db, temporal := s.Store(tb), s.Temporal(tb)
	for _, id := range runs {
		c := &checked{TB: tb, s: s, db: db, temporal: temporal, id: id}
		c.read()
		c.isOver()
		c.happenedOnce()
		c.releasedOnce()
		c.inOrder()
		c.asHistorySays()
		c.booked()
		c.cleanedUp()
	}
	require.Equal(tb, s.canary, digestOf(tb, filepath.Join(s.Dir, "canary")), "a folder outside of every workspace changed")
	s.CheckSecrets(tb, runs...)
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

// which names what a message is about.
func (c *checked) which(format string, args ...any) string {
	return fmt.Sprintf("run %d (%s): %s", c.id, c.run.Status, fmt.Sprintf(format, args...))
}

func (c *checked) isOver() {
	c.Helper()
	switch c.run.Status {
	case contract.StatusPaused, contract.StatusWaitingForApproval:
		require.NotEmpty(c, c.run.WaitingFor, c.which("it waits and does not say for what"))
	default:
		require.True(c, c.run.Status.Terminal(), c.which("it is neither over nor waits for somebody"))
		require.Equal(c, c.run.Status != contract.StatusDone, c.run.Failure != nil, c.which("what is not done says why"))
		require.NotNil(c, c.run.FinishedAt, c.which("it has no end"))
	}
}

// happenedOnce checks the rows for duplicates and gaps.
func (c *checked) happenedOnce() {
	c.Helper()
	for i, e := range c.run.Events {
		require.Equal(c, int64(i+1), e.Seq, c.which("events are numbered without gaps"))
	}
	require.Equal(c, int64(len(c.run.Events)), c.run.EventSeq, c.which("the row counts its events"))
	attempts := map[string]int{}
	for _, e := range c.run.Executions {
		key := string(e.Phase) + "/" + e.Step
		attempts[key]++
		require.Equal(c, attempts[key], e.Attempt, c.which("attempts of %s are counted from 1", key))
		if !deliberates(e) { // recoveries of a deliberation continue the count
			require.LessOrEqual(c, e.Attempt, 1+len(c.run.SelfHealEvents)+c.replays(), c.which("%s was carried out again without a heal", key))
		}
		if c.run.Status.Terminal() {
			require.NotEqual(c, contract.ExecutionRunning, e.Status, c.which("%s runs for ever", key))
		}
	}
	c.announcedOnce()
	c.healedOnce()
	for _, a := range c.run.Approvals {
		require.False(c, c.run.Status.Terminal() && a.Status == "pending", c.which("it is over, and still asks for the approval %s", a.ID))
	}
	names := map[string]bool{}
	for _, a := range c.run.Artifacts {
		require.False(c, names[a.Name], c.which("artifact %s is there twice", a.Name))
		names[a.Name] = true
	}
	require.Len(c, c.run.Artifacts, c.count(contract.EventArtifactAdded, ""), c.which("each artifact is announced once"))
	require.Equal(c, 1, c.count(contract.EventRunCreated, ""), c.which("it was created once"))
}

// deliberates reports whether an execution is that of a member of the deliberation that
// plans the run.
func deliberates(e store.Execution) bool {
	return e.Phase == contract.PhasePlanner && slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == e.Agent })
}

// replays is how often the run was repeated, by its events.
func (c *checked) replays() int { return c.count(contract.EventRunUpdated, "replay") }

// outcomes counts the outcomes of the executions of a phase or of a step.
type outcomes struct{ began, completed, failed int }

// announcedOnce checks that the events of each execution exist once: its beginning and
// its outcome. An end that came from outside (a stop, a timeout) may be reported only
// by the run.
func (c *checked) announcedOnce() {
	c.Helper()
	executed := map[[2]string]outcomes{}
	for _, e := range c.run.Executions {
		if deliberates(e) { // its pipeline reports it
			continue
		}
		key := [2]string{string(e.Phase), e.Step}
		if e.Step == contract.StepRepair {
			key[0] = "" // those of all phases have the same name
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
		require.GreaterOrEqual(c, ends, f.failed, c.which("each execution of %s %s that failed says so", p, step))
		require.LessOrEqual(c, ends, f.began-f.completed, c.which("each execution of %s %s ended once", p, step))
	}
}

// healedOnce checks that each heal has one row, one beginning and one end. A repeated
// run continues the count from where it began.
func (c *checked) healedOnce() {
	c.Helper()
	ends := 0
	var counted []store.HealEvent // by the run as it is now
	for _, h := range c.run.SelfHealEvents {
		require.LessOrEqual(c, h.Number, len(counted)+1, c.which("heals are numbered without gaps"))
		if c.replays() == 0 {
			require.Equal(c, len(counted)+1, h.Number, c.which("heals are numbered without doubles"))
		}
		counted = append(counted[:h.Number-1], h)
		if h.Status == contract.HealSuccess || h.Status == contract.HealFailed {
			ends++
			require.NotNil(c, h.FinishedAt, c.which("heal %d is %s since when", h.Number, h.Status))
		} else if c.run.Status.Terminal() {
			require.Failf(c, "a heal never ended", c.which("heal %d is %s", h.Number, h.Status))
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
		require.Equal(c, retries, c.run.RetryCount, c.which("heals are counted"))
	}
	for _, i := range c.run.Interventions {
		require.False(c, i.Status == "open" && c.run.Status.Terminal(), c.which("question %d waits for ever", i.Number))
	}
}

// healsInHistory is how many heals the run's workflow knows: those before its last
// reset and those after it.
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

// histories are those of the run, read once.
func (c *checked) histories() []History {
	c.Helper()
	if c.kept == nil {
		c.kept = c.s.Histories(c, c.id)
	}
	return c.kept
}

// takenOver reports whether a step was done in the run that this one was forked from.
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

// count counts events of a type and, if one is named, a step.
func (c *checked) count(kind contract.EventType, step string) int {
	n := 0
	for _, e := range c.run.Events {
		if e.Type == kind && (step == "" || strings.Contains(string(e.Payload), `"`+step+`"`)) {
			n++
		}
	}
	return n
}

// releasedOnce checks the branch: its commits are those of the run's steps, and a run
// that is not done has none.
func (c *checked) releasedOnce() {
	c.Helper()
	if strings.Contains(c.run.Repo, "://") {
		return
	}
	branch := contract.Branch(c.id)
	there := Git(c, c.run.Repo, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/"+branch)
	if c.run.ReleaseCommit == "" {
		require.Empty(c, there, c.which("nothing was released"))
		return
	}
	if c.replays() > 0 && c.run.Status != contract.StatusDone {
		return // an earlier release belongs to an earlier attempt, or to whoever moved the branch
	}
	require.Equal(c, branch+" "+c.run.ReleaseCommit, there, c.which("the branch is what was released"))
	if c.run.Settings.Release.Stay == 0 { // one that stays may fail to fix what it released
		require.Equal(c, contract.StatusDone, c.run.Status, c.which("it released something"))
	}
	steps := strings.Fields(Git(c, c.run.Repo, "log", "--format=%(trailers:key=RGPT-Step,valueonly)", c.run.BaseCommit+".."+branch))
	runs := strings.Fields(Git(c, c.run.Repo, "log", "--format=%(trailers:key=RGPT-Run,valueonly)", c.run.BaseCommit+".."+branch))
	require.NotEmpty(c, steps, c.which("the branch has commits"))
	require.LessOrEqual(c, len(steps), len(c.plan.Steps)+len(c.run.SelfHealEvents), c.which("at most one commit for each step and heal"))
	sorted := slices.Compact(slices.Sorted(slices.Values(steps)))
	require.Len(c, steps, len(sorted), c.which("no step was committed twice: %v", steps))
	require.Equal(c, []string{fmt.Sprint(c.id)}, slices.Compact(runs), c.which("all commits are of this run"))
	merges := Git(c, c.run.Repo, "rev-list", "--count", "--merges", c.run.BaseCommit+".."+branch)
	require.Equal(c, "0", merges, c.which("the branch is straight"))
}

// inOrder checks that nothing began before its dependencies were done.
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

// seq is the number of the first event of a type and step, 0 if none.
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

// asHistorySays checks the rows against what a worker derives from the histories.
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
	require.Equal(c, c.run.WaitingFor, view.WaitingFor, c.which("what it waits for"))
	if f := view.Failure; f != nil {
		f.Worker, f.Wait = "", 0 // inputs of a heal that rows do not store
	}
	require.Equal(c, c.run.Failure, view.Failure, c.which("failure"))
	require.Equal(c, c.run.ReleaseBranch, view.Branch, c.which("branch"))
	require.Equal(c, c.run.ReleaseCommit, view.Commit, c.which("commit"))
	require.Equal(c, c.run.RetryCount, view.RetryCount, c.which("how often it was healed"))
	if view.PlanID != 0 {
		require.Equal(c, c.run.PlanID, view.PlanID, c.which("which plan counts"))
	}
	if view.LastHealAction != "" && c.run.LastHealAction != nil {
		require.Equal(c, *c.run.LastHealAction, view.LastHealAction, c.which("how it was healed last"))
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
	last := map[int]store.HealEvent{} // of each number: those of earlier attempts no longer have a workflow
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
	if row.Status != contract.ExecutionCompleted && step.Status == contract.StepCompleted {
		// The Repair agent has done it instead.
		require.True(c, c.repaired(step.ID), c.which("step %s was completed by nobody", step.ID))
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
	require.NoError(c, c.temporal.GetWorkflow(ctx, contract.RunWorkflowID(c.id), "").Get(ctx, &result), c.which("its workflow ends well"))
	if f := result.Failure; f != nil {
		f.Worker, f.Wait = "", 0
	}
	require.Equal(c, contract.RunResult{
		RunID: c.id, Status: c.run.Status, Branch: c.run.ReleaseBranch, Commit: c.run.ReleaseCommit, Failure: c.run.Failure,
	}, result, c.which("its workflow's result"))
}

// inFlight is how long after the model logged an answer a killed process may lose that
// answer: the time from the last byte to the commit of its row. No client can reduce
// this to zero.
const inFlight = 150 * time.Millisecond

// turn names a model call.
type turn struct {
	agent         string
	phase, step   string
	attempt, turn int
}

// booked checks the money: rows, budget and the model's own log agree.
func (c *checked) booked() {
	c.Helper()
	var rows int64
	for _, call := range c.calls {
		rows += call.Usage.Tokens()
		if c.run.Status.Terminal() {
			require.NotEqual(c, "reserved", call.Status, c.which("a model call is open for ever"))
		}
	}
	budget, err := c.db.Budget(c.Context(), store.ScopeRun, fmt.Sprint(c.id))
	require.NoError(c, err)
	require.Equal(c, rows, budget.SpentTokens, c.which("the budget and its calls agree"))
	require.Equal(c, rows, c.run.Usage.Tokens(), c.which("the sum that people see and its calls agree"))
	if c.run.Status.Terminal() {
		require.Zero(c, budget.ReservedTokens, c.which("tokens are held for nothing"))
	}
	served := c.s.served(c.TB, c.id, c.which)
	require.Equal(c, served, rows, c.which("what was booked is what the model served"))
}

// served returns the tokens of the model's answers in a run, each to a different turn.
// An answer that was lost in a kill was asked for again.
func (s *Stack) served(tb testing.TB, run int64, which func(string, ...any) string) (tokens int64) {
	tb.Helper()
	answered := map[turn][]scripted.LogEntry{}
	for _, e := range s.Requests(tb, run) {
		if e.Status == http.StatusOK {
			key := turn{e.Agent, e.Phase, e.Step, e.Attempt, e.Turn}
			answered[key] = append(answered[key], e)
		}
	}
	for key, entries := range answered {
		last := len(entries) - 1
		for _, lost := range entries[:last] {
			require.True(tb, s.KilledAfter(lost.Time), which("the model answered %v more than once: %v", key, entries))
			s.lost(tb)
		}
		tokens += entries[last].PromptTokens + entries[last].CompletionTokens
	}
	return tokens
}

// KilledAfter reports whether a process was killed while an answer logged at a time was
// being written to the database.
func (s *Stack) KilledAfter(at time.Time) bool {
	return slices.ContainsFunc(s.Kills(), func(k Kill) bool {
		return k.Role != devstack.RoleServer && k.At.After(at.Add(-inFlight)) && k.At.Before(at.Add(inFlight))
	})
}

// lost records an answer that was lost in a kill.
func (s *Stack) lost(tb testing.TB) {
	tb.Logf("note: an answer was lost between the model and its row, and was asked for again")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lostAnswers++
}

// LostAnswers is how many answers were lost between the model and their rows.
func (s *Stack) LostAnswers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lostAnswers
}

// cleanedUp checks that nothing is left of a run that is over.
func (c *checked) cleanedUp() {
	c.Helper()
	if !c.run.Status.Terminal() {
		return
	}
	Await(c, fmt.Sprintf("the working directories of run %d to be gone, and their locks", c.id), 30*time.Second, func() (bool, string) {
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

// CheckSandboxes checks that no sandboxed process is still running; for moments when no
// run is active.
func (s *Stack) CheckSandboxes(tb testing.TB) {
	tb.Helper()
	Await(tb, "all sandboxed processes to be gone", 20*time.Second, func() (bool, string) {
		left := sandboxesOf(s.DataDir)
		return len(left) == 0, strings.Join(left, "; ")
	})
}

// exists reports whether a path exists.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
