package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/store/triggers"
)

// triggersFile is a configuration with two triggers.
const triggersFile = `
triggers:
  nightly: {on: schedule, cron: "0 3 * * *", zone: Europe/Berlin, repo: https://git.example.com/team/app, goal: Update, cost_per_day: 25}
  fix: {on: command, repo: https://git.example.com/team/app, goal: Fix it}
`

func TestTriggersAreFiredPausedAndRepeatedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	p := withStore(t)
	file := filepath.Join(p.dir, "rgpt.yaml")
	require.NoError(t, os.WriteFile(file, []byte(triggersFile), 0o600))
	do := func(want string, args ...string) {
		t.Helper()
		r := p.run(t, append(append([]string{"trigger"}, args...), "--config", file)...)
		require.Equal(t, 0, r.code, r.errs)
		require.Contains(t, r.out, want)
	}
	do("fix      command", "list")
	do("schedule 0 3 * * * Europe/Berlin", "list")
	do("No deliveries.", "deliveries")
	do("Delivery 1 of the trigger fix: waiting, place 1", "fire", "fix", "--text", "it is slow", "--key", "ticket-1")
	do("Delivery 1 of the trigger fix: waiting, place 1", "fire", "fix", "--key", "ticket-1")
	do("Delivery 3 of the trigger fix: waiting, place 2", "fire", "fix")
	do("Paused the trigger fix", "pause", "fix", "--reason", "release week")
	do("release week", "show", "fix")
	do(`"paused_by"`, "show", "fix", "--json")
	do("Resumed the trigger fix", "resume", "fix")
	do("50 runs or $25", "show", "nightly")
	_, err := triggers.InTurn(t.Context(), p.Store, "fix", 10, func(turn *triggers.Turn) error {
		return turn.End(t.Context(), triggers.Skipped, "too many at once", turn.Waiting[0])
	})
	require.NoError(t, err)
	do("too many at once", "deliveries", "fix", "--state", "skipped")
	do("Delivery 1 of the trigger fix: waiting, place 1", "redeliver", "1")
	do(`"position": 1`, "deliveries", "--json")

	for _, args := range [][]string{{"show", "weekly"}, {"fire", "weekly"}, {"redeliver", "99"}, {"redeliver", "x"}, {"pause", "fix"}, {"fire"}, {"deliveries", "--limit", "0"}} {
		r := p.run(t, append(append([]string{"trigger"}, args...), "--config", file)...)
		require.NotEqual(t, 0, r.code, args)
		require.NotEmpty(t, r.errs, args)
	}
}
