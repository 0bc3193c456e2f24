package workspace

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestChangedLinesAreCountedAsByGit(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	_, ws := start(t, m, newRepo(t, map[string]string{"a": "1\n"}))
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "}\n", "end"}), 0, 9)
	modes := rapid.SampledFrom([]string{"", modeFile, modeFile, modeFile, modeExecutable, modeLink})
	plain, needsGit := 0, 0
	require.NoError(t, m.with(t.Context(), ws, func(r *mirror, _ string) error {
		rapid.Check(t, func(rt *rapid.T) {
			var before, after []treeEntry
			write := func(list []treeEntry, name, mode, content string) []treeEntry {
				id, err := r.writeObject(kindBlob, sha1Length, []byte(content))
				require.NoError(rt, err)
				if mode == "" {
					return list
				}
				return append(list, treeEntry{mode: mode, name: name, id: id})
			}
			for i := range 60 {
				name := fmt.Sprintf("%02d", i)
				head, tail := strings.Join(lines.Draw(rt, "head"), ""), strings.Join(lines.Draw(rt, "tail"), "")
				before = write(before, name, modes.Draw(rt, "mode"), head+strings.Join(lines.Draw(rt, "before"), "")+tail)
				after = write(after, name, modes.Draw(rt, "mode"), head+strings.Join(lines.Draw(rt, "after"), "")+tail)
			}
			// For a change this large, git does not look for the shortest difference.
			before = write(before, "large", modeFile, "x\n"+strings.Repeat("old\ntext\n", 5000)+"y\n")
			after = write(after, "large", modeFile, "x\n"+strings.Repeat("new\n", 3000)+"z\n"+strings.Repeat("text \n", 3000)+"y\n")
			from, err := r.writeTreeObject(before)
			require.NoError(rt, err)
			to, err := r.writeTreeObject(after)
			require.NoError(rt, err)
			want, err := r.gitStat(t.Context(), from, to)
			require.NoError(rt, err)
			entries, err := r.plainEntries(t.Context(), from, to, false)
			require.NoError(rt, err)
			require.Len(rt, entries, len(want.Files))
			for i, e := range entries {
				got, err := r.plainFileStat(e)
				if errors.Is(err, errNeedsGit) {
					needsGit++
					require.NotEqual(rt, "large", e.Path)
					continue
				}
				plain++
				require.NoError(rt, err)
				require.Equal(rt, want.Files[i], got)
			}
		})
		return nil
	}))
	require.Positive(t, needsGit)
	require.Greater(t, plain, needsGit)
}

func TestAChangeIsCountedWithoutAGitProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	withTwoStates(t, m, func(r *mirror, i int, before, after string) {
		s := twoStates[i]
		want, err := r.gitStat(t.Context(), before, after)
		require.NoError(t, err)
		started := m.GitProcesses()
		got, err := r.stat(t.Context(), before, after)
		require.NoError(t, err)
		require.Equal(t, want, got, s.name)
		require.Equal(t, s.name == "deleted" || s.name == "moved", m.GitProcesses() == started, s.name)
		got, err = r.stat(t.Context(), after, after)
		require.NoError(t, err)
		require.Equal(t, Stat{}, got)
	})
}
