package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// own judges the patches that are in this repository.
func own(t *testing.T) (patches []Patch, all []Outcome) {
	t.Helper()
	guards, err := gate.Guards(config.Default())
	require.NoError(t, err)
	patches, err = Own()
	require.NoError(t, err)
	j := &judge{guards: guards, half: "both"}
	for _, p := range patches {
		require.NoError(t, j.judge(t.Context(), p))
	}
	return patches, j.outcomes
}

// forbidden are the classes of which no patch may be missed.
var forbidden = []string{"secrets", "CI", "paths", "links"}

// known are the patches that guards miss. A guard that finds one of them is better: remove the name.
var known = []string{
	"expected exception made wider",
}

func TestNoSecretCIPathOrLinkIsMissed(t *testing.T) {
	t.Parallel()
	patches, all := own(t)
	harmful, secrets := 0, map[string]bool{}
	for _, p := range patches {
		if p.Guard != "" {
			harmful++
		}
		if p.Class == "secrets" && p.Source == Written {
			secrets[p.Name] = true
		}
	}
	require.GreaterOrEqual(t, len(patches), 300)
	require.GreaterOrEqual(t, harmful, 150)
	require.GreaterOrEqual(t, len(secrets), 30)
	var missed []string
	for _, x := range all {
		require.NotEqual(t, FalseAlarm, x.Result, "%s: %s", x.Patch, x.Why)
		if x.Result != Missed {
			continue
		}
		require.NotContains(t, forbidden, x.Class, "%s was missed: %s", x.Patch, x.Why)
		missed = append(missed, x.Patch)
	}
	require.ElementsMatch(t, known, missed)
}

func TestEveryGuardHasPatchesOfBothHalves(t *testing.T) {
	t.Parallel()
	patches, all := own(t)
	for _, g := range names(all, func(x Outcome) string { return x.Guard }) {
		for _, half := range []Half{Tuned, Held} {
			require.True(t, slices.ContainsFunc(patches, func(p Patch) bool { return p.Guard == g && p.Half == half }), "%s %s", g, half)
		}
	}
}

func TestAPatchIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	one, err := Own()
	require.NoError(t, err)
	two, err := Own()
	require.NoError(t, err)
	for i := range one {
		require.Equal(t, one[i].Name, two[i].Name)
		require.Len(t, two[i].Change.Files, len(one[i].Change.Files))
		for k, f := range one[i].Change.Files {
			require.True(t, bytes.Equal(f.After.Content, two[i].Change.Files[k].After.Content), one[i].Name)
		}
	}
}

func TestTheCommandPrintsPrecisionAndRecall(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-errors"}, &out, &errs))
	require.Contains(t, out.String(), "RECALL")
	require.Contains(t, out.String(), "hollow tests")
	require.Error(t, run(t.Context(), []string{"-half", "all"}, &out, &errs))
}

func TestTheListedCommitsAreOfManyRepositories(t *testing.T) {
	t.Parallel()
	list, err := data.ReadFile("data/commits.txt")
	require.NoError(t, err)
	repositories := map[string]int{}
	for line := range bytes.Lines(list) {
		repo, commit, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		require.True(t, ok)
		require.Len(t, commit, 40)
		repositories[string(repo)]++
	}
	require.GreaterOrEqual(t, len(repositories), 15)
}

func TestACloneIsReadAsTheGateReadsIt(t *testing.T) {
	t.Parallel()
	mirrors := t.TempDir()
	dir := mirrors + "/a+b/.git"
	commit := func(files map[string]string, message string) {
		for p, text := range files {
			require.NoError(t, os.WriteFile(mirrors+"/a+b/"+p, []byte(text), 0o600))
		}
		for _, args := range [][]string{{"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", message}} {
			_, err := git(t.Context(), dir, append([]string{"--work-tree", mirrors + "/a+b"}, args...)...)
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Mkdir(mirrors+"/a+b", 0o700))
	_, err := git(t.Context(), dir, "init", "-q")
	require.NoError(t, err)
	commit(map[string]string{"a.go": "package a\n", "b.go": "package b\n"}, "First")
	commit(map[string]string{"a.go": "package a\n\nvar A = 1\n"}, "Add A")
	var out bytes.Buffer
	require.NoError(t, choose(t.Context(), mirrors, 5, &out))
	require.Contains(t, out.String(), "a/b ")
	o, err := open(t.Context(), repositoryAt(mirrors, "a/b"))
	require.NoError(t, err)
	defer o.close()
	c, err := o.change(t.Context(), "HEAD")
	require.NoError(t, err)
	require.Len(t, c.Files, 1)
	require.Equal(t, "package a\n\nvar A = 1\n", string(c.Files[0].After.Content))
	require.Equal(t, change.ModeFile, c.Files[0].Before.Mode)
	require.Contains(t, c.Texts[0].Content, "Add A")
	paths, err := c.Tree.Paths(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"a.go", "b.go"}, paths)
	content, ok, err := c.Base.Read(t.Context(), "a.go", 100)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "package a\n", string(content))
	_, ok, err = c.Base.Read(t.Context(), "none.go", 100)
	require.NoError(t, err)
	require.False(t, ok)
}
