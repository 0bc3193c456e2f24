package secrets_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/secrets"
)

func TestManyBeginningsOfKeysAreReadOnce(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := secrets.Guard.Judge(t.Context(), gatetest.Between(gatetest.Tree{}, gatetest.Tree{"a.go": strings.Repeat("-----BEGIN PRIVATE KEY-----", 30_000)}))
	require.NoError(t, err)
	require.Less(t, time.Since(began), 10*time.Second, "a minute, once")
}
