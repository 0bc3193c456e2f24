package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// maxSpan limits the duration and the end of the time range in an address: far longer than any run.
const maxSpan = 10 * 365 * 24 * time.Hour

// timelineTab shows how a run spent its time.
func (s *Server) timelineTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q, err := timelineQuery(h.Run.ID, r.URL.Query())
	if err != nil {
		return nil, err
	}
	t := ui.Timeline{Query: q, Now: time.Now(), Live: !h.Run.Status.Terminal() || h.Run.StayingUntil != nil}
	work, err := s.Views.Work(ctx, h.Run.ID)
	if err != nil {
		return nil, err
	}
	pauses, err := s.Views.Pauses(ctx, h.Run.ID)
	if err != nil {
		return nil, err
	}
	t.Start, t.End = ui.Extent(h.Run, append(slices.Clone(work), pauses...), t.Now)
	t.From, t.To = t.Start, t.End
	if q.To > q.From {
		t.From, t.To = t.Start.Add(q.From), t.Start.Add(q.To)
	}
	activity, omitted, err := s.Views.Activity(ctx, h.Run.ID, views.Window{From: t.From, To: t.To, Most: ui.MostBars})
	if err != nil {
		return nil, err
	}
	t.Spans, t.Omitted = slices.Concat(work, pauses, activity), omitted
	if t.Replays, err = s.Views.ReplayMarks(ctx, h.Run.ID); err != nil {
		return nil, err
	}
	plan, err := s.Store.Plan(ctx, h.Run.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	t.Names = map[string]string{}
	for _, step := range plan.Steps {
		t.Names[step.ID] = step.Name
	}
	if q.Span != "" {
		if t.Detail, err = s.span(ctx, h.Run.ID, q.Span, t.Spans); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	t.Draw()
	return ui.TimelineTab(&t), nil
}

// timelineQuery reads the part of the timeline requested in an address.
func timelineQuery(run int64, v url.Values) (q ui.TimelineQuery, err error) {
	q = ui.TimelineQuery{Run: run, Gaps: v.Get("gaps") == "all", Lanes: v.Get("lanes") == "all", Table: v.Get("as") == "table", Span: v.Get("span")}
	if err := param.CheckText("span", q.Span); err != nil {
		return q, err
	}
	if as := v.Get("as"); as != "" && as != "table" && as != "bars" {
		return q, apitypes.BadRequest("as: must be bars or table")
	}
	for _, name := range strings.FieldsFunc(v.Get("hide"), func(r rune) bool { return r == ',' }) {
		if !slices.Contains(views.SpanKinds(), views.SpanKind(name)) {
			return q, apitypes.BadRequest("hide: must be a list containing any of model, tool, test, heal, wait")
		}
		if k := views.SpanKind(name); !slices.Contains(q.Hidden, k) {
			q.Hidden = append(q.Hidden, k)
		}
	}
	if q.From, err = milliseconds("from", v.Get("from")); err != nil {
		return q, err
	}
	if q.To, err = milliseconds("to", v.Get("to")); err != nil {
		return q, err
	}
	if q.To < q.From || q.From < 0 {
		return q, apitypes.BadRequest("from and to: must be times in milliseconds since the run began, and \"from\" must not exceed \"to\"")
	}
	return q, nil
}

func milliseconds(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxSpan.Milliseconds() {
		return 0, apitypes.BadRequest(name + ": must be a time in milliseconds since the run began")
	}
	return time.Duration(n) * time.Millisecond, nil
}
