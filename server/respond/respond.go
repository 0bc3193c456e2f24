// Package respond writes responses: JSON, pages, files, and errors as problems. The
// details of an error stay in the log.
package respond

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Responder writes responses and logs failures.
type Responder struct{ Log *slog.Logger }

// Handler responds to a request, or returns an error for the response.
type Handler func(http.ResponseWriter, *http.Request) error

// Handle turns a handler into an http.Handler.
func (res *Responder) Handle(h Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			res.Error(w, r, err)
		}
	}
}

// Get routes GET requests to a handler and rejects other methods.
func (res *Responder) Get(mux *http.ServeMux, path string, h http.HandlerFunc) {
	mux.HandleFunc("GET "+path, h)
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", "GET, HEAD")
		res.Error(w, r, apitypes.Problem{Title: "Method not allowed", Status: http.StatusMethodNotAllowed, Detail: "This address is read-only. Use rgpt run to start and control runs."})
	})
}

// Error responds with an error: browsers receive a page, programs problem+json.
func (res *Responder) Error(w http.ResponseWriter, r *http.Request, err error) {
	p := res.Problem(r.Context(), err)
	if !strings.HasPrefix(r.URL.Path, "/api/") && strings.Contains(r.Header.Get("Accept"), "text/html") {
		shell := Shell(r)
		shell.Title = p.Title
		res.Page(w, r, p.Status, ui.Problem(shell, p.Title, p.Detail, p.Instance))
		return
	}
	res.encode(w, p.Status, apitypes.ProblemType, p)
}

// JSON responds with a value as JSON.
func (res *Responder) JSON(w http.ResponseWriter, status int, v any) {
	res.encode(w, status, "application/json", v)
}

// encode builds the whole response before it sends any of it.
func (res *Responder) encode(w http.ResponseWriter, status int, kind string, v any) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(v); err != nil {
		res.Log.Error("A response could not be encoded as JSON", "error", err)
		status, kind = http.StatusInternalServerError, apitypes.ProblemType
		out.Reset()
		out.WriteString(`{"title":"Internal server error","status":500}`)
	}
	res.Write(w, status, kind, out.Bytes())
}

// Page responds with a page, which it renders completely before it sends any of it.
func (res *Responder) Page(w http.ResponseWriter, r *http.Request, status int, content templ.Component) {
	var out bytes.Buffer
	if err := content.Render(r.Context(), &out); err != nil {
		res.Log.ErrorContext(r.Context(), "A page could not be rendered", "request", middleware.RequestID(r.Context()), "error", err)
		http.Error(w, "The page could not be rendered; see the server's log for details.", http.StatusInternalServerError)
		return
	}
	res.Write(w, status, "text/html; charset=utf-8", out.Bytes())
}

// Write responds with content of the given type.
func (res *Responder) Write(w http.ResponseWriter, status int, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	if _, err := w.Write(content); err != nil {
		res.Log.Info("A client disconnected", "error", err)
	}
}

// Shell returns the part of a page's frame that needs no database. Theme and rail are the user's
// choices. They are stored in cookies, so a page is rendered with them from the start.
func Shell(r *http.Request) ui.Shell {
	shell := ui.Shell{Title: "RocketGPT"}
	if c, err := r.Cookie("theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		shell.Theme = c.Value
	}
	if c, err := r.Cookie("rail"); err == nil {
		shell.Narrow = c.Value == "narrow"
	}
	return shell
}
