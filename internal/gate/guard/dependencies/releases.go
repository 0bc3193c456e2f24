package dependencies

import (
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// maxUnknown is the number of findings about unknown ages with the same reason in one file. The others
// become one finding.
const maxUnknown = 5

// releases adds what is wrong with what registries said about the dependencies of a change. contents are
// those of the changed manifests.
func (r *report) releases(c change.Change, contents map[string]string) {
	type cause struct{ path, reason string }
	unknown := map[cause]int{}
	for _, d := range c.Dependencies {
		if d.Status == change.StatusUnknown {
			unknown[cause{d.Path, d.Reason}]++
		}
	}
	for _, d := range c.Dependencies {
		r.path, r.content = d.Path, contents[d.Path]
		why := cause{d.Path, d.Reason}
		switch n := unknown[why]; {
		case d.Status != change.StatusUnknown || n > 0 && n <= maxUnknown:
			r.released(d, c.Asked, c.Limits.MinAge)
		case n > maxUnknown:
			r.add(RuleAgeUnknown, contract.SeverityMedium, "", "it is not known when %d dependencies, such as %s of %s, were published (%s): check them", n, d.Name, d.Ecosystem, d.Reason)
			unknown[why] = 0
		}
	}
}

// released adds what is wrong with what a registry said at a time about a dependency. Messages name
// points in time instead of ages, so that the same finding keeps its text.
func (r *report) released(d change.Dependency, asked time.Time, minAge time.Duration) {
	e := Ecosystem(d.Ecosystem)
	missing := contract.SeverityMajor
	if e == Maven {
		missing = contract.SeverityMedium // many public packages are in other repositories
	}
	what := d.Name
	if d.Version != "" {
		what += " " + d.Version
	}
	switch d.Status {
	case change.StatusNotFound:
		r.add(RuleNotFound, missing, d.Name, "the registry of %s has no package %s, so anybody could register this name: correct it, "+
			"or, if the package is private, add it to gate.dependencies.private", d.Ecosystem, d.Name)
	case change.StatusNoVersion:
		r.add(RuleNoVersion, missing, d.Name, "the registry of %s has the package %s, but not the version %s: use one that exists", d.Ecosystem, d.Name, d.Version)
	case change.StatusUnknown:
		r.add(RuleAgeUnknown, contract.SeverityMedium, d.Name, "it is not known when %s of %s was published (%s): check it", what, d.Ecosystem, d.Reason)
	case change.StatusLocal:
		if d.Claimed {
			r.add(RuleLocal, contract.SeverityMedium, d.Name, "%s is taken for the package in %s, which the change adds, so its registry was not asked: "+
				"check that this package is the one that is used", what, d.Reason)
			return
		}
		r.add(RuleLocal, contract.SeverityMinor, d.Name, "%s is taken for the package in %s, so its registry was not asked", what, d.Reason)
	case change.StatusFound:
		r.age(d, what, asked, minAge)
	case change.StatusPrivate, change.StatusOff: // the operator decided so
	default:
		r.add(RuleAgeUnknown, contract.SeverityMedium, d.Name, "it is not known when %s of %s was published: check it", what, d.Ecosystem)
	}
}

// age adds that a version or its package is too young, or that this is not known.
func (r *report) age(d change.Dependency, what string, asked time.Time, minAge time.Duration) {
	young := func(at time.Time) bool { return !at.IsZero() && asked.Sub(at) < minAge }
	const format = "2006-01-02 15:04 UTC"
	least := strings.Replace(strings.Replace(minAge.String(), "m0s", "m", 1), "h0m", "h", 1) // 72h0m0s is 72h
	switch {
	case minAge <= 0:
	case young(d.First):
		r.add(RuleYoung, contract.SeverityMajor, d.Name, "the package %s of %s first appeared on %s, less than %s ago (gate.dependencies.min_age): "+
			"check that it is the intended one, or wait", d.Name, d.Ecosystem, d.First.UTC().Format(format), least)
	case young(d.Published):
		r.add(RuleYoung, contract.SeverityMajor, d.Name, "%s of %s was published on %s, less than %s ago (gate.dependencies.min_age): "+
			"use an older version, or wait", what, d.Ecosystem, d.Published.UTC().Format(format), least)
	case d.Published.IsZero() && (d.Exact || d.First.IsZero()):
		r.add(RuleAgeUnknown, contract.SeverityMedium, d.Name, "the registry of %s does not say when %s was published: check it", d.Ecosystem, what)
	}
}
