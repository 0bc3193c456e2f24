package notify

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/notifications"
	"github.com/rocketgpt/orchestrator/test/hostile"
)

// code matches what neither Slack nor Markdown interprets.
var code = regexp.MustCompile("`[^`\n]*`")

func TestNoHostileTextInAMessageGainsAnything(t *testing.T) {
	t.Parallel()
	for _, e := range hostile.Corpus(hostile.Default()) {
		payload, err := json.Marshal(map[string]any{
			"kind": e.Text, "reason": e.Text, "action_required": e.Text, "question": e.Text, "options": []string{e.Text, e.Text}, "error_message": e.Text, "warning": e.Text,
		})
		require.NoError(t, err)
		for _, of := range []contract.EventType{contract.EventInputRequested, contract.EventRunFailed, contract.EventType("releaser.completed")} {
			entry := notifications.Entry{RunID: 7, Type: of, Kind: config.NotifyDone, Payload: payload, Project: e.Text, Goal: e.Text, Branch: e.Text}
			for _, entries := range [][]notifications.Entry{{entry}, {entry, entry}} {
				m := compose(notifications.Message{ID: 1, Composed: time.Now(), Entries: entries}, "https://rgpt.example.com")
				name := string(e.Category) + "/" + e.Name
				require.Empty(t, hostile.InMail(mailBody(m)), "%s: %s", name, mailBody(m))
				require.Empty(t, hostile.InMail(mailSubject(m)), name)
				require.NotContains(t, mailSubject(m), "\n")
				sent := slackPayload(m)
				rest := code.ReplaceAllString(strings.ReplaceAll(sent.Text, "https://rgpt.example.com/runs/7", ""), "")
				require.NotRegexp(t, `[<>@#\x60]|://|!\[|zqx`, rest, "%s: %s", name, sent.Text)
				for _, b := range sent.Blocks {
					if b.Text != nil {
						require.Equal(t, "plain_text", b.Text.Type)
						require.NotContains(t, b.Text.Text, "<", name)
						require.Empty(t, hostile.InTerminal(b.Text.Text), name)
					}
					for _, x := range b.Elements {
						require.NotContains(t, x.Text, hostile.Marker, name)
					}
				}
			}
		}
	}
}
