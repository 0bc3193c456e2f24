package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
)

func TestAPlanThatAPersonEditedIsJudgedBeforeTheRunUsesIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.gated()
	adopt := func(step contract.Step, edits ...contract.Edit) *contract.Failure {
		step.ID, step.Name = "step-001", "Say it"
		id, err := h.Store.SavePlan(t.Context(), h.run.ID, 0, "ann", contract.Plan{Summary: "Say more.", Steps: []contract.Step{step}, Edits: edits})
		require.NoError(t, err)
		_, failure := do[contract.PlanResult](h, h.AdoptPlan, contract.AdoptPlanInput{RunID: h.run.ID, PlanID: id})
		return failure
	}
	require.Nil(t, adopt(contract.Step{Description: "Say it again.", Files: []string{"hello.txt"}}))
	require.Nil(t, adopt(contract.Step{Description: "Say it again.", Files: []string{"hello.txt"}}), "the same plan")
	require.Nil(t, adopt(contract.Step{Description: "Run it in CI.", Files: []string{".github/workflows/ci.yml"}}), "a person is asked once, for the change")

	token := "ghp_" + "q7Zt2LmX9vRb4KcW8yNf1HsD6aJe3PgU5oTi"
	failure := adopt(contract.Step{Description: "Use the token " + token + "."})
	require.NotNil(t, failure)
	require.Contains(t, failure.Error()+failure.Cause, "the policy gate denied the plan: ")
	require.NotContains(t, failure.Message, token)
	require.NotNil(t, adopt(contract.Step{Description: "Say it.", Files: []string{"made.py"}}, contract.Edit{Path: "made.py", NewText: "TOKEN = \"" + token + "\"\n"}))

	all, err := verdicts.Of(t.Context(), h.Store, h.run.ID)
	require.NoError(t, err)
	var got []string
	for _, v := range all {
		got = append(got, string(v.Stage)+" "+string(v.Decision)+" "+v.Author)
	}
	require.Equal(t, []string{"plan allow person", "plan allow person", "plan deny person", "plan deny person"}, got)
	_, ok, err := verdicts.BasisOf(t.Context(), h.Store, h.run.ID, all[2].ID)
	require.NoError(t, err)
	require.True(t, ok, "it can be explained")
}
