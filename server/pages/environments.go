package pages

import (
	"context"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the pages of environments.
const (
	shownEnvironments = 200
	shownOutputBytes  = 32 << 10
	shownOutputPieces = 500 // read to find the end of the output
)

func (s *Server) environmentsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	shell.Section, shell.Title, shell.Live = "environments", "Environments", "/api/stream"
	rows, err := s.Runs.Environments(r.Context(), "", shownEnvironments)
	return ui.Environments(ui.EnvironmentsPage{Shell: shell, Rows: rows}), err
}

// environmentTab shows the environment that a run prepares before its first phase. During the
// preparation the page is reloaded every few seconds, as output has no events.
func (s *Server) environmentTab(ctx context.Context, _ *http.Request, h *ui.RunHead) (templ.Component, error) {
	p := ui.EnvironmentPage{}
	var err error
	if p.Preparation, err = s.Views.Preparation(ctx, h.Run); err != nil {
		return nil, err
	}
	files, err := s.Store.Artifacts(ctx, h.Run.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name, "environment/") {
			p.Files = append(p.Files, f)
		}
	}
	if !h.Run.Status.Terminal() {
		h.Every = lookEvery
		if p.Output, err = s.lastOutput(ctx, h.Run.ID); err != nil {
			return nil, err
		}
	}
	p.Head = *h
	return ui.EnvironmentTab(p), nil
}

// lastOutput returns the end of the live output of a run's commands.
func (s *Server) lastOutput(ctx context.Context, id int64) (string, error) {
	pieces, err := s.Views.LastOutput(ctx, id, shownOutputPieces)
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, piece := range pieces {
		all.WriteString(piece.Text)
	}
	text := all.String()
	return strings.ToValidUTF8(text[max(0, len(text)-shownOutputBytes):], ""), nil
}
