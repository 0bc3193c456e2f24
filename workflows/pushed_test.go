package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/run"
)

// push is the message that people moved the branch.
func push(commit string) contract.CheckMessage {
	return contract.CheckMessage{ID: "push-" + commit, Kind: contract.CheckPush, Name: "a push", Commit: commit, By: contract.ByForge}
}

// theirs is what ann pushed, on which the run's changes have the given trees.
func theirs(commit string, stages ...string) contract.TakeBranchResult {
	out := contract.TakeBranchResult{
		Point: contract.BranchPoint{Commit: commit, Workspace: contract.Workspace{Tree: "tree of " + commit, Patch: "patch"}}, Commits: 1, People: []string{"Ann", "ann@example.com"},
	}
	for _, tree := range stages {
		out.Stages = append(out.Stages, contract.Workspace{Tree: tree, Patch: "patch"})
	}
	return out
}

// pushes lets people push the given commits, each found by one look at the branch.
func (w *runFixture) pushes(found ...contract.TakeBranchResult) {
	w.pushed = func(in contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(found) == 0 {
			return contract.TakeBranchResult{Point: contract.BranchPoint{Commit: in.Commit}}, nil
		}
		next := found[0]
		found = found[1:]
		return next, nil
	}
}

func TestARunContinuesFromWhatPeoplePushAndChangesNothingOfIt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.pushes(theirs("decaf"))
	w.after(time.Hour, func() { w.check(push("decaf")) })
	w.after(2*time.Hour, func() {
		require.Equal(t, contract.StatusDone, w.view(t).Status, "a push is nothing to fix")
		require.Len(t, w.commits, 1)
		about := red("old")
		about.Commit = "c0ffee"
		w.check(about)
	})
	w.after(3*time.Hour, func() {
		about := red("a")
		about.Commit = "decaf"
		w.check(about)
	})
	w.after(4*time.Hour, func() { w.check(red("b")) })
	result := w.orchestrate(t, watching, gated)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "c0ffee3", result.Commit)
	require.Len(t, w.looked, 1)
	require.Equal(t, "c0ffee", w.looked[0].Commit)
	require.Empty(t, w.looked[0].Changes)
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealRepair}, w.actions())
	require.Contains(t, w.payloads(contract.EventCheckIgnored)[0]["reason"], "people have pushed decaf")

	point := &contract.BranchPoint{Commit: "decaf", Workspace: contract.Workspace{Tree: "tree of decaf", Patch: "patch"}}
	require.Equal(t, point, w.released.Onto)
	require.Equal(t, "c0ffee2", w.released.Replaces)
	require.Len(t, w.released.Stages, 2, "the repairs; what was released before is part of what people pushed")
	require.Contains(t, w.released.Authors, "ann@example.com")
	last := w.judged[len(w.judged)-1]
	require.Equal(t, contract.GateRelease, last.Stage)
	require.Equal(t, point.Workspace, last.From, "the gate judges the run's own changes")
	require.Equal(t, "b45e", last.To.Base, "a workspace stays a change of the base commit")
	pushed := w.payloads(contract.EventStayPushed)
	require.Len(t, pushed, 1)
	require.Equal(t, "c0ffee", pushed[0]["before"])
}

func TestARepairOnTopOfAPushIsReviewedAsItIsJudged(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.review = func(contract.ReviewInput) (contract.ReviewResult, *fault.Error) {
		return contract.ReviewResult{ID: 1}, nil
	}
	w.pushes(theirs("decaf"))
	w.after(time.Hour, func() { w.check(push("decaf")) })
	w.after(2*time.Hour, func() { w.check(red("a")) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching, reviewedRun).Status)
	require.Equal(t, "decaf", w.released.Onto.Commit)
	require.Len(t, w.reviews, 2)
	base := w.reviews[0].From
	require.Equal(t, w.judged[1].From, base)
	last := w.judged[len(w.judged)-1]
	require.Equal(t, contract.GateRelease, last.Stage)
	require.NotEqual(t, base, last.From)
	require.Equal(t, last.From, w.reviews[1].From, "the gate looks for a review of what it judges")
	require.Equal(t, last.To, w.reviews[1].To)
}

func TestAReleaseThatAPushOvertakesIsVerifiedAgainOnTopOfIt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pushes(theirs("decaf", "both"))
	w.after(time.Hour, func() { w.refuses = 1; w.check(red("a")) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.Len(t, w.looked, 1)
	require.Len(t, w.looked[0].Changes, 1, "only the repair is not on the branch yet")
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	require.Equal(t, 3, w.begun["tester/"])
	require.Equal(t, "both", w.released.Workspace.Tree)
	require.Equal(t, "decaf", w.released.Onto.Commit)
	require.Equal(t, "decaf", w.released.Replaces)
	require.Equal(t, "heal-1", w.released.Credits[0].Step)
}

func TestARepairThatDoesNotFitWhatWasPushedIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	conflicting := theirs("decaf")
	conflicting.Conflict = &contract.Conflict{Step: "heal-1", Paths: []string{"x.go"}}
	w.pushes(conflicting)
	w.after(time.Hour, func() { w.refuses = 1; w.check(red("a")) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealRepair}, w.actions())
	require.Equal(t, "tree of decaf", w.opened[contract.StepRepair].Workspace.Tree)
	require.Equal(t, int64(100), w.opened[contract.StepRepair].Heal.Check, "with the same message")
	require.Len(t, w.released.Stages, 1)
	require.Equal(t, "heal-2", w.released.Credits[0].Step)
}

func TestPushesThatNeverEndLeadToAPerson(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	n := 0
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		n++
		return theirs(fmt.Sprint("decaf", n), fmt.Sprint("both", n)), nil
	}
	w.after(time.Hour, func() { w.refuses = 100; w.check(red("a")) })
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, "c0ffee", result.Commit, "what was released stays")
	require.Equal(t, 3, n, "git.max_repairs")
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealAskPerson}, w.actions())
}

func TestABranchThatCannotBeTakenLeadsToAPersonOnlyWhenSomethingIsToBeReleased(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		return contract.TakeBranchResult{}, fault.New(contract.ClassLogic, contract.CodeBranchConflict, "it was rewritten")
	}
	w.after(time.Hour, func() { w.check(push("decaf")) })
	w.after(2*time.Hour, func() {
		require.Equal(t, contract.StatusDone, w.view(t).Status)
		w.refuses = 100
		w.check(red("a"))
	})
	require.Equal(t, contract.StatusFailed, w.orchestrate(t, watching).Status)
	require.Contains(t, w.payloads(contract.EventCheckIgnored)[0]["reason"], "it was rewritten")
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealAskPerson}, w.actions())
}

func TestACheckOfACommitThatTheRunDoesNotKnowMakesItLookAtTheBranch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pushes(theirs("decaf"))
	m := red("a")
	m.Commit = "decaf"
	w.after(time.Hour, func() { w.check(m) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	require.Equal(t, "decaf", w.released.Onto.Commit)
}

func TestAPlanIsNotMadeAgainAfterPeoplePushed(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.refused = "it deletes TestAdd" // every repair
	w.pushes(theirs("decaf"))
	w.after(time.Hour, func() { w.check(push("decaf")) })
	w.after(2*time.Hour, func() { w.check(red("a")) })
	w.after(150*time.Minute, func() {
		w.update(contract.UpdateHeal, contract.Command{ID: "h", By: "ann", Action: contract.HealRefinePlan})
	})
	w.orchestrate(t, watching)
	require.Equal(t, 1, w.begun["planner/"], "its steps would start without what people pushed")
}

// unknown is a failed check of a commit that the run does not know, and about a comment on it.
func unknown() (failed, comment contract.CheckMessage) {
	failed, comment = red("a"), commented("b")
	failed.Commit, comment.Commit = "decaf", "decaf"
	return failed, comment
}

func TestAMessageAboutAnUnknownCommitWaitsUntilTheBranchCanBeLookedAt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	out := true
	w.pushed = func(in contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		switch {
		case out:
			return contract.TakeBranchResult{}, fault.New(contract.ClassConfig, contract.CodeRepository, "the forge refuses it")
		case in.Commit != "c0ffee":
			return contract.TakeBranchResult{Point: contract.BranchPoint{Commit: in.Commit}}, nil
		}
		return theirs("decaf"), nil
	}
	failed, comment := unknown()
	w.after(time.Hour, func() { w.check(failed) })
	w.after(time.Hour+time.Second, func() { w.check(comment) })
	w.after(80*time.Minute, func() {
		require.Equal(t, 2, w.view(t).Staying.Waiting)
		require.Empty(t, w.payloads(contract.EventCheckIgnored))
		out = false
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealRepair}, w.actions(), "both were handled")
	require.Len(t, w.replies, 1)
	require.Empty(t, w.replies[0].NotDone)
	require.Empty(t, w.payloads(contract.EventCheckIgnored))
}

func TestAMessageThatIsKnownDoesNotWaitForThoseThatAreNot(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		return contract.TakeBranchResult{}, fault.New(contract.ClassConfig, contract.CodeRepository, "the forge refuses it")
	}
	failed, comment := unknown()
	w.after(time.Hour, func() { w.check(failed) })
	w.after(time.Hour+time.Second, func() { w.check(comment) })
	known := red("c")
	known.Commit = "c0ffee"
	w.after(61*time.Minute, func() { w.check(known) })
	w.after(62*time.Minute, func() { require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions()) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	require.Len(t, w.looked, 8, "after these, none of the messages waits any more")
	require.Len(t, w.payloads(contract.EventCheckIgnored), 2)
	require.Len(t, w.replies, 1, "a comment is answered")
	require.Contains(t, w.replies[0].NotDone, "the run could not continue from what was pushed: the forge refuses it")
}

func TestMessagesAboutUnknownCommitsLeaveRoomForTheOthers(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		return contract.TakeBranchResult{}, fault.New(contract.ClassConfig, contract.CodeRepository, "the forge refuses it")
	}
	var refused *answer
	w.after(time.Hour, func() {
		for i := range run.MaxPendingChecks {
			m := red(fmt.Sprint("u", i))
			m.Commit = "decaf"
			w.check(m)
		}
	})
	w.after(time.Hour+time.Second, func() {
		m := red("more")
		m.Commit = "decaf"
		refused = w.updateCheck(m)
	})
	w.after(61*time.Minute, func() { w.check(red("a")) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit, "the message about a known commit was handled")
	require.ErrorContains(t, refused.err, "already waiting")
	require.Len(t, w.looked, 8, "they do not block the run until it ends")
}

func TestACommentForWhichTheRunLooksAtTheBranchIsAnsweredWhenTheRunIsStopped(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		w.update(contract.UpdateStop, contract.Command{ID: "s", By: "ann"})
		return contract.TakeBranchResult{}, fault.New(contract.ClassInfra, contract.CodeUnavailable, "the forge does not answer")
	}
	_, comment := unknown()
	w.after(time.Hour, func() { w.check(comment) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Len(t, w.replies, 1)
	require.NotEmpty(t, w.replies[0].NotDone)
}
