package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// defaultWarnAt is the fraction of a budget at which a warning is issued.
const defaultWarnAt = 0.8

// scopeKey identifies a budget, as in its row.
type scopeKey struct {
	Kind ScopeKind `json:"kind"`
	Key  string    `json:"key"`
}

// sortedScopes returns scopes in locking order, without duplicates.
func sortedScopes(scopes []Scope) []Scope {
	scopes = slices.Clone(scopes)
	slices.SortStableFunc(scopes, func(a, b Scope) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	return slices.CompactFunc(scopes, func(a, b Scope) bool { return a.Kind == b.Kind && a.Key == b.Key })
}

func keysOf(scopes []Scope) []scopeKey {
	keys := make([]scopeKey, len(scopes))
	for i, s := range scopes {
		keys[i] = scopeKey{s.Kind, s.Key}
	}
	return keys
}

func split(scopes []scopeKey) (kinds, keys []string) {
	kinds, keys = make([]string, len(scopes)), make([]string, len(scopes))
	for i, s := range scopes {
		kinds[i], keys[i] = string(s.Kind), s.Key
	}
	return kinds, keys
}

func addition(scopes []scopeKey, spentTokens, spentMicros, reservedTokens, reservedMicros int64) db.AddToBudgetsParams {
	kinds, keys := split(scopes)
	return db.AddToBudgetsParams{
		Kinds: kinds, Keys: keys, SpentTokens: spentTokens, SpentMicros: spentMicros,
		ReservedTokens: reservedTokens, ReservedMicros: reservedMicros,
	}
}

// lockBudgets creates the budgets that do not exist yet and locks all of them, in the
// order of their keys.
func lockBudgets(ctx context.Context, tx pgx.Tx, scopes []scopeKey) (map[scopeKey]db.Budget, error) {
	kinds, keys := split(scopes)
	q, batch := newBatch(tx)
	batch.queue(q.MakeBudgets(ctx, db.MakeBudgetsParams{Kinds: kinds, Keys: keys}))
	rows, err := q.LockBudgets(ctx, db.LockBudgetsParams{Kinds: kinds, Keys: keys})
	if err != nil {
		return nil, err
	}
	budgets := make(map[scopeKey]db.Budget, len(rows))
	for _, r := range rows {
		budgets[scopeKey{ScopeKind(r.ScopeKind), r.ScopeKey}] = r
	}
	return budgets, nil
}

// part is one side of a budget: its tokens or its money.
type part struct {
	scope                            Scope
	unit                             string
	spent, reserved, estimate, limit int64

	carried bool // the run's row exists only for a pipeline: users do not see it as a run
}

// parts returns the sides of the reservation's budgets that have a limit.
func parts(r Reservation, budgets map[scopeKey]db.Budget, carried bool) []part {
	var out []part
	for _, s := range r.Scopes {
		b := budgets[scopeKey{s.Kind, s.Key}]
		if s.LimitTokens > 0 {
			out = append(out, part{s, "tokens", b.SpentTokens, b.ReservedTokens, r.Tokens, s.LimitTokens, carried})
		}
		if s.LimitMicros > 0 {
			out = append(out, part{s, "money", b.SpentMicros, b.ReservedMicros, r.MicroUSD, s.LimitMicros, carried})
		}
	}
	return out
}

// refusal returns the reason why the budgets reject a reservation, or nil if they accept it. A
// budget that is used up takes precedence over one that is busy.
func refusal(r Reservation, budgets map[scopeKey]db.Budget, carried bool) error {
	var busy error
	for _, p := range parts(r, budgets, carried) {
		switch {
		case p.spent >= p.limit:
			return fault.New(contract.ClassConfig, contract.CodeBudgetExceeded,
				"the budget for %s is used up: %s of %s spent; raise %s and %s", p.whose(), p.amount(p.spent), p.amount(p.limit), p.setting(), p.next())
		case p.spent+p.reserved+p.estimate <= p.limit, p.reserved == 0:
		case busy == nil:
			busy = fault.Wrap(ErrBudgetBusy, contract.ClassInfra, contract.CodeUnavailable,
				"the budget for %s is reserved by model calls in progress: %s spent, %s reserved, %s requested, %s allowed; the call will be retried",
				p.whose(), p.amount(p.spent), p.amount(p.reserved), p.amount(p.estimate), p.amount(p.limit))
		}
	}
	return busy
}

// nearing returns the budgets that the reservation raises above their warning threshold; each
// budget warns once.
func nearing(r Reservation, budgets map[scopeKey]db.Budget) []Scope {
	mark := cmp.Or(r.WarnAt, defaultWarnAt)
	var out []Scope
	for _, p := range parts(r, budgets, false) {
		if budgets[scopeKey{p.scope.Kind, p.scope.Key}].Warned || slices.Contains(out, p.scope) {
			continue
		}
		if float64(p.spent+p.reserved+p.estimate) >= mark*float64(p.limit) {
			out = append(out, p.scope)
		}
	}
	return out
}

// warning names the budgets that are nearly used up.
func warning(near []Scope, r Reservation, budgets map[scopeKey]db.Budget, carried bool) string {
	mark := cmp.Or(r.WarnAt, defaultWarnAt)
	var lines []string
	for _, p := range parts(r, budgets, carried) {
		if total := p.spent + p.reserved + p.estimate; slices.Contains(near, p.scope) && float64(total) >= mark*float64(p.limit) {
			lines = append(lines, fmt.Sprintf("the budget for %s is nearly used up: %s of %s spent or reserved (%s)",
				p.whose(), p.amount(total), p.amount(p.limit), p.setting()))
		}
	}
	return strings.Join(lines, "; ")
}

func (p part) whose() string {
	switch {
	case p.scope.Kind == ScopeDay:
		return "the day " + p.scope.Key
	case p.scope.Kind == ScopeRun && p.carried:
		return "this pipeline and its recoveries"
	}
	return string(p.scope.Kind) + " " + p.scope.Key
}

// next returns the action to take after the limit has been raised.
func (p part) next() string {
	if p.carried {
		return "spawn the pipeline again"
	}
	return "resume the run"
}

func (p part) amount(n int64) string {
	if p.unit == "money" {
		return fmt.Sprintf("%.4f USD", float64(n)/1e6)
	}
	return fmt.Sprintf("%d tokens", n)
}

// setting returns the configuration key that sets the limit.
func (p part) setting() string {
	money := p.unit == "money"
	switch p.scope.Kind {
	case ScopeRun:
		if money {
			return "execution.run.cost_usd"
		}
		return "execution.run.tokens"
	case ScopeDay:
		if money {
			return "models.budgets.day_cost_usd"
		}
		return "models.budgets.day_tokens"
	default:
		return "the tenant's quota"
	}
}
