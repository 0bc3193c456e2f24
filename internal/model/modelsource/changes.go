package modelsource

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// The kinds of changes.
const (
	ChangeNew        = "new"
	ChangePrice      = "price"
	ChangeDeprecated = "deprecated"
	ChangeOther      = "changed"
	ChangeRemoved    = "removed"
	ChangeScores     = "scores"
)

// Change is what a source says about a model that the catalogue does not.
type Change struct {
	Kind     string `json:"kind"` // new, price, deprecated, changed, removed or scores
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Detail   string `json:"detail"`
}

// Changes compares a catalogue with a newer source. It returns what changes, and the entries that
// are new or differ, completed with what the catalogue knows besides. What is known from a newer
// source does not change. Models that the source does not have any more are removed from nothing:
// they may still be in use, at the last known prices.
func Changes(known, source model.Catalogue, today string) ([]Change, model.Catalogue) {
	var changes []Change
	var entries model.Catalogue
	providers := map[string]bool{}
	for _, e := range source {
		providers[e.Provider] = true
		old, ok := find(known, e.Provider, e.Model)
		if !ok {
			if e.Deprecated != "" && e.Deprecated < today {
				continue // never known, and not offered any more
			}
			changes = append(changes, Change{ChangeNew, e.Provider, e.Model, prices(e)})
			entries = append(entries, e)
			continue
		}
		if old.SourceDate > e.SourceDate {
			continue // what is known is newer
		}
		e = Complete(model.Catalogue{e}, model.Catalogue{old})[0]
		if kind, detail := difference(old, e); kind != "" {
			changes = append(changes, Change{kind, e.Provider, e.Model, detail})
			entries = append(entries, e)
		}
	}
	for _, e := range known {
		if _, ok := find(source, e.Provider, e.Model); !ok && providers[e.Provider] && e.Model != "*" {
			changes = append(changes, Change{ChangeRemoved, e.Provider, e.Model, "the source does not list it; its known prices remain"})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		return compareEntries(model.CatalogueEntry{Provider: a.Provider, Model: a.Model}, model.CatalogueEntry{Provider: b.Provider, Model: b.Model})
	})
	return slices.Compact(changes), entries
}

// difference describes how an entry differs from the known one; empty if it does not.
func difference(old, e model.CatalogueEntry) (kind, detail string) {
	var parts []string
	if was, is := prices(old), prices(e); was != is {
		kind, parts = ChangePrice, append(parts, was+" → "+is)
	}
	if old.Deprecated != e.Deprecated && e.Deprecated != "" {
		kind, parts = or(kind, ChangeDeprecated), append(parts, "offered until "+e.Deprecated)
	}
	if old.ContextWindow != e.ContextWindow || old.MaxOutput != e.MaxOutput {
		kind, parts = or(kind, ChangeOther), append(parts, fmt.Sprintf("context %d → %d, output %d → %d", old.ContextWindow, e.ContextWindow, old.MaxOutput, e.MaxOutput))
	}
	if was, is := capabilities(old), capabilities(e); was != is {
		kind, parts = or(kind, ChangeOther), append(parts, fmt.Sprintf("%s → %s", was, is))
	}
	if !reflect.DeepEqual(old.Scores, e.Scores) {
		kind, parts = or(kind, ChangeOther), append(parts, "scores")
	}
	return kind, strings.Join(parts, "; ")
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// prices describes all prices of a model.
func prices(e model.CatalogueEntry) string {
	out := fmt.Sprintf("$%g in, $%g out", e.PriceIn, e.PriceOut)
	for _, p := range []struct {
		name  string
		price float64
	}{{"cached", e.PriceCached}, {"cache write", e.PriceCacheWrite}, {"reasoning", e.PriceReasoning}} {
		if p.price > 0 {
			out += fmt.Sprintf(", $%g %s", p.price, p.name)
		}
	}
	if long := e.LongContext; long != nil {
		out += fmt.Sprintf("; above %d tokens $%g in, $%g out", long.Above, long.PriceIn, long.PriceOut)
	}
	return out
}

func capabilities(e model.CatalogueEntry) string {
	var names []string
	for _, c := range model.Capabilities() {
		if e.Can(c) {
			names = append(names, string(c))
		}
	}
	return strings.Join(names, " ")
}
