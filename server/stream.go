package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

const (
	// heartbeat is how often a stream that has nothing to say says so: proxies
	// close what is silent.
	heartbeat = 15 * time.Second
	// slowest is how long a client may take to take what it is sent. One that is
	// slower is dropped, and goes on later from its last id.
	slowest = 10 * time.Second
)

// follower calls a function with each event that somebody wants to see, and the
// id from which they can go on, until the context ends.
type follower func(ctx context.Context, each func(id string, e contract.Event) error) error

// followed returns the follower of a run's events from a number on (that of the
// header Last-Event-ID, or of the query's after), or of those of all runs. Ids
// of the latter are places among all events; who has none begins with what
// happens from now on.
func (s *server) followed(r *http.Request, run string) (follower, error) {
	if run == "" {
		after, err := s.feedCursor(r)
		return func(ctx context.Context, each func(string, contract.Event) error) error {
			return s.Store.FollowAll(ctx, after, func(e store.FeedEvent) error {
				return each(fmt.Sprintf("%d-%d", e.Cursor.Tx, e.Cursor.ID), e.Event)
			})
		}, err
	}
	id, err := strconv.ParseInt(run, 10, 64)
	if err != nil || id <= 0 {
		return nil, store.ErrNotFound
	}
	after, err := strconv.ParseInt(lastID(r, "0"), 10, 64)
	if err != nil || after < 0 {
		return nil, apitypes.BadRequest("Last-Event-ID and after are numbers of events of the run")
	}
	if _, err := s.Store.Run(r.Context(), id); err != nil {
		return nil, err
	}
	return func(ctx context.Context, each func(string, contract.Event) error) error {
		return s.Store.Follow(ctx, id, after, func(e contract.Event) error { return each(strconv.FormatInt(e.Seq, 10), e) })
	}, nil
}

// streamEvents sends events as they come, as server-sent events: those of the
// run in the path, else of all runs.
func (s *server) streamEvents(w http.ResponseWriter, r *http.Request) {
	follow, err := s.followed(r, r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.stream(w, r, follow)
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
		return c, apitypes.BadRequest("Last-Event-ID and after are ids that this stream gave")
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
func (s *server) stream(w http.ResponseWriter, r *http.Request, follow follower) {
	w = s.endless(w, r)
	out := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s.boundBuffer(r)
	ctx, leave := s.streams.enter(r.Context())
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := make(chan string) // not buffered: who is slow holds only its own reading up
	write := func(text string) error {
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return out.Flush()
	}
	defer telemetry.StreamOpened(telemetry.StreamSSE)()
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
			case lines <- fmt.Sprintf("id: %s\n%sdata: %s\n\n", id, named(r, e), raw):
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
			if err != nil && r.Context().Err() == nil && !s.streams.ended() {
				telemetry.CountDroppedStream(telemetry.StreamSSE, telemetry.DroppedBroken)
				s.Log.ErrorContext(r.Context(), "A stream ended early", "request", requestID(r.Context()), "error", err)
			}
			return
		}
		if err != nil {
			telemetry.CountSlowStream(telemetry.StreamSSE, err)
			cancel()
			s.Log.InfoContext(r.Context(), "A reader of a stream was dropped or went away",
				"request", requestID(r.Context()), "error", err, "reading_ended_with", <-failed)
			return
		}
	}
}

// named returns the line that names an event. A reader that wants every event
// as a message, whatever its type, asks with as=message: a browser hears named
// events only by names that it knows.
func named(r *http.Request, e contract.Event) string {
	if r.URL.Query().Get("as") == "message" {
		return ""
	}
	return "event: " + oneLine(string(e.Type)) + "\n"
}

// oneLine keeps a text from being more than one line of a stream.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
