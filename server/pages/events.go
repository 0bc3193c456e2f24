package pages

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of a page of events.
const (
	shownEventRows = 100
	scannedEvents  = 10000 // examined per page when filtered by type
	payloadText    = 16 << 10
	maxPrefix      = 100
)

// eventsTab lists all events of a run.
func (s *Server) eventsTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q := r.URL.Query()
	l := ui.EventList{Head: *h, Prefix: q.Get("type"), Oldest: q.Get("order") == "oldest", Live: !h.Run.Status.Terminal() || h.Run.StayingUntil != nil}
	if err := param.CheckText("type", l.Prefix); err != nil {
		return nil, err
	}
	if len(l.Prefix) > maxPrefix {
		return nil, apitypes.BadRequest(fmt.Sprintf("type: must be at most %d characters", maxPrefix))
	}
	if order := q.Get("order"); order != "" && order != "oldest" && order != "newest" {
		return nil, apitypes.BadRequest("order: must be one of [newest oldest]")
	}
	from, up, err := eventPlace(q, l)
	if err != nil {
		return nil, err
	}
	if err := s.fillEvents(ctx, &l, from, up); err != nil {
		return nil, err
	}
	return ui.EventsTab(l), nil
}

// eventPlace reads the start and the direction of the requested events.
func eventPlace(q url.Values, l ui.EventList) (from int64, up bool, err error) {
	number := func(name string) int64 {
		n, wrong := strconv.ParseInt(q.Get(name), 10, 64)
		if wrong != nil {
			err = apitypes.BadRequest(name + ": must be a position in the event list")
		}
		return max(n, -n)
	}
	switch {
	case q.Get("before") != "":
		return number("before"), true, err
	case q.Get("after") != "":
		from = number("after")
		return from, false, err
	case q.Get("at") != "" && l.Oldest: // the window begins there
		from = max(0, number("at")-1)
		return from, false, err
	case q.Get("at") != "":
		from = min(number("at"), l.Head.Run.EventSeq) + 1
		return from, false, err
	case l.Oldest:
		return 0, false, nil
	}
	return l.Head.Run.EventSeq + 1, false, nil
}

// fillEvents reads the events before or after a number.
func (s *Server) fillEvents(ctx context.Context, l *ui.EventList, from int64, up bool) error {
	from = min(max(from, 0), l.Head.Run.EventSeq+1)
	grows := l.Oldest != up // towards larger numbers
	w := views.EventWindow{Prefix: l.Prefix, Down: !grows, Most: shownEventRows + 1, Cut: payloadText}
	if grows {
		w.Above, w.Upto = from, from+scannedEvents
	} else {
		w.Above, w.Upto = max(0, from-1-scannedEvents), from-1
	}
	rows, err := s.Views.EventsIn(ctx, l.Head.Run.ID, w)
	if err != nil {
		return err
	}
	edge := w.Above + 1 // the last number examined
	if grows {
		edge = w.Upto
	}
	more := grows && edge < l.Head.Run.EventSeq || !grows && edge > 1
	if len(rows) > shownEventRows {
		rows, more = rows[:shownEventRows], true
	}
	if len(rows) == shownEventRows || !more && len(rows) > 0 {
		edge = rows[len(rows)-1].Seq
	}
	begin := from // of the window, on the other side
	if len(rows) > 0 {
		begin = rows[0].Seq
	}
	if !more && len(rows) == 0 {
		edge = from
	}
	if up {
		slices.Reverse(rows)
		begin, edge = edge, begin
		l.HasPrev, l.HasNext = more, true
	} else {
		l.HasNext = more
		l.HasPrev = l.Oldest && begin > 1 || !l.Oldest && begin < l.Head.Run.EventSeq && from <= l.Head.Run.EventSeq
	}
	l.Rows = rows
	l.Prev, l.Next = eventAddress(l, "before", begin), eventAddress(l, "after", edge)
	return nil
}

// eventAddress returns the address of the events before or after a number.
func eventAddress(l *ui.EventList, name string, seq int64) string {
	q := url.Values{name: {fmt.Sprint(l.Cursor(seq))}}
	if l.Oldest {
		q.Set("order", "oldest")
	}
	if l.Prefix != "" {
		q.Set("type", l.Prefix)
	}
	return ui.RunHref(l.Head.Run.ID, "events") + "?" + q.Encode()
}
