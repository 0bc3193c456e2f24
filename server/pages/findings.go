package pages

import (
	"context"
	"net/http"
	"slices"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// shownFindingRows is the number of findings per page.
const shownFindingRows = 100

// findingsTab shows the findings of a run's verification.
func (s *Server) findingsTab(ctx context.Context, r *http.Request, h *ui.RunHead) (templ.Component, error) {
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	f := ui.FindingsPage{
		Head: *h, Severity: contract.Severity(q.Get("severity")), Category: contract.Category(q.Get("category")), Check: q.Get("check"), State: q.Get("state"),
	}
	for _, err := range []error{
		param.OneOf("severity", f.Severity, ui.Severities()), param.OneOf("category", f.Category, contract.Categories()), param.OneOf("state", f.State, ui.FindingStates()),
	} {
		if err != nil {
			return nil, err
		}
	}
	if f.From, err = offset(q, "from"); err != nil {
		return nil, err
	}
	if f.Counts, err = s.Views.FindingCounts(ctx, h.Run.ID); err != nil {
		return nil, err
	}
	for _, c := range f.Counts {
		if !slices.Contains(f.Checks, c.CheckID) {
			f.Checks = append(f.Checks, c.CheckID)
		}
	}
	filter := views.FindingFilter{
		RunID: h.Run.ID, Severity: f.Severity, Category: f.Category, CheckID: f.Check, From: f.From, Most: shownFindingRows,
	}
	if f.State != ui.FindingsAll {
		resolved := f.State == ui.FindingsResolved
		filter.Resolved = &resolved
	}
	f.Rows, err = s.Views.FindingsPage(ctx, filter)
	return ui.FindingsTab(f), err
}
