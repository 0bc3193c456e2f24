package stream

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/server/middleware"
)

// message is a WebSocket message: an event, and the id after which a client continues.
type message struct {
	ID    string         `json:"id"`
	Event contract.Event `json:"event"`
}

// textMessage is a WebSocket message with what a model writes. It has no id: texts are stored nowhere
// and cannot be sent again.
type textMessage struct {
	Text store.LiveText `json:"text"`
}

// websocket sends events over a WebSocket: of the run or the pipeline in the query, otherwise of
// all runs. It ignores messages from the client.
func (s *Server) websocket(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	follow, err := s.follow(r, q.Get("run"), q.Get("pipeline"))
	if err != nil {
		return err
	}
	texts, err := s.textsOf(r, q.Get("run"), q.Get("pipeline"))
	if err != nil {
		return err
	}
	middleware.LiftTimeout(w, r, s.Log)
	middleware.LimitSendBuffer(r, s.Log)
	// The library rejects other origins.
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.Log.InfoContext(r.Context(), "A WebSocket could not be opened", "request", middleware.RequestID(r.Context()), "error", err)
		return nil
	}
	defer func() { _ = conn.CloseNow() }()
	defer telemetry.StreamOpened(telemetry.StreamWebSocket)()
	ctx, cancel := context.WithCancel(conn.CloseRead(r.Context()))
	defer cancel()
	following, leave := s.opened(ctx)
	defer leave()
	go ping(ctx, cancel, conn)
	send := func(v any) error {
		if following.Err() != nil {
			return following.Err() // only between messages, so that a client receives whole ones
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		write, done := context.WithTimeout(ctx, middleware.WriteTimeout*time.Duration(1+len(raw)/middleware.Chunk))
		defer done()
		return conn.Write(write, websocket.MessageText, raw)
	}
	err = s.pass(following, texts, func(ctx context.Context) error {
		return follow(ctx, func(id string, e contract.Event) error { return send(message{id, e}) })
	}, func(t store.LiveText) error { return send(textMessage{t}) })
	telemetry.CountSlowStream(telemetry.StreamWebSocket, err) // its connection is already closed
	switch {
	case ctx.Err() != nil: // the client left
	case s.stopped():
		_ = conn.Close(websocket.StatusGoingAway, "the server is shutting down; resume after the last id")
	case r.Context().Err() == nil:
		telemetry.CountDroppedStream(telemetry.StreamWebSocket, telemetry.DroppedBroken)
		_ = conn.Close(websocket.StatusTryAgainLater, "a component is unavailable; resume after the last id")
	}
	s.Log.InfoContext(r.Context(), "A WebSocket was closed", "request", middleware.RequestID(r.Context()), "error", err)
	return nil
}

// ping ends a stream if its client disappeared without closing the connection.
func ping(ctx context.Context, gone context.CancelFunc, conn *websocket.Conn) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			answer, done := context.WithTimeout(ctx, middleware.WriteTimeout)
			err := conn.Ping(answer)
			done()
			if err != nil {
				gone()
				return
			}
		}
	}
}
