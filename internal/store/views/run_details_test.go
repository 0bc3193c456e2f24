package views_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/store/providers"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// full returns a run with something of everything that a run can have, and more events than one query reads.
func full(tb testing.TB) *storetest.Fixture {
	tb.Helper()
	f := storetest.Setup(tb)
	ctx, before := tb.Context(), f.First.ID
	var settings contract.Settings
	settings.FollowUp = &contract.FollowUp{RunID: before, Branch: "rgpt/run-1"}
	settings.Fork = &contract.Fork{RunID: before, Step: "step-001"}
	settings.RunBudget = contract.RunBudget{Tokens: 5000, MicroUSD: 9, Agents: map[contract.Agent]contract.AgentBudget{contract.AgentBuilder: {Tokens: 900}}}
	f.First = f.Create(tb, store.NewRun{Settings: settings, GoalTitle: "Everything"})
	id := f.First.ID
	f.Create(tb, store.NewRun{Settings: contract.Settings{FollowUp: &contract.FollowUp{RunID: id, Branch: "rgpt/run-2"}}})
	f.Create(tb, store.NewRun{Settings: contract.Settings{Fork: &contract.Fork{RunID: id, Step: "step-001"}}})

	phase := func(p contract.Phase, output string) contract.ExecutionRef {
		e := f.Apply(tb, contract.Record{
			At: time.Now(), Run: &contract.RunChange{Phase: p, Status: p.Running()},
			Begin: &contract.ExecutionBegin{Phase: p, Agent: contract.AgentOf(p), Model: contract.ModelChoice{Provider: "scripted", Model: "m"}},
		})
		reserved, err := f.ReserveCall(ctx, store.Reservation{
			Execution: e, Turn: 1, Provider: "scripted", Model: "m", Prompt: 50, Scopes: store.RunScopes(id, settings.RunBudget),
		})
		require.NoError(tb, err)
		require.NoError(tb, f.CompleteCall(ctx, reserved.ID, contract.Usage{PromptTokens: 30, CompletionTokens: 7}, time.Second, json.RawMessage(`{}`), nil))
		f.Apply(tb, contract.Record{At: time.Now(), End: &contract.ExecutionEnd{ExecutionID: e.ID, Status: contract.ExecutionCompleted, Output: json.RawMessage(output)}})
		return e
	}
	f.Apply(tb, contract.Record{Events: []contract.EventDraft{
		{Type: contract.EventEnvironmentReady, Payload: map[string]any{"environment": "abc", "files": 3}},
		{Type: contract.EventBaselineReady, Payload: map[string]any{"baseline": "k", "summary": contract.TestSummary{Passed: 2}}},
	}})
	plan, err := f.SavePlan(ctx, id, 0, "ann", contract.Plan{Summary: "s", Steps: []contract.Step{{ID: "step-001", Name: "n", Description: "d"}}})
	require.NoError(tb, err)
	f.Apply(tb, contract.Record{Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.PhasePlanner.Running(), PlanID: plan}})
	phase(contract.PhasePlanner, `{"p": 1}`)
	phase(contract.PhaseBuilder, `{"b": 1}`)
	phase(contract.PhaseReleaser, `{"r": 1}`)
	phase(contract.PhaseTester, `{"t": 1}`) // an earlier one does not count
	tester := phase(contract.PhaseTester, `{"t": 2}`)
	for n := range 2 {
		check := contract.CheckResult{
			Check: contract.Check{ID: fmt.Sprintf("test-%d", n), Category: contract.CategoryTest}, Summary: contract.TestSummary{Passed: 1},
			Coverage: &contract.Coverage{LineCount: contract.LineCount{Lines: 10, Covered: 5 + n}},
		}
		require.NoError(tb, f.SaveCheck(ctx, tester, check.Check.ID, check, []contract.TestCase{{Name: fmt.Sprint("T", n), Status: contract.TestPassed}},
			[]contract.Finding{{Severity: contract.SeverityMajor, Category: contract.CategoryTest, Message: "wrong"}}, ""))
	}
	require.NoError(tb, f.AddArtifacts(ctx, id, []contract.Artifact{
		{ExecutionID: tester.ID, Name: "tester/log", Type: contract.ArtifactLog, Digest: "sha256:00"}, {Name: "x", Type: contract.ArtifactLog, Digest: "sha256:01"},
	}))

	deadline := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	_, err = retain.New(f.Store).Hold(ctx, id, "audit", "ann")
	require.NoError(tb, err)
	verdict, err := verdicts.Save(ctx, f.Store, "p1", contract.GateRecord{
		RunID: id, Stage: contract.GateRelease, Subject: "sha256:1", Decision: contract.GateNeedsApproval, Reasons: []contract.GateReason{{Decision: contract.GateNeedsApproval, Guard: "g", Text: "why"}},
	}, verdicts.Basis{Input: json.RawMessage(`{}`)})
	require.NoError(tb, err)
	_, err = verdicts.SaveReview(ctx, f.Store, contract.ReviewRecord{RunID: id, ExecutionID: tester.ID, Round: 1, From: "t1", Tree: "t2", Model: "p/m", Summary: "s"})
	require.NoError(tb, err)
	require.NoError(tb, pullrequests.Save(ctx, f.Store, contract.PullRequest{RunID: id, Forge: "work", Repo: "team/app", Number: 7, Head: "rgpt/run-2", Base: "main", State: contract.PullRequestOpen}, true))
	reminders := []contract.PlannedReminder{{Number: 1, At: deadline.Add(-time.Hour), To: []string{"page"}}}
	intervention := contract.InterventionID(id, 1)
	f.Apply(tb, contract.Record{
		At:    time.Now(),
		Notes: map[string]string{"id": "release", "kind": contract.ApprovalRelease, "status": "pending", "deadline": deadline.Format(time.RFC3339), "subject": "sha256:1", "verdict": fmt.Sprint(verdict.ID)},
		Events: []contract.EventDraft{
			{Type: contract.EventApprovalRequested, Payload: map[string]any{"approval_id": "release", "deadline": deadline, "reminders": reminders}},
			{Type: contract.EventInterventionRequested, Payload: map[string]any{"intervention_id": intervention, "kind": "quota", "deadline": deadline, "reminders": reminders}},
		},
		Interventions: []contract.InterventionNote{{Number: 1, Status: "open", Phase: contract.PhaseBuilder, Reason: "no quota", ActionRequired: "none", Deadline: &deadline}},
		Heals:         []contract.HealNote{{Number: 1, Phase: contract.PhaseTester, ExecutionID: tester.ID, ErrorType: contract.ClassLLM, Action: "fix", Status: contract.HealStarted}},
	})
	_, err = providers.New(f.Store).Enqueue(ctx, providers.QueuedCall{Provider: "scripted", Model: "m", RunID: id, Agent: contract.AgentBuilder}, time.Hour)
	require.NoError(tb, err)
	for range 3 {
		f.Apply(tb, contract.Record{Events: storetest.Drafts(900)})
	}
	return f
}

func TestTheDetailsOfARunWithEverythingInItAreItsPartsReadOneByOne(t *testing.T) {
	t.Parallel()
	f := full(t)
	ctx, id := t.Context(), f.First.ID
	got, err := f.RunDetails(ctx, id)
	require.NoError(t, err)
	for i := range reflect.TypeOf(got).NumField() {
		field := reflect.TypeOf(got).Field(i)
		require.NotEmpty(t, reflect.ValueOf(got).Field(i).Interface(), "the run has %s, so that the comparison is about them, too", field.Name)
	}

	want := got // apart from what is replaced
	part := func(err error) { t.Helper(); require.NoError(t, err) }
	want.Run, err = f.Run(ctx, id)
	part(err)
	prepared, err := f.Preparation(ctx, want.Run)
	part(err)
	want.Environment, want.Baseline = prepared.Environment, prepared.Baseline
	want.Executions, err = f.Executions(ctx, id)
	part(err)
	want.Events = nil
	for after := int64(0); after < want.EventSeq; after = want.Events[len(want.Events)-1].Seq {
		page, err := f.Events(ctx, id, after, 0)
		part(err)
		want.Events = append(want.Events, page...)
	}
	require.Greater(t, len(want.Events), 2000, "more than two pages")
	want.Findings, err = f.Findings(ctx, id)
	part(err)
	want.Artifacts, err = f.Artifacts(ctx, id)
	part(err)
	want.Lineage, err = followups.Of(ctx, f.Store, want.Run)
	part(err)
	require.Equal(t, followups.Lineage{
		Follows: want.Lineage.ForkOf, ForkOf: want.Lineage.Follows, FollowUps: want.Lineage.FollowUps[:1], Forks: want.Lineage.Forks[:1],
	}, want.Lineage)
	require.EqualValues(t, 1, want.Lineage.Follows.RunID)
	want.Hold, err = f.Hold(ctx, id)
	part(err)
	want.Usage, err = f.Usage(ctx, id)
	part(err)
	want.ModelUsage, err = f.ModelUsage(ctx, id)
	part(err)
	want.Budgets, err = f.Budgets(ctx, store.RunScopes(id, want.Settings.RunBudget))
	part(err)
	require.Len(t, want.Budgets, 2)
	require.Positive(t, want.Budgets[0].SpentTokens)
	want.Phases, err = f.Phases(ctx, id)
	part(err)
	want.SelfHealEvents, err = f.Heals(ctx, id)
	part(err)
	want.Approvals, err = f.Approvals(ctx, id)
	part(err)
	require.NotEmpty(t, want.Approvals[0].Reminders)
	require.NotEmpty(t, want.Approvals[0].Reasons, "those of the verdict")
	want.Interventions, err = f.Interventions(ctx, id)
	part(err)
	want.Interventions[0].Kind, want.Interventions[0].Reminders = "quota", want.Approvals[0].Reminders
	want.Gate, err = verdicts.Of(ctx, f.Store, id)
	part(err)
	want.Reviews, err = verdicts.Reviews(ctx, f.Store, id)
	part(err)
	want.PullRequests, err = pullrequests.Of(ctx, f.Store, id)
	part(err)
	want.WaitingCalls, err = f.WaitingCalls(ctx, id)
	part(err)
	outputs, err := f.Outputs(ctx, id)
	part(err)
	want.BuilderOutput, want.ReleaserOutput = outputs.Builder, outputs.Releaser
	require.Equal(t, want, got)
	var planned struct {
		P    int
		Plan contract.Plan
	}
	require.NoError(t, json.Unmarshal(got.PlannerOutput, &planned))
	require.Equal(t, 1, planned.P)
	plan, err := f.Plan(ctx, id)
	part(err)
	require.Equal(t, plan, planned.Plan)
	var tested struct {
		T         int
		Summary   contract.TestSummary
		Results   []contract.TestCase
		Artifacts []string
		Coverage  *contract.Coverage
	}
	require.NoError(t, json.Unmarshal(got.TesterOutput, &tested))
	require.Equal(t, 2, tested.T)
	require.Equal(t, 2, tested.Summary.Passed)
	require.Len(t, tested.Results, 2)
	require.Equal(t, []string{"tester/log"}, tested.Artifacts)
	require.NotNil(t, tested.Coverage)

	recent, err := f.RecentDetails(ctx, id, 5)
	require.NoError(t, err)
	want.Events = want.Events[len(want.Events)-5:]
	require.Equal(t, want, recent)
}

// TestTheDetailsOfARunAreReadInTwoRoundTrips is not parallel: the round trips that it counts are those of the process.
func TestTheDetailsOfARunAreReadInTwoRoundTrips(t *testing.T) {
	f := full(t)
	for _, read := range []func() (views.RunDetails, error){
		func() (views.RunDetails, error) { return f.RunDetails(t.Context(), f.First.ID) },
		func() (views.RunDetails, error) { return f.RecentDetails(t.Context(), f.First.ID, 5) },
	} {
		before := roundTrips(t)
		_, err := read()
		require.NoError(t, err)
		require.EqualValues(t, 2, roundTrips(t)-before)
	}
}

// roundTrips returns how many round trips to the database the process has made.
func roundTrips(tb testing.TB) (n uint64) {
	tb.Helper()
	all, err := telemetry.Registry.Gather()
	require.NoError(tb, err)
	for _, family := range all {
		if family.GetName() == "rgpt_database_duration_seconds" {
			for _, m := range family.GetMetric() {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

func TestDetailsOfARunThatDoesNotExistAreNotFoundAndTheirConnectionRemainsUsable(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	one, err := store.Open(t.Context(), f.URL, store.Options{MaxConns: 1})
	require.NoError(t, err)
	defer one.Close()
	for range 3 {
		_, err = views.New(one).RunDetails(t.Context(), 4711)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.ErrorContains(t, err, "run 4711 not found; see rgpt run list")
	}
	details, err := views.New(one).RunDetails(t.Context(), f.First.ID)
	require.NoError(t, err)
	require.Equal(t, f.First.ID, details.ID)
	require.NoError(t, one.AddArtifacts(t.Context(), f.First.ID, []contract.Artifact{{Name: "x", Type: contract.ArtifactLog, Digest: "sha256:01"}}), "it is not read-only any more")
}
