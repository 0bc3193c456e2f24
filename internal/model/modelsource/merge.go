package modelsource

import (
	"cmp"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// Current returns the entries of models that are still offered on a day.
func Current(c model.Catalogue, day string) model.Catalogue {
	return slices.DeleteFunc(slices.Clone(c), func(e model.CatalogueEntry) bool { return e.Deprecated != "" && e.Deprecated < day })
}

// Complete adds to entries what another source knows besides: days, limits and scores. Prices and
// capabilities stay, because those of one source belong together.
func Complete(c, with model.Catalogue) model.Catalogue {
	out := slices.Clone(c)
	for i := range out {
		e := &out[i]
		if w, ok := find(with, e.Provider, e.Model); ok {
			e.Released, e.Deprecated = cmp.Or(e.Released, w.Released), cmp.Or(e.Deprecated, w.Deprecated)
			e.ContextWindow, e.MaxOutput = max(e.ContextWindow, w.ContextWindow), cmp.Or(e.MaxOutput, w.MaxOutput)
			if len(e.Scores) == 0 {
				e.Scores = w.Scores
			}
			e.API = cmp.Or(e.API, w.API)
		}
	}
	return out
}

func find(c model.Catalogue, provider, name string) (model.CatalogueEntry, bool) {
	for _, e := range slices.Backward(c) {
		if e.Provider == provider && e.Model == name {
			return e, true
		}
	}
	return model.CatalogueEntry{}, false
}
