package labels_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/labels"
)

func judged(t *testing.T, configured change.Labels, names ...string) ([]string, []change.Finding) {
	t.Helper()
	found, err := labels.Guard.Judge(t.Context(), change.Change{Labels: names, Limits: change.Limits{Labels: configured}})
	require.NoError(t, err)
	return gatetest.Rules(found), found
}

func TestLabelsSayWhatAPolicyUses(t *testing.T) {
	t.Parallel()
	configured := change.Labels{Automerge: []string{"Merge when green", "both"}, NeedsApproval: []string{"security"}, Blocked: []string{"do not merge", "both", "rgpt:automerge"}}
	for label, want := range map[string]string{
		"rgpt:blocked": "blocked", "RGPT:Blocked ": "blocked", "rgpt:\u200bblocked": "blocked", "ｒｇｐｔ:blocked": "blocked", "Do Not Merge": "blocked",
		"rgpt:needs-approval": "needs-approval", "security": "needs-approval", "both": "blocked",
		"rgpt:automerge": "automerge", "merge when green": "automerge", "rgpt:block": "unknown", "rgpt:": "unknown",
	} {
		rules, found := judged(t, configured, label)
		require.Equal(t, []string{"labels/" + want}, rules, label)
		require.Equal(t, map[string]contract.Severity{
			"blocked": contract.SeverityMajor, "needs-approval": contract.SeverityMedium, "unknown": contract.SeverityMedium, "automerge": contract.SeverityMinor,
		}[want], found[0].Severity)
	}
	for _, label := range []string{"", "bug", "automerge", "blocked", "rgpt", "x rgpt:blocked"} {
		rules, _ := judged(t, configured, label)
		require.Empty(t, rules, label)
	}
	rules, _ := judged(t, change.Labels{Automerge: []string{"rgpt:blocked"}}, "rgpt:blocked")
	require.Equal(t, []string{"labels/blocked"}, rules, "a configuration cannot weaken a label")
}

func TestTheStricterOfContradictingLabelsDecides(t *testing.T) {
	t.Parallel()
	rules, found := judged(t, change.Labels{}, "rgpt:automerge", "bug", "rgpt:blocked")
	require.Equal(t, []string{"labels/blocked", "labels/conflict", "labels/automerge"}, rules)
	require.Contains(t, found[1].Message, "rgpt:blocked decides")
	rules, found = judged(t, change.Labels{}, "rgpt:automerge", "rgpt:needs-approval")
	require.Equal(t, []string{"labels/needs-approval", "labels/conflict", "labels/automerge"}, rules)
	require.Contains(t, found[1].Message, "rgpt:needs-approval decides")
	rules, _ = judged(t, change.Labels{}, "rgpt:blocked", "rgpt:needs-approval")
	require.Equal(t, []string{"labels/blocked", "labels/needs-approval"}, rules, "these agree")
}

func TestManyAndLongLabelsAreBounded(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprint("rgpt:", i, strings.Repeat("x", 1000)))
	}
	_, found := judged(t, change.Labels{}, names...)
	require.Len(t, found, 1001)
	require.Equal(t, "needs-approval", found[1000].Rule)
	for _, f := range found {
		require.Less(t, len(f.Message), 500)
	}
}
