package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func TestPagesShowRunsInEveryStatus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	rows := func(path string) (out []string) {
		doc, _ := b.page(t, path)
		for n := range doc.Descendants() {
			if n.Data == "tr" && attribute(n, "data-run") != "" {
				out = append(out, attribute(n, "data-run")+" "+attribute(n, "data-state"))
			}
		}
		return out
	}
	want := map[ui.State][]string{}
	for _, status := range contract.Statuses() {
		id := b.run(t, "goal of "+string(status))
		b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: status, Finished: status.Terminal()}})
		_, text := b.page(t, fmt.Sprintf("/runs/%d", id))
		require.Contains(t, text, "goal of "+string(status))
		state := ui.StateOf(status)
		want[state] = append([]string{fmt.Sprintf("%d %s", id, state)}, want[state]...)
	}
	for state, runs := range want {
		require.Equal(t, runs, rows("/runs?state="+string(state)))
	}
	require.Len(t, rows("/runs"), len(contract.Statuses()))
	require.Len(t, rows("/runs?time=1h"), len(contract.Statuses()))
	_, text := b.page(t, "/runs")
	require.Contains(t, text, "Waiting for you (2)")
	_, text = b.page(t, "/runs?text=nowhere")
	require.Contains(t, text, "No matching runs")
}

// attribute returns the value of an element's attribute, empty if it has none.
func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func TestAnEmptyInstallationSaysHowToStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.page(t, "/runs")
	require.Contains(t, text, "rgpt run create")
	w := b.get(t, "/")
	require.Equal(t, http.StatusFound, w.Code)
	require.Equal(t, "/runs", w.Header().Get("Location"))
}

// injections are texts that try to become more than text in a page.
var injections = []string{
	`<script>alert(1)</script>`, `"><script>alert(1)</script>`, `'><img src=x onerror=alert(1)>`, `<svg/onload=alert(1)>`, `</title><script>alert(1)</script>`,
	`</pre></td></tr></table><iframe src=javascript:alert(1)>`, `" onmouseover="alert(1)`, `' onfocus='alert(1)' autofocus='`, "` onclick=alert(1)", `javascript:alert(1)`,
	`{{.Run}}`, `{{printf "%s" .}}`, `<!--`, `-->`, `]]>`, `<base href=//evil.example>`, `<meta http-equiv=refresh content="0;url=//evil.example">`, `<form action=//evil.example>`,
	`<style>*{display:none}</style>`, `<link rel=stylesheet href=//evil.example>`, `&lt;script&gt;`, `&#60;script&#62;`, "\u2028<b>", `<a href="//evil.example">x</a>`, `</textarea><b>`, `<plaintext>`, `%3Cscript%3E`, `\u003cscript\u003e`, `\"><b>`,
	`<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`, `<noscript><p title="</noscript><img src=x onerror=alert(1)>">`,
}

// skeleton is a page without its texts: every element, every attribute. Foreign text
// may be the value of an attribute, but not of one that is an address.
func skeleton(tb testing.TB, n *html.Node, text string) string {
	tb.Helper()
	const harmless = "harmless"
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			continue
		}
		fmt.Fprintf(&b, "%d %s", c.Type, c.Data)
		for _, a := range c.Attr {
			require.False(tb, strings.HasPrefix(a.Key, "on"), "%s has %s", c.Data, a.Key)
			require.NotEqual(tb, "style", a.Key)
			value := a.Val
			switch a.Key {
			case "href", "src", "action", "data-href", "data-then", "data-stream":
				require.True(tb, value == "" || strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//") || strings.HasPrefix(value, "#") ||
					strings.HasPrefix(value, "http://127.0.0.1:8233/namespaces/default/workflows/"), "%s leads to %s", c.Data, value)
				value = strings.ReplaceAll(value, url.QueryEscape(text), harmless)
			default:
				value = strings.ReplaceAll(value, text, harmless)
				for n := len(text) - 1; n > len(harmless); n-- {
					value = strings.ReplaceAll(value, text[:n]+"…", harmless) // cut
				}
			}
			fmt.Fprintf(&b, " %s=%s", a.Key, moments.ReplaceAllString(value, "n"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// moments, durations and places differ from page to page.
var moments = regexp.MustCompile(`(cursor|after|before|at)=[^&]*|[\d.]+(ms|[smhd%])?( \d+[smh])?`)

// requireSame reports which elements one page has and the other lacks. How many of a
// kind there are depends on how long things took: an axis has ticks.
func requireSame(tb testing.TB, want, got, path string) {
	tb.Helper()
	kinds := func(page string) []string {
		lines := strings.Split(page, "\n")
		slices.Sort(lines)
		return slices.Compact(lines)
	}
	a, b := kinds(want), kinds(got)
	for _, line := range b {
		require.True(tb, slices.Contains(a, line), "%s has, and a harmless page has not: %s", path, line)
	}
	for _, line := range a {
		require.True(tb, slices.Contains(b, line), "%s lacks: %s", path, line)
	}
}

func TestNoTextOfOthersBecomesPartOfAPage(t *testing.T) {
	t.Parallel()
	harmless := setup(t)
	id := harmless.run(t, "harmless")
	harmless.fill(t, id, "harmless")
	paths := []string{"/runs?text=%s"}
	for _, tab := range ui.Tabs {
		paths = append(paths, ui.RunHref(id, tab.Name))
	}
	at := func(path, text string) string { return strings.ReplaceAll(path, "%s", url.QueryEscape(text)) }
	want := map[string]string{}
	for _, path := range paths {
		page, _ := harmless.page(t, at(path, "harmless"))
		want[path] = skeleton(t, page, "harmless")
	}
	for _, text := range injections {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.Equal(t, id, b.run(t, text))
			b.fill(t, id, text)
			for _, path := range paths {
				page, said := b.page(t, at(path, text))
				requireSame(t, want[path], skeleton(t, page, text), path)
				require.Contains(t, said, text, "it is shown, as text, on %s", path)
			}
		})
	}
}

func TestPeopleGetErrorsAsPages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	w := b.get(t, "/runs/999", browser)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), "Not found")
	w = b.get(t, "/runs?state="+url.QueryEscape("<script>"), browser)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.NotContains(t, w.Body.String(), "<script>")
	requireProblem(t, b.get(t, "/api/runs/999", browser))
}

func TestAPagedListShowsEveryRunOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 120 {
		b.run(t, "goal")
	}
	seen := map[string]int{}
	path := "/runs?text=goal"
	pages := 0
	for path != "" {
		pages++
		doc, _ := b.page(t, path)
		path = ""
		for n := range doc.Descendants() {
			if n.Data == "tr" && attribute(n, "data-run") != "" {
				seen[attribute(n, "data-run")]++
			}
			if attribute(n, "rel") == "next" {
				path = attribute(n, "href")
			}
		}
	}
	require.Equal(t, 3, pages)
	require.Len(t, seen, 120)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
}

func TestALongRunHasAShortPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "long")
	ref := b.record(t, contract.Record{RunID: id, Begin: &contract.ExecutionBegin{Phase: contract.PhaseTester, Agent: contract.AgentTester}})
	cases := make([]contract.TestCase, 5000)
	findings := make([]contract.Finding, 1000)
	for i := range cases {
		cases[i] = contract.TestCase{Name: fmt.Sprintf("Test%d", i), Status: contract.TestPassed}
	}
	cases[4999] = contract.TestCase{Name: "TestLast", Status: contract.TestFailed, Message: strings.Repeat("long ", 10_000)}
	for i := range findings {
		findings[i] = contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: fmt.Sprint("minor ", i)}
	}
	findings[999].Severity, findings[999].Message = contract.SeverityMajor, "the major one"
	require.NoError(t, b.SaveCheck(t.Context(), ref, "c", contract.CheckResult{Check: contract.Check{Category: contract.CategoryTest}}, cases, findings, ""))
	for range 4 {
		events := make([]contract.EventDraft, 1000)
		for i := range events {
			events[i] = contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]string{"message": strings.Repeat("x", 5000)}}
		}
		b.record(t, contract.Record{RunID: id, Events: events})
	}
	b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventRunUpdated, Payload: map[string]string{"message": "what happened last"}}}})
	run, err := b.Run(t.Context(), id)
	require.NoError(t, err)
	require.Greater(t, run.EventSeq, int64(5000))

	path := fmt.Sprintf("/runs/%d", id)
	w := b.get(t, path)
	require.Less(t, w.Body.Len(), 100<<10)
	body := w.Body.String()
	require.Contains(t, body, "what happened last")
	require.Contains(t, body, "TestLast", "what is not well comes first")
	require.Contains(t, body, "the major one")
	whole := b.get(t, fmt.Sprintf("/api/runs/%d", id))
	require.Equal(t, http.StatusOK, whole.Code)
	var d struct {
		Events []json.RawMessage `json:"events"`
	}
	require.NoError(t, json.Unmarshal(whole.Body.Bytes(), &d))
	require.Len(t, d.Events, int(run.EventSeq), "nothing is left out there")
}

func TestTheModelsOfAllAgentsAreShownWithTheSettingTheyComeFrom(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.page(t, "/settings/models")
	require.Contains(t, text, "set models.default", "what is missing")
	b.config.Models.Default = config.Choice{Provider: "openai", Model: "small"}
	b.config.Models.Phases = map[string]config.Choice{"planner": {Model: "big"}, "beta": {Provider: "anthropic", Model: "other"}}
	want := map[string][]string{
		"planner": {"openai/big", "models.phases.planner"}, "builder": {"openai/small", "models.default"},
		"alpha": {"openai/big", "models.phases.planner"}, "beta": {"anthropic/other", "models.phases.beta"}, "gamma": {"openai/big", "models.phases.planner"},
	}
	doc, text := b.page(t, "/settings/models")
	require.NotContains(t, text, "set models.default")
	rows := map[string]string{}
	for n := range doc.Descendants() {
		if agent, ok := strings.CutPrefix(attribute(n, "id"), "agent-"); ok {
			rows[agent] = textOf(n)
		}
	}
	require.Len(t, rows, 6, "those that call models")
	for agent, parts := range want {
		for _, part := range parts {
			require.Contains(t, rows[agent], part, agent)
		}
	}
	var said struct {
		Agents   map[contract.Agent]contract.ModelChoice
		Settings map[string]string
	}
	require.NoError(t, json.Unmarshal(b.get(t, "/api/models").Body.Bytes(), &said))
	require.Len(t, said.Agents, 6)
	for agent, parts := range want {
		choice := said.Agents[contract.Agent(agent)]
		require.Equal(t, parts[0], choice.Provider+"/"+choice.Model, agent)
		require.Equal(t, parts[1], said.Settings[agent], agent)
	}
}

func TestThoseWhoPlanARunByDeliberationAreAmongItsModels(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := contract.ModelChoice{Provider: "p", Model: "thinks"}
	settings := contract.Settings{
		Models:       map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: {Provider: "p", Model: "m"}},
		Deliberation: &contract.DeliberationSettings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: at, contract.AgentBeta: at, contract.AgentGamma: at}},
	}
	for by, shown := range map[string]bool{"": false, contract.PlanByDeliberation: true} {
		settings.PlanBy = by
		run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: settings})
		require.NoError(t, err)
		b.record(t, contract.Record{RunID: run.ID, Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
		doc, text := b.page(t, ui.RunHref(run.ID, "models"))
		require.Equal(t, shown, strings.Contains(text, "p/thinks"), by)
		require.Equal(t, shown, slices.Contains(attributes(doc, "id"), "agent-gamma"), by)
	}
}

// asksModel makes an agent of a run call a model once.
func (b *fixture) asksModel(tb testing.TB, e contract.ExecutionRef, turn int, model string) {
	tb.Helper()
	call, err := b.ReserveCall(tb.Context(), store.Reservation{Execution: e, Turn: turn, Provider: "p", Model: model, Scopes: []store.Scope{store.RunScope(e.RunID, contract.RunBudget{})}})
	require.NoError(tb, err)
	require.NoError(tb, b.CompleteCall(tb.Context(), call.ID, contract.Usage{Calls: 1}, time.Second, json.RawMessage(`{}`), nil))
}

func TestTheModelsOfARunAreThoseThatItUses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at, better := contract.ModelChoice{Provider: "p", Model: "thinks"}, contract.ModelChoice{Provider: "p", Model: "better"}
	b.temporal.Client = &liveTemporal{view: contract.RunView{Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: at, contract.AgentAlpha: better, contract.AgentBeta: at}}}
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{
		Models: map[contract.Agent]contract.ModelChoice{contract.AgentPlanner: at}, PlanBy: contract.PlanByDeliberation,
		Deliberation: &contract.DeliberationSettings{Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: at, contract.AgentBeta: at, contract.AgentGamma: at}},
	}})
	require.NoError(t, err)
	require.NoError(t, b.MarkStarted(t.Context(), run.ID, contract.RunWorkflowID(run.ID), "0199"))
	alpha, gamma := b.begin(t, run.ID, contract.PhasePlanner, "alpha", contract.AgentAlpha), b.begin(t, run.ID, contract.PhasePlanner, "gamma", contract.AgentGamma)
	b.asksModel(t, alpha, 1, "thinks")
	b.asksModel(t, alpha, 2, "better")
	b.asksModel(t, gamma, 1, "better")
	rows := func() map[string]string {
		out := map[string]string{}
		doc, _ := b.page(t, ui.RunHref(run.ID, "models"))
		for n := range doc.Descendants() {
			if agent, ok := strings.CutPrefix(attribute(n, "id"), "agent-"); ok {
				out[agent] = strings.Join(strings.Fields(textOf(n)), " ")
			}
			if agent, ok := strings.CutPrefix(attribute(n, "id"), "switch-"); ok && agent != "" {
				out[agent] += " can be switched"
			}
		}
		return out
	}
	live := rows()
	require.Contains(t, live["alpha"], "p/better switched")
	require.Contains(t, live["alpha"], "also used p/thinks")
	require.Contains(t, live["beta"], "p/thinks")
	for _, agent := range []string{"planner", "alpha", "beta", "gamma"} {
		require.Contains(t, live[agent], "can be switched", agent)
	}
	b.record(t, contract.Record{RunID: run.ID, Run: &contract.RunChange{Status: contract.StatusDone, Finished: true}})
	ended := rows()
	require.Contains(t, ended["gamma"], "p/better switched", "all that it asked")
	require.Contains(t, ended["alpha"], "also used p/better")
	require.NotContains(t, ended["alpha"], "can be switched")
}

func TestTheCostOfARunShowsItsBudgets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Models.Budgets.ProjectMonthTokens = 9000
	limits := contract.RunBudget{Tokens: 1000, Agents: map[contract.Agent]contract.AgentBudget{contract.AgentBuilder: {Tokens: 700}}}
	run, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "<b>app", GoalTitle: "g", Settings: contract.Settings{RunBudget: limits}})
	require.NoError(t, err)
	e := b.begin(t, run.ID, contract.PhaseBuilder, "step", contract.AgentBuilder)
	month := store.PeriodScope(store.ScopeProject, "<b>app", time.Now(), store.Monthly, 9000, 0)
	reservation := store.Reservation{Execution: e, Turn: 1, Provider: "p", Model: "m", Prompt: 640, Scopes: append(store.RunScopes(run.ID, limits), month)}
	call, err := b.ReserveCall(t.Context(), reservation)
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), call.ID, contract.Usage{Calls: 1, PromptTokens: 640}, time.Second, json.RawMessage(`{}`), nil))
	reservation.Turn, reservation.Prompt = 2, 37
	_, err = b.ReserveCall(t.Context(), reservation)
	require.NoError(t, err)

	_, text := b.page(t, ui.RunHref(run.ID, "cost"))
	text = strings.Join(strings.Fields(text), " ")
	for _, shown := range []string{
		"The agent builder in run 1 execution.agents.builder warned", "This run execution.run", "The day " + time.Now().UTC().Format(time.DateOnly),
		"The project <b>app in " + time.Now().UTC().Format("2006-01") + " models.budgets.project_month",
	} {
		require.Contains(t, text, shown)
	}
	require.NotContains(t, text, "The tenant", "it has no limit")
	var d views.RunDetails
	require.NoError(t, json.Unmarshal(b.ask(t, http.MethodGet, "/api/runs/1").Body.Bytes(), &d))
	require.Equal(t, []views.BudgetState{
		{Budget: store.Budget{Kind: store.ScopeRun, Key: "1", SpentTokens: 640, ReservedTokens: 37}, LimitTokens: 1000},
		{Budget: store.Budget{Kind: store.ScopeAgent, Key: "1/builder", SpentTokens: 640, ReservedTokens: 37, Warned: true}, LimitTokens: 700},
	}, d.Budgets)
}
