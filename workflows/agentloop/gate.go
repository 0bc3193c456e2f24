package agentloop

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/commands"
)

// passGate has the policy gate judge the step's change before it is applied. It returns the failure of
// a step whose change is denied. What needs an approval is asked before the release.
func (l *Loop) passGate(ctx workflow.Context) *contract.Failure {
	if !l.in.Settings.Gate || l.Workspace.Tree == l.From.Tree {
		return nil
	}
	verdict, err := affinity.LocalFirst(ctx, l.affinity, contract.ActivityGate, 0, func(quick bool) any {
		return contract.GateInput{
			Execution: l.Execution, Stage: contract.GateStep, Step: l.in.Step, PlanID: l.in.PlanID,
			From: l.From.Slim(), To: l.Workspace, LocalOnly: quick,
		}
	}, func(v contract.GateVerdict) bool { return v.Cold })
	if err != nil {
		return fault.Of(err)
	}
	return commands.Denied("the change of step "+l.in.Step, verdict)
}
