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
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
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
	"payload": payload,
	"cut":     cut,
	"bytes":   size,
	"more":    func(id int64, all, shown int) omitted { return omitted{id, all, shown} },
	"short":   func(s string) string { return s[:min(len(s), 12)] },
	"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") },
}).ParseFS(ui, "ui/*.html"))

// What a page shows at most. The rest is in the run's JSON.
const (
	shownRuns   = 50
	shownRows   = 200
	shownEvents = 200
	shownText   = 1500 // characters of one text
)

// stateOf maps a status to the few states that a badge shows.
func stateOf(s contract.Status) string {
	switch s {
	case contract.StatusDone:
		return "done"
	case contract.StatusFailed:
		return "failed"
	case contract.StatusCancelled:
		return "stopped"
	case contract.StatusPending:
		return "queued"
	case contract.StatusWaitingForApproval, contract.StatusPaused:
		return "waiting"
	case contract.StatusSelfHeal:
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

// size writes a number of bytes for people.
func size(n int64) string {
	const step = 1024
	value, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if value < step {
			break
		}
		value, unit = value/step, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// cut bounds a text.
func cut(s string) string {
	if len(s) <= shownText {
		return s
	}
	return strings.ToValidUTF8(s[:shownText], "") + "…"
}

// payload writes what an event holds on one line.
func payload(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return cut(string(raw))
	}
	if text := out.String(); text != "null" && text != "{}" {
		return cut(text)
	}
	return ""
}

func (s *server) runsPage(w http.ResponseWriter, r *http.Request) {
	filter, err := filterOf(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if filter.Before, err = before(r.URL.Query()); err != nil {
		s.fail(w, r, err)
		return
	}
	filter.Limit = shownRuns + 1 // one more tells whether there are older ones
	runs, err := s.Store.ListRuns(r.Context(), filter)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	older := ""
	if len(runs) > shownRuns {
		runs = runs[:shownRuns]
		older = olderThan(r.URL.Query(), runs[shownRuns-1].Cursor())
	}
	s.page(w, r, "runs.html", map[string]any{
		"Runs": runs, "Older": older, "Filtered": len(r.URL.Query()) > 0, "Statuses": contract.Statuses(), "Status": filter.Status, "Text": filter.Text,
	})
}

// before reads where a page of runs begins: after which run.
func before(q url.Values) (c store.Cursor, err error) {
	if q.Get("before") == "" {
		return c, nil
	}
	c.ID, err = strconv.ParseInt(q.Get("before"), 10, 64)
	if err == nil {
		c.CreatedAt, err = time.Parse(time.RFC3339Nano, q.Get("at"))
	}
	if err != nil || c.ID <= 0 {
		return c, badRequest("before and at name no place in the list of runs")
	}
	return c, nil
}

// olderThan returns the address of the page that follows.
func olderThan(q url.Values, c store.Cursor) string {
	q.Set("before", strconv.FormatInt(c.ID, 10))
	q.Set("at", c.CreatedAt.Format(time.RFC3339Nano))
	return "/runs?" + q.Encode()
}

// runView is a run as its page shows it: the beginning of every list, what is
// not well first, and how many there are in all.
type runView struct {
	Run        store.RunDetails
	Plan       contract.Plan
	Tests      contract.TestResult
	Temporal   string
	Executions int
	Steps      int
	Cases      int
	Findings   int
	Artifacts  int
	EventCount int
}

func (s *server) runPage(w http.ResponseWriter, r *http.Request) {
	id, err := runID(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	details, err := s.Store.RecentDetails(r.Context(), id, shownEvents)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v, err := s.view(details)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.page(w, r, "run.html", v)
}

func (s *server) view(d store.RunDetails) (runView, error) {
	v := runView{
		Temporal:   devstack.WorkflowURL(s.TemporalUI, s.Namespace, d.WorkflowID, d.WorkflowRunID),
		Executions: len(d.Executions), Findings: len(d.Findings), Artifacts: len(d.Artifacts),
		EventCount: int(d.EventSeq),
	}
	var planned struct {
		Plan contract.Plan `json:"plan"`
	}
	if len(d.PlannerOutput) > 0 {
		if err := json.Unmarshal(d.PlannerOutput, &planned); err != nil {
			return v, fmt.Errorf("read the planner's output: %w", err)
		}
	}
	if len(d.TesterOutput) > 0 {
		if err := json.Unmarshal(d.TesterOutput, &v.Tests); err != nil {
			return v, fmt.Errorf("read the tester's output: %w", err)
		}
	}
	v.Plan, v.Steps, v.Cases = planned.Plan, len(planned.Plan.Steps), len(v.Tests.Results)
	v.Plan.Steps = first(v.Plan.Steps)
	slices.SortStableFunc(v.Tests.Results, func(a, b contract.TestCase) int { return rank(a) - rank(b) })
	v.Tests.Results = first(v.Tests.Results)
	slices.SortStableFunc(d.Findings, func(a, b store.Finding) int { return findingRank(a) - findingRank(b) })
	d.Findings, d.Artifacts = first(d.Findings), first(d.Artifacts)
	d.Executions = d.Executions[max(0, len(d.Executions)-shownRows):]
	slices.Reverse(d.Events) // what happened last is what people look for
	v.Run = d
	return v, nil
}

// omitted says how much of a list a page shows.
type omitted struct {
	ID         int64
	All, Shown int
}

func first[T any](all []T) []T { return all[:min(len(all), shownRows)] }

// rank puts what is not well first.
func rank(c contract.TestCase) int {
	return slices.Index([]contract.TestStatus{contract.TestFailed, contract.TestFlaky, contract.TestSkipped, contract.TestPassed}, c.Status)
}

func findingRank(f store.Finding) int {
	n := slices.Index([]contract.Severity{contract.SeverityMajor, contract.SeverityMedium, contract.SeverityMinor}, f.Severity)
	if f.Resolved {
		n += 10
	}
	return n
}

// page renders a page whole before it sends any of it.
func (s *server) page(w http.ResponseWriter, r *http.Request, name string, data any) {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, name, data); err != nil {
		s.fail(w, r, fmt.Errorf("render %s: %w", name, err))
		return
	}
	s.write(w, http.StatusOK, "text/html; charset=utf-8", out.Bytes())
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
	w.Header().Set("Content-Disposition", disposition(a.Name))
	w.Header().Set("Content-Length", strconv.FormatInt(a.Size, 10))
	if r.Method == http.MethodHead {
		return
	}
	if _, err := io.Copy(w, content); err != nil {
		s.Log.Info("A download ended early", "run", a.RunID, "artifact", a.Name, "error", err)
	}
}

// disposition offers a file under the last part of its name, whatever system
// that name was made on.
func disposition(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(name, "./") == "" {
		name = "artifact"
	}
	if value := mime.FormatMediaType("attachment", map[string]string{"filename": name}); value != "" {
		return value
	}
	return "attachment"
}
