package explain_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
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

func TestAgesOfDependenciesAreKeptForLaterJudgements(t *testing.T) {
	t.Parallel()
	f := storetest.Setup(t)
	cfg := config.Default()
	cfg.Gate.Dependencies.Lookup, cfg.Gate.Dependencies.MinAge = true, 72*time.Hour
	settings := *gate.Settings(cfg)
	g, err := gate.OfRun(t.Context(), settings, nil, nil, config.Default().Gate)
	require.NoError(t, err)
	c := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"package.json": `{"dependencies":{"thing":"1.2.3","invented":"1.0.0"}}`})
	c.Asked = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) // long before this test: time passes until it is judged again
	c.Dependencies = []change.Dependency{
		{Path: "package.json", Ecosystem: "npm", Name: "thing", Version: "1.2.3", Exact: true, Status: change.StatusFound, Published: c.Asked.Add(-time.Hour), First: c.Asked.Add(-9999 * time.Hour)},
		{Path: "package.json", Ecosystem: "npm", Name: "invented", Version: "1.0.0", Exact: true, Status: change.StatusNotFound},
	}
	judged, err := g.Decide(t.Context(), c, gate.Facts{Stage: policy.StageRelease, Run: policy.Run{Pushes: true}})
	require.NoError(t, err)
	require.Equal(t, policy.NeedsApproval, judged.Verdict.Decision)
	require.EqualValues(t, 72*3600, judged.Input.Rules.MinAge)
	basis, err := explain.Basis(judged)
	require.NoError(t, err)
	stored, err := verdicts.Save(t.Context(), f.Store, "p", contract.GateRecord{
		RunID: f.First.ID, Stage: contract.GateRelease, Author: "run", Subject: "sha256:1", Decision: contract.GateNeedsApproval, Policies: map[string]string{},
	}, basis)
	require.NoError(t, err)
	again, ok, err := explain.Load(t.Context(), f.Store, stored)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, judged.Input.Dependencies, again.Input.Dependencies)

	for bundle, want := range map[string]policy.Decision{"": policy.NeedsApproval, policy.Strict: policy.Deny, policy.Permissive: policy.Allow} {
		e, err := explain.Engine(t.Context(), f.Store, settings, cfg.Gate, bundle, nil)
		require.NoError(t, err)
		v, err := again.Judge(t.Context(), e)
		require.NoError(t, err)
		require.Equal(t, want, v.Decision, bundle)
		if bundle == "" {
			require.Equal(t, judged.Verdict, v)
		}
	}
	e, err := explain.Engine(t.Context(), f.Store, settings, cfg.Gate, policy.Permissive, map[string]string{"own.rego": `package operator

deny contains {"text": sprintf("%v is %v seconds old", [d.name, d.age_seconds])} if {
	some d in input.dependencies
	d.age_seconds < 7200
}
`})
	require.NoError(t, err)
	v, err := again.Judge(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, policy.Deny, v.Decision)
	require.Equal(t, "thing is 3600 seconds old", v.Reasons[0].Text, "an age that is not known matches no comparison")
}
