package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/server/middleware"
)

// sse sends the events of a run, of a pipeline, or of all runs as server-sent events until the
// client disconnects.
func (s *Server) sse(w http.ResponseWriter, r *http.Request, run, pipeline string) error {
	follow, err := s.follow(r, run, pipeline)
	if err != nil {
		return err
	}
	texts, err := s.textsOf(r, run, pipeline)
	if err != nil {
		return err
	}
	w = middleware.LiftTimeout(w, r, s.Log)
	out := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	middleware.LimitSendBuffer(r, s.Log)
	ctx, leave := s.opened(r.Context())
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan string) // unbuffered: a slow client delays only its own stream
	write := func(text string) error {
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return out.Flush()
	}
	defer telemetry.StreamOpened(telemetry.StreamSSE)()
	if write("retry: 1000\n\n") != nil {
		return nil
	}
	send := func(head string, v any) error {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		select {
		case lines <- fmt.Sprintf("%sdata: %s\n\n", head, raw):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	failed := make(chan error, 1)
	go func() {
		failed <- s.pass(ctx, texts, func(ctx context.Context) error {
			return follow(ctx, func(id string, e contract.Event) error {
				return send(fmt.Sprintf("id: %s\n%s", id, eventLine(r, e)), e)
			})
		}, func(t store.LiveText) error { return send("event: "+apitypes.TextEvent+"\n", t) }) // no id: it cannot be sent again
	}()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case text := <-lines:
			err = write(text)
		case <-beat.C:
			err = write(": still here\n\n")
		case err = <-failed:
			if err != nil && r.Context().Err() == nil && !s.stopped() {
				telemetry.CountDroppedStream(telemetry.StreamSSE, telemetry.DroppedBroken)
				s.Log.ErrorContext(r.Context(), "A stream failed", "request", middleware.RequestID(r.Context()), "error", err)
			}
			return nil
		}
		if err != nil {
			telemetry.CountSlowStream(telemetry.StreamSSE, err)
			cancel()
			s.Log.InfoContext(r.Context(), "A stream reader was dropped or disconnected",
				"request", middleware.RequestID(r.Context()), "error", err, "reading_ended_with", <-failed)
			return nil
		}
	}
}

// eventLine returns the line with an event's name, or none if the client requested as=message:
// browsers dispatch named events only to listeners for those names, and unnamed ones as messages.
func eventLine(r *http.Request, e contract.Event) string {
	if r.URL.Query().Get("as") == "message" {
		return ""
	}
	return "event: " + oneLine(string(e.Type)) + "\n"
}

// oneLine replaces the line breaks of a text with spaces.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
