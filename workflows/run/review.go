package run

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/internal/affinity"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// Reviews need no version of the workflow: the run's settings, which are frozen when it is created, say
// whether there are any. A run that began without them has none.

// reviewCalls is the number of calls that a review may need: one whose response is unusable is repeated.
const reviewCalls = 2

// reviewRelease lets a model that has not made it review what the run would release, if the settings
// or a policy want that. It returns the review, if there is one, and a failure if the review found
// major problems that go back to an agent. Those that remain are judged with the change.
func (r *run) reviewRelease(ctx workflow.Context, tester contract.ExecutionRef) (*contract.ReviewResult, *contract.Failure) {
	result, failure := r.reviewOnce(ctx, tester)
	if failure != nil || result == nil || !r.returnsFindings(*result) {
		return result, failure
	}
	r.Review.Returned++
	r.Review.Open = result.Open
	return result, &fault.New(contract.ClassAssertion, contract.CodeReview,
		"the review of the change by %s found %d major problems: %s", result.Model, result.Major, result.Summary()).Failure
}

// reviewOnce returns the review of what the run would release, which it makes if one is due and was not
// made before; nil if none is needed.
func (r *run) reviewOnce(ctx workflow.Context, tester contract.ExecutionRef) (*contract.ReviewResult, *contract.Failure) {
	s := r.in.Settings.Gate
	if s == nil || s.Review == nil || !r.changesAnything() {
		return nil, nil
	}
	due, err := affinity.LocalFirst(ctx, r.affinityOf(contract.PhaseTester, ""), contract.ActivityReviewDue, len(r.Stages), func(quick bool) any {
		return contract.ReviewDueInput{Gate: r.gateInput(tester, quick)}
	}, func(d contract.ReviewDue) bool { return d.Cold })
	if err != nil {
		return nil, r.failureOf(err)
	}
	result := due.Known
	switch {
	case result != nil:
		r.Review.Made = max(1, r.Review.Made)
	case !due.Due:
		return nil, nil
	default:
		if failure := r.awaitUnpaused(ctx); failure != nil {
			return nil, failure
		}
		made, err := r.review(ctx, tester)
		if err != nil {
			return nil, r.failureOf(err)
		}
		result = &made
	}
	return result, nil
}

// returnsFindings reports whether the findings of a review go back to an agent: as often as the
// settings allow, and only while the run can still heal.
func (r *run) returnsFindings(result contract.ReviewResult) bool {
	return result.Major > 0 && result.Failed == "" && r.Review.Returned < r.in.Settings.Gate.Review.Rounds &&
		r.Heals.Count[contract.PhaseTester] < r.MaxRetries
}

// review makes a review, as an execution of its own. If it fails, that is stored as its result.
func (r *run) review(ctx workflow.Context, tester contract.ExecutionRef) (contract.ReviewResult, error) {
	s := r.in.Settings
	model, others, same := r.reviewer()
	var out contract.ReviewResult
	began, err := r.rows.WriteLatest(ctx, func() contract.Record {
		return contract.Record{
			Begin:  &contract.ExecutionBegin{Phase: contract.PhaseTester, Step: contract.ReviewStep, Agent: contract.AgentReviewer, Model: model},
			Events: []contract.EventDraft{{Type: contract.EventStepStarted, Payload: map[string]any{"step": contract.ReviewStep}}},
		}
	})
	if err != nil {
		return out, err
	}
	r.Review.Made++
	in := contract.ReviewInput{
		Execution: began.Execution, Tester: tester, Round: r.Review.Made, PlanID: r.PlanID,
		From: r.from().Slim(), To: r.Workspace, Model: model, Fallbacks: others, SameModel: same, Budget: s.RunBudget,
	}
	at := options.Review(ctx, reviewCalls*s.Gate.Review.Timeout)
	failed := workflow.ExecuteActivity(at, contract.ActivityReview, in).Get(ctx, &out)
	err = failed
	if failed != nil && ctx.Err() == nil && !r.controls.stopping() {
		in.Failure = fault.Of(failed)
		err = workflow.ExecuteActivity(at, contract.ActivityReview, in).Get(ctx, &out)
	}
	r.Usage = r.Usage.Add(out.Usage)
	r.endReview(ctx, began.Execution, out, failed)
	return out, err
}

// endReview records the end of a review.
func (r *run) endReview(ctx workflow.Context, execution contract.ExecutionRef, out contract.ReviewResult, failed error) {
	end := contract.ExecutionEnd{ExecutionID: execution.ID, Status: contract.ExecutionCompleted}
	event := contract.EventDraft{Type: contract.EventStepCompleted, Payload: map[string]any{
		"step": contract.ReviewStep, "attempt": execution.Attempt, "turns": out.Usage.Calls, "usage": out.Usage, "prompt": out.Prompt,
	}}
	if failed != nil {
		end.Status, end.Failure = contract.ExecutionFailed, fault.Of(failed)
		if r.controls.stopping() || ctx.Err() != nil {
			end.Status = contract.ExecutionCancelled
		}
		event = contract.EventDraft{Type: contract.EventStepError, Payload: map[string]any{
			"step": contract.ReviewStep, "attempt": execution.Attempt, "failure": end.Failure,
		}}
	}
	if err := r.rows.Write(ctx, contract.Record{End: &end, EndEvents: 1, Events: []contract.EventDraft{event}}); err != nil {
		r.log.Error("Could not record the end of a review", "error", err)
	}
}

// reviewer returns the model that reviews the run's change, and those that take its place while it is
// out: none of them has made a part of the change. If the configuration offers no such model, it is the
// author's.
func (r *run) reviewer() (model contract.ModelChoice, others []contract.ModelChoice, same bool) {
	author := r.Models[contract.AgentBuilder]
	authors := []string{author.Model}
	for _, c := range r.Changes {
		authors = append(authors, r.Credits[c.Step].Model)
	}
	made := func(m contract.ModelChoice) bool { return slices.Contains(authors, m.Model) }
	others = slices.DeleteFunc(r.otherModels(), made)
	switch own := r.in.Settings.Gate.Review.Model; {
	case own != nil:
		others = slices.DeleteFunc(others, func(m contract.ModelChoice) bool { return m.Provider == own.Provider && m.Model == own.Model })
		return *own, others, made(*own)
	case len(others) > 0:
		return others[0], others[1:], false
	}
	return author, nil, true
}
