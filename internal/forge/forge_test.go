package forge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/test/hostile"
)

func TestOnlyGitLabHasGroupsInGroups(t *testing.T) {
	t.Parallel()
	owner, name, err := forge.SplitRepository(forge.GitHub, "octo/app.js")
	require.NoError(t, err)
	require.Equal(t, []string{"octo", "app.js"}, []string{owner, name})
	owner, name, err = forge.SplitRepository(forge.GitLab, "a/b_c/d")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b_c", "d"}, []string{owner, name})
	for _, kind := range []forge.Kind{forge.GitHub, forge.Gitea} {
		_, _, err = forge.SplitRepository(kind, "a/b/c")
		require.True(t, fault.Is(err, contract.CodeRepository))
	}
	_, _, err = forge.SplitRepository(forge.GitLab, strings.Repeat("g/", 21)+"p")
	require.True(t, fault.Is(err, contract.CodeRepository))
}

func TestTheNameOfABranchIsOneThatGitAllows(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"main", "rgpt/run-1", "feature/ä#%", "a.b"} {
		require.NoError(t, forge.CheckBranch(branch), branch)
	}
	for _, branch := range []string{"", "@", "a..b", ".a", "a/.b", "a.lock", "a//b", "a/", "a@{1}", "a\x7fb", "a\xffb", "a.", "a~1", "a^", "a:b", "a[b", `a\b`, "-a"} {
		require.True(t, fault.Is(forge.CheckBranch(branch), contract.CodeBadRequest), "%q", branch)
	}
}

func TestTheLinesOfAChangeAreThoseOfItsHunks(t *testing.T) {
	t.Parallel()
	lines := forge.Lines{}
	lines.Add("a.go", "@@ -3,4 +3,5 @@ func f() {\n context\n-old\n+new\n+more\n context\n\\ No newline at end of file\n@@ -20 +21,2 @@\n-x\n+@@ -1 +1 @@\n+y\n")
	require.Equal(t, map[int]int{3: 3, 4: 0, 5: 0, 6: 5, 21: 0, 22: 0}, lines["a.go"])
	placed, rest := forge.Place([]forge.LineComment{{Path: "a.go", Line: 4}, {Path: "a.go", Line: 7}, {Path: "b.go", Line: 4}}, lines)
	require.Equal(t, []forge.LineComment{{Path: "a.go", Line: 4}}, placed)
	require.Len(t, rest, 2)
	require.Equal(t, "Text\n\n`b'.go`, line 4:\n\nComment", forge.WithUnplaced("Text", []forge.LineComment{{Path: "b`.go", Line: 4, Body: "Comment"}}))
}

func TestThePathOfACommentThatCannotBePlacedIsCode(t *testing.T) {
	t.Parallel()
	paths := []string{"a\r\r@victim\r\rCloses #1", "a\n\n# b"}
	for _, e := range hostile.Corpus(hostile.Default()) {
		paths = append(paths, e.Text, "\r\r"+e.Text)
	}
	for _, path := range paths {
		text := forge.WithUnplaced("Text", []forge.LineComment{{Path: path, Line: 4, Body: "Comment"}})
		require.Empty(t, hostile.InMarkdown(strings.ToValidUTF8(text, "?")), "%q", path)
	}
}

func TestATextIsCutAtCharacters(t *testing.T) {
	t.Parallel()
	require.Equal(t, "äöü", forge.Cut("äöü", 3))
	require.Equal(t, "äö…", forge.Cut("äöüß", 3))
}
