package gate_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

func TestMain(m *testing.M) {
	policy.MaybeRunHelper()
	goleak.VerifyTestMain(m)
}

// words finds files that contain a word.
type words struct{}

func (words) Name() string { return "secrets" }

func (words) Judge(_ context.Context, c change.Change) (found []change.Finding, err error) {
	for _, f := range c.Files {
		for _, l := range f.AddedLines() {
			if l.Text == "password" {
				found = append(found, change.Finding{
					Guard: "secrets", Rule: "password", Path: f.Path, Line: l.Number, Severity: contract.SeverityMajor, Message: "remove the password",
				})
			}
		}
	}
	return found, nil
}

func newGate(t *testing.T, edit func(*config.Config)) *gate.Gate {
	t.Helper()
	cfg := config.Default()
	if edit != nil {
		edit(cfg)
	}
	g, err := gate.NewWith(t.Context(), cfg, []change.Guard{words{}})
	require.NoError(t, err)
	return g
}

func TestAGateJudgesWhatGuardsFound(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	clean := gatetest.Between(gatetest.Tree{"a": "1\n"}, gatetest.Tree{"a": "2\n"})
	v, err := g.Judge(t.Context(), clean, gate.Facts{Stage: policy.StageRelease})
	require.NoError(t, err)
	require.Equal(t, policy.Allow, v.Decision)
	require.Empty(t, v.Reasons)

	c := gatetest.Between(gatetest.Tree{"a": "1\n"}, gatetest.Tree{"a": "1\npassword\n"})
	v, err = g.Judge(t.Context(), c, gate.Facts{Stage: policy.StageRelease})
	require.NoError(t, err)
	require.Equal(t, policy.Deny, v.Decision)
	require.Equal(t, "remove the password", v.Reasons[0].Text)
	require.Equal(t, 2, v.Reasons[0].Line)
}

func TestPoliciesComeFromTheBaseCommitAndNeverFromTheChange(t *testing.T) {
	t.Parallel()
	g := newGate(t, nil)
	const asks = "package repository\nneeds_approval contains \"ask first\"\n"
	base := gatetest.Tree{".rgpt/policies/own.rego": asks, "a": "1\n"}
	without := gatetest.Between(base, gatetest.Tree{"a": "2\n"})
	v, err := g.Judge(t.Context(), without, gate.Facts{Stage: policy.StageRelease})
	require.NoError(t, err)
	require.Equal(t, policy.NeedsApproval, v.Decision, "a change that deletes the policies is still judged by them")

	later := gatetest.Between(gatetest.Tree{"a": "2\n"}, gatetest.Tree{"a": "3\n"})
	later.Author = change.RoleBuilder
	_, err = g.Judge(t.Context(), later, gate.Facts{Stage: policy.StageStep})
	require.ErrorContains(t, err, "base commit is required", "an earlier step may have deleted them")
	v, err = g.Judge(t.Context(), later, gate.Facts{Stage: policy.StageStep, Base: base})
	require.NoError(t, err)
	require.Equal(t, policy.NeedsApproval, v.Decision)

	v, err = g.Judge(t.Context(), gatetest.Between(gatetest.Tree{"a": "1\n"}, base), gate.Facts{Stage: policy.StageRelease})
	require.NoError(t, err)
	require.Equal(t, policy.Allow, v.Decision, "a policy that the change adds does not count yet")
}

func TestAMistakeInTheOperatorsPoliciesPreventsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "ours.rego")
	cfg := config.Default()
	cfg.Gate.Policies = dir
	for text, says := range map[string]string{
		"package operator\n\ndeny contains {":                             ":3",
		"package operator\n\ndeny contains x if y":                        ":3",
		"package operator\n\nwaive := true":                               ":3: waive must be a set",
		"package rgpt.lib\nfinal := true":                                 ":1: the package is rgpt.lib; it must be operator",
		"package operator\nimport data.rgpt.lib\n":                        ":2",
		"package operator\n\ndeny contains x if x := opa.runtime().env.X": ":3",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := gate.New(t.Context(), cfg)
		require.ErrorContains(t, err, file+says, text)
		require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
	}
	cfg.Gate.Policies = filepath.Join(dir, "none")
	_, err := gate.New(t.Context(), cfg)
	require.ErrorContains(t, err, "gate.policies")
}

func TestAnOperatorsDirectoryIsAddedToTheBuiltInPolicies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ours.rego"), []byte(`package operator
deny contains {"text": "not on my watch", "path": f.path} if {
	some f in input.change.files
	startswith(f.path, "billing/")
}
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ours_test.rego"), []byte("this is not evaluated"), 0o600))
	g := newGate(t, func(c *config.Config) { c.Gate.Policies = dir })
	require.Len(t, g.Bundles(), 2)
	c := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"billing/a": "password\n"})
	v, err := g.Judge(t.Context(), c, gate.Facts{Stage: policy.StageCheck})
	require.NoError(t, err)
	require.Equal(t, policy.Deny, v.Decision)
	require.Len(t, v.Reasons, 2)
}

func TestAGateNamesItsAdvisoriesAndKeepsItsVerdicts(t *testing.T) {
	t.Parallel()
	of := func(advisory string) (digest, data string) {
		dir := t.TempDir() // another directory, because the contents of one are kept for a while
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(advisory), 0o600))
		cfg := config.Default()
		cfg.Gate.Advisories = dir
		g, err := gate.New(t.Context(), cfg)
		require.NoError(t, err)
		digest, err = g.Digest()
		require.NoError(t, err)
		return digest, g.Data()["dependencies"]
	}
	digest, data := of(`{"id": "X-1"}`)
	_, same := of(`{"id": "X-1"}`)
	require.Equal(t, data, same)
	kept, other := of(`{"id": "X-2"}`)
	require.NotEqual(t, data, other)
	require.Equal(t, digest, kept, "a verdict that a person approved is not replaced")
}
