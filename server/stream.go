package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
)

const (
	// heartbeat is how often a stream that has nothing to say says so: proxies
	// close what is silent.
	heartbeat = 15 * time.Second
	// slowest is how long a client may take to take what it is sent. One that is
	// slower is dropped, and goes on later from its last id.
	slowest = 10 * time.Second
)

// streamRun sends a run's events as they come, from a number on: that of the
// header Last-Event-ID, or of the query's after.
func (s *server) streamRun(w http.ResponseWriter, r *http.Request) {
	id, err := runID(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	after, err := strconv.ParseInt(lastID(r, "0"), 10, 64)
	if err != nil || after < 0 {
		s.fail(w, r, badRequest("Last-Event-ID and after are numbers of events of the run"))
		return
	}
	if _, err := s.Store.Run(r.Context(), id); err != nil {
		s.fail(w, r, err)
		return
	}
	s.stream(w, r, func(ctx context.Context, send func(string, contract.Event) error) error {
		return s.Store.Follow(ctx, id, after, func(e contract.Event) error { return send(strconv.FormatInt(e.Seq, 10), e) })
	})
}

// streamAll sends the events of all runs. Ids are places among all events; a
// client without one begins with what happens from now on.
func (s *server) streamAll(w http.ResponseWriter, r *http.Request) {
	after, err := s.feedCursor(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.stream(w, r, func(ctx context.Context, send func(string, contract.Event) error) error {
		return s.Store.FollowAll(ctx, after, func(e store.FeedEvent) error {
			return send(fmt.Sprintf("%d-%d", e.Cursor.Tx, e.Cursor.ID), e.Event)
		})
	})
}

// feedCursor reads where a client goes on among the events of all runs.
func (s *server) feedCursor(r *http.Request) (c store.FeedCursor, err error) {
	last := lastID(r, "")
	if last == "" {
		return s.Store.FeedEnd(r.Context())
	}
	tx, id, ok := strings.Cut(last, "-")
	var wrong error
	if c.Tx, err = strconv.ParseInt(tx, 10, 64); err == nil {
		c.ID, wrong = strconv.ParseInt(id, 10, 64)
	}
	if !ok || err != nil || wrong != nil || c.Tx < 0 || c.ID < 0 {
		return c, badRequest("Last-Event-ID and after are ids that this stream gave")
	}
	return c, nil
}

// lastID returns the id of the last event that a client knows.
func lastID(r *http.Request, none string) string {
	for _, id := range []string{r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after")} {
		if id != "" {
			return id
		}
	}
	return none
}

// stream sends events as server-sent events until the client goes away.
func (s *server) stream(w http.ResponseWriter, r *http.Request, follow func(context.Context, func(id string, e contract.Event) error) error) {
	out := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	// The bound on the time of requests is none on that of streams.
	if err := out.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.Log.WarnContext(r.Context(), "A stream will end with the time for requests", "error", err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := make(chan string) // not buffered: who is slow holds only its own reading up
	write := func(text string) error {
		if err := out.SetWriteDeadline(time.Now().Add(slowest)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return out.Flush()
	}
	if write("retry: 1000\n\n") != nil {
		return
	}
	failed := make(chan error, 1)
	go func() {
		failed <- follow(ctx, func(id string, e contract.Event) error {
			raw, err := json.Marshal(e)
			if err != nil {
				return err
			}
			select {
			case lines <- fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, oneLine(string(e.Type)), raw):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
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
			if err != nil && r.Context().Err() == nil {
				s.Log.ErrorContext(r.Context(), "A stream ended early", "request", requestID(r.Context()), "error", err)
			}
			return
		}
		if err != nil {
			cancel()
			<-failed
			s.Log.InfoContext(r.Context(), "A reader of a stream was dropped or went away", "request", requestID(r.Context()), "error", err)
			return
		}
	}
}

// oneLine keeps a text from being more than one line of a stream.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
