package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
)

func TestACleanUpOfNamedKindsDeletesNothingElse(t *testing.T) {
	t.Parallel()
	all := retention.Policy{MaxAge: 4, LogAge: 3, MaxSize: 1, EnvironmentAge: 2, Blobs: true, BrainAge: time.Hour, QueueAge: time.Hour}
	p, err := Cleaning{Only: []retain.Kind{retain.Logs}}.policy(all)
	require.NoError(t, err)
	require.Equal(t, retention.Policy{LogAge: 3}, p)
	p, err = Cleaning{}.policy(all)
	require.NoError(t, err)
	require.Equal(t, all, p)
}
