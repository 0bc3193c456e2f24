package server

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/report"
	"github.com/rocketgpt/orchestrator/internal/store"
)

//go:embed ui
var ui embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"state":   stateOf,
	"took":    took,
	"dollars": report.Dollars,
	"pretty":  pretty,
	"short":   func(s string) string { return s[:min(len(s), 12)] },
	"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
}).ParseFS(ui, "ui/*.html"))

// stateOf maps a status to the few states that a badge shows.
func stateOf(s contract.Status) string {
	switch {
	case s == contract.StatusDone:
		return "done"
	case s == contract.StatusFailed:
		return "failed"
	case s == contract.StatusCancelled:
		return "stopped"
	case s == contract.StatusPending:
		return "queued"
	case s == contract.StatusWaitingForApproval, s == contract.StatusPaused:
		return "waiting"
	case s == contract.StatusSelfHeal:
		return "healing"
	default:
		return "running"
	}
}

func took(from time.Time, to *time.Time) string {
	if to == nil {
		return time.Since(from).Round(time.Second).String()
	}
	return to.Sub(from).Round(10 * time.Millisecond).String()
}

func pretty(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

func (s *server) runsPage(w http.ResponseWriter, r *http.Request) {
	runs, err := s.Store.ListRuns(r.Context(), store.Filter{Status: contract.Status(r.URL.Query().Get("status"))})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.page(w, r, "runs.html", map[string]any{"Runs": runs})
}

func (s *server) runPage(w http.ResponseWriter, r *http.Request) {
	details, err := s.details(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	var planned struct {
		Plan contract.Plan `json:"plan"`
	}
	var tested contract.TestResult
	if len(details.PlannerOutput) > 0 {
		err = json.Unmarshal(details.PlannerOutput, &planned)
	}
	if err == nil && len(details.TesterOutput) > 0 {
		err = json.Unmarshal(details.TesterOutput, &tested)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.page(w, r, "run.html", map[string]any{
		"Run": details, "Plan": planned.Plan, "Tests": tested,
		"Temporal": devstack.WorkflowURL(s.TemporalUI, s.Namespace, details.WorkflowID, details.WorkflowRunID),
	})
}

// page renders a page whole before it sends any of it.
func (s *server) page(w http.ResponseWriter, r *http.Request, name string, data any) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, name, data); err != nil {
		s.fail(w, r, fmt.Errorf("render %s: %w", name, err))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := w.Write(out.Bytes()); err != nil {
		s.Log.Info("A client went away", "error", err)
	}
}

func style(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=300")
	http.ServeFileFS(w, r, ui, "ui/style.css")
}

// download sends an artifact as a file to keep.
func (s *server) download(w http.ResponseWriter, r *http.Request, a contract.Artifact) {
	content, err := s.Artifacts.Reader(r.Context(), a.Digest)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.Name)}))
	w.Header().Set("Content-Length", fmt.Sprint(a.Size))
	if _, err := io.Copy(w, content); err != nil {
		s.Log.Info("A download ended early", "run", a.RunID, "artifact", a.Name, "error", err)
	}
}
