package agentloop

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/checks"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// The checks of an agent that wants to finish need no version of the workflow: LoopSettings, which
// are frozen when a loop starts, say whether they run. A loop that began without them has none.

const (
	finishTool = "finish" // with which an agent finishes
	checkTool  = "check"  // with which it carries out a check
)

// refusal is why a call to finish is refused; nothing: it is not.
type refusal struct {
	failed []string // checks that failed
	undone bool     // another call of the turn failed

	unanswered []string // findings of a review that it does not answer
}

// mustAnswer returns the findings of a review that the agent must answer when it finishes. It is asked
// once for answers that it left out; after that, they count as not given.
func (l *Loop) mustAnswer() []string {
	if l.in.Heal == nil || l.Reminded {
		return nil
	}
	return l.in.Heal.Review
}

// finishApart separates the calls that finish from the others.
func finishApart(calls []contract.ToolCallRef) (others, last []contract.ToolCallRef) {
	for _, c := range calls {
		if c.Tool == finishTool {
			last = append(last, c)
		} else {
			others = append(others, c)
		}
	}
	return others, last
}

// tryToFinish runs the checks that the agent's work must pass. If one fails, the calls that finish
// are refused, and there is more to do. The same files are refused only once: an agent that changes
// nothing insists, and the tester decides. Only work that will be tested as it is has such checks. All
// agents that finish beside a failed call see its result first.
func (l *Loop) tryToFinish(ctx workflow.Context, last []contract.ToolCallRef, unanswered []string) (more bool, _ *contract.Failure) {
	var why refusal
	if l.holdsFinish() && l.undone && l.Workspace.Tree != l.HeldTree {
		why.undone, l.HeldTree = true, l.Workspace.Tree
	} else if len(unanswered) > 0 && l.budgetSpent(ctx) == nil {
		why.unanswered, l.Reminded = unanswered, true
	} else if l.Workspace.Tree != l.From.Tree && l.Workspace.Tree != l.RefusedTree && l.Refused < l.in.Settings.FinishRefusals {
		began := workflow.Now(ctx)
		var failure *contract.Failure
		if why.failed, failure = l.failedChecks(ctx); failure != nil {
			return false, failure
		}
		// The agent's time does not include that of checks, like that of the tester.
		l.Started = l.Started.Add(workflow.Now(ctx).Sub(began))
	}
	if len(why.failed) > 0 {
		l.Refused, l.RefusedTree = l.Refused+1, l.Workspace.Tree
	}
	for _, call := range last {
		var out contract.ToolOutcome
		if err := l.callTool(ctx, call, why).Get(ctx, &out); err != nil {
			return false, fault.Of(err)
		}
		if failure := l.recordOutcome(call, out); failure != nil {
			return false, failure
		}
	}
	return why.undone || len(why.failed)+len(why.unanswered) > 0, nil
}

// failedChecks runs the checks of the workspace and returns those that failed because of the change.
// If they cannot be run, none has failed: the tester runs them again, and its failures are healed.
func (l *Loop) failedChecks(ctx workflow.Context) (failed []string, _ *contract.Failure) {
	unable := func(err error) ([]string, *contract.Failure) {
		if ctx.Err() != nil {
			return nil, fault.Of(err)
		}
		l.log.Warn("Could not run the checks of an agent that wants to finish", "error", err)
		return nil, nil
	}
	plan, err := affinity.LocalFirst(ctx, l.affinity, contract.ActivityTestPlan, 0, func(quick bool) any {
		return contract.TestPlanInput{Execution: l.Execution, Workspace: l.Workspace, LocalOnly: quick, Base: l.in.Base}
	}, func(r contract.TestPlanResult) bool { return r.Cold })
	if err != nil {
		return unable(err)
	}
	note := func(results []contract.CheckResult) {
		for _, r := range results {
			if !r.OK && r.Code != contract.CodeMissing && r.Code != contract.CodeUnavailable {
				failed = append(failed, r.Check.ID)
			}
		}
	}
	note(plan.Done)
	for _, stage := range plan.Stages {
		results, err := l.verify(ctx, slices.DeleteFunc(slices.Clone(stage), skippedAtFinish))
		if err != nil {
			return unable(err)
		}
		if note(results); contract.BuildFailed(results) {
			break
		}
	}
	return failed, nil
}

// skippedAtFinish reports whether a check is left to the tester: scans, which take long and rarely
// depend on a change, and the proof that new tests fail without it.
func skippedAtFinish(c contract.Check) bool {
	return c.Category == contract.CategorySecurity || c.ID == contract.CheckNewTests
}

// verify runs checks of a stage in parallel.
func (l *Loop) verify(ctx workflow.Context, stage []contract.Check) ([]contract.CheckResult, error) {
	s := l.in.Settings
	at := options.WithSummary(options.Remote(ctx, contract.QueueTester, s.VerifyTimeout+s.SetupTimeout+options.CoreWait), l.in.Step)
	in := contract.VerifyInput{Execution: l.Execution, Workspace: l.Workspace, Timeout: s.VerifyTimeout, Base: l.in.Base}
	return checks.Stage(ctx, stage, s.ChecksTogether, in, func(in contract.VerifyInput) workflow.Future {
		return workflow.ExecuteActivity(at, contract.ActivityVerify, in)
	})
}
