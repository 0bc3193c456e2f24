package pages

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the page of a run's cost.
const (
	costParts    = 160 // in the chart of spending over time
	shownDearest = 12
)

// costTab shows the cost of a run and the budgets that it was charged to.
func (s *Server) costTab(ctx context.Context, _ *http.Request, h *ui.RunHead) (templ.Component, error) {
	run := h.Run
	p := ui.CostPage{Run: run}
	spending, err := s.Views.Spending(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	work, err := s.Views.Work(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	pauses, err := s.Views.Pauses(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	replays, err := s.Views.ReplayMarks(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	p.Reckon(spending, work, pauses, replays)
	p.From, p.To = ui.Extent(run, work, time.Now())
	micros, tokens, err := s.Views.SpentBy(ctx, run.ID, p.From, p.To, costParts)
	if err != nil {
		return nil, err
	}
	p.Over, p.Limit = micros, run.Settings.RunBudget.MicroUSD
	if p.Usage.MicroUSD == 0 {
		p.Over, p.Limit, p.InTokens = tokens, run.Settings.RunBudget.Tokens, true
	}
	if p.Budgets, err = s.budgets(ctx, run, p.To); err != nil {
		return nil, err
	}
	if p.Dearest, err = s.Views.DearestCalls(ctx, run.ID, shownDearest); err != nil {
		return nil, err
	}
	return ui.CostTab(p), nil
}

// budgets returns the budgets to which a run's calls are charged: its own, those of its agents that
// have a limit, and those that it shares with other runs in the period in which it was last active.
// Of the shared ones, those of the installation's day and those with a limit are shown.
func (s *Server) budgets(ctx context.Context, run store.Run, last time.Time) ([]ui.BudgetRow, error) {
	scopes := store.RunScopes(run.ID, run.Settings.RunBudget)
	if s.Runs == nil {
		scopes = append(scopes, store.DayScope(last, 0, 0))
	} else {
		for _, scope := range setup.SharedScopes(s.Runs.Config.Models.Budgets, run.Tenant, run.Project, last) {
			if scope.Kind == store.ScopeDay || scope.Limited() {
				scopes = append(scopes, scope)
			}
		}
	}
	return s.budgetRows(ctx, scopes)
}

// budgetRows returns the balances of budgets.
func (s *Server) budgetRows(ctx context.Context, scopes []store.Scope) ([]ui.BudgetRow, error) {
	states, err := s.Views.Budgets(ctx, scopes)
	if err != nil {
		return nil, err
	}
	rows := make([]ui.BudgetRow, len(states))
	for i, state := range states {
		rows[i] = ui.BudgetRow{Name: budgetName(scopes[i]), Setting: strings.TrimRight(scopes[i].Setting(), "._"), BudgetState: state}
	}
	return rows, nil
}

// budgetName returns the name of a budget on the page of a run.
func budgetName(scope store.Scope) string {
	if scope.Kind == store.ScopeRun {
		return "This run"
	}
	whose := scope.Whose()
	return strings.ToUpper(whose[:1]) + whose[1:]
}
