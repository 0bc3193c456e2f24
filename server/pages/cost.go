package pages

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/a-h/templ"

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

// budgets returns the budgets to which a run's calls are charged: its own and the one for the day
// on which it was last active.
func (s *Server) budgets(ctx context.Context, run store.Run, last time.Time) ([]ui.BudgetRow, error) {
	own, err := s.Store.Budget(ctx, store.ScopeRun, fmt.Sprint(run.ID))
	if err != nil {
		return nil, err
	}
	scope := store.DayScope(last, 0, 0)
	day, err := s.Store.Budget(ctx, scope.Kind, scope.Key)
	if err != nil {
		return nil, err
	}
	rows := []ui.BudgetRow{
		{Name: "This run", Setting: "execution.run", Budget: own, LimitTokens: run.Settings.RunBudget.Tokens, LimitMicros: run.Settings.RunBudget.MicroUSD},
		{Name: "The day " + scope.Key, Setting: "models.budgets", Budget: day},
	}
	if s.Runs != nil {
		limits := s.Runs.Config.Models.Budgets
		rows[1].LimitTokens, rows[1].LimitMicros = limits.DayTokens, limits.DayCostUSD.Int64()
	}
	return rows, nil
}
