package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// spawned makes a standalone pipeline.
func (b *fixture) spawned(tb testing.TB, objective string) store.Pipeline {
	tb.Helper()
	p, _, err := b.SpawnPipeline(tb.Context(), store.NewPipelineRow{Objective: objective, Settings: contract.DeliberationSettings{
		Mode: contract.ModeLocal, Iterations: 10, Recoveries: 2, GammaStuckAfter: 30 * time.Second, AbortAfter: time.Minute, Timeout: 2 * time.Minute,
		ContinueWait: time.Hour, Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "p", Model: objective}},
	}})
	require.NoError(tb, err)
	return p
}

// longRef is the name under which a test's long text is stored.
const longRef = "c0ffee"

// recordPipeline is a pipeline whose agents did everything, with the given text everywhere: it
// was aborted, and recovered by another one, which is returned too.
func (b *fixture) recordPipeline(tb testing.TB, text string) (p, next store.Pipeline) {
	tb.Helper()
	at := time.Now().Add(-time.Hour)
	half, no := 0.5, false
	said := contract.Text{Head: text, Size: len(text)}
	p = b.spawned(tb, text)
	require.NoError(tb, b.SavePipelineTexts(tb.Context(), p.ID, store.PipelineText{Ref: longRef, Text: strings.Repeat(text+"\n", 100)}))
	long := contract.Text{Head: text, Ref: longRef, Size: 1000}
	entry := func(s contract.Section, who contract.Member, kind contract.MoveKind, key string, version int) contract.Entry {
		return contract.Entry{Section: s, Key: key, Author: who, Kind: kind, Value: said, Version: version, Timestamp: at, State: contract.EntryLive}
	}
	entries := []contract.Entry{
		entry(contract.SectionProblem, contract.Alpha, contract.MoveAnalyse, text, 1), entry(contract.SectionSolutions, contract.Alpha, contract.MovePropose, text, 1),
		entry(contract.SectionSynthesis, contract.Beta, contract.MoveSynthesise, text, 1), entry(contract.SectionSynthesis, contract.Beta, contract.MoveSynthesise, text, 2),
		entry(contract.SectionSolutions, contract.Beta, contract.MoveObject, text+"/objection/1", 1), entry(contract.SectionConsensus, contract.SystemAuthor, "", contract.KeyFinal, 1),
	}
	entries[0].ComplexityScore, entries[1].Score, entries[3].From, entries[3].Value = &half, &half, []string{text}, long
	entries[4].About, entries[5].Achieved, entries[1].Inherited = text, &no, 1
	members := []contract.MemberView{
		{Member: contract.Alpha, Role: text, Status: contract.MemberRevoked, Phase: text, Progress: 0.4, BlockedReason: text, LastActivity: at, Turns: 2, Errors: 1, ExecutionID: 7, Attempt: 2},
		{Member: contract.Beta, Role: text, Status: contract.MemberFailed, Failure: &contract.Failure{Class: contract.ClassLLM, Message: text, Cause: text}},
		{Member: contract.Gamma, Role: text, Status: contract.MemberRevoked},
	}
	metrics := contract.DeliberationMetrics{TotalMessages: 60, ConflictsDetected: 4, GammaSpawned: true, GammaReason: contract.GammaStuck, GammaAt: &at, Start: at, Refused: 1, Iterations: 3}
	report := contract.DeliberationReport{Kind: "partial", Status: contract.PipelineOrchestrationFailed, Agents: members, Blackboard: entries, Summary: text, Analysis: []string{text}, At: at}
	b.writePipelineRecord(tb, p, contract.PipelineRecord{
		Entries:  entries,
		Messages: []contract.Message{{Seq: 1, ID: "ALPHA-1-1", From: contract.Alpha, To: contract.Beta, Text: said, At: at}, {Seq: 2, ID: "BETA-1-1", From: contract.Beta, Text: long, At: at}},
		Votes:    []contract.Vote{{ID: "v", Voter: contract.Alpha, Key: text, Version: 2, Accept: false, Text: said, At: at}},
		Errors:   []contract.Error{{Member: contract.Beta, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: text}},
		Events:   []contract.EventDraft{{Type: contract.EventOrchestrationAborted, Payload: map[string]any{"reason": "stuck"}}},
		Change: &contract.PipelineChange{
			Status: contract.PipelineOrchestrationFailed, Iteration: 3, Members: members, Metrics: metrics, AbortReason: contract.AbortStuck, HandoffRef: "pipeline/" + text,
			Report: &report, Failure: &contract.Failure{Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: text, Cause: text}, Consensus: &entries[5],
			FailureCtx: &contract.FailureContext{Reason: "stuck", IterationCount: 3, RecoveryHint: text, Notes: []string{text}}, Finished: true,
		},
	})
	require.NoError(tb, b.AddArtifacts(tb.Context(), p.RunID, []contract.Artifact{{RunID: p.RunID, Name: "pipeline/" + text, Type: contract.ArtifactJSON, Size: 2, Digest: b.storeArtifact(tb, "{}")}}))
	next, err := b.CreatePipeline(tb.Context(), contract.NewPipeline{RunID: p.RunID, Prior: p.ID, Attempt: 2, Settings: p.Settings, Inherited: &contract.Inherited{PipelineID: p.ID, Attempt: 1, Context: text, Instructions: text, Entries: entries}})
	require.NoError(tb, err)
	b.writePipelineRecord(tb, next, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineReport, WaitingFor: text, Members: members[:1], Report: &contract.DeliberationReport{Kind: "checkpoint", Summary: text, At: at}}})
	return p, next
}

// first returns the first element with an attribute.
func first(tb testing.TB, doc *html.Node, name string) *html.Node {
	tb.Helper()
	for n := range doc.Descendants() {
		if attribute(n, name) != "" {
			return n
		}
	}
	require.FailNow(tb, "no element has it", name)
	return nil
}

func TestAPipelineIsShownInEveryStatusWithTheCommandsThatItTakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, status := range contract.PipelineStatuses() {
		p := b.spawned(t, "objective of "+string(status))
		waiting := ""
		if status == contract.PipelineReport {
			waiting = "continue"
		}
		b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{
			Status: status, WaitingFor: waiting, Finished: status.Terminal(),
			Members: []contract.MemberView{{Member: contract.Alpha, Status: contract.MemberThinking}, {Member: contract.Beta, Status: contract.MemberFailed}},
		}})
		doc, text := b.page(t, ui.PipelineHref(p.ID))
		head := first(t, doc, "data-pipeline")
		require.Equal(t, string(status), attribute(head, "data-status"))
		require.Contains(t, text, "objective of "+string(status))
		want := []string{"revoke", "stop"} // only of ALPHA: BETA has failed
		if waiting != "" {
			want = []string{"continue", "revoke", "stop"}
			require.Equal(t, string(ui.Waiting), attribute(head, "data-state"))
		}
		if status.Terminal() {
			want = nil
		}
		commands := attributes(doc, "data-command")
		slices.Sort(commands)
		require.Equal(t, want, commands, status)
		doc, _ = b.page(t, "/pipelines?status="+string(status))
		require.Equal(t, []string{fmt.Sprint(p.ID)}, attributes(doc, "data-pipeline"))
		require.Equal(t, attribute(head, "data-state"), attribute(first(t, doc, "data-pipeline"), "data-state"), "as on its page")
	}
	_, text := b.page(t, "/pipelines")
	require.Contains(t, text, "Waiting for you (1)")
	_, text = b.page(t, "/runs")
	require.NotContains(t, text, "Waiting for you", "no run waits")
	require.Contains(t, strings.Join(strings.Fields(text), " "), "Pipelines 1waiting", "but the rail says that a pipeline does")
}

func TestCommandsOfAPipelinesPageReachThePipeline(t *testing.T) {
	t.Parallel()
	b, d := deliberating(t)
	takes := b.requests(t)
	p := b.spawned(t, "o")
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineReport, WaitingFor: contract.UpdateContinue, Members: []contract.MemberView{{Member: contract.Beta}}}})
	doc, _ := b.page(t, ui.PipelineHref(p.ID))
	sent := 0
	for n := range doc.Descendants() {
		if attribute(n, "data-command") == "" {
			continue
		}
		sent++
		body := map[string]any{}
		if raw := attribute(n, "data-body"); raw != "" {
			require.NoError(t, json.Unmarshal([]byte(raw), &body))
		}
		body["by"] = "dashboard" // as the script sends it
		if has(n, "data-reason") {
			body["reason"] = "because"
		}
		if attribute(n, "data-command") == "continue" {
			body["model"], body["timeout"] = "scripted/scripted", 60
		}
		path := strings.Replace(attribute(n, "data-href"), fmt.Sprintf("/pipeline/%d/", p.ID), "/pipeline/{id}/", 1)
		require.NoError(t, takes.takes(http.MethodPost, path, 0, body), path)
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		w := b.send(t, http.MethodPost, attribute(n, "data-href"), string(raw))
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	}
	require.Equal(t, 3, sent)
	slices.Sort(d.names)
	id := contract.PipelineWorkflowID(p.ID)
	require.Equal(t, []string{id + " continue", id + " revoke", id + " stop"}, d.names)
}

func TestAPipelineThatWaitsForNobodyOffersNoContinue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawned(t, "o")
	_, text := b.page(t, ui.PipelineHref(p.ID))
	for _, want := range []string{"Not joined", "No score yet", "No messages yet", "No synthesis to vote on yet", "GAMMA has not joined"} {
		require.Contains(t, text, want, "of one that has not begun")
	}
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineReport}})
	doc, _ := b.page(t, ui.PipelineHref(p.ID))
	require.Equal(t, []string{"stop"}, attributes(doc, "data-command"))
	require.Equal(t, string(ui.Running), attribute(first(t, doc, "data-pipeline"), "data-state"))
}

func TestAPipelineSaysWhyItFailedAndWhatCameOfIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, next := b.recordPipeline(t, "harmless")
	doc, text := b.page(t, ui.PipelineHref(p.ID))
	for _, want := range []string{
		"no agent made progress for 1m", "Hint: harmless", "continues from here", "recovered by", "an agent had made no progress for 30s", "an agent was stuck", "60 messages, more than 50",
		"rejects", "earlier version", "from attempt 1", "Errors and rejected moves", "None", "invalid output",
	} {
		require.Contains(t, strings.ToLower(text), strings.ToLower(want))
	}
	require.Contains(t, attributes(doc, "href"), ui.PipelineHref(next.ID))
	last, err := b.LastEvent(t.Context(), p.RunID)
	require.NoError(t, err)
	require.Equal(t, []string{fmt.Sprintf("/api/pipelines/%d/stream?after=%d", p.ID, last)}, attributes(doc, "data-stream"), "what happens next redraws it")
	require.Contains(t, attributes(doc, "href"), ui.PipelineHref(p.ID)+"/texts/"+longRef)
	require.Equal(t, []string{"handoff"}, attributes(doc, "data-download"))
	require.Contains(t, attributes(doc, "href"), fmt.Sprintf("http://127.0.0.1:8233/namespaces/default/workflows/pipeline-%d/first/history", p.ID))
	w := b.get(t, ui.PipelineHref(p.ID)+"/handoff")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "{}", w.Body.String())
	require.Contains(t, w.Header().Get("Content-Disposition"), "attachment")

	doc, text = b.page(t, ui.PipelineHref(next.ID))
	require.Contains(t, text, "continues #")
	require.Contains(t, attributes(doc, "href"), ui.PipelineHref(p.ID))
	require.Equal(t, http.StatusNotFound, b.get(t, ui.PipelineHref(next.ID)+"/handoff").Code, "it has left none")
	_, text = b.page(t, ui.PipelineHref(next.ID)+"/texts/"+longRef)
	require.Contains(t, text, "harmless", "what was inherited is read where it was written")
	_, text = b.page(t, "/pipelines")
	require.Contains(t, text, fmt.Sprintf("recovers #%d", p.ID))
	require.Contains(t, text, fmt.Sprintf("recovered by #%d", next.ID))
}

func TestNoTextOfAPipelineBecomesPartOfAPage(t *testing.T) {
	t.Parallel()
	harmless := setup(t)
	p, next := harmless.recordPipeline(t, "harmless")
	paths := []string{"/pipelines?text=%s", ui.PipelineHref(p.ID), ui.PipelineHref(next.ID), ui.PipelineHref(p.ID) + "/texts/" + longRef + "?q=%s"}
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
			b.recordPipeline(t, text)
			for _, path := range paths {
				page, said := b.page(t, at(path, text))
				requireSame(t, want[path], skeleton(t, page, text), path)
				require.Contains(t, said, text, "it is shown, as text, on %s", path)
			}
		})
	}
}

func TestARunLeadsToTheDeliberationsAboutItsPlanAndBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := b.run(t, "goal")
	planner := b.begin(t, run, contract.PhasePlanner, "", contract.AgentPlanner)
	p, err := b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: run, ForRun: true, Execution: planner.ID, Attempt: 1, Settings: contract.DeliberationSettings{Mode: contract.ModeLocal, Iterations: 10}})
	require.NoError(t, err)
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineOrchestrating, Iteration: 3, Members: []contract.MemberView{{Member: contract.Alpha, ExecutionID: 5}}}})
	for _, tab := range []string{"", "plan"} {
		doc, text := b.page(t, ui.RunHref(run, tab))
		require.Contains(t, attributes(doc, "href"), ui.PipelineHref(p.ID), tab)
		require.Contains(t, text, "round 3 of 10", tab)
	}
	doc, _ := b.page(t, ui.PipelineHref(p.ID))
	require.Contains(t, attributes(doc, "href"), ui.RunHref(run, ""))
	require.Contains(t, attributes(doc, "href"), ui.RunHref(run, "logs")+"?execution=5")
	alone := b.spawned(t, "alone")
	for kind, id := range map[string]int64{ui.PipelinesOfRun: p.ID, ui.PipelinesAlone: alone.ID} {
		doc, _ = b.page(t, "/pipelines?kind="+kind)
		require.Equal(t, []string{fmt.Sprint(id)}, attributes(doc, "data-pipeline"), kind)
	}
	doc, _ = b.page(t, fmt.Sprintf("/pipelines/%d", alone.ID))
	require.NotContains(t, attributes(doc, "href"), ui.RunHref(alone.RunID, ""), "what carries it is no run")
	require.Equal(t, http.StatusNotFound, b.get(t, ui.RunHref(alone.RunID, "")).Code)
}

func TestPipelinesAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, next := b.recordPipeline(t, "choose a cache")
	for range 60 {
		b.spawned(t, "others")
	}
	ids := func(query string) []string {
		doc, _ := b.page(t, "/pipelines?"+query)
		return attributes(doc, "data-pipeline")
	}
	require.Equal(t, []string{fmt.Sprint(next.ID), fmt.Sprint(p.ID)}, ids("text=CACHE"))
	require.Equal(t, []string{fmt.Sprint(p.ID)}, ids("abort=stuck"))
	require.Empty(t, ids("abort=timeout"))
	require.Len(t, ids("time=1h"), 50)
	doc, _ := b.page(t, "/pipelines")
	older := ""
	for n := range doc.Descendants() {
		if attribute(n, "rel") == "next" {
			older = attribute(n, "href")
		}
	}
	doc, _ = b.page(t, older)
	require.Len(t, attributes(doc, "data-pipeline"), 12)
	_, text := b.page(t, "/pipelines?text=nothing+like+it")
	require.Contains(t, text, "No matching pipelines")
	for _, bad := range []string{"status=WELL", "kind=x", "abort=x", "time=x", "cursor=x"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, "/pipelines?"+bad).Code, bad)
	}
	for _, none := range []string{"/pipelines/999999", "/pipelines/x", "/pipelines/0", fmt.Sprintf("/pipelines/%d/texts/none", p.ID), "/pipelines/999999/handoff", "/pipelines/999999/texts/" + longRef} {
		require.Equal(t, http.StatusNotFound, b.get(t, none).Code, none)
	}
	require.Equal(t, http.StatusMethodNotAllowed, b.ask(t, http.MethodPost, "/pipelines/1").Code)
}

func TestAnEmptyListOfPipelinesSaysHowToStart(t *testing.T) {
	t.Parallel()
	_, text := setup(t).page(t, "/pipelines")
	require.Contains(t, text, "rgpt pipeline spawn")
}

func TestALongDeliberationHasAShortPage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawned(t, "long")
	at, text := time.Now(), contract.Text{Head: strings.Repeat("long ", 100), Ref: longRef, Size: 1 << 17}
	var r contract.PipelineRecord
	for i := range 1000 {
		e := contract.Entry{Section: contract.SectionSolutions, Key: fmt.Sprint("p", i), Author: contract.Alpha, Kind: contract.MovePropose, Value: text, Version: 1, Timestamp: at.Add(time.Duration(i) * time.Second)}
		r.Entries = append(r.Entries, e)
		r.Messages = append(r.Messages, contract.Message{Seq: i + 1, ID: fmt.Sprint(i), From: contract.Members()[i%3], Text: text, At: at})
		r.Errors = append(r.Errors, contract.Error{Member: contract.Alpha, Class: contract.ClassLLM, Message: fmt.Sprint("error ", i)})
	}
	r.Change = &contract.PipelineChange{Status: contract.PipelineOrchestrating, Metrics: contract.DeliberationMetrics{TotalMessages: 1000}, Members: []contract.MemberView{{Member: contract.Alpha}}}
	b.writePipelineRecord(t, p, r)
	w := b.get(t, ui.PipelineHref(p.ID))
	require.Less(t, w.Body.Len(), 500<<10)
	body := w.Body.String()
	require.Contains(t, body, `id="message-1000"`)
	require.Contains(t, body, "the last 150 of 1000")
	require.Contains(t, body, `id="entry-solutions-p999"`)
	require.Contains(t, body, "900 older entries are not shown here")
	require.Contains(t, body, "the last 50 of 1000")
}

func TestThePartsOfAScoreAddUpToIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20)
		m := contract.DeliberationMetrics{
			Consensus: rapid.Bool().Draw(t, "consensus"), Iterations: n.Draw(t, "used"), ConflictsDetected: n.Draw(t, "detected"), ConflictsResolved: n.Draw(t, "resolved"),
			Refused: n.Draw(t, "refused"), GammaSpawned: rapid.Bool().Draw(t, "gamma"),
			GammaReason: rapid.SampledFrom([]contract.GammaReason{contract.GammaStuck, contract.GammaConflict, contract.GammaSuccess}).Draw(t, "why"),
		}
		iterations := n.Draw(t, "iterations")
		sum := 0.0
		for _, part := range ui.ScoreParts(m, iterations) {
			sum += part.Points
		}
		require.InDelta(t, m.Score(iterations), max(0, sum), 0.0051)
	})
}

func TestAPipelineReportsItsEndOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const hint = "write less"
	stopped := &contract.Failure{Class: contract.ClassHuman, Code: contract.CodeCancelled, Message: "stopped by ann (enough); partial results are kept"}
	agreed := &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeNoConsensus, Message: "the deliberation reached no consensus (stuck): " + hint}
	lost := &contract.Failure{Class: contract.ClassLogic, Code: contract.CodeNoConsensus, Message: agreed.Message + "; it could not be recovered: no row"}
	keyless := &contract.Failure{Class: contract.ClassConfig, Code: contract.CodeUnauthorized, Message: "openai refused the key"}
	for name, c := range map[string]struct {
		change   contract.PipelineChange
		recovers int
		has, not []string
	}{
		"stopped":            {contract.PipelineChange{Status: contract.PipelineStopped, Failure: stopped}, 2, []string{"Stopped by ann (enough); partial results are kept.", "Stopped pipelines are not recovered."}, []string{"HUMAN_ERROR"}},
		"stuck":              {contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortStuck, Failure: agreed, FailureCtx: &contract.FailureContext{RecoveryHint: hint}}, 0, []string{"no agent made progress", "recovery is disabled"}, []string{"LOGIC_ERROR"}},
		"stuck, then broken": {contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, AbortReason: contract.AbortStuck, Failure: lost, FailureCtx: &contract.FailureContext{RecoveryHint: hint}}, 2, []string{"it could not be recovered: no row"}, nil},
		"without a key":      {contract.PipelineChange{Status: contract.PipelineFailed, Failure: keyless, FailureCtx: &contract.FailureContext{RecoveryHint: hint}}, 2, []string{"CONFIG_ERROR", "openai refused the key", "the same agents would fail in the same way"}, nil},
	} {
		p, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: name, Settings: contract.DeliberationSettings{Mode: contract.ModeLocal, Iterations: 10, Recoveries: c.recovers, AbortAfter: time.Minute}})
		require.NoError(t, err)
		c.change.Finished = true
		b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &c.change})
		_, text := b.page(t, ui.PipelineHref(p.ID))
		for _, want := range c.has {
			require.Contains(t, text, want, name)
		}
		for _, not := range c.not {
			require.NotContains(t, text, not, name)
		}
		if c.change.Failure == agreed {
			require.Equal(t, 1, strings.Count(text, hint), "the hint is said once")
		}
	}
}

func TestWhoWasLateWithTheOpeningIsNamedWhereAPipelineAsks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for text, beta := range map[string]contract.MemberStatus{
		"ALPHA and BETA have each finished their opening turns.":                  contract.MemberIdle,
		"ALPHA has finished its opening turn. BETA took too long; late results":   contract.MemberTimedOut,
		"ALPHA has finished its opening turn. BETA failed and left the pipeline.": contract.MemberRevoked,
	} {
		p := b.spawned(t, "o")
		b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{
			Status: contract.PipelineReport, WaitingFor: contract.UpdateContinue, Metrics: contract.DeliberationMetrics{BlackboardWrites: 1},
			Members: []contract.MemberView{{Member: contract.Alpha, Status: contract.MemberIdle}, {Member: contract.Beta, Status: beta}},
		}})
		_, said := b.page(t, ui.PipelineHref(p.ID))
		require.Contains(t, said, text)
		require.Contains(t, said, "1 write, 0 reads")
	}
}

func TestAllPipelinesThatWaitAreCountedHoweverFewAreShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 23 {
		b.writePipelineRecord(t, b.spawned(t, "o"), contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineReport, WaitingFor: contract.UpdateContinue}})
	}
	doc, text := b.page(t, "/pipelines")
	require.Contains(t, text, "Waiting for you (23)")
	shown := slices.DeleteFunc(attributes(doc, "id"), func(id string) bool { return !strings.HasPrefix(id, "ask-") })
	require.Len(t, shown, 20)
	require.Contains(t, attributes(doc, "href"), "/pipelines?status=REPORT", "where the others are")
}

func TestAPipelinesPageShowsEachModelWithWhatDeterminedIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hostile := `<script>x</script>`
	p, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "x", Settings: contract.DeliberationSettings{
		Mode: contract.ModeOpenRouter,
		Models: map[contract.Agent]contract.ModelChoice{
			contract.AgentAlpha: {Provider: "openai", Model: "gpt-5", Effort: contract.EffortHigh}, contract.AgentBeta: {Provider: "anthropic", Model: hostile},
		},
		ModelSources: map[contract.Agent]string{contract.AgentAlpha: "settings page, by ana at 2026-11-01T00:00:00Z", contract.AgentBeta: "a switch on the fly by " + hostile},
	}})
	require.NoError(t, err)
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{
		Status: contract.PipelineReport, WaitingFor: "continue", Members: []contract.MemberView{{Member: contract.Alpha}, {Member: contract.Beta}},
	}})
	doc, text := b.page(t, ui.PipelineHref(p.ID))
	for _, want := range []string{"openai/gpt-5 (effort high)", "settings page, by ana at 2026-11-01T00:00:00Z", "anthropic/" + hostile, "a switch on the fly by " + hostile} {
		require.Contains(t, text, want)
	}
	var fields []string
	for n := range doc.Descendants() {
		if name := attribute(n, "name"); n.Data == "select" || n.Data == "input" {
			fields = append(fields, name)
		}
	}
	require.Subset(t, fields, []string{"model", "effort", "timeout"}, "of the form to continue")
	require.Contains(t, b.get(t, ui.PipelineHref(p.ID)).Body.String(), "data-writing")
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{Status: contract.PipelineStopped}})
	require.NotContains(t, b.get(t, ui.PipelineHref(p.ID)).Body.String(), "data-writing")
}

func TestAPipelineShowsWhatIsLeftOfItsBudgets(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Models.Budgets.ProjectDayCostUSD = 2_000_000
	limits := contract.RunBudget{Tokens: 1000, Agents: map[contract.Agent]contract.AgentBudget{contract.AgentAlpha: {Tokens: 700}}}
	p, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{
		Project: "<b>app", Objective: "o", Settings: contract.DeliberationSettings{Mode: contract.ModeLocal, Iterations: 10, Budget: limits},
	})
	require.NoError(t, err)
	e := b.begin(t, p.RunID, contract.PhasePlanner, "alpha", contract.AgentAlpha)
	scopes := append(store.RunScopes(p.RunID, limits), store.PeriodScope(store.ScopeProject, "<b>app", time.Now(), store.Daily, 0, 2_000_000))
	call, err := b.ReserveCall(t.Context(), store.Reservation{Execution: e, Turn: 1, Provider: "p", Model: "m", Prompt: 640, Scopes: scopes})
	require.NoError(t, err)
	require.NoError(t, b.CompleteCall(t.Context(), call.ID, contract.Usage{Calls: 1, PromptTokens: 640, MicroUSD: 500_000}, time.Second, []byte(`{}`), nil))

	_, text := b.page(t, ui.PipelineHref(p.ID))
	text = strings.Join(strings.Fields(text), " ")
	for _, shown := range []string{
		"This pipeline and its recoveries execution.run 360 tokens left", "The agent alpha in run " + fmt.Sprint(p.RunID) + " execution.agents.alpha 60 tokens left",
		"The project <b>app in " + time.Now().UTC().Format(time.DateOnly) + " models.budgets.project_day $1.50 left",
	} {
		require.Contains(t, text, shown)
	}
	require.NotContains(t, text, "The tenant", "it has no limit")
}
