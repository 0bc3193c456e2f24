package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/temporal"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// replies is the rule by which a member answers: one turn of an attempt, or all that
// no other rule answers where turn is 0.
func replies(agent contract.Agent, attempt, turn int, moves ...map[string]any) map[string]any {
	when := map[string]any{"agent": string(agent)}
	if turn > 0 {
		when["attempt"], when["turn"] = attempt, turn
	}
	return map[string]any{
		"when": when, "reply": map[string]any{"json": map[string]any{"moves": moves}},
		"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
	}
}

func repliesWith(kind contract.MoveKind, more ...any) map[string]any {
	m := map[string]any{"move": string(kind)}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

// deliberations are scenarios by the name that their objective has.
func deliberations() harness.Rules {
	alpha, beta, gamma := contract.AgentAlpha, contract.AgentBeta, contract.AgentGamma
	propose := repliesWith(contract.MovePropose, "key", "p1", "text", "A cache beside each worker.")
	synthesise := repliesWith(contract.MoveSynthesise, "key", "s1", "text", "One cache, with a bound.")
	accept := repliesWith(contract.MoveVote, "key", "s1", "version", 1, "accept", true, "text", "Yes.")
	hm := repliesWith(contract.MoveMessage, "to", "ALL", "text", "Let me think.")
	opening := harness.Rules{
		replies(alpha, 1, 1, repliesWith(contract.MoveAnalyse, "complexity_score", 0.4, "text", "Two caches, one truth."), propose),
		replies(beta, 1, 1, synthesise),
	}
	agree := append(slices.Clone(opening), replies(alpha, 1, 2, accept), replies(beta, 1, 2, accept))
	talk := append(slices.Clone(opening), replies(alpha, 0, 0, hm), replies(beta, 0, 0, hm), replies(gamma, 0, 0, hm))
	inherited := repliesWith(contract.MoveVote, "key", "inherited_beta_s1", "version", 1, "accept", true, "text", "Yes.")
	var all harness.Rules
	for name, rules := range map[string]harness.Rules{
		"agree": agree,
		"complex": {
			replies(alpha, 1, 1, repliesWith(contract.MoveAnalyse, "complexity_score", 0.9, "text", "Hard."), propose), replies(beta, 1, 1, synthesise),
			replies(gamma, 1, 1, repliesWith(contract.MoveVerdict, "key", "s1", "text", "It is the simpler one.")), replies(alpha, 0, 0, hm), replies(beta, 0, 0, hm),
		},
		"talk": talk,
		"recover": append(slices.Clone(opening),
			replies(alpha, 2, 1, repliesWith(contract.MoveEvaluate, "key", "inherited_beta_s1", "score", 0.9, "text", "Good.")), replies(alpha, 2, 2, inherited),
			replies(beta, 2, 1, repliesWith(contract.MoveEvaluate, "key", "inherited_alpha_p1", "score", 0.4, "text", "Less so.")), replies(beta, 2, 2, inherited),
			replies(alpha, 0, 0, hm), replies(beta, 0, 0, hm), replies(gamma, 0, 0, hm)),
	} {
		all = append(all, rules.Named(name)...)
	}
	return all
}

// spawn starts a deliberation as the server does.
func (w *stackTests) spawn(t *testing.T, name string, change ...func(*contract.DeliberationSettings)) int64 {
	t.Helper()
	model := contract.ModelChoice{Provider: "scripted", Model: "scripted"}
	s := contract.DeliberationSettings{
		Mode: contract.ModeLocal, AutoContinue: true, ModelTimeout: time.Minute,
		Models:          map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: model, contract.AgentBeta: model, contract.AgentGamma: model},
		GammaStuckAfter: 2 * time.Minute, GammaConflictAt: 3, GammaComplexityOver: 0.8, AbortAfter: 4 * time.Minute, Iterations: 10,
		Timeout: 10 * time.Minute, OpeningTimeout: 4 * time.Minute, ContinueWait: time.Hour,
		ErrorLimit: 8, RepeatLimit: 2, ViolationLimit: 1, MovesPerTurn: 8, TextLimit: 64 << 10, Entries: 100,
	}
	for _, c := range change {
		c(&s)
	}
	p, _, err := w.Store(t).SpawnPipeline(t.Context(), store.NewPipelineRow{Task: contract.DeliberationTask{TaskID: "t1", Objective: harness.Goal(name)}, Settings: s})
	require.NoError(t, err)
	require.NoError(t, temporal.StartPipeline(t.Context(), w.Temporal(t), w.Store(t), p))
	return p.ID
}

// awaitPipeline waits until a deliberation is over, with its workflow.
func (w *stackTests) awaitPipeline(t *testing.T, id int64) (p store.Pipeline, result contract.DeliberationResult) {
	t.Helper()
	require.NoError(t, w.Temporal(t).GetWorkflow(t.Context(), contract.PipelineWorkflowID(id), "").Get(t.Context(), &result))
	p, err := w.Store(t).Pipeline(t.Context(), id)
	require.NoError(t, err)
	return p, result
}

// pipelineHistories reads the histories of a deliberation and of its members.
func (w *stackTests) pipelineHistories(t *testing.T, p store.Pipeline) []harness.History {
	t.Helper()
	ids := []string{contract.PipelineWorkflowID(p.ID)}
	for _, m := range p.Members {
		ids = append(ids, contract.MemberWorkflowID(p.ID, m.Member))
	}
	var all []harness.History
	for _, id := range ids {
		h := harness.History{WorkflowID: id, History: &historypb.History{}}
		events := w.Temporal(t).GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			require.NoError(t, err, id)
			h.Events = append(h.Events, e)
		}
		all = append(all, h)
	}
	return all
}

// TestDeliberationsEndAsTheirMembersLetThem lets deliberations end in several ways
// on a real stack, at the same time, and replays every history that they made.
func TestDeliberationsEndAsTheirMembersLetThem(t *testing.T) {
	t.Parallel()
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: deliberations()})}
	once := func(s *contract.DeliberationSettings) { s.Iterations, s.Recoveries = 2, 1 }
	ids := map[string]int64{
		"agree": w.spawn(t, "agree"), "complex": w.spawn(t, "complex"), "talk": w.spawn(t, "talk"), "recover": w.spawn(t, "recover", once),
		"stop": w.spawn(t, "talk", func(s *contract.DeliberationSettings) { s.AutoContinue = false }),
	}
	harness.Await(t, "a report that waits", longest, func() (bool, string) {
		p, err := w.Store(t).Pipeline(t.Context(), ids["stop"])
		require.NoError(t, err)
		return p.Status == contract.PipelineReport && p.WaitingFor == contract.UpdateContinue, string(p.Status)
	})
	require.NoError(t, w.Temporal(t).SignalWorkflow(t.Context(), contract.PipelineWorkflowID(ids["stop"]), "", contract.UpdateStop, contract.PipelineCommand{ID: "s", By: "me"}))
	for name, want := range map[string]struct {
		status contract.PipelineStatus
		key    string
		by     contract.Member
		gamma  contract.GammaReason
		abort  contract.AbortReason
	}{
		"agree":   {status: contract.PipelineCompleted, key: "s1"},
		"complex": {status: contract.PipelineCompleted, key: "s1", by: contract.Gamma, gamma: contract.GammaComplexity},
		"talk":    {status: contract.PipelineOrchestrationFailed, abort: contract.AbortIterationLimit},
		"recover": {status: contract.PipelineCompleted, key: "inherited_beta_s1", gamma: contract.GammaRecovery},
		"stop":    {status: contract.PipelineStopped},
	} {
		p, result := w.awaitPipeline(t, ids[name])
		require.Equal(t, want.status, result.Status, "%s: %+v", name, result)
		require.Equal(t, want.key, result.Key, name)
		require.Equal(t, want.by, result.By, name)
		require.Equal(t, want.gamma, result.Metrics.GammaReason, name)
		require.Equal(t, want.abort, result.AbortReason, name)
		all := []store.Pipeline{p}
		if name == "recover" {
			require.Equal(t, result.PipelineID, p.RecoveredBy)
			require.Equal(t, contract.PipelineOrchestrationFailed, p.Status)
			last, err := w.Store(t).Pipeline(t.Context(), result.PipelineID)
			require.NoError(t, err)
			require.Equal(t, p.ID, last.PriorID)
			all = append(all, last)
		}
		require.Equal(t, want.status, all[len(all)-1].Status, "%s: its row is what its workflow says", name)
		for _, p := range all {
			for _, h := range w.pipelineHistories(t, p) {
				h.Replay(t)
				t.Logf("%s: %s has %d events, %d bytes", name, h.WorkflowID, len(h.Events), h.Bytes())
				require.Less(t, len(h.Events), 1500, h.WorkflowID)
			}
		}
	}
}

// TestARunIsPlannedByDeliberation lets a run's planner deliberate.
func TestARunIsPlannedByDeliberation(t *testing.T) {
	t.Parallel()
	rules := append(deliberations(), quickRules("10ms")...)
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: "deliberation:\n  plan_by: deliberation\n"})}
	id := w.Create(t, "--repo", harness.ShellRepo(t, filepath.Join(w.Dir, "repo")), "--goal", harness.Goal("agree"))
	require.Equal(t, contract.StatusDone, w.AwaitEnd(t, w.Store(t), id, longest).Status)
	pipelines, err := w.Store(t).ListPipelines(t.Context(), store.PipelineFilter{RunID: id})
	require.NoError(t, err)
	require.Len(t, pipelines, 1)
	require.Equal(t, contract.PipelineCompleted, pipelines[0].Status)
	require.True(t, pipelines[0].ForRun)
	require.Contains(t, w.OK(t, "run", "inspect", arg(id), "--json").Stdout, fmt.Sprintf(`"pipeline_id": %d`, pipelines[0].ID))
	for _, h := range append(w.pipelineHistories(t, pipelines[0]), w.Histories(t, id)...) {
		h.Replay(t)
	}
}

// TestKilledProcessesChangeNothingInADeliberation kills worker and Temporal while
// deliberations are under way: they end as they would have, and nothing that was
// said is lost or repeated.
func TestKilledProcessesChangeNothingInADeliberation(t *testing.T) {
	t.Parallel()
	rules := deliberations()
	for _, r := range rules {
		r["latency"] = "700ms"
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	names := []string{"agree", "complex", "talk"}
	ids := map[string][]int64{}
	start := func() {
		for _, name := range names {
			ids[name] = append(ids[name], w.spawn(t, name, func(s *contract.DeliberationSettings) { s.Iterations = 4 }))
		}
	}
	start()
	for _, name := range names { // undisturbed
		w.awaitPipeline(t, ids[name][0])
	}
	start()
	for _, role := range []devstack.Role{devstack.RoleWorker, devstack.RoleTemporal, devstack.RoleWorker} {
		before := len(w.Requests(t))
		harness.Await(t, "another model call", longest, func() (bool, string) { return len(w.Requests(t)) > before+1, "none" })
		w.Kill(t, role)
		w.Up(t)
	}
	var all []int64
	for _, name := range names {
		all = append(all, ids[name]...)
		first, want := w.awaitPipeline(t, ids[name][0])
		again, got := w.awaitPipeline(t, ids[name][1])
		require.Equal(t, want.Status, got.Status, name)
		require.Equal(t, want.AbortReason, got.AbortReason, name)
		require.Equal(t, want.Key, got.Key, name)
		if name == "agree" { // the others may take a turn more or less
			require.Equal(t, []any{want.Usage.Calls, want.Usage.Tokens()}, []any{got.Usage.Calls, got.Usage.Tokens()}, "no turn is paid again")
		}
		messages, err := w.Store(t).PipelineMessages(t.Context(), again.ID, 0, 0, false)
		require.NoError(t, err)
		require.Len(t, messages, again.Metrics.TotalMessages, name)
		for i, m := range messages {
			require.Equal(t, i+1, m.Seq, "%s: in order, without gaps", name)
		}
		for _, p := range []store.Pipeline{first, again} {
			for _, h := range w.pipelineHistories(t, p) {
				h.Replay(t)
			}
		}
	}
	require.Len(t, w.Kills(), 3)
	harness.CheckPipelines(t, w.Stack, all...)
	for turn, answers := range w.answered(t) {
		if len(answers) > 1 {
			require.True(t, w.KilledAfter(answers[0].Time), "%s was answered %d times, and nothing was killed at that moment", turn, len(answers))
		}
	}
	t.Logf("%d turns were answered, %d answers were lost between the model and their row", len(w.answered(t)), w.LostAnswers())
}

// answered returns the model's whole answers by the turn that they belong to.
func (w *stackTests) answered(t *testing.T) map[string][]scripted.LogEntry {
	t.Helper()
	out := map[string][]scripted.LogEntry{}
	for _, e := range w.Requests(t) {
		if e.Status == http.StatusOK {
			turn := fmt.Sprintf("%s of account %d, attempt %d, turn %d", e.Agent, e.Run, e.Attempt, e.Turn)
			out[turn] = append(out[turn], e)
		}
	}
	return out
}
