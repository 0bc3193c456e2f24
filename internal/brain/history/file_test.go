package history_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/history"
)

// repository is a history of commits in memory, each with its parent, which counts what is read.
type repository struct {
	parent map[string]string
	commit map[string]history.Commit
	read   int
}

// grow adds n commits to a tip and returns the new tip.
func (r *repository) grow(tip, branch string, n int) string {
	if r.parent == nil {
		r.parent, r.commit = map[string]string{}, map[string]history.Commit{}
	}
	for range n {
		c := commit(100_000-len(r.commit), "Change "+branch, branch+".go")
		c.ID = fmt.Sprintf("%s%d", branch, len(r.commit))
		r.parent[c.ID], r.commit[c.ID] = tip, c
		tip = c.ID
	}
	return tip
}

func (r *repository) log(_ context.Context, tip, since string, most int, f func(history.Commit) error) error {
	if _, ok := r.commit[tip]; !ok {
		return errors.New("unknown commit " + tip)
	}
	before := map[string]bool{}
	for ; since != ""; since = r.parent[since] {
		before[since] = true
	}
	for ; tip != "" && most > 0 && !before[tip]; tip, most = r.parent[tip], most-1 {
		r.read++
		if err := f(r.commit[tip]); err != nil {
			return err
		}
	}
	return nil
}

func TestAStoredHistoryIsReadAgainWithoutTheLog(t *testing.T) {
	t.Parallel()
	var r repository
	tip := r.grow("", "main", 20)
	d := history.Directory{Path: t.TempDir()}
	first, err := d.Load(t.Context(), "repo", tip, r.log)
	require.NoError(t, err)
	require.Equal(t, 20, r.read)
	again, err := d.Load(t.Context(), "repo", tip, r.log)
	require.NoError(t, err)
	require.Equal(t, 20, r.read)
	require.Equal(t, similar(first, "change main"), similar(again, "change main"))
	require.Equal(t, []string{"main.go"}, similar(again, "change main"))
}

func TestOnlyTheCommitsInBetweenAreRead(t *testing.T) {
	t.Parallel()
	var r repository
	old := r.grow("", "main", 500)
	d := history.Directory{Path: t.TempDir()}
	_, err := d.Load(t.Context(), "repo", old, r.log)
	require.NoError(t, err)
	r.read = 0
	h, err := d.Load(t.Context(), "repo", r.grow(old, "feature", 3), r.log)
	require.NoError(t, err)
	require.Equal(t, 3, r.read)
	require.Equal(t, 503, h.Commits())
	require.Contains(t, similar(h, "change feature"), "feature.go")
}

func TestAnotherBranchLosesTheCommitsOfTheFirst(t *testing.T) {
	t.Parallel()
	var r repository
	base := r.grow("", "main", 50)
	a, b := r.grow(base, "alpha", 2), r.grow(base, "beta", 3)
	d := history.Directory{Path: t.TempDir()}
	_, err := d.Load(t.Context(), "repo", a, r.log)
	require.NoError(t, err)
	h, err := d.Load(t.Context(), "repo", b, r.log)
	require.NoError(t, err)
	require.Equal(t, 53, h.Commits())
	require.NotContains(t, similar(h, "change alpha"), "alpha.go")
}

func TestAHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var r repository
	tip := r.grow("", "main", 50)
	d := history.Directory{Path: t.TempDir(), Commits: 30}
	for range 10 {
		h, err := d.Load(t.Context(), "repo", tip, r.log)
		require.NoError(t, err)
		require.Equal(t, 30, h.Commits())
		tip = r.grow(tip, "main", 1)
	}
	files, err := os.ReadDir(filepath.Join(d.Path, "repo"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(files), 4)
}

func TestADamagedFileIsNotUsed(t *testing.T) {
	t.Parallel()
	var r repository
	tip := r.grow("", "main", 20)
	d := history.Directory{Path: t.TempDir()}
	_, err := d.Load(t.Context(), "repo", tip, r.log)
	require.NoError(t, err)
	name := filepath.Join(d.Path, "repo", tip+".history")
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, content[:len(content)/2], 0o600))
	h, err := d.Load(t.Context(), "repo", tip, r.log)
	require.NoError(t, err)
	require.Equal(t, 20, h.Commits())
}

func TestAStoredTipThatIsGoneFromTheRepositoryDoesNotMatter(t *testing.T) {
	t.Parallel()
	var r repository
	tip := r.grow("", "main", 20)
	d := history.Directory{Path: t.TempDir()}
	_, err := d.Load(t.Context(), "repo", tip, r.log)
	require.NoError(t, err)
	var other repository
	h, err := d.Load(t.Context(), "repo", other.grow("", "rewritten", 5), other.log)
	require.NoError(t, err)
	require.Equal(t, 5, h.Commits())
}

func TestAHistoryIsOnlyStoredBelowItsDirectory(t *testing.T) {
	t.Parallel()
	var r repository
	tip := r.grow("", "main", 1)
	d := history.Directory{Path: t.TempDir()}
	for _, key := range []string{"", "..", "a/b", ".x"} {
		_, err := d.Load(t.Context(), key, tip, r.log)
		require.Error(t, err, key)
	}
}
