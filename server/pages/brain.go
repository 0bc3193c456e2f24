package pages

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/server/middleware"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

const (
	// brainWait is how long the page waits for the index of a commit; it is made in the background.
	brainWait = 5 * time.Second
	// brainRefresh is after how many seconds the page is refreshed while something is indexed.
	brainRefresh = 3
	// brainFiles is the number of files that a search on the page shows, and brainMapTokens the size of
	// its map.
	brainFiles, brainMapTokens = 10, 4000
	// maxBrainText is the size of the largest query, and maxBrainField that of its other fields, in
	// bytes, as in the API.
	maxBrainText, maxBrainField = 8000, 1000
)

// brainPage shows what is indexed, and the answer to a search.
func (s *Server) brainPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	values, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title = "brain", "Brain"
	p := ui.BrainPage{Shell: shell, Ask: ui.BrainAsk{
		Repo: values.Get("repo"), Rev: values.Get("rev"), Query: values.Get("query"), Path: values.Get("path"), Lang: values.Get("lang"), Show: values.Get("show"),
	}}
	if p.Ask.Show != "" {
		if err := s.answerBrain(r, &p); err != nil {
			return nil, err
		}
	}
	if p.Stats, err = s.Runs.BrainStats(r.Context()); err != nil {
		return nil, err
	}
	running := slices.ContainsFunc(p.Stats.Indexing, func(x control.Indexing) bool { return x.State == control.IndexingRunning })
	if p.NotReady || running && p.Answer == nil && p.Map == nil {
		p.Every = brainRefresh
	}
	return ui.Brain(p), nil
}

// answerBrain searches or makes a map. What is wrong with the request is shown on the page, beside the
// form.
func (s *Server) answerBrain(r *http.Request, p *ui.BrainPage) error {
	ask := p.Ask
	switch {
	case middleware.FromOtherSite(r):
		// A search may fetch and index a repository, which another site must not start.
		p.Problem = "This address was opened from another site. To search, use the form."
		return nil
	case len(ask.Query) > maxBrainText || max(len(ask.Repo), len(ask.Rev), len(ask.Path), len(ask.Lang)) > maxBrainField:
		p.Problem = "The query is too long."
		return nil
	}
	q := control.BrainQuery{Repo: ask.Repo, Rev: ask.Rev, Wait: brainWait, Query: brain.Query{
		Text: ask.Query, Paths: ask.Path, Lang: ask.Lang, Limit: brainFiles, Tokens: brainMapTokens,
	}}
	var err error
	if ask.Show == ui.BrainMapShown {
		var m control.BrainMap
		if m, err = s.Runs.BrainMapOf(r.Context(), q); err == nil {
			p.Map = &m
		}
	} else {
		var answer brain.Answer
		if answer, err = s.Runs.BrainSearch(r.Context(), q); err == nil {
			p.Answer = &answer
		}
	}
	if errors.Is(err, brain.ErrNotReady) {
		p.NotReady = true
		return nil
	}
	if f := fault.Of(err); err != nil && (f.Class == contract.ClassHuman || f.Class == contract.ClassConfig || f.Code == contract.CodeUnavailable) {
		p.Problem = f.Message
		return nil
	}
	return err
}
