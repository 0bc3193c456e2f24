package change_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

func TestSpellingsOfOnePathFoldToTheSame(t *testing.T) {
	t.Parallel()
	for name, spellings := range map[string][]string{
		"case":             {".github/workflows/ci.yml", ".GitHub/Workflows/CI.yml"},
		"other alphabets":  {"straße", "STRASSE"},
		"composition":      {"caf\u00e9", "cafe\u0301", "CAFE\u0301"},
		"invisible":        {".github/a", ".git\u200chub/a", "\ufeff.github/a"},
		"trailing":         {".github/a", ".github./a", ".github /a . "},
		"all of these":     {".github/é", ".GIT\u200dHUB. ./E\u0301."},
		"dots are a name":  {"a/../b", "A/../b"},
		"the current path": {"./a", "./A"},
	} {
		for _, s := range spellings {
			require.Equal(t, change.Fold(spellings[0]), change.Fold(s), "%s: %q", name, s)
		}
	}
	require.NotEqual(t, change.Fold("a.b"), change.Fold("ab"))
}

func FuzzFold(f *testing.F) {
	f.Add(".GIT\u200dHUB. ./E\u0301.")
	f.Add("a\xff/..")
	f.Fuzz(func(t *testing.T, path string) {
		once := change.Fold(path)
		require.Equal(t, once, change.Fold(once))
	})
}
