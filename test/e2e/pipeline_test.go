package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// Exit codes of commands about pipelines.
const (
	exitConsensus   = 0
	exitNoConsensus = 2
	exitAborted     = 3
)

// deliberate is the longest that a chain of pipelines may take.
const deliberate = 6 * time.Minute

// pipelineTests is what the tests of one stack of pipelines share.
type pipelineTests struct {
	*harness.Stack
	mu        sync.Mutex
	pipelines []int64 // of their own
	runs      []int64 // that deliberations planned
}

// TestPipelinesDeliberate shares one stack, whose time-outs are so long that only
// what a scenario does brings GAMMA in or ends a pipeline.
func TestPipelinesDeliberate(t *testing.T) {
	t.Parallel()
	rules := harness.ReadRules(t, filepath.Join(harness.Root(), "examples", "pipeline", "caching.yaml"))
	for name, r := range map[string]harness.Rules{
		"forced": agreeing("forced"), "waits": agreeing("waits"), "remote": agreeing("remote"), "complex": agreeing("complex"),
		"conflict": conflicting(), "validated": validated(), "rounds": talking("rounds"), "late": slowThinkRules(), "silent": silent(),
		"alone": partnerFailsRules(), "nobody": bothFailRules(), "stopped": slowThinkRules(), "revoked": selfAgreementRules("revoked"),
		"planned":  append(agreeing("planned"), oneStep(call("create_file", "path", "made.txt", "content", "made\n"))...),
		"too-hard": append(agreeing("too-hard"), complexRules()...),
	} {
		rules = append(rules, r.Named(name)...)
	}
	c := &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: `deliberation:
  gamma_stuck_after: 10m
  abort_after: 20m
  timeout: 30m
  opening_timeout: 10m
  iterations: 6
  recoveries: 1
`})}
	t.Run("side by side", func(t *testing.T) {
		t.Run("a caching strategy is agreed upon, with GAMMA for its complexity", parallel(c.caching))
		t.Run("GAMMA joins and decides where proposals compete", parallel(c.conflict))
		t.Run("GAMMA validates where both are done", parallel(c.success))
		t.Run("GAMMA is there from the start where that is asked for, or the task is complex", parallel(c.forced))
		t.Run("too many rounds end it, and the recovery succeeds", parallel(c.recovers))
		t.Run("time ends it, and recoveries run out", parallel(c.runsOut))
		t.Run("everybody is done without an agreement", parallel(c.noConsensus))
		t.Run("one goes on alone where the other fails", parallel(c.oneFails))
		t.Run("a revoked agent leaves the other alone", parallel(c.revoked))
		t.Run("nothing is left where both fail", parallel(c.bothFail))
		t.Run("a pipeline waits with its report until somebody continues it", parallel(c.continued))
		t.Run("a stopped pipeline ends within 10 s", parallel(c.stopped))
		t.Run("a server does what the machine itself does", parallel(c.remotely))
		t.Run("a deliberation plans a run, where asked for or where it is complex", parallel(c.plans))
	})
	slices.Sort(c.pipelines)
	t.Logf("%d pipelines", len(c.pipelines))
	harness.CheckPipelines(t, c.Stack, c.pipelines...)
	var runs struct {
		Runs []store.Run `json:"runs"`
	}
	c.OK(t, "run", "list", "--json").JSON(t, &runs)
	require.Len(t, runs.Runs, len(c.runs), "what carries pipelines is no run")
	harness.CheckInvariants(t, c.Stack, c.runs...)
}

// TestPipelinesThatGetNowhereAreHelpedAndGivenUp has a stack of its own, in which
// GAMMA joins early and whoever is stuck is given up soon.
func TestPipelinesThatGetNowhereAreHelpedAndGivenUp(t *testing.T) {
	t.Parallel()
	rules := append(firstAttemptStuckRules().Named("stuck"), lateOpening().Named("late-opening")...)
	c := &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: `deliberation:
  gamma_stuck_after: 5s
  abort_after: 25s
  timeout: 30m
  opening_timeout: 5s
  recoveries: 1
`})}
	t.Run("GAMMA joins, it is given up, and the recovery succeeds", func(t *testing.T) {
		r, result := c.spawned(t, "stuck")
		require.Equal(t, exitConsensus, r.Code, "%s", r)
		require.Len(t, result.Pipelines, 2)
		first := c.pipeline(t, result.Pipelines[0])
		require.Equal(t, []any{contract.PipelineOrchestrationFailed, contract.AbortStuck, contract.GammaStuck}, []any{first.Status, first.AbortReason, first.Metrics.GammaReason})
		require.Equal(t, contract.GammaRecovery, c.pipeline(t, result.PipelineID).Metrics.GammaReason)
	})
	t.Run("an opening that takes too long holds nobody up", func(t *testing.T) {
		r, result := c.spawned(t, "late-opening")
		require.Equal(t, exitConsensus, r.Code, "%s", r)
		report, err := c.Store(t).PipelineReport(t.Context(), result.Pipelines[0], contract.ReportCheckpoint, true)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(report.Agents, func(m contract.MemberView) bool {
			return m.Member == contract.Beta && m.Status == contract.MemberTimedOut
		}), "%v", report.Agents)
		require.Contains(t, strings.Join(c.agreed(t, result.PipelineID), "\n"), "another way", "what came late counts")
	})
	harness.CheckPipelines(t, c.Stack, c.pipelines...)
}

// TestAPipelineSurvivesKills kills the worker and Temporal in the middle of one, at
// chosen statuses and at points that seeds draw. It comes to what it comes to
// without.
func TestAPipelineSurvivesKills(t *testing.T) {
	t.Parallel()
	rules := append(agreeing("killed").Named("killed"), agreeing("killed-run").Named("killed-run")...)
	for _, r := range rules {
		r["latency"] = "1500ms"
	}
	switched := agreeing("switched")
	for _, r := range switched {
		r["latency"] = "4s" // for the switch to come in the opening
	}
	rules = append(rules, switched.Named("switched")...)
	for _, run := range []string{"killed-run", "switched"} {
		rules = append(rules, oneStep(call("create_file", "path", "made.txt", "content", "made\n")).Named(run)...)
	}
	c := &pipelineTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: `deliberation:
  gamma_stuck_after: 10m
  abort_after: 20m
  timeout: 30m
  opening_timeout: 10m
`})}
	r, undisturbed := c.spawned(t, "killed")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	for _, role := range []devstack.Role{devstack.RoleWorker, devstack.RoleTemporal} {
		for _, status := range []contract.PipelineStatus{contract.PipelineRunning, contract.PipelineOrchestrating} {
			id := c.note(c.Spawn(t, "--objective", harness.Goal("killed"), "--auto-continue"))
			c.AwaitPipeline(t, id, string(status), deliberate, func(p store.Pipeline) bool { return p.Status == status })
			c.Kill(t, role)
			c.Up(t)
			r := c.RGPT(t, "pipeline", "watch", fmt.Sprint(id))
			require.Equal(t, exitConsensus, r.Code, "%s killed while %s: %s", role, status, r)
			require.Equal(t, undisturbed.Final, resultIn(t, r).Final)
			require.Equal(t, c.agreed(t, undisturbed.PipelineID), c.agreed(t, id), "%s killed while %s", role, status)
		}
	}
	c.stoppedAndCancelledMeanwhile(t)
	c.switchedMeanwhile(t)
	kills := c.killsAnywhere(t)
	require.Len(t, c.Kills(), 5+kills)
	harness.CheckPipelines(t, c.Stack, c.pipelines...)
	harness.CheckInvariants(t, c.Stack, c.runs...)
}

// stoppedAndCancelledMeanwhile stops and cancels a pipeline whose worker is dead: the
// next one finds both at once, and tells who stopped it.
func (c *pipelineTests) stoppedAndCancelledMeanwhile(t *testing.T) {
	t.Helper()
	id := c.note(c.Spawn(t, "--objective", harness.Goal("killed"), "--auto-continue"))
	c.AwaitPipeline(t, id, "its opening", deliberate, func(p store.Pipeline) bool { return p.Status == contract.PipelineRunning })
	c.Kill(t, devstack.RoleWorker)
	workflow, temporal := contract.PipelineWorkflowID(id), c.Temporal(t)
	require.NoError(t, temporal.SignalWorkflow(t.Context(), workflow, "", contract.UpdateStop, contract.PipelineCommand{ID: "stop", By: "ann", Reason: "too dear"}))
	require.NoError(t, temporal.CancelWorkflow(t.Context(), workflow, ""))
	c.Up(t)
	p := c.AwaitPipeline(t, id, "its end", deliberate, func(p store.Pipeline) bool { return p.Status.Terminal() })
	require.Equal(t, contract.PipelineStopped, p.Status)
	require.Contains(t, p.Failure.Message, "stopped by ann (too dear)")
}

// switchedMeanwhile lets a member of a run's deliberation use another model from its
// next turn on.
func (c *pipelineTests) switchedMeanwhile(t *testing.T) {
	t.Helper()
	s := c.planned(t, "switched")
	c.AwaitPipeline(t, s.pipeline, "its opening", deliberate, func(p store.Pipeline) bool { return p.Status == contract.PipelineRunning })
	c.OK(t, "run", "switch-model", fmt.Sprint(s.run), "--agent", "beta", "--model", "scripted/other")
	c.end(t, s)
	turns := map[string][]int{}
	for _, e := range c.Requests(t, s.run) {
		turns[e.Agent+" "+e.Model] = append(turns[e.Agent+" "+e.Model], e.Turn)
	}
	require.Equal(t, []int{1}, turns["beta scripted"], "of %v", turns)
	require.Contains(t, turns["beta other"], 2, "of %v", turns)
	require.Empty(t, turns["alpha other"], "of %v", turns)
}

// agreed is what a pipeline came to: proposals, syntheses and votes.
func (c *pipelineTests) agreed(t *testing.T, id int64) (out []string) {
	t.Helper()
	entries, err := c.Store(t).PipelineEntries(t.Context(), id, true, true)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Kind == contract.MovePropose || e.Kind == contract.MoveSynthesise || e.Key == contract.KeyFinal {
			out = append(out, fmt.Sprint(e.Section, e.Key, e.Version, e.Author, e.State, e.Value.Head))
		}
	}
	votes, err := c.Store(t).PipelineVotes(t.Context(), id, true)
	require.NoError(t, err)
	for _, v := range votes {
		out = append(out, fmt.Sprint(v.Voter, v.Key, v.Version, v.Accept))
	}
	slices.Sort(out)
	return out
}

func (c *pipelineTests) note(id int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pipelines = append(c.pipelines, id)
	return id
}

// ending is what the last line of a pipeline that was followed says.
type ending struct {
	Consensus            bool                         `json:"consensus"`
	TaskID               string                       `json:"task_id"`
	Metrics              contract.DeliberationMetrics `json:"metrics"`
	AbortReason          contract.AbortReason         `json:"abort_reason"`
	RequiresAutoRecovery bool                         `json:"requires_auto_recovery"`
	PipelineID           int64                        `json:"pipeline_id"`
	Status               contract.PipelineStatus      `json:"status"`
	Final                string                       `json:"final"`
	Pipelines            []int64                      `json:"pipelines"`
}

// resultIn reads the last line.
func resultIn(t *testing.T, r harness.Result) (out ending) {
	t.Helper()
	lines := strings.Split(strings.TrimRight(r.Stdout, "\n"), "\n")
	text, ok := strings.CutPrefix(lines[len(lines)-1], "ORCHESTRATION_RESULT:")
	require.True(t, ok, "the last line is the result: %s", r)
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

// spawned makes a pipeline of a scenario and waits for its end.
func (c *pipelineTests) spawned(t *testing.T, scenario string, args ...string) (harness.Result, ending) {
	t.Helper()
	r := c.RGPT(t, append([]string{"pipeline", "spawn", "--objective", harness.Goal(scenario), "--auto-continue", "--wait"}, args...)...)
	result := resultIn(t, r)
	c.note(result.Pipelines[0])
	return r, result
}

func (c *pipelineTests) pipeline(t *testing.T, id int64) store.Pipeline {
	t.Helper()
	p, err := c.Store(t).Pipeline(t.Context(), id)
	require.NoError(t, err)
	return p
}

// eventTypes returns the types of a pipeline's events, in order.
func (c *pipelineTests) eventTypes(t *testing.T, id int64) (types []contract.EventType, statuses []string) {
	t.Helper()
	events, err := c.Store(t).PipelineEvents(t.Context(), id, 0, 0)
	require.NoError(t, err)
	for _, e := range events {
		types = append(types, e.Type)
		var status struct {
			Status string `json:"status"`
		}
		if e.Type == contract.EventPipelineSpawned || e.Type == contract.EventPipelineUpdated {
			require.NoError(t, json.Unmarshal(e.Payload, &status))
			statuses = append(statuses, status.Status)
		}
	}
	return types, statuses
}

func (c *pipelineTests) caching(t *testing.T) {
	r := c.RGPT(t, "pipeline", "spawn", "--objective", "Design a caching strategy", "--auto-continue", "--wait", "--json")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	result := resultIn(t, r)
	id := c.note(result.PipelineID)
	require.Equal(t, []any{true, false, contract.AbortReason(""), contract.PipelineCompleted}, []any{result.Consensus, result.RequiresAutoRecovery, result.AbortReason, result.Status})
	require.Contains(t, result.Final, "60 s as the bound")
	types, statuses := c.eventTypes(t, id)
	require.Equal(t, []string{"SPAWNED", "RUNNING", "REPORT", "ORCHESTRATING", "COMPLETED"}, statuses)
	for _, want := range []contract.EventType{
		contract.EventOrchestrationStarted, contract.EventAgentSpawned, contract.EventAgentMessage, contract.EventGammaSpawned,
		contract.EventBlackboardWritten, contract.EventVoteCast, contract.EventConsensusReached, contract.EventOrchestrationComplete,
	} {
		require.Contains(t, types, want)
	}
	p := c.pipeline(t, id)
	require.Equal(t, []any{true, contract.GammaComplexity, true}, []any{p.Metrics.GammaSpawned, p.Metrics.GammaReason, p.Metrics.Consensus})
	require.Equal(t, p.Metrics, result.Metrics)
	require.Len(t, p.Members, 3)
	require.Equal(t, contract.ModeLocal, p.Mode)
	require.Equal(t, "cache", p.Consensus.About)
	require.Equal(t, 1, p.Metrics.ConflictsDetected, "two proposals at once")
	require.Equal(t, 1, p.Metrics.ConflictsResolved)
	require.InDelta(t, p.Metrics.Score(p.Settings.Iterations), p.Metrics.PerformanceScore, 0.001)
	report, err := c.Store(t).PipelineReport(t.Context(), id, contract.ReportCheckpoint, true)
	require.NoError(t, err)
	require.NotEmpty(t, report.Blackboard)
	histories := c.PipelineHistories(t, p)
	require.Len(t, histories, 4)
	require.Less(t, len(histories[0].Events), 1500, "its history stays short")
	t.Logf("%d events, %d bytes", len(histories[0].Events), histories[0].Bytes())

	require.Contains(t, c.OK(t, "pipeline", "status", fmt.Sprint(id)).Stdout, "COMPLETED")
	require.Contains(t, c.OK(t, "pipeline", "logs", fmt.Sprint(id)).Stdout, "60 s as the bound")
	require.Equal(t, exitError, c.RGPT(t, "pipeline", "stop", fmt.Sprint(id)).Code, "it has ended")
	require.Equal(t, exitError, c.RGPT(t, "pipeline", "continue", fmt.Sprint(id)).Code)
}

func (c *pipelineTests) conflict(t *testing.T) {
	r, result := c.spawned(t, "conflict")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	p := c.pipeline(t, result.PipelineID)
	require.Equal(t, []any{contract.GammaConflict, contract.Gamma, "g1"}, []any{p.Metrics.GammaReason, p.Consensus.Author, p.Consensus.About})
}

func (c *pipelineTests) success(t *testing.T) {
	r, result := c.spawned(t, "validated")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	p := c.pipeline(t, result.PipelineID)
	require.Equal(t, []any{contract.GammaSuccess, contract.Gamma, "s1"}, []any{p.Metrics.GammaReason, p.Consensus.Author, p.Consensus.About})
}

func (c *pipelineTests) forced(t *testing.T) {
	r, result := c.spawned(t, "forced", "--gamma")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	require.Equal(t, contract.GammaForced, c.pipeline(t, result.PipelineID).Metrics.GammaReason)
	task := filepath.Join(c.Dir, "complex.yaml")
	harness.WriteFiles(t, c.Dir, map[string]string{"complex.yaml": "task_id: hard\ncomplexity: high\nconstraints: [no downtime]\n"})
	r, result = c.spawned(t, "complex", "--task", task)
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	require.Equal(t, "hard", result.TaskID)
	require.Equal(t, contract.GammaComplexity, c.pipeline(t, result.PipelineID).Metrics.GammaReason)
}

func (c *pipelineTests) recovers(t *testing.T) {
	r, result := c.spawned(t, "rounds")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	require.False(t, result.RequiresAutoRecovery)
	require.Len(t, result.Pipelines, 2)
	first, second := c.pipeline(t, result.Pipelines[0]), c.pipeline(t, result.Pipelines[1])
	require.Equal(t, []any{contract.PipelineOrchestrationFailed, contract.AbortIterationLimit, 6, second.ID}, []any{first.Status, first.AbortReason, first.Iteration, first.RecoveredBy})
	require.Equal(t, "iteration_limit", first.FailureContext.Reason)
	require.Equal(t, 6, first.FailureContext.IterationCount)
	require.NotEmpty(t, first.FailureContext.RecoveryHint)
	require.Equal(t, []any{first.ID, 2, 1, contract.GammaRecovery}, []any{second.PriorID, second.Attempt, second.RetryCount, second.Metrics.GammaReason})
	require.Equal(t, first.RunID, second.RunID, "they share an account")
	entries, err := c.Store(t).PipelineEntries(t.Context(), second.ID, false, true)
	require.NoError(t, err)
	i := slices.IndexFunc(entries, func(e contract.Entry) bool { return e.Key == "inherited_alpha_p1" })
	require.GreaterOrEqual(t, i, 0, "the proposals are inherited")
	require.Equal(t, 1, entries[i].Inherited)
	artifacts, err := c.Store(t).Artifacts(t.Context(), first.RunID)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(artifacts, func(a contract.Artifact) bool { return a.Name == first.HandoffRef }), "the handoff is an artifact: %v", artifacts)
}

func (c *pipelineTests) runsOut(t *testing.T) {
	r, result := c.spawned(t, "late", "--timeout", "3")
	require.Equal(t, exitAborted, r.Code, "%s", r)
	require.Equal(t, []any{false, contract.AbortTimeout, true, contract.PipelineTimeout}, []any{result.Consensus, result.AbortReason, result.RequiresAutoRecovery, result.Status})
	require.Len(t, result.Pipelines, 2, "one recovery, and no more")
	require.Equal(t, 3*time.Second, c.pipeline(t, result.PipelineID).Settings.Timeout, "recoveries have the same time")
	require.Zero(t, c.pipeline(t, result.PipelineID).RecoveredBy)
}

func (c *pipelineTests) noConsensus(t *testing.T) {
	r, result := c.spawned(t, "silent")
	require.Equal(t, exitNoConsensus, r.Code, "%s", r)
	require.Equal(t, []any{false, contract.AbortReason(""), contract.PipelineOrchestrationFailed}, []any{result.Consensus, result.AbortReason, result.Status})
	require.Equal(t, contract.GammaSuccess, c.pipeline(t, result.Pipelines[0]).Metrics.GammaReason, "both were done, and GAMMA had nothing to validate")
}

func (c *pipelineTests) oneFails(t *testing.T) {
	r, result := c.spawned(t, "alone")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	p := c.pipeline(t, result.PipelineID)
	i := slices.IndexFunc(p.Members, func(m contract.MemberView) bool { return m.Member == contract.Beta })
	require.Equal(t, contract.MemberFailed, p.Members[i].Status)
	require.NotNil(t, p.Members[i].Failure)
}

func (c *pipelineTests) bothFail(t *testing.T) {
	r, result := c.spawned(t, "nobody")
	require.Equal(t, exitError, r.Code, "%s", r)
	require.Equal(t, contract.PipelineFailed, result.Status)
	p := c.pipeline(t, result.PipelineID)
	require.Equal(t, "agents_failed", p.FailureContext.Reason)
	_, err := c.Store(t).PipelineReport(t.Context(), p.ID, contract.ReportCheckpoint, true)
	require.NoError(t, err)
	require.Zero(t, p.RecoveredBy, "another one would fail for the same reason")
}

func (c *pipelineTests) revoked(t *testing.T) {
	id := c.note(c.Spawn(t, "--objective", harness.Goal("revoked")))
	c.AwaitPipeline(t, id, "at its report", deliberate, func(p store.Pipeline) bool { return p.WaitingFor == contract.UpdateContinue })
	c.OK(t, "pipeline", "revoke", fmt.Sprint(id), "beta", "--reason", "it repeats itself")
	require.Equal(t, exitError, c.RGPT(t, "pipeline", "revoke", fmt.Sprint(id), "beta").Code, "it is not there any more")
	r := c.RGPT(t, "pipeline", "continue", fmt.Sprint(id), "--wait")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	p := c.pipeline(t, id)
	i := slices.IndexFunc(p.Members, func(m contract.MemberView) bool { return m.Member == contract.Beta })
	require.Equal(t, contract.MemberRevoked, p.Members[i].Status)
	require.Contains(t, p.Members[i].BlockedReason, "it repeats itself")
}

// post sends a body to the stack's server.
func (c *pipelineTests) post(t *testing.T, path string, body any, status int, out any) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	c.call(t, http.MethodPost, path, raw, status, out)
}

func (c *pipelineTests) call(t *testing.T, method, path string, raw []byte, status int, out any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.State(t).Server+path, bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%s %s: %s", method, path, text.String())
	if out != nil {
		require.NoError(t, json.Unmarshal(text.Bytes(), out), text.String())
	}
}

func (c *pipelineTests) continued(t *testing.T) {
	var made struct {
		ID      int64 `json:"pipeline_id"`
		Created bool  `json:"created"`
	}
	c.post(t, "/api/spawn", map[string]any{"objective": harness.Goal("waits"), "auto_continue": false, "mode": "local"}, http.StatusCreated, &made)
	require.True(t, made.Created)
	c.note(made.ID)
	p := c.AwaitPipeline(t, made.ID, "at its report", deliberate, func(p store.Pipeline) bool { return p.WaitingFor == contract.UpdateContinue })
	require.Equal(t, contract.PipelineReport, p.Status)
	var report contract.DeliberationReport
	c.call(t, http.MethodGet, fmt.Sprintf("/api/checkpoint/report?pipeline_id=%d", made.ID), nil, http.StatusOK, &report)
	require.Equal(t, []any{made.ID, contract.ReportCheckpoint}, []any{report.PipelineID, report.Kind})
	require.True(t, slices.ContainsFunc(report.Blackboard, func(e contract.Entry) bool { return e.Key == "p1" }))
	var ack contract.PipelineAck
	c.post(t, "/api/pipeline/errors/record", map[string]any{"pipeline_id": made.ID, "agent": "BETA", "error_type": "LLM_ERROR", "message": "made up a source"}, http.StatusOK, &ack)
	require.True(t, ack.Applied)
	c.post(t, "/api/pipeline/failure-context", map[string]any{"pipeline_id": made.ID, "context": "the network was slow"}, http.StatusOK, nil)
	c.post(t, "/api/pipeline/revoke", map[string]any{"pipeline_id": made.ID, "agent": "GAMMA"}, http.StatusConflict, nil)
	c.post(t, "/api/pipeline/continue", map[string]any{"pipeline_id": made.ID, "mode": "local", "model": "scripted/other", "timeout": 900}, http.StatusOK, &ack)
	require.True(t, ack.Applied)
	c.AwaitPipeline(t, made.ID, "over", deliberate, func(p store.Pipeline) bool { return p.Status == contract.PipelineCompleted })
	var o control.Orchestration
	c.call(t, http.MethodGet, fmt.Sprintf("/api/pipeline/%d/orchestration", made.ID), nil, http.StatusOK, &o)
	require.Equal(t, contract.PipelineCompleted, o.Status)
	require.Len(t, o.Votes, 2)
	require.Len(t, o.Errors, 1)
	require.True(t, slices.ContainsFunc(c.Requests(t, o.RunID), func(e scripted.LogEntry) bool { return e.Model == "other" && e.Turn > 1 }), "the other model was asked")
	c.post(t, "/api/pipeline/continue", map[string]any{"pipeline_id": made.ID}, http.StatusConflict, nil)
	c.post(t, fmt.Sprintf("/api/pipeline/%d/stop", made.ID), map[string]any{"reason": "late"}, http.StatusConflict, nil)
}

func (c *pipelineTests) stopped(t *testing.T) {
	id := c.note(c.Spawn(t, "--objective", harness.Goal("stopped"), "--auto-continue"))
	c.AwaitPipeline(t, id, "in the exchange", deliberate, func(p store.Pipeline) bool { return p.Status == contract.PipelineOrchestrating })
	harness.Await(t, "both to be asked in the exchange", deliberate, func() (bool, string) {
		p := c.pipeline(t, id)
		return !slices.ContainsFunc(p.Members, func(m contract.MemberView) bool { return m.Phase != "exchange" || m.Status != contract.MemberThinking }), fmt.Sprint(p.Members)
	})
	began := time.Now()
	c.OK(t, "pipeline", "stop", fmt.Sprint(id), "--reason", "enough")
	p := c.AwaitPipeline(t, id, "stopped", deliberate, func(p store.Pipeline) bool { return p.Status.Terminal() })
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, contract.PipelineStopped, p.Status)
	require.Contains(t, p.Failure.Message, "enough")
	require.Zero(t, p.RecoveredBy)
	_, err := c.Store(t).PipelineReport(t.Context(), id, contract.ReportPartial, true)
	require.NoError(t, err, "what it found is kept")
	require.Equal(t, exitAborted, c.RGPT(t, "pipeline", "watch", fmt.Sprint(id)).Code)
}

func (c *pipelineTests) remotely(t *testing.T) {
	server := c.State(t).Server
	remote := func(args ...string) harness.Result {
		return c.RunWith(t, c.Work, []string{"RGPT_SERVER=" + server}, "", append([]string{"--data-dir", filepath.Join(c.Dir, "nothing"), "pipeline"}, args...)...)
	}
	r := remote("spawn", "--objective", harness.Goal("remote"), "--auto-continue", "--wait")
	require.Equal(t, exitConsensus, r.Code, "%s", r)
	id := fmt.Sprint(c.note(resultIn(t, r).PipelineID))
	for _, args := range [][]string{{"status", id}, {"status", id, "--json"}, {"logs", id}, {"logs", id, "--json"}, {"watch", id}, {"stop", id}, {"status", "999999"}} {
		there, here := remote(args...), c.RGPT(t, append([]string{"pipeline"}, args...)...)
		require.Equal(t, here, there, "%v", args)
	}
}

// plans lets deliberations plan runs.
func (c *pipelineTests) plans(t *testing.T) {
	repo := harness.ShellRepo(t, filepath.Join(c.Dir, "repo"))
	for scenario, args := range map[string][]string{"planned": {"--plan-by", "deliberation"}, "too-hard": nil} {
		id := c.Create(t, append([]string{"--repo", repo, "--goal", harness.Goal(scenario)}, args...)...)
		c.runs = append(c.runs, id)
		run := c.AwaitEnd(t, c.Store(t), id, deliberate)
		require.Equal(t, contract.StatusDone, run.Status, "%s: %v", scenario, run.Failure)
		var list struct {
			Pipelines []store.Pipeline `json:"pipelines"`
		}
		c.OK(t, "pipeline", "list", "--run", fmt.Sprint(id), "--json").JSON(t, &list)
		require.Len(t, list.Pipelines, 1)
		p := list.Pipelines[0]
		require.Equal(t, []any{contract.PipelineCompleted, true, id}, []any{p.Status, p.ForRun, p.RunID}, scenario)
		require.Equal(t, exitConsensus, c.RGPT(t, "pipeline", "watch", fmt.Sprint(p.ID)).Code)
		require.True(t, slices.ContainsFunc(c.Requests(t, id), func(e scripted.LogEntry) bool { return e.Agent == "alpha" }), "the run paid for it")
	}
	r := c.RGPT(t, "run", "create", "--repo", repo, "--goal", "x", "--plan-by", "nobody")
	require.Equal(t, exitInput, r.Code, "%s", r)
	require.Contains(t, r.Stderr, "plan_by")
}

// complexRules is a goal that the planner finds complex until it is told what was agreed on.
func complexRules() harness.Rules {
	plan := oneStep(call("create_file", "path", "made.txt", "content", "made\n"))
	agreed := plan[0]
	agreed["when"] = on("agent", "planner", "contains", answer("too-hard"))
	step := map[string]any{
		"id": "step-001", "name": "Do all of it", "description": "At once.", "dependencies": []string{},
		"estimated_complexity": "high", "risk_level": "high", "verification_criteria": []string{}, "files": []string{},
	}
	alone := rule(on("agent", "planner"), map[string]any{"reply": map[string]any{"json": map[string]any{"summary": "Hard.", "complexity_score": 0.95, "steps": []any{step}}}}, 200)
	return append(harness.Rules{agreed, alone}, plan[1:]...)
}

// answer is what the synthesis of a scenario says.
func answer(name string) string { return "the answer to " + name }

// moves is the answer of a member.
func moves(list ...map[string]any) map[string]any {
	return map[string]any{"reply": map[string]any{"json": map[string]any{"moves": list}}}
}

// move is one move, with pairs of names and values.
func move(kind string, pairs ...any) map[string]any {
	m := on(pairs...)
	m["move"] = kind
	return m
}

func accepts(key string) map[string]any {
	return move("vote", "key", key, "accept", true, "text", "yes")
}

// seesSynthesis matches an agent that was told of the synthesis of a scenario.
func seesSynthesis(agent, name string, more ...any) map[string]any {
	return on(append([]any{"agent", agent, "contains", answer(name)}, more...)...)
}

// agreeing are ALPHA and BETA who agree as soon as BETA has brought their
// proposals together. GAMMA, where it is there, says little.
func agreeing(name string) harness.Rules {
	return harness.Rules{
		rule(seesSynthesis("alpha", name), moves(accepts("s1")), 200),
		rule(on("agent", "alpha", "turn", 1), moves(move("analyse", "complexity_score", 0.3, "text", "it is simple"), move("propose", "key", "p1", "text", "one way")), 200),
		rule(on("agent", "beta", "turn", 1), moves(move("propose", "key", "p2", "text", "another way")), 200),
		rule(on("agent", "beta", "turn", 2), moves(move("synthesise", "key", "s1", "from", []string{"p1", "p2"}, "text", answer(name)), accepts("s1")), 200),
		slow(rule(on("agent", "alpha"), moves(move("evaluate", "key", "p2", "score", 0.5, "text", "it may do")), 200)),
		slow(rule(on("agent", "beta"), moves(move("evaluate", "key", "p1", "score", 0.5, "text", "it may do")), 200)),
		slow(rule(on("agent", "gamma"), moves(move("message", "to", "ALL", "text", "go on")), 200)),
	}
}

// slow lets a rule take its time, so that others come first.
func slow(r map[string]any) map[string]any {
	r["latency"] = "2s"
	return r
}

// asleep lets a rule never answer in time.
func asleep(r map[string]any) map[string]any {
	r["latency"] = "10m"
	return r
}

// conflicting are three proposals that nobody but GAMMA brings together.
func conflicting() harness.Rules {
	return harness.Rules{
		rule(on("agent", "alpha", "turn", 1), moves(move("propose", "key", "p1", "text", "one"), move("propose", "key", "p2", "text", "two")), 200),
		rule(on("agent", "beta", "turn", 1), moves(move("propose", "key", "p3", "text", "three")), 200),
		rule(on("agent", "gamma"), moves(move("synthesise", "key", "g1", "from", []string{"p1", "p2", "p3"}, "text", "all in one"), move("verdict", "key", "g1", "text", "this is it")), 200),
		asleep(rule(on("agent", "alpha"), moves(move("done")), 200)),
		asleep(rule(on("agent", "beta"), moves(move("done")), 200)),
	}
}

// validated agree and are done, so that GAMMA looks at it.
func validated() harness.Rules {
	return first(agreeing("validated"),
		rule(seesSynthesis("alpha", "validated"), moves(accepts("s1"), move("done")), 200),
		rule(on("agent", "beta", "turn", 2), moves(move("synthesise", "key", "s1", "from", []string{"p1", "p2"}, "text", answer("validated")), accepts("s1"), move("done")), 200),
		rule(on("agent", "gamma"), moves(move("verdict", "key", "s1", "text", "it holds")), 200),
	)
}

// talking go on without end in the first attempt, and agree on what they inherit
// in the second.
func talking(name string) harness.Rules {
	return harness.Rules{
		rule(on("agent", "alpha", "attempt", 1, "turn", 1), moves(move("propose", "key", "p1", "text", "one way")), 200),
		rule(on("agent", "alpha", "attempt", 1), moves(move("message", "to", "BETA", "text", "and then?")), 200),
		rule(on("agent", "beta", "attempt", 1), moves(move("message", "to", "ALPHA", "text", "what then?")), 200),
		rule(seesSynthesis("alpha", name, "attempt", 2), moves(accepts("s2")), 200),
		rule(on("agent", "beta", "attempt", 2, "turn", 2), moves(move("synthesise", "key", "s2", "from", []string{"inherited_alpha_p1"}, "text", answer(name)), accepts("s2")), 200),
		slow(rule(on("agent", "alpha", "attempt", 2), moves(move("evaluate", "key", "inherited_alpha_p1", "score", 0.5, "text", "it may do")), 200)),
		slow(rule(on("agent", "beta", "attempt", 2), moves(move("evaluate", "key", "inherited_alpha_p1", "score", 0.5, "text", "it may do")), 200)),
		slow(rule(on("agent", "gamma"), moves(move("message", "to", "ALL", "text", "go on")), 200)),
	}
}

// slowThinkRules propose something and then think for longer than anybody waits.
func slowThinkRules() harness.Rules {
	return harness.Rules{
		rule(on("agent", "alpha", "turn", 1), moves(move("propose", "key", "p1", "text", "one way")), 200),
		rule(on("agent", "beta", "turn", 1), moves(move("propose", "key", "p2", "text", "another way")), 200),
		asleep(rule(on("agent", "alpha"), moves(move("done")), 200)),
		asleep(rule(on("agent", "beta"), moves(move("done")), 200)),
		asleep(rule(on("agent", "gamma"), moves(move("done")), 200)),
	}
}

// silent are done at once, GAMMA too.
func silent() harness.Rules {
	return harness.Rules{
		rule(on("agent", "alpha", "turn", 1), moves(move("propose", "key", "p1", "text", "one way")), 200),
		rule(on("agent", "alpha"), moves(move("done", "text", "that is all")), 200),
		rule(on("agent", "beta"), moves(move("done", "text", "that is all")), 200),
		rule(on("agent", "gamma"), moves(move("done", "text", "I cannot decide that")), 200),
	}
}

// partnerFailsRules is ALPHA, whose partner's model refuses its key.
func partnerFailsRules() harness.Rules {
	return first(selfAgreementRules("alone"), rule(on("agent", "beta"), status(401), 0))
}

// selfAgreementRules is ALPHA, who agrees with itself.
func selfAgreementRules(name string) harness.Rules {
	return harness.Rules{
		rule(on("agent", "alpha", "turn", 1), moves(move("propose", "key", "p1", "text", "one way")), 200),
		rule(on("agent", "alpha"), moves(move("synthesise", "key", "s1", "from", []string{"p1"}, "text", answer(name)), accepts("s1")), 200),
		rule(on("agent", "beta"), moves(move("message", "to", "ALPHA", "text", "go on")), 200),
	}
}

// bothFailRules has a model that takes its key.
func bothFailRules() harness.Rules {
	return harness.Rules{rule(on("agent", "alpha"), status(401), 0), rule(on("agent", "beta"), status(401), 0)}
}

// firstAttemptStuckRules think without end in the first attempt, GAMMA too.
func firstAttemptStuckRules() harness.Rules {
	return first(talking("stuck"),
		rule(on("agent", "alpha", "attempt", 1, "turn", 1), moves(move("propose", "key", "p1", "text", "one way")), 200),
		rule(on("agent", "beta", "attempt", 1, "turn", 1), moves(move("message", "to", "ALPHA", "text", "hello")), 200),
		asleep(rule(on("agent", "alpha", "attempt", 1), moves(move("done")), 200)),
		asleep(rule(on("agent", "beta", "attempt", 1), moves(move("done")), 200)),
		asleep(rule(on("agent", "gamma", "attempt", 1), moves(move("done")), 200)),
	)
}

// lateOpening is a BETA whose opening takes longer than it is waited for, and
// still counts when it comes.
func lateOpening() harness.Rules {
	late := rule(on("agent", "beta", "turn", 1), moves(move("propose", "key", "p2", "text", "another way")), 200)
	late["latency"] = "9s"
	return first(agreeing("late-opening"), late)
}
