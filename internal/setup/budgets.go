package setup

import (
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// runBudget resolves the limits of a run and of its agents.
func runBudget(cfg *config.Config) contract.RunBudget {
	run := cfg.Execution.Run
	out := contract.RunBudget{Tokens: run.Tokens, MicroUSD: run.CostUSD.Int64(), Time: run.Time}
	for agent, own := range cfg.Execution.Agents {
		if out.Agents == nil {
			out.Agents = map[contract.Agent]contract.AgentBudget{}
		}
		out.Agents[contract.Agent(agent)] = contract.AgentBudget{Tokens: own.Tokens, MicroUSD: own.CostUSD.Int64()}
	}
	return out
}

// Scopes returns the budgets that a model call of an agent is charged to. The limits of the run and
// its agents are those that were frozen with it; the others are the installation's current ones.
func Scopes(cfg *config.Config, runID int64, agent contract.Agent, frozen contract.RunBudget, tenant, project string, at time.Time) []store.Scope {
	own := []store.Scope{store.AgentScope(runID, agent, frozen), store.RunScope(runID, frozen)}
	if frozen.Attempts != 0 {
		own = append(own, store.AttemptsScope(frozen))
	}
	if frozen.ChangeSet != nil {
		own = append(own, store.ChangeSetScope(*frozen.ChangeSet))
	}
	return append(own, SharedScopes(cfg.Models.Budgets, tenant, project, at)...)
}

// CurrentScopes returns the budgets of the installation's day, and those of projects and tenants that
// were charged in the day or the month of a time, with their current limits. Budgets without a limit are
// left out.
func CurrentScopes(b config.Budgets, charged []store.Budget, at time.Time) []store.Scope {
	var out []store.Scope
	if day := store.DayScope(at, b.DayTokens, b.DayCostUSD.Int64()); day.Limited() {
		out = append(out, day)
	}
	for _, c := range charged {
		name, _ := c.Name()
		for _, scope := range SharedScopes(b, name, name, at) {
			if scope.Kind == c.Kind && scope.Kind != store.ScopeDay && scope.Key == c.Key && scope.Limited() {
				out = append(out, scope)
			}
		}
	}
	return out
}

// SharedScopes returns the budgets that the runs of a tenant's project share with others.
func SharedScopes(b config.Budgets, tenant, project string, at time.Time) []store.Scope {
	return []store.Scope{
		store.PeriodScope(store.ScopeProject, project, at, store.Daily, b.ProjectDayTokens, b.ProjectDayCostUSD.Int64()),
		store.PeriodScope(store.ScopeProject, project, at, store.Monthly, b.ProjectMonthTokens, b.ProjectMonthCostUSD.Int64()),
		store.PeriodScope(store.ScopeTenant, tenant, at, store.Daily, b.TenantDayTokens, b.TenantDayCostUSD.Int64()),
		store.PeriodScope(store.ScopeTenant, tenant, at, store.Monthly, b.TenantMonthTokens, b.TenantMonthCostUSD.Int64()),
		store.DayScope(at, b.DayTokens, b.DayCostUSD.Int64()),
	}
}
