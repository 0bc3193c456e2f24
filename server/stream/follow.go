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
	"github.com/rocketgpt/orchestrator/internal/store/feed"
)

// follower calls a function with each requested event and the id after which the client can
// continue, until the context ends.
type follower func(ctx context.Context, each func(id string, e contract.Event) error) error

// follow returns the follower of the events of a run or a pipeline or, if neither is given, of all
// runs. It starts after the last event that the client knows. A pipeline shares the event numbers
// of its run.
func (s *Server) follow(r *http.Request, run, pipeline string) (follower, error) {
	if run != "" && pipeline != "" {
		return nil, apitypes.BadRequest("run and pipeline: only one may be given")
	}
	if run == "" && pipeline == "" {
		return s.followAll(r)
	}
	id, err := strconv.ParseInt(run+pipeline, 10, 64)
	if err != nil || id <= 0 {
		return nil, store.ErrNotFound
	}
	what, follow := "run", s.Feed.Follow
	if pipeline != "" {
		what, follow = "pipeline", s.Runs.Pipelines().Follow
	}
	after, err := strconv.ParseInt(lastID(r, "0"), 10, 64)
	if err != nil || after < 0 {
		return nil, apitypes.BadRequest("Last-Event-ID and \"after\" must be event numbers of the " + what)
	}
	if pipeline != "" {
		_, err = s.Store.Pipeline(r.Context(), id)
	} else {
		_, err = s.Store.Run(r.Context(), id)
	}
	return func(ctx context.Context, each func(string, contract.Event) error) error {
		return follow(ctx, id, after, func(e contract.Event) error { return each(strconv.FormatInt(e.Seq, 10), e) })
	}, err
}

// followAll returns the follower of the events of all runs. Their ids are positions among all
// events; a client without an id receives only new events.
func (s *Server) followAll(r *http.Request) (follower, error) {
	after, err := s.feedCursor(r)
	return func(ctx context.Context, each func(string, contract.Event) error) error {
		return s.Feed.FollowAll(ctx, after, func(e feed.Event) error {
			return each(fmt.Sprintf("%d-%d", e.Cursor.Tx, e.Cursor.ID), e.Event)
		})
	}, err
}

// feedCursor reads the position among the events of all runs after which a client continues.
func (s *Server) feedCursor(r *http.Request) (c feed.Cursor, err error) {
	last := lastID(r, "")
	if last == "" {
		return s.Feed.End(r.Context())
	}
	tx, id, ok := strings.Cut(last, "-")
	var wrong error
	if c.Tx, err = strconv.ParseInt(tx, 10, 64); err == nil {
		c.ID, wrong = strconv.ParseInt(id, 10, 64)
	}
	if !ok || err != nil || wrong != nil || c.Tx < 0 || c.ID < 0 {
		return c, apitypes.BadRequest("Last-Event-ID and \"after\" must be ids sent by this stream")
	}
	return c, nil
}

// lastID returns the id of the last event known to a client.
func lastID(r *http.Request, none string) string {
	return cmp.Or(r.Header.Get(apitypes.LastEventHeader), r.URL.Query().Get("after"), none)
}
