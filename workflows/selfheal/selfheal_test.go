package selfheal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestAWorkerThatWasStartedAgainIsAnotherOne(t *testing.T) {
	t.Parallel()
	h := &heal{in: contract.HealInput{Failure: contract.Failure{Worker: "a:1"}, Avoid: []string{"c:3"}}}
	require.Equal(t, "a:7", h.otherThanFailed([]string{"a:1", "c:3", "a:7"}))
	require.Empty(t, h.otherThanFailed([]string{"a:1", "c:3"}))
	h.in.Failure.Worker = ""
	require.Empty(t, h.otherThanFailed([]string{"a:1"}), "the only one must be it")
	require.Equal(t, "b:2", h.otherThanFailed([]string{"b:2", "a:1"}))
}
