package control

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/runs/verdict"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store"
)

// Rules are the rules for judging recorded results again. Missing rules are taken from the run.
type Rules struct {
	MaxMajor    *int                `json:"max_major,omitempty" minimum:"0" doc:"maximum number of major findings; default: the run's findings.max_major"`
	MaxMedium   *int                `json:"max_medium,omitempty" minimum:"0" doc:"maximum number of medium findings without a warning; default: the run's findings.max_medium"`
	PinnedTests verdict.PinnedTests `json:"pinned_tests,omitempty" doc:"how to treat changed tests; default: the run's verification.pinned_tests"`
	NewTests    verdict.NewTests    `json:"prove_new_tests,omitempty" doc:"how to treat new tests that pass without the change; default: the run's verification.prove_new_tests"`
	Policy      string              `json:"policy,omitempty" doc:"built-in policy of the gate: default, strict or permissive; default: the run's gate.policy"`
	Policies    map[string]string   `json:"policies,omitempty" doc:"an operator's policies in Rego, contents by file name, in place of those that the run began with"`
}

// Check returns an error for rules that are not valid.
func (r Rules) Check() error {
	switch {
	case r.MaxMajor != nil && *r.MaxMajor < 0, r.MaxMedium != nil && *r.MaxMedium < 0:
		return wrong("max_major and max_medium must be 0 or more")
	case r.PinnedTests != "" && !slices.Contains(verdict.PinnedModes(), r.PinnedTests):
		return wrong("pinned_tests %q is invalid; must be one of %v", r.PinnedTests, verdict.PinnedModes())
	case r.NewTests != "" && !slices.Contains(verdict.NewModes(), r.NewTests):
		return wrong("prove_new_tests %q is invalid; must be one of %v", r.NewTests, verdict.NewModes())
	case len(r.Policies) > policy.MaxModules || sizeOf(r.Policies) > policy.MaxModuleBytes:
		return wrong("policies are too large; at most %d files and %d KiB together", policy.MaxModules, policy.MaxModuleBytes>>10)
	case r.Policy != "" && !slices.Contains(policy.Names(), r.Policy):
		return wrong("policy %q is invalid; must be one of %v", r.Policy, policy.Names())
	}
	return nil
}

// sizeOf returns the number of bytes of files.
func sizeOf(files map[string]string) (n int) {
	for name, content := range files {
		n += len(name) + len(content)
	}
	return n
}

// Rejudge judges the recorded results of a run again under different rules. It runs no checks,
// calls no model, and does not change the run.
func (r *Runs) Rejudge(ctx context.Context, id int64, rules Rules) (Retrials, error) {
	if err := rules.Check(); err != nil {
		return Retrials{}, err
	}
	run, err := r.Store.Run(ctx, id)
	if err != nil {
		return Retrials{}, err
	}
	out := Retrials{RunID: id, Thresholds: run.Settings.Thresholds}
	if out.PinnedTests, out.NewTests, err = frozenModes(run); err != nil {
		return out, err
	}
	out.unproved = !out.NewTests.On()
	if rules.MaxMajor != nil {
		out.Thresholds.MaxMajor = *rules.MaxMajor
	}
	if rules.MaxMedium != nil {
		out.Thresholds.MaxMedium = *rules.MaxMedium
	}
	out.PinnedTests, out.NewTests = cmp.Or(rules.PinnedTests, out.PinnedTests), cmp.Or(rules.NewTests, out.NewTests)
	return out, r.judge(ctx, &out, run, rules)
}

// Opinion is the original or the current verdict on a recorded result.
type Opinion struct {
	OK      bool              `json:"ok"`
	Failure *contract.Failure `json:"failure,omitempty"`
}

func opinionOf(f *contract.Failure) Opinion { return Opinion{OK: f == nil, Failure: f} }

// Retrial is a recorded result with its original and its new verdict.
type Retrial struct {
	What        string  `json:"what"` // planner (a response), plan (the current plan), tester or gate (a change)
	Attempt     int     `json:"attempt,omitempty"`
	ExecutionID int64   `json:"execution_id,omitempty"`
	Before      Opinion `json:"before"`
	Now         Opinion `json:"now"`
	Change      string  `json:"change"` // same, better or worse
	Major       int     `json:"major"`
	Medium      int     `json:"medium"`
	Minor       int     `json:"minor"`
	Warning     string  `json:"warning,omitempty"`
	// Gate is the verdict of the policy gate, if What is gate.
	Gate *GateRetrial `json:"gate,omitempty"`
}

func (r *Retrial) compare() {
	switch {
	case r.Gate != nil:
		r.Change = r.Gate.change()
	case r.Before.OK == r.Now.OK:
		r.Change = "same"
	case r.Now.OK:
		r.Change = "better"
	default:
		r.Change = "worse"
	}
}

// Retrials is the result of judging a run again.
type Retrials struct {
	RunID       int64               `json:"runId"`
	Thresholds  contract.Thresholds `json:"thresholds"`
	PinnedTests verdict.PinnedTests `json:"pinned_tests"`
	NewTests    verdict.NewTests    `json:"prove_new_tests"`
	Policy      string              `json:"policy,omitempty"` // the gate's built-in policy; empty: no verdict of the gate
	Retrials    []Retrial           `json:"retrials"`
	Worse       bool                `json:"worse"`
	Notes       []string            `json:"notes,omitempty"`

	unproved bool // the run did not verify its new tests
}

// frozenModes returns the modes for changes of tests and new tests as of the creation of the run.
func frozenModes(run store.Run) (verdict.PinnedTests, verdict.NewTests, error) {
	spec, err := setup.ReadRunSpec(run)
	if err != nil {
		return "", "", err
	}
	return cmp.Or(spec.Verification.PinnedTests, verdict.PinnedOff), cmp.Or(spec.Verification.NewTests, verdict.NewOff), nil
}

func (r *Runs) judge(ctx context.Context, out *Retrials, run store.Run, rules Rules) error {
	executions, err := r.Store.Executions(ctx, run.ID)
	if err != nil {
		return err
	}
	if err := out.plans(ctx, r.Store, executions); err != nil {
		return err
	}
	if err := out.plan(ctx, r.Store, run); err != nil {
		return err
	}
	if err := out.tests(ctx, r.Store, executions); err != nil {
		return err
	}
	if err := r.rejudgeGate(ctx, out, run, rules); err != nil {
		return err
	}
	if len(out.Retrials) == 0 {
		return fault.New(contract.ClassHuman, contract.CodeUnknown,
			"run %d cannot be judged again: it has no recorded plan, no tester reached a verdict, and the policy gate judged no change", run.ID)
	}
	for i := range out.Retrials {
		out.Retrials[i].compare()
		out.Worse = out.Worse || out.Retrials[i].Change == "worse"
	}
	return nil
}

// plans judges each response of the planner that was accepted or rejected as a plan.
func (r *Retrials) plans(ctx context.Context, db *store.Store, executions []store.Execution) error {
	for _, e := range executions {
		refused := e.Failure != nil && (e.Failure.Class == contract.ClassLLM || e.Failure.Class == contract.ClassLogic)
		if e.Phase != contract.PhasePlanner || e.Step != "" || e.Status != contract.ExecutionCompleted && !refused {
			continue
		}
		answer, err := db.Answer(ctx, e.ID, 1)
		if errors.Is(err, store.ErrNotFound) {
			continue // the plan was part of the request
		}
		if err != nil {
			return err
		}
		r.Retrials = append(r.Retrials, Retrial{
			What: "planner", Attempt: e.Attempt, ExecutionID: e.ID, Before: opinionOf(e.Failure), Now: opinionOf(fault.Of(verdict.RecordedPlan(answer))),
		})
	}
	return nil
}

// plan judges the current plan, regardless of its author. It was accepted originally.
func (r *Retrials) plan(ctx context.Context, db *store.Store, run store.Run) error {
	plan, err := db.Plan(ctx, run.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Retrials = append(r.Retrials, Retrial{What: "plan", Before: Opinion{OK: true}, Now: opinionOf(fault.Of(verdict.Plan(plan)))})
	return nil
}

// tests judges the last execution of the tester that reached a verdict.
func (r *Retrials) tests(ctx context.Context, db *store.Store, executions []store.Execution) error {
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
			r.Notes = append(r.Notes, "changes to tests are unknown: the tests were not compared (verification.pinned_tests was off)")
		}
		if r.NewTests.On() && r.unproved {
			r.Notes = append(r.Notes, "new tests were not run without the change (verification.prove_new_tests was off), so it is unknown whether they fail without it")
		}
		now := verdict.Rejudge(recorded, r.Thresholds, verdict.Modes{Pinned: r.PinnedTests, New: r.NewTests})
		r.Retrials = append(r.Retrials, Retrial{
			What: "tester", Attempt: e.Attempt, ExecutionID: e.ID, Before: opinionOf(e.Failure), Now: opinionOf(now.Failure),
			Major: now.Major, Medium: now.Medium, Minor: now.Minor, Warning: now.Warning,
		})
		return nil
	}
	r.Notes = append(r.Notes, "no tester of this run reached a verdict")
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
