package trigger_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/internal/trigger"
)

const eventToken = "a-token-for-events"

// events is an address that accepts CloudEvents for the trigger t, of these types, which is paused.
func events(t *testing.T, types ...string) (*world, string) {
	t.Helper()
	w := newWorld(t, func(s *config.Trigger) { s.On, s.TokenEnv, s.Types = config.OnEvent, "EVENTS", types })
	w.settings["other"] = config.Trigger{On: config.OnCommand}
	w.settings["mute"] = config.Trigger{On: config.OnEvent, TokenEnv: "MISSING"}
	s := w.service(func(o *trigger.Options) {
		o.Getenv = func(name string) string { return map[string]string{"EVENTS": eventToken}[name] }
	})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/triggers/{trigger}", s.Receive)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return w, server.URL + "/hooks/triggers/"
}

// posts sends an event with headers, and returns the status and the text of the response.
func posts(t *testing.T, address, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+eventToken)
	r.Header.Set("Content-Type", "application/cloudevents+json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

const deployed = `{"specversion": "1.0", "id": "7", "source": "/ci", "type": "com.example.deploy.failed", "subject": "app", "time": "2026-01-31T12:00:00Z", "data": {"log": "boom"}}`

func TestACloudEventIsADeliveryInBothModes(t *testing.T) {
	t.Parallel()
	w, address := events(t)
	status, text := posts(t, address+"t", deployed)
	require.Equal(t, http.StatusAccepted, status, text)
	status, _ = posts(t, address+"t", "boom", "Content-Type", "text/plain", "Ce-Specversion", "1.0", "Ce-Id", "8", "Ce-Source", "/ci/a%20b", "Ce-Type", "x")
	require.Equal(t, http.StatusAccepted, status)
	status, _ = posts(t, address+"t", `{"specversion": "1.0", "id": "9", "source": "/ci", "type": "x", "data_base64": "/w=="}`)
	require.Equal(t, http.StatusAccepted, status)
	list := w.firings(t, triggers.Waiting)
	slices.Reverse(list)
	require.Len(t, list, 3)
	require.Equal(t, "The CloudEvent com.example.deploy.failed from /ci about app", list[0].Payload.Title)
	require.JSONEq(t, `{"log": "boom"}`, list[0].Payload.Text)
	require.True(t, list[0].OccurredAt.Equal(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
	require.Equal(t, []string{"boom", "/ci/a b"}, []string{list[1].Payload.Text, list[1].Payload.Author})
	require.Equal(t, "(1 bytes of other data than text)", list[2].Payload.Text)
}

func TestTheSameCloudEventIsOneDeliveryHoweverOftenItComes(t *testing.T) {
	t.Parallel()
	w, address := events(t)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if status, text := posts(t, address+"t", deployed); status != http.StatusAccepted {
				t.Errorf("status %d: %s", status, text)
			}
		})
	}
	all.Wait()
	require.Len(t, w.firings(t, ""), 1)
	status, _ := posts(t, address+"t", strings.Replace(deployed, `"/ci"`, `"/other"`, 1))
	require.Equal(t, http.StatusAccepted, status)
	require.Len(t, w.firings(t, ""), 2, "another source has its own ids")
}

func TestAForgedCloudEventIsNotFoundAndChangesNothing(t *testing.T) {
	t.Parallel()
	w, address := events(t)
	for name, c := range map[string][]string{
		"another token":         {"t", "Bearer guessed"},
		"no token":              {"t", ""},
		"another scheme":        {"t", "Basic " + eventToken},
		"unknown trigger":       {"nothing", "Bearer " + eventToken},
		"trigger on commands":   {"other", "Bearer " + eventToken},
		"trigger without token": {"mute", "Bearer "},
	} {
		status, text := posts(t, address+c[0], deployed, "Authorization", c[1])
		require.Equal(t, http.StatusNotFound, status, name)
		require.Empty(t, text, name)
	}
	require.Empty(t, w.firings(t, ""))
}

func TestDeepJSONInACloudEventDoesNotGrow(t *testing.T) {
	t.Parallel()
	w, address := events(t)
	const depth = 9_000
	body := strings.Repeat("[", depth) + strings.Repeat("1,", 100_000) + "1" + strings.Repeat("]", depth)
	status, text := posts(t, address+"t", body, "Content-Type", "application/json", "Ce-Specversion", "1.0", "Ce-Type", "t", "Ce-Source", "s", "Ce-Id", "1")
	require.Equal(t, http.StatusAccepted, status, text)
	kept := w.firings(t, triggers.Waiting)[0].Payload.Text
	require.LessOrEqual(t, len(kept), 64<<10)
	require.NotContains(t, kept, "\n", "indented, it would be 1.8 GB long")
}

func TestAnInvalidCloudEventIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	w, address := events(t)
	binary := func(more ...string) []string {
		return append([]string{"Content-Type", "text/plain", "Ce-Specversion", "1.0", "Ce-Id", "8", "Ce-Source", "/ci", "Ce-Type", "x"}, more...)
	}
	for why, c := range map[string]struct {
		status  int
		body    string
		headers []string
	}{
		"is not a CloudEvent in JSON": {http.StatusBadRequest, "{", nil},
		"specversion 1.0":             {http.StatusBadRequest, "x", []string{"Content-Type", "application/json"}},
		"has no id":                   {http.StatusBadRequest, `{"specversion": "1.0", "source": "a", "type": "b"}`, nil},
		"not a time":                  {http.StatusBadRequest, "x", binary("Ce-Time", "yesterday")},
		"percent-encoded":             {http.StatusBadRequest, "x", binary("Ce-Id", "%zz")},
		"at most 1000 bytes":          {http.StatusBadRequest, "x", binary("Ce-Id", strings.Repeat("i", 1001))},
		"is not base64":               {http.StatusBadRequest, `{"specversion": "1.0", "id": "1", "source": "a", "type": "b", "data_base64": "?"}`, nil},
		"send each event by itself":   {http.StatusUnsupportedMediaType, "[]", []string{"Content-Type", "application/cloudevents-batch+json"}},
		"larger than":                 {http.StatusRequestEntityTooLarge, strings.Repeat("x", trigger.MaxEvent+1), binary()},
	} {
		status, text := posts(t, address+"t", c.body, c.headers...)
		require.Equal(t, c.status, status, why)
		require.Contains(t, text, why)
	}
	require.Empty(t, w.firings(t, ""))
}

func TestOnlyTheWantedTypesOfCloudEventsFire(t *testing.T) {
	t.Parallel()
	w, address := events(t, "com.example.deploy.*", "*.alert.*.high", "exact")
	for n, c := range []struct {
		kind  string
		fires bool
	}{
		{"com.example.deploy.failed", true}, {"com.example.deploy.", true}, {"com.example.deploy", false}, {"x.alert.y.z.high", true}, {"x.alert.high", false},
		{"exact", true}, {"exactly", false}, {"Exact", false},
	} {
		before := len(w.firings(t, ""))
		status, _ := posts(t, address+"t", fmt.Sprintf(`{"specversion": "1.0", "id": "%d", "source": "/ci", "type": %q}`, n, c.kind))
		require.Equal(t, http.StatusAccepted, status)
		require.Equal(t, c.fires, len(w.firings(t, "")) > before, c.kind)
	}
}

func TestACloudEventThatCannotBeStoredIsToBeSentAgain(t *testing.T) {
	t.Parallel()
	w, address := events(t)
	require.NoError(t, w.exec(t.Context(), "ALTER TABLE orchestrator_trigger_firings RENAME TO gone"))
	status, text := posts(t, address+"t", deployed)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, text, "send it again")
}
