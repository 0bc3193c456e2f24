// Package server serves the HTTP API and the dashboard.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Options are what the server works with.
type Options struct {
	Store      *store.Store
	Artifacts  *artifact.Store
	Temporal   client.Client
	TemporalUI string // address of the Temporal Web UI, for links; may be empty
	Namespace  string // of Temporal
	Log        *slog.Logger
}

// readyTime bounds the questions of /readyz.
const readyTime = 2 * time.Second

type server struct{ Options }

// New returns the handler of the API and the dashboard. Both only read.
func New(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { s.json(w, http.StatusOK, map[string]string{"status": "ok"}) })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", telemetry.Handler())
	mux.HandleFunc("GET /api/runs", s.listRuns)
	mux.HandleFunc("GET /api/runs/{id}", s.getRun)
	mux.HandleFunc("GET /api/runs/{id}/artifacts/{artifact}", s.getArtifact)
	mux.Handle("GET /{$}", http.RedirectHandler("/runs", http.StatusFound))
	mux.HandleFunc("GET /runs", s.runsPage)
	mux.HandleFunc("GET /runs/{id}", s.runPage)
	mux.HandleFunc("GET /style.css", style)
	return guarded(mux)
}

// guarded sets what every answer carries: no script runs, nothing is loaded
// from elsewhere, no other site may frame a page.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// ready says whether the server can do its work: database and Temporal answer.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	parts := map[string]string{"database": "ok", "temporal": "ok"}
	status := http.StatusOK
	if err := s.Store.Ping(ctx); err != nil {
		parts["database"], status = "does not answer", http.StatusServiceUnavailable
	}
	if _, err := s.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		parts["temporal"], status = "does not answer", http.StatusServiceUnavailable
	}
	s.json(w, status, parts)
}

func (s *server) listRuns(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	runs, err := s.Store.ListRuns(r.Context(), store.Filter{
		Status: contract.Status(q.Get("status")), Phase: contract.Phase(q.Get("phase")), Project: q.Get("project"),
		ErrorClass: contract.Class(q.Get("error")), Text: q.Get("text"),
	})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.json(w, http.StatusOK, map[string]any{"runs": runs})
}

func (s *server) getRun(w http.ResponseWriter, r *http.Request) {
	details, err := s.details(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.json(w, http.StatusOK, details)
}

// details reads the run that a path names.
func (s *server) details(r *http.Request) (store.RunDetails, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id <= 0 {
		return store.RunDetails{}, store.ErrNotFound
	}
	return s.Store.RunDetails(r.Context(), id)
}

// getArtifact sends a file of a run. It came from a repository or a model, so
// it is always a download and never shown.
func (s *server) getArtifact(w http.ResponseWriter, r *http.Request) {
	details, err := s.details(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	for _, a := range details.Artifacts {
		if strconv.FormatInt(a.ID, 10) == r.PathValue("artifact") {
			s.download(w, r, a)
			return
		}
	}
	s.fail(w, r, store.ErrNotFound)
}

// problem is an error as RFC 9457 has it.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// fail answers an error; what is inside stays inside.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problem{Title: "Something went wrong here", Status: http.StatusInternalServerError, Detail: "The server's log says more."}
	switch {
	case errors.Is(err, store.ErrNotFound):
		p = problem{Title: "There is no such thing", Status: http.StatusNotFound}
	case fault.Of(err).Class == contract.ClassInfra:
		p = problem{Title: "A part of the system does not answer", Status: http.StatusServiceUnavailable, Detail: "Nothing is lost; try again shortly."}
	}
	if p.Status >= http.StatusInternalServerError {
		s.Log.ErrorContext(r.Context(), "A request failed", "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	s.write(w, p.Status, p)
}

func (s *server) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	s.write(w, status, v)
}

func (s *server) write(w http.ResponseWriter, status int, v any) {
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.Log.Info("A client went away", "error", err)
	}
}
