// Package gate is the policy gate: it decides whether a change may be applied and released. Guards
// (the packages below guard) look for dangers in a change; policies (package policy) decide what
// follows from what they found.
package gate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// MaxFindings is the maximum number of findings of one guard. One more says how many are left out.
const MaxFindings = 100

// atOnce is the number of guards that run at the same time.
const atOnce = 4

// Findings runs the guards on a change and returns what they found, in order of path and line. A
// guard that panics on a change has found a reason for a person to look at it.
func Findings(ctx context.Context, guards []change.Guard, c change.Change) ([]change.Finding, error) {
	results := make([][]change.Finding, len(guards))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, g := range guards {
		group.Go(func() (err error) {
			results[i], err = examine(ctx, g, c)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(results...)
	slices.SortStableFunc(all, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Guard, b.Guard))
	})
	return all, nil
}

// examine runs one guard.
func examine(ctx context.Context, g change.Guard, c change.Change) (found []change.Finding, err error) {
	defer func() {
		if p := recover(); p != nil {
			found, err = []change.Finding{{
				Guard: g.Name(), Rule: RuleUnreadable, Severity: contract.SeverityMajor,
				Message: fmt.Sprintf("the guard %s failed on this change, so a person must review it (%T)", g.Name(), p),
			}}, nil
		}
	}()
	if found, err = g.Judge(ctx, c); err != nil {
		return nil, fmt.Errorf("examine the change (guard %s): %w", g.Name(), err)
	}
	return limited(g.Name(), found), nil
}

// RuleUnreadable is the rule of a finding of any guard that could not examine the change, or a part
// of it.
const RuleUnreadable = "unreadable"

// limited keeps the most serious findings.
func limited(guard string, found []change.Finding) []change.Finding {
	extra := len(found) - MaxFindings
	if extra <= 0 {
		return found
	}
	slices.SortStableFunc(found, func(a, b change.Finding) int {
		return cmp.Compare(slices.Index(contract.Severities(), a.Severity), slices.Index(contract.Severities(), b.Severity))
	})
	next := found[MaxFindings]
	return append(found[:MaxFindings:MaxFindings], change.Finding{
		Guard: guard, Rule: next.Rule, Severity: next.Severity,
		Message: fmt.Sprintf("%d more findings are not listed", extra),
	})
}
