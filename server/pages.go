package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// pages serves the dashboard.
func (s *server) pages(mux *http.ServeMux) {
	read := func(path string, h http.HandlerFunc) {
		mux.HandleFunc("GET "+path, h)
		mux.HandleFunc(path, s.wrongMethod)
	}
	get := func(path string, page func(*http.Request, ui.Shell) (templ.Component, error)) {
		read(path, func(w http.ResponseWriter, r *http.Request) { s.page(w, r, page) })
	}
	read("/static/", ui.Static(func(w http.ResponseWriter, r *http.Request) { s.fail(w, r, store.ErrNotFound) }))
	read("/{$}", http.RedirectHandler("/runs", http.StatusFound).ServeHTTP)
	get("/runs", s.runsPage)
	get("/runs/{id}", s.tab("", s.overviewTab))
	get("/runs/{id}/models", s.tab("models", s.modelsTab))
	get("/agents", s.agentsPage)
	get("/environments", s.environmentsPage)
	get("/runs/{id}/environment", s.tab("environment", s.environmentTab))
	get("/settings/models", s.modelsPage)
	get("/pipelines", s.pipelinesPage)
	get("/pipelines/{id}", s.pipelinePage)
	get("/pipelines/{id}/texts/{ref}", s.pipelineText)
	read("/pipelines/{id}/handoff", s.handoff)
	get("/runs/{id}/heals", s.tab("heals", s.healsTab))
	get("/runs/{id}/changes", s.tab("changes", s.changesTab))
	get("/runs/{id}/tests", s.tab("tests", s.testsTab))
	get("/runs/{id}/findings", s.tab("findings", s.findingsTab))
	get("/runs/{id}/diff/{other}", s.diffPage)
	mux.HandleFunc("GET /runs/{id}/diff", s.chooseDiff)
	mux.HandleFunc("GET /runs/{id}/changes.patch", s.changePatch)
	mux.HandleFunc("/runs/{id}/changes.patch", s.wrongMethod)
	get("/runs/{id}/timeline", s.tab("timeline", s.timelineTab))
	get("/runs/{id}/plan", s.tab("plan", s.planTab))
	get("/runs/{id}/cost", s.tab("cost", s.costTab))
	get("/runs/{id}/logs", s.tab("logs", s.logsTab))
	get("/runs/{id}/logs/{entry}", s.tab("logs", s.logEntryTab))
	mux.HandleFunc("GET /runs/{id}/logs/next-error", s.nextError)
	mux.HandleFunc("GET /runs/{id}/logs/text", s.logText)
	get("/runs/{id}/artifacts", s.tab("artifacts", s.artifactsTab))
	get("/runs/{id}/artifacts/{artifact}", s.tab("artifacts", s.artifactTab))
	mux.HandleFunc("GET /runs/{id}/artifacts/{artifact}/content", s.artifactContent)
	get("/runs/{id}/events", s.tab("events", s.eventsTab))
	get("/runs/{id}/replay", s.tab("replay", s.replayTab))
}

// page renders a page whole before it sends any of it.
func (s *server) page(w http.ResponseWriter, r *http.Request, page func(*http.Request, ui.Shell) (templ.Component, error)) {
	shell, err := s.shell(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	content, err := page(r, shell)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.render(w, r, http.StatusOK, content)
}

func (s *server) render(w http.ResponseWriter, r *http.Request, status int, content templ.Component) {
	var out bytes.Buffer
	if err := content.Render(r.Context(), &out); err != nil {
		s.Log.ErrorContext(r.Context(), "A page could not be rendered", "request", requestID(r.Context()), "error", err)
		http.Error(w, "The page could not be rendered; the server's log says more.", http.StatusInternalServerError)
		return
	}
	s.write(w, status, "text/html; charset=utf-8", out.Bytes())
}

// shell is what every page has around its content. Theme and rail are chosen by
// hand and kept in cookies, so that a page arrives as it was chosen.
func (s *server) shell(r *http.Request) (ui.Shell, error) {
	shell := plainShell(r)
	var err error
	if shell.Waiting, err = s.Store.Waiting(r.Context()); err != nil {
		return shell, err
	}
	shell.Asking, err = s.Store.WaitingPipelines(r.Context())
	return shell, err
}

// plainShell is a shell that asks nobody.
func plainShell(r *http.Request) ui.Shell {
	shell := ui.Shell{Title: "RocketGPT"}
	if c, err := r.Cookie("theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		shell.Theme = c.Value
	}
	if c, err := r.Cookie("rail"); err == nil {
		shell.Narrow = c.Value == "narrow"
	}
	return shell
}

// problemPage answers a problem to people.
func (s *server) problemPage(w http.ResponseWriter, r *http.Request, p apitypes.Problem) {
	shell := plainShell(r)
	shell.Title = p.Title
	s.render(w, r, p.Status, ui.Problem(shell, p.Title, p.Detail, p.Instance))
}

// tab is a page of a run: its head and the content of one tab, which gets the
// head to read and to add to.
func (s *server) tab(name string, content func(context.Context, *http.Request, *ui.RunHead) (templ.Component, error)) func(*http.Request, ui.Shell) (templ.Component, error) {
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

// stream is the address of the stream that keeps a run's page live.
func streamOf(id, seq int64) string { return fmt.Sprintf("/api/runs/%d/stream?after=%d", id, seq) }
