package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rocketgpt/orchestrator/internal/runs/timing"
)

// table prints rows in columns under a header.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer, title string, head ...string) table {
	fmt.Fprintf(out, "\n%s\n\n", title)
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t table) row(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")) }

// print prints all measurements.
func (r results) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, %d cores, %s, Temporal's state in %s, worker processes: %d; load before: %s\n", r.Host.CPU, r.Host.Cores, r.Host.Go, r.Host.Temporal, r.Host.Workers, r.Host.Load)
	for _, print := range []func(io.Writer) error{r.printWalls, r.printParts, r.printLoads, r.printTwin, r.CLI.print, r.Heal.print, r.Deliberations.print, r.Restart.print, r.Crowd.print, r.Waiting.print, r.Slope.print, r.Build.print, r.Pages.print, r.printCoverage, r.printModels, r.printLiveText, r.printGate} {
		if err := print(out); err != nil {
			return err
		}
	}
	return nil
}

// name describes the measurement.
func (r phaseResult) name() []string {
	how := fmt.Sprintf("%d, one by one", r.Runs)
	if r.AtOnce {
		how = fmt.Sprintf("%d at once", r.Runs)
	}
	return []string{r.Latency.String(), how, r.What}
}

func (r results) printWalls(out io.Writer) error {
	if len(r.Phases) == 0 {
		return nil
	}
	t := newTable(out, fmt.Sprintf("Duration of runs, with %d hops on the longest path (bare: the same shape with ordinary activities only)", hops()),
		"LATENCY", "RUNS", "WHAT", "WALL MEDIAN", "P95", "CRITICAL PATH", "RATIO", "TO IDEAL", "EACH HOP", "RUNS/S", "EVENTS", "BYTES", "ACTIVITIES")
	for _, p := range r.Phases {
		t.row(append(p.name(), ms(p.WallMS), ms(p.P95MS), ms(p.CriticalMS), ratio(p.Ratio), ratio(p.Overhead), fmt.Sprintf("%.1f ms", p.HopMS),
			fmt.Sprintf("%.2f", p.PerSecond), fmt.Sprint(p.Events), fmt.Sprint(p.Bytes), fmt.Sprint(p.Activities))...)
	}
	return t.Flush()
}

// printParts prints how the wall time of the product's runs is distributed.
func (r results) printParts(out io.Writer) error {
	if len(r.Phases) == 0 {
		return nil
	}
	parts := []string{timing.Environment, timing.Baseline, timing.Model, timing.Tools, timing.Tests, timing.Git, timing.Queue, timing.Orchestration}
	t := newTable(out, "Wall time of a run by part (medians; time with several active parts counts for the first of their columns)",
		append([]string{"LATENCY", "RUNS", "WHAT"}, uppercased(parts)...)...)
	for _, p := range r.Phases {
		if len(p.Parts) == 0 {
			continue
		}
		cells := p.name()
		for _, name := range parts {
			cells = append(cells, ms(p.wallOf(name)))
		}
		t.row(cells...)
	}
	return t.Flush()
}

func uppercased(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strings.ToUpper(w)
	}
	return out
}

// printLoads prints the load on the machine in each phase.
func (r results) printLoads(out io.Writer) error {
	if len(r.Phases) == 0 {
		return nil
	}
	t := newTable(out, "CPU milliseconds of a run, and peak memory (children: git, sandbox and tests; other: unrelated processes, which distort the numbers)",
		"LATENCY", "RUNS", "WHAT", "WORKER", "CHILDREN", "TEMPORAL", "POSTGRES", "MODEL", "SERVER", "STACK", "BENCH", "OTHER", "MB: WORKER", "TEMPORAL", "POSTGRES", "SERVER")
	for _, p := range r.Phases {
		each := func(seconds float64) string { return fmt.Sprintf("%.0f", 1000*seconds/float64(p.Runs)) }
		by := map[string]usage{}
		for _, u := range p.Load.Processes {
			by[u.Role] = u
		}
		cells := append(p.name(), each(by["worker"].CPU), each(by["worker"].Children))
		for _, role := range []string{"temporal", "postgres", "model", "server"} {
			cells = append(cells, each(by[role].CPU+by[role].Children))
		}
		cells = append(cells, each(p.Load.Total), each(p.Load.Bench), each(p.Load.Strangers))
		for _, role := range []string{"worker", "temporal", "postgres", "server"} {
			cells = append(cells, fmt.Sprint(by[role].PeakMB))
		}
		t.row(cells...)
	}
	return t.Flush()
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

func ratio(r float64) string { return fmt.Sprintf("%.2f", r) }
