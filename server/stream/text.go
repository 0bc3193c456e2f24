package stream

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// texts is a request for what the models of a run or of a pipeline write while they write it.
type texts struct {
	run          int64 // the run whose events the pipeline's are
	pipeline     int64 // only the texts of its members; 0: all texts of the run
	wanted, only bool  // only: without events
}

// textsOf reads the query parameter text: true, only, or false, which is the default.
func (s *Server) textsOf(r *http.Request, run, pipeline string) (t texts, err error) {
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
	id, err := strconv.ParseInt(cmp.Or(run, pipeline), 10, 64)
	if err != nil {
		return t, apitypes.BadRequest("text: only the stream of one run or pipeline has texts")
	}
	if pipeline == "" {
		t.run = id
		return t, nil
	}
	p, err := s.Store.Pipeline(r.Context(), id)
	t.run, t.pipeline = p.RunID, id
	return t, err
}

// pass passes on the events and the texts of a stream, as requested, until one of them fails or the
// context ends.
func (s *Server) pass(ctx context.Context, t texts, events func(context.Context) error, text func(store.LiveText) error) error {
	sent, ctx := errgroup.WithContext(ctx)
	if t.pipeline != 0 {
		text = s.ofPipeline(ctx, t.pipeline, text)
	}
	if t.wanted {
		sent.Go(func() error { return s.Feed.FollowTexts(ctx, t.run, text) })
	}
	if !t.only {
		sent.Go(func() error { return events(ctx) })
	}
	return sent.Wait()
}

// ofPipeline passes on the texts of the members of a pipeline. The run has other agents as well, and
// members of the pipeline's recovery, which begin when the pipeline has ended.
func (s *Server) ofPipeline(ctx context.Context, id int64, text func(store.LiveText) error) func(store.LiveText) error {
	own := map[int64]bool{} // by execution
	return func(t store.LiveText) error {
		if !slices.ContainsFunc(contract.Members(), func(m contract.Member) bool { return m.Agent() == t.Agent }) {
			return nil
		}
		is, known := own[t.ExecutionID]
		if !known {
			p, err := s.Store.Pipeline(ctx, id)
			if err != nil {
				return err
			}
			is = !p.Status.Terminal()
			own[t.ExecutionID] = is
		}
		if !is {
			return nil
		}
		return text(t)
	}
}
