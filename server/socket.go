package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// socketMessage is what a WebSocket is sent: an event, and the id from which a client
// goes on.
type socketMessage struct {
	ID    string         `json:"id"`
	Event contract.Event `json:"event"`
}

// followedBy returns the follower of what the query names: a run, a pipeline, or
// nothing, which is all runs.
func (s *server) followedBy(r *http.Request) (follower, error) {
	run, pipeline := r.URL.Query().Get("run"), r.URL.Query().Get("pipeline")
	switch {
	case pipeline == "":
		return s.followed(r, run)
	case run != "":
		return nil, apitypes.BadRequest("run and pipeline: name one of them")
	}
	return s.followedPipeline(r, pipeline)
}

// socket sends events over a WebSocket: those of the run or the pipeline in the
// query, else of all runs. It sends only; what a client says is not read.
func (s *server) socket(w http.ResponseWriter, r *http.Request) {
	follow, err := s.followedBy(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.endless(w, r)
	s.boundBuffer(r)
	// Other origins are refused by the library.
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		s.Log.InfoContext(r.Context(), "No WebSocket came about", "request", requestID(r.Context()), "error", err)
		return
	}
	defer func() { _ = conn.CloseNow() }()
	defer telemetry.StreamOpened(telemetry.StreamWebSocket)()
	ctx, cancel := context.WithCancel(conn.CloseRead(r.Context()))
	defer cancel()
	following, leave := s.streams.enter(ctx)
	defer leave()
	go s.ping(ctx, cancel, conn)
	err = follow(following, func(id string, e contract.Event) error {
		if following.Err() != nil {
			return following.Err() // between events: a client gets each of them whole
		}
		raw, err := json.Marshal(socketMessage{id, e})
		if err != nil {
			return err
		}
		write, done := context.WithTimeout(ctx, slowest*time.Duration(1+len(raw)/piece))
		defer done()
		return conn.Write(write, websocket.MessageText, raw)
	})
	telemetry.CountSlowStream(telemetry.StreamWebSocket, err) // its connection is closed by now
	switch {
	case ctx.Err() != nil: // the client went
	case s.streams.ended():
		_ = conn.Close(websocket.StatusGoingAway, "the server ends; go on after the last id")
	case r.Context().Err() == nil:
		telemetry.CountDroppedStream(telemetry.StreamWebSocket, telemetry.DroppedBroken)
		_ = conn.Close(websocket.StatusTryAgainLater, "a part of the system is away; go on after the last id")
	}
	s.Log.InfoContext(r.Context(), "A WebSocket ended", "request", requestID(r.Context()), "error", err)
}

// ping finds out that a client is gone which has not said so.
func (s *server) ping(ctx context.Context, gone context.CancelFunc, conn *websocket.Conn) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			answer, done := context.WithTimeout(ctx, slowest)
			err := conn.Ping(answer)
			done()
			if err != nil {
				gone()
				return
			}
		}
	}
}
