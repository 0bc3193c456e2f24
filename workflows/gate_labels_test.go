package workflows

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// labelled gives a run a gate that asks about its release, and decides otherwise once the run has labels:
// their names are part of the subject.
type labelled struct {
	*runFixture
	labels string
	then   contract.GateDecision
}

func newLabelled(t *testing.T, then contract.GateDecision) *labelled {
	t.Helper()
	w := &labelled{runFixture: newRunFixture(t), then: then}
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		if in.Stage != contract.GateRelease {
			return allowed(in)
		}
		v := verdictOn(in, contract.GateNeedsApproval, "workflow")
		if labels := w.now(); labels != "" {
			v = verdictOn(in, w.then, "labels")
			v.Subject += labels
		}
		return v
	}
	return w
}

func (w *labelled) now() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.labels
}

// set stores labels as the server does, and tells the run.
func (w *labelled) set(labels string) {
	w.mu.Lock()
	w.labels = labels
	w.mu.Unlock()
	w.env.SignalWorkflow(contract.SignalLabels, nil)
}

// asked returns the status and subject of each record about the approval of the release.
func (w *runFixture) asked() (out []string) {
	for _, r := range w.recorded() {
		if r.Notes["kind"] == contract.ApprovalRelease {
			out = append(out, r.Notes["status"]+" "+r.Notes["subject"])
		}
	}
	return out
}

func TestALabelWithdrawsAQuestionThatNeedsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]contract.GateDecision{"it blocks": contract.GateDeny, "it removes the need": contract.GateAllow} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLabelled(t, then)
			start := w.env.Now()
			w.after(time.Minute, func() { w.set(" x") })
			result := w.orchestrate(t, gated)
			require.Less(t, w.env.Now().Sub(start), 10*time.Minute, "without an answer")
			require.Equal(t, true, w.payloads(contract.EventApprovalExpired)[0]["withdrawn"])
			require.Equal(t, []string{"pending digest of " + w.judged[1].To.Tree, "expired "}, w.asked())
			if then == contract.GateAllow {
				require.Equal(t, contract.StatusDone, result.Status)
				require.Contains(t, w.released.Gate, " x")
				return
			}
			require.Equal(t, contract.CodeRejected, result.Failure.Code)
			require.Contains(t, result.Failure.Message, "after a change of its labels")
			require.Empty(t, w.commits)
		})
	}
}

func TestAPersonAnswersOnceForTheVerdictInForce(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateNeedsApproval)
	var during, stale *answer
	subject := ""
	w.after(time.Minute, func() {
		subject = w.judged[1].To.Tree
		w.set(" x")
		during = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
	})
	w.after(2*time.Minute, func() {
		stale = w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "ann", Subject: "digest of " + subject})
		w.update(contract.UpdateApprove, contract.Command{ID: "3", By: "bob", Subject: "digest of " + subject + " x"})
	})
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	require.ErrorContains(t, during.err, "is judged again; look at the verdict")
	require.ErrorContains(t, stale.err, "look at it again")
	require.Equal(t, "bob", w.released.ApprovedBy)
	digest := "digest of " + subject
	require.Equal(t, []string{"pending " + digest, "expired ", "pending " + digest + " x", "granted " + digest + " x"}, w.asked())
}

func TestAQuestionStaysIfLabelsDoNotChangeItsSubject(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateAllow)
	start := w.env.Now()
	w.after(20*time.Minute, func() { w.set("") })
	w.after(40*time.Minute, func() { w.set("") })
	require.Equal(t, contract.CodeApprovalExpired, w.orchestrate(t, gated).Failure.Code)
	require.Len(t, w.asked(), 2, "asked once, and expired")
	require.Equal(t, []sentReminder{{contract.EventApprovalReminded, 30 * time.Minute, []string(nil)}}, w.reminded(start), "as planned")
	require.Equal(t, time.Hour, w.env.Now().Sub(start).Round(time.Minute))
	require.Len(t, w.judged, 4)
}

func TestARejectionCountsWhileLabelsAreJudged(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateAllow)
	w.after(time.Minute, func() {
		w.set(" x")
		w.update(contract.UpdateReject, contract.Command{ID: "1", By: "ann"})
	})
	require.Equal(t, contract.CodeRejected, w.orchestrate(t, gated).Failure.Code)
	require.Empty(t, w.commits)
}

func TestALabelThatDemandsAReviewStartsIt(t *testing.T) {
	t.Parallel()
	fixture := func(t *testing.T) *labelled {
		w := newLabelled(t, contract.GateNeedsApproval)
		w.due = func(contract.GateInput) contract.ReviewDue {
			w.mu.Lock()
			known := len(w.reviews) > 0
			w.mu.Unlock()
			if known {
				return contract.ReviewDue{Known: &contract.ReviewResult{ID: 1, Major: 1, Open: []string{"R1"}}}
			}
			return contract.ReviewDue{Due: w.now() != ""}
		}
		w.review = func(contract.ReviewInput) (contract.ReviewResult, *fault.Error) { return majorFinding(), nil }
		return w
	}
	t.Run("while a person is asked", func(t *testing.T) {
		t.Parallel()
		w := fixture(t)
		w.after(time.Minute, func() { w.set(" x") })
		w.after(10*time.Minute, func() { w.set(" y") })
		w.after(20*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
		require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
		require.Len(t, w.reviews, 1, "once")
		require.Empty(t, w.healNotes(), "the person decides about its findings")
		require.Len(t, w.judged, 4)
	})
	t.Run("between the decision about a review and the verdict", func(t *testing.T) {
		t.Parallel()
		w := fixture(t)
		due := w.due
		first := true
		w.due = func(in contract.GateInput) contract.ReviewDue {
			out := due(in)
			if first {
				first = false
				w.set(" x")
			}
			return out
		}
		w.after(20*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
		require.Equal(t, contract.StatusDone, w.orchestrate(t, reviewedRun).Status)
		require.Len(t, w.reviews, 1)
		require.Equal(t, 1, count(w.events(), contract.EventApprovalRequested))
	})
}

func TestNothingIsPushedByAStaleVerdict(t *testing.T) {
	t.Parallel()
	stale := fault.New(contract.ClassRuntime, contract.CodeStaleVerdict, "other labels")
	for name, then := range map[string]contract.GateDecision{"and is denied": contract.GateDeny, "and is allowed": contract.GateAllow} {
		t.Run("the releaser finds other labels "+name, func(t *testing.T) {
			t.Parallel()
			w := newLabelled(t, then)
			w.fail[contract.ActivityRelease], w.left[contract.ActivityRelease] = stale, 1
			w.releases = func(int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.labels = " x" // the signal is still on its way
			}
			w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
			result := w.orchestrate(t, gated)
			require.Equal(t, 1, w.begun["releaser/"])
			require.Empty(t, w.healNotes())
			if then == contract.GateDeny {
				require.Equal(t, contract.CodeRejected, result.Failure.Code)
				require.Empty(t, result.Commit)
				return
			}
			require.Equal(t, contract.StatusDone, result.Status)
			require.Contains(t, w.released.Gate, " x")
		})
	}
	t.Run("the labels are as they were judged again", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = allowed
		w.fail[contract.ActivityRelease], w.left[contract.ActivityRelease] = stale, 1
		require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { gated(s); s.MaxRetries = 0 }).Status)
	})
	t.Run("the releaser refuses a verdict that is not stale", func(t *testing.T) {
		t.Parallel()
		w := newRunFixture(t)
		w.gate = allowed
		w.fail[contract.ActivityRelease] = stale
		result := w.orchestrate(t, func(s *contract.Settings) { gated(s); s.MaxRetries = 0 })
		require.Equal(t, contract.CodeStaleVerdict, result.Failure.Code, "no endless repetition")
	})
}

func TestLabelsThatAreTooLateForAReleaseAreInTheEventsOfTheRun(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateDeny)
	judge := w.gate
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		v := judge(in)
		if v.Decision == contract.GateDeny {
			v.ApprovedBy = "ann"
		}
		return v
	}
	w.releases = func(int) { w.set(" x") }
	w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	var said map[string]any
	for _, p := range w.payloads(contract.EventRunUpdated) {
		require.NotContains(t, p, "approved_before", "the release has been made")
		if p["labels_too_late"] == true {
			said = p
		}
	}
	require.Equal(t, contract.GateDeny, said["decision_now"])
	require.Equal(t, "c0ffee", said["commit"])
	require.Len(t, w.commits, 1)
}

func TestALabelOnARunThatWatchesItsBranchIsJudgedBeforeItsNextPush(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateDeny)
	w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	w.after(time.Hour, func() { w.set(" x") })
	w.after(2*time.Hour, func() { w.check(red("a")) })
	result := w.orchestrate(t, watching, gated)
	require.Equal(t, contract.CodeRejected, result.Failure.Code)
	require.Equal(t, "c0ffee", result.Commit)
	require.Len(t, w.commits, 1)
}

func TestAQuestionIsAskedAgainAboutAnotherVerdictOnTheSame(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateNeedsApproval)
	judge, upgraded := w.gate, false
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		v := judge(in)
		if upgraded && in.Stage == contract.GateRelease { // other guards
			v.ID, v.Reasons[0].Text = 2, "another reason"
		}
		return v
	}
	w.after(time.Minute, func() {
		upgraded = true
		w.set("")
	})
	w.after(2*time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
	var reasons []any
	for _, p := range w.payloads(contract.EventApprovalRequested) {
		reasons = append(reasons, p["reason"])
	}
	require.Equal(t, []any{"a.yml:3: not like this", "a.yml:3: another reason"}, reasons)
}

func TestARejectionCountsUntilItsQuestionIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := newLabelled(t, contract.GateNeedsApproval)
	judge := w.gate
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		v := judge(in)
		if w.now() != "" {
			v.ApprovedBy = "bob"
		}
		return v
	}
	asked := ""
	var rejected *answer
	w.after(time.Minute, func() {
		asked = "digest of " + w.judged[1].To.Tree
		w.set(" x")
	})
	w.onRecord = func(rec contract.Record) { // the new verdict is known, and what follows from it is being written
		for _, e := range rec.Events {
			if p, ok := e.Payload.(map[string]any); ok && p["approved_before"] == true {
				rejected = w.update(contract.UpdateReject, contract.Command{ID: "1", By: "ann", Subject: asked})
			}
		}
	}
	require.Equal(t, contract.CodeRejected, w.orchestrate(t, gated).Failure.Code)
	require.NotNil(t, rejected)
	require.NoError(t, rejected.err)
	require.Equal(t, []string{"pending " + asked, "rejected " + asked}, w.asked())
	require.Empty(t, w.commits)
}

func TestLabelsThatNeverStayTheSameKeepNobodyFromAnswering(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"other subjects": " x%d", "the same subject": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLabelled(t, contract.GateNeedsApproval)
			judge := w.gate
			var at []time.Time
			w.gate = func(in contract.GateInput) contract.GateVerdict {
				at = append(at, w.env.Now())
				return judge(in)
			}
			const every, times = 5 * time.Second, 120 // until 11 minutes
			for i := range times {
				w.after(time.Minute+time.Duration(i)*every, func() { w.set(strings.ReplaceAll(label, "%d", strconv.Itoa(i))) })
			}
			judged := 0
			var first, second *answer
			w.after(10*time.Minute, func() {
				judged = len(at)
				first = w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann"})
			})
			w.after(40*time.Minute, func() { second = w.update(contract.UpdateApprove, contract.Command{ID: "2", By: "bob"}) })
			require.Equal(t, contract.StatusDone, w.orchestrate(t, gated).Status)
			require.NotNil(t, first)
			require.NoError(t, first.err)
			require.Equal(t, 2+20, judged, "of the step, of the release, and of the labels")
			for i := 3; i < judged; i++ {
				require.GreaterOrEqual(t, at[i].Sub(at[i-1]), 10*time.Second)
			}
			if label == "" {
				require.Equal(t, "ann", w.released.ApprovedBy)
				return
			}
			require.NotNil(t, second)
			require.NoError(t, second.err, "what the first one approved is not what is released")
			require.Equal(t, "bob", w.released.ApprovedBy)
			require.True(t, strings.HasSuffix(w.released.Gate, w.now()))
		})
	}
}
