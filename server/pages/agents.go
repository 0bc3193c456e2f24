package pages

import (
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/server/ui"
)

// lookEvery is the interval in seconds at which a page refreshes content that changes without
// events.
const lookEvery = 5

// agentsPage shows the state of the workers' agents and the task queues.
func (s *Server) agentsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	shell.Section, shell.Title, shell.Live = "agents", "Agents", "/api/stream"
	shell.Every = lookEvery
	report, err := s.Health.Report(r.Context())
	if err != nil {
		return nil, err
	}
	return ui.Agents(ui.AgentsPage{Shell: shell, Report: report}), nil
}
