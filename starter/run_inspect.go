package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/backend"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/runs/report"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/terminal"
	"github.com/rocketgpt/orchestrator/server/ui"
)

func newRunList(a *app) *cobra.Command {
	var f store.Filter
	var statuses []string
	var phase, class string
	cmd := &cobra.Command{
		Use: "list", Short: "List runs, newest first", Args: noArgs,
		Example: `  rgpt run list --status failed --error LLM_ERROR
  rgpt run list --text "dark mode" --limit 5 --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.Status, f.Phase, f.ErrorClass = nil, contract.Phase(phase), contract.Class(class)
			for _, status := range statuses {
				f.Status = append(f.Status, contract.Status(status))
			}
			if err := checkFilter(f); err != nil {
				return err
			}
			return a.with(cmd.Context(), 0, func(h backend.Backend) error {
				runs, err := h.ListRuns(cmd.Context(), f)
				if err == nil {
					a.printRuns(runs)
				}
				return err
			})
		},
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only runs with one of these statuses, such as done or builder_running")
	cmd.Flags().StringVar(&phase, "phase", "", "only runs in this phase")
	cmd.Flags().StringVar(&class, "error", "", "only runs that failed with this error class, such as LLM_ERROR")
	cmd.Flags().StringArrayVar(&f.Labels, "label", nil, "only runs with this label; repeatable, all must match")
	cmd.Flags().StringVar(&f.Project, "project", "", "only runs in this project")
	cmd.Flags().StringVar(&f.Text, "text", "", "only runs with this text in the goal")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "maximum number of results")
	complete(cmd, "status", contract.Statuses())
	complete(cmd, "phase", contract.Phases())
	complete(cmd, "error", contract.Classes())
	return cmd
}

// checkFilter rejects a filter that no run can match.
func checkFilter(f store.Filter) error {
	if f.Limit < 1 {
		return usageError{fmt.Errorf("--limit %d is too small; must be at least 1", f.Limit)}
	}
	for _, status := range f.Status {
		if err := oneOf("status", status, contract.Statuses()); err != nil {
			return err
		}
	}
	return errors.Join(oneOf("phase", f.Phase, contract.Phases()),
		oneOf("error", f.ErrorClass, contract.Classes()))
}

// oneOf rejects a flag's value that is neither empty nor allowed.
func oneOf[T ~string](flag string, value T, all []T) error {
	if value == "" || slices.Contains(all, value) {
		return nil
	}
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = string(v)
	}
	return usageError{fmt.Errorf("--%s %q is invalid; must be one of %s", flag, value, strings.Join(names, ", "))}
}

func (a *app) printRuns(runs []store.Run) {
	printList(a, "runs", runs, `No runs. Start one: rgpt run create --repo . --goal "…"`, "RUN\tSTATUS\tPROJECT\tAGE\tGOAL", func(w io.Writer, r store.Run) {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%.80s\n", r.ID, r.Status, terminal.Clean(r.Project), age(r.CreatedAt), terminal.Clean(r.GoalTitle))
	})
}

// age formats the approximate time since t.
func age(t time.Time) string { return ui.Age(time.Since(t)) }

// withRun reads the details of the run that the argument names.
func (a *app) withRun(ctx context.Context, arg string, needs backend.Needs, f func(backend.Backend, views.RunDetails) error) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	return a.with(ctx, needs, func(b backend.Backend) error {
		details, err := b.RunDetails(ctx, id)
		if err != nil {
			return err
		}
		return f(b, details)
	})
}

// inspected is a run as run inspect prints it.
type inspected struct {
	views.RunDetails
	ModelCalls []views.ModelCall `json:"model_calls"`
}

func newRunInspect(a *app) *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use: "inspect RUN", Short: "Show all details of a run", Args: oneRun,
		Example: `  rgpt run inspect 42
  rgpt run inspect 42 --verbose
  rgpt run inspect 42 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd.Context(), args[0], 0, func(h backend.Backend, d views.RunDetails) error {
				calls, err := modelCalls(cmd.Context(), h, d.ID)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(inspected{d, store.NotNil(calls)})
					return nil
				}
				a.printDetails(d)
				a.printRoutes(d.ID, calls, verbose)
				return a.printEnd(cmd.Context(), h, d.Run)
			})
		},
	}
	cmd.Flags().BoolVar(&verbose, "verbose", false, "list each model call, with all reasons for its model and the models that were not chosen")
	return cmd
}

// modelCallPage is the number of model calls that are read at a time.
const modelCallPage = 1000

// modelCalls returns all model calls of a run.
func modelCalls(ctx context.Context, h backend.Backend, run int64) (all []views.ModelCall, err error) {
	var after int64
	for {
		page, err := h.ModelCalls(ctx, run, after, modelCallPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < modelCallPage {
			return all, nil
		}
		after = page[len(page)-1].ID
	}
}

// routes are the model calls of an agent that used the same model by the same strategy.
type routes struct {
	agent           contract.Agent
	model, strategy string
	calls           int
	why             string // of the first call
}

// printRoutes prints which models made the calls of a run, and why: for each agent, or for each call.
func (a *app) printRoutes(run int64, calls []views.ModelCall, each bool) {
	if len(calls) == 0 {
		return
	}
	if each {
		for _, c := range calls {
			a.printRoute(c)
		}
		return
	}
	var rows []*routes
	for _, c := range calls {
		strategy, why := whyModel(c)
		name := c.Provider + "/" + c.Model
		i := slices.IndexFunc(rows, func(r *routes) bool { return r.agent == c.Agent && r.model == name && r.strategy == strategy })
		if i < 0 {
			rows = append(rows, &routes{agent: c.Agent, model: name, strategy: strategy, why: why[0]})
			i = len(rows) - 1
		}
		rows[i].calls++
	}
	fmt.Fprintln(a.out)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tMODEL\tCALLS\tSTRATEGY\tWHY THIS MODEL")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", r.agent, terminal.Clean(r.model), r.calls, r.strategy, terminal.OneLine(r.why))
	}
	_ = w.Flush()
	fmt.Fprintf(a.out, "Reasons of each call: rgpt run inspect %d --verbose\n", run)
}

// whyModel returns the strategy that chose the model of a call, and at least one reason.
func whyModel(c views.ModelCall) (strategy string, why []string) {
	if c.Route == nil || len(c.Route.Reasons) == 0 {
		return "unknown", []string{"the reasons were not recorded"}
	}
	return string(c.Route.Strategy), c.Route.Reasons
}

// printRoute prints a model call with all reasons for its model.
func (a *app) printRoute(c views.ModelCall) {
	where := fmt.Sprintf("%s, attempt %d, turn %d", strings.TrimSpace(string(c.Agent)+" "+terminal.Clean(c.Step)), c.Attempt, c.Turn)
	strategy, why := whyModel(c)
	cost := "cost $" + report.Cost(c.Usage)
	if c.Route != nil && c.Route.ExpectedMicroUSD > 0 {
		cost += ", expected $" + contract.MarkEstimated(report.Dollars(c.Route.ExpectedMicroUSD), c.Route.Assumed)
	}
	fmt.Fprintf(a.out, "\n%s: %s/%s by strategy %s (%s, %s)\n", where, terminal.Clean(c.Provider), terminal.Clean(c.Model), strategy, c.Status, cost)
	for _, reason := range why {
		fmt.Fprintf(a.out, "  because %s\n", terminal.OneLine(reason))
	}
	if c.Route == nil {
		return
	}
	for i, m := range c.Route.Considered {
		fmt.Fprintf(a.out, "  %d. %s/%s: %s\n", i+1, terminal.Clean(m.Provider), terminal.Clean(m.Model), terminal.OneLine(candidateText(m)))
	}
	for _, m := range c.Route.PassedOver {
		fmt.Fprintf(a.out, "  not %s/%s: %s\n", terminal.Clean(m.Provider), terminal.Clean(m.Model), terminal.OneLine(m.Why))
	}
}

// candidateText describes a model that a decision compared.
func candidateText(m contract.RouteCandidate) string {
	text := "expected cost $" + contract.MarkEstimated(report.Dollars(m.ExpectedMicroUSD), m.Assumed)
	text += fmt.Sprintf(", quality %.2f (%s)", m.Quality, m.Basis)
	if m.Value > 0 {
		text += fmt.Sprintf(", value %.3f", m.Value)
	}
	return text
}

func (a *app) printDetails(d views.RunDetails) {
	fmt.Fprintf(a.out, "Run %d: %s\n%s at %.12s, project %s\n", d.ID, terminal.Clean(d.GoalTitle), terminal.Clean(d.Repo), d.BaseCommit, terminal.Clean(d.Project))
	if i := d.Settings.Issue; i != nil {
		fmt.Fprintf(a.out, "issue %s (%s)\n", terminal.Clean(i.String()), terminal.Clean(i.URL))
	}
	fmt.Fprintln(a.out)
	if len(d.Labels) > 0 {
		fmt.Fprintf(a.out, "Labels: %s\n\n", terminal.Clean(strings.Join(d.Labels, ", ")))
	}
	if of := d.Settings.Attempt; of != nil {
		fmt.Fprintf(a.out, "Attempt %d of %d at this goal; see rgpt run attempts %d\n\n", of.Number, of.Of, d.ID)
	}
	if d.FilesDeletedAt != nil {
		fmt.Fprintf(a.out, "Its files were deleted by retention on %s; it can no longer be repeated.\n\n", d.FilesDeletedAt.UTC().Format(time.DateOnly))
	}
	if d.Hold != nil {
		fmt.Fprintf(a.out, "On hold: %s keeps its files: %s\n\n", terminal.Clean(d.Hold.By), terminal.Clean(d.Hold.Reason))
	}
	if d.Environment != nil {
		a.printPreparation(d)
		fmt.Fprintln(a.out)
	}
	if p, ok := planOf(d); ok {
		printPlan(a.out, p)
		fmt.Fprintln(a.out)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tSTEP\tATTEMPT\tSTATUS\tTURNS\tTOKENS\tTOOK")
	for _, e := range d.Executions {
		took := "…"
		if e.FinishedAt != nil {
			took = e.FinishedAt.Sub(e.StartedAt).Round(time.Millisecond).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", e.Phase, terminal.Clean(e.Step), e.Attempt, e.Status, e.Turns, e.Usage.Tokens(), took)
	}
	_ = w.Flush()
	var tested struct {
		Warning string `json:"warning"`
	}
	if json.Unmarshal(d.TesterOutput, &tested) == nil && tested.Warning != "" {
		fmt.Fprintln(a.out, "Warning:", terminal.Clean(tested.Warning))
	}
	for _, f := range d.Findings {
		if !f.Resolved {
			fmt.Fprintf(a.out, "%s %s %s %s\n", f.Severity, f.Category, terminal.Clean(f.Location), terminal.Clean(f.Message))
		}
	}
	printReviews(a.out, d.Reviews)
	printGate(a.out, d.Gate)
	for _, h := range d.SelfHealEvents {
		fmt.Fprintf(a.out, "heal %d  %s  %s %s  %s: %s\n", h.Number, h.ErrorType, h.Phase, terminal.Clean(h.Step), h.HealAction, h.Status)
	}
	for _, c := range d.WaitingCalls {
		fmt.Fprintln(a.out, terminal.Clean(c.String()))
	}
	a.printQuestions(d)
	cached := ""
	if d.Usage.FromCache > 0 {
		cached = fmt.Sprintf(" (%d answered at no cost by the responses to identical requests of earlier runs)", d.Usage.FromCache)
	}
	fmt.Fprintf(a.out, "\n%d model calls%s, %d tokens, $%s; %d artifacts (rgpt run artifacts %d)\n",
		d.Usage.Calls, cached, d.Usage.Tokens(), report.Cost(d.Usage), len(d.Artifacts), d.ID)
	for _, b := range d.Budgets {
		a.printBudget(b)
	}
}

// printQuestions prints the open questions of a run to people.
func (a *app) printQuestions(d views.RunDetails) {
	for _, q := range d.Approvals {
		a.printApproval(q)
		if q.Status == "pending" {
			fmt.Fprintf(a.out, "waiting for an answer to %s%s\n", terminal.Clean(q.ID), reminderWords(q.Deadline, q.Reminders))
		}
		if q.Input != nil {
			printInput(a.out, d.ID, *q.Input)
		}
	}
	for _, i := range d.Interventions {
		if i.Status == "open" {
			fmt.Fprintf(a.out, "waiting for a person: %s\n  to do: %s (rgpt run interventions %d)\n", terminal.Clean(i.Reason), terminal.Clean(i.ActionRequired), d.ID)
			if words := reminderWords(i.Deadline, i.Reminders); words != "" {
				fmt.Fprintf(a.out, "  %s\n", strings.TrimPrefix(words, "; "))
			}
		}
	}
}

// printApproval prints who was asked to approve what exactly, and the answer.
func (a *app) printApproval(q views.Approval) {
	if q.Kind == contract.AskInput {
		return
	}
	fmt.Fprintf(a.out, "approval of the %s: %s", terminal.Clean(q.Kind), q.Status)
	if q.By != "" {
		fmt.Fprintf(a.out, " by %s", terminal.Clean(q.By))
	}
	if q.DecidedAt != nil {
		fmt.Fprintf(a.out, " on %s", q.DecidedAt.UTC().Format("2006-01-02 15:04 UTC"))
	}
	fmt.Fprintln(a.out)
	if q.Subject != "" {
		fmt.Fprintf(a.out, "  asked about %s\n", terminal.Clean(q.Subject))
	}
	if q.Approved != "" && q.Approved != q.Subject {
		fmt.Fprintf(a.out, "  approved %s\n", terminal.Clean(q.Approved))
	}
	if q.VerdictID == 0 {
		return
	}
	fmt.Fprintf(a.out, "  gate %d, %d findings, policies %s\n", q.VerdictID, len(q.Findings), terminal.Clean(q.Policy))
	for _, r := range q.Reasons {
		fmt.Fprintf(a.out, "  because %s\n", terminal.OneLine(r.String()))
	}
	for _, f := range q.Files[:min(len(q.Files), shownFiles)] {
		fmt.Fprintf(a.out, "  %-8s %s (+%d -%d)\n", f.Status, terminal.Clean(f.Path), f.Added, f.Removed)
	}
	if more := q.FilesTotal - min(len(q.Files), shownFiles); more > 0 {
		fmt.Fprintf(a.out, "  and %d more files (--json lists up to %d)\n", more, contract.MaxGateFiles)
	}
}

// shownFiles is the number of files of an approval that are printed.
const shownFiles = 20

// reminderWords describes an open question's deadline and its last and next reminder.
func reminderWords(deadline *time.Time, all []views.Reminder) string {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
	words := ""
	if deadline != nil {
		words += "; deadline " + at(*deadline)
	}
	if last := views.LastReminder(all); last != nil {
		words += "; last reminder " + at(*last.SentAt)
	}
	if next := views.NextReminder(all); next != nil {
		what := "; next reminder "
		if next.Escalation {
			what = "; next escalation "
		}
		words += what + at(next.At)
		if len(next.To) > 0 {
			words += " to " + terminal.Clean(strings.Join(next.To, ", "))
		}
	}
	return words
}

// printBudget prints what a budget with a limit has spent and reserved.
func (a *app) printBudget(b views.BudgetState) {
	var parts []string
	part := func(spent, reserved, limit int64, estimated bool, amount func(int64) string) {
		if limit <= 0 {
			return
		}
		text := fmt.Sprintf("%s of %s", contract.MarkEstimated(amount(spent), estimated), amount(limit))
		if reserved > 0 {
			text += fmt.Sprintf(" (%s reserved)", amount(reserved))
		}
		parts = append(parts, text)
	}
	part(b.SpentTokens, b.ReservedTokens, b.LimitTokens, false, func(n int64) string { return fmt.Sprintf("%d tokens", n) })
	part(b.SpentMicros, b.ReservedMicros, b.LimitMicros, b.Estimated, func(n int64) string { return "$" + report.Dollars(n) })
	if len(parts) == 0 {
		return
	}
	if left := b.Left(); left != "" {
		parts = append(parts, left+" left")
	}
	warned := ""
	if b.Warned {
		warned = "; nearly used up"
	}
	fmt.Fprintf(a.out, "budget for %s: %s%s\n", terminal.Clean(store.Scope{Kind: b.Kind, Key: b.Key}.Whose()), strings.Join(parts, ", "), warned)
}

const (
	formatMarkdown = "markdown"
	formatJSON     = "json"
)

func newRunExport(a *app) *cobra.Command {
	var format, file string
	cmd := &cobra.Command{
		Use: "export RUN", Short: "Write a run's report as Markdown or JSON", Args: oneRun,
		Example: `  rgpt run export 42 --output report.md
  rgpt run export 42 --format json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.json {
				format = formatJSON
			}
			if err := oneOf("format", format, []string{formatMarkdown, formatJSON}); err != nil {
				return err
			}
			return a.withRun(cmd.Context(), args[0], 0, func(_ backend.Backend, d views.RunDetails) error {
				text := []byte(report.Markdown(d, ""))
				if format == formatJSON {
					var err error
					if text, err = report.JSON(d); err != nil {
						return err
					}
				}
				if file == "" || file == "-" {
					_, err := a.out.Write(text)
					return err
				}
				if err := os.WriteFile(file, text, 0o600); err != nil {
					return usageError{fmt.Errorf("cannot write the report: %w", err)}
				}
				return nil
			})
		},
	}
	complete(cmd, "format", []string{formatMarkdown, formatJSON})
	cmd.Flags().StringVar(&format, "format", formatMarkdown, "markdown or json")
	cmd.Flags().StringVar(&file, "output", "", "file to write (default: standard output)")
	return cmd
}

func newRunArtifacts(a *app) *cobra.Command {
	var get, folder string
	cmd := &cobra.Command{
		Use: "artifacts RUN", Short: "List or download a run's files", Args: oneRun,
		Example: `  rgpt run artifacts 42
  rgpt run artifacts 42 --get report.md
  rgpt run artifacts 42 --folder out`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRun(cmd.Context(), args[0], backend.NeedArtifacts, func(h backend.Backend, d views.RunDetails) error {
				switch {
				case get != "":
					return a.getArtifact(cmd.Context(), h, d, get, folder)
				case folder != "":
					return a.getArtifacts(cmd.Context(), h, d, folder)
				}
				a.printArtifacts(d)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&get, "get", "", "name of a file to download; its content is printed unless --folder is set")
	cmd.Flags().StringVar(&folder, "folder", "", "directory to write the files to: all files, or only the one named with --get")
	return cmd
}

func (a *app) printArtifacts(d views.RunDetails) {
	if a.json {
		a.printJSON(map[string]any{"artifacts": d.Artifacts})
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTYPE\tBYTES\tDIGEST\tMISSING")
	for _, f := range d.Artifacts {
		fmt.Fprintf(w, "%s\t%s\t%d\t%.19s\t%s\n", terminal.Clean(f.Name), f.Type, f.Size, f.Digest, terminal.Clean(f.Missing()))
	}
	_ = w.Flush()
}

func (a *app) getArtifact(ctx context.Context, h backend.Backend, d views.RunDetails, name, folder string) error {
	for _, f := range d.Artifacts {
		if f.Name != name {
			continue
		}
		if folder != "" {
			d.Artifacts = []contract.Artifact{f}
			return a.getArtifacts(ctx, h, d, folder)
		}
		r, err := h.File(ctx, f)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(a.out, r)
		return err
	}
	return fault.New(contract.ClassHuman, store.CodeNotFound, "run %d has no artifact named %q; see rgpt run artifacts %d", d.ID, name, d.ID)
}

// written is the result of writing an artifact to a directory.
type written struct {
	Name  string `json:"name"`
	File  string `json:"file,omitempty"`
	Error string `json:"error,omitempty"`
}

// getArtifacts writes files below a directory. Their names come from repositories, so none of them
// may lead outside the directory. If one file cannot be written, the others still are.
func (a *app) getArtifacts(ctx context.Context, h backend.Backend, d views.RunDetails, folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return usageError{fmt.Errorf("cannot create the directory %s: %w", folder, err)}
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return usageError{fmt.Errorf("cannot open the directory %s: %w", folder, err)}
	}
	defer root.Close()
	files := make([]written, 0, len(d.Artifacts))
	failed := 0
	for _, f := range d.Artifacts {
		w := written{Name: f.Name, File: filepath.Join(folder, f.Name)}
		if why := f.Missing(); why != "" {
			files = append(files, written{Name: f.Name, Error: "it was " + why})
			continue
		}
		if err := writeArtifact(ctx, h, root, f); err != nil {
			failed++
			w.File, w.Error = "", err.Error()
		}
		files = append(files, w)
	}
	a.printWritten(files)
	if failed > 0 {
		return ended{exitError}
	}
	return nil
}

func (a *app) printWritten(files []written) {
	if a.json {
		a.printJSON(map[string]any{"files": files})
		return
	}
	for _, f := range files {
		if f.Error != "" {
			fmt.Fprintf(a.errs, "rgpt: %s was not written: %s\n", terminal.Clean(f.Name), terminal.Clean(f.Error))
			continue
		}
		fmt.Fprintln(a.out, terminal.Clean(f.File))
	}
}

// checkName rejects names that are not paths below a directory, and names inside a git directory.
func checkName(name string) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return errors.New("its path leads outside the directory")
	}
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if strings.EqualFold(part, ".git") {
			return errors.New("its path leads into a git directory")
		}
	}
	return nil
}

func writeArtifact(ctx context.Context, h backend.Backend, root *os.Root, f contract.Artifact) error {
	if err := checkName(f.Name); err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.Dir(f.Name), 0o750); err != nil {
		return err
	}
	r, err := h.File(ctx, f)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := root.Create(f.Name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}

func newRunTiming(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "timing RUN", Short: "Show how a run spent its time: model, tools, tests, git, queue, orchestration", Args: oneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := runID(args[0])
			if err != nil {
				return err
			}
			h, err := a.open(cmd.Context(), 0)
			if err != nil {
				return err
			}
			defer h.Close()
			t, err := h.Timing(cmd.Context(), id)
			if err != nil {
				return err
			}
			a.noteTiming(t)
			if a.json {
				a.printJSON(t.Timing)
				return nil
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "WHERE\tCALLS\tBUSY\tOF WALL TIME\t")
			for _, part := range t.Parts {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.0f %%\n", part.Name, part.Count, ms(part.BusyMS), ms(part.WallMS), 100*float64(part.WallMS)/float64(max(t.WallMS, 1)))
			}
			fmt.Fprintf(w, "wall\t\t\t%s\t\n", ms(t.WallMS))
			fmt.Fprintf(w, "agents' critical path\t\t\t%s\tratio %.2f\n", ms(t.CriticalMS), t.Ratio)
			return w.Flush()
		},
	}
}

// noteTiming prints the limitations of a run's timing.
func (a *app) noteTiming(t control.Timing) {
	switch {
	case t.Note != "" && t.Unknown != nil:
		fmt.Fprintf(a.errs, "Note: %s: %s\n", t.Note, terminal.CleanLines(fault.Of(t.Unknown).Message))
	case t.Note != "":
		fmt.Fprintln(a.errs, "Note:", terminal.Clean(t.Note))
	}
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }
