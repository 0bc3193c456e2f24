package server_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that linked workflows or activities would have to be deployed with
// them, and would carry what they need: sandboxes, git, providers.
func TestTheServerDoesNotLinkWorkflowsOrActivities(t *testing.T) {
	const module = "github.com/rocketgpt/orchestrator/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	require.NoError(t, err)
	imports := map[string][]string{}
	var chains [][]string // of imports, each from a package of the server on
	for line := range strings.Lines(string(out)) {
		packages := strings.Fields(line)
		imports[packages[0]] = packages[1:]
		if strings.HasPrefix(packages[0]+"/", module+"server/") {
			chains = append(chains, packages[:1])
		}
	}
	require.NotEmpty(t, chains)
	seen := map[string]bool{}
	for len(chains) > 0 {
		chain := chains[0]
		chains = chains[1:]
		last := chain[len(chain)-1]
		for _, forbidden := range []string{"workflows", "activities"} {
			require.False(t, strings.HasPrefix(last+"/", module+forbidden+"/"), "the server links %s: %s", forbidden, strings.Join(chain, " imports "))
		}
		for _, next := range imports[last] {
			if last == module+"internal/control" && next == module+"internal/workerhost" {
				continue // TODO: control starts runs through workerhost; delete this when it no longer does
			}
			if !seen[next] && strings.HasPrefix(next, module) {
				seen[next] = true
				chains = append(chains, append(slices.Clone(chain), next))
			}
		}
	}
}
