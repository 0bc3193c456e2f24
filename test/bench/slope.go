package main

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

const (
	slopeRuns   = 20 // that are measured one by one, at each mark
	slopeMarks  = 4  // after the first
	slopeAtOnce = 8  // runs between two marks
	slopeFirst  = 10 // runs before the first mark
	aimSlope    = 0.15
)

// slopeResult has the cost of a run as the number of runs in the database grows.
type slopeResult struct {
	Marks []slopeMark `json:"marks"`
}

type slopeMark struct {
	Before int     `json:"runs_before"`
	WallMS int64   `json:"wall_ms_median"`
	CPU    float64 `json:"cpu_seconds_per_run"`
}

// measureSlope measures runs with a model that responds immediately, from the tenth to the last of many in one
// database.
func measureSlope(ctx context.Context, h *benchStack, runs int, say func(string, ...any)) (*slopeResult, error) {
	r := &slopeResult{}
	done := 0
	for i := range slopeMarks + 1 {
		until := slopeFirst + (runs-slopeRuns-slopeFirst)*i/slopeMarks
		say("%d runs", max(0, until-done))
		if err := h.many(ctx, until-done); err != nil {
			return nil, err
		}
		done = max(done, until)
		say("%d runs one at a time, after %d", slopeRuns, done)
		p, err := h.product(ctx, 0, slopeRuns, false)
		if err != nil {
			return nil, err
		}
		r.Marks = append(r.Marks, slopeMark{Before: done, WallMS: p.WallMS, CPU: p.Load.Total / slopeRuns})
		done += slopeRuns
	}
	return r, nil
}

// many completes runs, some at once.
func (h *benchStack) many(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(slopeAtOnce)
	for range max(0, n) {
		group.Go(func() error {
			id, err := h.create(ctx, 0)
			if err != nil {
				return err
			}
			return h.await(ctx, id)
		})
	}
	return group.Wait()
}

func (r *slopeResult) print(out io.Writer) error {
	if r == nil {
		return nil
	}
	t := newTable(out, fmt.Sprintf("The cost of a run, %d of them one at a time, after many others in the same database (aim: within %.0f %% of the first)", slopeRuns, 100*aimSlope),
		"RUNS BEFORE", "WALL MEDIAN", "RATIO", "CPU OF A RUN", "RATIO")
	first := r.Marks[0]
	for _, m := range r.Marks {
		t.row(fmt.Sprint(m.Before), ms(m.WallMS), ratio(float64(m.WallMS)/float64(first.WallMS)), fmt.Sprintf("%.0f ms", 1000*m.CPU), ratio(m.CPU/first.CPU))
	}
	return t.Flush()
}
