package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFileIsTrustedAsItWasAndWhereItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
		return p
	}
	mine, other := write("mine/rgpt.yaml", "a: 1\n"), write("other/rgpt.yaml", "a: 1\n")
	list := Default(func(name string) string { return map[string]string{"HOME": filepath.Join(dir, "home")}[name] })
	require.False(t, list.Trusts(mine, []byte("a: 1\n")))
	require.NoError(t, list.Add(mine))
	require.True(t, list.Trusts(mine, []byte("a: 1\n")))
	require.False(t, list.Trusts(mine, []byte("a: 2\n")), "it has changed since")
	require.False(t, list.Trusts(other, []byte("a: 1\n")), "the same content elsewhere")

	require.NoError(t, os.Symlink(filepath.Join(dir, "mine"), filepath.Join(dir, "link")))
	require.True(t, list.Trusts(filepath.Join(dir, "link", "rgpt.yaml"), []byte("a: 1\n")))

	write("mine/rgpt.yaml", "a: 2\n")
	require.NoError(t, list.Add(mine, other))
	require.True(t, list.Trusts(mine, []byte("a: 2\n")))
	require.False(t, list.Trusts(mine, []byte("a: 1\n")), "what it was before counts no more")
	require.NoError(t, list.Remove(mine))
	require.False(t, list.Trusts(mine, []byte("a: 2\n")))
	require.True(t, list.Trusts(other, []byte("a: 1\n")))
	require.Error(t, list.Add(filepath.Join(dir, "none.yaml")))
	require.ErrorContains(t, Default(func(string) string { return "" }).Add(mine), "HOME")
	require.False(t, List{}.Trusts(mine, nil))
}
