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

// conflicting is a run that asks a person after one hour how to resolve a conflict with its base.
func conflicting(t *testing.T) *runFixture {
	t.Helper()
	w := newRunFixture(t)
	w.spent = 3
	w.updating = func(in contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		out := brings("ba5e", "x.go")
		out.Point.Update.Head = in.Head
		return out, nil
	}
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	return w
}

func TestAPushThatResolvesAConflictEndsTheQuestionAboutIt(t *testing.T) {
	t.Parallel()
	w := conflicting(t)
	w.pushes(theirs("decaf"))
	var late *answer
	w.after(70*time.Minute, func() {
		require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
		w.check(push("decaf"))
	})
	w.after(80*time.Minute, func() {
		view := w.view(t)
		require.Equal(t, contract.StatusDone, view.Status)
		require.Empty(t, view.ApprovalID)
		late = w.update(contract.UpdateApprove, contract.Command{ID: "late", By: "ann"})
	})
	result := w.orchestrate(t, updated)
	require.Equal(t, contract.StatusDone, result.Status)
	require.ErrorContains(t, late.err, "only watching its branch")
	require.Len(t, w.commits, 1, "nothing is released over the push")
	require.Len(t, w.updatings, 1)
	require.Equal(t, []contract.HealAction{contract.HealAskPerson}, w.actions())
	require.Contains(t, w.payloads(contract.EventInterventionRequested)[0]["action_required"], "or push the fix to the branch yourself")
	resolved := w.payloads(contract.EventInterventionResolved)
	require.Len(t, resolved, 1)
	require.Equal(t, "commit decaf was pushed to the branch", resolved[0]["reason"])
	dropped := w.payloads(contract.EventRunUpdated)
	require.Equal(t, "the update from main", dropped[len(dropped)-1]["dropped"])
}

func TestAnotherAttemptAtAConflictBeginsWithALookAtTheBranch(t *testing.T) {
	t.Parallel()
	w := conflicting(t)
	w.pushes(theirs("decaf"))
	w.after(70*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "n", By: "ann", Reason: "resolved it"}) })
	w.after(80*time.Minute, func() { require.Equal(t, contract.StatusDone, w.view(t).Status) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Equal(t, []contract.HealAction{contract.HealAskPerson}, w.actions(), "no agent resolves what is resolved")
	require.Len(t, w.commits, 1)
}

func TestAQuestionAboutAConflictStaysIfNobodyPushed(t *testing.T) {
	t.Parallel()
	w := conflicting(t)
	looks := 0
	w.pushed = func(in contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		if looks++; looks == 1 {
			return contract.TakeBranchResult{}, fault.New(contract.ClassLogic, contract.CodeBranchConflict, "it was rewritten")
		}
		return contract.TakeBranchResult{Point: contract.BranchPoint{Commit: in.Commit}}, nil
	}
	asked := ""
	w.after(70*time.Minute, func() {
		asked = w.view(t).ApprovalID
		w.check(push("decaf"))
	})
	w.after(80*time.Minute, func() { w.check(push("deadbee")) })
	w.after(90*time.Minute, func() {
		require.Equal(t, 2, looks)
		require.Equal(t, asked, w.view(t).ApprovalID)
		w.update(contract.UpdateApprove, contract.Command{ID: "n", By: "ann", Reason: "keep both"})
	})
	result := w.orchestrate(t, updated)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, []contract.HealAction{contract.HealAskPerson, contract.HealRepair}, w.actions())
	require.Len(t, w.commits, 2)
	require.Len(t, w.payloads(contract.EventInterventionRequested), 1)
}

func TestARejectionDuringALookAtThePushIsKept(t *testing.T) {
	t.Parallel()
	w := conflicting(t)
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		w.update(contract.UpdateReject, contract.Command{ID: "n", By: "ann", Reason: "stop"})
		return theirs("decaf"), nil
	}
	w.after(70*time.Minute, func() { w.check(push("decaf")) })
	result := w.orchestrate(t, updated)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Contains(t, result.Failure.Message, "ann gave up")
}

func TestAPushDuringAQuestionAboutAFailedCheckDropsTheFixButNotWhatAPersonAskedFor(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func() contract.CheckMessage{
		"a failed check": func() contract.CheckMessage { return red("a") },
		"a comment":      func() contract.CheckMessage { _, m := unknown(); m.Commit = "c0ffee"; return m },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.spent = 3
			w.pushes(theirs("decaf"))
			m := check()
			w.after(time.Hour, func() { w.check(m) })
			w.after(70*time.Minute, func() { w.check(push("decaf")) })
			w.after(80*time.Minute, func() {
				if m.Kind != contract.CheckComment {
					require.Equal(t, contract.StatusDone, w.view(t).Status, "the new commit is checked by itself")
					return
				}
				require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
				w.update(contract.UpdateApprove, contract.Command{ID: "n", By: "ann"})
			})
			require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
			if m.Kind != contract.CheckComment {
				require.Len(t, w.commits, 1)
				return
			}
			require.Len(t, w.commits, 2)
			require.Equal(t, "decaf", w.released.Onto.Commit, "the repair begins with what was pushed")
			require.Len(t, w.replies, 1)
			require.Empty(t, w.replies[0].NotDone)
		})
	}
}

func TestAPushDuringTheRepairOfAConflictDropsItBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		return brings("ba5e", "x.go"), nil
	}
	w.markers = func(contract.ConflictMarkersInput) []string {
		w.check(push("decaf"))
		return []string{"x.go"}
	}
	w.pushes(theirs("decaf"))
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	w.after(70*time.Minute, func() { require.Equal(t, contract.StatusDone, w.view(t).Status) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	require.Len(t, w.commits, 1)
}

// overtakenRelease is a run whose release of what a comment asked for is refused once, before which nobody can
// look at the branch, and to whose branch people then push while a person is asked about that.
func overtakenRelease(t *testing.T, found contract.TakeBranchResult) *runFixture {
	t.Helper()
	w := newRunFixture(t)
	looks := 0
	w.pushed = func(in contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		switch looks++; looks {
		case 1:
			return contract.TakeBranchResult{}, fault.New(contract.ClassConfig, contract.CodeRepository, "the forge refuses it")
		case 2:
			return found, nil
		}
		return contract.TakeBranchResult{Point: contract.BranchPoint{Commit: in.Commit}}, nil
	}
	w.after(time.Hour, func() { w.refuses = 1; w.check(commented("a")) })
	w.after(70*time.Minute, func() {
		require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
		w.check(push("decaf"))
	})
	w.after(80*time.Minute, func() {
		if w.view(t).Status == contract.StatusWaitingForApproval {
			w.update(contract.UpdateApprove, contract.Command{ID: "n", By: "ann"})
		}
	})
	return w
}

func TestWhatACommentAskedForIsVerifiedOnTopOfAPushDuringAQuestionAboutItsRelease(t *testing.T) {
	t.Parallel()
	w := overtakenRelease(t, theirs("decaf", "both"))
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Equal(t, "both", w.released.Workspace.Tree)
	require.Equal(t, 3, w.begun["tester/"], "nothing is released unverified")
	require.Empty(t, w.replies[0].NotDone)
}

func TestWhatACommentAskedForIsMadeAgainIfItDoesNotFitAPushDuringAQuestion(t *testing.T) {
	t.Parallel()
	found := theirs("decaf")
	found.Conflict = &contract.Conflict{Step: "heal-1", Paths: []string{"x.go"}}
	w := overtakenRelease(t, found)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Len(t, w.released.Stages, 1, "the answer says that it was done")
	require.Equal(t, int64(100), w.opened[contract.StepRepair].Heal.Check, "with the same message")
	require.Empty(t, w.replies[0].NotDone)
}

func TestAnotherAttemptAtWhatFailedAfterARepairBeginsWithALookAtTheBranch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		return brings("ba5e", "x.go"), nil
	}
	w.markers = func(contract.ConflictMarkersInput) []string { return []string{"x.go"} }
	w.pushes(theirs("decaf"))
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	w.after(70*time.Minute, func() {
		require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
		w.update(contract.UpdateApprove, contract.Command{ID: "n", By: "ann", Reason: "resolved it"})
	})
	w.after(80*time.Minute, func() { require.Equal(t, contract.StatusDone, w.view(t).Status) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Equal(t, 4, w.begun["tester/"], "the old merge is not verified again")
}

func TestAPauseDuringTheLookAtAPushIsFollowedByTheWatch(t *testing.T) {
	t.Parallel()
	w := conflicting(t)
	w.pushed = func(contract.TakeBranchInput) (contract.TakeBranchResult, *fault.Error) {
		w.update(contract.UpdatePause, contract.Command{ID: "p", By: "ann"})
		return theirs("decaf"), nil
	}
	w.after(70*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "n", By: "ann"}) })
	w.after(80*time.Minute, func() {
		require.Equal(t, contract.StatusPaused, w.view(t).Status)
		w.update(contract.UpdateResume, contract.Command{ID: "r", By: "ann"})
	})
	w.after(90*time.Minute, func() { require.Equal(t, contract.StatusDone, w.view(t).Status) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Equal(t, contract.StatusDone, w.last().Status)
}

func TestAPushThatIsSentAgainAndAgainTakesOnePlaceAmongTheMessagesThatWait(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "first", By: "ann"}) })
	w.after(time.Hour, func() { w.check(red("a")) })
	for i := range 2 * run.MaxPendingChecks {
		w.after(2*time.Hour+time.Duration(i)*time.Hour, func() {
			for _, commit := range []string{"decaf", "c0ffee"} {
				m := push(commit)
				m.ID += fmt.Sprint(i)
				w.check(m)
			}
		})
	}
	var other *answer
	w.after(99*time.Hour, func() {
		require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
		require.Equal(t, 1, w.view(t).Staying.Waiting)
		other = w.updateCheck(red("b"))
		w.update(contract.UpdateStop, contract.Command{ID: "s", By: "ann"})
	})
	w.orchestrate(t, watching, func(s *contract.Settings) {
		s.ApproveRelease, s.ApprovalWait, s.Release.Stay = true, 200*time.Hour, 200*time.Hour
	})
	require.NoError(t, other.err)
}

func TestAPushEndsAQuestionOfARunThatMayRepairNothing(t *testing.T) {
	t.Parallel()
	w := conflicting(t)
	w.spent = 0
	w.pushes(theirs("decaf"))
	w.after(70*time.Minute, func() { w.check(push("decaf")) })
	w.after(80*time.Minute, func() { require.Equal(t, contract.StatusDone, w.view(t).Status) })
	result := w.orchestrate(t, updated, func(s *contract.Settings) { s.Release.MaxRepairs = 0 })
	require.Equal(t, contract.StatusDone, result.Status)
	require.Contains(t, w.payloads(contract.EventInterventionRequested)[0]["action_required"], "or push the fix to the branch yourself")
}
