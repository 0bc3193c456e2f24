package workflows

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

func withPullRequest(s *contract.Settings) {
	s.Release.Push, s.Release.Remote = true, "origin"
	s.Release.PullRequest = &contract.PullRequestSettings{Draft: contract.DraftByGate}
}

func TestAPullRequestIsOpenedForTheCommitThatWasReleased(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, withPullRequest).Status)
	require.Len(t, w.pulls, 1)
	require.Equal(t, commitOf(1), w.pulls[0].Commit)
	require.Equal(t, w.released.Workspace, w.pulls[0].Workspace)
	require.False(t, w.pulls[0].Approved)
	var output struct {
		PullRequest contract.PullRequest `json:"pull_request"`
	}
	for _, r := range w.recorded() {
		for _, e := range r.Events {
			if raw, err := json.Marshal(e.Payload); e.Type == contract.PhaseReleaser.CompletedEvent() && err == nil {
				require.NoError(t, json.Unmarshal(raw, &output))
			}
		}
	}
	require.Equal(t, int64(7), output.PullRequest.Number)
}

func TestARunWithoutAPullRequestAsksNoForge(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	require.Equal(t, contract.StatusDone, w.orchestrate(t, func(s *contract.Settings) { s.Release.Push = true }).Status)
	require.Empty(t, w.pulls)
}

func TestThePullRequestOfAnApprovedReleaseSaysSo(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.gate = func(in contract.GateInput) contract.GateVerdict {
		decision := contract.GateAllow
		if in.Stage == contract.GateRelease {
			decision = contract.GateNeedsApproval
		}
		return contract.GateVerdict{ID: 1, Decision: decision, Subject: "subject"}
	}
	w.after(time.Minute, func() { w.update(contract.UpdateApprove, contract.Command{ID: "1", By: "ann", Subject: "subject"}) })
	require.Equal(t, contract.StatusDone, w.orchestrate(t, gated, withPullRequest).Status)
	require.True(t, w.pulls[0].Approved)
}

func TestAForgeThatRefusesAPullRequestFailsTheRelease(t *testing.T) {
	t.Parallel()
	w := newRunFixture(t)
	w.fail[contract.ActivityPullRequest] = fault.New(contract.ClassConfig, contract.CodeUnauthorized, "the token may not open pull requests")
	result := w.orchestrate(t, withPullRequest)
	require.Equal(t, contract.StatusFailed, result.Status)
	require.ErrorContains(t, fault.Restore(*result.Failure), "may not open pull requests")
	require.Len(t, w.commits, 1, "the branch stays")
}
