package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/webhook"
	"github.com/rocketgpt/orchestrator/server"
)

func TestAForgeReachesItsAddressUnderAnyNameAndFromAnywhere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var got []string
	hooks := func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.PathValue("forge")+r.PathValue("trigger"))
		w.WriteHeader(http.StatusAccepted)
	}
	with := func(forgeHooks http.HandlerFunc) http.Handler {
		return server.New(server.Options{
			Runs:  &control.Runs{Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts},
			Store: b.Store, Views: b.Views, Feed: b.Feed, Artifacts: b.artifacts, Log: slog.New(slog.DiscardHandler),
			Hooks: webhook.New(b.Store, b.Feed, hookSettings(), slog.New(slog.DiscardHandler)), ForgeHooks: forgeHooks, TriggerEvents: forgeHooks,
		})
	}
	send := func(h http.Handler, method, path string) int {
		r := httptest.NewRequestWithContext(t.Context(), method, "https://orchestrator.example.com"+path, strings.NewReader("\xff"))
		r.Header.Set("Origin", "https://elsewhere.example.com")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	h := with(hooks)
	require.Equal(t, http.StatusAccepted, send(h, http.MethodPost, "/hooks/work"))
	require.Equal(t, http.StatusAccepted, send(h, http.MethodPost, "/hooks/triggers/deploy"))
	require.Equal(t, []string{"work", "deploy"}, got)
	require.Equal(t, http.StatusMethodNotAllowed, send(h, http.MethodGet, "/hooks/work"))
	require.Equal(t, http.StatusMisdirectedRequest, send(h, http.MethodPost, "/api/runs"), "everything else is as protected as before")
	require.Equal(t, http.StatusMisdirectedRequest, send(h, http.MethodPost, "/hooks"))
	require.Equal(t, http.StatusMisdirectedRequest, send(with(nil), http.MethodPost, "/hooks/work"), "without forges, it does not exist")
	require.Len(t, got, 2)
}
