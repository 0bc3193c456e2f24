package model

import (
	"maps"
	"slices"
	"time"
)

// Learned is what an installation knows about models beyond the embedded catalogue and its
// configuration.
type Learned struct {
	Updates Catalogue // newer entries from a source
	Checks  []Checked
}

// Checked has the capabilities of a model that were tried at its provider.
type Checked struct {
	Provider string              `json:"provider"` // a provider's name
	Model    string              `json:"model"`
	Found    map[Capability]bool `json:"found"`
	At       time.Time           `json:"at"` // of the last check
}

// After returns a check with what an earlier one of the same model found and this one did not find
// out: a check that a rate limit interrupted does not make an earlier one forgotten.
func (c Checked) After(earlier []Checked) Checked {
	for _, e := range earlier {
		if e.Provider == c.Provider && e.Model == c.Model {
			found := map[Capability]bool{}
			maps.Copy(found, e.Found)
			maps.Copy(found, c.Found)
			c.Found = found
		}
	}
	return c
}

// Learn adds what an installation has learned. An update counts unless the catalogue has an entry of
// a later source, as after an upgrade of the program; its scores count in any case.
func (c Catalogue) Learn(l Learned) Catalogue {
	out := slices.Clone(c)
	for _, u := range l.Updates {
		newer := slices.IndexFunc(c, func(e CatalogueEntry) bool {
			return e.Provider == u.Provider && e.Model == u.Model && e.SourceDate > u.SourceDate
		})
		if newer >= 0 {
			if len(u.Scores) == 0 {
				continue
			}
			scores := u.Scores
			u = c[newer]
			u.Scores = scores
		}
		out = append(out, u)
	}
	return out
}

// Correct replaces the capabilities of models by those found at their providers, for the providers
// that are configured.
func (c Catalogue) Correct(checks []Checked, providers []Provider) Catalogue {
	out := slices.Clone(c)
	for _, check := range checks {
		i := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == check.Provider })
		if i < 0 {
			continue
		}
		e, _ := c.Find(providers[i], check.Model)
		out = append(out, e.corrected(check))
	}
	return out
}

// corrected returns the entry with the capabilities that were found.
func (e CatalogueEntry) corrected(check Checked) CatalogueEntry {
	e.Capabilities = slices.DeleteFunc(slices.Clone(e.Capabilities), func(c Capability) bool {
		found, tried := check.Found[c]
		return tried && !found
	})
	for _, c := range Capabilities() {
		if check.Found[c] && !e.Can(c) {
			e.Capabilities = append(e.Capabilities, c)
		}
	}
	e.Checked, e.Found = check.At.UTC().Format(time.DateOnly), maps.Clone(check.Found)
	return e
}
