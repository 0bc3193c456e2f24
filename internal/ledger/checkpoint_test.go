package ledger_test

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/ledger"
)

func TestACheckpointIsValidOnlyUnchangedAndWithItsKey(t *testing.T) {
	t.Parallel()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	other, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	c := ledger.Sign(key, 7, "abc", time.Now())
	require.NoError(t, c.Check(public))
	require.ErrorContains(t, c.Check(other), "was not signed with the key")
	for name, change := range map[string]func(*ledger.Checkpoint){
		"entry":     func(c *ledger.Checkpoint) { c.Seq++ },
		"hash":      func(c *ledger.Checkpoint) { c.Hash = "abd" },
		"time":      func(c *ledger.Checkpoint) { c.At = c.At.Add(time.Microsecond) },
		"signature": func(c *ledger.Checkpoint) { c.Signature = "?" },
	} {
		changed := c
		change(&changed)
		require.Error(t, changed.Check(public), name)
	}
}

func TestAKeyIsMadeOnceAndReadableByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys", "ledger-key.pem")
	keys := make([]ed25519.PrivateKey, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			var err error
			keys[i], err = ledger.Key(file)
			require.NoError(t, err)
		})
	}
	all.Wait()
	for _, k := range keys {
		require.True(t, keys[0].Equal(k))
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(file, []byte("nothing"), 0o600))
	_, err = ledger.Key(file)
	require.ErrorContains(t, err, "openssl genpkey -algorithm ed25519")
}
