package pages

import (
	"context"
	"net/http"
	"slices"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// gateTab shows what the policy gate decided about the changes of a run, and who approved what.
func (s *Server) gateTab(ctx context.Context, _ *http.Request, h *ui.RunHead) (templ.Component, error) {
	list, err := verdicts.Of(ctx, s.Store, h.Run.ID)
	if err != nil {
		return nil, err
	}
	approvals, err := s.Views.Approvals(ctx, h.Run.ID)
	slices.Reverse(list)
	slices.Reverse(approvals)
	return ui.GateTab(ui.GatePage{Head: *h, Verdicts: list, Approvals: approvals}), err
}
