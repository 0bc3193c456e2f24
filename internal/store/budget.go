package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/budget"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
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

// errFastPathDeclined means that the rows of a call and its budgets must be locked and read to decide what to do.
var errFastPathDeclined = errors.New("the call must be reserved or completed with locks")

// sqlFastPathDeclined is the SQLSTATE of rgpt_begin_call and rgpt_complete_call for that.
const sqlFastPathDeclined = "RG001"

// asDeclined makes errFastPathDeclined of the error of one of these functions.
func asDeclined(err error) error {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == sqlFastPathDeclined {
		return errFastPathDeclined
	}
	return err
}

// lockBudgets creates the budgets that do not exist yet and locks all of them, in the
// order of their keys.
func lockBudgets(ctx context.Context, tx sender, scopes []scopeKey) (map[scopeKey]db.Budget, error) {
	kinds, keys := split(scopes)
	q, batch := newBatch(tx)
	batch.queue(q.MakeBudgets(ctx, db.MakeBudgetsParams{Kinds: kinds, Keys: keys}))
	rows, err := q.LockBudgets(ctx, db.LockBudgetsParams{Kinds: kinds, Keys: keys})
	return budgetsByKey(rows), err
}

func budgetsByKey(rows []db.Budget) map[scopeKey]db.Budget {
	budgets := make(map[scopeKey]db.Budget, len(rows))
	for _, r := range rows {
		budgets[scopeKey{ScopeKind(r.ScopeKind), r.ScopeKey}] = r
	}
	return budgets
}

// part is one side of a budget: its tokens or its money.
type part struct {
	scope                  Scope
	unit                   string
	spent, reserved, limit int64
	lost                   int64 // the part of reserved that earlier attempts of the same call hold
	estimated              bool  // some of spent is of models without a known price

	carried bool // the run's row exists only for a pipeline: users do not see it as a run
	runless bool // no run makes the call
}

// parts returns the sides of the reservation's budgets that have a limit.
func parts(r Reservation, budgets map[scopeKey]db.Budget, earlier []hold, carried bool) []part {
	var out []part
	for _, s := range r.Scopes {
		key := scopeKey{s.Kind, s.Key}
		b := budgets[key]
		var lost hold
		for _, h := range earlier {
			if slices.Contains(h.Scopes, key) {
				lost.Tokens, lost.Micros = lost.Tokens+h.Tokens, lost.Micros+h.Micros
			}
		}
		runless := r.Execution.RunID == 0
		if s.LimitTokens > 0 {
			out = append(out, part{s, "tokens", b.SpentTokens, b.ReservedTokens, s.LimitTokens, lost.Tokens, false, carried, runless})
		}
		if s.LimitMicros > 0 {
			out = append(out, part{s, "money", b.SpentMicros, b.ReservedMicros, s.LimitMicros, lost.Micros, b.PriceEstimated, carried, runless})
		}
	}
	return out
}

// needs returns the most that a call with an output limit takes from this part.
func (p part) needs(r Reservation, output int64) int64 {
	if p.unit == "money" {
		return r.micros(output)
	}
	return r.Prompt + output
}

// grant is what the budgets allow a call.
type grant struct {
	output  int64
	limited string // why it is less than requested
	near    []near
}

// near is a budget that is nearly used up.
type near struct {
	Warning
	scope Scope
}

// grantOf decides what the budgets allow a call, or why they reject it. A budget that is used up
// takes precedence over one that is busy.
func grantOf(r Reservation, budgets map[scopeKey]db.Budget, earlier []hold, carried bool) (grant, error) {
	g := grant{output: r.Output}
	least := min(r.MinOutput, r.Output)
	var busy error
	for _, p := range parts(r, budgets, earlier, carried) {
		needed := p.needs(r, least)
		switch free := p.limit - p.spent - p.reserved; {
		case p.spent >= p.limit:
			return g, fault.New(contract.ClassConfig, contract.CodeBudgetExceeded,
				"the budget for %s is used up: %s of %s spent; raise %s and %s", p.whose(), p.used(), p.amount(p.limit), p.setting(), p.next())
		case needed > p.limit-p.spent-p.lost:
			return g, fault.New(contract.ClassConfig, contract.CodeBudgetExceeded,
				"the budget for %s does not cover the next model call: %s of %s spent%s, and the call can use up to %s; raise %s and %s",
				p.whose(), p.used(), p.amount(p.limit), p.lostNote(), p.amount(needed), p.setting(), p.next())
		case needed > free:
			if busy == nil {
				busy = fault.Wrap(ErrBudgetBusy, contract.ClassInfra, contract.CodeUnavailable,
					"the budget for %s is reserved by model calls in progress: %s spent, %s reserved, %s requested, %s allowed; the call will be retried",
					p.whose(), p.used(), p.amount(p.reserved), p.amount(needed), p.amount(p.limit))
			}
		default:
			if most := budget.Affordable(free, g.output, func(n int64) int64 { return p.needs(r, n) }); most < g.output {
				g.output = most
				g.limited = fmt.Sprintf("the budget for %s (%s of %s spent, %s reserved; %s)", p.whose(), p.used(), p.amount(p.limit), p.amount(p.reserved), p.setting())
			}
			g.near = p.warn(g.near, r, budgets)
		}
	}
	return g, busy
}

// warn adds the budget to those that are nearly used up if its spending has reached the warning
// threshold. Each budget warns once.
func (p part) warn(all []near, r Reservation, budgets map[scopeKey]db.Budget) []near {
	if float64(p.spent) < cmp.Or(r.WarnAt, defaultWarnAt)*float64(p.limit) || budgets[scopeKey{p.scope.Kind, p.scope.Key}].Warned {
		return all
	}
	text := fmt.Sprintf("the budget for %s is nearly used up: %s of %s spent (%s)", p.whose(), p.used(), p.amount(p.limit), p.setting())
	if i := slices.IndexFunc(all, func(n near) bool { return n.scope == p.scope }); i >= 0 {
		all[i].Text += "; " + text
		return all
	}
	return append(all, near{Warning{p.scope.Kind, text}, p.scope})
}

// lostNote mentions what earlier attempts of the same call may still cost.
func (p part) lostNote() string {
	if p.lost == 0 {
		return ""
	}
	return fmt.Sprintf(", %s reserved for an attempt of this call whose worker was lost", p.amount(p.lost))
}

func (p part) whose() string {
	if p.scope.Kind == ScopeRun && p.carried {
		return "this pipeline and its recoveries"
	}
	return p.scope.Whose()
}

// Whose describes what the budget is for.
func (s Scope) Whose() string {
	switch s.Kind {
	case ScopeDay:
		return "the day " + s.Key
	case ScopeAgent:
		run, agent, _ := strings.Cut(s.Key, "/")
		return "the agent " + agent + " in run " + run
	case ScopeProject, ScopeTenant:
		if i := strings.LastIndexByte(s.Key, ' '); i >= 0 {
			return fmt.Sprintf("the %s %s in %s", s.Kind, s.Key[:i], s.Key[i+1:])
		}
	case ScopeAttempts:
		return "all attempts of group " + s.Key
	case ScopeChangeSet:
		return "all runs of change set " + s.Key
	case ScopeRun:
	}
	return string(s.Kind) + " " + s.Key
}

// next returns the action to take after the limit has been raised.
func (p part) next() string {
	switch {
	case p.runless:
		return "try again"
	case p.carried:
		return "spawn the pipeline again"
	}
	return "resume the run"
}

// used is the amount spent.
func (p part) used() string { return contract.MarkEstimated(p.amount(p.spent), p.estimated) }

func (p part) amount(n int64) string {
	if p.unit == "money" {
		return fmt.Sprintf("%.4f USD", float64(n)/1e6)
	}
	return fmt.Sprintf("%d tokens", n)
}

// setting returns the configuration key that sets the limit.
func (p part) setting() string {
	section := p.scope.Setting()
	if p.unit == "money" {
		return section + "cost_usd"
	}
	return section + "tokens"
}

// Limited reports whether the budget has a limit.
func (s Scope) Limited() bool { return s.LimitTokens > 0 || s.LimitMicros > 0 }

// Name returns whose budget it is, and its period, if it is one of a project or a tenant.
func (b Budget) Name() (name, period string) {
	if i := strings.LastIndexByte(b.Key, ' '); i >= 0 && (b.Kind == ScopeProject || b.Kind == ScopeTenant) {
		return b.Key[:i], b.Key[i+1:]
	}
	return b.Key, ""
}

// Setting returns the beginning of the names of the settings that limit the budget, which end with
// tokens and cost_usd.
func (s Scope) Setting() string {
	switch s.Kind {
	case ScopeAgent:
		_, agent, _ := strings.Cut(s.Key, "/")
		return "execution.agents." + agent + "."
	case ScopeRun, ScopeAttempts, ScopeChangeSet:
		return "execution.run."
	case ScopeProject, ScopeTenant:
		period := "day"
		if i := strings.LastIndexByte(s.Key, ' '); len(s.Key)-i-1 == len(Monthly) {
			period = "month"
		}
		return fmt.Sprintf("models.budgets.%s_%s_", s.Kind, period)
	case ScopeDay:
	}
	return "models.budgets.day_"
}

// HoldBudgets reserves tokens and money for a call that no run makes, in all its budgets or in none. It
// admits the call as ReserveCall does; of the reservation, it uses what the call costs and the scopes,
// which must not be those of a run. SettleHold ends the returned hold; Reserved.ID.Call is its id.
//
// If the process dies before that, the budgets hold the reservation until GiveUpHolds counts it as used.
func (s *Store) HoldBudgets(ctx context.Context, r Reservation) (Reserved, error) {
	r.Execution, r.Scopes = contract.ExecutionRef{}, sortedScopes(r.Scopes)
	var out Reserved
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		scopes := keysOf(r.Scopes)
		budgets, err := lockBudgets(ctx, tx, scopes)
		if err != nil {
			return err
		}
		g, err := grantOf(r, budgets, nil, false)
		if err != nil {
			return err
		}
		out = Reserved{
			Output: g.output, Tokens: r.Prompt + g.output, MicroUSD: r.micros(g.output),
			Limited: g.limited, Warnings: rowconv.Convert(g.near, func(n near) Warning { return n.Warning }),
		}
		encoded, err := rowconv.Encode(scopes)
		if err != nil {
			return err
		}
		q := db.New(tx)
		if len(g.near) > 0 {
			kinds, keys := split(rowconv.Convert(g.near, func(n near) scopeKey { return scopeKey{n.scope.Kind, n.scope.Key} }))
			if err := q.MarkWarned(ctx, db.MarkWarnedParams{Kinds: kinds, Keys: keys}); err != nil {
				return err
			}
		}
		if err := q.AddToBudgets(ctx, addition(scopes, 0, 0, out.Tokens, out.MicroUSD)); err != nil {
			return err
		}
		out.ID.Call, err = q.HoldBudgets(ctx, db.HoldBudgetsParams{Scopes: encoded, Tokens: out.Tokens, Micros: out.MicroUSD})
		return err
	})
	if err != nil {
		return Reserved{}, dberr.Explain(err, "reserve a model call outside runs")
	}
	return out, nil
}

// SettleHold replaces a hold by what the call has used. A repeat changes nothing, nor does it settle a
// hold that GiveUpHolds has counted as used in full.
func (s *Store) SettleHold(ctx context.Context, id int64, usage contract.Usage) error {
	return dberr.Explain(s.endHold(ctx, id, func(db.OrchestratorBudgetHold) contract.Usage { return usage }), "settle a model call outside runs")
}

// GiveUpHolds counts at most limit holds that are older than a time as used in full, and returns their
// number: their processes died.
func (s *Store) GiveUpHolds(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	ids, err := s.q.HoldsBefore(ctx, db.HoldsBeforeParams{OlderThanSeconds: olderThan.Seconds(), Most: int32(limit)})
	for _, id := range ids {
		if err == nil {
			err = s.endHold(ctx, id, func(h db.OrchestratorBudgetHold) contract.Usage {
				return contract.Usage{PromptTokens: h.Tokens, MicroUSD: h.Micros}
			})
		}
	}
	return len(ids), dberr.Explain(err, "give up abandoned model calls outside runs")
}

// endHold removes a hold, if it is still there, and books what its call has used.
func (s *Store) endHold(ctx context.Context, id int64, used func(db.OrchestratorBudgetHold) contract.Usage) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		h, err := q.EndHold(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		scopes, err := rowconv.Decode[[]scopeKey](h.Scopes)
		if err != nil {
			return err
		}
		usage := used(h)
		change := addition(scopes, usage.Tokens(), usage.MicroUSD, -h.Tokens, -h.Micros)
		change.PriceEstimated = usage.EstimatedPrice
		return q.AddToBudgets(ctx, change)
	})
}

// CurrentBudgets returns the budgets of the installation's day, and those of projects and tenants in the
// day and the month of a time that were charged, at most the given number.
func (s *Store) CurrentBudgets(ctx context.Context, at time.Time, most int) ([]Budget, error) {
	rows, err := s.q.BudgetsOfPeriods(ctx, db.BudgetsOfPeriodsParams{Periods: []string{at.UTC().Format(Daily), at.UTC().Format(Monthly)}, Most: int32(most)})
	return rowconv.Convert(rows, budgetOf), dberr.Explain(err, "read the current budgets")
}

// OwnerOf returns the tenant and the project of a run, or of a row that only carries a pipeline.
func (s *Store) OwnerOf(ctx context.Context, runID int64) (tenant, project string, err error) {
	row, err := s.q.OwnerOfRun(ctx, runID)
	return row.Tenant, row.Project, dberr.OfRun(err, runID, "read the tenant and project of run %d", runID)
}

func budgetOf(row db.Budget) Budget {
	return Budget{
		Kind: ScopeKind(row.ScopeKind), Key: row.ScopeKey, SpentTokens: row.SpentTokens, SpentMicros: row.SpentMicros,
		ReservedTokens: row.ReservedTokens, ReservedMicros: row.ReservedMicros, Estimated: row.PriceEstimated, Warned: row.Warned,
	}
}

// LeftOf returns the least money that budgets have left, with what is reserved taken off, in millionths
// of a US dollar; negative if none of them limits it.
func (s *Store) LeftOf(ctx context.Context, scopes []Scope) (int64, error) {
	least := int64(-1)
	for _, scope := range scopes {
		if scope.LimitMicros <= 0 {
			continue
		}
		b, err := s.Budget(ctx, scope.Kind, scope.Key)
		if err != nil {
			return 0, err
		}
		left := max(0, scope.LimitMicros-b.SpentMicros-b.ReservedMicros)
		if least < 0 || left < least {
			least = left
		}
	}
	return least, nil
}
