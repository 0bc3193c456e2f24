package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

func TestAnExplanationNamesTheRulesThatGaveEachReason(t *testing.T) {
	t.Parallel()
	e, err := policy.New(t.Context(), policy.Options{Bundle: policy.Strict, Operator: []policy.Module{{Name: "own/billing.rego", Content: []byte(`package operator

needs_approval contains {"text": text, "path": f.path} if {
	some f in input.change.files
	text := sprintf("ask about %s", [f.path])
}

waive contains {"guard": "tests", "rule": "style"}
`)}}})
	require.NoError(t, err)
	in := oneChange(policy.StageRelease, finding(major, "secrets", "key", "a"), finding(minor, "tests", "style", "a"))
	v, origins, err := e.Explain(t.Context(), in, policy.RepositoryPolicies{})
	require.NoError(t, err)
	require.Equal(t, judge(t, e, in), v, "an explanation decides as a judgement does")

	sources := map[string]int{}
	for _, r := range v.Reasons {
		sources[r.Source]++
		if r.Waived {
			require.Empty(t, origins.Of(r))
			continue
		}
		require.NotEmpty(t, origins.Of(r), "%s of %s", r.Text, r.Source)
		for _, at := range origins.Of(r) {
			if r.Source == policy.Operator {
				require.Equal(t, "own/billing.rego:3", at)
			} else {
				require.True(t, strings.HasPrefix(at, "rgpt/strict.rego:") || strings.HasPrefix(at, "rgpt/default.rego:"), at)
			}
		}
	}
	require.NotZero(t, sources[policy.Operator])
	require.NotZero(t, sources[policy.Strict])
}
