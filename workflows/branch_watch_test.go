package workflows

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/workflows/run"
)

// watching makes runs heal themselves and watch their branch for ten hours.
func watching(s *contract.Settings) {
	healing(s)
	s.Release.Stay, s.Release.MaxRepairs = 10*time.Hour, 3
}

// red is a failed check.
func red(id string) contract.CheckMessage {
	return contract.CheckMessage{ID: id, Name: "ci/" + id, Conclusion: contract.ConclusionFailure, Details: "boom", By: "ci"}
}

// check sends a message as a signal.
func (w *runFixture) check(m contract.CheckMessage) { w.env.SignalWorkflow(contract.UpdateCheck, m) }

// payloads returns the payloads of events of a kind.
func (w *runFixture) payloads(kind contract.EventType) []map[string]any {
	var out []map[string]any
	for _, rec := range w.recorded() {
		for _, e := range rec.Events {
			if e.Type == kind {
				p, _ := e.Payload.(map[string]any)
				out = append(out, p)
			}
		}
	}
	return out
}

// updateCheck sends a message as an update and returns its answer.
func (w *runFixture) updateCheck(m contract.CheckMessage) *answer {
	w.updates++
	return w.send(contract.UpdateCheck, fmt.Sprint(m.ID, "-", w.updates), m)
}

func TestARunWatchesItsBranchUntilItsTimeIsOverAndIsDoneMeanwhile(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	began := w.env.Now()
	written := 0
	w.after(time.Hour, func() { written = len(w.recorded()) })
	w.after(9*time.Hour, func() {
		v := w.view(t)
		require.Equal(t, contract.StatusDone, v.Status)
		require.NotNil(t, v.Staying)
		require.WithinDuration(t, began.Add(10*time.Hour), v.Staying.Until, time.Minute)
		require.NotNil(t, w.last().StayingUntil)
		require.Len(t, w.recorded(), written, "nothing is written while it waits")
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.GreaterOrEqual(t, w.env.Now().Sub(began), 10*time.Hour)
	require.Nil(t, w.last().StayingUntil)
	require.True(t, w.last().Staying, "only so the row may change after the run was over")
	require.Equal(t, 1, occurrences(w.events(), contract.EventStayStarted))
	require.Equal(t, 1, occurrences(w.events(), contract.EventStayEnded))
	require.Len(t, w.commits, 1)
}

func TestARunThatDoesNotWatchItsBranchRefusesChecksAndEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	began := w.env.Now()
	var refused *answer
	w.after(time.Minute, func() {
		refused = w.updateCheck(red("a"))
		w.update(contract.UpdateApprove, contract.Command{ID: "y", By: "ann"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, healing, func(s *contract.Settings) { s.ApproveRelease = true }).Status)
	require.ErrorContains(t, refused.err, "--stay")
	require.NotContains(t, w.events(), contract.EventStayStarted)
	require.Nil(t, w.last().StayingUntil)
	require.Less(t, w.env.Now().Sub(began), time.Hour)
}

func TestAStopEndsTheBranchWatchAndTheRunRemainsDone(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	began := w.env.Now()
	w.after(time.Hour, func() { w.update(contract.UpdateStop, contract.Command{ID: "s", By: "ann"}) })
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Nil(t, result.Failure)
	require.Equal(t, "c0ffee", result.Commit)
	require.Less(t, w.env.Now().Sub(began), 2*time.Hour)
	require.Contains(t, w.payloads(contract.EventStayEnded)[0]["reason"], "ann")
}

func TestARunThatWatchesItsBranchRefusesEveryCommandButStop(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var answers []*answer
	w.after(time.Hour, func() {
		for _, name := range []string{contract.UpdatePause, contract.UpdateResume, contract.UpdateHeal, contract.UpdateAdvance} {
			answers = append(answers, w.update(name, contract.Command{ID: name, By: "ann"}))
		}
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Len(t, answers, 4)
	for _, a := range answers {
		require.ErrorContains(t, a.err, "only watching its branch")
	}
}

func TestAPassedCheckIsRecordedAndChangesNothing(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	m := red("a")
	m.Conclusion = contract.ConclusionSuccess
	w.after(time.Hour, func() { w.check(m) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Equal(t, 1, occurrences(w.events(), contract.EventCheckPassed))
	require.Empty(t, w.healNotes())
	require.Len(t, w.commits, 1)
}

func TestAFailingCheckIsHealedVerifiedAndReleasedAgain(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, func() { w.check(red("a")) })
	w.after(2*time.Hour, func() {
		v := w.view(t)
		require.Equal(t, contract.StatusDone, v.Status)
		require.Equal(t, "c0ffee2", v.Commit)
		require.Equal(t, 1, v.Staying.Repairs)
	})
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "c0ffee2", result.Commit)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	require.Equal(t, contract.HealSuccess, w.healNotes()[1].Status)
	require.Equal(t, "heal-1", w.released.Credits[len(w.released.Credits)-1].Step)
	require.Len(t, w.released.Stages, 2, "one commit more")
	require.Equal(t, 2, w.begun["tester/"])
	require.Equal(t, 2, w.begun["releaser/"])
	require.Equal(t, 1, w.begun["builder/step-001"])
	statuses := w.statuses()
	at := slices.Index(statuses, contract.StatusDone)
	tester, releaser := contract.PhaseTester, contract.PhaseReleaser
	require.Equal(t, []contract.Status{contract.StatusDone, tester.Error(), contract.StatusSelfHeal, tester.Running(), releaser.Running(), contract.StatusDone},
		slices.DeleteFunc(statuses[at:], func(s contract.Status) bool { return s == tester.Completed() }))
	require.Equal(t, int64(100), w.opened[contract.StepRepair].Heal.Check, "the Repair agent is shown the message")
}

func TestAReviewCommentIsHealedEvenIfARepairMovedTheBranchMeanwhile(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, func() {
		w.check(red("a"))
		w.check(contract.CheckMessage{ID: "b", Kind: contract.CheckComment, Name: "x.go:3", Details: "rename it", Commit: "c0ffee"})
	})
	require.Equal(t, "c0ffee3", w.orchestrate(t, watching).Commit)
	require.Len(t, w.actions(), 2)
}

func TestTheSecondRedCheckOfACommitIsIgnoredUntilItIsReportedAgain(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, func() { w.check(red("a")); w.check(red("b")) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.Len(t, w.actions(), 1)
	ignored := w.payloads(contract.EventCheckIgnored)
	require.Len(t, ignored, 1)
	require.Equal(t, "b", ignored[0]["id"])
	require.Contains(t, ignored[0]["reason"], "the released commit is c0ffee2")
}

func TestAMessageCountsOnceHoweverOftenItComes(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var again *answer
	w.after(time.Hour, func() { w.check(red("a")); w.check(red("a")) })
	w.after(3*time.Hour, func() { again = w.updateCheck(red("a")) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.Len(t, w.actions(), 1)
	require.NoError(t, again.err)
	require.False(t, again.ack.Applied)
	require.Contains(t, again.ack.Message, "already received")
}

func TestAMessageAboutAnotherCommitIsIgnored(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	m := red("a")
	m.Commit = "deadbeef"
	w.after(time.Hour, func() { w.check(m) })
	require.Equal(t, "c0ffee", w.orchestrate(t, watching).Commit)
	require.Equal(t, 1, occurrences(w.events(), contract.EventCheckIgnored))
	require.Empty(t, w.taken)
}

func TestFailuresThatNoCodeFixesAreNotRepaired(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.infra = true
	w.after(time.Hour, func() { w.check(red("a")) })
	require.Equal(t, "c0ffee", w.orchestrate(t, watching).Commit)
	require.Contains(t, w.payloads(contract.EventCheckIgnored)[0]["reason"], "no network")
}

func TestRepairsAreBoundedForTheBranchThenAPersonIsAskedAndThenItFailsWithItsBranch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	for i := range 4 {
		w.after(time.Duration(i+1)*time.Hour, func() { w.check(red(fmt.Sprint("c", i))) })
	}
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, "c0ffee4", result.Commit, "the last release stands")
	require.Contains(t, result.Failure.Message, "git.max_repairs")
	require.Contains(t, result.Failure.Message, "stays at the released commit c0ffee4")
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealRepair, contract.HealRepair, contract.HealAskPerson}, w.actions())
	require.Equal(t, 1, occurrences(w.events(), contract.EventRunFailed))
	require.Nil(t, w.last().StayingUntil)
}

func TestRepairsOfOtherRunsOfTheBranchCount(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.spent = 3
	w.after(time.Hour, func() { w.check(red("a")) })
	w.after(90*time.Minute, func() { w.update(contract.UpdateReject, contract.Command{ID: "r", By: "ann", Reason: "enough"}) })
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Contains(t, result.Failure.Message, "ann gave up (enough)")
	require.Equal(t, "c0ffee", result.Commit)
}

func TestAPersonMayLetARepairBeTriedOnceMore(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.spent = 3
	w.after(time.Hour, func() { w.check(red("a")) })
	w.after(90*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "r", By: "ann", Reason: "once more"}) })
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "c0ffee2", result.Commit)
	require.Equal(t, []contract.HealAction{contract.HealAskPerson, contract.HealRepair}, w.actions())
}

func TestADiscardedRepairKeepsTheBranchAndAsksAPerson(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.refused = "it deletes TestAdd"
	w.after(time.Hour, func() { w.check(red("a")) })
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, "c0ffee", result.Commit)
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealAskPerson}, w.actions())
	require.Equal(t, 1, w.begun["releaser/"])
}

func TestAStopDuringARepairLeavesTheRunDoneWithWhatItReleased(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.refused = "it deletes TestAdd" // so that it asks a person, and waits
	w.after(time.Hour, func() { w.check(red("a")) })
	w.after(90*time.Minute, func() {
		require.Equal(t, contract.StatusWaitingForApproval, w.view(t).Status)
		w.update(contract.UpdateStop, contract.Command{ID: "s", By: "ann"})
	})
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Nil(t, result.Failure)
	require.Equal(t, "c0ffee", result.Commit)
	require.Contains(t, w.payloads(contract.EventStayEnded)[0]["reason"], "ci/a was not fixed")
	require.Equal(t, contract.StatusDone, w.last().Status)
	require.Empty(t, w.last().WaitingFor)
}

func TestACancelInTemporalEndsTheBranchWatchAndTheRunRemainsDone(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, w.env.CancelWorkflow)
	result := w.orchestrate(t, watching)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Contains(t, w.payloads(contract.EventStayEnded)[0]["reason"], "cancelled in Temporal")
}

func TestTheRunsTimeoutDoesNotEndTheBranchWatch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(5*time.Hour, func() { w.check(red("a")) })
	result := w.orchestrate(t, watching, func(s *contract.Settings) { s.RunBudget.Time = 2 * time.Hour })
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "c0ffee2", result.Commit)
}

func TestACheckThatComesWhileTheReleaseIsAtWorkIsHealedAfterIt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	m := red("a")
	m.Commit = "c0ffee"
	w.releases = func(n int) {
		if n == 1 {
			w.check(m)
		}
	}
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.Len(t, w.actions(), 1)
}

func TestACheckBeforeTheReleaseIsIgnoredWithItsReason(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	sent := false
	w.onThink = func(contract.ThinkInput) {
		if !sent {
			sent = true
			w.check(red("a"))
		}
	}
	require.Equal(t, "c0ffee", w.orchestrate(t, watching).Commit)
	ignored := w.payloads(contract.EventCheckIgnored)
	require.Len(t, ignored, 1)
	require.Contains(t, ignored[0]["reason"], "not released anything yet")
}

func TestMessagesThatComeDuringARepairWaitInOrder(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	comment := func(id string) contract.CheckMessage {
		return contract.CheckMessage{ID: id, Kind: contract.CheckComment, Name: id, Details: "please"}
	}
	sent := false
	w.onThink = func(in contract.ThinkInput) {
		if in.Execution.Step == contract.StepRepair && !sent {
			sent = true
			w.check(comment("b"))
			w.check(comment("c"))
		}
	}
	w.after(time.Hour, func() { w.check(comment("a")) })
	require.Equal(t, "c0ffee4", w.orchestrate(t, watching).Commit)
	var order []any
	for _, p := range w.payloads(contract.EventCheckReceived) {
		order = append(order, p["id"])
	}
	require.Equal(t, []any{"a", "b", "c"}, order)
}

func TestAFloodOfMessagesIsReportedAsACount(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.env.SetTestTimeout(2 * time.Minute)
	const bursts, each = 10, 100
	const flood = bursts * each
	for burst := range bursts {
		w.after(time.Hour+time.Duration(burst)*time.Second, func() {
			m := red("a")
			m.Commit = "deadbeef"
			for i := range each {
				m.ID = fmt.Sprint("f", burst, "-", i)
				w.check(m)
			}
		})
	}
	w.after(2*time.Hour, func() {
		require.Equal(t, flood, w.view(t).Staying.Ignored)
		w.check(red("real"))
	})
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit, "what comes after the flood is healed")
	ignored := w.payloads(contract.EventCheckIgnored)
	require.Len(t, ignored, run.MaxCheckEvents+1)
	require.Equal(t, flood-run.MaxCheckEvents, ignored[run.MaxCheckEvents]["messages"])
}

func TestMoreMessagesThanMayWaitAreRefused(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	sent := false
	var refused *answer
	w.onThink = func(in contract.ThinkInput) {
		if in.Execution.Step == contract.StepRepair && !sent {
			sent = true
			for i := range run.MaxPendingChecks {
				w.check(red(fmt.Sprint("p", i)))
			}
			refused = w.updateCheck(red("more"))
		}
	}
	w.after(time.Hour, func() { w.check(red("a")) })
	require.Equal(t, "c0ffee2", w.orchestrate(t, watching).Commit)
	require.ErrorContains(t, refused.err, "already waiting")
	require.Equal(t, run.MaxPendingChecks, occurrences(w.events(), contract.EventCheckIgnored), "they are about the commit before")
}

func TestMessagesThatSayNothingAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", contract.CheckName+1)
	for name, m := range map[string]contract.CheckMessage{
		"no id": {Name: "a", Conclusion: "failure"}, "long id": {ID: long, Name: "a", Conclusion: "failure"},
		"no name": {ID: "a", Conclusion: "failure"}, "no conclusion": {ID: "a", Name: "a"},
		"unknown kind": {ID: "a", Name: "a", Kind: "conflict"}, "empty comment": {ID: "a", Name: "a", Kind: contract.CheckComment},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			var refused *answer
			w.after(time.Hour, func() { refused = w.updateCheck(m); w.check(m) })
			require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
			require.Error(t, refused.err)
			require.Equal(t, 1, occurrences(w.events(), contract.EventCheckIgnored))
			require.Empty(t, w.taken)
		})
	}
}

func TestARunThatWatchesItsBranchEndsOnceHoweverMessagesMeetItsRelease(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	inner := w.record
	_ = inner
	w.env.OnActivity(contract.ActivityRecord, mock.Anything, mock.Anything).Return(func(ctx context.Context, rec contract.Record) (contract.RecordResult, error) {
		for _, e := range rec.Events {
			if e.Type == contract.EventCheckPassed {
				<-time.After(300 * time.Millisecond)
			}
		}
		return w.record(ctx, rec)
	})
	w.releases = func(int) {
		for i := range 2 {
			m := red(fmt.Sprint("a", i))
			m.Conclusion = contract.ConclusionSuccess
			w.check(m)
		}
		<-time.After(100 * time.Millisecond)
	}
	_ = w.orchestrate(t, watching)
	over := false
	for _, rec := range w.recorded() {
		if rec.Run == nil {
			continue
		}
		if rec.Run.StayingUntil != nil && over {
			require.True(t, rec.Run.Staying, "after the row is over only this sets it")
		}
		over = over || rec.Run.Finished
	}
}

func TestATimeoutReadDuringTheReleaseEndsNoBranchWatch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	slowClock(w)
	w.releases = func(int) { <-time.After(400 * time.Millisecond) }
	out := w.orchestrate(t, watching, func(s *contract.Settings) { s.RunBudget.Time = 200 * time.Millisecond })
	require.Equal(t, contract.StatusDone, out.Status)
	require.Equal(t, "the time limit for watching the branch was reached", w.payloads(contract.EventStayEnded)[0]["reason"])
}

func TestAFullHistoryEndsTheBranchWatch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, func() {
		w.env.SetCurrentHistorySize(run.MaxHistoryBytes + 1)
		m := red("a")
		m.Conclusion = contract.ConclusionSuccess
		w.check(m)
	})
	began := w.env.Now()
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Less(t, w.env.Now().Sub(began), 2*time.Hour)
	require.Contains(t, w.payloads(contract.EventStayEnded)[0]["reason"], "more messages than its history can hold")
}

// commented is a comment of a person on a pull request.
func commented(id string) contract.CheckMessage {
	return contract.CheckMessage{
		ID: id, Kind: contract.CheckComment, Name: "x.go:3", Details: "rename it", By: "bob",
		Answer: &contract.CommentRef{Forge: "work", Repo: "o/r", Number: 7, Comment: id, Event: "comment:" + id},
	}
}

func TestACommentIsAnsweredAfterItsFixWasReleased(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, func() { w.check(commented("a")) })
	w.after(2*time.Hour, func() { w.check(red("b")) })
	require.Equal(t, commitOf(3), w.orchestrate(t, watching).Commit)
	require.Len(t, w.replies, 1, "a check is not answered")
	a := w.replies[0]
	require.Equal(t, contract.AnswerInput{
		RunID: a.RunID, Message: "a", To: *commented("a").Answer, Branch: a.Branch, Before: commitOf(1), Commit: commitOf(2),
	}, a)
	require.Contains(t, w.released.Authors, "bob", "he may not approve what he asked for")
}

func TestAnAnswerThatCannotBeWrittenFailsNothing(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.fail[contract.ActivityAnswer] = fault.New(contract.ClassConfig, contract.CodeUnauthorized, "no rights")
	w.after(time.Hour, func() { w.check(commented("a")) })
	w.after(2*time.Hour, func() { w.check(red("b")) })
	require.Equal(t, commitOf(3), w.orchestrate(t, watching).Commit)
	require.NotEmpty(t, w.replies)
}

func TestCommentsThatAreLeftWhenTheRunEndsAreAnsweredWithTheReason(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.spent = 3 // a person is asked
	w.after(time.Hour, func() {
		w.check(commented("a"))
		w.check(commented("b"))
		w.check(red("c"))
	})
	w.after(90*time.Minute, func() { w.update(contract.UpdateReject, contract.Command{ID: "r", By: "ann", Reason: "enough"}) })
	require.Equal(t, contract.StatusFailed, w.orchestrate(t, watching).Status)
	require.Len(t, w.replies, 2)
	for _, a := range w.replies {
		require.Contains(t, a.NotDone, "ann gave up (enough)")
		require.Equal(t, commitOf(1), a.Commit)
	}
}

func TestAStopDuringTheFixOfACommentAnswersIt(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.spent = 3
	w.after(time.Hour, func() { w.check(commented("a")) })
	w.after(90*time.Minute, func() {
		w.update(contract.UpdateStop, contract.Command{ID: "s", By: contract.BySystem, Reason: "pull request 7 was merged"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Len(t, w.replies, 1)
	require.Contains(t, w.replies[0].NotDone, "pull request 7 was merged")
	require.Contains(t, w.payloads(contract.EventStayEnded)[0]["reason"], "stopped by the system")
}

func TestARunWhosePullRequestWasMergedDuringARepairEndsItsWatch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pullStates = []contract.PullRequestState{contract.PullRequestOpen, contract.PullRequestMerged}
	began := w.env.Now()
	w.after(time.Hour, func() {
		w.check(commented("a"))
		w.check(commented("b"))
	})
	result := w.orchestrate(t, watching, withPullRequest)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, commitOf(2), result.Commit)
	require.Less(t, w.env.Now().Sub(began), 2*time.Hour)
	require.Equal(t, "pull request 7 was merged, so nothing is left to do", w.payloads(contract.EventStayEnded)[0]["reason"])
	require.Len(t, w.replies, 2)
	require.Empty(t, w.replies[0].NotDone, "it was carried out")
	require.Contains(t, w.replies[1].NotDone, "pull request 7 was merged")
}

func TestARunWhosePullRequestIsClosedAtItsReleaseBeginsNoWatch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.pullStates = []contract.PullRequestState{contract.PullRequestClosed}
	began := w.env.Now()
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching, withPullRequest).Status)
	require.Less(t, w.env.Now().Sub(began), time.Hour)
	require.Empty(t, w.payloads(contract.EventStayStarted))
}
