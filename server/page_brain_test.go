package server_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// brainPage returns the page for a query.
func (b *fixture) brainPage(t *testing.T, values url.Values) string {
	t.Helper()
	page := b.get(t, "/brain?"+values.Encode())
	require.Equal(t, http.StatusOK, page.Code, page.Body)
	return page.Body.String()
}

// ready returns the page for a query when the index that it needs is made.
func (b *fixture) ready(t *testing.T, values url.Values) (text string) {
	t.Helper()
	await.Until(t, "the index is ready", func() bool {
		text = b.brainPage(t, values)
		return !strings.Contains(text, "is being indexed")
	})
	return text
}

func TestThePageOfTheBrainShowsWhatIsIndexed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	text := b.brainPage(t, nil)
	require.Contains(t, text, "No repository is indexed yet.")
	require.Contains(t, text, `aria-current="page"`)
	repo := code(t)
	b.post(t, "/api/brain/index", `{"repo": "`+repo+`"}`, http.StatusAccepted, nil)
	x, _ := b.indexing(t)
	require.Equal(t, control.IndexingDone, x.State)
	text = b.brainPage(t, nil)
	require.Contains(t, text, `href="/brain?repo=`+url.QueryEscape(repo)+`"`)
	require.Contains(t, text, "3 of 4 indexed, 3 read")
	require.Contains(t, text, `<option value="`+repo+`">`)
}

func TestThePageOfTheBrainShowsWhyFilesWereFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	repo := code(t)
	text := b.ready(t, url.Values{"show": {"search"}, "repo": {repo}, "query": {"what a customer owes"}, "path": {"shop"}, "lang": {"go"}})
	require.Contains(t, text, "shop/invoice.go")
	require.Contains(t, text, "keywords #1: ")
	require.Contains(t, text, `<span class="no">4</span><span class="code" dir="auto">func Total(lines []Line) Money { return 0 }</span>`)
	require.NotContains(t, text, "web/page.ts")
	require.Contains(t, text, `value="what a customer owes"`, "the form keeps the query")

	text = b.brainPage(t, url.Values{"show": {"search"}, "repo": {repo}, "query": {"invoice"}, "lang": {"cobol"}})
	require.Contains(t, text, "Nothing found")
	require.Contains(t, text, "No indexed file is in the language &#34;cobol&#34;.")
	text = b.brainPage(t, url.Values{"show": {"map"}, "repo": {repo}, "query": {"round the `Total`"}})
	require.Contains(t, text, "Map for the goal")
	require.Contains(t, text, "Definitions that the goal names:\nshop/invoice.go:4: func Total(lines []Line) Money\n")
}

func TestThePageOfTheBrainSaysWhyItHasNoAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for want, values := range map[string]url.Values{
		"no repository given":                     {"query": {"x"}},
		"the query is empty":                      {"repo": {code(t)}},
		"not a git repository":                    {"repo": {t.TempDir()}, "query": {"x"}},
		"no branch, tag or commit &#34;none&#34;": {"repo": {code(t)}, "rev": {"none"}, "query": {"x"}},
		"the glob":                                {"repo": {code(t)}, "path": {"[a"}, "query": {"x"}},
		"too long":                                {"repo": {code(t)}, "query": {strings.Repeat("x", 9000)}},
	} {
		values.Set("show", "search")
		text := b.brainPage(t, values)
		require.Contains(t, text, "No answer")
		require.Contains(t, text, want)
	}
}

func TestAnotherSiteCannotStartASearchOnThePageOfTheBrain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	path := "/brain?" + url.Values{"show": {"search"}, "repo": {code(t)}, "query": {"invoice"}}.Encode()
	for _, site := range []string{"cross-site", "same-site"} {
		text := b.send(t, http.MethodGet, path, "", "Sec-Fetch-Site", site).Body.String()
		require.Contains(t, text, "opened from another site")
		require.Contains(t, text, "No repository is indexed yet.")
	}
	require.NotContains(t, b.send(t, http.MethodGet, path, "", "Sec-Fetch-Site", "same-origin").Body.String(), "another site")
}

func TestAnotherSiteCannotMakeTheServerFetchARepositoryByTheAPI(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, path := range []string{"/api/brain/search", "/api/brain/map"} {
		path += "?" + url.Values{"repo": {code(t)}, "query": {"invoice"}}.Encode()
		for _, site := range []string{"cross-site", "same-site"} {
			w := b.send(t, http.MethodGet, path, "", "Sec-Fetch-Site", site)
			require.Equal(t, http.StatusForbidden, w.Code, w.Body)
			require.Contains(t, w.Body.String(), "another site")
		}
		require.Contains(t, b.brainPage(t, nil), "No repository is indexed yet.")
	}
	for _, site := range []string{"same-origin", "none"} {
		w := b.send(t, http.MethodGet, "/api/brain/map?"+url.Values{"repo": {code(t)}}.Encode(), "", "Sec-Fetch-Site", site)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
	}
}

func TestThePageOfTheBrainShowsHostileTextAsText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const attack = `<script>alert(1)</script>`
	repo := harness.Repo(t, filepath.Join(t.TempDir(), "app<b>"), map[string]string{
		"a<img src=x onerror=alert(1)>/evil.js": "// invoice " + attack + "\nfunction invoice() { return '" + attack + "' }\n\x1b[31m\u202e\n",
		"</pre>x.py":                            "def invoice(): return '" + attack + "'\n",
	})
	for _, show := range []string{"search", "map"} {
		text := b.ready(t, url.Values{"show": {show}, "repo": {repo}, "query": {"invoice " + attack + `"><b>`}, "path": {"**/*"}, "rev": {"main"}})
		require.NotContains(t, text, attack)
		require.NotContains(t, text, "<img src=x")
		require.NotContains(t, text, "app<b>")
		require.NotContains(t, text, "\x1b")
		require.NotContains(t, text, "\u202e")
		require.Contains(t, text, "evil.js")
	}
	for _, values := range []url.Values{{"repo": {attack}}, {"repo": {repo}, "rev": {attack}}, {"repo": {repo}, "lang": {attack}}, {"repo": {repo}, "path": {attack}}} {
		values.Set("show", "search")
		values.Set("query", "invoice")
		require.NotContains(t, b.ready(t, values), attack)
	}
}
