package views

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// Outputs are the last outputs of a run's phases, as JSON; nil: no output yet.
type Outputs struct {
	Planner, Builder, Tester, Releaser json.RawMessage
}

// Outputs returns the last outputs of a run's phases.
func (v *Views) Outputs(ctx context.Context, runID int64) (Outputs, error) {
	row, err := v.q.RunOutputs(ctx, runID)
	return Outputs{row.PlannerOutput, row.BuilderOutput, row.TesterOutput, row.ReleaserOutput}, dberr.OfRun(err, runID, "read the outputs of run %d", runID)
}

// outputs adds data from separate tables to the outputs of phases: the plan, the test cases and the
// names of the tester's artifacts.
func (v *Views) outputs(ctx context.Context, d *RunDetails) error {
	plan, err := v.store.Plan(ctx, d.ID)
	switch {
	case err == nil:
		if d.PlannerOutput, err = with(d.PlannerOutput, map[string]any{"plan": plan}); err != nil {
			return err
		}
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	result, ran, err := v.testResult(ctx, d)
	if err != nil || !ran {
		return err
	}
	more := map[string]any{"summary": result.Summary, "results": result.Results, "artifacts": result.Artifacts}
	if result.Coverage != nil {
		more["coverage"] = result.Coverage
	}
	d.TesterOutput, err = with(d.TesterOutput, more)
	return err
}

// testResult summarizes the last execution of the tester. It returns false if there is none yet.
func (v *Views) testResult(ctx context.Context, d *RunDetails) (contract.TestResult, bool, error) {
	out := contract.TestResult{Results: []contract.TestCase{}, Artifacts: []string{}}
	var last int64
	for _, e := range d.Executions {
		if e.Phase == contract.PhaseTester && e.Step == "" {
			last = e.ID
		}
	}
	if last == 0 {
		return out, false, nil
	}
	checks, err := v.store.Checks(ctx, last)
	if err != nil {
		return out, false, err
	}
	var all []contract.CheckResult
	for _, c := range checks {
		all = append(all, c.Result)
		if !c.Result.Counts() {
			continue
		}
		out.Summary = out.Summary.Add(c.Result.Summary)
		out.Results = append(out.Results, c.Cases...)
	}
	for _, a := range d.Artifacts {
		if a.ExecutionID == last && strings.HasPrefix(a.Name, "tester/") {
			out.Artifacts = append(out.Artifacts, a.Name)
		}
	}
	out.Coverage = contract.MergeCoverage(all)
	return out, true, nil
}

// with adds keys to a JSON object, which may be missing.
func with(doc json.RawMessage, more map[string]any) (json.RawMessage, error) {
	all := map[string]any{}
	if len(doc) > 0 && string(doc) != "null" {
		if err := json.Unmarshal(doc, &all); err != nil {
			return doc, err
		}
	}
	maps.Copy(all, more)
	return json.Marshal(all)
}
