package glob

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestAPatternIsCountedBeforeItIsMatched(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]int{
		"**/*.go": 1, "{a,b}": 2, "{a,b}/{c,d,e}": 6, "{a,{b,c},d}": 4, "x{}y": 1, `\{a,b\}`: 1, "{a": 1, "a,b}": 1, "{,}": 2,
		strings.Repeat("{a,b}", 40): MaxAlternatives + 1, strings.Repeat("{", 400): 1, "{" + strings.Repeat("{a,b},", 60) + "c}": MaxAlternatives + 1,
	} {
		require.Equal(t, want, alternatives(pattern), pattern)
	}
	require.NoError(t, Check("**/*.{js,jsx,ts,tsx,mjs,cjs,vue,svelte}"))
	require.ErrorContains(t, Check(strings.Repeat("{a,b}", 40)), "more than 100 patterns")
	require.ErrorContains(t, Check(strings.Repeat("a", MaxBytes+1)), "1001 bytes")
	require.ErrorContains(t, Check("[a"), "is not valid")
}

func TestABombMatchesNothingAtOnce(t *testing.T) {
	t.Parallel()
	bomb := strings.Repeat("{,}", 40) + "Z"
	require.False(t, Match(bomb, "Z"))
	require.ErrorContains(t, Walk(t.Context(), fstest.MapFS{"a": {}}, bomb, func(string) error { return nil }), "more than 100 patterns")
	require.True(t, Match(Literal(bomb), bomb))
	require.False(t, Match(Literal(bomb), "Z"))
	require.True(t, Match("src/*.{js,ts}", "src/a.ts"))
}

func TestBracesOfAnotherSyntaxStandForThemselves(t *testing.T) {
	t.Parallel()
	for pattern, name := range map[string]string{"{a,b}": "{a,b}", `a\{b`: "a{b", "*.{x}": "y.{x}", "[{]": "{", `\`: `\`} {
		if pattern == `\` {
			require.Equal(t, pattern, Literal(pattern))
			continue
		}
		require.True(t, Match(Literal(pattern), name), "%s: %s", pattern, Literal(pattern))
	}
	require.False(t, Match(Literal("{a,b}"), "a"))
}

func TestAWalkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"a/one.xml": {}, "b/two.xml": {}, "b/c/three.xml": {}, "d": {Mode: fs.ModeSymlink, Data: []byte("b")}}
	var found []string
	visit := func(path string) error { found = append(found, path); return nil }
	require.NoError(t, Walk(t.Context(), files, "**/*.xml", visit))
	slices.Sort(found)
	require.Equal(t, []string{"a/one.xml", "b/c/three.xml", "b/two.xml"}, found)

	gone := errors.New("the run was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	found = nil
	err := Walk(ctx, files, "**/*.xml", func(path string) error {
		cancel(gone)
		return visit(path)
	})
	require.ErrorIs(t, err, gone)
	require.Len(t, found, 1)
}

func FuzzNoPatternIsExpensive(f *testing.F) {
	for _, seed := range []string{"**/*.{a,b}", strings.Repeat("{a,b}", 6), "{{{{", "}}", `\`, "[{]", "{a,[}]}"} {
		f.Add(seed, "a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		Match(pattern, name)
		if literal := Literal(pattern); len(literal) <= MaxBytes {
			Match(literal, name)
		}
	})
}
