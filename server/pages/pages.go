// Package pages serves the dashboard: each file collects the data of one page or tab from rows and
// artifacts, and passes it to a template of server/ui.
package pages

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/notify"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/feed"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/respond"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Server serves the pages.
type Server struct {
	*respond.Responder
	Store      *store.Store
	Views      *views.Views
	Feed       *feed.Feed
	Artifacts  *artifact.Store
	Runs       *control.Runs
	Health     *health.Monitor
	Notifier   *notify.Notifier
	TemporalUI string // address of the Temporal Web UI, for links; may be empty
	Namespace  string // of Temporal

	patches patchCache
}

// Register adds the routes of the pages.
func (s *Server) Register(mux *http.ServeMux) {
	get := func(path string, p page) { s.Get(mux, path, s.Handle(s.page(p))) }
	s.Get(mux, "/static/", ui.Static(func(w http.ResponseWriter, r *http.Request) { s.Error(w, r, store.ErrNotFound) }))
	s.Get(mux, "/{$}", http.RedirectHandler("/runs", http.StatusFound).ServeHTTP)
	get("/runs", s.runsPage)
	// Forms are registered by method: /runs/{id} and /pipelines/{id} refuse the others.
	mux.HandleFunc("GET /runs/new", s.Handle(s.page(s.newRunPage)))
	mux.HandleFunc("POST /runs/new", s.Handle(s.createRun))
	get("/runs/{id}", s.tab("", s.overviewTab))
	get("/runs/{id}/models", s.tab("models", s.modelsTab))
	get("/pull-requests", s.pullRequestsPage)
	get("/change-sets", s.changeSetsPage)
	get("/change-sets/{id}", s.changeSetPage)
	get("/triggers", s.triggersPage)
	get("/merge-queues", s.mergeQueuesPage)
	get("/notifications", s.notificationsPage)
	s.Get(mux, ui.PushWorkerPath, ui.PushWorker)
	get("/agents", s.agentsPage)
	get("/environments", s.environmentsPage)
	get("/brain", s.brainPage)
	get("/policies", s.policiesPage)
	get("/ledger", s.ledgerPage)
	get("/quarantine", s.quarantinePage)
	get("/evals", s.evalsPage)
	get("/evals/{id}", s.evalPage)
	get("/runs/{id}/environment", s.tab("environment", s.environmentTab))
	get("/settings/models", s.modelsPage)
	get("/pipelines", s.pipelinesPage)
	mux.HandleFunc("GET /pipelines/new", s.Handle(s.page(s.newPipelinePage)))
	mux.HandleFunc("POST /pipelines/new", s.Handle(s.spawnPipeline))
	get("/pipelines/{id}", s.pipelinePage)
	get("/pipelines/{id}/texts/{ref}", s.pipelineText)
	s.Get(mux, "/pipelines/{id}/handoff", s.Handle(s.handoff))
	get("/runs/{id}/heals", s.tab("heals", s.healsTab))
	get("/runs/{id}/changes", s.tab("changes", s.changesTab))
	get("/runs/{id}/tests", s.tab("tests", s.testsTab))
	get("/runs/{id}/findings", s.tab("findings", s.findingsTab))
	get("/runs/{id}/gate", s.tab("gate", s.gateTab))
	get("/runs/{id}/diff/{other}", s.diffPage)
	mux.HandleFunc("GET /runs/{id}/diff", s.Handle(s.chooseDiff))
	s.Get(mux, "/runs/{id}/changes.patch", s.Handle(s.changePatch))
	get("/runs/{id}/timeline", s.tab("timeline", s.timelineTab))
	get("/runs/{id}/plan", s.tab("plan", s.planTab))
	get("/runs/{id}/cost", s.tab("cost", s.costTab))
	get("/runs/{id}/logs", s.tab("logs", s.logsTab))
	get("/runs/{id}/logs/{entry}", s.tab("logs", s.logEntryTab))
	mux.HandleFunc("GET /runs/{id}/logs/next-error", s.Handle(s.nextError))
	mux.HandleFunc("GET /runs/{id}/logs/text", s.Handle(s.logText))
	get("/runs/{id}/artifacts", s.tab("artifacts", s.artifactsTab))
	get("/runs/{id}/artifacts/{artifact}", s.tab("artifacts", s.artifactTab))
	mux.HandleFunc("GET /runs/{id}/artifacts/{artifact}/content", s.Handle(s.artifactContent))
	get("/runs/{id}/events", s.tab("events", s.eventsTab))
	get("/runs/{id}/replay", s.tab("replay", s.replayTab))
	mux.HandleFunc("POST /runs/{id}/follow-up", s.Handle(s.followUp))
}

// page returns the content of a page in its shell.
type page func(*http.Request, ui.Shell) (templ.Component, error)

// page responds with a page.
func (s *Server) page(p page) respond.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		shell, err := s.shell(r)
		if err != nil {
			return err
		}
		content, err := p(r, shell)
		if err != nil {
			return err
		}
		s.Page(w, r, http.StatusOK, content)
		return nil
	}
}

// shell returns the frame that every page has around its content.
func (s *Server) shell(r *http.Request) (ui.Shell, error) {
	shell := respond.Shell(r)
	var err error
	if shell.Waiting, err = s.Views.Waiting(r.Context()); err != nil {
		return shell, err
	}
	if shell.Asking, err = s.Views.WaitingPipelines(r.Context()); err != nil {
		return shell, err
	}
	shell.Held, err = changesets.CountWaiting(r.Context(), s.Store, store.DefaultTenant)
	return shell, err
}

// tab returns a page of a run: its head and one tab. The function for its content can read and
// extend the head.
func (s *Server) tab(name string, content func(context.Context, *http.Request, *ui.RunHead) (templ.Component, error)) page {
	return func(r *http.Request, shell ui.Shell) (templ.Component, error) {
		id, err := param.ID(r)
		if err != nil {
			return nil, err
		}
		shell.Section = "runs"
		head, err := s.runHead(r.Context(), shell, id, name)
		if err != nil {
			return nil, err
		}
		inside, err := content(r.Context(), r, &head)
		if err != nil {
			return nil, err
		}
		page := ui.RunPage(head)
		return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
			return page.Render(templ.WithChildren(ctx, inside), w)
		}), nil
	}
}

// streamOf returns the address of the stream that updates a run's page.
func streamOf(id, seq int64) string { return fmt.Sprintf("/api/runs/%d/stream?after=%d", id, seq) }
