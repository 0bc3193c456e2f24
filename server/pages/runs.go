package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the list of runs.
const (
	shownRuns      = 50
	shownQuestions = 20
	shownProjects  = 200
)

func (s *Server) runsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	ctx := r.Context()
	shell.Section, shell.Title, shell.Live = "runs", "Runs", "/api/stream"
	p := ui.RunsPage{Shell: shell}
	filter, err := choiceOf(r, &p.Choice)
	if err != nil {
		return nil, err
	}
	filter.Limit = shownRuns + 1 // the extra one tells whether there are older runs
	runs, err := s.Store.ListRuns(ctx, filter)
	if err != nil {
		return nil, err
	}
	if len(runs) > shownRuns {
		runs = runs[:shownRuns]
		p.Older = "/runs?" + with(r.URL.Query(), "cursor", param.WriteCursor(runs[shownRuns-1].Cursor())).Encode()
	}
	ids := make([]int64, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	cards, err := s.Views.Cards(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		p.Rows = append(p.Rows, ui.RunRow{Run: run, Card: cards[run.ID]})
	}
	if p.Projects, err = s.Views.Projects(ctx, shownProjects); err != nil {
		return nil, err
	}
	if shell.Waiting > 0 && !p.Choice.Any() {
		if p.Questions, err = s.Views.Questions(ctx, 0, shownQuestions); err != nil {
			return nil, err
		}
	}
	if !p.Choice.Any() {
		if p.Held, err = s.heldSets(r, shell); err != nil {
			return nil, err
		}
	}
	return ui.Runs(p), nil
}

// choiceOf reads the filter of the requested runs.
func choiceOf(r *http.Request, c *ui.Choice) (store.Filter, error) {
	q, err := param.Query(r)
	if err != nil {
		return store.Filter{}, err
	}
	*c = ui.Choice{
		State: q.Get("state"), Phase: q.Get("phase"), Project: q.Get("project"), Error: q.Get("error"), Text: q.Get("text"), Time: q.Get("time"),
	}
	if !c.Known() {
		return store.Filter{}, apitypes.BadRequest(fmt.Sprintf("invalid filter: state %q, time %q", c.State, c.Time))
	}
	f := store.Filter{
		Status: c.Statuses(), Since: c.Since(time.Now()), Phase: contract.Phase(c.Phase), Project: c.Project, ErrorClass: contract.Class(c.Error), Text: c.Text,
	}
	if f.Before, err = param.ReadCursor[store.Cursor](q.Get("cursor")); err != nil {
		return f, err
	}
	return f, param.CheckFilter(f)
}

// with returns a query with one value set.
func with(q url.Values, name, value string) url.Values {
	q.Set(name, value)
	return q
}
