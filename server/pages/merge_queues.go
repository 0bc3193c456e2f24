package pages

import (
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/server/ui"
)

const (
	shownLeft    = 20 // pull requests of each queue that have left it
	queueRefresh = 10 // seconds after which the page is refreshed
)

// mergeQueuesPage shows merge queues, with the pull requests in them.
func (s *Server) mergeQueuesPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	shell.Section, shell.Title, shell.Live, shell.Every = "merge-queues", "Merge queues", "/api/stream", queueRefresh
	queues, err := s.Runs.MergeQueues(r.Context(), mergequeues.Filter{Ended: shownLeft})
	return ui.MergeQueues(ui.MergeQueuesPage{Shell: shell, Queues: queues}), err
}
