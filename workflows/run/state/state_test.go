package state

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestARunThatOnlyPreparesMayEndBeforeItsFirstPhase(t *testing.T) {
	t.Parallel()
	require.True(t, canBecome(contract.StatusPending, contract.StatusDone))
}

func TestTheDiagramInTheDocumentsIsTheLifecycle(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/ARCHITECTURE.md")
	require.NoError(t, err)
	var drawn, want []string
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z_]+) --> ([a-z_]+)`).FindAllStringSubmatch(string(text), -1) {
		drawn = append(drawn, m[1]+" "+m[2])
	}
	for from, next := range lifecycle() {
		for _, to := range next {
			want = append(want, string(from)+" "+string(to))
		}
	}
	// SetStatus allows failed from everywhere, and a run that stays leaves done, and returns to it, on its own.
	require.ElementsMatch(t, append(want, "self_heal failed", "done tester_error", "done self_heal", "self_heal done"), drawn)
}
