package base_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/base"
)

func TestCommitsThatAPullRequestMergesBesidesItsOwnAreFound(t *testing.T) {
	t.Parallel()
	for _, none := range []*change.Carried{nil, {From: "develop", Into: "main"}} {
		found, err := base.Guard.Judge(t.Context(), change.Change{Carried: none})
		require.NoError(t, err)
		require.Empty(t, found)
	}
	carried := &change.Carried{From: "develop", Into: "main", Total: 300}
	for i := range 20 {
		carried.Commits = append(carried.Commits, change.Commit{ID: strings.Repeat("a", 40), Subject: fmt.Sprint("commit ", i, "\x1b[31m", strings.Repeat("x", 10_000))})
	}
	found, err := base.Guard.Judge(t.Context(), change.Change{Carried: carried})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, []any{"base", "unjudged", contract.SeverityMajor}, []any{found[0].Guard, found[0].Rule, found[0].Severity})
	require.Contains(t, found[0].Message, "would also merge 300 commits that main does not have")
	require.Contains(t, found[0].Message, "aaaaaaaaaaaa commit 0")
	require.Contains(t, found[0].Message, "and 295 more")
	require.NotContains(t, found[0].Message, "\x1b")
	require.Less(t, len(found[0].Message), 3000)
}
