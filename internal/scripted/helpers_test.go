package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// testServer is a server under test.
type testServer struct {
	t    testing.TB
	url  string
	log  string
	stop func() // ends the server; a second call does nothing

	server *Server
}

// underWay returns how many requests the server is working on.
func (s *testServer) underWay() int {
	s.server.drain.mu.Lock()
	defer s.server.drain.mu.Unlock()
	return s.server.drain.active
}

// start serves a scenario with the log in a folder; the same folder again is a
// restart.
func start(t testing.TB, yaml, folder string) *testServer {
	t.Helper()
	sc, err := Parse("scenario.yaml", []byte(yaml))
	require.NoError(t, err)
	log := filepath.Join(folder, "scripted-requests.jsonl")
	server, err := New(sc, Options{LogPath: log})
	require.NoError(t, err)
	h := httptest.NewServer(server)
	stopped := false
	s := &testServer{t: t, url: h.URL, log: log, server: server, stop: func() {
		if !stopped {
			stopped = true
			require.NoError(t, server.Close())
			h.Close()
		}
	}}
	t.Cleanup(s.stop)
	return s
}

// ask is a request to the server; the zero value is one that any rule without
// conditions answers.
type ask struct {
	caller
	model  string
	text   string
	key    string
	stream bool
	raw    string // the body, instead of one made of the above
}

func (a ask) request(ctx context.Context, t testing.TB, url string) *http.Request {
	t.Helper()
	if a.text == "" {
		a.text = "hello"
	}
	body := []byte(a.raw)
	if a.raw == "" {
		body = encode(map[string]any{
			"model": a.model, "stream": a.stream, "stream_options": map[string]any{"include_usage": true},
			"messages": []map[string]any{{"role": "system", "content": []map[string]any{{"type": "text", "text": "be brief"}}}, {"role": "user", "content": a.text}},
		})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	require.NoError(t, err)
	req.GetBody = nil // net/http must not repeat it
	for name, value := range map[string]string{
		"X-RGPT-Run": strconv.FormatInt(a.run, 10), "X-RGPT-Agent": a.agent, "X-RGPT-Phase": a.phase, "X-RGPT-Step": a.step,
		"X-RGPT-Attempt": strconv.Itoa(a.attempt), "X-RGPT-Turn": strconv.Itoa(a.turn), "Idempotency-Key": a.key,
	} {
		if value != "" && value != "0" {
			req.Header.Set(name, value)
		}
	}
	return req
}

// send makes a request and returns status and body.
func (s *testServer) send(a ask) (int, string) {
	s.t.Helper()
	resp, err := http.DefaultClient.Do(a.request(s.t.Context(), s.t, s.url))
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(body)
}

// reply makes a request and returns the answer's text, or the status of a failure.
func (s *testServer) reply(a ask) string {
	s.t.Helper()
	status, body := s.send(a)
	if status != http.StatusOK {
		return strconv.Itoa(status)
	}
	var c wireCompletion
	require.NoError(s.t, json.Unmarshal([]byte(body), &c))
	return *c.Choices[0].Message.Content
}

// lines returns the request log.
func (s *testServer) lines() []LogEntry {
	s.t.Helper()
	all, err := ReadLog(s.log)
	require.NoError(s.t, err)
	return all
}

// breaks makes a request that gets no answer and returns why.
func (s *testServer) breaks(req *http.Request) error {
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return err
}
