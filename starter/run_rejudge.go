package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rocketgpt/orchestrator/activities"
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/verdict"
)

// rejudgeOrder says by what recorded results are judged again.
type rejudgeOrder struct {
	most contract.Thresholds
	pins string
	news string
}

func newRunRejudge(a *app) *cobra.Command {
	var o rejudgeOrder
	cmd := &cobra.Command{
		Use: "rejudge RUN", Short: "Judge a run's recorded plans and test results again, by other rules", Args: oneRun,
		Long: `Judges again what a run has recorded: the checks and findings of its last tester by the
thresholds given, those of the run where none is given, and its planner's answers by the rules of
this version. Nothing runs, no model is asked, and the run stays as it is. Exits with 2 when
something is worse than it was judged then.`,
		Example: `  rgpt run rejudge 42 --max-major 0
  rgpt run rejudge 42 --pinned-tests enforce --prove-new-tests enforce --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.rejudge(cmd, o, args[0]) },
	}
	cmd.Flags().IntVar(&o.most.MaxMajor, "max-major", 0, "major findings that a run may have (default: the run's findings.max_major)")
	cmd.Flags().IntVar(&o.most.MaxMedium, "max-medium", 0, "medium findings after which it warns (default: the run's findings.max_medium)")
	cmd.Flags().StringVar(&o.pins, "pinned-tests", "", "how changes of tests count (default: the run's verification.pinned_tests)")
	cmd.Flags().StringVar(&o.news, "prove-new-tests", "", "how new tests count that do not need their change (default: the run's verification.prove_new_tests)")
	complete(cmd, "pinned-tests", verdict.PinnedModes())
	complete(cmd, "prove-new-tests", verdict.NewModes())
	return cmd
}

// opinion is what was or is now thought of something recorded.
type opinion struct {
	OK      bool              `json:"ok"`
	Failure *contract.Failure `json:"failure,omitempty"`
}

func opinionOf(f *contract.Failure) opinion { return opinion{OK: f == nil, Failure: f} }

// retrial is something recorded that was judged again.
type retrial struct {
	What        string  `json:"what"` // planner (an answer), plan (the one that counts) or tester
	Attempt     int     `json:"attempt,omitempty"`
	ExecutionID int64   `json:"execution_id,omitempty"`
	Before      opinion `json:"before"`
	Now         opinion `json:"now"`
	Change      string  `json:"change"` // same, better or worse
	Major       int     `json:"major"`
	Medium      int     `json:"medium"`
	Minor       int     `json:"minor"`
	Warning     string  `json:"warning,omitempty"`
}

func (r *retrial) compare() {
	switch {
	case r.Before.OK == r.Now.OK:
		r.Change = "same"
	case r.Now.OK:
		r.Change = "better"
	default:
		r.Change = "worse"
	}
}

// retrials is what rgpt run rejudge found.
type retrials struct {
	RunID       int64               `json:"runId"`
	Thresholds  contract.Thresholds `json:"thresholds"`
	PinnedTests verdict.PinnedTests `json:"pinned_tests"`
	NewTests    verdict.NewTests    `json:"prove_new_tests"`
	Retrials    []retrial           `json:"retrials"`
	Worse       bool                `json:"worse"`
	Notes       []string            `json:"notes,omitempty"`

	unproved bool // the run did not look at its new tests
}

func (a *app) rejudge(cmd *cobra.Command, o rejudgeOrder, arg string) error {
	id, err := runID(arg)
	if err != nil {
		return err
	}
	for _, name := range []string{"max-major", "max-medium"} {
		if n, err := cmd.Flags().GetInt(name); err != nil || n < 0 {
			return usageError{fmt.Errorf("--%s %d: a number of findings, from 0", name, n)}
		}
	}
	if err := oneOf("pinned-tests", verdict.PinnedTests(o.pins), verdict.PinnedModes()); err != nil {
		return err
	}
	if err := oneOf("prove-new-tests", verdict.NewTests(o.news), verdict.NewModes()); err != nil {
		return err
	}
	p, err := a.open(cmd.Context(), 0)
	if err != nil {
		return err
	}
	defer p.Close()
	run, err := p.Store.Run(cmd.Context(), id)
	if err != nil {
		return err
	}
	out := retrials{RunID: id, Thresholds: run.Settings.Thresholds}
	if out.PinnedTests, out.NewTests, err = frozenModes(run); err != nil {
		return err
	}
	if cmd.Flags().Changed("max-major") {
		out.Thresholds.MaxMajor = o.most.MaxMajor
	}
	if cmd.Flags().Changed("max-medium") {
		out.Thresholds.MaxMedium = o.most.MaxMedium
	}
	out.unproved = !out.NewTests.On()
	if o.pins != "" {
		out.PinnedTests = verdict.PinnedTests(o.pins)
	}
	if o.news != "" {
		out.NewTests = verdict.NewTests(o.news)
	}
	if err := out.judge(cmd.Context(), p.Store, run); err != nil {
		return err
	}
	a.printRetrials(out)
	if out.Worse {
		return ended{exitFailed}
	}
	return nil
}

// frozenModes returns how changes of tests and new tests counted when the run was
// made.
func frozenModes(run store.Run) (verdict.PinnedTests, verdict.NewTests, error) {
	var spec setup.RunSpec
	if len(run.Spec) > 0 {
		if err := json.Unmarshal(run.Spec, &spec); err != nil {
			return "", "", fmt.Errorf("read the settings of run %d: %w", run.ID, err)
		}
	}
	return cmp.Or(spec.Verification.PinnedTests, verdict.PinnedOff), cmp.Or(spec.Verification.NewTests, verdict.NewOff), nil
}

func (r *retrials) judge(ctx context.Context, db *store.Store, run store.Run) error {
	executions, err := db.Executions(ctx, run.ID)
	if err != nil {
		return err
	}
	if err := r.plans(ctx, db, executions); err != nil {
		return err
	}
	if err := r.plan(ctx, db, run); err != nil {
		return err
	}
	if err := r.tests(ctx, db, executions); err != nil {
		return err
	}
	if len(r.Retrials) == 0 {
		return fault.New(contract.ClassHuman, contract.CodeUnknown, "run %d has recorded nothing that could be judged again: no plan, and no tester that came to a verdict", run.ID)
	}
	for i := range r.Retrials {
		r.Retrials[i].compare()
		r.Worse = r.Worse || r.Retrials[i].Change == "worse"
	}
	return nil
}

// plans judges each answer of the planner that was taken or refused as a plan.
func (r *retrials) plans(ctx context.Context, db *store.Store, executions []store.Execution) error {
	for _, e := range executions {
		refused := e.Failure != nil && (e.Failure.Class == contract.ClassLLM || e.Failure.Class == contract.ClassLogic)
		if e.Phase != contract.PhasePlanner || e.Step != "" || e.Status != contract.ExecutionCompleted && !refused {
			continue
		}
		answer, err := db.Answer(ctx, e.ID, 1)
		if errors.Is(err, store.ErrNotFound) {
			continue // a plan that came with the run
		}
		if err != nil {
			return err
		}
		r.Retrials = append(r.Retrials, retrial{
			What: "planner", Attempt: e.Attempt, ExecutionID: e.ID, Before: opinionOf(e.Failure), Now: opinionOf(fault.Of(activities.JudgePlan(answer))),
		})
	}
	return nil
}

// plan judges the plan that counts, whoever wrote it. It was accepted once.
func (r *retrials) plan(ctx context.Context, db *store.Store, run store.Run) error {
	plan, err := db.Plan(ctx, run.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Retrials = append(r.Retrials, retrial{What: "plan", Before: opinion{OK: true}, Now: opinionOf(fault.Of(verdict.Plan(plan)))})
	return nil
}

// tests judges the last execution of the tester that came to a verdict.
func (r *retrials) tests(ctx context.Context, db *store.Store, executions []store.Execution) error {
	for _, e := range slices.Backward(executions) {
		judged := e.Status == contract.ExecutionCompleted || e.Status == contract.ExecutionFailed && verdict.Judged(e.Failure)
		if e.Phase != contract.PhaseTester || e.Step != "" || !judged {
			continue
		}
		recorded, err := recordedChecks(ctx, db, e)
		if err != nil {
			return err
		}
		was := func(id string) bool {
			return slices.ContainsFunc(recorded, func(c verdict.Recorded) bool { return c.Result.Check.ID == id })
		}
		if r.PinnedTests.On() && !was(contract.CheckPinnedTests) {
			r.Notes = append(r.Notes, "what the change did to tests is not known: it was not compared (verification.pinned_tests was off)")
		}
		if r.NewTests.On() && r.unproved {
			r.Notes = append(r.Notes, "whether new tests fail without the change is not known: they were not run without it (verification.prove_new_tests was off)")
		}
		now := verdict.Again(recorded, r.Thresholds, verdict.Modes{Pinned: r.PinnedTests, New: r.NewTests})
		r.Retrials = append(r.Retrials, retrial{
			What: "tester", Attempt: e.Attempt, ExecutionID: e.ID, Before: opinionOf(e.Failure), Now: opinionOf(now.Failure),
			Major: now.Major, Medium: now.Medium, Minor: now.Minor, Warning: now.Warning,
		})
		return nil
	}
	r.Notes = append(r.Notes, "no tester of this run came to a verdict")
	return nil
}

// recordedChecks returns the checks of an execution, each with its findings.
func recordedChecks(ctx context.Context, db *store.Store, e store.Execution) ([]verdict.Recorded, error) {
	checks, err := db.Checks(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	findings, err := db.Findings(ctx, e.RunID)
	if err != nil {
		return nil, err
	}
	out := make([]verdict.Recorded, len(checks))
	for i, c := range checks {
		out[i].Result = c.Result
		for _, f := range findings {
			if f.ExecutionID == e.ID && f.CheckID == c.Result.Check.ID {
				out[i].Findings = append(out[i].Findings, f.Finding)
			}
		}
	}
	return out, nil
}

func (a *app) printRetrials(out retrials) {
	if a.json {
		a.printJSON(out)
		return
	}
	fmt.Fprintf(a.out, "Run %d, judged with at most %d major and %d medium findings, pinned tests: %s, new tests: %s\n",
		out.RunID, out.Thresholds.MaxMajor, out.Thresholds.MaxMedium, out.PinnedTests, out.NewTests)
	for _, r := range out.Retrials {
		name := r.What
		if r.Attempt > 0 {
			name = fmt.Sprintf("%s, attempt %d", r.What, r.Attempt)
		}
		fmt.Fprintf(a.out, "%s: %s\n  then: %s\n  now:  %s\n", name, r.Change, r.Before, r.Now)
		if r.What == "tester" {
			fmt.Fprintf(a.out, "  findings: %d major, %d medium, %d minor\n", r.Major, r.Medium, r.Minor)
		}
		if r.Warning != "" {
			fmt.Fprintf(a.out, "  warning: %s\n", clean(r.Warning))
		}
	}
	for _, n := range out.Notes {
		fmt.Fprintf(a.out, "Note: %s\n", n)
	}
}

// String says what an opinion is to people.
func (o opinion) String() string {
	switch {
	case o.OK:
		return "good"
	case o.Failure == nil:
		return "bad"
	default:
		return clean(o.Failure.Error())
	}
}
