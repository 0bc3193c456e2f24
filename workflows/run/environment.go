package run

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
	"github.com/rocketgpt/orchestrator/workflows/internal/records"
)

// prepare sets up the run before anything is paid for: it gets the environment of the base commit,
// and the results of the project's own checks there. If it cannot, it asks a person.
func (r *run) prepare(ctx workflow.Context) *contract.Failure {
	if r.in.Settings.Environment == nil {
		return nil
	}
	agent := environmentAgent{tries: environmentTries}
	for {
		problem, failure := r.tryToPrepare(ctx, &agent)
		switch {
		case failure != nil:
			return failure
		case problem == nil && r.completed != nil:
			return nil // it is written when the planner begins
		case problem == nil:
			return r.failureOf(options.NewTask(ctx))
		case r.in.Settings.PrepareOnly: // the requester gets the problem as the result
			return &contract.Failure{Class: problem.class, Code: problem.code, Message: problem.Reason, Cause: problem.cause}
		}
		if failure := r.solve(ctx, &agent, problem); failure != nil {
			return failure
		}
	}
}

// tryToPrepare sets the base commit up and runs its checks once. It returns the problem
// that keeps the run from beginning, if there is one.
func (r *run) tryToPrepare(ctx workflow.Context, agent *environmentAgent) (*setupProblem, *contract.Failure) {
	if failure := r.awaitUnpaused(ctx); failure != nil {
		return nil, failure
	}
	known, problem, failure := r.setUp(ctx)
	if failure == nil && problem == nil && r.in.Settings.Environment.Baseline {
		problem, failure = r.baseline(ctx, known)
	}
	if failure == nil {
		failure = r.judgeSetup(ctx, agent, problem)
	}
	return problem, failure
}

// solve asks the environment agent, then a person, what to do about a problem. It
// returns a failure if nobody helps.
func (r *run) solve(ctx workflow.Context, agent *environmentAgent, problem *setupProblem) *contract.Failure {
	if problem.agent && r.in.Settings.Environment.AgentTurns > 0 && agent.tries > 0 {
		proposed, failure := r.askEnvironmentAgent(ctx, agent, problem)
		if failure != nil || proposed {
			return failure
		}
	}
	return r.askAboutEnvironment(ctx, *problem)
}

// setupProblem is the reason why a run cannot begin.
type setupProblem struct {
	contract.Question
	class contract.Class
	code  contract.Code
	cause string // the end of the failed command's output
	agent bool   // an agent may find another setup
	ran   bool   // the checks of the baseline could run
}

// setUp gets the environment of the base commit, and what is known about its checks; nil: nothing.
func (r *run) setUp(ctx workflow.Context) (*contract.BaselineResult, *setupProblem, *contract.Failure) {
	if _, err := r.transition(ctx, records.EventRecord(contract.EventEnvironmentStarted, nil)); err != nil {
		return nil, nil, r.failureOf(err)
	}
	env, err := r.environment(ctx)
	if err != nil {
		problem, failure := r.prepareFailed(ctx, err)
		return nil, problem, failure
	}
	if env.Failure == nil {
		err = r.prepared(ctx, contract.EventEnvironmentReady, map[string]any{
			"environment": env.Digest, "kept": env.Kept, "bytes": env.Bytes, "files": env.Files, "duration_ms": env.DurationMS,
			"summary": env.Summary, "missing": env.Missing,
		})
		return env.Baseline, nil, r.failureOf(err)
	}
	_, err = r.transition(ctx, records.EventRecord(contract.EventEnvironmentError, map[string]any{
		"error_type": env.Failure.Class, "error_code": env.Failure.Code, "error_message": env.Failure.Message, "cause": env.Failure.Cause,
		"missing": env.Missing, "duration_ms": env.DurationMS, "advice": env.Advice,
	}))
	return nil, &setupProblem{
		Question: contract.Question{Reason: env.Failure.Message, ActionRequired: env.Advice},
		class:    env.Failure.Class, code: env.Failure.Code, cause: env.Failure.Cause, agent: true,
	}, r.failureOf(err)
}

// environment gets the environment of the base commit, which usually exists on this host.
func (r *run) environment(ctx workflow.Context) (contract.EnvironmentResult, error) {
	s := r.in.Settings
	at, most := r.affinityOf(contract.PhaseTester, ""), s.Environment.Timeout+options.LongWork+options.CoreWait
	in := contract.EnvironmentInput{
		RunID: r.in.RunID, Workspace: s.Repo.Workspace(), Timeout: s.Environment.Timeout, Baseline: s.Environment.Baseline && r.lean(),
	}
	if r.in.Logic >= contract.LogicLocalSetup {
		return affinity.LocalFirstFor(ctx, at, most, contract.ActivityEnvironment, 0, func(quick bool) any {
			in.LocalOnly = quick
			return in
		}, func(r contract.EnvironmentResult) bool { return r.Cold })
	}
	var env contract.EnvironmentResult
	err := at.Execute(ctx, most, contract.ActivityEnvironment, in).Get(ctx, &env)
	return env, err
}

// prepared adds an event of the preparation to the next record: usually the planner begins at once, and both are
// one record. A replay from the planner does not write it again.
func (r *run) prepared(ctx workflow.Context, kind contract.EventType, payload map[string]any) error {
	if !r.lean() {
		_, err := r.transition(ctx, records.EventRecord(kind, payload))
		return err
	}
	if r.completed == nil {
		r.completed = &contract.Record{}
	}
	r.completed.Events = append(r.completed.Events, contract.EventDraft{Type: kind, Payload: payload})
	r.completed.EndEvents = len(r.completed.Events)
	return nil
}

// prepareFailed records that the preparation failed. A person may be able to help, unless the run
// was stopped or can never succeed.
func (r *run) prepareFailed(ctx workflow.Context, err error) (*setupProblem, *contract.Failure) {
	failure := r.failureOf(err)
	if ctx.Err() != nil {
		return nil, failure
	}
	if _, err := r.transition(ctx, records.EventRecord(contract.EventEnvironmentError, map[string]any{
		"error_type": failure.Class, "error_code": failure.Code, "error_message": failure.Message,
	})); err != nil {
		return nil, r.failureOf(err)
	}
	if fault.Final(failure) || failure.Class == contract.ClassHuman {
		return nil, failure
	}
	return &setupProblem{
		Question: contract.Question{
			Reason:         failure.Message,
			ActionRequired: fmt.Sprintf("once the cause is fixed, try again: rgpt run approve %d; to give up: rgpt run reject %d", r.in.RunID, r.in.RunID),
		},
		class: failure.Class, code: failure.Code,
	}, nil
}

// baseline runs the checks that have no result for the base commit yet, stage after
// stage as after a change, and returns the combined result.
func (r *run) baseline(ctx workflow.Context, known *contract.BaselineResult) (*setupProblem, *contract.Failure) {
	var b contract.BaselineResult
	ask := func(done bool) error {
		return r.affinityOf(contract.PhaseTester, "").Execute(ctx, options.LongWork, contract.ActivityBaseline, contract.BaselineInput{
			RunID: r.in.RunID, Workspace: r.in.Settings.Repo.Workspace(), Done: done,
		}).Get(ctx, &b)
	}
	if known != nil {
		b = *known
	} else if err := ask(false); err != nil {
		return r.prepareFailed(ctx, err)
	}
	if len(b.Stages) > 0 {
		if _, err := r.transition(ctx, records.EventRecord(contract.EventBaselineStarted, map[string]any{"checks": checkNames(b.Stages)})); err != nil {
			return nil, r.failureOf(err)
		}
		if err := r.runBaseline(ctx, b); err != nil {
			return r.prepareFailed(ctx, err)
		}
		b = contract.BaselineResult{}
		if err := ask(true); err != nil {
			return r.prepareFailed(ctx, err)
		}
	}
	ready := map[string]any{
		"summary": b.Summary, "red": b.Red, "unavailable": b.Unavailable, "duration_ms": b.DurationMS, "baseline": b.Key, "advice": b.Advice,
	}
	if len(b.Unjudged) > 0 {
		ready["unjudged"] = b.Unjudged
	}
	if err := r.prepared(ctx, contract.EventBaselineReady, ready); err != nil {
		return nil, r.failureOf(err)
	}
	return r.problemOf(b), nil
}

func (r *run) runBaseline(ctx workflow.Context, b contract.BaselineResult) error {
	for _, stage := range b.Stages {
		if err := workflow.Await(ctx, func() bool { return !r.controls.paused }); err != nil {
			return err
		}
		// A failed build on the base does not end the baseline: if a change's build fails in the
		// same way, its tests still run and need results to compare with.
		if _, err := r.verifyFor(ctx, contract.VerifyInput{
			Execution: contract.BaselineExecution(r.in.RunID), Workspace: r.in.Settings.Repo.Workspace(), Baseline: b.Key,
		}, stage); err != nil {
			return err
		}
	}
	return nil
}

func checkNames(stages [][]contract.Check) []string {
	names := []string{}
	for _, stage := range stages {
		for _, c := range stage {
			names = append(names, c.Name)
		}
	}
	return names
}

// problemOf returns the problem in a baseline that keeps the run from beginning: checks that cannot
// start and, if the settings require asking, checks that fail.
func (r *run) problemOf(b contract.BaselineResult) *setupProblem {
	switch {
	case len(b.Unavailable) > 0:
		return &setupProblem{
			Question: contract.Question{
				Reason:         "project checks cannot run on the base commit: " + strings.Join(b.Unavailable, "; "),
				ActionRequired: b.Advice,
			},
			class: contract.ClassConfig, code: contract.CodeMissing, agent: true,
		}
	case len(b.Red) > 0 && r.in.Settings.Environment.AskIfRed && !r.FailingBaseAccepted && !r.in.Settings.PrepareOnly:
		return &setupProblem{
			Question: contract.Question{
				Reason:         "the base commit fails its own checks: " + strings.Join(b.Red, ", "),
				ActionRequired: fmt.Sprintf("to accept these failures as known and continue: rgpt run approve %d; to give up: rgpt run reject %d", r.in.RunID, r.in.RunID),
			},
			class: contract.ClassHuman, code: contract.CodeCheckFailed, ran: true,
		}
	}
	return nil
}

// askAboutEnvironment asks a person, and waits. An approval lets the run try again, or
// continue from a base commit that fails its checks.
func (r *run) askAboutEnvironment(ctx workflow.Context, p setupProblem) *contract.Failure {
	a, failure := r.ask(ctx, question{kind: contract.InterventionEnvironment, phase: contract.PhasePlanner, wait: r.in.Settings.InterventionWait, problem: &p.Question})
	if failure != nil {
		return failure
	}
	if a.granted && p.class == contract.ClassHuman {
		r.FailingBaseAccepted = true
	}
	note, kind := r.resolution(a)
	if _, err := r.transition(ctx, contract.Record{
		Events: []contract.EventDraft{a.resolved(kind, note)}, Interventions: []contract.InterventionNote{note},
	}); err != nil {
		return r.failureOf(err)
	}
	return r.notHelped(a, p.class, p.code, p.Reason)
}
