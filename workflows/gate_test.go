package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func gated(s *contract.Settings) { s.Gate, s.MaxRetries = &contract.GateSettings{Policy: "default"}, 3 }

// verdictOn returns a verdict about what was judged, with one reason.
func verdictOn(in contract.GateInput, d contract.GateDecision, guard string) contract.GateVerdict {
	return contract.GateVerdict{
		ID: 1, Decision: d, Subject: "digest of " + in.To.Tree, Total: 1,
		Reasons: []contract.GateReason{{Decision: d, Guard: guard, Path: "a.yml", Line: 3, Text: "not like this"}},
	}
}

func allowed(in contract.GateInput) contract.GateVerdict {
	return verdictOn(in, contract.GateAllow, "")
}

func stages(judged []contract.GateInput) (out []contract.GateStage) {
	for _, in := range judged {
		out = append(out, in.Stage)
	}
	return out
}

func TestEveryChangeIsJudgedBeforeItIsAppliedAndBeforeItsRelease(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.Equal(t, []contract.GateStage{contract.GateStep, contract.GateRelease}, stages(w.judged))
	require.Equal(t, w.released.Workspace.Tree, w.judged[1].To.Tree)
	require.Equal(t, "digest of "+w.released.Workspace.Tree, w.released.Gate)
}

func TestADeniedStepIsDoneAgainWithTheReasons(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	denied := 1
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		if in.Stage == contract.GateStep && denied > 0 {
			denied--
			return verdictOn(in, contract.GateDeny, "secrets")
		}
		return allowed(in)
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	heal := w.healNotes()[1]
	require.Equal(t, contract.ClassSafety, heal.ErrorType)
	require.Equal(t, contract.HealPolicyCorrection, heal.Action)
	require.Equal(t, []contract.GateStage{contract.GateStep, contract.GateStep, contract.GateRelease}, stages(w.judged))
}

func TestADeniedReleaseIsCorrectedByTheRepairAgent(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var first string
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		if in.Stage == contract.GateRelease {
			if first == "" {
				first = in.To.Tree
			}
			if in.To.Tree == first {
				return verdictOn(in, contract.GateDeny, "syntax")
			}
		}
		return allowed(in)
	}
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.Equal(t, contract.HealPolicyCorrection, w.healNotes()[1].Action)
	require.NotEqual(t, first, w.released.Workspace.Tree)
	require.Len(t, w.commits, 1)
}

func TestNothingThatIsDeniedForGoodIsReleased(t *testing.T) {
	t.Parallel()
	t.Run("a person is asked, and nobody answers", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = func(in contract.GateInput) contract.GateVerdict { return verdictOn(in, contract.GateDeny, "secrets") }
		result := w.orchestrate(t, gated)
		require.Equal(t, contract.StatusFailed, result.Status)
		require.Empty(t, w.commits)
	})
	t.Run("blocked by a label, which nobody is asked about", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = func(in contract.GateInput) contract.GateVerdict {
			if in.Stage == contract.GateRelease {
				return verdictOn(in, contract.GateDeny, "labels")
			}
			return allowed(in)
		}
		result := w.orchestrate(t, gated)
		require.Equal(t, contract.CodeRejected, result.Failure.Code)
		require.Empty(t, w.healNotes())
		require.Empty(t, w.commits)
	})
	t.Run("the gate cannot judge", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = allowed
		w.fail[contract.ActivityGate] = fault.New(contract.ClassInfra, contract.CodeUnknown, "away")
		require.Equal(t, contract.StatusFailed, w.orchestrate(t, gated).Status)
		require.Empty(t, w.commits)
	})
}

func TestAReleaseThatNeedsApprovalWaitsForANamedPerson(t *testing.T) {
	t.Parallel()
	ask := func(in contract.GateInput) contract.GateVerdict {
		if in.Stage == contract.GateRelease {
			return verdictOn(in, contract.GateNeedsApproval, "workflow")
		}
		return allowed(in)
	}
	t.Run("approved", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = ask
		var unnamed *answer
		w.after(time.Minute, func() { unnamed = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: contract.ByAPI}) })
		w.after(2*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "ann"}) })
		require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
		require.ErrorContains(t, unnamed.err, "needs a named person (a.yml:3: not like this)")
		require.Equal(t, []string{"ann", w.judged[1].To.Tree}, []string{w.released.ApprovedBy, w.released.Workspace.Tree})
		var subjects []string
		for _, r := range w.records {
			if r.Notes["kind"] == contract.ApprovalRelease {
				subjects = append(subjects, r.Notes["status"]+" "+r.Notes["subject"])
			}
		}
		require.Equal(t, []string{"pending " + w.released.Gate, "granted " + w.released.Gate}, subjects)
	})
	t.Run("not answered", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = ask
		require.Equal(t, contract.CodeApprovalExpired, w.orchestrate(t, gated).Failure.Code)
		require.Empty(t, w.commits)
	})
	t.Run("a change after the approval needs a new one", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = ask
		w.fail[contract.ActivityRelease] = fault.New(contract.ClassAssertion, contract.CodeCheckFailed, "the remote refuses it")
		w.left[contract.ActivityRelease] = 1
		for i := range 3 {
			w.after(time.Duration(i+1)*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: string(rune('a' + i)), By: "ann"}) })
		}
		w.orchestrate(t, gated)
		asked := map[string]bool{}
		for _, r := range w.records {
			if r.Notes["kind"] == contract.ApprovalRelease && r.Notes["status"] == "pending" {
				asked[r.Notes["subject"]] = true
			}
		}
		require.Equal(t, len(asked), count(w.events(), contract.EventApprovalRequested), "never twice about the same")
	})
}

func TestAStepThatChangesNothingIsNotJudged(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = allowed
	w.answers["step-001"] = []contract.ThinkResult{{Finish: true}}
	w.orchestrate(t, gated)
	require.NotContains(t, stages(w.judged), contract.GateStep)
}

func TestAnAuthorOfTheChangeCannotApproveItIfThePolicyWantsAnother(t *testing.T) {
	t.Parallel()
	for name, demand := range map[string]func(*contract.Settings, *contract.GateVerdict){
		"by the settings": func(s *contract.Settings, _ *contract.GateVerdict) { s.Gate.Approver = contract.ApproverNotAuthor },
		"by the verdict":  func(_ *contract.Settings, v *contract.GateVerdict) { v.Approver = contract.ApproverNotAuthor },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.gate = func(in contract.GateInput) contract.GateVerdict {
				if in.Stage != contract.GateRelease {
					return allowed(in)
				}
				v := verdictOn(in, contract.GateNeedsApproval, "workflow")
				demand(&contract.Settings{Gate: &contract.GateSettings{}}, &v)
				return v
			}
			var refused []*answer
			approve := func(id, by string) {
				refused = append(refused, w.update(contract.UpdateApprove, contract.Command{ID: id, By: by}))
			}
			w.after(time.Minute, func() {
				w.update(contract.UpdateTell, contract.Command{ID: "0", By: "Bob", Text: "use tabs"})
				approve("1", " ANN ")
				approve("2", "bob")
				approve("3", contract.ByDashboard)
			})
			w.after(2*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "4", By: "cara"}) })
			result := w.orchestrate(t, gated, func(s *contract.Settings) {
				s.CreatedBy = "ann"
				demand(s, &contract.GateVerdict{})
			})
			require.Equal(t, contract.StatusDone, result.Status)
			require.Len(t, refused, 3)
			require.ErrorContains(t, refused[0].err, "needs a person who is not an author of the change")
			require.ErrorContains(t, refused[0].err, "authors: ann, Bob")
			require.ErrorContains(t, refused[1].err, "needs a person who is not an author of the change")
			require.ErrorContains(t, refused[2].err, "needs a named person")
			require.Equal(t, "cara", w.released.ApprovedBy)
			require.Equal(t, []string{"ann", "Bob"}, w.released.Authors)
		})
	}
}

func TestWhoAnswersSecondIsToldWhoWasFirst(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	var second, late *answer
	w.after(time.Minute, func() {
		w.update(contract.UpdatePause, contract.Command{ID: "0", By: "dan"})
		w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
		second = w.update(contract.UpdateReject, contract.Command{ID: "2", By: "bob"})
		w.update(contract.UpdateResume, contract.Command{ID: "3", By: "dan"})
		late = w.update(contract.UpdateApprove, contract.Command{ID: "4", By: "bob", ApprovalID: "run-7/release"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.ApproveRelease = true }).Status)
	require.ErrorContains(t, second.err, "approval run-7/release has already been granted by ann")
	require.ErrorContains(t, late.err, "approval run-7/release has already been granted by ann")
}

func TestALabelThatIsAddedAfterTheVerdictIsJudgedBeforeTheRelease(t *testing.T) {
	t.Parallel()
	for name, decision := range map[string]contract.GateDecision{"blocks": contract.GateDeny, "does not matter": contract.GateAllow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			labelled := ""
			w.gate = func(in contract.GateInput) contract.GateVerdict {
				if in.Stage != contract.GateRelease {
					return allowed(in)
				}
				v := allowed(in)
				if labelled == "" {
					v = verdictOn(in, contract.GateNeedsApproval, "workflow")
				} else if decision == contract.GateDeny {
					v = verdictOn(in, contract.GateDeny, "labels")
				}
				v.Subject += labelled
				return v
			}
			w.after(time.Minute, func() {
				labelled = " with a label"
				w.env.SignalWorkflow(contract.SignalLabels, nil)
				w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
			})
			result := w.orchestrate(t, gated)
			require.Equal(t, []contract.GateStage{contract.GateStep, contract.GateRelease, contract.GateRelease}, stages(w.judged))
			if decision == contract.GateDeny {
				require.Equal(t, contract.CodeRejected, result.Failure.Code)
				require.Contains(t, result.Failure.Message, "after a change of its labels, the policy gate denied")
				require.Empty(t, w.commits)
				return
			}
			require.Equal(t, contract.StatusDone, result.Status)
			require.Contains(t, w.released.Gate, "with a label")
		})
	}
}

func TestAnApprovalIsNotValidForOtherLabels(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	labelled := ""
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		if in.Stage != contract.GateRelease {
			return allowed(in)
		}
		v := verdictOn(in, contract.GateNeedsApproval, "workflow")
		v.Subject += labelled
		return v
	}
	w.after(time.Minute, func() {
		labelled = " with a label"
		w.env.SignalWorkflow(contract.SignalLabels, nil)
		w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
	})
	w.after(2*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "bob"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.Equal(t, "bob", w.released.ApprovedBy)
	require.Equal(t, 2, count(w.events(), contract.EventApprovalRequested))
}

func TestAnApprovalCountsOnlyForTheSubjectThatItNames(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	subject := ""
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		if in.Stage != contract.GateRelease {
			return allowed(in)
		}
		v := verdictOn(in, contract.GateNeedsApproval, "workflow")
		subject = v.Subject
		return v
	}
	var wrong, right *answer
	w.after(time.Minute, func() {
		wrong = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann", Subject: "sha256:earlier"})
		right = w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "bob", Subject: subject})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.ErrorContains(t, wrong.err, "not sha256:earlier; look at it again")
	require.NoError(t, right.err)
	require.Equal(t, "bob", w.released.ApprovedBy)
}

// asksForAnother is a gate that wants the approval of a person who is not an author.
func asksForAnother(in contract.GateInput) contract.GateVerdict {
	if in.Stage != contract.GateRelease {
		return allowed(in)
	}
	v := verdictOn(in, contract.GateNeedsApproval, "workflow")
	v.Approver = contract.ApproverNotAuthor
	return v
}

func TestAReplayDoesNotForgetTheAuthorsOfTheChange(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate, w.replays = asksForAnother, &contract.ReplaySpec{Authors: []string{"bob"}}
	var own *answer
	w.after(time.Minute, func() {
		own = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "Bob"})
		w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "cara"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.ErrorContains(t, own.err, "not an author of the change")
	require.Equal(t, "cara", w.released.ApprovedBy)
}

func TestWhoseCommentOnABranchIsCarriedOutIsAnAuthor(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = asksForAnother
	var own *answer
	w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "bob"}) })
	w.after(time.Hour, func() {
		w.check(contract.CheckMessage{ID: "b", Kind: contract.CheckComment, Name: "x.go:3", Details: "rename it", Commit: "c0ffee", By: "bob"})
	})
	w.after(90*time.Minute, func() {
		own = w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "bob"})
		w.update(contract.UpdateApprove, contract.Command{ID: "3", By: "cara"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, watching, gated).Status)
	require.ErrorContains(t, own.err, "not an author of the change")
	require.Equal(t, "cara", w.released.ApprovedBy)
	require.Len(t, w.commits, 2)
}

func TestWhoApprovedExactlyThisBeforeIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by    string
		asked int
		gate  func(contract.GateInput) contract.GateVerdict
	}{
		"a person":        {by: "ann", gate: asksForAnother},
		"an author":       {by: "Bob", asked: 1, gate: asksForAnother},
		"without a name":  {by: contract.ByAPI, asked: 1, gate: asksForAnother},
		"nobody needs to": {by: contract.ByAPI, gate: allowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.gate = func(in contract.GateInput) contract.GateVerdict {
				v := c.gate(in)
				if in.Stage == contract.GateRelease {
					v.ApprovedBy = c.by
				}
				return v
			}
			w.after(10*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "cara"}) })
			result := w.orchestrate(t, gated, func(s *contract.Settings) { s.CreatedBy, s.ApproveRelease = "bob", true })
			require.Equal(t, contract.StatusDone, result.Status)
			require.Equal(t, c.asked, count(w.events(), contract.EventApprovalRequested))
			if c.asked == 0 {
				require.Equal(t, c.by, w.released.ApprovedBy)
			}
		})
	}
}

func TestAnApprovalIsNotTakenOverIfItIsNotNeeded(t *testing.T) {
	t.Parallel()
	for name, decision := range map[string]contract.GateDecision{"allowed": contract.GateAllow, "denied": contract.GateDeny} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRunFixture(t)
			w.gate = func(in contract.GateInput) contract.GateVerdict {
				if in.Stage != contract.GateRelease {
					return allowed(in)
				}
				v := verdictOn(in, decision, "labels")
				v.ApprovedBy = "ann"
				return v
			}
			w.orchestrate(t, gated)
			for _, p := range w.payloads(contract.EventRunUpdated) {
				require.NotContains(t, p, "approved_before")
			}
			require.Empty(t, w.released.ApprovedBy)
		})
	}
}

func TestAnAuthorThatOnlyTheDatabaseKnowsCannotApprove(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		v := asksForAnother(in)
		v.Authors = []string{"bob"}
		return v
	}
	var own *answer
	w.after(time.Minute, func() {
		own = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "Bob"})
		w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "cara"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.ErrorContains(t, own.err, "not an author of the change")
	require.Equal(t, "cara", w.released.ApprovedBy)
}
