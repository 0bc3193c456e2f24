package modelclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/scripted"
)

// scenario serves a scenario and returns the base URL and the request log.
func scenario(t *testing.T, yaml string) (baseURL, logPath string) {
	t.Helper()
	sc, err := scripted.Parse("scenario.yaml", []byte(yaml))
	require.NoError(t, err)
	logPath = filepath.Join(t.TempDir(), "scripted-requests.jsonl")
	server, err := scripted.New(sc, scripted.Options{LogPath: logPath})
	require.NoError(t, err)
	h := httptest.NewServer(server)
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		h.Close()
	})
	return h.URL + "/v1", logPath
}

// serve serves the test's own handler.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// newClient makes a client of one provider named p.
func newClient(t *testing.T, p model.Provider, opts Options) *Client {
	t.Helper()
	p.Name = "p"
	if p.Kind == "" {
		p.Kind = model.KindScripted
	}
	c, err := New([]model.Provider{p}, model.DefaultCatalogue(), opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// question is a request that any scenario can answer.
func question() model.Request {
	return model.Request{
		Choice:   contract.ModelChoice{Provider: "p", Model: "m"},
		Messages: []model.Message{{Role: model.RoleSystem, Text: "You are a planner."}, {Role: model.RoleUser, Text: "Add a dark mode."}},
		Headers:  model.Identity{Run: 42, Agent: "planner", Phase: "planner_running", Attempt: 1, Turn: 1},
	}
}

// requireFault checks class and code of an error and returns the fault.
func requireFault(t *testing.T, err error, class contract.Class, code contract.Code) *fault.Error {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, string(class)+"/"+string(code), string(f.Class)+"/"+string(f.Code), "%v", err)
	return f
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// breakConnection ends a request without a single byte of an answer.
func breakConnection(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler breaks its connection
}
