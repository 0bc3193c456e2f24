package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// deliver stores a delivery whose every text is the given one, with an outcome.
func (b *fixture) deliver(t *testing.T, trigger, key, text string, state triggers.State) {
	t.Helper()
	_, err := triggers.Add(t.Context(), b.Store, triggers.Delivery{
		Trigger: trigger, Key: key, OccurredAt: time.Now(), Payload: triggers.Payload{Title: text, Text: text, Author: text, URL: text},
	})
	require.NoError(t, err)
	if state == triggers.Waiting {
		return
	}
	_, err = triggers.InTurn(t.Context(), b.Store, trigger, 10, func(turn *triggers.Turn) error {
		return turn.End(t.Context(), state, text, turn.Waiting[0])
	})
	require.NoError(t, err)
}

// press sends all commands of a page as its script does, and returns their names.
func (b *fixture) press(t *testing.T, path string) (names []string) {
	t.Helper()
	page, _ := b.page(t, path)
	for n := range page.Descendants() {
		if attribute(n, "data-command") == "" {
			continue
		}
		body := map[string]any{}
		if raw := attribute(n, "data-body"); raw != "" {
			require.NoError(t, json.Unmarshal([]byte(raw), &body))
		}
		body["by"] = "ann"
		if has(n, "data-reason") {
			body["reason"] = "because"
		}
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		w := b.send(t, http.MethodPost, attribute(n, "data-href"), string(raw))
		require.Less(t, w.Code, 300, "%s: %s", attribute(n, "data-href"), w.Body)
		names = append(names, attribute(n, "data-command"))
	}
	return names
}

func TestThePageOfTriggersShowsThemWithTheirDeliveries(t *testing.T) {
	t.Parallel()
	b := withTriggers(t)
	b.deliver(t, "label", "issue:1", "An issue", triggers.Skipped)
	b.deliver(t, "label", "issue:2", "Another issue", triggers.Failed)
	b.deliver(t, "nightly", "schedule:1", "It is three", triggers.Waiting)
	b.deliver(t, "gone", "x:1", "Of a trigger that was removed", triggers.Waiting)
	_, text := b.page(t, "/triggers")
	for _, want := range []string{`issues labelled "rgpt" in team/app`, "schedule 0 3 * * * (UTC)", "An issue", "Another issue", "It is three", "Of a trigger that was removed", "place 1 in the queue", "1/5"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "secret")
	page, text := b.page(t, "/triggers?trigger=label&state=failed")
	require.Contains(t, text, "Another issue")
	require.NotContains(t, text, "It is three")
	require.NotContains(t, text, "An issue")
	require.Contains(t, attributes(page, "data-command"), "redeliver")
	_, text = b.page(t, "/triggers?trigger=gone")
	require.Contains(t, text, "Of a trigger that was removed")
	_, text = b.page(t, "/triggers?trigger=nightly&state=fired")
	require.Contains(t, text, "No matching deliveries")
	for _, bad := range []string{"/triggers?state=lost", "/triggers?before=x", "/triggers?before=-1"} {
		require.Equal(t, http.StatusBadRequest, b.get(t, bad, "text/html").Code, bad)
	}
	for i := range 60 {
		b.deliver(t, "nightly", fmt.Sprintf("schedule:more-%d", i), "more", triggers.Waiting)
	}
	page, _ = b.page(t, "/triggers?trigger=nightly")
	var older string
	for n := range page.Descendants() {
		if attribute(n, "rel") == "next" {
			older = attribute(n, "href")
		}
	}
	_, text = b.page(t, older)
	require.Contains(t, text, "It is three")
}

func TestCommandsOfThePageOfTriggersReachThem(t *testing.T) {
	t.Parallel()
	b := withTriggers(t)
	b.deliver(t, "nightly", "schedule:1", "It is three", triggers.Failed)
	require.Equal(t, []string{"pause", "fire", "redeliver"}, b.press(t, "/triggers?trigger=nightly"))
	_, text := b.page(t, "/triggers")
	require.Contains(t, text, "paused by ann: because")
	require.Contains(t, text, "2/5", "the fired one and the repeated one wait")
	require.Equal(t, []string{"resume", "fire"}, b.press(t, "/triggers?trigger=nightly"))
	_, text = b.page(t, "/triggers")
	require.NotContains(t, text, "paused by")
}

func TestNoTextOfADeliveryBecomesPartOfThePage(t *testing.T) {
	t.Parallel()
	view := func(text string) (string, string) {
		b := setup(t)
		b.config.Triggers = map[string]config.Trigger{"x": {On: config.OnIssue, Forge: "work", Repository: text, Label: text, Goal: text, Overlap: "skip", Concurrent: 1, Waiting: 5, PerDay: 7}}
		b.deliver(t, "x", text, text, triggers.Skipped)
		page, said := b.page(t, "/triggers?trigger=x")
		return skeleton(t, page, text), said
	}
	want, _ := view("harmless")
	for _, text := range injections {
		got, said := view(text)
		requireSame(t, want, got, "the page of triggers with "+url.QueryEscape(text))
		require.GreaterOrEqual(t, strings.Count(said, text), 3, "it is shown, as text")
	}
}

func TestAnInstallationWithoutTriggersSaysHowToAddOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.page(t, "/triggers")
	require.Contains(t, text, "on: schedule")
}
