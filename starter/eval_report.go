package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newEvalReport(a *app) *cobra.Command {
	var compare []string
	cmd := &cobra.Command{
		Use: "report EVAL", Short: "Show the results of an evaluation with their uncertainty",
		Long: `Shows the rate of solved tasks of each variant with its 95 % confidence interval, medians of cost,
tokens, turns and time, and a table of all tasks. Each later variant is compared with the first one,
task by task. --compare chooses two variants instead; a variant of another evaluation is EVAL:NAME.
Results that do not depend on the variant, such as a repository that cannot be set up, do not count.`,
		Example: `  rgpt eval report 3
  rgpt eval report 3 --compare old,new
  rgpt eval report 4 --compare 3:configured,4:configured --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs the ID of one evaluation; see rgpt eval list", cmd.CommandPath())
			}
			_, err := evalID(args[0])
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := evalID(args[0])
			if err != nil {
				return err
			}
			if len(compare) != 0 && len(compare) != 2 {
				return usageError{fmt.Errorf("--compare needs two variants, A,B")}
			}
			return a.with(cmd.Context(), 0, func(b backend.Backend) error {
				r, err := b.EvalReport(cmd.Context(), id, compare)
				if err == nil {
					a.printReport(r)
				}
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&compare, "compare", nil, "compare these two variants, A,B")
	return cmd
}

// printEval prints the report of an evaluation.
func (a *app) printEval(ctx context.Context, st *evals.Store, id int64) error {
	e, err := st.Get(ctx, id)
	if err != nil {
		return err
	}
	results, err := st.Results(ctx, id)
	if err == nil {
		a.printReport(report.New(e, results))
	}
	return err
}

// printReport prints a report as JSON or as tables.
func (a *app) printReport(r report.Report) {
	if a.json {
		a.printJSON(r)
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Evaluation %d of %s, %s\n\n", r.Eval.ID, terminal.Clean(r.Eval.Set), r.Eval.Status)
	fmt.Fprintln(w, "TASK\tVARIANT\tRESULT\tTESTS\tCOST\tPROMPT\tCACHED\tOUTPUT\tTURNS\tHEALS\tSECONDS\tRUN")
	for _, x := range r.Results {
		printResult(w, x)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "VARIANT\tSOLVED\tRATE (95 %)\tNOT COUNTED\tHEALED\tCOST\tPROMPT\tFRESH\tOUTPUT\tTURNS\tSECONDS\tTOTAL COST")
	for _, v := range r.Variants {
		fmt.Fprintf(w, "%s\t%d/%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", terminal.Clean(v.Name), v.Solved, v.Finished-v.Invalid, rate(v.Rate), v.Invalid, v.Healed,
			contract.MarkEstimated(dollars(v.Cost), !v.Total.CostKnown), whole(v.Prompt), whole(v.Fresh), whole(v.Output), whole(v.Turns), whole(v.Seconds), contract.MarkEstimated(fmt.Sprintf("$%.2f", float64(v.Total.CostMicros)/1e6), !v.Total.CostKnown))
	}
	_ = w.Flush()
	fmt.Fprintln(a.out, "Cost, tokens, turns and seconds are medians per task, with 95 % intervals.")
	for _, v := range r.Variants {
		for _, reason := range slices.Sorted(maps.Keys(v.Reasons)) {
			fmt.Fprintf(a.out, "  %s: %d not solved, %s\n", terminal.Clean(v.Name), v.Reasons[reason], terminal.Clean(reason))
		}
	}
	for _, c := range r.Compared {
		a.printComparison(c)
	}
}

func printResult(w io.Writer, x evals.Result) {
	result, tests, run := string(x.Status), "–", "–"
	if x.Status == evals.Done {
		result = "solved"
		if !x.Solved {
			result = x.Reason
		}
	}
	if t := x.Tests; t != nil {
		tests = fmt.Sprintf("%d/%d, %d/%d", t.FailToPass.Passed, t.FailToPass.Total, t.PassToPass.Passed, t.PassToPass.Total)
	}
	if x.RunID != 0 {
		run = fmt.Sprintf("#%d", x.RunID)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.0f\t%s\n", terminal.Clean(x.Task), terminal.Clean(x.Variant), terminal.Clean(result), tests,
		contract.MarkEstimated(fmt.Sprintf("$%.3f", float64(x.CostMicros)/1e6), !x.CostKnown), x.Prompt(), x.CachedTokens, x.OutputTokens+x.ReasoningTokens, x.Turns, x.Heals, x.Seconds, run)
}

func (a *app) printComparison(c report.Comparison) {
	fmt.Fprintf(a.out, "\n%s compared with %s, on %s that both finished: %d solved by both, %d only by %s, %d only by %s, %d by neither\n",
		terminal.Clean(c.B), terminal.Clean(c.A), counted(fmt.Sprint(c.Tasks), "task"), c.Both, c.OnlyA, terminal.Clean(c.A), c.OnlyB, terminal.Clean(c.B), c.Neither)
	if c.Tasks == 0 {
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  DIFFERENCE PER TASK\tMEAN\t95 %\tP\tRATIO OF MEDIANS")
	row := func(name, format string, scale float64, d report.Difference, ratio float64) {
		times := "–"
		if ratio > 0 {
			times = fmt.Sprintf("%.2f", ratio)
		}
		fmt.Fprintf(w, "  %s\t"+format+"\t"+format+" to "+format+"\t%s\t%s\n", name, d.Value*scale, d.Low*scale, d.High*scale, report.FormatP(d.P), times)
	}
	row("solved, in points", "%+.1f", 100, c.Rate, 0)
	row("cost, in dollars", "%+.3f", 1, c.Cost, 0)
	row("prompt tokens", "%+.0f", 1, c.Prompt, c.PromptRatio)
	row("output tokens", "%+.0f", 1, c.Output, 0)
	row("turns", "%+.1f", 1, c.Turns, c.TurnsRatio)
	row("seconds", "%+.1f", 1, c.Seconds, c.SecondsRatio)
	_ = w.Flush()
}

func rate(i report.Interval) string {
	return fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*i.Value, 100*i.Low, 100*i.High)
}

func dollars(i report.Interval) string {
	return fmt.Sprintf("$%.3f (%.3f to %.3f)", i.Value, i.Low, i.High)
}

func whole(i report.Interval) string {
	return fmt.Sprintf("%.0f (%.0f to %.0f)", i.Value, i.Low, i.High)
}

// variantName turns a model into the name of a variant.
func variantName(model string) string {
	return strings.NewReplacer("/", "-", " ", "-").Replace(model)
}
