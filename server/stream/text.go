package stream

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// texts is a request for what the models of a run write while they write it.
type texts struct {
	run          int64
	wanted, only bool // only: without the events of the run
}

// textsOf reads the query parameter text: true, only, or false, which is the default.
func textsOf(r *http.Request, run string) (t texts, err error) {
	switch text := r.URL.Query().Get("text"); text {
	case "", "false":
		return t, nil
	case "true":
		t.wanted = true
	case "only":
		t.wanted, t.only = true, true
	default:
		return t, apitypes.BadRequest(fmt.Sprintf("text %q is invalid; must be one of [true false only]", text))
	}
	if t.run, err = strconv.ParseInt(run, 10, 64); err != nil {
		return t, apitypes.BadRequest("text: only the stream of one run has texts")
	}
	return t, nil
}

// pass passes on the events and the texts of a stream, as requested, until one of them fails or the
// context ends.
func (s *Server) pass(ctx context.Context, t texts, events func(context.Context) error, text func(store.LiveText) error) error {
	sent, ctx := errgroup.WithContext(ctx)
	if t.wanted {
		sent.Go(func() error { return s.Feed.FollowTexts(ctx, t.run, text) })
	}
	if !t.only {
		sent.Go(func() error { return events(ctx) })
	}
	return sent.Wait()
}
