// Package stream sends events as they happen: as server-sent events (sse.go) and over WebSockets
// (websocket.go), from the same cursors. A disconnected client continues after the last id that it
// received, without missing or repeated events. Clients that read too slowly are disconnected.
package stream

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/server/respond"
)

// heartbeat is the interval at which a stream without events sends a sign of life, as proxies close
// idle connections.
const heartbeat = 15 * time.Second

// Server serves the streams of events.
type Server struct {
	*respond.Responder
	Store *store.Store
	Feed  *feed.Feed
	Runs  *control.Runs

	stopping context.Context //nolint:containedctx // parent of all streams: it ends with the server
	stop     context.CancelFunc
	mu       sync.Mutex // no stream opens while Stop waits
	open     sync.WaitGroup
}

// New returns a server of streams.
func New(res *respond.Responder, rows *store.Store, events *feed.Feed, runs *control.Runs) *Server {
	telemetry.ServeStreams()
	s := &Server{Responder: res, Store: rows, Feed: events, Runs: runs}
	s.stopping, s.stop = context.WithCancel(context.Background())
	return s
}

// Register adds the routes of the streams.
func (s *Server) Register(mux *http.ServeMux) {
	get := func(path string, h respond.Handler) { s.Get(mux, path, s.Handle(h)) }
	get("/api/runs/{id}/stream", func(w http.ResponseWriter, r *http.Request) error { return s.sse(w, r, r.PathValue("id"), "") })
	get("/api/pipelines/{id}/stream", func(w http.ResponseWriter, r *http.Request) error { return s.sse(w, r, "", r.PathValue("id")) })
	get("/api/stream", func(w http.ResponseWriter, r *http.Request) error { return s.sse(w, r, "", "") })
	get("/ws", s.websocket)
}

// opened returns a context for a stream, which ends with the given context or when the server
// stops, and a function to call when the stream has ended.
func (s *Server) opened(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped() {
		cancel()
		return ctx, cancel
	}
	s.open.Add(1)
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() {
		unhook()
		cancel()
		s.open.Done()
	}
}

// stopped reports whether all streams are ending.
func (s *Server) stopped() bool { return s.stopping.Err() != nil }

// Stop ends all streams, including any that begin later, and waits until they or the context have
// ended. Clients continue after their last id on another server or after a restart.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	all := make(chan struct{})
	go func() {
		s.open.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
	}
}
