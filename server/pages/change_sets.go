package pages

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

const (
	shownSets        = 50
	shownHeld        = 20
	changeSetRefresh = 10 // seconds after which the page is refreshed
)

// changeSetsPage lists change sets.
func (s *Server) changeSetsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	before, err := param.Before(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title, shell.Live, shell.Every = "change-sets", "Change sets", "/api/stream", changeSetRefresh
	page, err := s.Runs.ChangeSets(r.Context(), before, shownSets)
	p := ui.ChangeSetsPage{Shell: shell, Sets: page.Sets}
	if page.Next > 0 {
		p.Older = fmt.Sprintf("/change-sets?before=%d", page.Next)
	}
	return ui.ChangeSets(p), err
}

// changeSetPage shows a change set with its runs.
func (s *Server) changeSetPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	id, err := param.ID(r)
	if err != nil {
		return nil, err
	}
	set, err := s.Runs.ChangeSet(r.Context(), id)
	shell.Section, shell.Live, shell.Every = "change-sets", "/api/stream", changeSetRefresh
	shell.Title = fmt.Sprintf("Change set %d %s", id, ui.Cut(set.Title, 80))
	return ui.ChangeSet(ui.ChangeSetPage{Shell: shell, Set: set}), err
}

// changeSetOf returns the change set of a run, nil if it belongs to none, and lets its page be refreshed while
// the set works: the stream of the run does not tell of the others.
func (s *Server) changeSetOf(ctx context.Context, h *ui.RunHead) (*changesets.Set, error) {
	of := h.Run.Settings.ChangeSet
	if of == nil {
		return nil, nil //nolint:nilnil // most runs belong to none
	}
	set, err := changesets.Read(ctx, s.Store, of.Set)
	if slices.ContainsFunc(set.Runs, func(m changesets.Member) bool { return !m.Ended() }) {
		h.Every = changeSetRefresh
	}
	return &set, err
}

// heldSets returns the change sets about which a person must decide.
func (s *Server) heldSets(r *http.Request, shell ui.Shell) ([]changesets.Set, error) {
	if shell.Held == 0 {
		return nil, nil
	}
	return changesets.Waiting(r.Context(), s.Store, store.DefaultTenant, shownHeld)
}
