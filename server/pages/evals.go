package pages

import (
	"fmt"
	"net/http"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/server/param"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// shownEvals is the number of evaluations on a page of their list.
const shownEvals = 50

// evalRefresh is after how many seconds the page of a running evaluation is refreshed.
const evalRefresh = 10

// evalsPage lists evaluations.
func (s *Server) evalsPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	before, err := param.Before(r)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title, shell.Every = "evals", "Evaluations", evalRefresh
	list, err := s.Runs.Evals(r.Context(), before, shownEvals)
	return ui.Evals(ui.EvalsPage{Shell: shell, Evals: list, Full: len(list) == shownEvals}), err
}

// evalPage shows the results of an evaluation.
func (s *Server) evalPage(r *http.Request, shell ui.Shell) (templ.Component, error) {
	id, err := param.ID(r)
	if err != nil {
		return nil, err
	}
	q, err := param.Query(r)
	if err != nil {
		return nil, err
	}
	var compare []string
	if a, b := q.Get("a"), q.Get("b"); a != "" && b != "" {
		compare = []string{a, b}
	}
	report, err := s.Runs.EvalReport(r.Context(), id, compare)
	if err != nil {
		return nil, err
	}
	shell.Section, shell.Title = "evals", fmt.Sprintf("Evaluation %d", id)
	if report.Eval.FinishedAt == nil {
		shell.Every = evalRefresh
	}
	return ui.Eval(ui.EvalPage{Shell: shell, Report: report}), nil
}
