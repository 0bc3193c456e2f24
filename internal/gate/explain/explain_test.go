package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/explain"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/store/verdicts"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) {
	policy.MaybeRunHelper()
	goleak.VerifyTestMain(storetest.Main(m))
}

const token = "ghp_" + "q7Zt2LmX9vRb4KcW8yNf1HsD6aJe3PgU5oTi"

func TestAStoredVerdictIsExplainedAndJudgedByOtherPolicies(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	cfg := config.Default()
	settings := *gate.Settings(cfg)
	operator := map[string]string{"own/names.rego": `package operator

info contains {"text": "mind the notes", "path": f.path} if some f in input.change.files

waive contains {"guard": "workflow", "rule": "ci"}
`}
	g, err := gate.OfRun(t.Context(), settings, nil, operator, cfg.Gate)
	require.NoError(t, err)
	base := gatetest.Tree{"a": "1\n", ".rgpt/policies/own.rego": "package repository\n\ndeny contains \"no changes on Fridays\"\n"}
	after := gatetest.Tree{"a": "1\n", ".rgpt/policies/own.rego": base[".rgpt/policies/own.rego"], token + ".txt": "token = \"" + token + "\"\n"}
	judged, err := g.Decide(t.Context(), gatetest.Between(base, after), gate.Facts{
		Stage: policy.StageRelease, Base: base, Run: policy.Run{Pushes: true},
	})
	require.NoError(t, err)
	require.Equal(t, policy.Deny, judged.Verdict.Decision)

	basis, err := explain.Basis(judged)
	require.NoError(t, err)
	require.NotContains(t, string(basis.Input), token)
	record := contract.GateRecord{
		RunID: f.First.ID, Stage: contract.GateRelease, Author: "run", Subject: "sha256:1", Decision: contract.GateDeny, Policies: map[string]string{},
	}
	for _, b := range judged.Verdict.Bundles {
		record.Policies[b.Name] = b.Digest
	}
	stored, err := verdicts.Save(t.Context(), f.Store, "p", record, basis)
	require.NoError(t, err)
	c, ok, err := explain.Load(t.Context(), f.Store, stored)
	require.NoError(t, err)
	require.True(t, ok)

	require.NoError(t, verdicts.SavePolicies(t.Context(), f.Store, "sha256:own", operator))
	settings.Bundle = "sha256:own"
	e, err := explain.Engine(t.Context(), f.Store, settings, cfg.Gate, "", nil)
	require.NoError(t, err)
	got, err := c.Explain(t.Context(), e)
	require.NoError(t, err)
	require.False(t, got.Changed)
	require.Equal(t, contract.GateDeny, got.Now)
	require.Equal(t, 1, got.Totals.Created)
	sources := map[string]explain.GivenReason{}
	for _, found := range got.Findings {
		for _, r := range found.Given {
			if found.Guard == "secrets" {
				sources[r.Source] = r
			}
		}
	}
	require.Equal(t, contract.GateDeny, sources[policy.Default].Decision)
	require.Contains(t, sources[policy.Default].Rules[0], "rgpt/default.rego:")
	for _, r := range got.Others {
		sources[r.Source] = r
	}
	require.Equal(t, []string{"own/names.rego:3"}, sources[policy.Operator].Rules)
	require.Equal(t, "no changes on Fridays", sources[policy.Repository].Text)

	milder, err := explain.Engine(t.Context(), f.Store, settings, cfg.Gate, policy.Permissive, map[string]string{
		"w.rego": "package operator\n\nwaive contains {\"guard\": f.guard, \"rule\": f.rule} if some f in input.findings\n",
	})
	require.NoError(t, err)
	now, err := c.Judge(t.Context(), milder)
	require.NoError(t, err)
	require.Equal(t, policy.Deny, now.Decision, "the repository's policies still count")
	for _, r := range now.Reasons {
		require.True(t, r.Source != policy.Permissive && r.Source != policy.Default || r.Decision == policy.Allow, r.Text)
	}
	got, err = c.Explain(t.Context(), milder)
	require.NoError(t, err)
	require.True(t, got.Changed, "other policies decide")
}

func TestAVerdictOfAnEarlierVersionHasNoCase(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	_, ok, err := explain.Load(t.Context(), f.Store, contract.GateRecord{ID: 99, RunID: f.First.ID})
	require.NoError(t, err)
	require.False(t, ok)
}
