package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Outcome is what one guard said about one patch.
type Outcome struct {
	Guard  string `json:"guard"`
	Patch  string `json:"patch"`
	Source Source `json:"source"`
	Half   Half   `json:"half"`
	Class  string `json:"class,omitempty"`
	// Result is one of the results below.
	Result Result `json:"result"`
	Why    string `json:"why,omitempty"`
}

// Result is how an outcome counts.
type Result string

// The results.
const (
	Found      Result = "found"       // the patch is harmful, and the guard found why
	Missed     Result = "missed"      // the patch is harmful, and the guard did not find why
	FalseAlarm Result = "false alarm" // the patch is harmless, and the guard had an alarm without a reason
	TrueAlarm  Result = "true alarm"  // the patch does what the guard is to ask about, by the rules of truth.go
	Quiet      Result = "quiet"       // the patch is harmless, and the guard had no alarm
)

// judge collects outcomes.
type judge struct {
	guards   []change.Guard
	half     string
	outcomes []Outcome
}

// judge judges a patch.
func (j *judge) judge(ctx context.Context, p Patch) error {
	if j.half != "both" && j.half != string(p.Half) {
		return nil
	}
	found, err := gate.Findings(ctx, j.guards, p.Change)
	if err != nil {
		return fmt.Errorf("judge %s: %w", p.Name, err)
	}
	j.outcomes = append(j.outcomes, outcomes(p, found, j.guards)...)
	return nil
}

// alarm reports whether a finding counts as an alarm: the strict policies ask a person about it.
func alarm(f change.Finding) bool {
	return f.Severity == contract.SeverityMajor || f.Severity == contract.SeverityMedium
}

// outcomes compares findings about a patch with its labels.
func outcomes(p Patch, found []change.Finding, guards []change.Guard) (out []Outcome) {
	add := func(guard string, r Result, why string) {
		out = append(out, Outcome{Guard: guard, Patch: p.Name, Source: p.Source, Half: p.Half, Class: p.Class, Result: r, Why: why})
	}
	if p.Guard != "" {
		result, why := harmful(p, found)
		add(p.Guard, result, why)
		return out
	}
	for _, g := range guards {
		if p.About == "" || p.About == g.Name() {
			result, why := harmless(p, found, g.Name())
			add(g.Name(), result, why)
		}
	}
	return out
}

// harmful says whether the guard of a harmful patch found it.
func harmful(p Patch, found []change.Finding) (Result, string) {
	var said []string
	for _, f := range found {
		if f.Guard != p.Guard {
			continue
		}
		if p.finds(f) && !slices.Contains(p.Original, f) {
			return Found, describe(f)
		}
		said = append(said, describe(f))
	}
	return Missed, strings.Join(said, "; ")
}

// harmless says whether a guard had an alarm about a harmless patch.
func harmless(p Patch, found []change.Finding, guard string) (result Result, why string) {
	result = Quiet
	for _, f := range found {
		switch {
		case f.Guard != guard || !alarm(f):
		case p.Source != Commit || !justified(p.Change, f):
			return FalseAlarm, describe(f)
		case result == Quiet:
			result, why = TrueAlarm, describe(f)
		}
	}
	return result, why
}

// finds reports whether a finding is the expected one.
func (p Patch) finds(f change.Finding) bool {
	serious := slices.Contains(p.Rules, f.Rule) || len(p.Rules) == 0
	least := cmp.Or(p.Severity, contract.SeverityMedium)
	rank := func(s contract.Severity) int { return slices.Index(contract.Severities(), s) }
	return serious && rank(f.Severity) <= rank(least) && (p.Path == "" || p.Path == f.Path || f.Path == "")
}

func describe(f change.Finding) string {
	return fmt.Sprintf("%s %s %s:%d %s", f.Rule, f.Severity, change.Clean(f.Path), f.Line, f.Message)
}

// counts are those of one guard.
type counts struct{ found, missed, falseAlarm, trueAlarm, quiet int }

func (c *counts) add(r Result) {
	switch r {
	case Found:
		c.found++
	case Missed:
		c.missed++
	case FalseAlarm:
		c.falseAlarm++
	case TrueAlarm:
		c.trueAlarm++
	case Quiet:
		c.quiet++
	}
}

// precision is the part of the alarms that have a reason.
func (c *counts) precision() string {
	return share(c.found+c.trueAlarm, c.found+c.trueAlarm+c.falseAlarm)
}

func (c *counts) recall() string { return share(c.found, c.found+c.missed) }

// rate is the part of the harmless patches with a false alarm.
func (c *counts) rate() string { return share(c.falseAlarm, c.falseAlarm+c.trueAlarm+c.quiet) }

func share(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
}

// table prints the counts of each guard, for each half, and of each class of harmful patches.
func table(out io.Writer, all []Outcome) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GUARD\tHALF\tHARMFUL\tMISSED\tRECALL\tHARMLESS\tTRUE ALARMS\tFALSE ALARMS\tRATE\tPRECISION")
	row := func(guard string, half string) {
		c := count(all, func(x Outcome) bool {
			return (guard == "all" || x.Guard == guard) && (half == "both" || string(x.Half) == half)
		})
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%s\t%s\n", guard, half, c.found+c.missed, c.missed, c.recall(),
			c.falseAlarm+c.trueAlarm+c.quiet, c.trueAlarm, c.falseAlarm, c.rate(), c.precision())
	}
	for _, g := range append(names(all, func(x Outcome) string { return x.Guard }), "all") {
		for _, half := range []string{string(Tuned), string(Held), "both"} {
			row(g, half)
		}
	}
	fmt.Fprintln(w, "\nSOURCE\tPATCHES")
	for _, s := range names(all, func(x Outcome) string { return string(x.Source) }) {
		patches := map[string]bool{}
		for _, x := range all {
			if string(x.Source) == s {
				patches[x.Patch] = true
			}
		}
		fmt.Fprintf(w, "%s\t%d\n", s, len(patches))
	}
	fmt.Fprintln(w, "\nCLASS\tHARMFUL\tMISSED")
	for _, class := range names(all, func(x Outcome) string { return x.Class }) {
		if class == "" {
			continue
		}
		c := count(all, func(x Outcome) bool { return x.Class == class })
		fmt.Fprintf(w, "%s\t%d\t%d\n", class, c.found+c.missed, c.missed)
	}
	return w.Flush()
}

func count(all []Outcome, which func(Outcome) bool) counts {
	var c counts
	for _, x := range all {
		if which(x) {
			c.add(x.Result)
		}
	}
	return c
}

// names returns the distinct values of outcomes, sorted.
func names(all []Outcome, of func(Outcome) string) (out []string) {
	for _, x := range all {
		out = append(out, of(x))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// list prints the errors.
func list(out io.Writer, all []Outcome, guard string) error {
	for _, x := range all {
		if (x.Result == Missed || x.Result == FalseAlarm) && (guard == "" || x.Guard == guard) {
			if _, err := fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", x.Guard, x.Result, x.Patch, x.Why); err != nil {
				return err
			}
		}
	}
	return nil
}
