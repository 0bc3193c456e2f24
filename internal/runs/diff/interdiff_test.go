package diff_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/runs/diff"
)

func TestWhatWasDoneInBetweenLeadsFromOnePatchToTheOther(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	base := files{"long": lines(1, 200), "gone": "x\ny\n", "stays": "z\n", "run.sh": "echo\n", "noeol": "a\nb"}
	for name, c := range map[string]struct{ from, to files }{
		"from the base":       {files{}, files{"long": strings.Replace(lines(1, 200), "line 5\n", "five\n", 1), "new": "1\n", "gone": "-"}},
		"back to the base":    {files{"long": lines(2, 200), "new": "1\n", "gone": "-", "run.sh": "#!echo\n"}, files{}},
		"one file more":       {files{"long": lines(2, 200)}, files{"long": lines(2, 200), "stays": "zz\n"}},
		"the same file again": {files{"long": lines(2, 200)}, files{"long": lines(2, 180) + "end\n"}},
		"end of file":         {files{}, files{"noeol": "a\nb\n"}},
		"nothing":             {files{"new": "1\n"}, files{"new": "1\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			start, left, right := r.tree(t, base), r.tree(t, over(base, c.from)), r.tree(t, over(base, c.to))
			patch, err := diff.Between(r.code(t, start, left).Patch, r.code(t, start, right).Patch)
			require.NoError(t, err)
			require.Equal(t, left == right, patch == "")
			r.git(t, "", "read-tree", left)
			if patch != "" {
				r.git(t, patch, "apply", "--cached", "-")
			}
			require.Equal(t, right, r.git(t, "", "write-tree"), patch)
		})
	}
}

func TestAPatchWithMoreLinesThanChangedIsReducedToTheChangedLines(t *testing.T) {
	t.Parallel()
	wide := "diff --git a/f b/f\nindex 1111111111111111111111111111111111111111..2222222222222222222222222222222222222222 100644\n--- a/f\n+++ b/f\n" +
		"@@ -1,20 +1,20 @@\n" + "-" + strings.ReplaceAll(strings.TrimSuffix(lines(1, 20), "\n"), "\n", "\n-") + "\n" +
		"+first\n+" + strings.ReplaceAll(strings.TrimSuffix(lines(2, 19), "\n"), "\n", "\n+") + "\n+last\n"
	patch, err := diff.Between(nil, []byte(wide))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(patch, "\n+")-1, patch) // one of them is the name of the file
	require.Equal(t, 2, strings.Count(patch, "@@ -"), patch)
	_, err = diff.Between([]byte("no patch\n"), nil)
	require.Error(t, err)
}
