package setup_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
)

func TestAReloadedConfigurationMustStillBeTrusted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), config.FileName)
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	trusted := "gate: {policy: strict}\n"
	write(trusted)
	from := config.Sources{
		Dir: filepath.Dir(file), Env: []string{}, Trusts: func(_ string, content []byte) bool { return string(content) == trusted },
	}
	r, cfg, err := setup.NewReloader(from, "")
	require.NoError(t, err)
	require.Equal(t, "strict", cfg.Gate.Policy)

	trusted = "gate: {policy: permissive}\n"
	_, err = r.Load()
	require.ErrorContains(t, err, "is not trusted", "the list of trusted files changed, the file did not")
	write(trusted)
	cfg, err = r.Load()
	require.NoError(t, err)
	require.Equal(t, "permissive", cfg.Gate.Policy)

	write("gate: {policy: none}\n")
	_, err = r.Load()
	require.Error(t, err)
	write("gate: {policy: strict}\n")
	_, err = r.Load()
	require.ErrorContains(t, err, "is not trusted", "not even a stricter one")
	require.NoError(t, os.Remove(file))
	_, err = r.Load()
	require.ErrorContains(t, err, "changed or removed")
}
