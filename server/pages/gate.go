package pages

import (
	"context"
	"net/http"
	"slices"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// gateTab shows what the policy gate decided about the changes of a run, and what reviewers found.
func (s *Server) gateTab(ctx context.Context, _ *http.Request, h *ui.RunHead) (templ.Component, error) {
	list, err := verdicts.Of(ctx, s.Store, h.Run.ID)
	if err != nil {
		return nil, err
	}
	reviews, err := verdicts.Reviews(ctx, s.Store, h.Run.ID)
	slices.Reverse(list)
	slices.Reverse(reviews)
	return ui.GateTab(ui.GatePage{Head: *h, Verdicts: list, Reviews: reviews}), err
}
