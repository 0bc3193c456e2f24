package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/runs/timing"
)

// phaseResult has the measurements of a number of runs, of the product or of the bare workflow.
type phaseResult struct {
	What    string        `json:"what"` // product or bare
	Latency time.Duration `json:"latency_ns"`
	Runs    int           `json:"runs"`
	AtOnce  bool          `json:"at_once"`

	WallMS     int64         `json:"wall_ms_median"`
	P95MS      int64         `json:"wall_ms_p95"`
	CriticalMS int64         `json:"critical_ms_median"` // from the runs' rows; for bare workflows, the ideal
	IdealMS    int64         `json:"ideal_ms"`           // only the model's latency and one shard
	Ratio      float64       `json:"ratio_median"`       // wall over critical
	Overhead   float64       `json:"ratio_to_ideal"`     // wall over ideal
	HopMS      float64       `json:"ms_for_each_hop"`    // wall time beyond critical, divided by the hops of the longest path
	PerSecond  float64       `json:"runs_per_second"`
	Events     int           `json:"history_events"` // of a run, including children
	Bytes      int           `json:"history_bytes"`
	Activities int           `json:"ordinary_activities"`
	Parts      []timing.Part `json:"parts,omitempty"` // medians
	Load       cpuLoad       `json:"load"`
}

// one has the measurements of one run.
type one struct {
	wall, critical time.Duration
	events, bytes  int
	activities     int
	parts          []timing.Part
}

// measurePhases measures the product and the bare workflow for each latency: one run at a time,
// then all in parallel.
func measurePhases(ctx context.Context, h *benchStack, o options, say func(string, ...any)) ([]phaseResult, error) {
	bare, err := startBare(h.temporal)
	if err != nil {
		return nil, err
	}
	defer bare.Stop()
	say("Warming up")
	if _, err := h.product(ctx, o.latency[0], 2, false); err != nil {
		return nil, err
	}
	measures := []func(context.Context, time.Duration, int, bool) (phaseResult, error){h.product}
	if o.bare {
		measures = append(measures, h.bare)
	}
	var all []phaseResult
	for _, l := range o.latency {
		for _, atOnce := range []bool{false, true} {
			n, how := o.runs, "one at a time"
			if atOnce {
				n, how = o.parallel, "at once"
			}
			if n == 0 {
				continue
			}
			for _, measure := range measures {
				say("%d runs %s, latency %s", n, how, l)
				result, err := measure(ctx, l, n, atOnce)
				if err != nil {
					return all, err
				}
				all = append(all, result)
			}
		}
	}
	return all, nil
}

// product measures runs of the product.
func (h *benchStack) product(ctx context.Context, latency time.Duration, n int, atOnce bool) (phaseResult, error) {
	ids := make([]int64, n)
	r, err := h.measure(ctx, n, atOnce, func(ctx context.Context, i int) (err error) {
		if ids[i], err = h.create(ctx, latency); err != nil {
			return err
		}
		return h.await(ctx, ids[i])
	})
	if err != nil {
		return r, err
	}
	all := make([]one, n)
	for i, id := range ids {
		if all[i], err = h.readRun(ctx, id); err != nil {
			return r, err
		}
	}
	r.What, r.Latency = "product", latency
	r.take(all)
	return r, nil
}

// measure calls a function n times, and measures the time and the processes' usage.
func (h *benchStack) measure(ctx context.Context, n int, atOnce bool, do func(context.Context, int) error) (phaseResult, error) {
	m := startMeter(h)
	group, ctx := errgroup.WithContext(ctx)
	if !atOnce {
		group.SetLimit(1)
	}
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	err := group.Wait()
	used := m.stop()
	return phaseResult{Runs: n, AtOnce: atOnce, Load: used, PerSecond: float64(n) / used.Seconds}, err
}

// readRun reads the measurements of a run from its rows and histories.
func (h *benchStack) readRun(ctx context.Context, id int64) (one, error) {
	run, err := h.store.Run(ctx, id)
	if err != nil {
		return one{}, err
	}
	rows, err := h.views.Timing(ctx, id)
	if err != nil {
		return one{}, err
	}
	plan, err := h.store.Plan(ctx, id)
	if err != nil {
		return one{}, err
	}
	history, err := timing.ReadHistory(ctx, h.temporal, id, plan)
	if err != nil {
		return one{}, err
	}
	t := timing.Of(run, plan, rows, history.Git, history.Queue)
	return one{
		wall: time.Duration(t.WallMS) * time.Millisecond, critical: time.Duration(t.CriticalMS) * time.Millisecond,
		events: history.Events, bytes: history.Bytes, activities: history.Activities, parts: t.Parts,
	}, nil
}

// take aggregates the measurements of each run.
func (r *phaseResult) take(all []one) {
	r.WallMS = median(all, func(o one) int64 { return o.wall.Milliseconds() })
	r.P95MS = quantile(all, 0.95, func(o one) int64 { return o.wall.Milliseconds() })
	r.CriticalMS = median(all, func(o one) int64 { return o.critical.Milliseconds() })
	r.Ratio = median(all, func(o one) float64 { return float64(o.wall) / float64(max(o.critical, 1)) })
	r.HopMS = median(all, func(o one) float64 { return float64((o.wall - o.critical).Microseconds()) / 1000 / float64(hops()) })
	r.IdealMS = ideal(r.Latency).Milliseconds()
	r.Overhead = float64(r.WallMS) / float64(r.IdealMS)
	r.Events = median(all, func(o one) int { return o.events })
	r.Bytes = median(all, func(o one) int { return o.bytes })
	r.Activities = median(all, func(o one) int { return o.activities })
	for i, p := range all[0].parts {
		p.BusyMS = median(all, func(o one) int64 { return o.parts[i].BusyMS })
		p.WallMS = median(all, func(o one) int64 { return o.parts[i].WallMS })
		r.Parts = append(r.Parts, p)
	}
}

// wallOf returns the median wall time of a part.
func (r phaseResult) wallOf(name string) int64 {
	for _, p := range r.Parts {
		if p.Name == name {
			return p.WallMS
		}
	}
	return 0
}

func median[T any, N cmp.Ordered](all []T, value func(T) N) N { return quantile(all, 0.5, value) }

// quantile returns the smallest value that the given fraction of all values does not exceed.
func quantile[T any, N cmp.Ordered](all []T, part float64, value func(T) N) N {
	values := make([]N, len(all))
	for i, v := range all {
		values[i] = value(v)
	}
	slices.Sort(values)
	return values[min(int(part*float64(len(values))), len(values)-1)]
}
