package releases

import (
	"context"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
)

// key identifies a package.
type key struct {
	ecosystem dependencies.Ecosystem
	name      string
}

// answer is what a registry says about a package.
type answer struct {
	reason  string // why it is not known; "": it is
	missing bool   // there is no such package
	first   time.Time
	// versions are those that were asked about and exist, by their names in the question.
	versions map[string]time.Time
}

// describe gives a dependency what is known about it.
func (a answer) describe(d *change.Dependency) {
	published, exists := a.versions[d.Version]
	switch {
	case a.reason != "":
		d.Status, d.Reason = change.StatusUnknown, a.reason
	case a.missing:
		d.Status = change.StatusNotFound
	case d.Exact && d.Version != "" && !exists:
		d.Status, d.First = change.StatusNoVersion, a.first
	default: // a range may name a version that does not exist
		d.Status, d.First, d.Published = change.StatusFound, a.first, published
	}
}

// release is a version that a registry lists.
type release struct {
	version string
	at      time.Time
}

// choose returns the answer about versions of an ecosystem that are among all of a package. The time of
// a version with several files is that of the first.
func choose(ctx context.Context, e dependencies.Ecosystem, all []release, versions []string) (answer, error) {
	a := answer{versions: map[string]time.Time{}}
	exact := map[string]time.Time{}
	read := make([]dependencies.Version, len(all))
	for i, r := range all {
		if err := ctx.Err(); err != nil {
			return answer{}, err
		}
		a.first = earlier(a.first, r.at)
		if at, twice := exact[r.version]; twice {
			exact[r.version] = earlier(at, r.at)
		} else {
			exact[r.version] = r.at
		}
		read[i] = dependencies.ReadVersion(e, r.version)
	}
	for _, v := range versions {
		if err := ctx.Err(); err != nil {
			return answer{}, err
		}
		if at, ok := exact[v]; ok {
			a.versions[v] = at
			continue
		}
		asked := dependencies.ReadVersion(e, v)
		for i, r := range all {
			if read[i].Same(asked) {
				a.versions[v] = earlier(a.versions[v], r.at)
			}
		}
	}
	return a, nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// The limits of the memory of answers.
const (
	// MaxCached is the number of packages in memory.
	MaxCached = 20_000
	// keepFound is how long answers about versions that exist are kept, which never change unless the
	// version is withdrawn; keepMissing the others, which may exist later; and keepFailed is how long a
	// registry is not asked again about a package after a failure.
	keepFound, keepMissing, keepFailed = 24 * time.Hour, 10 * time.Minute, 30 * time.Second
)

// cache are the answers in memory.
type cache struct {
	sync.Mutex
	all map[key]cached
	now func() time.Time
}

type cached struct {
	answer
	asked map[string]bool // versions
	until time.Time
}

func newCache() *cache { return &cache{all: map[key]cached{}, now: time.Now} }

// get returns the answer about versions of a package.
func (c *cache) get(k key, versions []string) (answer, bool) {
	c.Lock()
	defer c.Unlock()
	known, ok := c.all[k]
	if !ok || !c.now().Before(known.until) {
		return answer{}, false
	}
	for _, v := range versions {
		if !known.asked[v] && !known.missing && known.reason == "" {
			return answer{}, false
		}
	}
	return known.answer, true
}

// put keeps the answer about versions of a package, with those about other versions.
func (c *cache) put(k key, versions []string, a answer) {
	c.Lock()
	defer c.Unlock()
	now := c.now()
	keep := keepFound
	switch {
	case a.reason != "":
		keep = keepFailed
	case a.missing || len(a.versions) < len(versions):
		keep = keepMissing
	}
	entry := cached{answer: a, asked: map[string]bool{}, until: now.Add(keep)}
	for _, v := range versions {
		entry.asked[v] = true
	}
	c.makeRoom(k, now)
	if old, ok := c.all[k]; ok && now.Before(old.until) && old.reason == "" && !old.missing && a.reason == "" && !a.missing && len(old.asked)+len(versions) <= maxVersions {
		entry = entry.with(old)
	}
	c.all[k] = entry
}

// maxVersions is the number of versions of one package in memory.
const maxVersions = 1000

// with returns the entry with the versions of an older one, until the earlier end of both.
func (n cached) with(old cached) cached {
	versions := map[string]time.Time{}
	for _, from := range []map[string]time.Time{old.versions, n.versions} {
		for v, at := range from {
			versions[v] = at
		}
	}
	n.versions = versions
	for v := range old.asked {
		n.asked[v] = true
	}
	if old.until.Before(n.until) {
		n.until = old.until
	}
	return n
}

// makeRoom removes outdated answers, or any, if there are too many.
func (c *cache) makeRoom(k key, now time.Time) {
	if _, ok := c.all[k]; ok || len(c.all) < MaxCached {
		return
	}
	for other, e := range c.all {
		if !now.Before(e.until) {
			delete(c.all, other)
		}
	}
	for other := range c.all {
		if len(c.all) < MaxCached*9/10 {
			return
		}
		delete(c.all, other)
	}
}
