package stream

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// follower calls a function with each event that a client wants to see, and the
// id after which it can continue, until the context ends.
type follower func(ctx context.Context, each func(id string, e contract.Event) error) error

// follow returns the follower of the events of a run, of a pipeline, or, where
// neither is given, of all runs.
func (s *Server) follow(r *http.Request, run, pipeline string) (follower, error) {
	switch {
	case pipeline == "" && run == "":
		return s.followAll(r)
	case pipeline == "":
		return s.followRun(r, run)
	case run == "":
		return s.followPipeline(r, pipeline)
	}
	return nil, apitypes.BadRequest("run and pipeline: name one of them")
}

// followAll returns the follower of the events of all runs. Their ids are
// positions among all events; a client without one begins with what happens from
// now on.
func (s *Server) followAll(r *http.Request) (follower, error) {
	after, err := s.feedCursor(r)
	return func(ctx context.Context, each func(string, contract.Event) error) error {
		return s.Store.FollowAll(ctx, after, func(e store.FeedEvent) error {
			return each(fmt.Sprintf("%d-%d", e.Cursor.Tx, e.Cursor.ID), e.Event)
		})
	}, err
}

// followRun returns the follower of a run's events after the last one that the
// client knows.
func (s *Server) followRun(r *http.Request, run string) (follower, error) {
	id, after, err := numbers(r, "run", run)
	if err != nil {
		return nil, err
	}
	if _, err := s.Store.Run(r.Context(), id); err != nil {
		return nil, err
	}
	return func(ctx context.Context, each func(string, contract.Event) error) error {
		return s.Store.Follow(ctx, id, after, func(e contract.Event) error { return each(strconv.FormatInt(e.Seq, 10), e) })
	}, nil
}

// followPipeline returns the follower of a pipeline's events after the last one
// that the client knows. They are numbered with all events of the run that they
// belong to.
func (s *Server) followPipeline(r *http.Request, pipeline string) (follower, error) {
	id, after, err := numbers(r, "pipeline", pipeline)
	if err != nil {
		return nil, err
	}
	if _, err := s.Store.Pipeline(r.Context(), id); err != nil {
		return nil, err
	}
	return func(ctx context.Context, each func(string, contract.Event) error) error {
		return s.Runs.Pipelines().Follow(ctx, id, after, func(e contract.Event) error { return each(strconv.FormatInt(e.Seq, 10), e) })
	}, nil
}

// numbers reads the id of a run or a pipeline and the number of its last event
// that a client knows.
func numbers(r *http.Request, what, text string) (id, after int64, err error) {
	id, err = strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, 0, store.ErrNotFound
	}
	after, err = strconv.ParseInt(lastID(r, "0"), 10, 64)
	if err != nil || after < 0 {
		return 0, 0, apitypes.BadRequest("Last-Event-ID and after are numbers of events of the " + what)
	}
	return id, after, nil
}

// feedCursor reads after which event of all runs a client continues.
func (s *Server) feedCursor(r *http.Request) (c store.FeedCursor, err error) {
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
	return cmp.Or(r.Header.Get(apitypes.LastEventHeader), r.URL.Query().Get("after"), none)
}
