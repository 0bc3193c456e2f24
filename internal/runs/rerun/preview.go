package rerun

import (
	"context"
	"errors"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/store"
)

// Preview lists the steps that a replay of the builder from a given step would repeat and keep.
type Preview struct {
	Step     string   // from which on
	Repeated []string // steps that are repeated, including the first, in the plan's order
	Kept     []string // whose work is kept
}

// Previews returns the preview of a replay from each step of a run's plan, in order. It is empty
// for a run without a plan.
func Previews(ctx context.Context, st *store.Store, run store.Run) ([]Preview, error) {
	plan, err := st.Plan(ctx, run.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	done, err := changes(ctx, st, run)
	if err != nil {
		return nil, err
	}
	var out []Preview
	order := plan.Order()
	requires := map[string][]string{}
	for _, id := range order {
		requires[id] = plan.Requires(id)
	}
	for _, from := range order {
		o := Preview{Step: from}
		for _, id := range order {
			if _, kept := done[id]; kept && id != from && !slices.Contains(requires[id], from) {
				o.Kept = append(o.Kept, id)
			} else {
				o.Repeated = append(o.Repeated, id)
			}
		}
		out = append(out, o)
	}
	return out, nil
}
