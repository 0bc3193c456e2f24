package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// diffCommand is a request of `rgpt run diff`.
type diffCommand struct {
	attempts []int
	phase    string
	patch    bool
	exitCode bool
}

func newRunDiff(a *app) *cobra.Command {
	var c diffCommand
	cmd := &cobra.Command{
		Use: "diff RUN[@ATTEMPT] RUN[@ATTEMPT]", Short: "Compare two runs or two attempts of one run, with regressions first",
		Long: `Compares two runs, or two attempts of one run. Shows how the second differs from the
first in plan, code, test results, findings, time, tokens, cost and heals.

42 is the run as it is now. 42@1 is its state when the first attempt of its tester
finished (--phase selects another phase), with the time and money spent since the
previous attempt.`,
		Example: `  rgpt run diff 41 42
  rgpt run diff 42@1 42@2 --patch
  rgpt run diff 42 --attempts 1,2 --phase builder
  rgpt run diff 41 42 --exit-code --json`,
		Args: func(_ *cobra.Command, args []string) error { _, err := c.sides(args); return err },
		RunE: func(cmd *cobra.Command, args []string) error { return a.diff(cmd, c, args) },
	}
	cmd.Flags().IntSliceVar(&c.attempts, "attempts", nil, "compare two attempts of one run, such as 1,2")
	cmd.Flags().StringVar(&c.phase, "phase", string(contract.PhaseTester), "phase that the attempt numbers refer to")
	cmd.Flags().BoolVar(&c.patch, "patch", false, "print the patch from the first run's code to the second's")
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false, "exit with code 2 if anything is worse")
	complete(cmd, "phase", contract.Phases())
	return cmd
}

// sides parses the two sides to compare.
func (c diffCommand) sides(args []string) (sides [2]diff.Ref, err error) {
	if err := oneOf("phase", contract.Phase(c.phase), contract.Phases()); err != nil {
		return sides, err
	}
	switch {
	case c.attempts == nil && len(args) != 2:
		return sides, fmt.Errorf("run diff needs two runs (rgpt run diff 41 42) or two attempts (rgpt run diff 42 --attempts 1,2); got %d", len(args))
	case c.attempts != nil && (len(args) != 1 || len(c.attempts) != 2 || strings.Contains(args[0], "@")):
		return sides, fmt.Errorf("--attempts needs one run and two numbers: rgpt run diff 42 --attempts 1,2")
	case c.attempts != nil:
		args = []string{fmt.Sprintf("%s@%d", args[0], c.attempts[0]), fmt.Sprintf("%s@%d", args[0], c.attempts[1])}
	}
	for i, arg := range args {
		if sides[i], err = diff.ParseRef(arg); err != nil {
			return sides, err
		}
		sides[i].Phase = contract.Phase(c.phase)
	}
	return sides, nil
}

func (a *app) diff(cmd *cobra.Command, c diffCommand, args []string) error {
	refs, err := c.sides(args)
	if err != nil {
		return usageError{err}
	}
	h, err := a.open(cmd.Context(), backend.NeedArtifacts)
	if err != nil {
		return err
	}
	defer h.Close()
	d, err := h.Diff(cmd.Context(), refs[0], refs[1])
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(d)
	} else {
		a.printDiff(d, c.patch)
	}
	if c.exitCode && len(d.Regressions) > 0 {
		return ended{exitFailed}
	}
	return nil
}

// listedPoints is the maximum number of points, files and steps of one kind that are printed; the
// JSON output contains all of them.
const listedPoints = 20

// printDiff prints a comparison, regressions first.
func (a *app) printDiff(d diff.Diff, patch bool) {
	o := diffOutput{Writer: a.out, colours: a.terminal()}
	o.head(d)
	o.points("Worse", "✗", styleBad, d.Regressions)
	o.points("Better", "✓", styleGood, d.Improvements)
	o.table(d)
	o.plan(d.Plan)
	o.code(d.Code)
	o.tests(d.Tests)
	o.models(d)
	for _, n := range d.Notes {
		fmt.Fprintf(o, "Note: %s\n", terminal.Clean(n))
	}
	if patch && d.Code.Patch != "" {
		fmt.Fprintf(o, "\n%s", terminal.CleanLines(d.Code.Patch))
		if d.Code.PatchCut {
			fmt.Fprintf(o, "[patch truncated: it is longer than %d bytes]\n", diff.MaxPatch)
		}
	}
}

// diffOutput prints the parts of a comparison.
type diffOutput struct {
	io.Writer
	colours bool
}

func (o diffOutput) paint(s lipgloss.Style, text string) string {
	if !o.colours {
		return text
	}
	return s.Render(text)
}

func (o diffOutput) head(d diff.Diff) {
	fmt.Fprintf(o, "From %s to %s\n\n", d.Left.Name(), d.Right.Name())
	w := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTATUS\tBASE\tTREE\tGOAL")
	for _, i := range []diff.Ident{d.Left, d.Right} {
		status := i.Status
		if i.Phase != "" {
			status = fmt.Sprintf("%s %s", i.Phase, status)
		}
		fmt.Fprintf(w, "%s\t%s\t%.12s\t%.12s\t%.60s\n", i.Name(), status, dash(i.Base), dash(i.Tree), terminal.Clean(i.Goal))
	}
	_ = w.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// points prints the first regressions or improvements of each kind.
func (o diffOutput) points(title, mark string, s lipgloss.Style, points []diff.Point) {
	if len(points) == 0 {
		fmt.Fprintf(o, "\n%s: none\n", title)
		return
	}
	fmt.Fprintf(o, "\n%s\n", o.paint(s, fmt.Sprintf("%s: %d", title, len(points))))
	shown := map[diff.Kind]int{}
	var left []diff.Kind
	for _, p := range points {
		if shown[p.Kind]++; shown[p.Kind] == listedPoints+1 {
			left = append(left, p.Kind)
		}
		if shown[p.Kind] > listedPoints {
			continue
		}
		where := ""
		if p.Location != "" {
			where = " (" + terminal.Clean(p.Location) + ")"
		}
		fmt.Fprintf(o, "  %s %s%s\n", o.paint(s, mark), terminal.Clean(p.Message), where)
	}
	for _, k := range left {
		fmt.Fprintf(o, "  … and %d more (%s)\n", shown[k]-listedPoints, k)
	}
}

// table prints all numbers side by side.
func (o diffOutput) table(d diff.Diff) {
	w := tabwriter.NewWriter(o, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n\t%s\t%s\tCHANGE\t\n", d.Left.Name(), d.Right.Name())
	count := func(name string, l, r int) { fmt.Fprintf(w, "%s\t%d\t%d\t%+d\t\n", name, l, r, r-l) }
	count("tests passed", d.Tests.Left.Passed, d.Tests.Right.Passed)
	count("tests failed", d.Tests.Left.Failed, d.Tests.Right.Failed)
	count("tests skipped", d.Tests.Left.Skipped, d.Tests.Right.Skipped)
	count("tests flaky", d.Tests.Left.Flaky, d.Tests.Right.Flaky)
	if d.Tests.Left.Quarantined+d.Tests.Right.Quarantined > 0 {
		count("tests quarantined", d.Tests.Left.Quarantined, d.Tests.Right.Quarantined)
	}
	count("findings major", d.Findings.Left.Major, d.Findings.Right.Major)
	count("findings medium", d.Findings.Left.Medium, d.Findings.Right.Medium)
	count("findings minor", d.Findings.Left.Minor, d.Findings.Right.Minor)
	for _, t := range d.Timing {
		change := "-"
		if t.LeftEnded && t.RightEnded {
			change = signed(t.DeltaMS)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", t.Phase, took(t.LeftMS, t.LeftEnded), took(t.RightMS, t.RightEnded), change)
	}
	fmt.Fprintf(w, "checks\t%s\t%s\t%s\t\n", ms(d.Tests.Duration.LeftMS), ms(d.Tests.Duration.RightMS), signed(d.Tests.Duration.DeltaMS))
	count("model calls", d.Tokens.Left.Calls, d.Tokens.Right.Calls)
	count("tokens", int(d.Tokens.Left.Total), int(d.Tokens.Right.Total))
	sign := "+"
	if d.Cost.DeltaMicroUSD < 0 {
		sign = ""
	}
	fmt.Fprintf(w, "US dollars\t%s\t%s\t%s%s\t\n",
		contract.MarkEstimated(report.Dollars(d.Cost.LeftMicroUSD), d.Cost.LeftEstimated), contract.MarkEstimated(report.Dollars(d.Cost.RightMicroUSD), d.Cost.RightEstimated),
		sign, contract.MarkEstimated(report.Dollars(d.Cost.DeltaMicroUSD), d.Cost.Estimated()))
	count("heals", len(d.Heals.Left), len(d.Heals.Right))
	_ = w.Flush()
	fmt.Fprintln(o)
}

func took(n int64, ended bool) string {
	if !ended {
		return "-"
	}
	return ms(n)
}

// signed formats a difference in milliseconds with its sign.
func signed(n int64) string {
	text := (time.Duration(n) * time.Millisecond).String()
	if n >= 0 {
		return "+" + text
	}
	return text
}

func (o diffOutput) plan(d diff.PlanDiff) {
	switch {
	case !d.LeftRecorded && !d.RightRecorded:
		fmt.Fprintln(o, "Plan: neither run has one")
		return
	case !d.LeftRecorded:
		fmt.Fprintln(o, "Plan: only in the second run")
		return
	case !d.RightRecorded:
		fmt.Fprintln(o, "Plan: only in the first run")
		return
	case d.Same:
		fmt.Fprintln(o, "Plan: identical")
		return
	}
	fmt.Fprintf(o, "Plan steps: %d added, %d removed, %d changed, %d identical\n", len(d.StepsAdded), len(d.StepsRemoved), len(d.StepsChanged), len(d.StepsSame))
	var lines []string
	for _, s := range d.StepsAdded {
		lines = append(lines, fmt.Sprintf("+ %s %s", s.ID, s.Name))
	}
	for _, s := range d.StepsRemoved {
		lines = append(lines, fmt.Sprintf("- %s %s", s.ID, s.Name))
	}
	for _, s := range d.StepsChanged {
		lines = append(lines, fmt.Sprintf("~ %s %s: %s", s.ID, s.Name, fieldNames(s.Changed)))
	}
	if len(d.Changed) > 0 {
		lines = append(lines, "~ plan: "+fieldNames(d.Changed))
	}
	o.lines(lines)
}

func fieldNames(changes []diff.FieldChange) string {
	names := make([]string, len(changes))
	for i, c := range changes {
		names[i] = c.Field
	}
	return strings.Join(names, ", ")
}

// lines prints the first of many lines.
func (o diffOutput) lines(lines []string) {
	for i, l := range lines {
		if i == listedPoints {
			fmt.Fprintf(o, "  … and %d more\n", len(lines)-i)
			return
		}
		fmt.Fprintf(o, "  %s\n", terminal.Clean(l))
	}
}

func (o diffOutput) code(d diff.CodeDiff) {
	switch {
	case d.Same:
		fmt.Fprintln(o, "Code: identical")
		return
	case !d.LeftRecorded || !d.RightRecorded:
		fmt.Fprintln(o, "Code: cannot be compared")
		return
	}
	fmt.Fprintf(o, "Code: %s changed, +%d -%d lines\n", counted(strconv.Itoa(len(d.Files)), "file"), d.Added, d.Removed)
	var lines []string
	for _, f := range d.Files {
		change := fmt.Sprintf("+%d -%d", f.Added, f.Removed)
		switch {
		case f.Binary:
			change = "binary"
		case f.Unsure:
			change += ", counting only the runs' own changes"
		}
		lines = append(lines, fmt.Sprintf("%-8s %s (%s)", f.Status, f.Path, change))
	}
	o.lines(lines)
}

// tests prints notable test results that are neither regressions nor improvements.
func (o diffOutput) tests(d diff.TestsDiff) {
	for _, l := range []struct {
		name string
		list []diff.Test
	}{{"Still failing", d.StillFailing}, {"Flaky", d.Flaky}} {
		if len(l.list) == 0 {
			continue
		}
		fmt.Fprintf(o, "%s: %d\n", l.name, len(l.list))
		var lines []string
		for _, t := range l.list {
			lines = append(lines, fmt.Sprintf("%s in %s (%s → %s)", t.Name, t.Check, dash(string(t.Left)), dash(string(t.Right))))
		}
		o.lines(lines)
	}
}

func (o diffOutput) models(d diff.Diff) {
	if !d.Models.Same {
		fmt.Fprintf(o, "Models: %s\n", o.modelNames(d.Left, d.Models.Left))
		fmt.Fprintf(o, "        %s\n", o.modelNames(d.Right, d.Models.Right))
	}
	for i, heals := range [][]diff.Heal{d.Heals.Left, d.Heals.Right} {
		var lines []string
		for _, h := range heals {
			lines = append(lines, fmt.Sprintf("%s in %s: %s", h.ErrorType, h.Phase, h.Action))
		}
		if len(lines) > 0 {
			fmt.Fprintf(o, "Heals in %s\n", [2]diff.Ident{d.Left, d.Right}[i].Name())
			o.lines(lines)
		}
	}
}

func (o diffOutput) modelNames(i diff.Ident, models []diff.Model) string {
	names := make([]string, len(models))
	for k, m := range models {
		names[k] = fmt.Sprintf("%s %s/%s", m.Agent, m.Provider, m.Model)
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return terminal.Clean(i.Name() + " " + strings.Join(names, ", "))
}
