package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server"
)

// spawnRow makes a pipeline by its rows alone.
func (b *fixture) spawnRow(tb testing.TB, objective string) store.Pipeline {
	tb.Helper()
	p, _, err := b.SpawnPipeline(tb.Context(), store.NewPipelineRow{
		Objective: objective, Task: contract.DeliberationTask{TaskID: "t-1"}, Settings: contract.DeliberationSettings{
			Mode: contract.ModeLocal, Recoveries: 2, Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "p", Model: "m"}},
		},
	})
	require.NoError(tb, err)
	return p
}

// writePipelineRecord records a step of a pipeline, as its workflow does.
func (b *fixture) writePipelineRecord(tb testing.TB, p store.Pipeline, r contract.PipelineRecord) {
	tb.Helper()
	b.seq++
	r.PipelineID, r.RunID, r.Seq, r.At = p.ID, p.RunID, b.seq, time.Now()
	require.NoError(tb, b.PipelineRecord(tb.Context(), store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: "first"}, r))
}

// checkpoint lets a pipeline report its opening turns and wait.
func (b *fixture) checkpoint(tb testing.TB, p store.Pipeline) {
	tb.Helper()
	b.writePipelineRecord(tb, p, contract.PipelineRecord{
		Change: &contract.PipelineChange{
			Status: contract.PipelineReport, WaitingFor: contract.UpdateContinue,
			Report: &contract.DeliberationReport{PipelineID: p.ID, Kind: contract.ReportCheckpoint, Status: contract.PipelineReport, Summary: "two proposals", At: time.Now()},
		},
		Entries:  []contract.Entry{{Section: contract.SectionSolutions, Key: "p1", Author: contract.Alpha, Kind: contract.MovePropose, Value: contract.Text{Head: "cut…", Ref: "r1", Size: 2000}, Version: 1, Timestamp: time.Now(), State: contract.EntryLive}},
		Messages: []contract.Message{{Seq: 1, ID: "ALPHA-1-2", From: contract.Alpha, To: contract.Beta, Text: contract.Text{Head: strings.Repeat("m", 512), Ref: "r2"}, At: time.Now()}},
		Votes:    []contract.Vote{{ID: "BETA-1-1", Voter: contract.Beta, Key: "s1", Version: 1, Accept: true, At: time.Now()}},
		Errors:   []contract.Error{{ID: "BETA-1-3", Member: contract.Beta, Class: contract.ClassLLM, Code: contract.CodeInvalidOutput, Message: "no such key"}},
		Events: []contract.EventDraft{
			{Type: contract.EventBlackboardWritten, Payload: map[string]any{"section": "solutions", "key": "p1", "version": 1, "author": "ALPHA", "move": "propose", "text": strings.Repeat("c", 512)}},
			{Type: contract.EventAgentMessage, Payload: map[string]any{"id": "ALPHA-1-2", "seq": 1, "from": "ALPHA", "to": "BETA", "text": strings.Repeat("m", 512)}},
			{Type: contract.EventVoteCast, Payload: map[string]any{"id": "BETA-1-1", "voter": "BETA", "key": "s1", "version": 1, "accept": true}},
			{Type: contract.EventAgentError, Payload: map[string]any{"id": "BETA-1-3", "member": "BETA", "error_type": "LLM_ERROR", "error_code": "invalid_output", "error_message": "no such key"}},
			{Type: contract.EventGammaSpawned, Payload: map[string]any{"reason": "STUCK"}},
			{Type: contract.EventPipelineUpdated, Payload: map[string]any{"status": "REPORT", "from": "RUNNING", "waiting_for": "continue"}},
		},
	})
	require.NoError(tb, b.SavePipelineTexts(tb.Context(), p.ID, store.PipelineText{Ref: "r1", Text: "the whole proposal"}, store.PipelineText{Ref: "r2", Text: "the whole message"}))
}

// deliberations is a Temporal that starts pipelines and answers for them.
type deliberations struct {
	client.Client
	mu      sync.Mutex
	started []client.StartWorkflowOptions
	told    []contract.PipelineCommand
	names   []string
	answer  error
}

func (d *deliberations) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = append(d.started, o)
	return startedPipeline{id: o.ID}, nil
}

type startedPipeline struct {
	client.WorkflowRun
	id string
}

func (s startedPipeline) GetID() string  { return s.id }
func (startedPipeline) GetRunID() string { return "first" }

func (d *deliberations) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	command, ok := o.Args[0].(contract.PipelineCommand)
	if !ok {
		return nil, fmt.Errorf("%s is told %T", o.UpdateName, o.Args[0])
	}
	d.told, d.names = append(d.told, command), append(d.names, o.WorkflowID+" "+o.UpdateName)
	return pipelineAnswer{err: d.answer}, nil
}

type pipelineAnswer struct {
	client.WorkflowUpdateHandle
	err error
}

func (a pipelineAnswer) Get(_ context.Context, to any) error {
	if a.err != nil {
		return a.err
	}
	return json.Unmarshal([]byte(`{"applied": true, "status": "ORCHESTRATING", "message": "goes on"}`), to)
}

// deliberating is a fixture whose only models are scripted, and whose pipelines answer.
func deliberating(t *testing.T) (*fixture, *deliberations) {
	t.Helper()
	b, d := setup(t), &deliberations{}
	models := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"object": "list", "data": []}`) }))
	t.Cleanup(models.Close)
	cfg := config.Default()
	cfg.Models.Providers["scripted"] = config.Provider{Kind: "scripted", BaseURL: models.URL + "/v1", MaxConcurrent: 1}
	cfg.Models.Default = config.Choice{Provider: "scripted", Model: "scripted"}
	b.handler = server.New(server.Options{
		Runs:  &control.Runs{Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts, Temporal: d, Config: cfg, DataDir: t.TempDir()},
		Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts, Temporal: d, Namespace: "default", Log: slog.New(slog.DiscardHandler),
		Pictures: 64 << 20, Hooks: webhook.New(b.Store, b.Feed, hookSettings(), slog.New(slog.DiscardHandler)),
	})
	return b, d
}

// post posts a body and reads the answer.
func (b *fixture) post(t *testing.T, path, body string, status int, out any, headers ...string) {
	t.Helper()
	w := b.send(t, http.MethodPost, path, body, headers...)
	require.Equal(t, status, w.Code, "%s %s: %s", path, body, w.Body)
	if status >= http.StatusBadRequest {
		requireProblem(t, w)
	}
	if out != nil {
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), out))
	}
}

type spawnedAnswer struct {
	PipelineID int64  `json:"pipeline_id"`
	Status     string `json:"status"`
	WorkflowID string `json:"workflow_id"`
	Created    bool   `json:"created"`
}

func TestAPipelineIsSpawnedOnceForAKeyWithAllThatWasAsked(t *testing.T) {
	t.Parallel()
	b, d := deliberating(t)
	order := `{"objective": "Design a caching strategy", "auto_continue": true, "mode": "local", "timeout": 90, "force_gamma": true,
		"task": {"task_id": "cache", "complexity": "high", "constraints": ["no downtime"], "subtasks": [{"id": "a", "description": "measure"}], "timeout_seconds": 30}}`
	var first, again spawnedAnswer
	b.post(t, "/api/spawn", order, http.StatusCreated, &first, "Idempotency-Key", "k")
	b.post(t, "/api/spawn", order, http.StatusCreated, &again, "Idempotency-Key", "k")
	require.Equal(t, first, again)
	require.Equal(t, spawnedAnswer{PipelineID: first.PipelineID, Status: "SPAWNED", WorkflowID: fmt.Sprintf("pipeline-%d", first.PipelineID), Created: true}, first)
	b.post(t, "/api/spawn", strings.Replace(order, "caching", "queueing", 1), http.StatusConflict, nil, "Idempotency-Key", "k")
	p, err := b.Pipeline(t.Context(), first.PipelineID)
	require.NoError(t, err)
	require.Equal(t, contract.DeliberationTask{
		TaskID: "cache", Objective: "Design a caching strategy", Complexity: 0.9, Constraints: []string{"no downtime"},
		Subtasks: []contract.Subtask{{ID: "a", Description: "measure"}}, TimeoutSeconds: 90,
	}, p.Task)
	require.Equal(t, []any{true, true, contract.ModeLocal, 90 * time.Second}, []any{p.Settings.AutoContinue, p.Settings.ForceGamma, p.Settings.Mode, p.Settings.Timeout})
	require.Equal(t, "first", p.WorkflowRunID)
	require.Len(t, d.started, 1)
	require.Equal(t, first.WorkflowID, d.started[0].ID)

	b.forgetAnswers(t) // a server that died before it answered
	b.post(t, "/api/spawn", order, http.StatusCreated, &again, "Idempotency-Key", "k")
	require.Equal(t, first.PipelineID, again.PipelineID)
	require.False(t, again.Created)
	var plain spawnedAnswer
	b.post(t, "/api/spawn", `{"objective": "Design a caching strategy"}`, http.StatusCreated, &plain)
	p, err = b.Pipeline(t.Context(), plain.PipelineID)
	require.NoError(t, err)
	require.NotEqual(t, first.PipelineID, p.ID)
	require.False(t, p.AutoContinue)
	require.NotEmpty(t, p.Task.TaskID)
	require.Len(t, d.started, 2)
}

func TestASpawnThatCannotBeDoneMakesNothing(t *testing.T) {
	t.Parallel()
	b, _ := deliberating(t)
	for body, status := range map[string]int{
		`{}`:                                       http.StatusUnprocessableEntity,
		`{"objective": " "}`:                       http.StatusUnprocessableEntity,
		`{"objective": "o", "mode": "remote"}`:     http.StatusUnprocessableEntity,
		`{"objective": "o", "model": "x"}`:         http.StatusUnprocessableEntity,
		`{"objective": "o", "model": "nowhere/x"}`: http.StatusUnprocessableEntity,
		`{"objective": "o", "mode": "local", "model": "openai/gpt-5"}`:                                  http.StatusUnprocessableEntity,
		`{"objective": "o", "timeout": -1}`:                                                             http.StatusUnprocessableEntity,
		`{"objective": "o", "task": {"complexity": "huge"}}`:                                            http.StatusUnprocessableEntity,
		`{"objective": "o", "task": {"complexity": 1.5}}`:                                               http.StatusUnprocessableEntity,
		`{"objective": "o", "task": {"nonsense": 1}}`:                                                   http.StatusUnprocessableEntity,
		`{"objective": "o", "task": {"objective": "another"}}`:                                          http.StatusUnprocessableEntity,
		`{"objective": "` + strings.Repeat("x", 33<<10) + `"}`:                                          http.StatusUnprocessableEntity,
		`{"objective": "o", "task": {"subtasks": [{"id":"a","description":"d","dependencies":["b"]}]}}`: http.StatusUnprocessableEntity,
	} {
		b.post(t, "/api/spawn", body, status, nil)
	}
	list, err := b.ListPipelines(t.Context(), store.PipelineFilter{})
	require.NoError(t, err)
	require.Empty(t, list)
	b = setup(t) // without any model
	b.post(t, "/api/spawn", `{"objective": "o"}`, http.StatusUnprocessableEntity, nil)
}

func TestCommandsReachThePipelineAndCountOnceForAKey(t *testing.T) {
	t.Parallel()
	b, d := deliberating(t)
	p := b.spawnRow(t, "o")
	of := func(rest string) string { return fmt.Sprintf(`{"pipeline_id": %d%s}`, p.ID, rest) }
	for _, c := range []struct {
		path, body, name string
		want             contract.PipelineCommand
	}{
		{"/api/pipeline/continue", of(`, "timeout": 30, "by": "ann"`), "continue", contract.PipelineCommand{By: "ann", Timeout: 30 * time.Second}},
		{"/api/pipeline/continue", of(`, "mode": "local"`), "continue", contract.PipelineCommand{By: "api"}},
		{"/api/pipeline/continue", of(`, "effort": "high", "by": "ann"`), "continue", contract.PipelineCommand{
			By: "ann", Models: map[contract.Agent]contract.ModelChoice{contract.AgentAlpha: {Provider: "p", Model: "m", Effort: contract.EffortHigh}},
		}},
		{fmt.Sprintf("/api/pipeline/%d/stop", p.ID), `{"reason": "enough"}`, "stop", contract.PipelineCommand{By: "api", Reason: "enough"}},
		{fmt.Sprintf("/api/pipeline/%d/stop", p.ID), ``, "stop", contract.PipelineCommand{By: "api"}},
		{"/api/pipeline/models", of(`, "agent": "gamma", "model": "scripted/other", "by": "ann"`), "switch_model", contract.PipelineCommand{
			By: "ann", Models: map[contract.Agent]contract.ModelChoice{contract.Gamma.Agent(): {Provider: "scripted", Model: "other"}},
		}},
		{"/api/pipeline/revoke", of(`, "agent": "beta", "reason": "it repeats itself"`), "revoke", contract.PipelineCommand{By: "api", Member: contract.Beta, Reason: "it repeats itself"}},
		{"/api/pipeline/errors/record", of(`, "agent": "ALPHA", "error_type": "LLM_ERROR", "message": "made up"`), "record_error", contract.PipelineCommand{
			By: "api", Member: contract.Alpha, Error: &contract.Error{Member: contract.Alpha, Class: contract.ClassLLM, Code: contract.CodeUnknown, Message: "made up"},
		}},
		{"/api/pipeline/failure-context", of(`, "context": "the network was down"`), "failure_context", contract.PipelineCommand{By: "api", Context: "the network was down"}},
	} {
		d.told, d.names = nil, nil
		var ack struct {
			Message string `json:"message"`
		}
		key := "key of " + c.path + c.body
		b.post(t, c.path, c.body, http.StatusOK, &ack, "Idempotency-Key", key)
		b.post(t, c.path, c.body, http.StatusOK, nil, "Idempotency-Key", key)
		require.Equal(t, "goes on", ack.Message)
		require.Equal(t, []string{fmt.Sprintf("pipeline-%d %s", p.ID, c.name)}, d.names)
		id := d.told[0].ID
		require.NotEmpty(t, id)
		b.forgetAnswers(t)
		b.post(t, c.path, c.body, http.StatusOK, nil, "Idempotency-Key", key)
		require.Equal(t, id, d.told[1].ID, "a server that forgot sends the same command")
		d.told[0].ID = ""
		require.Equal(t, c.want, d.told[0])
	}
}

func TestAContinueWithAnotherModelNamesItForAllAgents(t *testing.T) {
	t.Parallel()
	b, d := deliberating(t)
	p := b.spawnRow(t, "o")
	b.post(t, "/api/pipeline/continue", fmt.Sprintf(`{"pipeline_id": %d, "model": "scripted/other"}`, p.ID), http.StatusOK, nil)
	require.Len(t, d.told, 1)
	require.Equal(t, contract.ModeLocal, d.told[0].Mode)
	for _, m := range contract.Members() {
		require.Equal(t, contract.ModelChoice{Provider: "scripted", Model: "other"}, d.told[0].Models[m.Agent()])
	}
}

func TestCommandsToPipelinesThatCannotTakeThemSayWhy(t *testing.T) {
	t.Parallel()
	b, d := deliberating(t)
	p := b.spawnRow(t, "o")
	commands := func(id any) map[string]string {
		return map[string]string{
			"/api/pipeline/continue":                 fmt.Sprintf(`{"pipeline_id": %v}`, id),
			fmt.Sprintf("/api/pipeline/%v/stop", id): `{}`,
			"/api/pipeline/revoke":                   fmt.Sprintf(`{"pipeline_id": %v, "agent": "ALPHA"}`, id),
			"/api/pipeline/errors/record":            fmt.Sprintf(`{"pipeline_id": %v, "agent": "ALPHA", "error_type": "LLM_ERROR", "message": "m"}`, id),
			"/api/pipeline/failure-context":          fmt.Sprintf(`{"pipeline_id": %v, "context": "c"}`, id),
		}
	}
	each := func(id any, status int, says string) {
		for path, body := range commands(id) {
			w := b.send(t, http.MethodPost, path, body)
			require.Equal(t, status, w.Code, "%s: %s", path, w.Body)
			requireProblem(t, w)
			require.Contains(t, w.Body.String(), says, path)
		}
	}
	each(999999, http.StatusNotFound, "pipeline 999999 not found")
	require.Empty(t, d.told)
	for _, id := range []any{0, -1, `"x"`, 1.5} {
		for path, body := range commands(id) {
			w := b.send(t, http.MethodPost, path, body)
			require.Contains(t, []int{http.StatusNotFound, http.StatusUnprocessableEntity}, w.Code, "%s %s", path, body)
		}
	}
	for path, body := range map[string]string{
		"/api/pipeline/revoke":        `, "agent": "DELTA"}`,
		"/api/pipeline/errors/record": `, "agent": "ALPHA", "error_type": "ODD_ERROR", "message": "m"}`,
		"/api/pipeline/continue":      `, "mode": "remote"}`,
	} {
		b.post(t, path, fmt.Sprintf(`{"pipeline_id": %d`, p.ID)+body, http.StatusUnprocessableEntity, nil)
	}
	require.Empty(t, d.told)
	d.answer = sdk.NewApplicationError("it has no wish to", "HUMAN_ERROR")
	each(p.ID, http.StatusConflict, "it has no wish to")
	d.answer = serviceerror.NewNotFound("workflow not found")
	each(p.ID, http.StatusConflict, "has not started yet")
	for _, late := range []error{context.DeadlineExceeded, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(serviceerror.NewDeadlineExceeded("context deadline exceeded"))} {
		d.answer = late
		each(p.ID, http.StatusServiceUnavailable, "did not respond")
	}
	d.answer = errors.New("secret text of the inside")
	w := b.send(t, http.MethodPost, "/api/pipeline/continue", fmt.Sprintf(`{"pipeline_id": %d}`, p.ID))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotContains(t, w.Body.String(), "secret text")
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: &contract.PipelineChange{
		Status: contract.PipelineTimeout, AbortReason: contract.AbortTimeout, Finished: true, FailureCtx: &contract.FailureContext{Reason: "timeout", RecoveryHint: "write less"},
	}})
	d.answer = serviceerror.NewNotFound("workflow execution already completed")
	each(p.ID, http.StatusConflict, fmt.Sprintf("pipeline %d has ended (TIMEOUT)", p.ID))
	var kept control.KeptFailure
	b.post(t, "/api/pipeline/failure-context", fmt.Sprintf(`{"pipeline_id": %d}`, p.ID), http.StatusOK, &kept)
	require.Equal(t, "write less", kept.FailureContext.RecoveryHint)
}

func TestAPipelineIsReadWithTheWholeOfItsTexts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	requireProblem(t, b.get(t, "/api/checkpoint/report"))
	require.Equal(t, http.StatusNotFound, b.get(t, "/api/checkpoint/report").Code)
	require.Equal(t, http.StatusNotFound, b.get(t, "/api/pipeline/logs").Code)
	p := b.spawnRow(t, "Design a cache")
	b.checkpoint(t, p)
	later := b.spawnRow(t, "Design a queue")
	read := func(path string, out any) {
		t.Helper()
		w := b.get(t, path)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), out))
	}
	var report contract.DeliberationReport
	read("/api/checkpoint/report", &report)
	require.Equal(t, []any{p.ID, "two proposals"}, []any{report.PipelineID, report.Summary}, "the newest that has one")
	require.Equal(t, http.StatusNotFound, b.get(t, fmt.Sprintf("/api/checkpoint/report?pipeline_id=%d", later.ID)).Code)
	require.Equal(t, http.StatusNotFound, b.get(t, fmt.Sprintf("/api/checkpoint/report?kind=final&pipeline_id=%d", p.ID)).Code)
	require.Equal(t, http.StatusBadRequest, b.get(t, "/api/checkpoint/report?pipeline_id=x").Code)
	var o control.Orchestration
	read(fmt.Sprintf("/api/pipeline/%d/orchestration", p.ID), &o)
	require.Equal(t, []any{p.ID, contract.PipelineReport, "continue"}, []any{o.ID, o.Status, o.WaitingFor})
	require.Equal(t, "the whole proposal", o.Blackboard[0].Value.Head)
	require.Equal(t, "the whole message", o.Messages[0].Text.Head)
	require.Equal(t, []int{1, 1, 1}, []int{len(o.Votes), len(o.Errors), len(o.Reports)})

	var logs struct {
		PipelineID int64                 `json:"pipeline_id"`
		Entries    []control.PipelineLog `json:"entries"`
	}
	read("/api/pipeline/logs", &logs)
	require.Equal(t, later.ID, logs.PipelineID, "the newest one")
	read(fmt.Sprintf("/api/pipeline/logs?pipeline_id=%d", p.ID), &logs)
	kinds := []control.LogKind{}
	for i, l := range logs.Entries {
		kinds = append(kinds, l.Kind)
		require.Equal(t, int64(i+1), l.Seq)
	}
	require.Equal(t, []control.LogKind{control.LogStatus, control.LogWrite, control.LogMessage, control.LogVote, control.LogError, control.LogEvent, control.LogStatus}, kinds)
	require.Equal(t, []string{"the whole proposal", "the whole message", "no such key", "waits for continue"},
		[]string{logs.Entries[1].Text, logs.Entries[2].Text, logs.Entries[4].Text, logs.Entries[6].Text})
	require.Equal(t, []any{contract.Alpha, contract.Beta}, []any{logs.Entries[2].Agent, logs.Entries[2].To})
	read(fmt.Sprintf("/api/pipeline/logs?pipeline_id=%d&after=2&limit=2", p.ID), &logs)
	require.Len(t, logs.Entries, 2)
	require.Equal(t, int64(3), logs.Entries[0].Seq)
	require.Equal(t, http.StatusNotFound, b.get(t, fmt.Sprintf("/api/runs/%d", p.RunID)).Code, "what carries it is no run")
}

func TestPipelinesAreListedInPagesAndByStatusAndText(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var made []int64
	for i := range 5 {
		p := b.spawnRow(t, fmt.Sprint("objective ", i))
		made = append([]int64{p.ID}, made...)
		if i == 2 {
			b.checkpoint(t, p)
		}
	}
	list := func(query string) (ids []int64, next string) {
		t.Helper()
		var page struct {
			Pipelines []struct {
				ID int64 `json:"pipeline_id"`
			} `json:"pipelines"`
			Next string `json:"next"`
		}
		w := b.get(t, "/api/pipelines?"+query)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		ids = []int64{}
		for _, p := range page.Pipelines {
			ids = append(ids, p.ID)
		}
		return ids, page.Next
	}
	var seen []int64
	ids, next := list("limit=2")
	for seen = ids; next != ""; seen = append(seen, ids...) {
		ids, next = list("limit=2&cursor=" + next)
	}
	require.Equal(t, made, seen)
	ids, _ = list("status=REPORT,COMPLETED")
	require.Equal(t, []int64{made[2]}, ids)
	ids, _ = list("text=OBJECTIVE+4")
	require.Equal(t, []int64{made[0]}, ids)
	ids, _ = list("status=FAILED")
	require.Empty(t, ids)
	for _, bad := range []string{"status=done", "limit=0", "cursor=x", "nonsense=1"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, "/api/pipelines?"+bad).Code, bad)
	}
}

func TestTheStreamOfAPipelineHasOnlyItsEventsAndContinues(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.spawnRow(t, "o")
	end := &contract.PipelineChange{Status: contract.PipelineOrchestrationFailed, Finished: true}
	b.writePipelineRecord(t, p, contract.PipelineRecord{Change: end, Events: []contract.EventDraft{{Type: contract.EventOrchestrationAborted}}})
	next, err := b.CreatePipeline(t.Context(), contract.NewPipeline{RunID: p.RunID, Prior: p.ID, Attempt: 2, Settings: p.Settings})
	require.NoError(t, err)
	b.writePipelineRecord(t, next, contract.PipelineRecord{Events: []contract.EventDraft{{Type: contract.EventAgentSpawned}}})
	b.writePipelineRecord(t, p, contract.PipelineRecord{Events: []contract.EventDraft{{Type: contract.EventRecoveryStarted}}})
	site := httptest.NewServer(b.handler)
	defer site.Close()
	read := func(path, last string, n int) (out []string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, site.URL+path, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Last-Event-ID", last)
		resp, err := site.Client().Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		id, lines := "", bufio.NewScanner(resp.Body)
		for len(out) < n && lines.Scan() {
			if at, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				id = at
			}
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				out = append(out, id+" "+event)
			}
		}
		return out
	}
	path := fmt.Sprintf("/api/pipelines/%d/stream", p.ID)
	require.Equal(t, []string{"1 pipeline.spawned", "2 orchestration_aborted", "5 recovery_started"}, read(path, "", 3))
	require.Equal(t, []string{"5 recovery_started"}, read(path, "2", 1))
	require.Equal(t, []string{"3 pipeline.spawned", "4 agent_spawned"}, read(fmt.Sprintf("/api/pipelines/%d/stream", next.ID), "", 2))
	conn, _, err := websocket.Dial(t.Context(), fmt.Sprintf("%s/ws?pipeline=%d&after=2", site.URL, p.ID), nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	_, raw, err := conn.Read(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(raw), `"id":"5"`)
	for _, bad := range []string{path + "?after=x", "/api/pipelines/999999/stream", "/api/pipelines/x/stream", "/ws?pipeline=999999", fmt.Sprintf("/ws?pipeline=%d&run=1", p.ID)} {
		requireProblem(t, b.get(t, bad))
	}

	c, _ := clientOf(t, b.handler, quietly)
	var seen []int64
	require.NoError(t, c.FollowPipeline(t.Context(), p.ID, 0, func(e contract.Event) error {
		if seen = append(seen, e.Seq); len(seen) == 3 {
			return feed.ErrStop
		}
		return nil
	}))
	require.Equal(t, []int64{1, 2, 5}, seen)
}
