package activities

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// refuseToFinish returns the result of a call to finish whose checks failed: what failed, and how to
// read the rest.
func (a *Activities) refuseToFinish(ctx context.Context, in contract.ToolInput) (tool.Result, error) {
	stored, err := a.Store.Checks(ctx, in.Execution.ID)
	if err != nil {
		return tool.Result{}, err
	}
	findings, err := a.Store.Findings(ctx, in.Execution.RunID)
	if err != nil {
		return tool.Result{}, err
	}
	all, err := a.Store.Artifacts(ctx, in.Execution.RunID)
	if err != nil {
		return tool.Result{}, err
	}
	const most = 2 * reportBytes
	var b strings.Builder
	b.WriteString("Not finished: these checks fail, and did not fail in this way before the change.\n\n")
	for _, c := range stored {
		if !slices.Contains(in.Failed, c.Result.Check.ID) {
			continue
		}
		var own []contract.Finding
		for _, f := range findings {
			if f.ExecutionID == in.Execution.ID && f.CheckID == c.Result.Check.ID && !f.Resolved {
				own = append(own, f.Finding)
			}
		}
		b.WriteString(clipped(describeCheck(c.Result, c.Cases, own), most/len(in.Failed)) + "\n")
		if name := logName(all, in.Execution.ID, c.LogDigest); name != "" {
			fmt.Fprintf(&b, "[the whole output: read_output {\"id\": %q}]\n", name)
		}
		b.WriteByte('\n')
	}
	b.WriteString("Fix what your change broke, then call finish again. If a failure is not caused by the change, or cannot be fixed here, call finish again and explain it in the summary.")
	return tool.Result{Code: contract.CodeCheckFailed, Text: b.String()}, nil
}

// logName returns the name of a log of an execution with a digest, or "".
func logName(all []contract.Artifact, execution int64, digest string) string {
	for _, f := range all {
		if digest != "" && f.ExecutionID == execution && f.Type == contract.ArtifactLog && f.Digest == digest && f.Missing() == "" {
			return f.Name
		}
	}
	return ""
}

// checkPrefix returns the beginning of the names of a check's files. The checks of an agent may run
// for several states of its files.
func checkPrefix(in contract.VerifyInput) string {
	switch {
	case in.Baseline != "":
		return contract.StepBaseline + "/" + in.Check.ID + "/"
	case in.Execution.Step != "":
		return fmt.Sprintf("%s/%d/%.8s/%s/", in.Execution.Step, in.Execution.Attempt, in.Workspace.Tree, in.Check.ID)
	}
	return fmt.Sprintf("tester/%d/%s/", in.Execution.Attempt, in.Check.ID)
}

// verified returns the result of a check that the same execution has already carried out on the same
// files.
func (a *Activities) verified(ctx context.Context, in contract.VerifyInput) (known contract.CheckResult, found bool, err error) {
	stored, err := a.Store.Checks(ctx, in.Execution.ID)
	for _, c := range stored {
		if c.Result.Tree == in.Workspace.Tree && sameCheck(c.Result.Check, in.Check) && reusable(c.Result) {
			return c.Result, true, nil
		}
	}
	return known, false, err
}

// reusable reports whether a result depends only on the files that were judged.
func reusable(r contract.CheckResult) bool { return !slices.Contains(passing, r.Code) && !r.Skipped }

// sameCheck reports whether two checks carry out the same.
func sameCheck(a, b contract.Check) bool { return reflect.DeepEqual(a, b) }

// reuseChecks moves the checks from a plan of the tester that an agent's checks before it finished
// have carried out on the same files, and stores their results for the tester. The tester carries out
// all checks itself when it is repeated for the same files.
func (a *Activities) reuseChecks(ctx context.Context, in contract.TestPlanInput, run store.Run, plan *contract.TestPlanResult) error {
	known, from, err := a.checksOfAgents(ctx, in, run)
	if err != nil || len(known) == 0 {
		return err
	}
	var stages [][]contract.Check
	for _, stage := range plan.Stages {
		var open []contract.Check
		for _, c := range stage {
			i := slices.IndexFunc(known, func(k store.Check) bool { return sameCheck(k.Result.Check, c) })
			if i < 0 {
				open = append(open, c)
				continue
			}
			if err := a.adoptCheck(ctx, in, from, known[i]); err != nil {
				return err
			}
			plan.Done = append(plan.Done, known[i].Result)
		}
		if len(open) > 0 {
			stages = append(stages, open)
		}
	}
	if plan.Stages = stages; contract.BuildFailed(plan.Done) {
		plan.Stages = nil // a change that does not build cannot be tested
	}
	return nil
}

// checksOfAgents returns the results of the last agent that checked the files of a tester, since the
// tester ran before.
func (a *Activities) checksOfAgents(ctx context.Context, in contract.TestPlanInput, run store.Run) (known []store.Check, from store.Execution, err error) {
	if run.Settings.FinishRefusals == 0 {
		return nil, from, nil
	}
	all, err := a.Store.Executions(ctx, in.Execution.RunID)
	if err != nil {
		return nil, from, err
	}
	var since time.Time
	for _, e := range all {
		if e.Phase == contract.PhaseTester && e.Step == "" && e.ID != in.Execution.ID {
			since = e.StartedAt
		}
	}
	for _, e := range slices.Backward(all) {
		if e.Agent != contract.AgentBuilder && e.Agent != contract.AgentRepair || e.StartedAt.Before(since) {
			continue
		}
		stored, err := a.Store.Checks(ctx, e.ID)
		if err != nil {
			return nil, from, err
		}
		for _, c := range stored {
			if c.Result.Tree == in.Workspace.Tree && reusable(c.Result) {
				known = append(known, c)
			}
		}
		if len(known) > 0 {
			return known, e, nil
		}
	}
	return nil, from, nil
}

// adoptCheck stores the result of an agent's check, and its files, as those of the tester.
func (a *Activities) adoptCheck(ctx context.Context, in contract.TestPlanInput, from store.Execution, c store.Check) error {
	all, err := a.Store.Artifacts(ctx, in.Execution.RunID)
	if err != nil {
		return err
	}
	was := checkPrefix(contract.VerifyInput{Execution: from.ExecutionRef, Workspace: in.Workspace, Check: c.Result.Check})
	is := checkPrefix(contract.VerifyInput{Execution: in.Execution, Workspace: in.Workspace, Check: c.Result.Check})
	var files []contract.Artifact
	for _, f := range all {
		if name, ok := strings.CutPrefix(f.Name, was); ok && f.ExecutionID == from.ID {
			f.Name, f.ExecutionID = is+name, in.Execution.ID
			files = append(files, f)
		}
	}
	findings, err := a.Store.Findings(ctx, in.Execution.RunID)
	if err != nil {
		return err
	}
	var own []contract.Finding
	for _, f := range findings {
		if f.ExecutionID == from.ID && f.CheckID == c.Result.Check.ID {
			f.ID, f.Resolved, f.ResolvedAt = 0, false, nil
			own = append(own, f.Finding)
		}
	}
	return a.Store.SaveCheck(ctx, in.Execution, c.Result.Check.ID, c.Result, c.Cases, own, c.LogDigest, files...)
}
