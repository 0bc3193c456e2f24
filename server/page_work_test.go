package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// workPages are the pages of a run about its work and the results.
var workPages = []string{"heals", "changes", "changes?view=unified", "tests", "findings", "findings?state=all", "tests?status=failed"}

// filePatch is a patch of one file, from the first text to the second; an empty
// first one makes the file.
func filePatch(path, from, to string) string {
	head := fmt.Sprintf("diff --git a/%s b/%s\n", path, path)
	old, count := "a/"+path, 1
	if from == "" {
		head += "new file mode 100644\nindex " + strings.Repeat("0", 40) + ".." + strings.Repeat("2", 40) + "\n"
		old, count = "/dev/null", 0
	} else {
		head += "index " + strings.Repeat("1", 40) + ".." + strings.Repeat("2", 40) + " 100644\n"
	}
	body := fmt.Sprintf("--- %s\n+++ b/%s\n@@ -%d,%d +1 @@\n", old, path, count, count)
	if from != "" {
		body += "-" + from + "\n"
	}
	return head + body + "+" + to + "\n"
}

func (b *fixture) storeArtifact(tb testing.TB, content string) string {
	tb.Helper()
	digest, err := b.artifacts.Put(tb.Context(), []byte(content))
	require.NoError(tb, err)
	return digest
}

func (b *fixture) begin(tb testing.TB, run int64, phase contract.Phase, step string, agent contract.Agent) contract.ExecutionRef {
	tb.Helper()
	return b.record(tb, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: phase, Step: step, Agent: agent}})
}

func (b *fixture) end(tb testing.TB, e contract.ExecutionRef, output any, failure *contract.Failure) {
	tb.Helper()
	end := &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted, Failure: failure}
	if failure != nil {
		end.Status = contract.ExecutionFailed
	}
	if output != nil {
		raw, err := json.Marshal(output)
		require.NoError(tb, err)
		end.Output = raw
	}
	b.record(tb, contract.Record{RunID: e.RunID, End: end})
}

func (b *fixture) check(tb testing.TB, e contract.ExecutionRef, id string, cases []contract.TestCase, findings ...contract.Finding) {
	tb.Helper()
	result := contract.CheckResult{Check: contract.Check{ID: id, Category: contract.CategoryTest, Name: "run " + id}, OK: true, DurationMS: 1200}
	for _, c := range cases {
		switch c.Status {
		case contract.TestPassed:
			result.Summary.Passed++
		case contract.TestFailed:
			result.Summary.Failed++
			result.OK = false
		case contract.TestQuarantined:
			result.Summary.Quarantined++
		case contract.TestFlaky:
			result.Summary.Flaky++
		case contract.TestSkipped:
			result.Summary.Skipped++
		}
	}
	for _, f := range findings {
		switch f.Severity {
		case contract.SeverityMajor:
			result.Major++
		case contract.SeverityMedium:
			result.Medium++
		case contract.SeverityMinor:
			result.Minor++
		}
	}
	log := b.storeArtifact(tb, "the log of "+id)
	require.NoError(tb, b.AddArtifacts(tb.Context(), e.RunID, []contract.Artifact{{
		RunID: e.RunID, ExecutionID: e.ID, Name: fmt.Sprintf("tester/%d/%s/output.log", e.Attempt, id), Type: contract.ArtifactLog, Size: 12, Digest: log,
	}}))
	require.NoError(tb, b.SaveCheck(tb.Context(), e, id, result, cases, findings, log))
}

// healed makes a run whose tester failed, was repaired, and passed; every text is the
// given one.
func (b *fixture) healed(tb testing.TB, text string) int64 {
	tb.Helper()
	id := b.run(tb, text)
	require.NoError(tb, b.MarkStarted(tb.Context(), id, contract.RunWorkflowID(id), "0199"))
	one, two := b.storeArtifact(tb, filePatch("a.go", "old", "new")), b.storeArtifact(tb, filePatch("a.go", "old", "new")+filePatch("b.go", "", "added"))
	step := b.begin(tb, id, contract.PhaseBuilder, "step-001", contract.AgentBuilder)
	b.end(tb, step, contract.StepOutput{Change: contract.Change{Step: "step-001", To: contract.Workspace{Tree: "t1", Patch: one}}}, nil)
	step = b.begin(tb, id, contract.PhaseBuilder, "step-002", contract.AgentBuilder)
	b.end(tb, step, contract.StepOutput{Change: contract.Change{
		Step: "step-002", From: contract.Workspace{Tree: "t1", Patch: one}, To: contract.Workspace{Tree: "t2", Patch: two},
	}}, nil)
	builder := b.begin(tb, id, contract.PhaseBuilder, "", contract.AgentBuilder)
	b.end(tb, builder, contract.Workspace{Tree: "t2", Patch: two}, nil)
	tester := b.begin(tb, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(tb, tester, "test-go-1", []contract.TestCase{
		{Name: "TestFixed " + text, Status: contract.TestFailed, Message: text}, {Name: "TestGreen", Status: contract.TestPassed},
	}, contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: text, Location: text, Rule: text})
	failure := &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: text, Cause: text}
	b.end(tb, tester, nil, failure)
	heal := contract.HealNote{
		Number: 1, Status: contract.HealStarted, Phase: contract.PhaseTester, ExecutionID: tester.ID, ErrorType: contract.ClassAssertion, Code: contract.CodeTestsFailed,
		Action: contract.HealRepair, RootCause: "the cause\n" + text, By: text, Output: contract.HealOutput{Before: map[string]any{"model": text, "tree": "t2"}, Words: text},
	}
	b.record(tb, contract.Record{RunID: id, Heals: []contract.HealNote{heal}})
	patch := filePatch("a.go", "new", "mended")
	require.NoError(tb, b.AddArtifacts(tb.Context(), id, []contract.Artifact{{
		RunID: id, Name: "heal/1/change.patch", Type: contract.ArtifactPatch, Size: int64(len(patch)), Digest: b.storeArtifact(tb, patch),
	}}))
	again := b.begin(tb, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(tb, again, "test-go-2", []contract.TestCase{
		{Name: "TestGreen", Status: contract.TestFailed, Message: text}, {Name: "TestFixed " + text, Status: contract.TestPassed}, {Name: "TestFlaky", Status: contract.TestFlaky},
	}, contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: text, Location: text, Rule: text})
	b.end(tb, again, nil, nil)
	b.record(tb, contract.Record{RunID: id, Heals: []contract.HealNote{{
		Number: 1, Status: contract.HealSuccess, ErrorType: contract.ClassAssertion, Action: contract.HealRepair,
		Output: contract.HealOutput{Message: "patched the code", After: map[string]any{text: text, "tree": "t3"}, Result: text, Usage: &contract.Usage{Calls: 2, PromptTokens: 900, CompletionTokens: 100, MicroUSD: 420_000}},
	}}})
	b.record(tb, contract.Record{RunID: id, Interventions: []contract.InterventionNote{{
		Number: 1, Status: "open", Phase: contract.PhaseTester, Reason: text, ActionRequired: text,
	}}})
	b.record(tb, contract.Record{RunID: id, Interventions: []contract.InterventionNote{{Number: 1, Status: "resolved", By: text, Answer: "retry", Words: text}}})
	return id
}

// attributes returns the values of an attribute in a page.
func attributes(doc *html.Node, name string) (values []string) {
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if a.Key == name {
				values = append(values, a.Val)
			}
		}
	}
	return values
}

func TestPagesOfWorkSayWhatIsMissingInARunThatHasDoneNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	for page, want := range map[string]string{
		"heals": "No heals.", "changes": "No changes yet", "tests": "No tests yet", "findings": "No findings.",
	} {
		_, text := b.page(t, fmt.Sprintf("/runs/%d/%s", id, page))
		require.Contains(t, text, want)
	}
	_, text := b.page(t, fmt.Sprintf("/runs/%d/diff", id))
	require.Contains(t, text, "This project has no other runs yet")
}

func TestPagesOfWorkRefuseWhatNobodyCanMean(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.healed(t, "goal")
	for path, want := range map[string]int{
		"heals?from=-1": http.StatusBadRequest, "heals?from=x": http.StatusBadRequest, "heals?from=99999999999": http.StatusBadRequest, "heals?from=5000": http.StatusOK,
		"changes?view=upside-down": http.StatusBadRequest, "changes?step=step-099": http.StatusNotFound, "changes?file=99": http.StatusNotFound, "changes?file=x": http.StatusNotFound,
		"changes?path=%00": http.StatusBadRequest, "changes?path=%ff": http.StatusBadRequest, "changes.patch?step=nowhere": http.StatusNotFound,
		"tests?status=green": http.StatusBadRequest, "tests?attempt=9": http.StatusNotFound, "tests?attempt=x": http.StatusNotFound, "tests?text=%00": http.StatusBadRequest,
		"tests?from=10000000": http.StatusOK, "tests?text=%25_%5C": http.StatusOK,
		"findings?severity=awful": http.StatusBadRequest, "findings?category=x": http.StatusBadRequest, "findings?state=open": http.StatusBadRequest, "findings?check=%27--": http.StatusOK,
		"diff/99": http.StatusNotFound, "diff/0": http.StatusNotFound, "diff?other=x": http.StatusBadRequest, fmt.Sprintf("diff/%d?phase=x", id): http.StatusBadRequest,
		fmt.Sprintf("diff/%d?attempt=99", id): http.StatusNotFound, "artifacts/1/content": http.StatusBadRequest, "artifacts/99999/content": http.StatusNotFound, "artifacts/x/content": http.StatusNotFound,
	} {
		w := b.get(t, fmt.Sprintf("/runs/%d/%s", id, path))
		require.Equal(t, want, w.Code, path)
	}
	for _, page := range append(workPages, "diff", "diff/1", "changes.patch") {
		require.Equal(t, http.StatusNotFound, b.get(t, "/runs/999/"+page).Code, page)
	}
	require.Equal(t, http.StatusMethodNotAllowed, b.ask(t, http.MethodPost, fmt.Sprintf("/runs/%d/changes.patch", id)).Code)
}

func TestNoTextOfOthersBecomesPartOfAPageOfWork(t *testing.T) {
	t.Parallel()
	harmless := setup(t)
	id := harmless.healed(t, "harmless")
	pages := append(workPages, "diff/1?attempt=1&other_attempt=2")
	want := map[string]string{}
	for _, page := range pages {
		doc, _ := harmless.page(t, fmt.Sprintf("/runs/%d/%s", id, page))
		want[page] = elements(doc)
	}
	for _, text := range injections {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			require.Equal(t, id, b.healed(t, text))
			for _, page := range pages {
				doc, said := b.page(t, fmt.Sprintf("/runs/%d/%s", id, page))
				require.Equal(t, want[page], elements(doc), page)
				require.Contains(t, said, strings.TrimSpace(strings.Split(text, "\n")[0]), page)
			}
		})
	}
}

// elements are the elements of a page with the names of their attributes.
func elements(doc *html.Node) string {
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type != html.TextNode {
			fmt.Fprintf(&b, "%d %s", n.Type, n.Data)
			for _, a := range n.Attr {
				b.WriteString(" " + a.Key)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func TestTheHealsOfARunAreShownAsAPathAndAsCards(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.healed(t, "an assertion")
	doc, text := b.page(t, fmt.Sprintf("/runs/%d/heals", id))
	var stops []string
	for _, label := range attributes(doc, "aria-label") {
		if strings.Contains(label, " · ") || strings.HasPrefix(label, "1 repair") || strings.HasPrefix(label, "asked") {
			stops = append(stops, label)
		}
	}
	require.Equal(t, []string{"tester · 1: ASSERTION_ERROR", "1 repair: succeeded", "tester · 2: Done", "asked a person: retry, an assertion"}, stops)
	for _, want := range []string{"the cause", "Patched the code", "$0.42", "1.0k tokens", "mended", "Question for a person"} {
		require.Contains(t, text, want)
	}
	require.Contains(t, attributes(doc, "href"), fmt.Sprintf("http://127.0.0.1:8233/namespaces/default/workflows/run-%d%%2Fheal%%2F1", id))
}

func TestAChangeIsShownAsAWholeByStepAndByHeal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.healed(t, "goal")
	for step, want := range map[string]struct{ has, hasNot []string }{
		"":                {[]string{"a.go", "b.go", "+new", "+added", "2 files"}, []string{"mended"}},
		"?step=step-001":  {[]string{"a.go", "+new", "1 file"}, []string{"+added"}},
		"?step=step-002":  {[]string{"b.go", "+added", "1 file"}, []string{"-old"}},
		"?step=heal-1":    {[]string{"a.go", "-new", "+mended"}, []string{"+added"}},
		"?path=B.GO":      {[]string{"+added", "1 shown"}, []string{"-old"}},
		"?path=nowhere":   {[]string{"No matching file paths in this change"}, []string{"-old"}},
		"?file=2":         {[]string{"+added", "All files"}, []string{"-old"}},
		"?view=unified":   {[]string{"+new"}, nil},
		"?from=1":         {[]string{"+added", "2 to 2 of 2 files"}, []string{"-old"}},
		"?from=200&path=": {nil, []string{"-old", "+added"}},
	} {
		_, text := b.page(t, fmt.Sprintf("/runs/%d/changes%s", id, step))
		for _, s := range want.has {
			require.Contains(t, text, s, step)
		}
		for _, s := range want.hasNot {
			require.NotContains(t, text, s, step)
		}
	}
	w := b.get(t, fmt.Sprintf("/runs/%d/changes.patch?step=heal-1", id))
	require.Equal(t, filePatch("a.go", "new", "mended"), w.Body.String())
	require.Equal(t, fmt.Sprintf("attachment; filename=run-%d-heal-1.patch", id), w.Header().Get("Content-Disposition"))
}

func TestTheWholeChangeIsThatOfTheLastAcceptedRepairThenThatOfTheRelease(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.healed(t, "goal")
	mended := b.storeArtifact(t, filePatch("a.go", "old", "mended"))
	repair := b.begin(t, id, contract.PhaseTester, contract.StepRepair, contract.AgentRepair)
	b.end(t, repair, contract.StepOutput{Change: contract.Change{To: contract.Workspace{Tree: "t3", Patch: mended}}}, nil)
	_, text := b.page(t, fmt.Sprintf("/runs/%d/changes", id))
	require.Contains(t, text, "+mended")
	require.Contains(t, text, "as of heal 1")
	refused := b.begin(t, id, contract.PhaseTester, contract.StepRepair, contract.AgentRepair)
	b.end(t, refused, contract.StepOutput{Change: contract.Change{To: contract.Workspace{Tree: "t4", Patch: b.storeArtifact(t, filePatch("a.go", "old", "refused"))}}}, nil)
	_, text = b.page(t, fmt.Sprintf("/runs/%d/changes", id))
	require.NotContains(t, text, "+refused")
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: contract.StatusDone, Branch: "rgpt/run-1", Commit: "beef"}})
	require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{RunID: id, Name: "change.patch", Type: contract.ArtifactPatch, Digest: b.storeArtifact(t, filePatch("c.go", "", "released"))}}))
	_, text = b.page(t, fmt.Sprintf("/runs/%d/changes", id))
	require.Contains(t, text, "+released")
	require.NotContains(t, text, "+mended")
}

func TestALargeFileIsFoldedUntilItIsAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	builder := b.begin(t, id, contract.PhaseBuilder, "", contract.AgentBuilder)
	secret := "ghp_" + strings.Repeat("a1B2", 9)
	binary := "diff --git a/p.png b/p.png\nnew file mode 100644\nindex " + strings.Repeat("0", 40) + ".." + strings.Repeat("3", 40) + "\nBinary files /dev/null and b/p.png differ\n"
	patch := filePatch("large.txt", "", strings.Repeat("0123456789", 20_000)) + binary + filePatch("small.txt", "", "token "+secret) + filePatch("with space.txt\t", "", "x")
	b.end(t, builder, contract.Workspace{Tree: "t", Patch: b.storeArtifact(t, strings.ReplaceAll(patch, "with space.txt\t b/with space.txt\t", "with space.txt b/with space.txt"))}, nil)
	doc, text := b.page(t, fmt.Sprintf("/runs/%d/changes", id))
	require.NotContains(t, text, "0123456789")
	require.Contains(t, text, "Show this file, 195.4 KiB")
	require.Contains(t, text, "Binary file: content not shown")
	require.NotContains(t, text, secret, "secrets are taken out")
	require.Contains(t, attributes(doc, "data-part"), fmt.Sprintf("/runs/%d/changes?file=1", id))
	_, text = b.page(t, fmt.Sprintf("/runs/%d/changes?file=1", id))
	require.Contains(t, text, "0123456789")
	require.NotContains(t, b.get(t, fmt.Sprintf("/runs/%d/changes.patch", id)).Body.String(), secret)
}

func TestAPatchThatIsGoneOrBrokenIsSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for digest, want := range map[string]string{
		"sha256:" + strings.Repeat("0", 64):           "no longer in the artifact store",
		b.storeArtifact(t, "this is no patch at all"): "could not be read",
	} {
		id := b.run(t, "goal")
		b.end(t, b.begin(t, id, contract.PhaseBuilder, "", contract.AgentBuilder), contract.Workspace{Tree: "t", Patch: digest}, nil)
		_, text := b.page(t, fmt.Sprintf("/runs/%d/changes", id))
		require.Contains(t, text, want)
	}
}

func TestTheTestsOfAnAttemptAreShownWithChangesSinceTheOneBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.healed(t, "goal")
	doc, text := b.page(t, fmt.Sprintf("/runs/%d/tests", id))
	require.Contains(t, text, "Since attempt 1")
	require.Regexp(t, `New failures\s*TestGreen\s*Fixed\s*TestFixed goal`, strings.Join(strings.Fields(text), " "))
	require.Less(t, strings.LastIndex(text, "TestGreen"), strings.LastIndex(text, "TestFlaky"), "what failed is first")
	require.Less(t, strings.LastIndex(text, "TestFlaky"), strings.LastIndex(text, "TestFixed"), "what passed is last")
	require.Contains(t, attributes(doc, "href"), fmt.Sprintf("/runs/%d/diff/%d?attempt=1&other_attempt=2", id, id))
	_, text = b.page(t, fmt.Sprintf("/runs/%d/tests?attempt=1&status=failed&text=FIXED", id))
	require.Contains(t, text, "TestFixed goal")
	require.NotContains(t, text, "TestGreen")
	require.NotContains(t, text, "Since attempt")
}

func TestTestsAreShownByThePage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	cases := make([]contract.TestCase, 250)
	for i := range cases {
		cases[i] = contract.TestCase{Name: fmt.Sprintf("Test%03d", i), Status: contract.TestPassed}
	}
	cases[249].Status = contract.TestFailed
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, e, "test-go", cases)
	seen := map[string]bool{}
	for from := 0; from < 300; from += 100 {
		doc, text := b.page(t, fmt.Sprintf("/runs/%d/tests?from=%d", id, from))
		require.Equal(t, from == 0, strings.Contains(text, "Test249"), "what failed comes first")
		for _, row := range attributes(doc, "id") {
			if strings.HasPrefix(row, "case-") {
				require.False(t, seen[row], row)
				seen[row] = true
			}
		}
		require.Equal(t, from < 200, strings.Contains(strings.Join(attributes(doc, "rel"), " "), "next"))
	}
	require.Len(t, seen, 250)
}

func TestFilesOfATestWithALongNameAreShownBesideIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, e, "test-playwright-1", []contract.TestCase{
		{Name: "[Mobile Safari] e2e/checkout.spec.ts › Checkout › shows an order confirmation after the customer pays with a stored card", Status: contract.TestFailed},
		{Name: "[Mobile Safari] e2e/checkout.spec.ts › Checkout › another", Status: contract.TestFailed},
	})
	// As Playwright names the directory: the beginning, a digest and the end of the name.
	const name = "tester/1/test-playwright-1/e2e-checkout-Checkout-show-1a2b3-stomer-pays-with-a-stored-card-Mobile-Safari-retry1/trace.zip"
	require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{RunID: id, ExecutionID: e.ID, Name: name, Type: contract.ArtifactTrace, Size: 2, Digest: b.storeArtifact(t, "PK")}}))
	_, text := b.page(t, fmt.Sprintf("/runs/%d/tests", id))
	require.NotContains(t, text, "Other test files")
}

func TestPicturesOfATestAreShownBesideItAndAsNothingElse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, e, "test-playwright", []contract.TestCase{
		{Name: "login.spec.ts › greets", Status: contract.TestPassed}, {Name: "login.spec.ts › logs in", Status: contract.TestFailed, Message: "no"},
	})
	png := "\x89PNG\r\n\x1a\nrest"
	add := func(name string, kind contract.ArtifactType, content string) {
		require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{
			RunID: id, ExecutionID: e.ID, Name: "tester/1/test-playwright/" + name, Type: kind, Size: int64(len(content)), Digest: b.storeArtifact(t, content),
		}}))
	}
	add("login-logs-in-chromium/test-failed-1.png", contract.ArtifactScreenshot, png)
	add("login-logs-in-chromium/trace.zip", contract.ArtifactTrace, "PK")
	add("elsewhere-firefox/page.png", contract.ArtifactScreenshot, "<svg onload=alert(1)>")
	doc, text := b.page(t, fmt.Sprintf("/runs/%d/tests", id))
	all, err := b.Artifacts(t.Context(), id)
	require.NoError(t, err)
	ids := map[string]int64{}
	for _, a := range all {
		ids[a.Name[strings.LastIndexByte(a.Name, '/')+1:]] = a.ID
	}
	require.Contains(t, text, "Other test files", "the second picture is of no test that is known")
	sources := attributes(doc, "src")
	shown := fmt.Sprintf("/runs/%d/artifacts/%d/content", id, ids["test-failed-1.png"])
	require.Contains(t, sources, shown)
	first, _ := b.page(t, fmt.Sprintf("/runs/%d", id))
	require.Equal(t, []string{shown}, attributes(first, "src")[len(attributes(first, "src"))-1:], "the run's first page has that of the failed test")
	require.Contains(t, attributes(first, "href"), fmt.Sprintf("/runs/%d/artifacts/%d", id, ids["trace.zip"]))
	for n := range doc.Descendants() {
		if n.Data == "tr" && strings.Contains(textOf(n), "logs in") {
			require.Contains(t, attributes(n, "src"), fmt.Sprintf("/runs/%d/artifacts/%d/content", id, ids["test-failed-1.png"]))
		}
	}
	w := b.get(t, fmt.Sprintf("/runs/%d/artifacts/%d/content", id, ids["test-failed-1.png"]))
	require.Equal(t, "image/png", w.Header().Get("Content-Type"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "sandbox; default-src 'none'")
	require.Equal(t, png, w.Body.String())
	for _, no := range []string{"page.png", "trace.zip", "output.log"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, fmt.Sprintf("/runs/%d/artifacts/%d/content", id, ids[no])).Code, no)
	}
}

func TestFindingsAreChosenByWhatTheyAreAndCountedAgainstTheGate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, e, "lint-go", nil, contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategoryLint, Message: "old one", Location: "x.go:1"})
	again := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, again, "lint-go", nil, contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: "small one", Location: "x.go:2"},
		contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategorySecurity, Message: "grave one", Location: "x.go:3"})
	for query, want := range map[string][3]bool{ // old, small, grave
		"": {false, true, true}, "?state=resolved": {true, false, false}, "?state=all": {true, true, true}, "?severity=minor": {false, true, false},
		"?category=security": {false, false, true}, "?check=lint-go": {false, true, true}, "?check=other": {false, false, false}, "?state=all&severity=major": {true, false, true},
	} {
		_, text := b.page(t, fmt.Sprintf("/runs/%d/findings%s", id, query))
		for i, message := range []string{"old one", "small one", "grave one"} {
			require.Equal(t, want[i], strings.Contains(text, message), "%s %s", query, message)
		}
		require.Contains(t, strings.Join(strings.Fields(text), " "), "1 of 0 allowed")
	}
	_, text := b.page(t, fmt.Sprintf("/runs/%d/findings", id))
	require.Less(t, strings.Index(text, "grave one"), strings.Index(text, "small one"), "the worst is first")
}

func TestFindingsOfTheBaseAreShownAndDoNotCountAgainstTheGate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	b.check(t, e, "security-go", nil,
		contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategorySecurity, Message: "was there", Status: contract.FindingKnown},
		contract.Finding{Severity: contract.SeverityMajor, Category: contract.CategorySecurity, Message: "is new", Status: contract.FindingNew})
	_, text := b.page(t, fmt.Sprintf("/runs/%d/findings", id))
	text = strings.Join(strings.Fields(text), " ")
	require.Contains(t, text, "1 of 0 allowed")
	require.Contains(t, text, "was there")
	require.Equal(t, 1, strings.Count(text, "security Known"), text)
}

func TestASkippedCheckIsNeitherShownAsPassedNorAsFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "goal")
	e := b.begin(t, id, contract.PhaseTester, "", contract.AgentTester)
	require.NoError(t, b.SaveCheck(t.Context(), e, "security-go", contract.CheckResult{
		Check: contract.Check{ID: "security-go", Name: "govulncheck", Category: contract.CategorySecurity}, OK: true, Skipped: true, Code: contract.CodeUnavailable,
		Message: "skipped: the database cannot be reached",
	}, nil, nil, ""))
	_, text := b.page(t, fmt.Sprintf("/runs/%d/tests", id))
	text = strings.Join(strings.Fields(text), " ")
	require.Contains(t, text, "Skippedgovulncheck skipped: the database cannot be reached")
	require.NotContains(t, text, "Passedgovulncheck")
}

func TestARunIsComparedWithTheOneBeforeItUnlessAnotherIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, other, second := b.healed(t, "goal"), b.run(t, "another project"), b.run(t, "goal")
	fork, _, err := b.CreateRun(t.Context(), store.NewRun{Project: "goal", GoalTitle: "goal", Settings: contract.Settings{Fork: &contract.Fork{RunID: other}}})
	require.NoError(t, err)
	for path, want := range map[string]string{
		fmt.Sprintf("/runs/%d/diff", second): fmt.Sprintf("/runs/%d/diff/%d", first, second), fmt.Sprintf("/runs/%d/diff", first): fmt.Sprintf("/runs/%d/diff/%d", first, second),
		fmt.Sprintf("/runs/%d/diff", fork.ID): fmt.Sprintf("/runs/%d/diff/%d", other, fork.ID), fmt.Sprintf("/runs/%d/diff?other=%d@2", second, first): fmt.Sprintf("/runs/%d/diff/%d?other_attempt=2", second, first),
		fmt.Sprintf("/runs/%d/diff?phase=builder", first): fmt.Sprintf("/runs/%d/diff/%d", first, second),
	} {
		w := b.get(t, path)
		require.Equal(t, http.StatusFound, w.Code, path)
		require.Equal(t, want, w.Header().Get("Location"), path)
	}
	_, text := b.page(t, fmt.Sprintf("/runs/%d/diff/%d?attempt=1&other_attempt=2", first, first))
	text = strings.Join(strings.Fields(text), " ")
	require.Contains(t, text, fmt.Sprintf("Compare #%d, tester attempt 1 with #%d, tester attempt 2", first, first))
	require.Less(t, strings.Index(text, "Worse"), strings.Index(text, "Better"), "regressions are first")
	require.Regexp(t, "Worse.*new failure.*TestGreen.*Better.*fixed.*TestFixed goal", text)
}

// BenchmarkPagesOfWork measures the pages on a run with 10,000 tests twice, 2,000
// findings and a change of 300 files.
func BenchmarkPagesOfWork(b *testing.B) {
	s := setup(b)
	var ids [2]int64
	for n := range ids {
		ids[n] = s.run(b, "goal")
		var patch strings.Builder
		for i := range 300 {
			patch.WriteString(filePatch(fmt.Sprintf("pkg%03d/file.go", i), "", strings.Repeat("line ", 600)))
		}
		s.end(b, s.begin(b, ids[n], contract.PhaseBuilder, "", contract.AgentBuilder), contract.Workspace{Tree: fmt.Sprint(n), Patch: s.storeArtifact(b, patch.String())}, nil)
		for attempt := range 2 {
			cases := make([]contract.TestCase, 10_000)
			for i := range cases {
				cases[i] = contract.TestCase{Name: fmt.Sprintf("example.com/pkg%03d.TestNumber%05d", i%100, i), Status: contract.TestPassed, DurationMS: 12}
				if i%400 == attempt {
					cases[i].Status, cases[i].Message = contract.TestFailed, strings.Repeat("expected 1, got 2\n", 20)
				}
			}
			findings := make([]contract.Finding, 1000)
			for i := range findings {
				findings[i] = contract.Finding{Severity: contract.SeverityMinor, Category: contract.CategoryLint, Message: "long line", Location: fmt.Sprintf("a.go:%d", i)}
			}
			e := s.begin(b, ids[n], contract.PhaseTester, "", contract.AgentTester)
			s.check(b, e, "test-go", cases, findings...)
			s.end(b, e, nil, nil)
		}
	}
	for _, page := range []string{"heals", "changes", "changes?file=7", "tests", "tests?status=failed", "tests?text=09999", "findings", "findings?from=900", fmt.Sprintf("diff/%d", ids[1])} {
		b.Run(strings.NewReplacer("?", "_", "=", "_", "/", "_").Replace(page), func(b *testing.B) {
			var worst time.Duration
			for b.Loop() {
				from := time.Now()
				require.Equal(b, http.StatusOK, s.get(b, fmt.Sprintf("/runs/%d/%s", ids[0], page)).Code)
				worst = max(worst, time.Since(from))
			}
			b.ReportMetric(float64(worst.Microseconds())/1000, "ms-worst")
		})
	}
}

func TestAQuestionAboutAReleaseNamesItsBranch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.runWithQuestion(t, "release")
	page := b.get(t, fmt.Sprintf("/runs/%d", id)).Body.String()
	require.Contains(t, page, fmt.Sprintf(`<dt>Branch</dt><dd class="mono">work/of-%d</dd>`, id))
	require.Contains(t, page, fmt.Sprintf("Release run %d as branch work/of-%d", id, id))
}
