package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// recordSpans gives a run one of each kind of span, with the text in all of them, and returns
// their keys.
func (b *fixture) recordSpans(tb testing.TB, run int64, text string) []string {
	tb.Helper()
	ctx := tb.Context()
	first, err := b.SavePlan(ctx, run, 0, text, contract.Plan{Summary: text, Steps: []contract.Step{{ID: "step-000", Name: text}}})
	require.NoError(tb, err)
	require.Positive(tb, first)
	plan, err := b.SavePlan(ctx, run, 0, text, contract.Plan{Summary: text, ComplexityScore: 0.5, Steps: []contract.Step{
		{ID: "step-001", Name: text, Description: text, Files: []string{text}, VerificationCriteria: []string{text}, RiskLevel: contract.LevelHigh},
		{ID: "step-002", Name: text, Dependencies: []string{"step-001"}, EstimatedComplexity: contract.LevelHigh},
	}})
	require.NoError(tb, err)
	step := b.record(tb, contract.Record{
		RunID: run, Run: &contract.RunChange{Status: contract.PhaseBuilder.Running(), Phase: contract.PhaseBuilder, PlanID: plan},
		Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder, Model: contract.ModelChoice{Provider: text, Model: text}},
	})
	said := func(m model.Message) store.Message {
		content, err := json.Marshal(m)
		require.NoError(tb, err)
		return store.Message{Role: string(m.Role), Content: content}
	}
	require.NoError(tb, b.OpenConversation(ctx, step.ID, []store.Message{said(model.Message{Role: model.RoleUser, Text: "asked " + text})}))
	held, err := b.ReserveCall(ctx, store.Reservation{Execution: step, Turn: 1, Provider: text, Model: text, Prompt: 100, Cost: func(int64) int64 { return 50_000 }, Scopes: []store.Scope{store.RunScope(run, contract.RunBudget{}), store.DayScope(time.Now(), 0, 0)}})
	require.NoError(tb, err)
	require.NoError(tb, b.CompleteCall(ctx, held.ID, contract.Usage{Calls: 1, PromptTokens: 1000, CompletionTokens: 234, MicroUSD: 420_000}, time.Second, []byte(`{}`),
		[]store.Message{said(model.Message{Role: model.RoleAssistant, Text: "answered " + text, ToolCalls: []model.ToolCall{{ID: "1", Name: "write_file", Arguments: fmt.Sprintf(`{"path":%q}`, "written "+text)}}})}))
	open, err := b.ReserveCall(ctx, store.Reservation{Execution: step, Turn: 2, Provider: text, Model: text, Prompt: 100, Cost: func(int64) int64 { return 70_000 }, Scopes: []store.Scope{store.RunScope(run, contract.RunBudget{})}})
	require.NoError(tb, err)
	was, err := b.artifacts.Put(ctx, []byte("diff --git a/same b/same\n+same\n"))
	require.NoError(tb, err)
	is, err := b.artifacts.Put(ctx, []byte("diff --git a/same b/same\n+same\ndiff --git a/new b/new\n+changed "+text+"\n"))
	require.NoError(tb, err)
	now := time.Now()
	for i, patch := range []string{was, is} {
		_, err = b.SaveToolResult(ctx, step.ID, 1, i, store.ToolCall{
			Tool: "write_file", Outcome: contract.ToolOutcome{OK: i == 1, Workspace: contract.Workspace{Tree: fmt.Sprint(i), Patch: patch}}, StartedAt: now.Add(-time.Second), FinishedAt: now,
		}, said(model.Message{Role: model.RoleTool, Text: "told " + text}))
		require.NoError(tb, err)
	}
	require.NoError(tb, b.SaveCheck(ctx, step, "test-go-1~2", contract.CheckResult{Check: contract.Check{ID: "test-go-1~2", Category: contract.CategoryTest, Name: text}, Message: "telling " + text, Summary: contract.TestSummary{Failed: 1}, DurationMS: 900},
		[]contract.TestCase{{Name: text, Status: contract.TestFailed, Message: "red " + text}}, nil, ""))
	b.record(tb, contract.Record{
		RunID: run, Run: &contract.RunChange{Status: contract.StatusWaitingForApproval, Phase: contract.PhaseBuilder, PlanID: plan},
		Notes: map[string]string{"id": "release-" + fmt.Sprint(run), "kind": "release", "status": "pending"},
		Heals: []contract.HealNote{{
			Number: 1, Status: contract.HealStarted, Phase: contract.PhaseBuilder, Step: "step-001", ExecutionID: step.ID, ErrorType: contract.ClassLogic, Action: contract.HealRefineStep,
			RootCause: "cause " + text, Output: contract.HealOutput{Message: "mended " + text, Before: map[string]any{"k": text}, Diff: "diff --git a/x b/x\n+" + text},
		}},
	})
	heals, err := b.Heals(ctx, run)
	require.NoError(tb, err)
	require.Len(tb, heals, 1)
	return []string{
		fmt.Sprintf("exec-%d", step.ID), fmt.Sprintf("call-%d", held.ID.Call), fmt.Sprintf("call-%d", open.ID.Call), fmt.Sprintf("tool-%d-1-0", step.ID), fmt.Sprintf("tool-%d-1-1", step.ID),
		fmt.Sprintf("check-%d-test-go-1~2", step.ID), fmt.Sprintf("heal-%d", heals[0].ID), fmt.Sprintf("wait-approval-release-%d", run),
	}
}

func TestEveryPieceOfWorkHasABarARowAndAnAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	keys := b.recordSpans(t, id, "words")
	bars, _ := b.page(t, fmt.Sprintf("/runs/%d/timeline", id))
	rows, _ := b.page(t, fmt.Sprintf("/runs/%d/timeline?as=table", id))
	for _, key := range keys {
		require.Contains(t, attributes(bars, "id"), "bar-"+key)
		require.Contains(t, attributes(rows, "id"), "row-"+key)
		_, text := b.page(t, fmt.Sprintf("/runs/%d/timeline?span=%s", id, url.QueryEscape(key)))
		require.NotContains(t, text, "Span not found", key)
	}
	for key, said := range map[string][]string{
		keys[1]: {"asked words", "answered words", "written words", "1.0k in, 234 out", "$0.42"},
		keys[2]: {"Running", "100 tokens, $0.07"},
		keys[4]: {"told words", "changed words"},
		keys[5]: {"telling words", "red words"},
		keys[6]: {"cause words", "mended words"},
	} {
		_, text := b.page(t, fmt.Sprintf("/runs/%d/timeline?span=%s", id, url.QueryEscape(key)))
		for _, word := range said {
			require.Contains(t, text, word, key)
		}
	}
	_, text := b.page(t, fmt.Sprintf("/runs/%d/timeline?span=%s", id, keys[4]))
	require.NotContains(t, text, "+same", "what the call left as it was is not its change")
	hidden, _ := b.page(t, fmt.Sprintf("/runs/%d/timeline?hide=tool", id))
	require.NotContains(t, attributes(hidden, "id"), "bar-"+keys[3])
	other := b.run(t, "other")
	_, text = b.page(t, fmt.Sprintf("/runs/%d/timeline?span=%s", other, keys[1]))
	require.NotContains(t, text, "answered words", "a span of another run is not shown")
}

func TestTheCallsOfARunSayWhyTheirModelsWereChosen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	hostile := `<b>x</b>`
	decision := &contract.RouteDecision{
		Strategy: contract.RouteBalanced, ExpectedMicroUSD: 12_000,
		Reasons: []string{"house/large has the best balance of 3 models", "the conversation " + hostile},
		Considered: []contract.RouteCandidate{
			{Provider: "house", Model: "large", ExpectedMicroUSD: 12_000, Quality: 0.9, Basis: "LiveBench: large, 2026-11-01", Value: 0.71},
			{Provider: "house", Model: "small", ExpectedMicroUSD: 3_000, Assumed: true, Quality: 0.55, Basis: "no score is known", Value: 0.68},
		},
		PassedOver: []contract.PassedOver{{Provider: "house", Model: "tiny", Why: "its context window of 1,000 tokens is too small"}},
	}
	step := b.record(t, contract.Record{RunID: id, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}})
	call := func(turn int, route *contract.RouteDecision) int64 {
		held, err := b.ReserveCall(t.Context(), store.Reservation{Execution: step, Turn: turn, Provider: "house", Model: "large", Route: route, Scopes: []store.Scope{store.RunScope(id, contract.RunBudget{})}})
		require.NoError(t, err)
		require.NoError(t, b.CompleteCall(t.Context(), held.ID, contract.Usage{PromptTokens: 10, MicroUSD: 11_000}, time.Second, []byte(`"a long answer"`), nil))
		return held.ID.Call
	}
	first, second := call(1, decision), call(2, nil)

	doc, text := b.page(t, fmt.Sprintf("/runs/%d/timeline?span=call-%d", id, first))
	require.Contains(t, attributes(doc, "id"), "route")
	for _, want := range []string{
		"balanced", "house/large has the best balance of 3 models.", "The conversation " + hostile, "house/small", "0.680", "LiveBench: large, 2026-11-01", "$0.0030 (estimated)",
		"house/tiny", "too small", "Expected to cost $0.0120, cost $0.0110.",
	} {
		require.Contains(t, text, want)
	}
	doc, _ = b.page(t, fmt.Sprintf("/runs/%d/timeline?span=call-%d", id, second))
	require.NotContains(t, attributes(doc, "id"), "route", "nothing was recorded")

	c, _ := clientOf(t, b.handler, quietly)
	calls, err := c.ModelCalls(t.Context(), id, 0, 10)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	require.Equal(t, decision, calls[0].Route)
	require.Nil(t, calls[1].Route)
	require.Equal(t, []any{first, "large", 1, contract.AgentBuilder, 1, int64(11_000)}, []any{calls[0].ID, calls[0].Model, calls[0].Attempt, calls[0].Agent, calls[0].Usage.Calls, calls[0].Usage.MicroUSD})
	raw := b.get(t, fmt.Sprintf("/api/runs/%d/calls?limit=1", id)).Body.String()
	require.Contains(t, raw, `"reasons"`)
	require.NotContains(t, raw, "a long answer")
	rest, err := c.ModelCalls(t.Context(), id, first, 10)
	require.NoError(t, err)
	require.Equal(t, calls[1:], rest)
	_, err = c.ModelCalls(t.Context(), 999999, 0, 10)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func TestACostWithoutAKnownPriceIsShownAsEstimatedEverywhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Models.Default = config.Choice{Provider: "openai", Model: "of-tomorrow"}
	id := b.run(t, "goal")
	_, err := b.SavePlan(t.Context(), id, 0, "p", contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "n"}}})
	require.NoError(t, err)
	usage := contract.Usage{Calls: 1, PromptTokens: 10, CompletionTokens: 2, MicroUSD: 420_000, EstimatedPrice: true}
	step := b.record(t, contract.Record{RunID: id, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}})
	held, err := b.ReserveCall(t.Context(), store.Reservation{
		Execution: step, Turn: 1, Provider: "openai", Model: "of-tomorrow", Scopes: []store.Scope{store.RunScope(id, contract.RunBudget{}), store.DayScope(time.Now(), 0, 0)},
		Route: &contract.RouteDecision{Strategy: contract.RouteCheapest, Reasons: []string{"why"}, ExpectedMicroUSD: 420_000, Assumed: true},
	})
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), held.ID, usage, time.Second, []byte(`{}`), nil))
	b.end(t, step, nil, &contract.Failure{Class: contract.ClassAssertion})
	builder := b.begin(t, id, contract.PhaseBuilder, "", contract.AgentBuilder)
	b.end(t, builder, nil, &contract.Failure{Class: contract.ClassAssertion})
	b.record(t, contract.Record{RunID: id, Heals: []contract.HealNote{{
		Number: 1, Status: contract.HealSuccess, Phase: contract.PhaseBuilder, ExecutionID: step.ID, ErrorType: contract.ClassAssertion, Action: contract.HealRepair,
		Output: contract.HealOutput{Usage: &usage},
	}}})
	other := b.run(t, "goal")
	pages := []string{
		fmt.Sprintf("/runs/%d/cost", id), fmt.Sprintf("/runs/%d", id), "/runs", fmt.Sprintf("/runs/%d/timeline", id),
		fmt.Sprintf("/runs/%d/timeline?span=call-%d", id, held.ID.Call), fmt.Sprintf("/runs/%d/timeline?span=exec-%d", id, step.ID), fmt.Sprintf("/runs/%d/plan?step=step-001", id),
		fmt.Sprintf("/runs/%d/heals", id), fmt.Sprintf("/runs/%d/replay?from=builder&step=step-001", id), fmt.Sprintf("/runs/%d/diff/%d", id, other), fmt.Sprintf("/runs/%d/diff/%d", other, id),
		"/settings/models",
	}
	cost := regexp.MustCompile(`\$0\.42(00)?( \(estimated\))?`)
	for _, path := range pages {
		found := cost.FindAllString(b.get(t, path).Body.String(), -1)
		require.NotEmpty(t, found, path)
		for _, said := range found {
			require.Contains(t, said, "(estimated)", path)
		}
	}
	_, text := b.page(t, fmt.Sprintf("/runs/%d/timeline?span=call-%d", id, held.ID.Call))
	require.Contains(t, text, "Expected to cost $0.4200 (estimated), cost $0.4200 (estimated).")
	_, text = b.page(t, fmt.Sprintf("/runs/%d/diff/%d", other, id))
	require.Contains(t, text, "model calls cost $0.4200 (estimated), up from $0.0000")
	require.Contains(t, text, "+$0.42 (estimated)")
	_, text = b.page(t, "/settings/models")
	require.Contains(t, text, "today $0.42 (estimated)")
	require.Contains(t, text, "unknown (estimated: ")

	var d views.RunDetails
	require.NoError(t, json.Unmarshal(b.ask(t, http.MethodGet, fmt.Sprintf("/api/runs/%d", id)).Body.Bytes(), &d))
	require.True(t, d.Usage.EstimatedPrice)
	require.True(t, d.Budgets[0].Estimated)
	require.True(t, d.Executions[0].Usage.EstimatedPrice)
	require.False(t, d.Executions[1].Usage.EstimatedPrice)
	raw := b.get(t, fmt.Sprintf("/api/runs/%d/diff/%d", id, other)).Body.String()
	require.Contains(t, raw, `"left_estimated":true`)
	require.NotContains(t, raw, `"right_estimated"`)
}

func TestACallSaysThatAnEarlierResponseAnsweredItOrThatItsOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	step := b.record(t, contract.Record{RunID: id, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}})
	reserve := func(turn int) store.CallID {
		held, err := b.ReserveCall(t.Context(), store.Reservation{Execution: step, Turn: turn, Provider: "p", Model: "m", Prompt: 1234, Scopes: []store.Scope{store.RunScope(id, contract.RunBudget{})}})
		require.NoError(t, err)
		return held.ID
	}
	cached, lost := reserve(1), reserve(2)
	require.NoError(t, b.CompleteFromCache(t.Context(), cached, store.CachedResponse{RunID: 7, CallID: 99}, []byte(`{}`), nil))
	n, err := b.GiveUpCalls(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	page := func(call store.CallID) string {
		_, text := b.page(t, fmt.Sprintf("/runs/%d/timeline?span=call-%d", id, call.Call))
		return text
	}
	require.Contains(t, page(cached), "identical to model call 99 of run 7")
	require.NotContains(t, page(cached), "workers died")
	require.Contains(t, page(lost), "up to 1.2k tokens")
	require.NotContains(t, page(lost), "identical")
	_, text := b.page(t, fmt.Sprintf("/runs/%d/cost", id))
	require.Contains(t, text, "cached responses")
	cards, err := b.Cards(t.Context(), []int64{id})
	require.NoError(t, err)
	require.Zero(t, cards[id].Tokens, "a run has used what its calls have used")
}

func TestPagesOfTimePlanAndCostAnswerWhateverIsAsked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	empty, full := b.run(t, "empty"), b.run(t, "full")
	b.recordSpans(t, full, "words")
	for path, want := range map[string]int{
		"timeline": 200, "timeline?as=table": 200, "timeline?gaps=all&lanes=all": 200, "timeline?from=0&to=1": 200, "timeline?from=999999999&to=9999999999": 200,
		"timeline?from=9&to=1": 400, "timeline?from=-1&to=5": 400, "timeline?from=x": 400, "timeline?to=99999999999999999999": 400, "timeline?hide=nothing": 400, "timeline?as=poem": 400, "timeline?span=%00": 400, "timeline?span=%FF": 400,
		"timeline?span=call-999999": 200, "timeline?span=call-x": 200, "timeline?span=tool-1-99999999999-1": 200, "timeline?span=check-1": 200, "timeline?span=-": 200, "timeline?span=" + strings.Repeat("x", 5000): 200, "timeline?span=call-9223372036854775808": 200,
		"plan": 200, "plan?step=step-001": 200, "plan?step=nothing": 200, "plan?critical=1&zoom=50": 200, "plan?zoom=77": 400, "plan?zoom=x": 400, "plan?version=x": 400, "plan?version=-1": 400, "plan?version=999999": 404, "plan?step=%00": 400,
		"cost": 200,
	} {
		for _, id := range []int64{empty, full} {
			require.Equal(t, want, b.get(t, fmt.Sprintf("/runs/%d/%s", id, path)).Code, "%d/%s", id, path)
		}
		page, _, _ := strings.Cut(path, "?")
		require.Equal(t, http.StatusNotFound, b.get(t, "/runs/999/"+page).Code, page)
	}
	require.Empty(t, b.logged(), "none of it is our mistake")
}

func TestHostileTextIsEscapedOnTimelinePlanAndCost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, text := range injections {
		id := b.run(t, text)
		paths := []string{"timeline", "timeline?as=table", "plan", "plan?step=step-001", "cost"}
		for _, key := range b.recordSpans(t, id, text) {
			paths = append(paths, "timeline?span="+url.QueryEscape(key))
		}
		for _, path := range paths {
			doc, _ := b.page(t, fmt.Sprintf("/runs/%d/%s", id, path))
			scripts := 0
			for n := range doc.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				require.NotContains(t, []string{"iframe", "img", "base", "math", "style", "object", "embed", "plaintext"}, n.Data, path)
				if n.Data == "script" {
					scripts++
				}
				for _, a := range n.Attr {
					require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style", "%s has %s on %s", n.Data, a.Key, path)
					if a.Key == "href" {
						require.True(t, strings.HasPrefix(a.Val, "/") || a.Val == "#page" || strings.HasPrefix(a.Val, "http://127.0.0.1:8233/"), a.Val)
					}
				}
			}
			require.Equal(t, 2, scripts, "those of the dashboard, on %s", path)
		}
	}
}

func TestAPlanShowsItsNotesItsRiskAndWhatItWillTake(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	plan, err := b.SavePlan(t.Context(), id, 0, "planner", contract.Plan{
		Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "n", Description: "d"}},
		Notes: []contract.Note{{Path: "main.go", StartLine: 3, EndLine: 9, Fact: "It reads <b>flags</b>."}},
	})
	require.NoError(t, err)
	micros, took := int64(120_000), int64(90_000)
	output, err := json.Marshal(map[string]any{"plan_id": plan, "review": contract.PlanReview{
		Estimate: &contract.PlanEstimate{MicroUSD: &micros, CostBasis: contract.BasisHistory, CostSamples: 5, DurationMS: &took, TimeBasis: contract.BasisHistory, TimeSamples: 4},
		Risk:     contract.PlanRisk{Level: contract.LevelHigh, Reasons: []string{"it changes CI"}},
	}})
	require.NoError(t, err)
	begun := b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: "planner_running", Phase: contract.PhasePlanner}, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner}})
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: "planner_completed", Phase: contract.PhasePlanner, PlanID: plan}, End: &contract.ExecutionEnd{ExecutionID: begun.ID, Status: contract.ExecutionCompleted, Output: output}})
	_, text := b.page(t, fmt.Sprintf("/runs/%d/plan", id))
	for _, said := range []string{"about $0.12", "about 1m30s", "high", "it changes CI", "main.go:3-9", "It reads <b>flags</b>."} {
		require.Contains(t, text, said)
	}
}

func TestAPlanShowsItsStepsItsVersionsAndWhatChanged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	b.recordSpans(t, id, "words")
	doc, text := b.page(t, fmt.Sprintf("/runs/%d/plan?step=step-002", id))
	require.Contains(t, attributes(doc, "id"), "node-step-001")
	require.Contains(t, attributes(doc, "id"), "edge-step-001-step-002")
	for _, said := range []string{"added", "removed", "step-000", "by a person", "current", "Not started yet", "Summary or complexity"} {
		require.Contains(t, text, said)
	}
	_, text = b.page(t, fmt.Sprintf("/runs/%d/plan?step=step-001", id))
	require.Contains(t, text, "Running")
	require.Contains(t, text, "Timeline")
}

func TestCostShowsWhatIsSpentAndWhatIsSetAside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	keys := b.recordSpans(t, id, "words")
	doc, text := b.page(t, fmt.Sprintf("/runs/%d/cost", id))
	for _, said := range []string{"$0.42", "$0.07", "1 call", "builder", "first time", "no limit", "1\u2009000", "The day " + time.Now().UTC().Format(time.DateOnly)} {
		require.Contains(t, text, said)
	}
	require.Contains(t, attributes(doc, "href"), fmt.Sprintf("/runs/%d/timeline?span=%s", id, keys[1]))
}

// BenchmarkTimelineOfTwoThousandBars is the whole answer for a run with 2000
// model calls and 2000 tool calls.
func BenchmarkTimelineOfTwoThousandBars(b *testing.B) {
	s := setup(b)
	id := s.run(b, "goal")
	ctx := b.Context()
	step := s.record(b, contract.Record{RunID: id, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}})
	for turn := range 2000 {
		held, err := s.ReserveCall(ctx, store.Reservation{Execution: step, Turn: turn + 1, Provider: "p", Model: "m", Scopes: []store.Scope{store.RunScope(id, contract.RunBudget{})}})
		require.NoError(b, err)
		require.NoError(b, s.CompleteCall(ctx, held.ID, contract.Usage{Calls: 1, PromptTokens: 10, MicroUSD: 10}, time.Millisecond, []byte(`{}`), nil))
		_, err = s.SaveToolResult(ctx, step.ID, turn+1, 0, store.ToolCall{Tool: "read_file", StartedAt: time.Now(), FinishedAt: time.Now()}, store.Message{Role: "tool", Content: []byte(`{"text":"x"}`)})
		require.NoError(b, err)
	}
	for _, path := range []string{"timeline", "cost", "plan"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				require.Equal(b, http.StatusOK, s.get(b, fmt.Sprintf("/runs/%d/%s", id, path)).Code)
			}
		})
	}
}
