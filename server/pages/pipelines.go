package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the pages of pipelines.
const (
	shownPipelines = 50
	shownAsking    = 20
	shownRefused   = 50
	shownPlanning  = 5 // pipelines of one run, on the run's pages
)

// pipelinesPage lists pipelines.
func (s *Server) pipelinesPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	ctx := r.Context()
	shell.Section, shell.Title, shell.Live = "pipelines", "Pipelines", "/api/stream"
	p := ui.PipelinesPage{Shell: shell}
	filter, err := pipelineChoice(r, &p.Choice)
	if err != nil {
		return nil, err
	}
	filter.Limit = shownPipelines + 1 // the extra one tells whether there are older pipelines
	if p.Rows, err = s.Store.ListPipelines(ctx, filter); err != nil {
		return nil, err
	}
	if len(p.Rows) > shownPipelines {
		p.Rows = p.Rows[:shownPipelines]
		p.Older = "/pipelines?" + with(r.URL.Query(), "cursor", param.WriteCursor(p.Rows[shownPipelines-1].Cursor())).Encode()
	}
	if shell.Asking > 0 && !p.Choice.Any() {
		p.Asking, err = s.askingPipelines(ctx)
	}
	return ui.Pipelines(p), err
}

// askingPipelines returns the pipelines that wait for a person, the newest first.
func (s *Server) askingPipelines(ctx context.Context) ([]store.Pipeline, error) {
	all, err := s.Store.ListPipelines(ctx, store.PipelineFilter{Status: []contract.PipelineStatus{contract.PipelineReport}, Limit: shownAsking})
	return slices.DeleteFunc(all, func(p store.Pipeline) bool { return p.WaitingFor == "" }), err
}

// pipelineChoice reads the filter of the requested pipelines.
func pipelineChoice(r *http.Request, c *ui.PipelineChoice) (f store.PipelineFilter, err error) {
	q, err := param.Query(r)
	if err != nil {
		return f, err
	}
	*c = ui.PipelineChoice{Status: q.Get("status"), Kind: q.Get("kind"), Abort: q.Get("abort"), Text: q.Get("text"), Time: q.Get("time")}
	if !c.Known() {
		return f, apitypes.BadRequest(fmt.Sprintf("invalid filter: status %q, kind %q, abort %q, time %q", c.Status, c.Kind, c.Abort, c.Time))
	}
	f.Text, f.Abort = c.Text, contract.AbortReason(c.Abort)
	f.Since, _ = c.Since(time.Now())
	if c.Status != "" {
		f.Status = []contract.PipelineStatus{contract.PipelineStatus(c.Status)}
	}
	if c.Kind != "" {
		ofRun := c.Kind == ui.PipelinesOfRun
		f.ForRun = &ofRun
	}
	f.Before, err = param.ReadCursor[store.Cursor](q.Get("cursor"))
	return f, err
}

// pipelinePage shows one deliberation.
func (s *Server) pipelinePage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	ctx := r.Context()
	id, err := param.ID(r)
	if err != nil {
		return nil, err
	}
	p := ui.PipelinePage{Shell: shell}
	if p.Pipeline, err = s.Store.Pipeline(ctx, id); err != nil {
		return nil, err
	}
	q := p.Pipeline
	// The stream delivers the events after this number; earlier ones are part of the data read
	// below.
	seq, err := s.Feed.LastEvent(ctx, q.RunID)
	if err != nil {
		return nil, err
	}
	p.Section, p.Title = "pipelines", fmt.Sprintf("#%d %s", id, ui.Cut(q.Objective, 80))
	p.Live = fmt.Sprintf("/api/pipelines/%d/stream?after=%d", id, seq)
	p.Temporal = devstack.WorkflowURL(s.TemporalUI, s.Namespace, q.WorkflowID, q.WorkflowRunID)
	if p.Pipeline, err = s.Store.Pipeline(ctx, id); err != nil {
		return nil, err
	}
	if err := s.relatedPipelines(ctx, &p); err != nil {
		return nil, err
	}
	if err := s.pipelineWork(ctx, &p); err != nil {
		return nil, err
	}
	if p.Pipeline.WaitingFor != "" {
		if p.Offered, err = s.offeredTo(ctx, p.Pipeline.Settings.Models, nil); err != nil {
			return nil, err
		}
	}
	if p.Budgets, err = s.pipelineBudgets(ctx, p.Pipeline); err != nil {
		return nil, err
	}
	return ui.PipelineView(p), nil
}

// pipelineBudgets returns the budgets with a limit that a pipeline is charged to.
func (s *Server) pipelineBudgets(ctx context.Context, p store.Pipeline) ([]ui.BudgetRow, error) {
	pipelines := &control.Pipelines{Store: s.Store}
	if s.Runs != nil {
		pipelines = s.Runs.Pipelines()
	}
	scopes, err := pipelines.Scopes(ctx, p)
	if err != nil {
		return nil, err
	}
	rows, err := s.budgetRows(ctx, scopes)
	for i, scope := range scopes {
		if err == nil && scope.Kind == store.ScopeRun && !p.ForRun {
			rows[i].Name = "This pipeline and its recoveries"
		}
	}
	return rows, err
}

// relatedPipelines reads the run that a pipeline plans, the pipeline that it recovers, the pipeline
// that recovers it, and its handoff.
func (s *Server) relatedPipelines(ctx context.Context, p *ui.PipelinePage) error {
	q := p.Pipeline
	if q.ForRun {
		run, err := s.Store.Run(ctx, q.RunID)
		if err != nil {
			return err
		}
		p.Run = &run
	}
	for _, related := range []struct {
		id   int64
		into **store.Pipeline
	}{{q.PriorID, &p.Prior}, {q.RecoveredBy, &p.Next}} {
		if related.id == 0 {
			continue
		}
		other, err := s.Store.Pipeline(ctx, related.id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		*related.into = &other
	}
	file, err := s.handoffOf(ctx, q)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	p.Handoff = &file
	return err
}

// pipelineWork reads the results of a pipeline's members: entries, messages, votes, errors and
// reports.
func (s *Server) pipelineWork(ctx context.Context, p *ui.PipelinePage) (err error) {
	id := p.Pipeline.ID
	if p.Entries, err = s.Store.PipelineEntries(ctx, id, true, false); err != nil {
		return err
	}
	if p.Messages, err = s.Store.PipelineLastMessages(ctx, id, contract.MessageTail, false); err != nil {
		return err
	}
	if p.Votes, err = s.Store.PipelineVotes(ctx, id, false); err != nil {
		return err
	}
	if p.Errors, err = s.Store.PipelineErrors(ctx, id); err != nil {
		return err
	}
	p.Refused = len(p.Errors)
	p.Errors = p.Errors[max(0, p.Refused-shownRefused):]
	for _, kind := range contract.ReportKinds() {
		report, err := s.Store.PipelineReport(ctx, id, kind, false)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		p.Reports = append(p.Reports, report)
	}
	return nil
}

// handoffOf returns the file that a pipeline left for its recovery.
func (s *Server) handoffOf(ctx context.Context, p store.Pipeline) (contract.Artifact, error) {
	if p.HandoffRef == "" {
		return contract.Artifact{}, store.ErrNotFound
	}
	return s.Views.ArtifactNamed(ctx, p.RunID, p.HandoffRef)
}

// handoff sends the handoff of a pipeline as a download.
func (s *Server) handoff(w http.ResponseWriter, r *http.Request) error {
	id, err := param.ID(r)
	if err != nil {
		return err
	}
	p, err := s.Store.Pipeline(r.Context(), id)
	if err != nil {
		return err
	}
	file, err := s.handoffOf(r.Context(), p)
	if err != nil {
		return err
	}
	return s.Download(w, r, s.Artifacts, file)
}

// pipelineText shows one long text of a pipeline.
func (s *Server) pipelineText(r *http.Request, shell ui.Shell) (templ.Component, error) {
	id, err := param.ID(r)
	if err != nil {
		return nil, err
	}
	ref := r.PathValue("ref")
	texts, err := s.Store.PipelineTexts(r.Context(), id, []string{ref})
	if err != nil {
		return nil, err
	}
	text, there := texts[ref]
	if !there {
		return nil, store.ErrNotFound
	}
	shell.Section, shell.Title = "pipelines", fmt.Sprintf("Text from #%d", id)
	p := ui.PipelineText{Shell: shell, Pipeline: id}
	if p.Text, err = textWindow(r, strings.NewReader(text)); err != nil {
		return nil, err
	}
	p.Text.Href = ui.PipelineHref(id) + "/texts/" + url.PathEscape(ref)
	return ui.PipelineTextPage(p), nil
}

// planning returns the pipelines that plan or planned a run, the newest first.
func (s *Server) planning(ctx context.Context, run int64) ([]store.Pipeline, error) {
	return s.Store.ListPipelines(ctx, store.PipelineFilter{RunID: run, Limit: shownPlanning})
}
