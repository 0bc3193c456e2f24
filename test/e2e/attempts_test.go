package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/attempts"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestTheBestOfSeveralAttemptsIsReleased drives groups of attempts on a stack of its own.
func TestTheBestOfSeveralAttemptsIsReleased(t *testing.T) {
	t.Parallel()
	var rules harness.Rules
	for name, r := range map[string]harness.Rules{"attempts": attemptRules("20ms"), "slow": attemptRules("1s")} {
		rules = append(rules, r.Named(name)...)
	}
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules})}
	w.shell = harness.ShellRepo(t, filepath.Join(w.Dir, "shell"))
	t.Run("side by side", func(t *testing.T) {
		t.Run("by its size", parallel(w.attemptsBySize))
		t.Run("by a judge", parallel(w.attemptsByJudge))
		t.Run("one of them, because the others fail", parallel(w.attemptsFail))
		t.Run("none, because all are stopped", parallel(w.attemptsStopped))
		t.Run("the first that passes, if that is configured", parallel(w.attemptsFirst))
		t.Run("the same one for the same request", parallel(w.attemptsOnce))
	})
	t.Run("after a worker was killed", w.attemptsKilled)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

// attemptRules let each model make another change: small, as-small, large and broken, which fails the
// tests.
func attemptRules(latency string) harness.Rules {
	change := func(model, content string) map[string]any {
		return map[string]any{
			"when": map[string]any{"agent": "builder", "model": model}, "latency": latency,
			"reply": map[string]any{"tool_calls": []any{
				map[string]any{"name": "create_file", "arguments": map[string]any{"path": "answer.txt", "content": content}},
				map[string]any{"name": "finish", "arguments": map[string]any{"summary": "wrote it"}},
			}},
			"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 20},
		}
	}
	judge := map[string]any{
		"when":    map[string]any{"agent": "judge"},
		"latency": latency,
		"reply":   map[string]any{"json": map[string]any{"best": "B", "reason": "attempt B is better than attempt A"}},
		"usage":   map[string]any{"prompt_tokens": 300, "completion_tokens": 30},
	}
	own := harness.Rules{
		judge, change("small", "one\n"), change("as-small", "two\n"), change("large", strings.Repeat("many\n", 60)), change("broken", ""),
	}
	return append(own, harness.PlanRules(latency, writes("step-001"))[:1]...)
}

// attempts creates attempts by models, and returns their group.
func (w *stackTests) attempts(t *testing.T, scenario string, models []string, args ...string) attempts.Group {
	t.Helper()
	all := []string{"run", "create", "--json", "--repo", w.shell, "--goal", harness.Goal(scenario), "--set", "execution.max_retries=0", "--set", "execution.step.finish_checks=false", "--attempts", fmt.Sprint(len(models))}
	for _, m := range models {
		all = append(all, "--attempt-model", "scripted/"+m)
	}
	var made struct {
		Attempts attempts.Group `json:"attempts"`
	}
	r := w.OK(t, append(all, args...)...)
	r.JSON(t, &made)
	require.Len(t, made.Attempts.Attempts, len(models))
	require.Contains(t, r.Stderr, fmt.Sprintf("%d attempts", len(models)), "what they will cost is shown")
	for _, a := range made.Attempts.Attempts {
		w.note(a.RunID)
	}
	return made.Attempts
}

// decided waits until the choice is made and all attempts of a group have ended, and returns the group.
func (w *stackTests) decided(t *testing.T, g attempts.Group) attempts.Group {
	t.Helper()
	harness.Await(t, "the choice", longest, func() (bool, string) {
		now, err := attempts.Read(t.Context(), w.Store(t), g.ID)
		return err == nil && now.DecidedAt != nil, fmt.Sprint(now.Attempts, err)
	})
	for _, a := range g.Attempts {
		w.AwaitEnd(t, w.Store(t), a.RunID, longest)
	}
	var out attempts.Group
	w.OK(t, "run", "attempts", arg(g.Attempts[0].RunID), "--json").JSON(t, &out)
	require.NotNil(t, out.DecidedAt)
	return out
}

// wins requires that an attempt won and was released, and that no other one was.
func (w *stackTests) wins(t *testing.T, g attempts.Group, number int, rule string) {
	t.Helper()
	require.Equal(t, rule, g.Rule, g.Reason)
	require.NotEmpty(t, g.Reason)
	for _, a := range g.Attempts {
		run := w.Inspect(t, a.RunID)
		if a.Number == number {
			require.Equal(t, g.Winner, a.RunID, g.Reason)
			require.Equal(t, contract.StatusDone, a.Status, "%v", run.Failure)
			require.NotEmpty(t, run.ReleaseCommit)
			continue
		}
		require.NotEqual(t, contract.StatusDone, a.Status)
		require.Empty(t, harness.Git(t, run.Repo, "for-each-ref", "refs/heads/"+contract.Branch(a.RunID)), "attempt %d is not released", a.Number)
	}
}

func (w *stackTests) attemptsBySize(t *testing.T) {
	g := w.decided(t, w.attempts(t, "attempts", []string{"large", "small"}))
	w.wins(t, g, 2, contract.RuleSize)
	require.Equal(t, contract.CodeNotChosen, g.Attempts[0].Failure.Code)
	require.Equal(t, []int{60, 1}, []int{g.Attempts[0].Lines, g.Attempts[1].Lines})
	require.Contains(t, w.OK(t, "run", "attempts", arg(g.Winner)).Stdout, "was chosen (by size)")
	w.OK(t, "run", "diff", arg(g.Attempts[0].RunID), arg(g.Attempts[1].RunID))

	w.OK(t, "run", "resume", arg(g.Attempts[0].RunID), "--reason", "I prefer this one", "--wait")
	require.NotEmpty(t, w.end(t, g.Attempts[0].RunID, contract.StatusDone).ReleaseCommit, "a person overrules the choice")
}

func (w *stackTests) attemptsByJudge(t *testing.T) {
	g := w.decided(t, w.attempts(t, "attempts", []string{"small", "as-small", "large"}))
	winner := 1
	if g.Winner == g.Attempts[1].RunID {
		winner = 2
	}
	w.wins(t, g, winner, contract.RuleJudge)
	require.Equal(t, fmt.Sprintf("attempt %d is better than attempt %d", winner, 3-winner), g.Reason, "the letters that the judge saw are numbers again")
	calls := 0
	for _, r := range w.Requests(t, g.Attempts[0].RunID, g.Attempts[1].RunID) {
		if r.Agent == string(contract.AgentJudge) {
			calls++
		}
	}
	require.Equal(t, 1, calls)
	budget, err := w.Store(t).Budget(t.Context(), store.ScopeAttempts, fmt.Sprint(g.ID))
	require.NoError(t, err)
	tokens, _, _ := g.Usage()
	require.Equal(t, tokens, budget.SpentTokens, "all attempts and the judge count for one budget")
	require.Zero(t, budget.ReservedTokens)
}

func (w *stackTests) attemptsFail(t *testing.T) {
	g := w.decided(t, w.attempts(t, "attempts", []string{"broken", "large", "broken"}))
	w.wins(t, g, 2, contract.RuleOnly)
	g = w.decided(t, w.attempts(t, "attempts", []string{"broken", "broken"}))
	require.Equal(t, contract.RuleNone, g.Rule)
	require.Zero(t, g.Winner)
	require.Equal(t, exitFailed, w.RGPT(t, "run", "attempts", arg(g.Attempts[0].RunID), "--wait").Code)
}

func (w *stackTests) attemptsStopped(t *testing.T) {
	g := w.attempts(t, "slow", []string{"small", "large"})
	w.OK(t, "run", "stop", arg(g.Attempts[1].RunID), "--attempts", "--reason", "not needed")
	g = w.decided(t, g)
	require.Equal(t, contract.RuleStopped, g.Rule)
	for _, a := range g.Attempts {
		require.Equal(t, contract.StatusCancelled, a.Status)
	}
}

func (w *stackTests) attemptsFirst(t *testing.T) {
	g := w.attempts(t, "attempts", []string{"small", "large"}, "--set", "execution.attempts.stop_at_first=true", "--approve-release")
	winner := int64(0)
	harness.Await(t, "the choice", longest, func() (bool, string) {
		now, err := attempts.Read(t.Context(), w.Store(t), g.ID)
		winner = now.Winner
		return err == nil && winner != 0, fmt.Sprint(now.Rule, err)
	})
	w.AwaitStatus(t, w.Store(t), winner, contract.StatusWaitingForApproval, longest)
	w.OK(t, "run", "approve", arg(winner))
	g = w.decided(t, g)
	require.Equal(t, winner, g.Winner)
	for _, a := range g.Attempts {
		require.Equal(t, a.Chosen, a.Status == contract.StatusDone)
	}
}

func (w *stackTests) attemptsOnce(t *testing.T) {
	models := []string{"small", "large"}
	first := w.attempts(t, "attempts", models, "--idempotency-key", "best-of-two")
	var again struct {
		RunID    int64          `json:"runId"`
		Created  bool           `json:"created"`
		Attempts attempts.Group `json:"attempts"`
	}
	w.OK(t, "run", "create", "--json", "--repo", w.shell, "--goal", harness.Goal("attempts"), "--set", "execution.max_retries=0", "--set", "execution.step.finish_checks=false",
		"--attempts", "2", "--attempt-model", "scripted/small", "--attempt-model", "scripted/large", "--idempotency-key", "best-of-two").JSON(t, &again)
	require.False(t, again.Created)
	require.Equal(t, first.ID, again.Attempts.ID)
	w.wins(t, w.decided(t, first), 1, contract.RuleSize)
}

func (w *stackTests) attemptsKilled(t *testing.T) {
	g := w.attempts(t, "slow", []string{"large", "small", "as-small"})
	held := g.Attempts[0].RunID
	w.OK(t, "run", "pause", arg(held), "--attempts")
	harness.Await(t, "all attempts to be paused", longest, func() (bool, string) {
		now, err := attempts.Read(t.Context(), w.Store(t), g.ID)
		for _, a := range now.Attempts {
			if a.Status != contract.StatusPaused {
				return false, fmt.Sprint(a.RunID, a.Status)
			}
		}
		return err == nil, ""
	})
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	w.OK(t, "run", "resume", arg(held), "--attempts")
	harness.Await(t, "an attempt to build", longest, func() (bool, string) {
		all, err := w.Store(t).ModelCalls(t.Context(), held)
		for _, c := range all {
			if c.Agent == contract.AgentBuilder { // it may have been paused just before or after
				return true, ""
			}
		}
		return false, fmt.Sprint(len(all), " calls ", err)
	})
	w.Kill(t, devstack.RoleWorker)
	w.Up(t)
	g = w.decided(t, g)
	require.Equal(t, contract.RuleJudge, g.Rule, g.Reason)
	released := 0
	for _, a := range g.Attempts {
		if a.Status == contract.StatusDone {
			released++
		}
	}
	require.Equal(t, 1, released)
}
