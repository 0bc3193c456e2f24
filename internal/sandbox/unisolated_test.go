package sandbox

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func TestWithoutNamespacesAndFiltersNoCommandRuns(t *testing.T) {
	t.Parallel()
	var isolation *IsolationError
	_, err := (&Process{options: Options{AllowUnisolated: true}}).unisolated([]Feature{noSeccomp()})
	require.ErrorAs(t, err, &isolation)
	require.True(t, isolation.Final, "no setting opens the host's network")
	require.ErrorIs(t, confine(helperConfig{NoSockets: true}), errOpenNetwork)
}

func TestACopyOfABaseThatIsInterruptedBeginsAnew(t *testing.T) {
	t.Parallel()
	base, root := t.TempDir(), t.TempDir()
	sandboxtest.WriteFiles(t, base, map[string]string{"a/one": "1", "a/b/two": "2", "three": "3"})
	filled := filepath.Join(root, "filled")
	require.NoError(t, os.Mkdir(filled, 0o755))
	// Each check of the context may be the last one before the worker dies.
	for last := range 5 {
		ctx := &mortal{Context: t.Context(), checks: last}
		b := baseCopy{ctx: ctx, base: base}
		require.ErrorIs(t, b.into(filled), context.Canceled)
		if _, err := os.Lstat(filepath.Join(filled, "a")); err == nil {
			require.Equal(t, contents(t, filepath.Join(base, "a")), contents(t, filepath.Join(filled, "a")), "what has its name is whole")
		}
	}
	b := baseCopy{ctx: t.Context(), base: base}
	require.NoError(t, b.into(filled))
	require.Equal(t, contents(t, base), contents(t, filled))
}

// contents are the files below a folder with their content, and the folders.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			out[name] = "a folder"
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		out[name] = string(data)
		return err
	}))
	return out
}

// mortal is a context that ends after some checks of it.
type mortal struct {
	context.Context
	checks int
}

// Err implements context.Context.
func (m *mortal) Err() error {
	if m.checks--; m.checks < 0 {
		return context.Canceled
	}
	return nil
}
