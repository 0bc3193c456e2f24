package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest/conformance"
)

func TestProcessesOfThisHostConform(t *testing.T) {
	t.Parallel()
	p, err := sandbox.NewProcess(sandbox.Options{})
	require.NoError(t, err)
	conformance.Run(t, p)
}
