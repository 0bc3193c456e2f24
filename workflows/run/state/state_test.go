package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestARunThatOnlyPreparesMayEndBeforeItsFirstPhase(t *testing.T) {
	t.Parallel()
	require.True(t, canBecome(contract.StatusPending, contract.StatusDone))
}
