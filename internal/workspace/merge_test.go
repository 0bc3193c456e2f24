package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestMergeBringsTwoChangesOfOneFileTogether(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "moved.txt": "some\nlines\nthat\nmove\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	x := edit(t, m, ws, "x", func(dir string) {
		write(t, dir, "a.txt", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")
		require.NoError(t, os.Rename(filepath.Join(dir, "moved.txt"), filepath.Join(dir, "here.txt")))
	})
	y := edit(t, m, ws, "y", func(dir string) {
		write(t, dir, "a.txt", "1\n2\n3\n4\n5\n6\n7\n8\nnine\n")
		write(t, dir, "moved.txt", "some\nlines\nthat\nMOVE\n")
	})
	merged, conflict, err := anotherHost(t, m).Merge(t.Context(), ws, x.Slim(), y.Slim())
	require.NoError(t, err)
	require.Nil(t, conflict)
	d, err := m.View(t.Context(), merged, "z")
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, map[string]string{"a.txt": "0 one\n2\n3\n4\n5\n6\n7\n8\nnine\n", "here.txt": "0 some\nlines\nthat\nMOVE\n"}, snapshot(t, d.Path()))
}

func TestMergeNamesThePathsThatDoNotGoTogether(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "gone.txt": "g\n", "odd \"\xff.txt": "o\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	x := edit(t, m, ws, "x", func(dir string) {
		write(t, dir, "a.txt", "x\n")
		write(t, dir, "odd \"\xff.txt", "x\n")
		write(t, dir, "new", "a file\n")
		require.NoError(t, os.Remove(filepath.Join(dir, "gone.txt")))
	})
	y := edit(t, m, ws, "y", func(dir string) {
		write(t, dir, "a.txt", "y\n")
		write(t, dir, "odd \"\xff.txt", "y\n")
		write(t, dir, "b.txt", "y\n")
		write(t, dir, "new/file", "a directory\n")
		write(t, dir, "gone.txt", "y\n")
	})
	_, conflict, err := m.Merge(t.Context(), ws, x, y)
	require.NoError(t, err)
	require.Equal(t, []string{"a.txt", "gone.txt", "new", "odd \"\xff.txt"}, conflict.Paths)
}

func TestMergeOfWhatIsEqualNeedsNoGit(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	x := edit(t, m, ws, "x", func(dir string) { write(t, dir, "a.txt", "x\n") })
	m.options.Git = "/nonexistent"
	for _, c := range [][4]contract.Workspace{{ws, x, ws, x}, {ws, ws, x, x}, {ws, x, x, x}, {x, ws, x, ws}} {
		got, conflict, err := m.Merge(t.Context(), c[0], c[1], c[2])
		require.NoError(t, err)
		require.Nil(t, conflict)
		require.Equal(t, c[3], got)
	}
}

func TestFoldIntegratesAGraphOfStepsInOrder(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	step := func(name string, from contract.Workspace) contract.Change {
		to := edit(t, m, from, name, func(dir string) { write(t, dir, name, name+"\n") })
		return contract.Change{Step: name, From: from.Slim(), To: to.Slim()}
	}
	one := step("one", ws)
	two := step("two", one.To.Of(ws)) // continues where one ended
	side := step("side", ws)          // at the same time
	both, _, conflict, err := m.Fold(t.Context(), ws, []contract.Change{two, side})
	require.NoError(t, err)
	require.Nil(t, conflict)
	last := step("last", both) // needs both two and side
	changes := []contract.Change{one, two, side, last}

	final, stages, conflict, err := anotherHost(t, m).Fold(t.Context(), ws, changes)
	require.NoError(t, err)
	require.Nil(t, conflict)
	require.Len(t, stages, 4)
	require.Equal(t, final, stages[3])
	want := []string{"a.txt"}
	for i, stage := range stages {
		want = append(want, changes[i].Step)
		files, err := m.Files(t.Context(), stage)
		require.NoError(t, err)
		require.Equal(t, slices.Sorted(slices.Values(want)), files)
	}
	again, _, _, err := m.Fold(t.Context(), ws, changes)
	require.NoError(t, err)
	require.Equal(t, final, again)
}

func TestFoldStopsAtAConflictAndNamesTheStep(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	_, ws := start(t, m, repo)
	var changes []contract.Change
	for _, name := range []string{"step-001", "step-002"} {
		to := edit(t, m, ws, name, func(dir string) { write(t, dir, "a.txt", name) })
		changes = append(changes, contract.Change{Step: name, From: ws, To: to})
	}
	final, stages, conflict, err := m.Fold(t.Context(), ws, changes)
	require.NoError(t, err)
	require.Equal(t, &contract.Conflict{Step: "step-002", Paths: []string{"a.txt"}}, conflict)
	require.Equal(t, changes[0].To, final)
	require.Len(t, stages, 1)
	none, stages, conflict, err := m.Fold(t.Context(), ws, nil)
	require.NoError(t, err)
	require.Nil(t, conflict)
	require.Empty(t, stages)
	require.Equal(t, ws, none)
}

// Changes of different files lead to one tree, in whatever order and grouping they are
// folded.
func TestFoldingChangesThatDoNotOverlapMakesOneTree(t *testing.T) {
	t.Parallel()
	const steps = 4
	files := map[string]string{}
	for i := range steps {
		files[fmt.Sprintf("s%d/edit", i)] = "1\n2\n3\n"
		files[fmt.Sprintf("s%d/delete", i)] = fmt.Sprintf("delete %d\n", i)
	}
	files["shared"] = "0\n\n\n\n1\n\n\n\n2\n\n\n\n3\n"
	repo := newRepo(t, files)
	m := newManager(t)
	_, ws := start(t, m, repo)
	rapid.Check(t, func(rt *rapid.T) {
		var changes []contract.Change
		all := func(string) {}
		for i := range steps {
			text := rapid.SampledFrom([]string{"1\n2\n3\nfour\n", "", "\x00", "1\r\n"}).Draw(rt, "text")
			remove, add := rapid.Bool().Draw(rt, "remove"), rapid.Bool().Draw(rt, "add")
			before := all
			change := func(dir string) {
				write(t, dir, fmt.Sprintf("s%d/edit", i), text)
				if remove {
					_ = os.Remove(filepath.Join(dir, fmt.Sprintf("s%d/delete", i)))
				}
				if add {
					write(t, dir, fmt.Sprintf("new/s%d", i), text)
				}
				shared, err := os.ReadFile(filepath.Join(dir, "shared"))
				require.NoError(t, err)
				write(t, dir, "shared", replaceLine(string(shared), fmt.Sprint(i), fmt.Sprintf("step %d", i)))
			}
			to := edit(t, m, ws, fmt.Sprint("fold/", i), change)
			changes = append(changes, contract.Change{Step: fmt.Sprint(i), From: ws.Slim(), To: to.Slim()})
			all = func(dir string) { before(dir); change(dir) }
		}
		want := edit(t, m, ws, "fold/all", all)
		changes = rapid.Permutation(changes).Draw(rt, "order")
		final, _, conflict, err := m.Fold(t.Context(), ws, changes)
		require.NoError(rt, err)
		require.Nil(rt, conflict)
		require.Equal(rt, want, final)

		split := rapid.IntRange(0, steps).Draw(rt, "split")
		left, _, _, err := m.Fold(t.Context(), ws, changes[:split])
		require.NoError(rt, err)
		right, _, _, err := m.Fold(t.Context(), ws, changes[split:])
		require.NoError(rt, err)
		grouped, conflict, err := m.Merge(t.Context(), ws, left, right)
		require.NoError(rt, err)
		require.Nil(rt, conflict)
		require.Equal(rt, want, grouped)
	})
}

func replaceLine(text, old, replacement string) string {
	out := ""
	for line := range strings.Lines(text) {
		if line == old+"\n" {
			line = replacement + "\n"
		}
		out += line
	}
	return out
}
