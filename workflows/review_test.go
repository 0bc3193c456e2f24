package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// reviewedRun gives a run a gate and reviews, and another model than the builder's.
func reviewedRun(s *contract.Settings) {
	gated(s)
	s.Gate.Review = &contract.ReviewSettings{Mode: contract.ReviewOn, Rounds: 1, DiffBytes: 1 << 10, Timeout: time.Minute}
	s.Fallbacks = []contract.ModelChoice{{Provider: "p", Model: "other"}}
}

// majorFinding is a review with a major finding.
func majorFinding() contract.ReviewResult {
	return contract.ReviewResult{
		ID: 1, Major: 1, Open: []string{"R1"}, Model: "p/other", Usage: contract.Usage{Calls: 1, PromptTokens: 7},
		Findings: []contract.ReviewFinding{{ID: "R1", Item: contract.ReviewCorrectness, Severity: contract.SeverityMajor, Path: "a.go", Line: 3, What: "It is wrong."}},
	}
}

// asksAbout returns verdicts that ask a person about a tree.
func asksAbout(tree *string) func(contract.GateInput) contract.GateVerdict {
	return func(in contract.GateInput) contract.GateVerdict {
		if in.Stage == contract.GateRelease && in.To.Tree == *tree {
			return verdictOn(in, contract.GateNeedsApproval, contract.GuardReview)
		}
		return allowed(in)
	}
}

func TestAChangeIsReviewedByAnotherModelBeforeItIsJudged(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.review = func(in contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		require.Equal(t, []contract.GateStage{contract.GateStep}, stages(w.judged), "before the release is judged")
		return contract.ReviewResult{ID: 1, Minor: 2, Usage: contract.Usage{Calls: 1, PromptTokens: 7}}, nil
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
	require.Len(t, w.reviews, 1)
	in := w.reviews[0]
	require.Equal(t, []any{"other", false, 1}, []any{in.Model.Model, in.SameModel, in.Round})
	require.Equal(t, w.released.Workspace.Tree, in.To.Tree)
	require.Equal(t, contract.AgentReviewer, in.Execution.Agent)
	require.Equal(t, contract.ReviewStep, in.Execution.Step)
	require.Empty(t, w.healNotes(), "minor findings go back to nobody")
}

func TestARunWithoutReviewsHasNone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*contract.Settings){"off": gated, "not due": reviewedRun} {
		w := newRunFixture(t)
		w.gate = allowed
		w.due = func(contract.GateInput) contract.ReviewDue { return contract.ReviewDue{} }
		require.Equal(t, contract.StatusDone, w.orchestrate(t, change).Status, name)
		require.Empty(t, w.reviews, name)
	}
}

func TestMajorFindingsGoBackOnceAndTheChangeIsCheckedAndReviewedAgain(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.review = func(in contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		if in.Round == 1 {
			return majorFinding(), nil
		}
		return contract.ReviewResult{ID: 2}, nil
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
	require.Equal(t, contract.HealRepair, w.healNotes()[1].Action)
	require.Equal(t, []string{"R1"}, w.opened[contract.StepRepair].Heal.Review)
	require.Contains(t, w.opened[contract.StepRepair].Heal.Failure.Message, "R1 a.go:3: It is wrong.")
	require.Equal(t, []int{1, 2}, []int{w.reviews[0].Round, w.reviews[1].Round})
	require.NotEqual(t, w.reviews[0].To.Tree, w.reviews[1].To.Tree)
	require.NotEqual(t, w.reviews[0].Tester.ID, w.reviews[1].Tester.ID, "it passed its checks again")
	require.Equal(t, w.reviews[1].To.Tree, w.released.Workspace.Tree)
}

func TestFindingsThatRemainAreJudgedAndAPersonDecides(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var tree string
	w.gate = asksAbout(&tree)
	w.review = func(in contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		tree = in.To.Tree
		return majorFinding(), nil
	}
	w.after(2*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
	require.Len(t, w.reviews, 2, "they go back once")
	require.Equal(t, "ann", w.released.ApprovedBy)
}

func TestFindingsDoNotGoBackIfNothingCanBeHealedOrTheLimitIsZero(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*contract.Settings){
		"no retries": func(s *contract.Settings) { reviewedRun(s); s.MaxRetries = 0 },
		"no rounds":  func(s *contract.Settings) { reviewedRun(s); s.Gate.Review.Rounds = 0 },
	} {
		w := newRunFixture(t)
		w.gate = allowed
		w.review = func(contract.ReviewInput) (contract.ReviewResult, *fault.Error) { return majorFinding(), nil }
		require.Equal(t, contract.StatusDone, w.orchestrate(t, change).Status, name)
		require.Len(t, w.reviews, 1, name)
		require.Empty(t, w.healNotes(), name)
	}
}

func TestARepairThatChangesNothingLeavesTheDecisionToThePolicies(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.answers[contract.StepRepair] = []contract.ThinkResult{{Finish: true, Calls: []contract.ToolCallRef{{Tool: "finish"}}}}
	w.review = func(contract.ReviewInput) (contract.ReviewResult, *fault.Error) { return majorFinding(), nil }
	require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
	require.Len(t, w.reviews, 2)
	require.Equal(t, w.reviews[0].To.Tree, w.reviews[1].To.Tree)
	require.Zero(t, count(w.events(), contract.EventInterventionRequested), "nobody is asked about the repair")
}

func TestAnAgentIsAskedOnceForTheAnswersThatItLeftOut(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	finish := contract.ThinkResult{Finish: true, Calls: []contract.ToolCallRef{{Tool: "finish"}}, Unanswered: []string{"R1"}}
	w.answers[contract.StepRepair] = []contract.ThinkResult{{Calls: []contract.ToolCallRef{{Tool: "edit_file"}}}, finish, finish}
	var asked [][]string
	w.onThink = func(in contract.ThinkInput) {
		if in.Execution.Step == contract.StepRepair {
			asked = append(asked, in.Answer)
		}
	}
	w.review = func(in contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		if in.Round > 1 {
			return contract.ReviewResult{}, nil
		}
		return majorFinding(), nil
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
	require.Equal(t, [][]string{{"R1"}}, w.unanswered)
	require.Equal(t, [][]string{{"R1"}, {"R1"}, nil}, asked)
}

func TestAReviewThatFailsIsStoredAndJudged(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var tree string
	w.gate = asksAbout(&tree)
	w.review = func(in contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		tree = in.To.Tree
		return contract.ReviewResult{}, fault.New(contract.ClassInfra, contract.CodeUnavailable, "the provider is away")
	}
	result := w.orchestrate(t, reviewedRun)
	require.Equal(t, contract.CodeApprovalExpired, result.Failure.Code, "a person was asked")
	require.Equal(t, 1, count(w.events(), contract.EventStepError))
	require.Empty(t, w.commits)
}

func TestTheAuthorsModelReviewsOnlyIfThereIsNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*contract.Settings)
		model  string
		same   bool
	}{
		"another one":    {func(*contract.Settings) {}, "other", false},
		"only one":       {func(s *contract.Settings) { s.Fallbacks = nil }, "", true},
		"the configured": {func(s *contract.Settings) { s.Gate.Review.Model = &contract.ModelChoice{Provider: "q", Model: "judge"} }, "judge", false},
	} {
		w := newRunFixture(t)
		w.gate = allowed
		var in contract.ReviewInput
		w.review = func(i contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
			in = i
			return contract.ReviewResult{}, nil
		}
		var builder string
		w.orchestrate(t, func(s *contract.Settings) {
			reviewedRun(s)
			one := s.Models[contract.AgentBuilder]
			for agent := range s.Models {
				s.Models[agent] = one
			}
			builder = one.Model
			c.change(s)
		})
		if c.model == "" {
			c.model = builder
		}
		require.Equal(t, []any{c.model, c.same}, []any{in.Model.Model, in.SameModel}, name)
		for _, f := range in.Fallbacks {
			require.NotEqual(t, builder, f.Model, name)
		}
	}
}

func TestARunThatIsStoppedDuringAReviewEndsAsCancelled(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.review = func(contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		return contract.ReviewResult{}, fault.New(contract.ClassInfra, contract.CodeRateLimited, "later").After(time.Hour)
	}
	w.after(time.Minute, func() { w.update(contract.UpdateStop, contract.Command{ID: "1", By: "ann"}) })
	result := w.orchestrate(t, reviewedRun)
	require.Equal(t, contract.StatusCancelled, result.Status)
	require.Empty(t, w.commits)
	var ends []contract.ExecutionStatus
	for _, r := range w.records {
		if r.End != nil {
			ends = append(ends, r.End.Status)
		}
	}
	require.Contains(t, ends, contract.ExecutionCancelled)
}
