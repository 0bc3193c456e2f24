package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheCommandLinksNeitherWorkflowsNorActivities keeps rgpt, which contains the
// server, small and quick to build: both address workflows by their names in contract.
func TestTheCommandLinksNeitherWorkflowsNorActivities(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for _, pkg := range strings.Fields(string(out)) {
		name, ours := strings.CutPrefix(pkg, "github.com/rocketgpt/orchestrator/")
		if !ours {
			continue
		}
		top, _, _ := strings.Cut(name, "/")
		require.NotContains(t, []string{"workflows", "activities", "workers"}, top, "rgpt links %s", pkg)
		require.NotEqual(t, "internal/workerhost", name)
	}
}
