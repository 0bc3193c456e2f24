package verdict

import (
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// Baseline is the outcome of the checks on a base commit.
type Baseline struct {
	Commands map[string]string // by check
	Checks   []Recorded
}

// Results returns the results of all checks.
func (b Baseline) Results() []contract.CheckResult {
	results := make([]contract.CheckResult, len(b.Checks))
	for i, c := range b.Checks {
		results[i] = c.Result
	}
	return results
}

// Compare compares the outcome of a check with its outcome on the base commit: problems that
// existed before are known, and do not count against the change. pins are the findings about pinned
// tests; mode grades missing tests. An outcome that cannot be compared is returned as it is.
func (b Baseline) Compare(now Recorded, pins []contract.Finding, mode PinnedTests) Recorded {
	base, ok := b.of(now.Result.Check.Original())
	instead := b.replaced(now.Result.Check)
	if !ok && len(instead) == 0 {
		return now
	}
	if now.Result.Code == contract.CodeTimeout || now.Result.Code == contract.CodeCommandCrashed {
		return now // its final outcome is unknown, so none of its problems count as known
	}
	if ok && !now.Result.Skipped && now.Result.Code == contract.CodeMissing && base.Result.Code != contract.CodeMissing {
		// The base commit has everything that the check needs: the change removed the missing part,
		// or failed to declare it. Its author can fix that.
		now.Result.Code = contract.CodeCheckFailed
	}
	var compared Compared
	if ok {
		compared = Compare(base, now, pins, mode)
	} else {
		compared = Replaced(instead, now, pins, mode)
	}
	return Recorded{Result: compared.Result, Findings: compared.Findings, Cases: now.Cases}
}

// Check returns the outcome of a check, and whether there is one.
func (b Baseline) Check(id string) (Recorded, bool) {
	for _, c := range b.Checks {
		if c.Result.Check.ID == id {
			return c, true
		}
	}
	return Recorded{}, false
}

// Whole returns the outcome of a check on the base commit with the tests of all of its shards, nil if
// there is none. Which shard a test is in depends on the files.
func (b *Baseline) Whole(check contract.Check) *Recorded {
	if b == nil {
		return nil
	}
	check = check.Original()
	if check.Shards <= 1 {
		if base, ok := b.Check(check.ID); ok {
			return &base
		}
		return nil
	}
	var whole *Recorded
	for _, other := range b.Checks {
		if c := other.Result.Check; c.Kind() != check.Kind() || c.Shards != check.Shards {
			continue
		}
		if whole == nil {
			whole = &Recorded{Result: other.Result, Cases: slices.Clone(other.Cases)}
			continue
		}
		whole.Cases = append(whole.Cases, other.Cases...)
		whole.Result.Summary = whole.Result.Summary.Add(other.Result.Summary)
	}
	return whole
}

// replaced returns the outcomes of the checks that a check replaces.
func (b Baseline) replaced(check contract.Check) []Recorded {
	var all []Recorded
	for _, id := range check.Instead {
		if done, ok := b.Check(id); ok {
			all = append(all, done)
		}
	}
	return all
}

// of returns the outcome of a check. The tests in a shard depend on the files, so only the combined
// failures of all shards are known.
func (b Baseline) of(check contract.Check) (Recorded, bool) {
	base, ok := b.Check(check.ID)
	if !ok || check.Shards <= 1 {
		return base, ok
	}
	base.Cases, base.Findings, base.Result.Summary, base.Result.Coverage = nil, nil, contract.TestSummary{}, nil
	for _, other := range b.Checks {
		if c := other.Result.Check; c.Category != check.Category || c.Shards != check.Shards {
			continue
		}
		base.Findings = append(base.Findings, other.Findings...)
		for _, t := range other.Cases {
			if t.Status == contract.TestFailed || t.Status == contract.TestFlaky {
				base.Cases = append(base.Cases, t)
			}
		}
	}
	return base, true
}
