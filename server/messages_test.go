package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func TestAMessageReachesTheRunAndThePageShowsWhetherAnAgentGotIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	run := &liveTemporal{view: contract.RunView{Models: modelsOfRuns}}
	b.temporal.Client = run
	states := b.runsInEveryState(t)
	id := states["builder_running"]
	path := fmt.Sprintf("/api/runs/%d/messages", id)
	b.post(t, path, `{"text": "use tabs, token ghp_`+strings.Repeat("a1B2", 9)+`", "step": "step-001", "by": "ann"}`, http.StatusOK, nil, "Idempotency-Key", "k")
	require.Len(t, run.message, 1)
	require.Equal(t, contract.UpdateTell, run.message[0].name)
	sent := run.message[0].command
	require.Equal(t, []string{"ann", "step-001"}, []string{sent.By, sent.Step})
	require.Contains(t, sent.Text, "use tabs")
	require.NotContains(t, sent.Text, "ghp_", "secrets do not get into histories")
	b.post(t, path, `{"text": ""}`, http.StatusUnprocessableEntity, nil)
	b.post(t, path, `{"text": "`+strings.Repeat("x", 5000)+`"}`, http.StatusUnprocessableEntity, nil)

	hostile := "<script>alert(1)</script>"
	b.record(t, contract.Record{RunID: id, Events: []contract.EventDraft{{Type: contract.EventMessageAdded, Payload: contract.RunMessage{Text: hostile, By: "ann"}}}})
	var list apitypes.MessageList
	require.NoError(t, json.Unmarshal(b.get(t, path).Body.Bytes(), &list))
	require.Len(t, list.Messages, 1)
	require.Equal(t, hostile, list.Messages[0].Text)
	require.Empty(t, list.Messages[0].Deliveries)
	_, said := b.page(t, ui.RunHref(id, ""))
	require.Contains(t, said, hostile)
	require.Contains(t, said, "not delivered yet")
	require.Contains(t, b.commandsOf(t, id, ""), "tell")
	require.NotContains(t, b.commandsOf(t, states["done"], ""), "tell")
}
