// Package base is the guard of the branch into which a pull request is to be merged: if it is another one than
// that from which the run began, commits of others may be merged with the run's own.
//
//	Rule       Severity   Meaning                                         What to do
//	unjudged   major      the pull request also merges commits that the   let a person look at them, or begin the
//	                      run did not make, and that nothing has judged   run from the branch that it is merged into
package base

import (
	"context"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Name is the name of the guard.
const Name = "base"

// RuleUnjudged is the rule of its findings.
const RuleUnjudged = "unjudged"

// shown is the number of commits that a finding names.
const shown = 5

// Guard finds commits that a pull request merges besides those of the run.
var Guard change.Guard = guard{}

type guard struct{}

func (guard) Name() string { return Name }

// Judge implements change.Guard.
func (guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	if c.Carried == nil || c.Carried.Total == 0 {
		return nil, ctx.Err()
	}
	var names []string
	for _, one := range c.Carried.Commits[:min(len(c.Carried.Commits), shown)] {
		names = append(names, fmt.Sprintf("%.12s %s", one.ID, change.Clean(one.Subject)))
	}
	if more := c.Carried.Total - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	into := change.Clean(c.Carried.Into)
	return []change.Finding{{Guard: Name, Rule: RuleUnjudged, Severity: contract.SeverityMajor, Message: fmt.Sprintf(
		"the pull request would also merge %d commits that %s does not have and that this run did not make: %s; let a person look at them, or create the run from %s (--base)",
		c.Carried.Total, into, strings.Join(names, "; "), into)}}, ctx.Err()
}
