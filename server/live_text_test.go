package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// show shows a text until somebody watches.
func (b *fixture) show(t *testing.T, text store.LiveText) {
	t.Helper()
	await.Until(t, "somebody who watches", func() bool {
		watched, err := b.ShowText(t.Context(), text)
		require.NoError(t, err)
		return watched
	})
}

// lines opens a stream and returns its lines.
func (b *fixture) lines(t *testing.T, url string) (next func() string, leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // leave closes it
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	return func() string {
			require.True(t, lines.Scan(), "the stream ended: %v", lines.Err())
			return lines.Text()
		}, func() {
			cancel()
			_ = resp.Body.Close()
		}
}

func TestAStreamSendsTextsOnRequestAndNeverAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	text := store.LiveText{RunID: id, ExecutionID: 5, Turn: 1, Try: 1, Agent: contract.AgentBuilder, Text: "I write </script><b>\nid: 7\n"}
	site := httptest.NewServer(b.handler)
	t.Cleanup(site.Close)
	url := fmt.Sprintf("%s/api/runs/%d/stream", site.URL, id)

	plain, leavePlain := b.lines(t, url)
	t.Cleanup(leavePlain)
	next, leave := b.lines(t, url+"?as=message&text=true")
	t.Cleanup(leave)
	b.show(t, text)
	var data string
	// A text does not wait for the events of the run: either can come first.
	for events, named := 0, false; data == "" || events == 0; {
		line := next()
		require.NotEqual(t, "id: 7", line)
		d, ok := strings.CutPrefix(line, "data: ")
		switch {
		case ok && named:
			data = d
		case ok:
			events++
		}
		named = line == "event: text" || named && line != ""
	}
	var got store.LiveText
	require.NoError(t, json.Unmarshal([]byte(data), &got))
	require.Equal(t, text, got)
	leave()

	again, leaveAgain := b.lines(t, url+"?text=only")
	t.Cleanup(leaveAgain)
	other := store.LiveText{RunID: id, ExecutionID: 5, Turn: 2, Try: 1, Text: "the next turn"}
	b.show(t, other)
	for line := ""; !strings.HasPrefix(line, "data: "); line = again() {
		require.NotContains(t, line, "id: ", "only texts, and none of those before")
		require.NotContains(t, line, "I write")
	}
	b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventBudgetWarning, Payload: map[string]any{}}}})
	for line := ""; line != "event: "+string(contract.EventBudgetWarning); line = plain() {
		require.NotEqual(t, "event: text", line, "nobody asked for it")
	}
	for _, bad := range []string{url + "?text=yes", site.URL + "/api/stream?text=true", site.URL + "/ws?text=only"} {
		resp, err := http.Get(bad)
		require.NoError(t, err)
		_ = resp.Body.Close()
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, bad)
	}
}

func TestAWebSocketSendsTextsBesideEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	site := httptest.NewServer(b.handler)
	t.Cleanup(site.Close)
	conn, _, err := websocket.Dial(t.Context(), fmt.Sprintf("%s/ws?run=%d&text=true", site.URL, id), nil) //nolint:bodyclose // it has none
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	text := store.LiveText{RunID: id, ExecutionID: 5, Turn: 1, Try: 1, Tool: "edit_file", Path: "a.go", Characters: 12}
	b.show(t, text)
	for events, texts := 0, 0; events == 0 || texts == 0; {
		_, raw, err := conn.Read(t.Context())
		require.NoError(t, err)
		var m struct {
			ID   string
			Text *store.LiveText
		}
		require.NoError(t, json.Unmarshal(raw, &m))
		if m.Text == nil {
			require.NotEmpty(t, m.ID)
			events++
			continue
		}
		require.Equal(t, text, *m.Text)
		texts++
	}
}

func TestAPipelinesStreamSendsTheTextsOfItsMembersUntilItEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _, err := b.SpawnPipeline(t.Context(), store.NewPipelineRow{Objective: "x", Settings: contract.DeliberationSettings{Mode: contract.ModeLocal}})
	require.NoError(t, err)
	site := httptest.NewServer(b.handler)
	t.Cleanup(site.Close)
	next, leave := b.lines(t, fmt.Sprintf("%s/api/pipelines/%d/stream?text=only", site.URL, p.ID))
	t.Cleanup(leave)
	text := func() (got store.LiveText) {
		for {
			if data, ok := strings.CutPrefix(next(), "data: "); ok {
				require.NoError(t, json.Unmarshal([]byte(data), &got))
				return got
			}
		}
	}
	alpha := store.LiveText{RunID: p.RunID, ExecutionID: 5, Turn: 1, Try: 1, Agent: contract.AgentAlpha, Text: "I propose"}
	planner := store.LiveText{RunID: p.RunID, ExecutionID: 4, Turn: 1, Try: 1, Agent: contract.AgentPlanner, Text: "I plan"}
	b.show(t, planner)
	b.show(t, alpha)
	require.Equal(t, alpha, text(), "the planner is no member")

	ended := contract.PipelineRecord{PipelineID: p.ID, RunID: p.RunID, Seq: 1, Change: &contract.PipelineChange{Status: contract.PipelineStopped}}
	require.NoError(t, b.PipelineRecord(t.Context(), store.Source{WorkflowID: contract.PipelineWorkflowID(p.ID), WorkflowRunID: "first"}, ended))
	recovering := store.LiveText{RunID: p.RunID, ExecutionID: 6, Turn: 1, Try: 1, Agent: contract.AgentAlpha, Text: "I try again"}
	alpha.Text = "I still propose"
	b.show(t, recovering)
	b.show(t, alpha)
	require.Equal(t, alpha, text(), "a member that begins after the end belongs to the recovery")
}

func TestTheClientFollowsTextsOverALostConnection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	c, _ := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.handler.ServeHTTP(&abortingWriter{w, 400}, r) // for one text
	}), quietly)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	got, ended := make(chan store.LiveText, 1000), make(chan error, 1)
	go func() { ended <- c.FollowTexts(ctx, id, func(x store.LiveText) error { got <- x; return nil }) }()
	for turn := range 3 {
		var last store.LiveText
		await.Until(t, "the text", func() bool { // what is sent while the connection is lost is gone
			b.show(t, store.LiveText{RunID: id, Turn: turn + 1, Try: 1, Text: strings.Repeat("x", 100)})
			select {
			case last = <-got:
			default:
			}
			return last.Turn == turn+1
		})
	}
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, c.FollowTexts(t.Context(), 999999, nil), store.ErrNotFound)
}

func TestThePageHasAPlaceForTextsOnlyWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.run(t, "x")
	place := `data-writing`
	require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d", id)).Body.String(), place)
	require.Contains(t, b.get(t, fmt.Sprintf("/runs/%d/logs", id)).Body.String(), place)
	require.NotContains(t, b.get(t, fmt.Sprintf("/runs/%d/plan", id)).Body.String(), place)
	b.record(t, contract.Record{RunID: id, Run: &contract.RunChange{Status: contract.StatusDone}})
	require.NotContains(t, b.get(t, fmt.Sprintf("/runs/%d", id)).Body.String(), place)
}
