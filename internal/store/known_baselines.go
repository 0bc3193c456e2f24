package store

import (
	"maps"
	"slices"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Limits of the baselines that a process keeps in memory. All checks of all runs on a base commit read its baseline, whose
// documents list each test, and which seldom changes.
const (
	maxKnownBaselines = 16
	// maxKnownBaselineBytes limits their documents as the database sends them; decoded, they take two to three times as
	// much.
	maxKnownBaselineBytes = 8 << 20
)

// knownBaseline is a decoded baseline. It is the one in the database as long as that has its version: each change writes a
// row in a transaction that writes it for the first time, and a row names its transaction (xmin). The time of the row is
// part of the version, because a server that is restored from a backup uses the numbers of lost transactions again, and any
// server does so after four billion. What another transaction has not committed is in neither.
type knownBaseline struct {
	Baseline
	version string
	size    int
}

// clone returns the baseline with lists of its own.
func (k knownBaseline) clone() Baseline {
	out := k.Baseline
	out.Commands, out.Checks = maps.Clone(out.Commands), slices.Clone(out.Checks)
	out.Stages = slices.Clone(out.Stages)
	for i, stage := range out.Stages {
		out.Stages[i] = slices.Clone(stage)
		for j, c := range stage {
			out.Stages[i][j].Instead = slices.Clone(c.Instead)
		}
	}
	for i, c := range out.Checks {
		out.Checks[i].Cases, out.Checks[i].Findings = slices.Clone(c.Cases), slices.Clone(c.Findings)
		result := &out.Checks[i].Result
		result.Check.Instead = slices.Clone(result.Check.Instead)
	}
	return out
}

// sizeOf returns the size of a baseline's documents.
func sizeOf(row db.Baseline, checks []db.BaselineCheck) int {
	n := len(row.Stages) + len(row.Commands)
	for _, c := range checks {
		n += len(c.Result) + len(c.Cases) + len(c.Findings)
	}
	return n
}

// knownBaselines are the baselines that a process has read, as far as they fit. They are safe for concurrent use.
type knownBaselines struct {
	mu   sync.Mutex
	all  []knownBaseline // last used last
	size int
}

// of returns a baseline that is kept, whose version must be compared.
func (k *knownBaselines) of(key string) (knownBaseline, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.all, func(b knownBaseline) bool { return b.Key == key })
	if i < 0 {
		return knownBaseline{}, false
	}
	found := k.all[i]
	k.all = append(slices.Delete(k.all, i, i+1), found)
	return found, true
}

// keep keeps a baseline, and as many of the others as fit. One that is too large is not kept.
func (k *knownBaselines) keep(b knownBaseline) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.all, func(other knownBaseline) bool { return other.Key == b.Key }); i >= 0 {
		k.remove(i)
	}
	if b.size > maxKnownBaselineBytes {
		return
	}
	for len(k.all) == maxKnownBaselines || k.size+b.size > maxKnownBaselineBytes {
		k.remove(0)
	}
	k.all, k.size = append(k.all, b), k.size+b.size
}

func (k *knownBaselines) remove(i int) {
	k.size -= k.all[i].size
	k.all = slices.Delete(k.all, i, i+1)
}
