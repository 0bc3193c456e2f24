package gate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
	"github.com/rocketgpt/orchestrator/internal/gate/review"
)

func decide(t *testing.T, g *gate.Gate, c change.Change, pushes bool, r *gate.Review) policy.Verdict {
	t.Helper()
	v, err := g.Judge(t.Context(), c, gate.Facts{Stage: policy.StageRelease, Run: policy.Run{ID: 1, Pushes: pushes}, Review: r})
	require.NoError(t, err)
	return v
}

func reviewed(r contract.ReviewRecord) *gate.Review {
	return &gate.Review{Review: policy.Review{Mode: contract.ReviewOn, Made: r.Failed == "", Failed: r.Failed != ""}, Findings: review.Findings(r)}
}

// Whatever a reviewer says, the verdict is not milder than without it.
func TestAReviewNeverMakesAVerdictMilder(t *testing.T) {
	t.Parallel()
	strictness := map[policy.Decision]int{policy.Allow: 0, policy.NeedsApproval: 1, policy.Deny: 2}
	major := contract.ReviewFinding{ID: "R1", Item: contract.ReviewCorrectness, Severity: contract.SeverityMajor, Path: "a", What: "It is wrong."}
	minor, fixed := major, major
	minor.Severity, fixed.State = contract.SeverityMinor, contract.ReviewFixed
	for _, text := range []string{"2\n", "1\npassword\n"} {
		c := gatetest.Between(gatetest.Tree{"a": "1\n"}, gatetest.Tree{"a": text})
		for _, bundle := range policy.Names() {
			g := newGate(t, func(cfg *config.Config) { cfg.Gate.Policy = bundle })
			without := decide(t, g, c, true, nil)
			for name, r := range map[string]contract.ReviewRecord{
				"nothing": {}, "major": {Findings: []contract.ReviewFinding{major}}, "minor": {Findings: []contract.ReviewFinding{minor}},
				"fixed": {Findings: []contract.ReviewFinding{fixed}}, "failed": {Failed: "away"}, "a part": {Unshown: []string{"a"}},
			} {
				with := decide(t, g, c, true, reviewed(r))
				require.GreaterOrEqual(t, strictness[with.Decision], strictness[without.Decision], "%s %s %s", bundle, name, text)
				require.Subset(t, with.Reasons, without.Reasons)
				stricter := without.Decision == policy.Allow && bundle != policy.Permissive && (name == "major" || name == "failed" || name == "a part")
				require.Equal(t, stricter, with.Decision != without.Decision, "%s %s %s: %s", bundle, name, text, with.Decision)
			}
		}
	}
}

func TestAReleaseWithoutTheReviewThatItNeedsAsksAPerson(t *testing.T) {
	t.Parallel()
	c := gatetest.Between(gatetest.Tree{"a": "1\n"}, gatetest.Tree{"a": "2\n"})
	g := newGate(t, nil)
	needs := decide(t, g, c, true, &gate.Review{Review: policy.Review{Mode: contract.ReviewOn}})
	require.Equal(t, policy.NeedsApproval, needs.Decision)
	require.Equal(t, []string{contract.GuardReview, contract.RuleReviewMissing}, []string{needs.Reasons[0].Guard, needs.Reasons[0].Rule})
	require.Equal(t, policy.Allow, decide(t, g, c, true, &gate.Review{Review: policy.Review{Mode: contract.ReviewPolicy}}).Decision, "no policy asks for one")
	require.Equal(t, policy.Allow, decide(t, g, c, true, nil).Decision, "reviews are off")

	strict := newGate(t, func(cfg *config.Config) { cfg.Gate.Policy = policy.Strict })
	asks := decide(t, strict, c, false, &gate.Review{Review: policy.Review{Mode: contract.ReviewPolicy}})
	require.True(t, asks.Review)
	require.Equal(t, policy.NeedsApproval, asks.Decision)
	require.Equal(t, policy.Allow, decide(t, strict, c, false, reviewed(contract.ReviewRecord{})).Decision)

	denied := gatetest.Between(gatetest.Tree{"a": "1\n"}, gatetest.Tree{"a": "password\n"})
	v := decide(t, g, denied, true, &gate.Review{Review: policy.Review{Mode: contract.ReviewOn}})
	require.Len(t, v.Reasons, 1, "what is denied needs no review")
}

func TestARepositorysPolicyCanAskForAReviewAndReadIt(t *testing.T) {
	t.Parallel()
	const own = "package repository\nreview contains \"always\"\nneeds_approval contains \"look\" if input.review.same_model\n"
	base := gatetest.Tree{".rgpt/policies/own.rego": own, "a": "1\n"}
	c := gatetest.Between(base, gatetest.Tree{".rgpt/policies/own.rego": own, "a": "2\n"})
	g := newGate(t, nil)
	v := decide(t, g, c, false, &gate.Review{Review: policy.Review{Mode: contract.ReviewPolicy}})
	require.True(t, v.Review)
	require.Equal(t, contract.RuleReviewMissing, v.Reasons[0].Rule)
	made := reviewed(contract.ReviewRecord{})
	require.Equal(t, policy.Allow, decide(t, g, c, false, made).Decision)
	made.SameModel = true
	require.Equal(t, policy.NeedsApproval, decide(t, g, c, false, made).Decision)
}
