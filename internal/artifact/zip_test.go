package artifact_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/artifact"
)

func TestAZipHoldsTheBlobsUnderTheirNames(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	a, b := put(t, s, "hello"), put(t, s, "world")
	got := unzip(t, s, []artifact.Entry{{"tester/1/report.json", b}, {"plan.json", a}})
	require.Equal(t, [][2]string{{"plan.json", "hello"}, {"tester/1/report.json", "world"}}, got)
}

func TestNamesInAZipAreSafe(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	d := put(t, s, "x")
	tests := []struct {
		name string
		in   []string
		want []string
	}{
		{"dots lead nowhere", []string{"../../etc/passwd"}, []string{"etc/passwd"}},
		{"absolute paths become relative", []string{"/etc/passwd"}, []string{"etc/passwd"}},
		{"backslashes separate", []string{`..\..\windows\win.ini`}, []string{"windows/win.ini"}},
		{"drives are no drives", []string{`C:\x`}, []string{"C_/x"}},
		{"control characters are replaced", []string{"a\x00b\nc"}, []string{"a_b_c"}},
		{"nothing left is unnamed", []string{"..", "/"}, []string{"unnamed", "unnamed-2"}},
		{"duplicates are numbered before the ending", []string{"a/log.txt", "a/log.txt", "a/log.txt"}, []string{"a/log-2.txt", "a/log-3.txt", "a/log.txt"}},
		{"case does not tell names apart", []string{"README", "readme"}, []string{"README", "readme-2"}},
		{"a file and a folder of one name", []string{"a", "a/b"}, []string{"a", "a-2/b"}},
		{"a hidden file has no ending", []string{".env", ".env"}, []string{".env", ".env-2"}},
		{"a numbered name may be taken", []string{"a", "a", "a-2"}, []string{"a", "a-2", "a-2-2"}},
		{"empty segments vanish", []string{"a//b/./c"}, []string{"a/b/c"}},
		{"inner dots stay", []string{"a..b/v1.2.3.zip"}, []string{"a..b/v1.2.3.zip"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var entries []artifact.Entry
			for _, n := range tt.in {
				entries = append(entries, artifact.Entry{Name: n, Digest: d})
			}
			var got []string
			for _, f := range unzip(t, s, entries) {
				got = append(got, f[0])
			}
			slices.Sort(got)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestTheSameEntriesGiveTheSameZip(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	a, b := put(t, s, "hello"), put(t, s, strings.Repeat("world", 1000))
	entries := []artifact.Entry{{"b", b}, {"a", a}, {"b", a}}
	var one, two bytes.Buffer
	require.NoError(t, s.Zip(t.Context(), &one, entries))
	slices.Reverse(entries)
	require.NoError(t, s.Zip(t.Context(), &two, entries))
	require.Equal(t, one.Bytes(), two.Bytes())
}

func TestAZipOfAMissingBlobFails(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	err := s.Zip(t.Context(), io.Discard, []artifact.Entry{{"a", helloDigest}})
	require.ErrorIs(t, err, artifact.ErrNotFound)
}

func TestACancelledZipStops(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Zip(ctx, io.Discard, []artifact.Entry{{"a", put(t, s, "x")}})
	require.ErrorIs(t, err, context.Canceled)
}

func TestAnyNamesGiveAZipThatUnpacksAnywhere(t *testing.T) {
	t.Parallel()
	s, _ := directoryStore(t)
	d := put(t, s, "x")
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-cA-C./\\-]{0,8}`)), 0, 12).Draw(rt, "names")
		var entries []artifact.Entry
		for _, n := range names {
			entries = append(entries, artifact.Entry{Name: n, Digest: d})
		}
		seen := map[string]bool{}
		for _, f := range unzip(rt, s, entries) {
			folded := strings.ToLower(f[0])
			require.False(rt, seen[folded], "%q twice", f[0])
			seen[folded] = true
			require.Equal(rt, path.Clean(f[0]), f[0])
			require.NotContains(rt, strings.Split(f[0], "/"), "..")
			require.False(rt, path.IsAbs(f[0]))
		}
		require.Len(rt, seen, len(names))
		for name := range seen {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				require.False(rt, seen[dir], "%q lies in a file", name)
			}
		}
	})
}

func put(t testing.TB, s *artifact.Store, text string) string {
	t.Helper()
	digest, err := s.Put(t.Context(), []byte(text))
	require.NoError(t, err)
	return digest
}

func unzip(t require.TestingT, s *artifact.Store, entries []artifact.Entry) [][2]string {
	var buf bytes.Buffer
	require.NoError(t, s.Zip(context.Background(), &buf, entries))
	r, err := zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	require.NoError(t, err)
	var out [][2]string
	for _, f := range r.File {
		content, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(content)
		require.NoError(t, err)
		out = append(out, [2]string{f.Name, string(data)})
	}
	return out
}
