package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/net/html"

	"github.com/rocketgpt/orchestrator/contract"
	installation "github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/modelchoices"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// liveTemporal is a Temporal whose workflows report their state.
type liveTemporal struct {
	client.Client
	view    contract.RunView
	message []sentCommand
}

// sentCommand is a message that a workflow got.
type sentCommand struct {
	name    string
	command contract.Command
}

func (a *liveTemporal) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	command, ok := o.Args[0].(contract.Command)
	if !ok {
		return nil, fmt.Errorf("%s is told %T", o.UpdateName, o.Args[0])
	}
	a.message = append(a.message, sentCommand{o.UpdateName, command})
	return acknowledged{}, nil
}

// acknowledged is the answer of a workflow that did what it was asked to do.
type acknowledged struct{ client.WorkflowUpdateHandle }

func (acknowledged) Get(_ context.Context, to any) error {
	return json.Unmarshal([]byte(`{"applied": true, "status": "tester_running", "message": "goes on"}`), to)
}

func (a *liveTemporal) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	data, err := converter.GetDefaultDataConverter().ToPayloads(a.view)
	return client.NewValue(data), err
}

// models of a run whose pages offer others.
var modelsOfRuns = map[contract.Agent]contract.ModelChoice{
	contract.AgentPlanner: {Provider: "openai", Model: "gpt-5"}, contract.AgentBuilder: {Provider: "openai", Model: "gpt-5"},
}

// plannedRun makes a run that has a plan of two steps, which are done.
func (b *fixture) plannedRun(tb testing.TB) int64 {
	tb.Helper()
	run, _, err := b.CreateRun(tb.Context(), store.NewRun{Project: "p", GoalTitle: "g", Settings: contract.Settings{
		Repo: contract.Repo{URL: "/repos/calculator", Base: "c0ffee", Tree: "beef", Branch: "main"}, Models: modelsOfRuns, Providers: []string{"openai", "anthropic"},
	}, Spec: installation.RunSpec{BranchPrefix: "work/of-"}})
	require.NoError(tb, err)
	require.NoError(tb, b.MarkStarted(tb.Context(), run.ID, contract.RunWorkflowID(run.ID), "0199"))
	planner := b.begin(tb, run.ID, contract.PhasePlanner, "", contract.AgentPlanner)
	plan := contract.Plan{Summary: "what is to be done", Steps: []contract.Step{
		{ID: "step-001", Name: "a", Description: "first", Files: []string{"a.go"}, RiskLevel: contract.LevelLow},
		{ID: "step-002", Name: "b", Description: "then", Dependencies: []string{"step-001"}, RiskLevel: contract.LevelLow},
	}}
	id, err := b.SavePlan(tb.Context(), run.ID, planner.ID, "planner", plan)
	require.NoError(tb, err)
	b.end(tb, planner, map[string]any{}, nil)
	b.record(tb, contract.Record{RunID: run.ID, Run: &contract.RunChange{Status: "builder_running", Phase: contract.PhaseBuilder, PlanID: id}})
	for _, step := range []string{"step-001", "step-002"} {
		e := b.begin(tb, run.ID, contract.PhaseBuilder, step, contract.AgentBuilder)
		b.end(tb, e, contract.StepOutput{Change: contract.Change{Step: step}}, nil)
	}
	tester := b.begin(tb, run.ID, contract.PhaseTester, "", contract.AgentTester)
	b.end(tb, tester, nil, &contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeTestsFailed, Message: "red"})
	return run.ID
}

// runWithQuestion makes a run that asks a person something.
func (b *fixture) runWithQuestion(tb testing.TB, kind string) int64 {
	tb.Helper()
	id := b.plannedRun(tb)
	b.recordQuestion(tb, id, kind, 1)
	return id
}

// recordQuestion makes a run ask a person something, as its workflow does.
func (b *fixture) recordQuestion(tb testing.TB, id int64, kind string, number int) {
	tb.Helper()
	until := time.Now().Add(time.Hour).UTC()
	rec := contract.Record{RunID: id, At: time.Now(), Run: &contract.RunChange{Status: contract.StatusWaitingForApproval, Phase: contract.PhaseTester, WaitingFor: kind}}
	switch kind {
	case contract.AskInput:
		rec.Run.Status = contract.StatusWaitingForInput
		raw, err := json.Marshal(contract.PlannerQuestion{Question: "Which one?", Options: []string{"this", "that"}, Default: "this", Why: "Both exist."})
		require.NoError(tb, err)
		rec.Notes = map[string]string{"id": contract.InputID(id), "kind": kind, "status": "pending", "deadline": until.Format(time.RFC3339), "reason": string(raw)}
	case "plan", "release":
		rec.Notes = map[string]string{"id": fmt.Sprintf("run-%d/%s", id, kind), "kind": kind, "status": "pending", "deadline": until.Format(time.RFC3339)}
	default:
		rec.Interventions = []contract.InterventionNote{{Number: number, Status: "open", Phase: contract.PhaseTester, Reason: "why", ActionRequired: "what", Deadline: &until}}
	}
	b.record(tb, rec)
}

// runsInEveryState makes a run in each status, and one for each thing that a run asks.
func (b *fixture) runsInEveryState(tb testing.TB) map[string]int64 {
	tb.Helper()
	out := map[string]int64{}
	for _, status := range contract.Statuses() {
		id := b.plannedRun(tb)
		change := &contract.RunChange{Status: status, Phase: contract.PhaseTester, Finished: status.Terminal()}
		if status == contract.StatusFailed {
			change.Failure = &contract.Failure{Class: contract.ClassAssertion, Message: "red"}
		}
		b.record(tb, contract.Record{RunID: id, Run: change})
		out[string(status)] = id
	}
	for _, kind := range []string{"plan", "release", contract.AskInput, contract.InterventionHelp, contract.InterventionQuota} {
		out["asks "+kind] = b.runWithQuestion(tb, kind)
	}
	released := &contract.RunChange{Status: contract.StatusDone, Phase: contract.PhaseReleaser, Branch: "rgpt/run-1", Commit: "c0ffee", Finished: true}
	out["released"] = b.plannedRun(tb)
	b.record(tb, contract.Record{RunID: out["released"], Run: released})
	staying, until := *released, time.Now().Add(time.Hour)
	staying.Staying, staying.StayingUntil = true, &until
	out["staying"] = b.plannedRun(tb)
	b.record(tb, contract.Record{RunID: out["staying"], Run: &staying, Events: []contract.EventDraft{{Type: contract.EventStayStarted}}})
	return out
}

// sent is what the script of the pages sends for a button: the fields of its form, and
// the button's own values.
func sent(tb testing.TB, button *html.Node, value func(field *html.Node) []string) (bodies []map[string]any) {
	tb.Helper()
	bodies = []map[string]any{{"by": "dashboard"}}
	form := button.Parent
	for form != nil && form.Data != "form" {
		form = form.Parent
	}
	if form != nil {
		wanted := strings.Fields(attribute(button, "data-fields"))
		for f := range form.Descendants() {
			name := attribute(f, "name")
			if !slices.Contains([]string{"input", "select", "textarea"}, f.Data) || name == "" || len(wanted) > 0 && !slices.Contains(wanted, name) {
				continue
			}
			// Each field takes each of its values once; the others have their first
			// one.
			values := value(f)
			others := bodies[0]
			for _, body := range bodies[1:] {
				fill(tb, body, f, name, values[0])
			}
			for _, text := range values[1:] {
				more := maps.Clone(others)
				fill(tb, more, f, name, text)
				bodies = append(bodies, more)
			}
			fill(tb, others, f, name, values[0])
		}
	}
	for _, body := range bodies {
		if raw := attribute(button, "data-body"); raw != "" {
			require.NoError(tb, json.Unmarshal([]byte(raw), &body))
		}
		if has(button, "data-reason") {
			body["reason"] = "because"
		}
		if has(button, "data-plain") {
			delete(body, "by")
		}
	}
	return bodies
}

// fill puts the value of a field into a body; an empty one is left out.
func fill(tb testing.TB, body map[string]any, field *html.Node, name, text string) {
	tb.Helper()
	if text != "" {
		body[name] = typed(tb, field, text)
	}
}

func typed(tb testing.TB, field *html.Node, text string) (v any) {
	tb.Helper()
	if attribute(field, "data-type") == "json" || attribute(field, "type") == "number" {
		require.NoError(tb, json.Unmarshal([]byte(text), &v))
		return v
	}
	return text
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// somePlan is a plan as people write one.
const somePlan = `{"summary": "s", "complexity_score": 0.5, "steps": []}`

// entries are the possible values of a field: empty if allowed, every option, the ends
// of a range.
func entries(field *html.Node) (out []string) {
	switch {
	case field.Data == "select":
		for o := range field.Descendants() {
			if o.Data == "option" {
				out = append(out, attribute(o, "value"))
			}
		}
		return out
	case attribute(field, "type") == "hidden":
		return []string{attribute(field, "value")}
	case attribute(field, "type") == "number":
		out = []string{attribute(field, "min"), attribute(field, "max")}
	case attribute(field, "data-type") == "json":
		if text := textOf(field); text != "" {
			return []string{text}
		}
		out = []string{somePlan}
	default:
		out = []string{"anthropic/claude"}
	}
	if !has(field, "required") {
		out = append(out, "")
	}
	return out
}

// requests are the schemas of the bodies that the API takes, by path.
type requests struct {
	compiler *jsonschema.Compiler
	paths    map[string]map[string]json.RawMessage
}

func (b *fixture) requests(tb testing.TB) requests {
	tb.Helper()
	raw := b.get(tb, "/api/openapi.json").Body.Bytes()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(tb, err)
	r := requests{compiler: jsonschema.NewCompiler()}
	r.compiler.AssertFormat()
	require.NoError(tb, r.compiler.AddResource("api.json", doc))
	var d struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(tb, json.Unmarshal(raw, &d))
	r.paths = d.Paths
	return r
}

// takes reports whether the API accepts a body at an address of a run.
func (r requests) takes(method, href string, run int64, body map[string]any) error {
	path, _, _ := strings.Cut(strings.Replace(href, fmt.Sprintf("/runs/%d/", run), "/runs/{id}/", 1), "?")
	if agent, ok := strings.CutPrefix(path, "/api/models/agents/"); ok && !strings.Contains(agent, "/") {
		path = "/api/models/agents/{agent}"
	}
	if r.paths[path][strings.ToLower(method)] == nil {
		return fmt.Errorf("the API knows no %s %s", method, path)
	}
	if method == http.MethodDelete { // its parameters are in the address
		return nil
	}
	at := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path)
	schema, err := r.compiler.Compile(fmt.Sprintf("api.json#/paths/%s/%s/requestBody/content/application~1json/schema", at, strings.ToLower(method)))
	if err != nil {
		return err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

func TestEveryCommandOfThePagesIsOneThatTheAPITakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.temporal.Client = &liveTemporal{view: contract.RunView{Models: modelsOfRuns}}
	takes := b.requests(t)
	_, err := modelchoices.New(b.Store).Set(t.Context(), contract.AgentBuilder, contract.ModelChoice{Provider: "openai", Model: "gpt-5"}, nil, "ana")
	require.NoError(t, err)
	known := map[string]int{}
	for state, id := range b.runsInEveryState(t) {
		var paths []string
		for _, tab := range ui.Tabs {
			paths = append(paths, ui.RunHref(id, tab.Name))
		}
		paths = append(paths, ui.RunHref(id, "replay")+"?from=builder&step=step-002", ui.RunHref(id, "replay")+"?from=tester", "/runs", "/agents", "/settings/models")
		for _, path := range paths {
			doc, _ := b.page(t, path)
			for button := range doc.Descendants() {
				name := attribute(button, "data-command")
				if name == "" {
					continue
				}
				method := http.MethodPost
				if has(button, "data-method") {
					method = attribute(button, "data-method")
				}
				require.Equal(t, "button", attribute(button, "type"), "%s on %s submits nothing by itself", name, path)
				require.NotEmpty(t, strings.TrimSpace(textOf(button)), "%s on %s has a name", name, path)
				for _, body := range sent(t, button, entries) {
					require.NoError(t, takes.takes(method, attribute(button, "data-href"), id, body), "%s of a run that is %s, on %s, with %v", name, state, path, body)
				}
				known[state+": "+name]++
			}
		}
	}
	for _, want := range []string{
		"asks plan: approve", "asks plan: reject", "asks plan: approve-edited", "asks release: approve", "asks release: reject", "asks intervention: approve",
		"asks intervention: heal", "asks intervention: reject", "asks quota: approve", "asks quota: reject", "builder_running: pause", "builder_running: stop", "builder_running: switch-model", "done: set-model", "done: unset-model",
		"paused: resume", "paused: advance", "pending: advance", "failed: resume", "failed: replay", "failed: fork", "cancelled: resume", "done: replay", "released: replay", "staying: stop",
	} {
		require.NotZero(t, known[want], "%s: known are %v", want, slices.Sorted(maps.Keys(known)))
	}
}

// commandsOf returns the names of the commands of a run's pages.
func (b *fixture) commandsOf(tb testing.TB, id int64, tabs ...string) (names []string) {
	tb.Helper()
	for _, tab := range tabs {
		doc, _ := b.page(tb, ui.RunHref(id, tab))
		names = append(names, attributes(doc, "data-command")...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestNoCommandIsOfferedThatTheRunWouldRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.temporal.Client = &liveTemporal{view: contract.RunView{Models: modelsOfRuns}}
	runs := b.runsInEveryState(t)
	require.NotContains(t, b.commandsOf(t, runs["asks quota"], "", "replay"), "heal", "who waits for a window asks for no help")
	require.Contains(t, b.commandsOf(t, runs["asks intervention"], "replay"), "heal")
	require.NotContains(t, b.commandsOf(t, runs["asks input"], "", "replay"), "approve", "a question is answered with an option")
	require.NotContains(t, b.commandsOf(t, runs["staying"], "models"), "switch-model", "who only stays with the branch asks no model")
	for _, status := range []string{"done", "failed", "cancelled"} {
		require.NotContains(t, b.commandsOf(t, runs[status], "", "models", "replay"), "pause", status)
		require.NotContains(t, b.commandsOf(t, runs[status], "", "models", "replay"), "switch-model", status)
	}
}

func TestAHealActionIsRejectedByARunThatHasFailed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := &liveTemporal{}
	b.temporal.Client = run
	id := b.runsInEveryState(t)["failed"]
	w := b.send(t, http.MethodPost, fmt.Sprintf("/api/runs/%d/heal", id), `{"action": "repair"}`)
	require.Equal(t, http.StatusConflict, w.Code, w.Body)
	require.Contains(t, w.Body.String(), fmt.Sprintf("run %d has failed and is not waiting for help, so it cannot carry out the action repair; omit the action", id))
	require.Empty(t, run.message, "the workflow is left alone")
}

// buttonOf returns the body that the page of a run sends with a command.
func (b *fixture) buttonOf(tb testing.TB, id int64, tab, name string) string {
	tb.Helper()
	doc, _ := b.page(tb, ui.RunHref(id, tab))
	for n := range doc.Descendants() {
		if attribute(n, "data-command") == name {
			return attribute(n, "data-body")
		}
	}
	require.FailNow(tb, "there is no such command", "%s of run %d", name, id)
	return ""
}

func TestAnAnswerIsToTheQuestionThatWasSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ asked, command, tab string }{
		{"plan", "approve", ""}, {"plan", "reject", ""}, {"plan", "approve-edited", ""}, {"release", "approve", ""}, {"release", "reject", ""},
		{contract.InterventionHelp, "approve", ""}, {contract.InterventionHelp, "reject", ""}, {contract.InterventionHelp, "heal", ""}, {contract.InterventionHelp, "heal", "replay"},
		{contract.InterventionQuota, "approve", ""}, {contract.InterventionQuota, "reject", ""}, {contract.AskInput, "answer-2", ""},
	} {
		t.Run(c.command+" "+c.asked+" "+c.tab, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			run := &liveTemporal{view: contract.RunView{Models: modelsOfRuns}}
			b.temporal.Client = run
			id := b.runWithQuestion(t, c.asked)
			name, _, _ := strings.Cut(c.command, "-")
			path := fmt.Sprintf("/api/runs/%d/%s", id, name)
			seen := b.buttonOf(t, id, c.tab, c.command)

			// The run continues and asks again, about other work.
			b.record(t, contract.Record{
				RunID: id, Run: &contract.RunChange{Status: "tester_running", Phase: contract.PhaseTester},
				Interventions: []contract.InterventionNote{{Number: 1, Status: "resolved", Phase: contract.PhaseTester}},
			})
			w := b.send(t, http.MethodPost, path, seen)
			require.Equal(t, http.StatusConflict, w.Code, "nothing is asked: %s", w.Body)
			b.recordQuestion(t, id, c.asked, 2)
			w = b.send(t, http.MethodPost, path, seen)
			require.Equal(t, http.StatusConflict, w.Code, w.Body)
			require.Contains(t, w.Body.String(), "is no longer waiting for this answer")
			require.Empty(t, run.message, "the run hears nothing of it")

			w = b.send(t, http.MethodPost, path, b.buttonOf(t, id, c.tab, c.command))
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Len(t, run.message, 1)
			want := fmt.Sprintf("run-%d/%s", id, c.asked)
			if !slices.Contains([]string{"plan", "release", contract.AskInput}, c.asked) {
				want = contract.InterventionID(id, 2)
			}
			require.Equal(t, want, run.message[0].command.ApprovalID, "and refuses it too when it asks something else by then")
		})
	}
}

// savePatch makes the builder of a run leave a patch.
func (b *fixture) savePatch(tb testing.TB, id int64, tree, patch string) {
	tb.Helper()
	e := b.begin(tb, id, contract.PhaseBuilder, "", contract.AgentBuilder)
	b.end(tb, e, contract.Workspace{Tree: tree, Patch: b.storeArtifact(tb, patch)}, nil)
}

func TestAReleaseIsApprovedWithWhatWouldBeReleasedInSight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	shown := func(id int64) (patch, said string) {
		doc, said := b.page(t, ui.RunHref(id, ""))
		for n := range doc.Descendants() {
			if attribute(n, "id") == "ask" {
				for c := range n.Descendants() {
					if has(c, "data-diff") {
						patch += textOf(c)
					}
				}
				return patch, textOf(n)
			}
		}
		return "", said
	}
	id := b.plannedRun(t)
	b.savePatch(t, id, "t1", filePatch("a.go", "old", "was released"))
	patch := filePatch("a.go", "old", "was released")
	require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{RunID: id, Name: "releaser/1/change.patch", Type: contract.ArtifactPatch, Size: int64(len(patch)), Digest: b.storeArtifact(t, patch)}}))
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: "tester_running", Phase: contract.PhaseTester, Branch: "rgpt/run-1", Commit: "c0ffee"}})
	b.savePatch(t, id, "t2", filePatch("a.go", "old", "would be <released>"))
	b.recordQuestion(t, id, "release", 1)
	got, _ := shown(id)
	require.Contains(t, got, "+would be <released>")
	require.NotContains(t, got, "was released", "what a replay would put in its place is not what is asked about")

	long := b.plannedRun(t)
	b.savePatch(t, long, "t1", filePatch("a.go", "old", "first")+filePatch("b.go", "", strings.Repeat("x", 300<<10)))
	b.recordQuestion(t, long, "release", 1)
	got, said := shown(long)
	require.Contains(t, got, "+first")
	require.Less(t, len(got), 300<<10)
	require.Contains(t, said, "The change is too long to show in full here")
	_, said = b.page(t, ui.RunHref(long, ""))
	require.Contains(t, said, "Review the whole change before you answer")

	same := b.plannedRun(t)
	b.savePatch(t, same, "t0", "")
	b.recordQuestion(t, same, "release", 1)
	_, said = shown(same)
	require.Contains(t, said, "The release changes no code")

	gone := b.plannedRun(t)
	e := b.begin(t, gone, contract.PhaseBuilder, "", contract.AgentBuilder)
	b.end(t, e, contract.Workspace{Tree: "t1", Patch: strings.Repeat("ab", 32)}, nil)
	b.recordQuestion(t, gone, "release", 1)
	_, said = shown(gone)
	require.Contains(t, said, "The change to be released cannot be shown")
}

func TestHalfAPatchIsNotSentAsTheWhole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.plannedRun(t)
	b.savePatch(t, id, "t1", filePatch("a.go", "", strings.Repeat(strings.Repeat("x", 1000)+"\n+", 17<<10)))
	w := b.get(t, fmt.Sprintf("/runs/%d/changes.patch", id))
	require.Equal(t, http.StatusUnprocessableEntity, w.Code, "%d bytes", w.Body.Len())
	_, said := b.page(t, ui.RunHref(id, "changes"))
	require.Contains(t, said, "too large to show in full")
	require.NotContains(t, said, "No changes yet")
	require.NotContains(t, said, "Copy as patch")
}

func TestAnOldHealIsNotShownWithThePatchOfOneOfAReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.plannedRun(t)
	done, err := b.Executions(t.Context(), id)
	require.NoError(t, err)
	heal := func(workflow string, seq int64, number int, of int64) {
		_, err := b.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(id), WorkflowRunID: workflow}, contract.Record{
			RunID: id, Seq: seq, At: time.Now(), Heals: []contract.HealNote{{
				Number: number, ExecutionID: of, Status: contract.HealStarted, Phase: contract.PhaseTester, ErrorType: contract.ClassAssertion, Action: contract.HealRepair, RootCause: "cause",
			}},
		})
		require.NoError(t, err)
	}
	heal("first", 1000, 1, 0)
	require.NoError(t, b.MarkStarted(t.Context(), id, contract.RunWorkflowID(id), "second"))
	for n := range int64(41) { // more than a page shows
		heal("second", n+1, int(n)+1, done[len(done)-1].ID)
	}
	patch := filePatch("a.go", "old", "of the replay")
	require.NoError(t, b.AddArtifacts(t.Context(), id, []contract.Artifact{{RunID: id, Name: "heal/1/change.patch", Type: contract.ArtifactPatch, Size: int64(len(patch)), Digest: b.storeArtifact(t, patch)}}))
	_, said := b.page(t, ui.RunHref(id, "heals")+"?from=40")
	require.Equal(t, 1, strings.Count(said, "+of the replay"), "one of the two first heals made it")
	_, said = b.page(t, ui.RunHref(id, "heals")+"?from=41")
	require.NotContains(t, said, "+of the replay")
}

func TestStepsOfAPlanThatNoLongerCountsAreNotDone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.plannedRun(t)
	cards, err := b.Cards(t.Context(), []int64{id})
	require.NoError(t, err)
	require.Equal(t, [2]int{2, 2}, [2]int{cards[id].StepsDone, cards[id].Steps})
	plan, err := b.SavePlan(t.Context(), id, 0, "somebody", contract.Plan{Summary: "less", Steps: []contract.Step{{ID: "step-002", Name: "b"}, {ID: "step-007", Name: "c"}}})
	require.NoError(t, err)
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: "builder_running", Phase: contract.PhaseBuilder, PlanID: plan}})
	cards, err = b.Cards(t.Context(), []int64{id})
	require.NoError(t, err)
	require.Equal(t, [2]int{1, 2}, [2]int{cards[id].StepsDone, cards[id].Steps}, "step-001 is of the plan before")
}
