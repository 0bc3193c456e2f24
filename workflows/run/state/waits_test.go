package state_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/workflows/run/state"
)

func TestOnlyWaitsSinceAReplayExtendTheTimeOfARun(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	all := []state.Wait{{From: at(1), Until: at(3)}, {From: at(5), Until: at(6)}}
	require.Equal(t, 3*time.Hour, state.Waited(all, at(0)))
	require.Equal(t, 2*time.Hour, state.Waited(all, at(2)), "a part of the first one")
	require.Equal(t, time.Hour, state.Waited(all, at(4)))
	require.Zero(t, state.Waited(all, at(7)))
}
