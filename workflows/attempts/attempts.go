// Package attempts is the workflow that chooses among several attempts at the same goal. The attempts
// are ordinary runs; each of them waits before its release until the choice is made.
package attempts

import (
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// LookEvery is how often the workflow looks at its attempts without being told of a change: a run whose
// workflow was terminated tells nothing.
const LookEvery = time.Minute

// Workflow waits until all attempts of a group have ended or wait for the choice, chooses one, and tells
// all of them. What it decides upon is read from their rows.
func Workflow(ctx workflow.Context, in contract.AttemptsInput) (contract.AttemptsResult, error) {
	g := &group{in: in, log: log.With(workflow.GetLogger(ctx), "attempts", in.Group)}
	state, err := g.awaitReady(ctx)
	if err != nil {
		return contract.AttemptsResult{}, err
	}
	decision := contract.AttemptsDecision{Group: in.Group, Winner: state.Winner, Rule: state.Rule}
	if !state.Decided {
		if decision, err = g.choose(ctx, state); err != nil {
			return contract.AttemptsResult{}, err
		}
	}
	err = workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityAttemptsNotify, in.Group).Get(ctx, nil)
	return contract.AttemptsResult{Group: in.Group, Winner: decision.Winner, Rule: decision.Rule}, err
}

type group struct {
	in  contract.AttemptsInput
	log log.Logger
}

// awaitReady waits until the choice can be made. If it returns workflow.ContinueAsNewError, its history
// has become too long.
func (g *group) awaitReady(ctx workflow.Context) (contract.AttemptsState, error) {
	changed := workflow.GetSignalChannel(ctx, contract.SignalAttempt)
	for {
		for changed.ReceiveAsync(nil) { // what follows sees all of them
		}
		var state contract.AttemptsState
		if err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityAttemptsState, g.in.Group).Get(ctx, &state); err != nil {
			return state, err
		}
		if state.Ready || state.Stopped || state.Decided {
			return state, nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() && changed.Len() == 0 {
			return state, workflow.NewContinueAsNewError(ctx, contract.WorkflowAttempts, g.in)
		}
		if _, err := workflow.AwaitWithTimeout(ctx, LookEvery, func() bool { return changed.Len() > 0 }); err != nil {
			return state, err
		}
	}
}

// choose makes the choice and stores it.
func (g *group) choose(ctx workflow.Context, state contract.AttemptsState) (contract.AttemptsDecision, error) {
	d := contract.AttemptsDecision{Group: g.in.Group, Rule: contract.RuleStopped, Reason: "all attempts were stopped"}
	if !state.Stopped {
		var ranking contract.AttemptsRanking
		if err := workflow.ExecuteLocalActivity(options.Local(ctx), contract.ActivityAttemptsRank, g.in.Group).Get(ctx, &ranking); err != nil {
			return d, err
		}
		d.Winner, d.Rule, d.Reason = ranking.Winner, ranking.Rule, ranking.Reason
		if len(ranking.Equal) > 1 && g.in.Settings.Judge != nil {
			g.ask(ctx, ranking, &d)
		}
	}
	var stored contract.AttemptsDecision
	err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityAttemptsDecide, d).Get(ctx, &stored)
	return stored, err
}

// ask lets the judge decide among attempts that are equal otherwise. If it cannot, the smallest change
// wins, and the reason says so.
func (g *group) ask(ctx workflow.Context, ranking contract.AttemptsRanking, d *contract.AttemptsDecision) {
	d.JudgeRun = ranking.Winner // whose row records the call
	judged, err := g.judge(ctx, ranking)
	switch {
	case err != nil:
		g.log.Warn("The judge could not decide among the attempts; the smallest change wins", "error", err)
		d.Reason += "; the judge could not decide: " + fault.Of(err).Message
	case judged.Winner == 0:
		d.Reason += "; the judge could not decide: " + judged.Why
	default:
		d.Winner, d.Rule, d.Reason = judged.Winner, contract.RuleJudge, judged.Reason
	}
}

// judge makes the judge's call, as an execution of the run that wins without it.
func (g *group) judge(ctx workflow.Context, ranking contract.AttemptsRanking) (contract.AttemptsJudgement, error) {
	s := g.in.Settings
	rows := records.NewRecorder(ctx, ranking.Winner)
	var out contract.AttemptsJudgement
	began, err := rows.WriteLatest(ctx, func() contract.Record {
		return contract.Record{
			Begin:  &contract.ExecutionBegin{Phase: contract.PhaseTester, Step: contract.JudgeStep, Agent: contract.AgentJudge, Model: *s.Judge},
			Events: []contract.EventDraft{{Type: contract.EventStepStarted, Payload: map[string]any{"step": contract.JudgeStep}}},
		}
	})
	if err != nil {
		return out, err
	}
	err = workflow.ExecuteActivity(options.Judge(ctx, s.Timeout), contract.ActivityAttemptsJudge, contract.AttemptsJudgeInput{
		Execution: began.Execution, Group: g.in.Group, Runs: ranking.Equal, Settings: s,
	}).Get(ctx, &out)
	end := contract.ExecutionEnd{ExecutionID: began.Execution.ID, Status: contract.ExecutionCompleted}
	event := contract.EventDraft{Type: contract.EventStepCompleted, Payload: map[string]any{
		"step": contract.JudgeStep, "attempt": began.Execution.Attempt, "turns": 1, "usage": out.Usage,
	}}
	if err != nil {
		end.Status, end.Failure = contract.ExecutionFailed, fault.Of(err)
		event = contract.EventDraft{Type: contract.EventStepError, Payload: map[string]any{
			"step": contract.JudgeStep, "attempt": began.Execution.Attempt, "failure": end.Failure,
		}}
	}
	if ended := rows.Write(ctx, contract.Record{End: &end, EndEvents: 1, Events: []contract.EventDraft{event}}); ended != nil {
		g.log.Warn("Could not record the end of the judge's call", "run", ranking.Winner, "error", ended)
	}
	return out, err
}
