package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/runs/rerun"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the page of replays.
const (
	shownReplays = 50
	shownConsole = 120 // lines
	consoleText  = 240 // characters of a line
)

// replayTab lets the user repeat, fork, continue and watch a run.
func (s *Server) replayTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	p, run := ui.ReplayPage{Head: *h}, h.Run
	q := r.URL.Query()
	if err := param.CheckText("from", q.Get("from"), "step", q.Get("step")); err != nil {
		return nil, err
	}
	if err := param.OneOf("from", contract.Phase(q.Get("from")), contract.Phases()); err != nil {
		return nil, err
	}
	executions, err := s.Views.LogExecutions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	steps, err := rerun.Previews(ctx, s.Store, run)
	if err != nil {
		return nil, err
	}
	for _, o := range steps {
		p.Steps = append(p.Steps, o.Step)
	}
	p.Points = points(h.Phases, steps, executions)
	phase := contract.Phase(cmp.Or(q.Get("from"), string(run.Phase)))
	for i, point := range p.Points {
		if point.Phase == phase && point.Step == q.Get("step") {
			p.Chosen = &p.Points[i]
		}
	}
	if p.Offered, err = s.offeredTo(ctx, run.Settings.Models, run.Settings.Providers); err != nil {
		return nil, err
	}
	if p.History, err = s.replayRows(ctx, run.ID); err != nil {
		return nil, err
	}
	since := run.CreatedAt
	if len(p.History) > 0 {
		since = p.History[0].CreatedAt
	}
	p.Console, err = s.console(ctx, run, executions, since)
	return ui.ReplayTab(p), err
}

// points returns the places from which a run can be repeated: phases that have started, and steps
// of the builder.
func points(phases []ui.PhaseStrip, steps []rerun.Preview, executions []store.Execution) (out []ui.ReplayPoint) {
	latest := map[[2]string]store.Execution{}
	for _, e := range executions {
		latest[[2]string{string(e.Phase), e.Step}] = e
	}
	names := contract.Phases()
	for i, ph := range phases {
		if ph.Attempt == nil {
			continue
		}
		p := ui.ReplayPoint{Phase: ph.Phase}
		for j, name := range names {
			if j < i {
				p.Kept = append(p.Kept, string(name))
			} else {
				p.Repeated = append(p.Repeated, string(name))
			}
		}
		lastTime(&p, latest, func(e store.Execution) bool { return slices.Index(names, e.Phase) >= i })
		out = append(out, p)
		if ph.Phase != contract.PhaseBuilder {
			continue
		}
		for _, o := range steps {
			out = append(out, stepPoint(o, latest))
		}
	}
	return out
}

// stepPoint returns the point for repeating a run from a step of the builder.
func stepPoint(o rerun.Preview, latest map[[2]string]store.Execution) ui.ReplayPoint {
	p := ui.ReplayPoint{Phase: contract.PhaseBuilder, Step: o.Step, Kept: append([]string{string(contract.PhasePlanner)}, o.Kept...)}
	p.Repeated = append(append(p.Repeated, o.Repeated...), string(contract.PhaseTester), string(contract.PhaseReleaser))
	lastTime(&p, latest, func(e store.Execution) bool {
		if e.Phase == contract.PhaseBuilder {
			return slices.Contains(o.Repeated, e.Step)
		}
		return e.Phase == contract.PhaseTester || e.Phase == contract.PhaseReleaser
	})
	return p
}

// lastTime adds up the time and cost of the previous executions of the repeated parts.
func lastTime(p *ui.ReplayPoint, latest map[[2]string]store.Execution, again func(store.Execution) bool) {
	for _, e := range latest {
		if !again(e) {
			continue
		}
		p.Usage = p.Usage.Add(e.Usage)
		// The builder's own execution already covers the time of its steps.
		if e.FinishedAt != nil && (e.Step == "" || p.Step != "" && e.Phase == contract.PhaseBuilder) {
			p.Took += e.FinishedAt.Sub(e.StartedAt)
		}
	}
}

func (s *Server) replayRows(ctx context.Context, run int64) (out []ui.ReplayRow, err error) {
	all, err := s.Views.Replays(ctx, run, shownReplays)
	for _, r := range all {
		row := ui.ReplayRow{Replayed: r}
		if r.Attempt > 1 {
			q := url.Values{"phase": {string(r.Phase)}, "attempt": {fmt.Sprint(r.Attempt - 1)}, "other_attempt": {fmt.Sprint(r.Attempt)}}
			row.Compare = fmt.Sprintf("/runs/%d/diff/%d?%s", run, run, q.Encode())
		}
		out = append(out, row)
	}
	return out, err
}

// console returns the latest events, messages and outputs since the given time, line by line in
// chronological order.
func (s *Server) console(ctx context.Context, run store.Run, executions []store.Execution, since time.Time) ([]ui.ConsoleLine, error) {
	var lines []ui.ConsoleLine
	events, err := s.Views.EventsIn(ctx, run.ID, views.EventWindow{
		Above: max(0, run.EventSeq-shownConsole), Upto: run.EventSeq, Down: true, Most: shownConsole, Cut: payloadText,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		lines = append(lines, ui.ConsoleEvent(e.Event))
	}
	l := logRequest{chosen: executions}
	q := l.query(views.LogStop, true)
	q.Most = shownConsole
	w, err := s.Views.LogWindow(ctx, q)
	if err != nil {
		return nil, err
	}
	texts, err := s.logTexts(ctx, w.Keys, consoleText)
	if err != nil {
		return nil, err
	}
	outputs, err := s.Views.LogOutputs(ctx, run.ID, w.Keys)
	if err != nil {
		return nil, err
	}
	for _, k := range w.Keys {
		line := ui.ConsoleLine{ID: "c-" + entryID(k), At: k.At, Href: ui.RunHref(run.ID, "logs") + "?at=" + url.QueryEscape(writeLogKey(k)) + "#" + entryID(k)}
		switch k.Turn {
		case views.LogEnd:
			continue // reported by an event
		case views.LogCheck:
			line.Word, line.Class, line.Text = outputs[k].Result.Check.ID, "k-test", checkLine(outputs[k].Result)
		default:
			line.Word, line.Class, line.Text = messageLine(texts[k])
		}
		line.Text = ui.Cut(line.Text, consoleText)
		lines = append(lines, line)
	}
	lines = slices.DeleteFunc(lines, func(c ui.ConsoleLine) bool { return c.At.Before(since) })
	slices.SortStableFunc(lines, func(a, b ui.ConsoleLine) int { return a.At.Compare(b.At) })
	return lines[max(0, len(lines)-shownConsole):], nil
}

func checkLine(r contract.CheckResult) string {
	words := "ok"
	switch {
	case r.Skipped: // the message says so
		return oneLine(r.Message)
	case !r.OK:
		words = "failed " + string(r.Code)
	}
	if r.Summary.Passed+r.Summary.Failed > 0 {
		words += fmt.Sprintf(", %d passed, %d failed", r.Summary.Passed, r.Summary.Failed)
	}
	if r.Message != "" {
		words += ": " + oneLine(r.Message)
	}
	return words
}

// messageLine formats a message as one line: its author, CSS class and text.
func messageLine(t views.LogText) (word, class, text string) {
	switch t.Role {
	case "assistant":
		class = "k-model"
	case "tool":
		class = "k-tool"
		if !t.OK {
			class = "s-failed"
		}
	}
	text = oneLine(strings.TrimSpace(ui.Plain(t.Text)))
	for _, c := range ui.LogCalls(t.Calls) {
		text = strings.TrimSpace(text + " → " + c.Name)
	}
	return cmp.Or(t.Tool, t.Role), class, text
}

// oneLine replaces the line breaks of a text with spaces.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\r", " ").Replace(s) }
