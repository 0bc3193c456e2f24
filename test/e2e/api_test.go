package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestRunsAreMadeAndSteeredThroughTheAPI does through HTTP what the command line
// does: it makes runs, reads their events as they come, answers their questions,
// and does one again.
func TestRunsAreMadeAndSteeredThroughTheAPI(t *testing.T) {
	t.Parallel()
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: append(
		makes("right").Named("api-approved"), first(makes("right"), rule(on("agent", "builder"), status(401), 0)).Named("api-helped")...,
	)})}
	w.shell = harness.ShellRepo(t, w.Dir+"/shell")
	call := func(method, path string, in any, status int, out any, headers ...string) {
		t.Helper()
		var raw []byte
		if in != nil {
			var err error
			raw, err = json.Marshal(in)
			require.NoError(t, err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, w.State(t).Server+path, bytes.NewReader(raw))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		var text bytes.Buffer
		_, err = text.ReadFrom(resp.Body)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode, "%s %s: %s", method, path, text.String())
		if out != nil {
			require.NoError(t, json.Unmarshal(text.Bytes(), out))
		}
	}
	type made struct {
		RunID   int64 `json:"runId"`
		Created bool  `json:"created"`
	}
	var run, same made
	order := map[string]any{"repo": w.shell, "goal": harness.Goal("api-approved"), "approve_release": true}
	call(http.MethodPost, "/api/runs", order, http.StatusCreated, &run, "Idempotency-Key", "one")
	call(http.MethodPost, "/api/runs", order, http.StatusCreated, &same, "Idempotency-Key", "one")
	require.Equal(t, run, same, "the same key is the same run, and the same answer")
	order["goal"] = "Run something else"
	call(http.MethodPost, "/api/runs", order, http.StatusConflict, nil, "Idempotency-Key", "one")
	path := fmt.Sprintf("/api/runs/%d", run.RunID)

	events := w.streamed(t, path, func(e contract.Event) bool { return e.Type == contract.EventApprovalRequested })
	call(http.MethodPost, path+"/replay", map[string]any{"phase": "tester"}, http.StatusConflict, nil)
	var ack contract.Ack
	call(http.MethodPost, path+"/approve", map[string]any{"by": "ann", "reason": "fine"}, http.StatusOK, &ack, "Idempotency-Key", "yes")
	require.True(t, ack.Applied)
	events = append(events, w.streamed(t, fmt.Sprintf("%s/stream?after=%d", path, events[len(events)-1].Seq), func(e contract.Event) bool {
		return e.Type == contract.PhaseReleaser.CompletedEvent()
	})...)
	for i, e := range events {
		require.Equal(t, int64(i+1), e.Seq, "each event once, in order")
	}
	var details views.RunDetails
	call(http.MethodGet, path, nil, http.StatusOK, &details)
	require.Equal(t, contract.StatusDone, details.Status)
	require.Equal(t, w.Inspect(t, run.RunID).ReleaseCommit, details.ReleaseCommit, "the API says what the command line says")
	call(http.MethodPost, path+"/stop", nil, http.StatusConflict, nil)
	call(http.MethodPost, path+"/replay", map[string]any{"phase": "tester", "by": "ann"}, http.StatusOK, nil)
	again := w.streamed(t, fmt.Sprintf("%s/stream?after=%d", path, details.EventSeq), func(e contract.Event) bool { return e.Type == contract.PhaseReleaser.CompletedEvent() })
	require.NotContains(t, eventTypes(again), contract.EventApprovalRequested, "the same release is approved already")
	w.AwaitEnd(t, w.Store(t), run.RunID, longest)

	call(http.MethodPost, "/api/runs", map[string]any{"repo": w.shell, "goal": harness.Goal("api-helped")}, http.StatusCreated, &run)
	path = fmt.Sprintf("/api/runs/%d", run.RunID)
	w.streamed(t, path+"/stream", func(e contract.Event) bool { return e.Type == contract.EventInterventionRequested })
	var open struct {
		Interventions []views.Intervention `json:"interventions"`
	}
	call(http.MethodGet, "/api/interventions", nil, http.StatusOK, &open)
	require.Len(t, open.Interventions, 1)
	call(http.MethodPost, path+"/models", map[string]any{"model": "nowhere/x"}, http.StatusUnprocessableEntity, nil)
	call(http.MethodPost, path+"/models", map[string]any{"model": "scripted/other", "agent": "builder"}, http.StatusOK, nil)
	call(http.MethodPost, path+"/reject", map[string]any{"reason": "no key"}, http.StatusOK, nil)
	require.Equal(t, contract.StatusFailed, w.AwaitEnd(t, w.Store(t), run.RunID, longest).Status)
}

// streamed reads the events of a run until one is what is waited for.
func (w *stackTests) streamed(t *testing.T, path string, last func(contract.Event) bool) []contract.Event {
	t.Helper()
	if !strings.Contains(path, "/stream") {
		path += "/stream"
	}
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.State(t).Server+path, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var events []contract.Event
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e contract.Event
		require.NoError(t, json.Unmarshal([]byte(data), &e))
		if events = append(events, e); last(e) {
			return events
		}
	}
	require.Fail(t, "the stream ended", "%v after %d events", lines.Err(), len(events))
	return nil
}
