// Package choice decides which of several attempts at the same goal is the best, as far as their checks
// and sizes show it. It is a pure function, so recorded attempts can be judged again.
package choice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// EqualLines is the number of lines by which a change may always be larger than the smallest one and
// still count as equally large: for small changes, a share of their lines says nothing.
const EqualLines = 5

// Candidate is an attempt that has passed its verification. Only such attempts can be chosen.
type Candidate struct {
	Number int
	RunID  int64
	Tree   string // git tree that it ends with
	Major  int    // findings
	Medium int
	Lines  int // changed ones, without those of tests
}

// Rank decides among candidates: the fewest findings, major ones first, then the smallest change. If
// several are equal in both, it names them for a judge, the one that wins without one first. margin is the
// part of the smallest change by which another may be larger and still count as equally large. The order
// of the candidates does not matter.
func Rank(all []Candidate, margin float64) contract.AttemptsRanking {
	if len(all) == 0 {
		return contract.AttemptsRanking{Rule: contract.RuleNone, Reason: "no attempt passed its verification"}
	}
	if len(all) == 1 {
		return won(all[0], contract.RuleOnly, "it is the only one that passed its verification")
	}
	all = slices.Clone(all)
	slices.SortFunc(all, Compare)
	best := all[0]
	cleanest := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return c.Major != best.Major || c.Medium != best.Medium })
	if len(cleanest) == 1 {
		return won(best, contract.RuleFindings, fmt.Sprintf("it has the fewest findings: %s; the next best, attempt %d, has %s", best.findings(), all[1].Number, all[1].findings()))
	}
	different := distinct(cleanest)
	if len(different) == 1 {
		return won(best, contract.RuleSame, numbers(cleanest)+" made the same change; the first of them counts")
	}
	most := best.Lines + max(EqualLines, int(margin*float64(best.Lines)))
	small := slices.DeleteFunc(slices.Clone(different), func(c Candidate) bool { return c.Lines > most })
	if len(small) == 1 {
		return won(best, contract.RuleSize, fmt.Sprintf("its change is the smallest: %d lines without tests; that of attempt %d has %d", best.Lines, different[1].Number, different[1].Lines))
	}
	out := won(best, contract.RuleSize, fmt.Sprintf("its change is the smallest, by little: %d lines without tests", best.Lines))
	for _, c := range small {
		out.Equal = append(out.Equal, c.RunID)
	}
	return out
}

// Compare orders candidates, the best one first, as far as their findings and sizes show it.
func Compare(a, b Candidate) int {
	return cmp.Or(cmp.Compare(a.Major, b.Major), cmp.Compare(a.Medium, b.Medium), cmp.Compare(a.Lines, b.Lines), cmp.Compare(a.Number, b.Number))
}

func won(c Candidate, rule, reason string) contract.AttemptsRanking {
	return contract.AttemptsRanking{Winner: c.RunID, Rule: rule, Reason: reason}
}

// distinct keeps the first of the candidates that end with the same tree.
func distinct(sorted []Candidate) []Candidate {
	var out []Candidate
	for _, c := range sorted {
		if !slices.ContainsFunc(out, func(o Candidate) bool { return o.Tree == c.Tree }) {
			out = append(out, c)
		}
	}
	return out
}

func (c Candidate) findings() string { return fmt.Sprintf("%d major and %d medium", c.Major, c.Medium) }

// numbers names attempts, such as "attempts 1 and 3".
func numbers(all []Candidate) string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = fmt.Sprint(c.Number)
	}
	slices.Sort(names)
	return "attempts " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
