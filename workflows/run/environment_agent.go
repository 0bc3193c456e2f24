package run

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// environmentTries is how often the environment agent is asked in one run. If its second attempt
// fails, a person is asked.
const environmentTries = 2

// environmentAgent is a run's state of its environment agent.
type environmentAgent struct {
	tries    int
	proposed int64 // the setup being tried; 0: none
}

// askEnvironmentAgent lets an agent look for a working setup, and reports whether it proposed one.
// If the agent fails, the run does not fail; a person is asked.
func (r *run) askEnvironmentAgent(ctx workflow.Context, agent *environmentAgent, p *setupProblem) (bool, *contract.Failure) {
	agent.tries--
	settings := r.loopSettings()
	settings.Budget.Turns, settings.FinishRefusals = r.in.Settings.Environment.AgentTurns, 0
	var result contract.StepResult
	err := workflow.ExecuteChildWorkflow(
		options.Child(ctx, contract.StepWorkflowID(r.in.RunID, contract.StepEnvironment), contract.QueueRepair), contract.WorkflowStep, contract.StepInput{
			RunID: r.in.RunID, Step: contract.StepEnvironment, Agent: contract.AgentEnvironment, Phase: contract.PhaseTester,
			Workspace: r.in.Settings.Repo.Workspace(), Model: r.Models[contract.AgentRepair], Settings: settings,
			Setup: &contract.SetupTask{Problem: p.Reason, Output: p.cause},
		}).Get(ctx, &result)
	if err != nil && ctx.Err() != nil {
		return false, r.failureOf(err)
	}
	r.Usage = r.Usage.Add(result.Usage)
	if err != nil || result.ExecutionID == 0 {
		r.log.Warn("The environment agent failed; asking a person for help", "error", err)
		return false, nil
	}
	if f := result.Failure; f != nil {
		p.Reason += "; the environment agent: " + f.Message
	}
	var proposal contract.ProposalResult
	execution := contract.ExecutionRef{
		ID: result.ExecutionID, RunID: r.in.RunID, Phase: contract.PhaseTester, Step: contract.StepEnvironment, Agent: contract.AgentEnvironment, Attempt: result.Attempt,
	}
	if err := r.affinityOf(contract.PhaseTester, "").Execute(ctx, options.LongWork, contract.ActivityProposal, contract.ProposalInput{Execution: execution}).Get(ctx, &proposal); err != nil {
		return false, r.failureOf(err)
	}
	if proposal.Setup == 0 {
		return false, nil
	}
	agent.proposed = proposal.Setup
	_, err = r.transition(ctx, records.EventRecord(contract.EventSetupProposed, map[string]any{"setup": proposal.Setup}))
	return true, r.failureOf(err)
}

// judgeSetup records whether the baseline could run with a proposed setup.
func (r *run) judgeSetup(ctx workflow.Context, agent *environmentAgent, problem *setupProblem) *contract.Failure {
	ran := problem == nil && r.in.Settings.Environment.Baseline || problem != nil && problem.ran
	if agent.proposed == 0 || !ran && (problem == nil || !problem.agent) {
		return nil // nothing was proven: the machine failed, or there is no baseline
	}
	if err := r.flush(ctx); err != nil {
		return r.failureOf(err)
	}
	in := contract.JudgeSetupInput{RunID: r.in.RunID, Setup: agent.proposed, Proven: ran}
	if !in.Proven {
		in.Why = problem.Reason
	}
	agent.proposed = 0
	var judged contract.JudgeSetupResult
	if err := r.affinityOf(contract.PhaseTester, "").Execute(ctx, options.LongWork, contract.ActivityJudgeSetup, in).Get(ctx, &judged); err != nil {
		return r.failureOf(err)
	}
	if judged.Unproven != "" {
		in.Proven, in.Why = false, judged.Unproven
	}
	_, err := r.transition(ctx, records.EventRecord(contract.EventSetupJudged, map[string]any{"setup": in.Setup, "proven": in.Proven, "why": in.Why}))
	return r.failureOf(err)
}
