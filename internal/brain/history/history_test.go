package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/history"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// commit is one that is n days old.
func commit(n int, message string, paths ...string) history.Commit {
	c := history.Commit{ID: fmt.Sprintf("%040d", n), Message: message, Time: time.Unix(1_700_000_000-int64(n)*86_400, 0)}
	for _, p := range paths {
		c.Changes = append(c.Changes, history.Change{Path: p})
	}
	return c
}

func paths(votes []rank.Vote) []string {
	var all []string
	for _, v := range votes {
		all = append(all, v.Path)
	}
	return all
}

func similar(h *history.History, text string) []string {
	return paths(h.Similar(terms.Query(text)))
}

func TestSimilarCommitsVote(t *testing.T) {
	t.Parallel()
	h := history.New([]history.Commit{
		commit(1, "Cache parsed templates", "template.go"),
		commit(2, "Retry failed requests", "client.go"),
		commit(3, "Unrelated", "other.go"),
	}, 10, history.Tuned())
	require.Equal(t, []string{"template.go"}, similar(h, "template caching"))
	require.Equal(t, []string{"client.go"}, similar(h, "retrying"))
	require.Empty(t, similar(h, "xyz"))
}

func TestRecentCommitsCountMore(t *testing.T) {
	t.Parallel()
	h := history.New([]history.Commit{
		commit(1, "Cache templates", "new.go"),
		commit(3000, "Cache templates", "old.go"),
	}, 10, history.Tuned())
	require.Equal(t, []string{"new.go", "old.go"}, similar(h, "cache templates"))
	require.Greater(t, h.Activity("new.go"), h.Activity("old.go"))
	require.Zero(t, h.Activity("unknown.go"))
}

func TestARenamedFileKeepsItsPast(t *testing.T) {
	t.Parallel()
	rename := commit(2, "Move", "b.go")
	rename.Changes[0].Old = "a.go"
	h := history.New([]history.Commit{
		commit(1, "Polish", "b.go"), rename, commit(3, "Cache templates", "a.go", "c.go"),
	}, 10, history.Tuned())
	require.Subset(t, similar(h, "templates"), []string{"b.go", "a.go", "c.go"})
	require.Contains(t, paths(h.Together([]rank.Vote{{Path: "b.go", Score: 1}})), "c.go")
	require.InDelta(t, h.Activity("a.go"), h.Activity("b.go"), 1e-9)
}

func TestACommitOfManyFilesSaysNothing(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range history.MaxFiles + 1 {
		all = append(all, fmt.Sprintf("f%d.go", i))
	}
	h := history.New([]history.Commit{commit(1, "Format templates", all...)}, 10, history.Tuned())
	require.Empty(t, similar(h, "templates"))
	require.Empty(t, h.Together([]rank.Vote{{Path: "f1.go", Score: 1}}))
}

func TestCommitsBeyondTheLimitAreForgotten(t *testing.T) {
	t.Parallel()
	h := history.New([]history.Commit{commit(1, "new", "a.go"), commit(2, "templates", "b.go")}, 1, history.Tuned())
	require.Equal(t, 1, h.Commits())
	require.Empty(t, similar(h, "templates"))
}

func TestAViewKnowsNothingOfOtherCommits(t *testing.T) {
	t.Parallel()
	all := []history.Commit{
		commit(1, "Cache templates", "leak.go", "a.go"), commit(2, "Cache requests", "a.go", "b.go"), commit(3, "Templates", "b.go"),
	}
	h := history.New(all, 10, history.Tuned())
	view := h.View(func(id string) bool { return id != all[0].ID })
	same := history.New(all[1:], 10, history.Tuned())
	require.Equal(t, 2, view.Commits())
	for _, text := range []string{"cache", "templates", "requests cache"} {
		require.Equal(t, same.Similar(terms.Query(text)), view.Similar(terms.Query(text)), text)
		require.NotContains(t, similar(view, text), "leak.go")
	}
	seeds := []rank.Vote{{Path: "a.go", Score: 1}}
	require.Equal(t, same.Together(seeds), view.Together(seeds))
	require.InDelta(t, same.Activity("a.go"), view.Activity("a.go"), 1e-12)
}

func TestTheSameHistoryGivesTheSameVotes(t *testing.T) {
	t.Parallel()
	var commits []history.Commit
	for i := range 300 {
		commits = append(commits, commit(i, fmt.Sprintf("Change part %d of the cache", i%7), fmt.Sprintf("f%d.go", i%40), fmt.Sprintf("f%d.go", i%23)))
	}
	want := history.New(commits, 1000, history.Tuned()).Similar(terms.Query("part 3 of the cache"))
	require.NotEmpty(t, want)
	seeds := []rank.Vote{{Path: "f1.go", Score: 0.3}, {Path: "f2.go", Score: 0.2}, {Path: "f3.go", Score: 0.1}}
	together := history.New(commits, 1000, history.Tuned()).Together(seeds)
	for range 10 {
		h := history.New(commits, 1000, history.Tuned())
		require.Equal(t, want, h.Similar(terms.Query("part 3 of the cache")))
		require.Equal(t, together, h.Together(seeds))
	}
}
