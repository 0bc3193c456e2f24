package server_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// recordConversation makes an execution of a run say that much, in a model's words and a tool's.
func (b *fixture) recordConversation(tb testing.TB, run int64, turns int, text string) contract.ExecutionRef {
	tb.Helper()
	e := b.record(tb, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: "step-001", Agent: contract.AgentBuilder}})
	said := func(m model.Message) store.Message {
		raw, err := json.Marshal(m)
		require.NoError(tb, err)
		return store.Message{Role: string(m.Role), Content: raw}
	}
	args, err := json.Marshal(map[string]string{"path": text})
	require.NoError(tb, err)
	require.NoError(tb, b.OpenConversation(tb.Context(), e.ID, []store.Message{
		said(model.Message{Role: model.RoleSystem, Text: text}), said(model.Message{Role: model.RoleUser, Text: text}),
		said(model.Message{Role: model.RoleAssistant, Text: text, ToolCalls: []model.ToolCall{{ID: "1", Name: "read_file", Arguments: string(args)}, {ID: "2", Name: text, Arguments: text}}}),
	}))
	for turn := 1; turn <= turns; turn++ {
		_, err := b.SaveToolResult(tb.Context(), e.ID, turn, 0, store.ToolCall{
			Tool: "read_file", Outcome: contract.ToolOutcome{OK: turn != turns/2, Code: "no_file"}, StartedAt: time.Now(), FinishedAt: time.Now(),
		}, said(model.Message{Role: model.RoleTool, Text: fmt.Sprintf("answer %d\n%s", turn, text)}))
		require.NoError(tb, err)
	}
	return e
}

// file gives a run a file and returns its number.
func (b *fixture) file(tb testing.TB, run int64, name string, kind contract.ArtifactType, content []byte) int64 {
	tb.Helper()
	digest, err := b.artifacts.Put(tb.Context(), content)
	require.NoError(tb, err)
	require.NoError(tb, b.AddArtifacts(tb.Context(), run, []contract.Artifact{{Name: name, Type: kind, Size: int64(len(content)), Digest: digest}}))
	all, err := b.Artifacts(tb.Context(), run)
	require.NoError(tb, err)
	return all[len(all)-1].ID
}

// link returns the address of the first link with an attribute.
func link(n *html.Node, name, value string) string {
	for c := range n.Descendants() {
		var href string
		is := false
		for _, a := range c.Attr {
			if a.Key == "href" {
				href = a.Val
			}
			if a.Key == name && a.Val == value {
				is = true
			}
		}
		if is && href != "" {
			return href
		}
	}
	return ""
}

func TestALongLogIsReadPageByPageInBothDirections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	b.recordConversation(t, run, 330, "text")
	walk := func(path, rel string) (seen []string) {
		for range 10 {
			doc, _ := b.page(t, path)
			rows := attributes(doc, "data-cursor")
			if rel == "next" {
				seen = append(seen, rows...)
			} else {
				seen = append(rows, seen...)
			}
			if len(rows) < 100 {
				return seen
			}
			path = link(doc, "rel", rel)
		}
		return seen
	}
	down := walk(fmt.Sprintf("/runs/%d/logs?at=start", run), "next")
	require.Len(t, down, 333)
	require.Equal(t, down, walk(fmt.Sprintf("/runs/%d/logs?at=end", run), "prev"))
	doc, _ := b.page(t, fmt.Sprintf("/runs/%d/logs?at=%s", run, url.QueryEscape(down[150])))
	require.Equal(t, down[150:250], attributes(doc, "data-cursor"), "an entry's own address begins with it")

	w := b.get(t, fmt.Sprintf("/runs/%d/logs/next-error", run))
	require.Equal(t, http.StatusSeeOther, w.Code)
	doc, said := b.page(t, strings.Split(w.Header().Get("Location"), "#")[0])
	require.Equal(t, down[167], attributes(doc, "data-cursor")[0], "the call of turn 165 failed")
	require.Contains(t, said, "no file")

	w = b.get(t, fmt.Sprintf("/runs/%d/logs/text", run))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, 333, strings.Count(w.Body.String(), "\n=== "))
	require.Contains(t, w.Body.String(), "answer 330\n")
}

func TestTheLogIsSearchedOnTheServerAndLongTextsHaveAPageOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	b.recordConversation(t, run, 3, strings.Repeat("line\n", 500)+"the \x1b[31mNeedle\x1b[0m is here")
	doc, said := b.page(t, fmt.Sprintf("/runs/%d/logs?q=needle", run))
	require.Len(t, attributes(doc, "data-cursor"), 6)
	require.Contains(t, said, "Needle")
	require.NotContains(t, said, "\x1b", "control sequences are taken out")
	require.Contains(t, attributes(doc, "class"), "fg1", "colours are classes")
	doc, said = b.page(t, fmt.Sprintf("/runs/%d/logs?role=tool", run))
	require.Contains(t, said, "Show all 502 lines")
	var whole string
	for _, href := range attributes(doc, "href") {
		if strings.HasPrefix(href, fmt.Sprintf("/runs/%d/logs/1", run)) {
			whole = href
		}
	}
	doc, said = b.page(t, whole)
	require.Contains(t, attributes(doc, "id"), "L502")
	require.Contains(t, said, "Needle is here")
	_, said = b.page(t, whole+"?q=NEEDLE")
	require.Contains(t, said, "502")
	require.NotContains(t, said, "answer 3")
	_, said = b.page(t, fmt.Sprintf("/runs/%d/logs?q=nothing", run))
	require.Contains(t, said, "No matching log entries")
}

func TestNoSecretThatAToolReturnedIsShownToPeople(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	key := "AKIA" + "IOSFODNN7EXAMPLE" // in two parts, so that scanners of this repository find none
	b.recordConversation(t, run, 3, "before "+key+strings.Repeat("\nline of a file", 500)+key)
	doc, said := b.page(t, fmt.Sprintf("/runs/%d/logs", run))
	require.Contains(t, said, "before [redacted]")
	require.NotContains(t, said, key[:10])
	for _, href := range attributes(doc, "href") {
		if strings.HasPrefix(href, fmt.Sprintf("/runs/%d/logs/", run)) {
			require.NotContains(t, b.ask(t, http.MethodGet, href).Body.String(), key, href)
		}
	}
	_, said = b.page(t, fmt.Sprintf("/runs/%d/replay", run))
	require.NotContains(t, said, key)
	answer := b.ask(t, http.MethodGet, fmt.Sprintf("/api/runs/%d/logs", run))
	require.Equal(t, http.StatusOK, answer.Code)
	require.Contains(t, answer.Body.String(), "before [redacted]")
	require.NotContains(t, answer.Body.String(), key)
}

func TestPagesOfARunRefuseWhatTheyDoNotUnderstand(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	for path, status := range map[string]int{
		"logs?phase=x": 400, "logs?role=x": 400, "logs?level=x": 400, "logs?execution=x": 400, "logs?q=" + strings.Repeat("x", 300): 400, "logs?q=%00": 400, "logs?q=%ff": 400,
		"logs?at=x": 400, "logs?after=1.2.3": 400, "logs?before=-1.1.1.1.": 400, "logs?at=9.9.99999999999.9.": 400, "logs/x": 404, "logs/1.1.1.1.": 404, "logs/next-error?after=x": 400, "logs/text?phase=x": 400,
		"logs?execution=999": 200, "logs?step=nothing": 200, "logs": 200, "logs?at=end": 200, "logs?at=9.9.9.9.%3Cscript%3E": 200,
		"artifacts?phase=x": 400, "artifacts?after=x": 400, "artifacts?type=x": 200, "artifacts?q=%00": 400, "artifacts": 200, "artifacts/0": 404, "artifacts/9": 404, "artifacts/x": 404, "artifacts/9/content": 404,
		"events?order=x": 400, "events?after=x": 400, "events?type=%ff": 400, "events?type=" + strings.Repeat("x", 101): 400, "events?type=%25": 200, "events?after=999999": 200, "events?before=9223372036854775807": 200, "events?after=-9223372036854775808": 200, "events": 200,
		"replay?from=x": 400, "replay?step=%00": 400, "replay?from=builder&step=nothing": 200, "replay": 200,
	} {
		w := b.get(t, fmt.Sprintf("/runs/%d/%s", run, path))
		require.Equal(t, status, w.Code, "%s: %s", path, w.Body)
		require.NotContains(t, w.Body.String(), "<script>", path)
		unknown := b.get(t, "/runs/999999/"+path)
		require.Contains(t, []int{http.StatusNotFound, status}, unknown.Code, path)
		require.NotEqual(t, http.StatusOK, unknown.Code, path)
	}
	require.Empty(t, b.logged(), "none of it is our mistake")
}

func TestNoTextOfOthersBecomesPartOfAPageOfARun(t *testing.T) {
	t.Parallel()
	tabs := []string{"logs?at=start", "artifacts", "events?order=oldest", "replay?from=builder"}
	look := func(t *testing.T, text string) (shapes []string) {
		b := setup(t)
		run := b.run(t, text)
		b.fill(t, run, text)
		b.recordConversation(t, run, 2, text)
		id := b.file(t, run, text+".json", contract.ArtifactJSON, []byte(text))
		for _, tab := range append(tabs, fmt.Sprintf("artifacts/%d", id), fmt.Sprintf("artifacts/%d", id-1)) {
			doc, said := b.page(t, fmt.Sprintf("/runs/%d/%s", run, tab))
			require.Contains(t, said, text, tab)
			for c := range doc.Descendants() {
				if c.Type != html.ElementNode {
					continue
				}
				require.NotContains(t, []string{"iframe", "base", "style", "object", "embed", "plaintext"}, c.Data, tab)
				for _, a := range c.Attr {
					require.False(t, strings.HasPrefix(a.Key, "on"), "%s: %s", tab, a.Key)
					if a.Key == "href" || a.Key == "src" || a.Key == "action" {
						require.True(t, strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//") || strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "http://127.0.0.1:8233/"), a.Val)
					}
				}
			}
			shapes = append(shapes, fmt.Sprint(len(attributes(doc, "src"))))
		}
		return shapes
	}
	want := look(t, "harmless")
	for _, text := range injections {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, look(t, text))
		})
	}
}

func picture(tb testing.TB) []byte {
	tb.Helper()
	var out bytes.Buffer
	require.NoError(tb, png.Encode(&out, image.NewRGBA(image.Rect(0, 0, 4, 4))))
	return out.Bytes()
}

func TestAFileIsShownAsWhatItIsAndNotAsWhatItIsCalled(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	_, err := z.Create("../../etc/passwd")
	require.NoError(t, err)
	require.NoError(t, z.Close())
	video := append([]byte("\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm"), bytes.Repeat([]byte{1}, 5000)...)
	for name, c := range map[string]struct {
		kind    contract.ArtifactType
		content []byte
		media   string // type it is sent with to be shown; empty if it is only a download
		says    string
	}{
		"a.txt":    {contract.ArtifactFile, picture(t), "image/png", ""},
		"b.webm":   {contract.ArtifactVideo, video, "video/webm", ""},
		"c.png":    {contract.ArtifactScreenshot, []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), "", "<script>alert(1)</script>"},
		"d.png":    {contract.ArtifactScreenshot, []byte(`<!DOCTYPE html><script>alert(1)</script>`), "", "<script>alert(1)</script>"},
		"e.json":   {contract.ArtifactJSON, []byte(`{"b": [1, "two", null], "a": {}}`), "", "two"},
		"f.patch":  {contract.ArtifactPatch, []byte("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"), "", "+new"},
		"g.zip":    {contract.ArtifactTrace, archive.Bytes(), "", "npx playwright show-trace"},
		"h.bin":    {contract.ArtifactFile, []byte{0, 1, 2, 3}, "", "This file cannot be shown here"},
		"i.log":    {contract.ArtifactLog, []byte("one\ntwo\nthree"), "", "three"},
		"empty":    {contract.ArtifactFile, nil, "", "This file is empty"},
		"bad.json": {contract.ArtifactJSON, []byte(`{"a": `), "", `{"a":`},
		"bad.zip":  {contract.ArtifactZip, []byte("PK\x03\x04 and nothing"), "", "This archive cannot be read here"},
	} {
		id := b.file(t, run, name, c.kind, c.content)
		_, said := b.page(t, fmt.Sprintf("/runs/%d/artifacts/%d", run, id))
		require.Contains(t, said, c.says, name)
		w := b.get(t, fmt.Sprintf("/runs/%d/artifacts/%d/content", run, id))
		if c.media == "" {
			require.Equal(t, http.StatusBadRequest, w.Code, name)
			continue
		}
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Equal(t, c.content, w.Body.Bytes())
		require.Equal(t, c.media, w.Header().Get("Content-Type"))
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
		require.Contains(t, w.Header().Get("Content-Security-Policy"), "sandbox; default-src 'none'")
	}
	_, said := b.page(t, fmt.Sprintf("/runs/%d/artifacts?type=screenshot", run))
	require.Contains(t, said, "c.png")
	require.NotContains(t, said, "a.txt")
}

func TestPartsOfAVideoCanBeAskedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	content := append([]byte("\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm"), bytes.Repeat([]byte("0123456789"), 5000)...)
	id := b.file(t, run, "v.webm", contract.ArtifactVideo, content)
	w := b.send(t, http.MethodGet, fmt.Sprintf("/runs/%d/artifacts/%d/content", run, id), "", "Range", "bytes=40000-40009")
	require.Equal(t, http.StatusPartialContent, w.Code)
	require.Equal(t, content[40000:40010], w.Body.Bytes())
	require.Equal(t, fmt.Sprintf("bytes 40000-40009/%d", len(content)), w.Header().Get("Content-Range"))
	w = b.send(t, http.MethodGet, fmt.Sprintf("/runs/%d/artifacts/%d/content", run, id), "", "Range", "bytes=9999999-")
	require.Equal(t, http.StatusRequestedRangeNotSatisfiable, w.Code)
}

func TestALongTextIsShownByLines(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	var text strings.Builder
	for i := 1; i <= 5000; i++ {
		fmt.Fprintf(&text, "this is line %d%s\n", i, strings.Repeat(" ", i%3*1500))
	}
	id := b.file(t, run, "long.log", contract.ArtifactLog, []byte(text.String()))
	path := fmt.Sprintf("/runs/%d/artifacts/%d", run, id)
	seen := map[string]bool{}
	for at, pages := path, 0; at != ""; pages++ {
		require.Less(t, pages, 20)
		doc, _ := b.page(t, at)
		for _, l := range attributes(doc, "id") {
			if strings.HasPrefix(l, "L") {
				require.False(t, seen[l], l)
				seen[l] = true
			}
		}
		at = ""
		for _, href := range attributes(doc, "href") {
			if strings.HasPrefix(href, path+"?from=") && !strings.Contains(href, "#") && link(doc, "rel", "next") == href {
				at = href
			}
		}
	}
	require.Len(t, seen, 5000)
	doc, said := b.page(t, path+"?q=LINE+4999")
	require.Contains(t, said, "this is line 4999")
	require.Contains(t, attributes(doc, "id"), "L4999")
	require.NotContains(t, attributes(doc, "id"), "L1")
	require.Equal(t, http.StatusBadRequest, b.get(t, path+"?from=0").Code)
}

func TestEventsAreListedFromEitherEndAndByType(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	var drafts []contract.EventDraft
	for i := range 250 {
		drafts = append(drafts, contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]int{"n": i}})
	}
	b.record(t, contract.Record{RunID: run, Events: drafts})
	r, err := b.Run(t.Context(), run)
	require.NoError(t, err)
	for _, order := range []string{"oldest", "newest"} {
		for _, filter := range []string{"", "&type=run."} {
			var seen []string
			for path, pages := fmt.Sprintf("/runs/%d/events?order=%s%s", run, order, filter), 0; pages < 5; pages++ {
				doc, _ := b.page(t, path)
				rows := attributes(doc, "data-cursor")
				seen = append(seen, rows...)
				if len(rows) < 100 {
					break
				}
				path = link(doc, "rel", "next")
			}
			require.Len(t, seen, int(r.EventSeq), order+filter)
			last := fmt.Sprint(r.EventSeq)
			if order == "newest" {
				require.Equal(t, "-"+last, seen[0])
				require.Equal(t, "-1", seen[len(seen)-1])
			} else {
				require.Equal(t, "1", seen[0])
				require.Equal(t, last, seen[len(seen)-1])
			}
			doc, _ := b.page(t, fmt.Sprintf("/runs/%d/events?order=%s%s&before=%s", run, order, filter, seen[150]))
			require.Equal(t, seen[50:150], attributes(doc, "data-cursor"), "back up")
		}
	}
	doc, said := b.page(t, fmt.Sprintf("/runs/%d/events?type=tester.", run))
	require.Empty(t, attributes(doc, "data-cursor"))
	require.Contains(t, said, "No events of this type")
}

func TestTheReplayPageSaysWhatIsKeptAndWhatIsDoneAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "x")
	planner := b.record(t, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhasePlanner, Agent: contract.AgentPlanner}})
	plan, err := b.SavePlan(t.Context(), run, planner.ID, "planner", contract.Plan{Summary: "s", Steps: []contract.Step{
		{ID: "step-001", Name: "a"}, {ID: "step-002", Name: "b", Dependencies: []string{"step-001"}}, {ID: "step-003", Name: "c"},
	}})
	require.NoError(t, err)
	b.record(t, contract.Record{
		RunID: run, End: &contract.ExecutionEnd{ExecutionID: planner.ID, Status: contract.ExecutionCompleted, Output: json.RawMessage(`{}`)}, Run: &contract.RunChange{Status: "builder_running", Phase: contract.PhaseBuilder, PlanID: plan},
	})
	b.record(t, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Agent: contract.AgentBuilder}})
	for _, step := range []string{"step-001", "step-002", "step-003"} {
		e := b.record(t, contract.Record{RunID: run, Begin: &contract.ExecutionBegin{Phase: contract.PhaseBuilder, Step: step, Agent: contract.AgentBuilder}})
		out, err := json.Marshal(contract.StepOutput{Change: contract.Change{Step: step}})
		require.NoError(t, err)
		b.record(t, contract.Record{RunID: run, End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted, Output: out}})
	}
	_, said := b.page(t, fmt.Sprintf("/runs/%d/replay?from=builder&step=step-001", run))
	require.Contains(t, said, "step-001, step-002, tester, releaser", "with what depends on it")
	require.Contains(t, said, "planner, step-003")
	require.Contains(t, said, "The run is in progress")
	doc, _ := b.page(t, fmt.Sprintf("/runs/%d/replay?from=builder", run))
	require.NotContains(t, attributes(doc, "data-command"), "replay", "not while it is under way")

	b.record(t, contract.Record{RunID: run, Run: &contract.RunChange{Status: contract.StatusDone, Phase: contract.PhaseBuilder, Branch: "rgpt/run-1", Commit: "c0ffee", Finished: true}})
	doc, said = b.page(t, fmt.Sprintf("/runs/%d/replay?from=builder&step=step-002", run))
	require.Contains(t, attributes(doc, "data-command"), "replay")
	require.Contains(t, attributes(doc, "data-body"), `{"phase":"builder","step":"step-002"}`)
	require.Contains(t, said, "the branch will be replaced")
	require.Contains(t, strings.Join(attributes(doc, "data-ask"), "\n"), "Replay run", "it is asked once")
	require.Contains(t, said, "No replays yet")
	_, err = b.AddReplay(t.Context(), run, "first", contract.PhaseBuilder, contract.ReplaySpec{Step: "step-002", By: "mia", Reason: "try again", Kept: []contract.StepOutput{{Change: contract.Change{Step: "step-003"}}}}, "")
	require.NoError(t, err)
	_, said = b.page(t, fmt.Sprintf("/runs/%d/replay", run))
	require.Contains(t, said, "by mia: try again")
	require.Contains(t, said, "kept: step-003")
}

func BenchmarkPagesOfALongRun(b *testing.B) {
	s := setup(b)
	run := s.run(b, "x")
	s.recordConversation(b, run, 5000, strings.Repeat("some text of a line\n", 40))
	for seq := range 20 {
		drafts := make([]contract.EventDraft, 1000)
		for i := range drafts {
			drafts[i] = contract.EventDraft{Type: contract.EventRunUpdated, Payload: map[string]int{"n": seq*1000 + i}}
		}
		s.record(b, contract.Record{RunID: run, Events: drafts})
	}
	for _, path := range []string{"logs?at=start", "logs?at=end", "logs?q=no+such+text", "logs?level=error", "artifacts", "events", "events?type=none", "replay"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if w := s.get(b, fmt.Sprintf("/runs/%d/%s", run, path)); w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
