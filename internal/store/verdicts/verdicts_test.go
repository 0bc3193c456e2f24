package verdicts_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func verdictOf(run int64) contract.GateRecord {
	return contract.GateRecord{
		RunID: run, ExecutionID: 7, Stage: contract.GateStep, Step: "step-001", Author: "builder", Subject: "sha256:aa", From: "t1", Tree: "t2",
		Policies: map[string]string{"default": "sha256:01"}, Decision: contract.GateDeny,
		Reasons: []contract.GateReason{{Decision: contract.GateDeny, Guard: "rewrite", Rule: "links", Path: "a", Line: 3, Text: "remove the link"}},
		Findings: []contract.GateFinding{
			{Guard: "rewrite", Rule: "links", Path: "a", Line: 3, Severity: contract.SeverityMajor, Message: "a link leads outside"},
		},
	}
}

func basis() verdicts.Basis {
	return verdicts.Basis{
		Input: json.RawMessage(`{"stage":"step"}`), Repository: "sha256:02", Files: map[string]string{".rgpt/policies/a.rego": "package repository\n"},
		Refused: "too large",
	}
}

func TestAVerdictIsStoredOnceWithItsEvent(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	run := f.Create(t, store.NewRun{})
	var all sync.WaitGroup
	got := make([]contract.GateRecord, 8)
	for i := range got {
		all.Go(func() {
			v := verdictOf(run.ID)
			v.ExecutionID = int64(i + 1) // a repeat, also by another attempt, gets the first verdict
			var err error
			got[i], err = verdicts.Save(t.Context(), f.Store, "p1", v, basis())
			require.NoError(t, err)
		})
	}
	all.Wait()
	for _, g := range got {
		require.Equal(t, got[0], g)
	}
	want := verdictOf(run.ID)
	want.Policy, want.Files = "p1", []contract.GateFile{}
	want.ID, want.ExecutionID, want.CreatedAt = got[0].ID, got[0].ExecutionID, got[0].CreatedAt
	require.Equal(t, want, got[0])

	kept, ok, err := verdicts.BasisOf(t.Context(), f.Store, run.ID, got[0].ID)
	require.NoError(t, err)
	require.True(t, ok)
	require.JSONEq(t, string(basis().Input), string(kept.Input))
	kept.Input = basis().Input
	require.Equal(t, basis(), kept)
	_, ok, err = verdicts.BasisOf(t.Context(), f.Store, run.ID+1, got[0].ID)
	require.NoError(t, err)
	require.False(t, ok, "a verdict belongs to one run")

	other := verdictOf(run.ID)
	other.Decision, other.Reasons = contract.GateAllow, nil
	changed, err := verdicts.Save(t.Context(), f.Store, "p2", other, basis())
	require.NoError(t, err)
	require.Equal(t, contract.GateAllow, changed.Decision, "other policies judge again")

	events, err := f.Events(t.Context(), run.ID, 0, 0)
	require.NoError(t, err)
	var gate []contract.EventType
	for _, e := range events {
		if e.Type == contract.EventGateDenied || e.Type == contract.EventGateAllowed {
			gate = append(gate, e.Type)
			require.Contains(t, string(e.Payload), `"verdict_id"`)
		}
	}
	require.Equal(t, []contract.EventType{contract.EventGateDenied, contract.EventGateAllowed}, gate)

	last, found, err := verdicts.Last(t.Context(), f.Store, run.ID, contract.GateStep, "sha256:aa")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, changed.ID, last.ID)
	_, found, err = verdicts.Last(t.Context(), f.Store, run.ID, contract.GateRelease, "sha256:aa")
	require.NoError(t, err)
	require.False(t, found, "a verdict about a step says nothing about a release")
}

func TestAVerdictNamesThePersonWhoApprovedExactlyWhatWasJudged(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	b := f.First
	for _, subject := range []string{"sha256:old", "sha256:new"} {
		v := verdictOf(b.ID)
		v.Stage, v.Decision, v.Subject = contract.GateRelease, contract.GateNeedsApproval, subject
		_, err := verdicts.Save(t.Context(), f.Store, "p1", v, basis())
		require.NoError(t, err)
	}
	answer := func(status, subject, by string) {
		f.Apply(t, contract.Record{Notes: map[string]string{"id": "release", "kind": contract.ApprovalRelease, "status": status, "subject": subject, "by": by}})
	}
	answer("pending", "sha256:old", "")
	answer("granted", "sha256:old", "ann")
	by := func(subject string) string {
		who, err := verdicts.ApprovedBy(t.Context(), f.Store, b.ID, subject, 0)
		require.NoError(t, err)
		return who
	}
	require.Equal(t, "ann", by("sha256:old"))
	require.Empty(t, by("sha256:new"), "it has changed since")
	require.Empty(t, by(""), "an approval of nothing approves nothing")

	answer("pending", "sha256:new", "")
	require.Equal(t, "ann", by("sha256:old"), "a question about something else takes nothing back")
	require.Empty(t, by("sha256:new"), "and is not answered by it")
	answer("granted", "sha256:new", "bob")
	all, err := verdicts.Of(t.Context(), f.Store, b.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"ann", "bob"}, []string{all[0].ApprovedBy, all[1].ApprovedBy})
}

func TestStoredVerdictsContainNoSecrets(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	v := verdictOf(f.Create(t, store.NewRun{}).ID)
	secret := "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	v.Reasons[0].Text, v.Findings[0].Message, v.Findings[0].Path = "remove "+secret, secret, "x/"+secret
	stored, err := verdicts.Save(t.Context(), f.Store, "p1", v, basis())
	require.NoError(t, err)
	require.NotContains(t, stored.Reasons[0].Text+stored.Findings[0].Message+stored.Findings[0].Path, secret)
}

func TestPoliciesAreKeptUnderTheirDigest(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	files := map[string]string{"a.rego": "package operator\n"}
	for range 2 {
		require.NoError(t, verdicts.SavePolicies(t.Context(), f.Store, "sha256:1", files))
	}
	got, err := verdicts.Policies(t.Context(), f.Store, "sha256:1")
	require.NoError(t, err)
	require.Equal(t, files, got)
	_, err = verdicts.Policies(t.Context(), f.Store, "sha256:2")
	require.ErrorContains(t, err, "not stored")
}

func TestTheAuthorsOfARunAreThoseWhoSteeredAnyOfItsAttempts(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	run := f.Create(t, store.NewRun{Settings: contract.Settings{CreatedBy: "ann", Authors: []string{"Zoe"}}})
	said := func(kind contract.EventType, payload map[string]any) contract.EventDraft {
		return contract.EventDraft{Type: kind, Payload: payload}
	}
	_, err := f.Record(t.Context(), store.Source{WorkflowID: contract.RunWorkflowID(run.ID), WorkflowRunID: "r"}, contract.Record{RunID: run.ID, Seq: 1, Events: []contract.EventDraft{
		said(contract.EventMessageAdded, map[string]any{"by": "bob", "text": "use tabs"}),
		said(contract.EventMessageAdded, map[string]any{"by": " ANN ", "text": "no"}),
		said(contract.EventMessageAdded, map[string]any{"by": contract.ByAPI, "text": "no"}),
		said(contract.EventInputAnswered, map[string]any{"by": "cid", "answer": "this"}),
		said(contract.EventInputAnswered, map[string]any{"answer": "this", "default": true}),
		said(contract.EventApprovalGranted, map[string]any{"by": "only approved", "approval_id": "x"}),
		said(contract.EventApprovalGranted, map[string]any{"by": "dan", "approval_id": "x", "plan_id": 3}),
		said(contract.EventInterventionResolved, map[string]any{"by": "eve", "answer": "retry", "reason": "do it so"}),
		said(contract.EventInterventionResolved, map[string]any{"by": "said nothing", "answer": "retry", "reason": ""}),
		said(contract.EventInterventionResolved, map[string]any{"by": "gave up", "answer": "give_up", "reason": "no"}),
		said(contract.EventPipelineCommanded, map[string]any{"by": "continued it", "command": contract.UpdateContinue}),
		said(contract.EventPipelineCommanded, map[string]any{"by": "gus", "command": contract.UpdateRecordError}),
		said(contract.EventCheckReceived, map[string]any{"by": "fay", "check_kind": contract.CheckComment}),
		said(contract.EventCheckReceived, map[string]any{"by": "ci", "check_kind": ""}),
		said(contract.EventStayPushed, map[string]any{"people": []string{"Hal", "hal@example.com", "bob"}, "commits": 2}),
		said(contract.EventStayPushed, map[string]any{"people": nil}),
		said(contract.EventStayEnded, map[string]any{"people": []string{"nobody"}}),
	}})
	require.NoError(t, err)
	run, err = f.Run(t.Context(), run.ID)
	require.NoError(t, err)
	authors, err := verdicts.Authors(t.Context(), f.Store, run)
	require.NoError(t, err)
	require.Equal(t, []string{"Zoe", "ann", "bob", "cid", "dan", "eve", "gus", "fay", "Hal", "hal@example.com"}, authors)
}
