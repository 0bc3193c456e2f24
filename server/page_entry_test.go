package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/ui"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// submit posts a form as a browser does, without a script.
func (b *fixture) submit(t *testing.T, path string, values url.Values, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	headers = append([]string{"Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html", "Sec-Fetch-Site", "same-origin"}, headers...)
	return b.send(t, http.MethodPost, path, values.Encode(), headers...)
}

// entered returns the values of the fields of a page's form.
func entered(page *html.Node) url.Values {
	out := url.Values{}
	for n := range page.Descendants() {
		name := attribute(n, "name")
		switch {
		case n.Type != html.ElementNode || name == "" || has(n, "disabled") || inDialog(n):
		case n.Data == "textarea":
			out.Set(name, textOf(n))
		case n.Data == "input" && attribute(n, "type") != "checkbox", n.Data == "input" && has(n, "checked"):
			out.Set(name, attribute(n, "value"))
		case n.Data == "select":
			out.Set(name, "")
			for o := range n.Descendants() {
				if has(o, "selected") {
					out.Set(name, attribute(o, "value"))
				}
			}
		}
	}
	return out
}

// inDialog reports whether a node belongs to the confirmation of a command, which is on every page.
func inDialog(n *html.Node) bool {
	for ; n != nil; n = n.Parent {
		if n.Type == html.ElementNode && n.Data == "dialog" {
			return true
		}
	}
	return false
}

// form returns a page's form as it is before anything is entered, with some values.
func (b *fixture) form(t *testing.T, path string, pairs ...string) url.Values {
	t.Helper()
	page, _ := b.page(t, path)
	values := entered(page)
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values
}

// shown parses the page of a response.
func shown(t *testing.T, w *httptest.ResponseRecorder) *html.Node {
	t.Helper()
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	doc, err := html.Parse(w.Body)
	require.NoError(t, err)
	return doc
}

// marked returns the names of the fields that a page marks as wrong, with what it says about them.
func marked(t *testing.T, page *html.Node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for n := range page.Descendants() {
		if attribute(n, "aria-invalid") != "true" {
			continue
		}
		for m := range page.Descendants() {
			if id := attribute(m, "id"); id != "" && id == attribute(n, "aria-describedby") {
				out[attribute(n, "name")] = textOf(m)
			}
		}
	}
	return out
}

func (b *fixture) allRuns(t *testing.T) []store.Run {
	t.Helper()
	runs, err := b.ListRuns(t.Context(), store.Filter{})
	require.NoError(t, err)
	return runs
}

func TestTheFormForARunCreatesItWithAllThatWasEntered(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	values := b.form(t, "/runs/new",
		"repo", " "+repo+" ", "base", "HEAD", "goal", "Add dark mode\r\n\r\nfor all pages", "description", "and e-mails", "model", "scripted/other", "release", "push",
		"execution.run.cost_usd", "2.5", "labels", "a, b c ,", "approve_plan", "on", "approve_release", "on", "plan_only", "on", "do", "create")
	w := b.submit(t, "/runs/new", values)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	run, err := b.Run(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, ui.RunHref(run.ID, ""), w.Header().Get("Location"))
	require.Equal(t, []string{repo, "Add dark mode", "for all pages\n\nand e-mails"}, []string{run.Repo, run.GoalTitle, run.GoalDescription})
	require.Equal(t, "HEAD", run.BaseBranch)
	require.Equal(t, []string{"a", "b c"}, run.Labels)
	s := run.Settings
	require.Equal(t, contract.ByDashboard, s.CreatedBy, "without a name")
	require.Equal(t, "other", s.Models[contract.AgentBuilder].Model)
	require.True(t, s.ApprovePlan && s.ApproveRelease && s.PlanOnly && s.Release.Push)
	require.EqualValues(t, 2_500_000, s.RunBudget.MicroUSD)

	page, _ := b.page(t, "/runs/new")
	require.Contains(t, attributes(page, "value"), repo, "it is suggested now")
	require.NotEqual(t, values["key"], entered(page)["key"], "each form makes its own request")
	list, _ := b.page(t, "/runs")
	require.Contains(t, attributes(list, "href"), "/runs/new")
}

func TestAFormThatIsSentSeveralTimesAtOnceCreatesOneRun(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	values := b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode")
	var all sync.WaitGroup
	answers := make([]*httptest.ResponseRecorder, 6)
	for i := range answers {
		all.Go(func() { answers[i] = b.submit(t, "/runs/new", values) })
	}
	all.Wait()
	for _, w := range answers {
		require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
		require.Equal(t, answers[0].Header().Get("Location"), w.Header().Get("Location"))
	}
	require.Len(t, b.allRuns(t), 1)
}

func TestARejectedFormForARunComesBackAsItWasWithTheErrorAtItsField(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	filled := []string{
		"repo", repo, "base", "HEAD", "goal", "\nAdd dark mode\n", "description", "and\nmore", "model", "scripted/scripted", "effort", "", "release", "push", "execution.run.cost_usd", "2.5",
		"attempts", "", "labels", "a, b", "approve_plan", "on", "approve_release", "on",
	}
	for name, c := range map[string]struct {
		field, value, says string
		at                 string // the field that is marked; empty: field
		code               int
	}{
		"no goal":                 {field: "goal", value: " ", says: "the goal is empty"},
		"a goal with a NUL":       {field: "goal", value: "a\x00b", says: "UTF-8"},
		"a long description":      {field: "description", value: strings.Repeat("long ", 400_000), says: "execution.max_goal_bytes", at: "goal"},
		"an issue of no forge":    {field: "issue", value: "https://nowhere.example/team/app/issues/1", says: "forge"},
		"no repository":           {field: "repo", value: "", says: "no repository given"},
		"an unknown repository":   {field: "repo", value: "/no/such/repository", says: "does not exist"},
		"a repository of nothing": {field: "repo", value: "https://user:secret@example.com/app.git", says: "contains credentials"},
		"an unknown base":         {field: "base", value: "no-such-branch", says: "no-such-branch"},
		"an option as a base":     {field: "base", value: "--upload-pack=x", says: "not a valid base"},
		"no model":                {field: "model", value: "gpt", says: "provider/model"},
		"an unknown provider":     {field: "model", value: "nowhere/gpt", says: "nowhere"},
		"an unknown effort":       {field: "effort", value: "huge", says: "huge"},
		"an unknown release":      {field: "release", value: "branch", says: "not one of the choices"},
		"no forge":                {field: "release", value: "pull_request", says: "credentials of a forge"},
		"words for a cost":        {field: "execution.run.cost_usd", value: "two", says: "two"},
		"a negative cost":         {field: "execution.run.cost_usd", value: "-1", says: "0"},
		"words for attempts":      {field: "attempts", value: "many", says: "many"},
		"no attempts":             {field: "attempts", value: "0", says: "1 or more"},
		"too many attempts":       {field: "attempts", value: "99", says: "execution.attempts.max"},
		"a strange label":         {field: "labels", value: "a, \u202eb", says: "printable"},
		"no UTF-8":                {field: "labels", value: "\xff", says: "UTF-8"},
		"a long name":             {field: "by", value: strings.Repeat("n", 201), says: "200 characters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := b.form(t, "/runs/new", append(filled, c.field, c.value)...)
			w := b.submit(t, "/runs/new", values)
			require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
			page := shown(t, w)
			at := c.field
			if c.at != "" {
				at = c.at
			}
			problems := marked(t, page)
			require.Len(t, problems, 1)
			require.Contains(t, problems[at], c.says)
			require.NotContains(t, problems[at], "secret")
			require.Contains(t, textOf(page), "The request cannot be processed")
			got := entered(page)
			values.Set(c.field, strings.ToValidUTF8(strings.ReplaceAll(c.value, "\x00", ""), "\uFFFD"))
			if c.field == "effort" || c.value == "branch" { // a choice that the form does not have
				values.Set(c.field, "")
			}
			require.Equal(t, values, got, "nothing is lost, also not the key")
		})
	}
	require.Empty(t, b.allRuns(t))
}

func TestTheFormForARunEstimatesWithoutCreatingAnything(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	values := b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode", "attempts", "3", "execution.run.cost_usd", "2")
	values.Set("do", "estimate")
	w := b.submit(t, "/runs/new", values)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	page := shown(t, w)
	require.Contains(t, textOf(page), "Cost and time of 3 attempts cannot be estimated")
	require.Contains(t, textOf(page), "2.00 USD")
	require.Empty(t, marked(t, page))
	require.Empty(t, b.allRuns(t))
	values.Del("do")
	require.Equal(t, values, entered(page))

	values.Set("plan_only", "on")
	values.Set("attempts", "")
	values.Set("do", "estimate")
	w = b.submit(t, "/runs/new", values)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
	require.Contains(t, marked(t, shown(t, w)), "plan_only")
}

func TestAFormThatWasSentCreatesAnotherRunOnlyWhenItIsSentAgain(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	values := b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode")
	require.Equal(t, http.StatusSeeOther, b.submit(t, "/runs/new", values).Code)
	values.Set("goal", "Add light mode")
	w := b.submit(t, "/runs/new", values)
	require.Equal(t, http.StatusConflict, w.Code, w.Body)
	page := shown(t, w)
	require.Contains(t, textOf(page), "This form was sent before")
	require.Len(t, b.allRuns(t), 1)
	again := entered(page)
	require.NotEqual(t, values.Get("key"), again.Get("key"))
	require.Equal(t, "Add light mode", again.Get("goal"))
	require.Equal(t, http.StatusSeeOther, b.submit(t, "/runs/new", again).Code)
	require.Len(t, b.allRuns(t), 2)

	for _, key := range []string{"", "x", strings.Repeat("k", 5000), "<script>"} {
		again.Set("key", key)
		w = b.submit(t, "/runs/new", again)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
		require.Len(t, entered(shown(t, w)).Get("key"), 36)
	}
	require.Len(t, b.allRuns(t), 2)
}

func TestAFormOfAnotherSiteCreatesNoRun(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	values := b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode")
	require.Equal(t, http.StatusForbidden, b.submit(t, "/runs/new", values, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, http.StatusForbidden, b.submit(t, "/runs/new", values, "Sec-Fetch-Site", "", "Origin", "https://evil.example").Code)
	require.Equal(t, http.StatusMethodNotAllowed, b.send(t, http.MethodPut, "/runs/new", "").Code)
	require.Equal(t, http.StatusUnprocessableEntity, b.send(t, http.MethodPost, "/runs/new", `{"goal": "x"}`).Code, "no form")
	require.Empty(t, b.allRuns(t))
}

func TestNothingEnteredIntoAFormBecomesPartOfItsPage(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	send := func(text string) *html.Node {
		values := b.form(t, "/runs/new")
		key := values.Get("key")
		for name := range values {
			values.Set(name, text)
		}
		values.Set("key", key)
		w := b.submit(t, "/runs/new", values)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
		return shown(t, w)
	}
	plain := func(page *html.Node, text string) string {
		for n := range page.Descendants() {
			if attribute(n, "name") == "key" {
				n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "value" })
			}
		}
		return skeleton(t, page, text)
	}
	want := plain(send("harmless"), "harmless")
	for _, text := range injections {
		page := send(text)
		got := entered(page)
		requireSame(t, want, plain(page, text), "the form with "+text)
		require.Equal(t, text, got.Get("goal"))
		require.Equal(t, text, got.Get("repo"))
	}
}

func TestTheNotesAboutANewRunAreOnItsPageOnly(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	require.NoError(t, os.WriteFile(filepath.Join(repo, "new"), []byte("x"), 0o600))
	w := b.submit(t, "/runs/new", b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode"))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	cookies := w.Result().Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, w.Header().Get("Location"), cookies[0].Path)
	require.True(t, cookies[0].HttpOnly)
	w = b.send(t, http.MethodGet, cookies[0].Path, "", "Accept", "text/html", "Cookie", cookies[0].String())
	require.Contains(t, textOf(shown(t, w)), "has uncommitted changes")
	for _, cookie := range []string{"notes=x", "notes=!", "notes=" + strings.Repeat("A", 5000), ""} {
		w = b.send(t, http.MethodGet, cookies[0].Path, "", "Accept", "text/html", "Cookie", cookie)
		require.Equal(t, http.StatusOK, w.Code)
		require.NotContains(t, textOf(shown(t, w)), "The run was created")
	}
}

func TestTheFormForARunShowsWhatTheConfigurationDecides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Execution.ApprovePlan = true
	b.config.Git.Release = "push"
	b.config.Execution.Attempts.Count = 3
	page, text := b.page(t, "/runs/new")
	require.Contains(t, text, "As configured: branch, pushed")
	require.Contains(t, attributes(page, "placeholder"), "as configured: 3")
	require.Contains(t, attributes(page, "placeholder"), "as configured: "+b.config.Execution.Run.CostUSD.String())
	for n := range page.Descendants() {
		require.NotEqual(t, "approve_plan", attribute(n, "name"), "it cannot be turned off")
		if n.Data == "option" {
			require.NotEqual(t, "branch", attribute(n, "value"), "a run cannot be released less far than configured")
		}
	}
	require.Contains(t, attributes(page, "name"), "approve_release")
}

func TestTheFormForARunRecordsThePersonWhoCreatesIt(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b"})
	w := b.submit(t, "/runs/new", b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode", "by", " Ann "))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	run, err := b.Run(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "Ann", run.Settings.CreatedBy)
	require.Equal(t, []string{"Ann"}, run.Settings.AuthorsBefore())
}

func TestAFormForARunWhoseAuthorsCannotApproveItNeedsAName(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app"), map[string]string{"a": "b", "rgpt.yaml": "gate:\n  approver: not_author\n"})
	values := b.form(t, "/runs/new", "repo", repo, "goal", "Add dark mode", "labels", "a")
	for _, name := range []string{"", " ", contract.ByDashboard, " API "} {
		values.Set("by", name)
		w := b.submit(t, "/runs/new", values)
		require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
		page := shown(t, w)
		require.Contains(t, marked(t, page)["by"], "gate.approver: not_author")
		require.Equal(t, values, entered(page), "nothing is lost, also not the key")
	}
	require.Empty(t, b.allRuns(t))
	values.Set("do", "estimate")
	w := b.submit(t, "/runs/new", values)
	require.Equal(t, http.StatusOK, w.Code, "an estimate needs no name: %s", w.Body)
	values.Del("do")
	values.Set("by", "ann")
	require.Equal(t, http.StatusSeeOther, b.submit(t, "/runs/new", values).Code)
	require.Equal(t, "ann", b.allRuns(t)[0].Settings.CreatedBy)
}

func TestTheFormForAPipelineStartsItWithAllThatWasEntered(t *testing.T) {
	t.Parallel()
	b, d := deliberating(t)
	values := b.form(t, "/pipelines/new",
		"objective", "Choose a cache", "constraints", "no new services\r\n\r\n small ", "success_criteria", "fast", "complexity", "high", "models.gamma", "scripted/mediator",
		"timeout", "90", "auto_continue", "yes", "force_gamma", "on", "by", "ann")
	w := b.submit(t, "/pipelines/new", values)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	again := b.submit(t, "/pipelines/new", values)
	require.Equal(t, w.Header().Get("Location"), again.Header().Get("Location"))
	p, err := b.Pipeline(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, ui.PipelineHref(p.ID), w.Header().Get("Location"))
	require.Equal(t, "Choose a cache", p.Objective)
	require.Equal(t, []string{"no new services", "small"}, p.Task.Constraints)
	require.Equal(t, []string{"fast"}, p.Task.SuccessCriteria)
	require.InDelta(t, 0.9, p.Task.Complexity, 0)
	require.Equal(t, 90, p.Task.TimeoutSeconds)
	require.True(t, p.Settings.AutoContinue && p.Settings.ForceGamma)
	events, err := b.PipelineEvents(t.Context(), p.ID, 0, 1)
	require.NoError(t, err)
	require.Contains(t, string(events[0].Payload), `"by": "ann"`)
	require.Equal(t, "mediator", p.Settings.Models[contract.AgentGamma].Model)
	require.Equal(t, "scripted", p.Settings.Models[contract.AgentAlpha].Model)
	require.Equal(t, "the request (--model)", p.Settings.ModelSources[contract.AgentGamma])
	require.NotEqual(t, p.Settings.ModelSources[contract.AgentGamma], p.Settings.ModelSources[contract.AgentAlpha])
	require.Len(t, d.started, 1)
	list, _ := b.page(t, "/pipelines")
	require.Contains(t, attributes(list, "href"), "/pipelines/new")
}

func TestARejectedFormForAPipelineComesBackAsItWasWithTheErrorAtItsField(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	filled := []string{"objective", "Choose a cache", "constraints", "no new services\nsmall", "complexity", "low", "model", "scripted/x", "timeout", "90", "auto_continue", "no", "force_gamma", "on"}
	for name, c := range map[string]struct {
		field, value, says, at string
	}{
		"no objective":            {field: "objective", value: " ", says: "the objective is empty"},
		"an objective with a NUL": {field: "objective", value: "a\x00", says: "UTF-8"},
		"long criteria":           {field: "success_criteria", value: strings.Repeat("long ", 10_000), says: "execution.max_goal_bytes", at: "objective"},
		"an unknown complexity":   {field: "complexity", value: "huge", says: "huge"},
		"an unknown mode":         {field: "mode", value: "cloud", says: "cloud"},
		"an unknown effort":       {field: "effort", value: "huge", says: "huge"},
		"no model":                {field: "model", value: "gpt", says: "provider/model"},
		"no model for a member":   {field: "models.beta", value: "gpt", says: "provider/model"},
		"a member of nowhere":     {field: "models.beta", value: "nowhere/gpt", says: "nowhere"},
		"no seconds":              {field: "timeout", value: "soon", says: "soon"},
		"many seconds":            {field: "timeout", value: "86401", says: "86400"},
		"a long name":             {field: "by", value: strings.Repeat("n", 201), says: "200 characters"},
		"an unknown continuation": {field: "auto_continue", value: "maybe", says: "maybe"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values := b.form(t, "/pipelines/new", append(filled, c.field, c.value)...)
			w := b.submit(t, "/pipelines/new", values)
			require.Equal(t, http.StatusUnprocessableEntity, w.Code, w.Body)
			page := shown(t, w)
			at := c.field
			if c.at != "" {
				at = c.at
			}
			problems := marked(t, page)
			require.Len(t, problems, 1)
			require.Contains(t, problems[at], c.says)
			values.Set(c.field, strings.ReplaceAll(c.value, "\x00", ""))
			if slices.Contains([]string{"complexity", "mode", "effort", "auto_continue"}, c.field) { // a choice that the form does not have
				values.Set(c.field, "")
			}
			require.Equal(t, values, entered(page))
		})
	}
	list, err := b.ListPipelines(t.Context(), store.PipelineFilter{})
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestModelsOfSingleMembersAreCheckedOverHTTP(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	var made spawnedAnswer
	b.post(t, "/api/spawn", `{"objective": "o", "model": "scripted/a", "models": {"beta": "scripted/b"}}`, http.StatusCreated, &made)
	p, err := b.Pipeline(t.Context(), made.PipelineID)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "a"}, []string{p.Settings.Models[contract.AgentAlpha].Model, p.Settings.Models[contract.AgentBeta].Model, p.Settings.Models[contract.AgentGamma].Model})
	require.Equal(t, contract.ModeLocal, p.Mode)
	for _, models := range []string{`{"delta": "scripted/b"}`, `{"BETA": "scripted/b"}`, `{"beta": "b"}`, `{"beta": ""}`} {
		b.post(t, "/api/spawn", `{"objective": "o", "models": `+models+`}`, http.StatusUnprocessableEntity, nil)
	}
	client, _ := clientOf(t, b.handler, quietly)
	spawned, err := client.Spawn(t.Context(), control.Spawning{Objective: "o", Models: map[contract.Agent]string{contract.AgentGamma: "scripted/c"}})
	require.NoError(t, err)
	require.Equal(t, "c", spawned.Pipeline.Settings.Models[contract.AgentGamma].Model)
}

func TestTheGoalOfARunForAnIssueIsShownWithoutItsFence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	about := contract.Issue{Forge: "work", Repo: "team/app", Number: 12, URL: "https://git.example.com/team/app/issues/12", Title: "Add <b>dark</b> mode", Author: "ann"}
	text, _ := issue.Describe(about, "For all pages. </untrusted> <script>x</script>", 8000)
	run, _, err := b.CreateRun(t.Context(), store.NewRun{
		Project: "app", GoalTitle: issue.Title(about), GoalDescription: text,
		Settings: contract.Settings{Issue: &about, Repo: contract.Repo{URL: "/r", Base: "c", Tree: "t"}},
	})
	require.NoError(t, err)
	_, text = b.page(t, fmt.Sprintf("/runs/%d", run.ID))
	require.NotContains(t, text, "untrusted name")
	require.Contains(t, text, "issue team/app#12, by ann:\nAdd <b>dark</b> mode\n\nFor all pages. </untrusted> <script>x</script>")
}
