package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// twoStates are directories of one repository, before/NAME and after/NAME, which are compared as trees.
var twoStates = []struct {
	name          string
	before, after map[string]string // "-> x": a link; "+x": executable; "commit": a submodule
	needsGit      bool
	hasRenames    bool // needs git for these only
}{
	{
		name: "edited",
		before: map[string]string{
			"a/x": "1\n", "a/y": "1\n", "a.b": "1\n", "a-b": "1\n", "a0": "1\n", "mode": "x", "link": "-> a", "kind": "-> a", "other": "a", "same/same": "1\n", "empty": "",
		},
		after: map[string]string{
			"a/x": "2\n", "a/y": "", "a.b": "2\n", "a-b": "2\x00", "a0": "2\n", "mode": "+x", "link": "-> b", "kind": "a", "other": "-> a", "same/same": "1\n", "empty": "1",
			"a/z/new": "1\n", "tab\tä\nline": "1\n", "a 1": strings.Repeat("x", 300), "none": "",
		},
	},
	{name: "deleted", before: map[string]string{"a": "1\n", "b/c": "1\n", "b/d": "-> a", "b.c": "2\n", "e": ""}, after: map[string]string{"e": ""}},
	{name: "moved", before: map[string]string{"a": "1\n2\n3\n", "b": "1\n"}, after: map[string]string{"c": "1\n2\n3\n", "d": "2\n"}, hasRenames: true},
	{name: "replaced", before: map[string]string{"a": "1\n", "b/c": "1\n", "e": ""}, after: map[string]string{"a/b": "1\n", "b": "1\n", "e": ""}, needsGit: true},
	{name: "submodule", before: map[string]string{"a": "1\n", "sub": "commit"}, after: map[string]string{"a": "2\n"}, needsGit: true},
}

// withTwoStates calls f with the trees of each pair.
func withTwoStates(t *testing.T, m *Manager, f func(r *mirror, i int, before, after string)) {
	t.Helper()
	repo := newRepo(t, nil)
	for _, s := range twoStates {
		for side, files := range map[string]map[string]string{"before": s.before, "after": s.after} {
			for name, content := range files {
				path := filepath.Join(side, s.name, name)
				target, isLink := strings.CutPrefix(content, "-> ")
				text, isProgram := strings.CutPrefix(content, "+")
				switch {
				case content == "commit":
					userGit(t, repo, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", sha1Length)+","+path)
				case isLink:
					require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(repo, path)), 0o755))
					require.NoError(t, os.Symlink(target, filepath.Join(repo, path)))
				default:
					write(t, repo, path, text)
					if isProgram {
						require.NoError(t, os.Chmod(filepath.Join(repo, path), 0o755))
					}
				}
			}
		}
	}
	userGit(t, repo, "add", ".", ":!before/submodule/sub")
	userGit(t, repo, "commit", "-qm", "both")
	_, ws := start(t, m, repo)
	require.NoError(t, m.with(t.Context(), ws, func(r *mirror, _ string) error {
		for i, s := range twoStates {
			f(r, i, userGit(t, repo, "rev-parse", "HEAD:before/"+s.name), userGit(t, repo, "rev-parse", "HEAD:after/"+s.name))
		}
		return nil
	}))
}

func TestTheDifferenceOfTwoTreesIsTheSameWithAndWithoutGit(t *testing.T) {
	t.Parallel()
	limits := EntryLimits{File: 200, Bytes: 1000}
	withTwoStates(t, newManager(t), func(r *mirror, i int, before, after string) {
		s := twoStates[i]
		for _, renames := range []bool{false, true} {
			want, err := r.gitEntries(t.Context(), before, after, renames)
			require.NoError(t, err, s.name)
			require.NotEmpty(t, want, s.name)
			got, err := r.plainEntries(t.Context(), before, after, renames)
			if s.needsGit || renames && s.hasRenames {
				require.ErrorIs(t, err, errNeedsGit, s.name)
				got, err = r.entriesBetween(t.Context(), before, after, renames)
			}
			require.NoError(t, err, s.name)
			require.Equal(t, want, got, s.name)

			var withGit, without []*EntryVersion
			for j := range want {
				withGit = append(withGit, &want[j].Before, &want[j].After)
				without = append(without, &got[j].Before, &got[j].After)
			}
			noContent := func(v *EntryVersion) bool { return v.Mode == "" || v.Mode == modeGitlink }
			require.NoError(t, r.gitVersions(t.Context(), slices.DeleteFunc(withGit, noContent), limits))
			require.NoError(t, r.plainVersions(t.Context(), slices.DeleteFunc(without, noContent), limits))
			require.Equal(t, want, got, s.name)
		}
	})
}

func TestContentsOverTheLimitsAreTheSameWithAndWithoutGit(t *testing.T) {
	t.Parallel()
	withTwoStates(t, newManager(t), func(r *mirror, i int, before, after string) {
		if twoStates[i].name != "edited" {
			return
		}
		want, err := r.entriesBetween(t.Context(), before, after, false)
		require.NoError(t, err)
		got := slices.Clone(want)
		var withGit, without []*EntryVersion
		var ids []string
		for j := range want {
			if want[j].After.Mode != "" {
				withGit, without, ids = append(withGit, &want[j].After), append(without, &got[j].After), append(ids, want[j].After.ID)
			}
		}
		limits := EntryLimits{File: 200, Bytes: 250}
		require.NoError(t, r.gitVersions(t.Context(), withGit, limits))
		require.ErrorIs(t, r.plainVersions(t.Context(), without, limits), errNeedsGit, "what is not read does not count")
		for j := range got {
			want[j].Before, got[j].Before = EntryVersion{}, EntryVersion{}
		}
		require.NoError(t, r.readEntries(t.Context(), got, limits))
		require.Equal(t, want, got)

		for _, most := range []int64{1, 2, 250, 1000} {
			fromGit, err := r.gitBlobs(t.Context(), ids, most)
			require.NoError(t, err)
			plain, err := r.blobs(t.Context(), ids, most)
			require.NoError(t, err)
			require.Equal(t, fromGit, plain)
		}
		_, err = r.plainBlobs(t.Context(), ids, 250)
		require.ErrorIs(t, err, errNeedsGit)
	})
}

func TestChangedFilesAreFoundWithoutAGitProcess(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	withTwoStates(t, m, func(r *mirror, i int, before, after string) {
		s, started := twoStates[i], m.GitProcesses()
		for _, most := range []int64{0, 2} {
			files, err := r.changed(t.Context(), before, after, func(path string) bool { return path != "a.b" }, most)
			require.NoError(t, err, s.name)
			require.Equal(t, s.needsGit, m.GitProcesses() > started, s.name)
			var paths []string
			for _, f := range files {
				paths = append(paths, f.Path)
				existed, before := beginningOf(s.before, f.Path, most)
				exists, after := beginningOf(s.after, f.Path, most)
				require.Equal(t, ChangedFile{Path: f.Path, Existed: existed, Exists: exists}, ChangedFile{Path: f.Path, Existed: f.Existed, Exists: f.Exists})
				require.Equal(t, []string{before, after}, []string{string(f.Before), string(f.After)}, f.Path)
			}
			require.True(t, slices.IsSorted(paths), paths)
			require.NotContains(t, paths, "link")
		}
	})
}

// beginningOf returns the beginning of a regular file of twoStates, if there is one.
func beginningOf(files map[string]string, path string, most int64) (there bool, content string) {
	content, there = files[path]
	if !there || strings.HasPrefix(content, "-> ") || content == "commit" {
		return false, ""
	}
	content = strings.TrimPrefix(content, "+")
	return true, content[:min(int64(len(content)), most)]
}
