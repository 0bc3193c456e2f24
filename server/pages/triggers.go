package pages

import (
	"fmt"
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store/triggers"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

const (
	shownFirings   = 50
	triggerRefresh = 10 // seconds after which the page is refreshed
)

// triggersPage shows the triggers of the configuration, and their deliveries.
func (s *Server) triggersPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	before, err := param.Before(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title, shell.Live, shell.Every = "triggers", "Triggers", "/api/stream", triggerRefresh
	p := ui.TriggersPage{Shell: shell, Name: q.Get("trigger"), State: q.Get("state")}
	if !ui.KnownFiringState(p.State) {
		return nil, apitypes.BadRequest(fmt.Sprintf("invalid filter: state %q", p.State))
	}
	if p.Triggers, err = s.Runs.Triggers(r.Context()); err != nil {
		return nil, err
	}
	for i := range p.Triggers {
		if p.Triggers[i].Name == p.Name {
			p.Chosen = &p.Triggers[i]
		}
	}
	page, err := s.Runs.TriggerDeliveries(r.Context(), triggers.Filter{Trigger: p.Name, State: triggers.State(p.State), Before: before, Limit: shownFirings})
	p.Deliveries = page.Deliveries
	if page.Next > 0 {
		p.Older = ui.TriggersHref(p.Name, p.State, page.Next)
	}
	return ui.Triggers(p), err
}
