package glob_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/glob"
)

func TestASetMatchesWhatOneOfItsPatternsMatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".", "/", "**", "*", "?", "{a,b/c}", "{,.}", "[ab]", "[^a{]", "[]]", `\*`, `\{`, `\`, "{", "ab"}), 0, 6)
		text := func(name string) (s string) {
			for _, p := range parts.Draw(t, name) {
				s += p
			}
			return s
		}
		patterns := []string{text("first"), text("second")}
		path := ""
		for _, p := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ".", "/", "*", "{", "]", "ab", "c"}), 0, 6).Draw(t, "path") {
			path += p
		}
		require.Equal(t, glob.Match(patterns[0], path) || glob.Match(patterns[1], path), glob.NewSet(patterns...).Match(path))
	})
}

func TestASetOfProtectedFilesMatchesThem(t *testing.T) {
	t.Parallel()
	set := glob.NewSet(config.ProtectedFiles()...)
	for _, path := range []string{".github", ".github/workflows/ci.yml", ".drone.yml", "a/Jenkinsfile.x", "renovate.json5", ".zuul.d/a", "rgpt.yaml", "x/rgpt.ci.yml"} {
		require.True(t, set.Match(path), path)
	}
	for _, path := range []string{"", "github/workflows/ci.yml", "src/main.go", "drone.yml"} {
		require.False(t, set.Match(path), path)
	}
	require.False(t, glob.Set{}.Match("a"))
}

func BenchmarkSet(b *testing.B) {
	set := glob.NewSet(config.ProtectedFiles()...)
	for b.Loop() {
		set.Match("internal/gate/guard/rewrite/rewrite_test.go")
	}
}
