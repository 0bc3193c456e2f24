package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// updated makes runs open pull requests and update their branches.
func updated(s *contract.Settings) {
	watching(s)
	s.Release.Push = true
	s.Release.PullRequest = &contract.PullRequestSettings{Update: &contract.UpdateSettings{
		Method: contract.UpdateMerge, When: contract.UpdateOnConflict, Max: 2, Interval: 10 * time.Minute,
	}}
}

// moved is the message that the base conflicts with the given commit of the branch.
func moved(id, commit string) contract.CheckMessage {
	return contract.CheckMessage{ID: id, Kind: contract.CheckBase, Name: "the base main", Conclusion: contract.ConclusionConflict, Commit: commit, By: contract.ByForge}
}

// brings lets git bring a base in, with conflicts in the given files.
func brings(base string, conflicts ...string) contract.UpdateBranchResult {
	point := contract.BranchPoint{
		Commit: "merge of " + base, Workspace: contract.Workspace{Tree: "merged " + base, Patch: "patch"},
		Update: &contract.BranchUpdate{Head: "c0ffee", Base: base, Into: "main", Conflicts: conflicts, Content: contract.Workspace{Tree: "tree of " + base, Patch: "patch"}},
	}
	if len(conflicts) > 0 {
		point.Commit = ""
	}
	return contract.UpdateBranchResult{Point: point}
}

func TestABranchIsUpdatedFromItsBaseWithoutAnAgentIfNothingConflicts(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		return brings("ba5e"), nil
	}
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	w.after(2*time.Hour, func() {
		require.Equal(t, contract.StatusDone, w.view(t).Status)
		w.check(red("a"))
	})
	result := w.orchestrate(t, updated, gated)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "c0ffee3", result.Commit)
	require.Len(t, w.updatings, 1)
	require.Equal(t, "c0ffee", w.updatings[0].Head)
	require.Equal(t, contract.ConclusionConflict, w.updatings[0].Why)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions(), "of the red check only")
	require.Equal(t, 3, w.begun["tester/"], "what was brought in is verified")

	require.Len(t, w.published, 3)
	update := w.published[1]
	require.Equal(t, "merge of ba5e", update.Onto.Commit)
	require.Equal(t, "c0ffee", update.Replaces, "the branch must be where it was")
	require.Empty(t, update.Stages)
	require.Equal(t, "merged ba5e", update.Workspace.Tree)
	require.Equal(t, "tree of ba5e", update.Merged.Tree)
	fix := w.published[2]
	require.Equal(t, "c0ffee2", fix.Onto.Commit, "the next fix is made on top of the release")
	require.Nil(t, fix.Onto.Update)
	require.Equal(t, "c0ffee2", fix.Replaces)
	require.Len(t, fix.Stages, 1)
	require.Equal(t, "tree of ba5e", fix.Merged.Tree)
	for _, in := range w.judged {
		require.NotEqual(t, "merged ba5e", in.To.Tree, "what the base brings is not the run's change")
	}
	last := w.judged[len(w.judged)-1]
	require.Equal(t, "merged ba5e", last.From.Tree)
	began, done := w.payloads(contract.EventStayUpdating), w.payloads(contract.EventStayUpdated)
	require.Len(t, began, 1)
	require.Equal(t, "ba5e", began[0]["base_commit"])
	require.Len(t, done, 1)
	require.Equal(t, "c0ffee2", done[0]["commit"])
}

func TestConflictsWithTheBaseAreResolvedVerifiedAndOnlyTheResolutionIsJudged(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		return brings("ba5e", "x.go"), nil
	}
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	result := w.orchestrate(t, updated, gated)
	require.Equal(t, contract.StatusDone, result.Status)
	require.Equal(t, "c0ffee2", result.Commit)
	require.Equal(t, []contract.HealAction{contract.HealRepair}, w.actions())
	agent := w.opened[contract.StepRepair]
	require.Equal(t, "merged ba5e", agent.Workspace.Tree, "it begins with the markers")
	require.Equal(t, int64(100), agent.Heal.Check)
	require.Equal(t, "merged ba5e", w.released.Onto.Workspace.Tree)
	require.Equal(t, []string{"x.go"}, w.released.Onto.Update.Conflicts)
	require.Len(t, w.released.Stages, 1)
	require.Equal(t, "c0ffee", w.released.Replaces)
	last := w.judged[len(w.judged)-1]
	require.Equal(t, contract.GateRelease, last.Stage)
	require.Equal(t, "merged ba5e", last.From.Tree)
	require.Equal(t, w.released.Workspace.Tree, last.To.Tree)
}

func TestConflictMarkersThatAreLeftFailTheVerification(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		return brings("ba5e", "x.go"), nil
	}
	looks := 0
	w.markers = func(contract.ConflictMarkersInput) []string {
		if looks++; looks == 1 {
			return []string{"x.go"}
		}
		return nil
	}
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Equal(t, []contract.HealAction{contract.HealRepair, contract.HealRepair}, w.actions())
	require.Equal(t, 2, looks)
	require.Len(t, w.commits, 2)
}

func TestAPushDuringAnUpdateDropsItAndIsKept(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.updating = func(in contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		out := brings("ba5e")
		out.Point.Update.Head = in.Head
		return out, nil
	}
	w.pushes(theirs("decaf"))
	w.after(time.Hour, func() { w.refuses = 1; w.check(moved("m", "c0ffee")) })
	w.after(2*time.Hour, func() {
		require.Equal(t, contract.StatusDone, w.view(t).Status)
		require.Len(t, w.commits, 1, "nothing was released")
		w.check(moved("n", "decaf"))
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Len(t, w.updatings, 2)
	require.Equal(t, "decaf", w.updatings[1].Head)
	require.True(t, w.updatings[1].Pushed, "what people pushed is never rewritten")
	require.Equal(t, "decaf", w.released.Replaces)
	require.Empty(t, w.looked[0].Changes)
}

func TestABaseThatMovesContinuallyIsBroughtInAtIntervalsAndOnlySoOften(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var at []time.Time
	w.updating = func(in contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		at = append(at, in.At)
		out := brings(fmt.Sprint("ba5e", len(at)))
		out.Point.Update.Head = in.Head
		return out, nil
	}
	w.after(time.Hour, func() { w.check(moved("a", "c0ffee")) })
	w.after(61*time.Minute, func() { w.check(moved("b", "c0ffee2")) })
	w.after(62*time.Minute, func() { w.check(moved("c", "c0ffee2")) })
	w.after(63*time.Minute, func() {
		require.Equal(t, 1, w.view(t).Staying.Waiting, "the newest message about the base counts")
	})
	w.after(2*time.Hour, func() { w.check(moved("d", "c0ffee3")) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Len(t, at, 2)
	require.GreaterOrEqual(t, at[1].Sub(at[0]), 10*time.Minute)
	require.Contains(t, w.payloads(contract.EventCheckIgnored)[0]["reason"], "git.pull_request.max_updates")
}

func TestAnUpdateThatIsNotNeededChangesNothing(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	n := 0
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		switch n++; n {
		case 1:
			return contract.UpdateBranchResult{Reason: "the branch has all commits of its base", UpToDate: true}, nil
		case 2:
			return contract.UpdateBranchResult{Reason: "git merges it without a conflict"}, nil
		}
		return contract.UpdateBranchResult{}, fault.New(contract.ClassHuman, contract.CodeMergeConflict, "too many files conflict")
	}
	for i, id := range []string{"a", "b", "c"} {
		w.after(time.Duration(i+1)*time.Hour, func() { w.check(moved(id, "c0ffee")) })
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, updated).Status)
	require.Equal(t, 3, n)
	require.Len(t, w.commits, 1)
	ignored := w.payloads(contract.EventCheckIgnored)
	require.Len(t, ignored, 2, "that nothing is missing is no event")
	require.Contains(t, ignored[0]["reason"], "without a conflict")
	require.Contains(t, ignored[1]["reason"], "too many files")
}

func TestARunThatDoesNotUpdateItsBranchRefusesMessagesAboutTheBase(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching).Status)
	require.Empty(t, w.updatings)
	require.Contains(t, w.payloads(contract.EventCheckIgnored)[0]["reason"], "git.pull_request.update")
}

func TestAConflictThatNobodyResolvesFailsTheRunAndLeavesTheBranch(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.spent = 3
	w.updating = func(contract.UpdateBranchInput) (contract.UpdateBranchResult, *fault.Error) {
		return brings("ba5e", "x.go"), nil
	}
	w.after(time.Hour, func() { w.check(moved("m", "c0ffee")) })
	w.after(70*time.Minute, func() { w.update(contract.UpdateReject, contract.Command{ID: "n", By: "ann", Reason: "by hand"}) })
	result := w.orchestrate(t, updated)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.Equal(t, "c0ffee", result.Commit)
	require.Len(t, w.commits, 1)
	require.Contains(t, result.Failure.Message, "the update from main was not fixed: ann gave up")
}
