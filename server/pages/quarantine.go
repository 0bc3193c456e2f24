package pages

import (
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// shownFlaky is the maximum number of quarantined tests, and of flaky ones, on their page.
const shownFlaky = 200

// quarantinePage shows the quarantined and the flaky tests of all repositories.
func (s *Server) quarantinePage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title = "quarantine", "Flaky tests"
	p := ui.QuarantinePage{Shell: shell, All: q.Get("all") != "", Policy: s.Runs.Config.Verification.Flaky}
	if p.Quarantine, err = s.Runs.Quarantine(r.Context(), "", p.All, shownFlaky); err != nil {
		return nil, err
	}
	p.Flaky, err = s.Runs.FlakyTests(r.Context(), "", shownFlaky)
	return ui.Quarantine(p), err
}
