package forge_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/forge"
)

// changing is a list of issues that is sorted by their last change and read in pages.
type changing struct {
	issues []forge.Issue
	size   int
	now    time.Time
}

func (c *changing) read(since time.Time, page int) (forge.IssuePage, error) {
	var found []forge.Issue
	for _, i := range c.issues {
		if !i.UpdatedAt.Before(since.Truncate(time.Second)) {
			found = append(found, i)
		}
	}
	slices.SortFunc(found, func(a, b forge.Issue) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.Number, b.Number))
	})
	from := min((page-1)*c.size, len(found))
	to := min(from+c.size, len(found))
	out := forge.IssuePage{Issues: found[from:to], More: to < len(found)}
	if to > from {
		out.Last = found[to-1].UpdatedAt
	}
	return out, nil
}

func TestAnIssueIsReadWhateverChangesBeforeIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_800_000_000, 0)
		list := &changing{size: rapid.IntRange(1, 5).Draw(t, "size"), now: start.Add(time.Hour)}
		for n := range rapid.IntRange(0, 30).Draw(t, "issues") {
			at := start.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "second")) * time.Second)
			list.issues = append(list.issues, forge.Issue{Number: int64(n), UpdatedAt: at})
		}
		touched := map[int64]bool{}
		left := rapid.IntRange(0, 6).Draw(t, "changes")
		got, err := forge.ReadIssues(time.Time{}, func(since time.Time, page int) (forge.IssuePage, error) {
			out, err := list.read(since, page)
			if left > 0 && len(list.issues) > 0 {
				left--
				k := rapid.IntRange(0, len(list.issues)-1).Draw(t, "changed")
				touched[list.issues[k].Number] = true
				if rapid.Bool().Draw(t, "leaves") {
					list.issues = slices.Delete(list.issues, k, k+1)
				} else {
					list.now = list.now.Add(time.Second)
					list.issues[k].UpdatedAt = list.now
				}
			}
			return out, err
		})
		require.NoError(t, err)
		seen := map[int64]bool{}
		for _, i := range got {
			require.False(t, seen[i.Number], "each issue is there once")
			seen[i.Number] = true
		}
		require.True(t, slices.IsSortedFunc(got, func(a, b forge.Issue) int { return a.UpdatedAt.Compare(b.UpdatedAt) }))
		for _, i := range list.issues {
			require.True(t, seen[i.Number], "issue %d was missed", i.Number)
		}
	})
}

func TestAnIssueIsNotMissedIfOthersLeaveWhileAllAreReadAgain(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	list := &changing{size: 2}
	for n := range int64(6) {
		list.issues = append(list.issues, forge.Issue{Number: n, UpdatedAt: at})
	}
	touch := func(number int64, after time.Duration) {
		i := slices.IndexFunc(list.issues, func(i forge.Issue) bool { return i.Number == number })
		list.issues[i].UpdatedAt = at.Add(after)
	}
	leave := func(number int64) {
		list.issues = slices.DeleteFunc(list.issues, func(i forge.Issue) bool { return i.Number == number })
	}
	changes := []func(){
		func() { touch(0, time.Hour) }, func() {}, func() { leave(1) }, func() { leave(2) }, func() { touch(3, 2*time.Hour) },
	}
	got, err := forge.ReadIssues(time.Time{}, func(since time.Time, page int) (forge.IssuePage, error) {
		out, err := list.read(since, page)
		if len(changes) > 0 {
			changes[0]()
			changes = changes[1:]
		}
		return out, err
	})
	require.NoError(t, err)
	require.Empty(t, changes)
	require.True(t, slices.ContainsFunc(got, func(i forge.Issue) bool { return i.Number == 5 }))
}

func TestManyIssuesOfOneSecondAreReadTogether(t *testing.T) {
	t.Parallel()
	list := &changing{size: 100}
	at := time.Unix(1_800_000_000, 0)
	for n := range int64(forge.MaxIssues + 500) {
		if n == forge.MaxIssues-10 {
			at = at.Add(time.Second)
		}
		list.issues = append(list.issues, forge.Issue{Number: n, UpdatedAt: at})
	}
	list.issues = append(list.issues, forge.Issue{Number: 5000, UpdatedAt: at.Add(time.Hour)})
	read := func(since time.Time) []forge.Issue {
		got, err := forge.ReadIssues(since, list.read)
		require.NoError(t, err)
		return got
	}
	first := read(time.Time{})
	require.GreaterOrEqual(t, len(first), forge.MaxIssues)
	second := read(first[len(first)-1].UpdatedAt)
	require.Len(t, second, 511, "those of the last second of the first call, and the last one")
	require.Equal(t, int64(5000), second[len(second)-1].Number)

	for i := range list.issues[:len(list.issues)-1] {
		list.issues[i].UpdatedAt = at
	}
	require.Len(t, read(at), len(list.issues), "a call never ends within the second in which it begins")
}

func TestAListThatNeverEndsIsAFailure(t *testing.T) {
	t.Parallel()
	_, err := forge.ReadIssues(time.Time{}, func(time.Time, int) (forge.IssuePage, error) {
		return forge.IssuePage{More: true}, nil
	})
	require.ErrorContains(t, err, "more than 500 pages")
}
