package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/eval/draw"
	"github.com/rocketgpt/orchestrator/internal/eval/drivers"
	"github.com/rocketgpt/orchestrator/internal/eval/judge"
	"github.com/rocketgpt/orchestrator/internal/eval/runner"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

func newEval(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "eval", Short: "Measure how well agents solve tasks with hidden tests",
		Long: `Runs sets of real tasks and decides by hidden tests which are solved: with several configurations,
models or other agents side by side. docs/EVAL.md describes sets, variants and reports.

Start with:
  rgpt eval draw . --count 3 --out set.yaml     make tasks from a repository's own history
  rgpt eval run set.yaml --oracle               prove the set, without a model
  rgpt eval run set.yaml --max-cost 5           solve it as configured`,
	}
	cmd.AddCommand(local(newEvalDraw(a), newEvalRun(a))...)
	cmd.AddCommand(newEvalList(a), newEvalReport(a))
	return cmd
}

// sources are the flags that say where repositories are found.
type sources struct{ mirrors string }

func (s *sources) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.mirrors, "mirrors", "", "directory of bare mirrors, DIR/owner+name/repo; or a pattern with {owner} and {name} (default: clone from GitHub, once)")
}

func (s *sources) repositories(dir string) commits.Repositories {
	return commits.Repositories{Mirrors: s.mirrors, Cache: filepath.Join(dir, "mirrors")}
}

// evalDir returns the directory for the repositories of tasks in a data folder.
func evalDir(dataDir string) string { return filepath.Join(dataDir, "eval") }

// newJudge returns what runs hidden tests on this host.
func (a *app) newJudge(dataDir string) (judge.Judge, error) {
	cfg, err := a.config()
	if err != nil {
		return judge.Judge{}, err
	}
	log, _, err := telemetry.NewLogger(telemetry.LogOptions{Console: a.errs, Level: "error", Format: "text"})
	return judge.Judge{Config: cfg, DataDir: dataDir, Log: log}, err
}

func newEvalDraw(a *app) *cobra.Command {
	var from sources
	var out string
	o := draw.Options{}
	cmd := &cobra.Command{
		Use: "draw REPO", Short: "Make tasks from a repository's own history",
		Long: `Makes tasks from the newest small commits that change code and tests. The tests of each commit run
in the sandbox, before and after its change: only a commit whose tests fail before and pass after it
becomes a task. Its message becomes the goal, without links and numbers of issues; a commit whose
message quotes its solution or names a hidden test is left out. The command needs no running
components and no model.

REPO is a directory, a URL, or owner/name on GitHub.`,
		Example: `  rgpt eval draw . --count 5 --out set.yaml
  rgpt eval draw pallets/click --mirrors /mirrors --out set.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%s needs one repository: a directory, a URL, or owner/name", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Count < 1 {
				return usageError{fmt.Errorf("--count %d is too small; must be at least 1", o.Count)}
			}
			return a.draw(cmd.Context(), args[0], from, o, out)
		},
	}
	from.flags(cmd)
	f := cmd.Flags()
	f.IntVar(&o.Count, "count", 5, "number of tasks")
	f.BoolVar(&o.Fixes, "fixes", true, "only commits whose message speaks of a fix")
	f.StringVar(&out, "out", "", "write the set to this file: .yaml, or .jsonl, to which tasks are appended (default: standard output, as YAML)")
	return cmd
}

// draw makes tasks and writes them.
func (a *app) draw(ctx context.Context, repo string, from sources, o draw.Options, out string) (err error) {
	dir, err := a.verifyDataDir()
	if err != nil {
		return err
	}
	if o.Judge, err = a.newJudge(dir); err != nil {
		return err
	}
	o.Repo, o.Dir = repo, evalDir(dir)
	if o.Source, err = from.repositories(o.Dir).Find(ctx, repo); err != nil {
		return usageError{err}
	}
	if info, err := os.Stat(repo); err == nil && info.IsDir() {
		o.Repo = o.Source
	}
	o.Tell = func(commit, subject, what string) {
		fmt.Fprintf(a.errs, "%.12s %.60s: %s\n", commit, terminal.Clean(subject), terminal.Clean(what))
	}
	drawn, err := draw.Draw(ctx, o)
	if err != nil && len(drawn.Tasks) == 0 {
		return err
	}
	if len(drawn.Tasks) == 0 {
		return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "no commit of %s became a task; %d were tried and %d left out before, see above", repo, drawn.Tried, len(drawn.Left)-drawn.Tried)
	}
	fmt.Fprintf(a.errs, "%s from %s whose tests ran\n", counted(fmt.Sprint(len(drawn.Tasks)), "task"), counted(fmt.Sprint(drawn.Tried), "commit"))
	return errors.Join(err, a.writeSet(eval.Set{Name: cmp.Or(baseName(out), "drawn"), Tasks: drawn.Tasks}, out))
}

func baseName(file string) string {
	base := filepath.Base(file)
	if file == "" {
		return ""
	}
	return base[:len(base)-len(filepath.Ext(base))]
}

// writeSet writes a set to a file or the output.
func (a *app) writeSet(s eval.Set, out string) error {
	if out == "" {
		if a.json {
			a.printJSON(s)
			return nil
		}
		return eval.WriteYAML(a.out, s)
	}
	write, flags := eval.WriteYAML, os.O_TRUNC
	if filepath.Ext(out) == ".jsonl" {
		write, flags = eval.WriteLines, os.O_APPEND
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY|flags, 0o644)
	if err != nil {
		return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot write the set %s", out)
	}
	return errors.Join(write(f, s), f.Close())
}

// evalRun is a request of `eval run`.
type evalRun struct {
	from     sources
	variants string
	models   []string
	effort   string
	drivers  []string
	oracle   string
	config   []string
	maxCost  float64
	only     []string
	options  runner.Options
}

func newEvalRun(a *app) *cobra.Command {
	var r evalRun
	cmd := &cobra.Command{
		Use: "run SET", Short: "Solve the tasks of a set, and run their hidden tests",
		Long: `Solves each task of a set with each variant, and decides by its hidden tests. Tasks are solved in
ordinary runs, by the workers of this installation; the hidden tests run afterwards on this host, in
the sandbox. Agents never see them.

If the command is interrupted or killed, the same command continues the evaluation. Variants are
those of the set, or of --variants, or one for each --model, --driver and --oracle; without any,
the tasks are solved as configured.

Exit codes: 0 all results exist, 1 the evaluation could not be completed, 3 interrupted.`,
		Example: `  rgpt eval run set.yaml --oracle
  rgpt eval run set.yaml --model openai/gpt-5 --model anthropic/claude-sonnet-4-5 --max-cost 20
  rgpt eval run swe-bench.jsonl --variants variants.yaml --parallel 2 --only django__django-11099`,
		Args: func(cmd *cobra.Command, args []string) error {
			// --oracle needs no value, so a mode after it is an argument.
			if len(args) == 2 && r.oracle == eval.OracleExact && slices.ContainsFunc(args, isMode) {
				return nil
			}
			if len(args) != 1 {
				return fmt.Errorf("%s needs the file of one set", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if i := slices.IndexFunc(args, isMode); i >= 0 && len(args) == 2 {
				r.oracle, args = args[i], slices.Delete(args, i, i+1)
			}
			if r.options.Parallel < 1 || r.maxCost < 0 {
				return usageError{errors.New("--parallel must be at least 1, and --max-cost must not be negative")}
			}
			return a.runEval(cmd.Context(), args[0], r)
		},
	}
	r.from.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&r.variants, "variants", "", "YAML file with the variants to compare")
	f.StringArrayVar(&r.models, "model", nil, "solve the tasks with this model, as provider/model; repeatable: one variant each")
	f.StringVar(&r.effort, "effort", "", "amount of reasoning of the variants of --model: low, medium or high")
	f.StringArrayVar(&r.drivers, "driver", nil, "solve the tasks with another agent, as NAME=provider/model, such as mini-swe-agent=openai/gpt-5; repeatable")
	f.StringVar(&r.oracle, "oracle", "", "solve the tasks with a model that knows the solutions: exact, or noisy, which makes a mistake first")
	f.Lookup("oracle").NoOptDefVal = eval.OracleExact
	f.StringArrayVar(&r.config, "set", nil, "set a configuration key for this command and its runs: key=value; repeatable")
	f.Float64Var(&r.maxCost, "max-cost", 0, "budget of the whole evaluation in US dollars; 0: no limit")
	f.IntVar(&r.options.Parallel, "parallel", runner.DefaultParallel, "number of tasks in progress at the same time")
	f.StringSliceVar(&r.only, "only", nil, "only these tasks, by ID")
	f.BoolVar(&r.options.Again, "new", false, "start a new evaluation instead of continuing an unfinished one")
	f.BoolVar(&r.options.Retry, "retry", false, "repeat results that do not count: a failed setup or an error")
	return cmd
}

func isMode(arg string) bool { return arg == eval.OracleExact || arg == eval.OracleNoisy }

// choose returns the variants that the flags or the set specify.
func (r evalRun) choose(s eval.Set) ([]eval.Variant, error) {
	out := s.Variants
	if r.variants != "" {
		var err error
		if out, err = eval.LoadVariants(r.variants); err != nil {
			return nil, err
		}
	}
	var given []eval.Variant
	for _, m := range r.models {
		given = append(given, eval.Variant{Name: variantName(m), Model: m, Effort: r.effort})
	}
	for _, d := range r.drivers {
		v, err := drivers.Variant(d)
		if err != nil {
			return nil, usageError{err}
		}
		given = append(given, v)
	}
	if r.oracle != "" {
		given = append(given, eval.Variant{Name: "oracle-" + r.oracle, Oracle: r.oracle})
	}
	if len(given) > 0 {
		out = given
	}
	if len(out) == 0 {
		out = []eval.Variant{{Name: "configured"}}
	}
	if err := eval.CheckVariants(out); err != nil {
		return nil, usageError{err}
	}
	return out, nil
}

// runEval runs or continues an evaluation, and prints its report.
func (a *app) runEval(ctx context.Context, file string, r evalRun) error {
	set, err := eval.Load(file)
	if err != nil {
		return err
	}
	if set.Tasks, err = chosen(set.Tasks, r.only); err != nil {
		return err
	}
	variants, err := r.choose(set)
	if err != nil {
		return err
	}
	overlay, err := pairs("set", r.config)
	if err != nil {
		return err
	}
	maps.Copy(a.set, overlay)
	return a.withLocal(ctx, backend.NeedTemporal|backend.NeedArtifacts, func(l *backend.Local) error {
		j, err := a.newJudge(l.DataDir)
		if err != nil {
			return err
		}
		catalogue, err := l.Catalogue(ctx)
		if err != nil {
			return err
		}
		dir := evalDir(l.DataDir)
		work := &runner.Runner{
			Runs: l.Runs, Evals: evals.New(l.Store), Judge: j, Sources: r.from.repositories(dir), Dir: dir, Log: slog.New(slog.DiscardHandler), Progress: a.evalProgress,
			Drive: drivers.New(l.Config, catalogue, l.DataDir, j.Log).Drive,
		}
		r.options.MaxCostMicros, r.options.By = int64(r.maxCost*1e6), caller()
		if err := oracleReady(variants, l); err != nil {
			return err
		}
		id, err := work.Run(ctx, set, variants, r.options)
		if ctx.Err() != nil {
			fmt.Fprintf(a.errs, "Interrupted; runs in progress go on. Repeat the command to continue evaluation %d.\n", id)
			return ended{exitStopped}
		}
		if id != 0 && !errors.Is(err, context.Canceled) {
			err = errors.Join(err, a.printEval(context.WithoutCancel(ctx), work.Evals, id))
		}
		return err
	})
}

// oracleReady checks that the scripted model, which plays solutions, is running.
func oracleReady(variants []eval.Variant, l *backend.Local) error {
	for _, v := range variants {
		if _, ok := l.Config.Models.Providers[setup.Scripted]; v.Oracle != "" && !ok {
			return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
				"the oracle is played by the scripted model, which is not running; start a stack of its own: rgpt dev --detach --data-dir DIR --scenario FILE, where FILE contains `rules: []`, then use --data-dir DIR here")
		}
	}
	return nil
}

// chosen returns the tasks with the given IDs, all if none are given.
func chosen(tasks []eval.Task, only []string) ([]eval.Task, error) {
	if len(only) == 0 {
		return tasks, nil
	}
	byID := map[string]eval.Task{}
	for _, t := range tasks {
		byID[t.ID] = t
	}
	var out []eval.Task
	for _, id := range only {
		t, ok := byID[id]
		if !ok {
			return nil, usageError{fmt.Errorf("--only: the set has no task %q", id)}
		}
		out = append(out, t)
	}
	return out, nil
}

// evalProgress prints the start and the end of a result.
func (a *app) evalProgress(p runner.Progress) {
	run := ""
	if p.RunID != 0 {
		run = fmt.Sprintf(" (run %d)", p.RunID)
	}
	if p.Done == nil {
		fmt.Fprintf(a.errs, "%s  %s, %s …\n", time.Now().Format(time.TimeOnly), terminal.Clean(p.Task), terminal.Clean(p.Variant))
		return
	}
	what := "solved"
	if !p.Done.Solved {
		what = "not solved: " + p.Done.Reason + ": " + p.Done.Detail
	}
	fmt.Fprintf(a.errs, "%s  %s, %s%s: %.300s (%d of %d)\n", time.Now().Format(time.TimeOnly), terminal.Clean(p.Task), terminal.Clean(p.Variant), run, terminal.Clean(what), p.Finished, p.All)
}

// withLocal calls do with the components of this installation.
func (a *app) withLocal(ctx context.Context, needs backend.Needs, do func(*backend.Local) error) error {
	return a.with(ctx, needs, func(b backend.Backend) error {
		l, ok := b.(*backend.Local)
		if !ok {
			return usageError{errors.New("this command works only on a host of the installation, not through a server; omit --server")}
		}
		return do(l)
	})
}

func newEvalList(a *app) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List evaluations", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), 0, func(b backend.Backend) error {
				list, err := b.Evals(cmd.Context(), 0, limit)
				if err != nil {
					return err
				}
				printList(a, "evals", list, "There are no evaluations. rgpt eval run starts one.", "EVAL\tSET\tSTATUS\tRESULTS\tSOLVED\tCOST\tSTARTED", func(w io.Writer, e evals.Summary) {
					fmt.Fprintf(w, "%d\t%s\t%s\t%d/%d\t%d\t%s\t%s ago\n", e.ID, terminal.Clean(e.Set), e.Status, e.Finished, e.Results, e.Solved, contract.MarkEstimated(fmt.Sprintf("$%.2f", float64(e.CostMicros)/1e6), !e.CostKnown), age(e.CreatedAt))
				})
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of results")
	return cmd
}

// evalID parses the ID of an evaluation.
func evalID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, usageError{fmt.Errorf("%q is not the ID of an evaluation; expected a number such as 3 (see rgpt eval list)", text)}
	}
	return id, nil
}
