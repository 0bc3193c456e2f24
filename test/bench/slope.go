package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/devstack"
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

// slopeMark has the cost after some runs, and that of the tenth run in a new database at the same
// time: the speed of a virtual machine varies more than the cost does.
type slopeMark struct {
	Before int       `json:"runs_before"`
	Old    slopeCost `json:"old"`
	New    slopeCost `json:"new"`
}

type slopeCost struct {
	WallMS    int64   `json:"wall_ms_median"`
	CPU       float64 `json:"cpu_seconds_per_run"`
	Processes []usage `json:"processes"` // of all measured runs
}

// of returns the CPU milliseconds of a run in the processes of a role, with or without their children.
func (c slopeCost) of(role devstack.Role, children bool) string {
	for _, p := range c.Processes {
		if p.Role == string(role) {
			seconds := p.CPU
			if children {
				seconds = p.Children
			}
			return fmt.Sprintf("%.0f", 1000*seconds/slopeRuns)
		}
	}
	return "-"
}

// measureSlope measures runs with a model that responds immediately, from the tenth to the last of many in one
// database.
func measureSlope(ctx context.Context, h *benchStack, o options, say func(string, ...any)) (*slopeResult, error) {
	r := &slopeResult{}
	done := 0
	for i := range slopeMarks + 1 {
		until := slopeFirst + (o.slope-slopeRuns-slopeFirst)*i/slopeMarks
		say("%d runs", max(0, until-done))
		if err := h.many(ctx, until-done); err != nil {
			return nil, err
		}
		done = max(done, until)
		say("%d runs one at a time, after %d", slopeRuns, done)
		m := slopeMark{Before: done}
		var err error
		if m.Old, err = h.slopeCost(ctx); err != nil {
			return nil, err
		}
		if m.New, err = newCost(ctx, o, say); err != nil {
			return nil, err
		}
		r.Marks = append(r.Marks, m)
		done += slopeRuns
	}
	return r, nil
}

func (h *benchStack) slopeCost(ctx context.Context) (slopeCost, error) {
	p, err := h.product(ctx, 0, slopeRuns, false)
	if err != nil {
		return slopeCost{}, err
	}
	return slopeCost{WallMS: p.WallMS, CPU: p.Load.Total / slopeRuns, Processes: p.Load.Processes}, nil
}

// newCost measures the cost from the tenth run on in a new database.
func newCost(ctx context.Context, o options, say func(string, ...any)) (cost slopeCost, err error) {
	o.keep, o.sections = false, []string{sectionSlope}
	h, err := startStack(ctx, o, say)
	if h != nil {
		defer func() { err = errors.Join(err, h.close(ctx)) }()
	}
	if err != nil {
		return cost, err
	}
	if err := h.many(ctx, slopeFirst); err != nil {
		return cost, err
	}
	return h.slopeCost(ctx)
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
	t := newTable(out, fmt.Sprintf("The cost of a run, %d of them one at a time, after many others in the same database and after %d in a new one (aim: within %.0f %% of that)", slopeRuns, slopeFirst, 100*aimSlope),
		"RUNS BEFORE", "WALL MEDIAN", "IN A NEW ONE", "RATIO", "CPU OF A RUN", "IN A NEW ONE", "RATIO")
	for _, m := range r.Marks {
		t.row(fmt.Sprint(m.Before), ms(m.Old.WallMS), ms(m.New.WallMS), ratio(float64(m.Old.WallMS)/float64(m.New.WallMS)),
			fmt.Sprintf("%.0f ms", 1000*m.Old.CPU), fmt.Sprintf("%.0f ms", 1000*m.New.CPU), ratio(m.Old.CPU/m.New.CPU))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t = newTable(out, "CPU milliseconds of such a run: in the same database / in a new one", "RUNS BEFORE", "WORKER", "CHILDREN", "TEMPORAL", "POSTGRES", "SERVER")
	for _, m := range r.Marks {
		row := []string{fmt.Sprint(m.Before)}
		for _, part := range []struct {
			role     devstack.Role
			children bool
		}{{devstack.RoleWorker, false}, {devstack.RoleWorker, true}, {devstack.RoleTemporal, false}, {devstack.RolePostgres, false}, {devstack.RoleServer, false}} {
			row = append(row, m.Old.of(part.role, part.children)+" / "+m.New.of(part.role, part.children))
		}
		t.row(row...)
	}
	return t.Flush()
}
