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

// planIfAny returns the plan of a run; nil: it has none yet.
func (v *Views) planIfAny(ctx context.Context, runID int64) (*contract.Plan, error) {
	plan, err := v.store.Plan(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // as documented
	}
	return &plan, err
}

// addToOutputs adds data from separate tables to the outputs of phases: the plan, the test cases and the
// names of the tester's artifacts.
func addToOutputs(d *RunDetails, plan *contract.Plan, checks []store.Check) (err error) {
	if plan != nil {
		if d.PlannerOutput, err = with(d.PlannerOutput, map[string]any{"plan": *plan}); err != nil {
			return err
		}
	}
	tested := lastTested(d.Executions)
	if tested == 0 {
		return nil
	}
	result := testResult(d, tested, checks)
	more := map[string]any{"summary": result.Summary, "results": result.Results, "artifacts": result.Artifacts}
	if result.Coverage != nil {
		more["coverage"] = result.Coverage
	}
	d.TesterOutput, err = with(d.TesterOutput, more)
	return err
}

// lastTested returns the last execution of the tester; 0: there is none yet.
func lastTested(executions []store.Execution) (last int64) {
	for _, e := range executions {
		if e.Phase == contract.PhaseTester && e.Step == "" {
			last = e.ID
		}
	}
	return last
}

// testResult summarizes an execution of the tester.
func testResult(d *RunDetails, execution int64, checks []store.Check) contract.TestResult {
	out := contract.TestResult{Results: []contract.TestCase{}, Artifacts: []string{}}
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
		if a.ExecutionID == execution && strings.HasPrefix(a.Name, "tester/") {
			out.Artifacts = append(out.Artifacts, a.Name)
		}
	}
	out.Coverage = contract.MergeCoverage(all)
	return out
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
