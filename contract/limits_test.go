package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

func TestRunsAndDeliberationsRevokeAnAgentPastTheSameLimits(t *testing.T) {
	t.Parallel()
	limits := contract.AgentLimits{Errors: 8, Repeats: 2, Violations: 1}
	require.Equal(t, limits, contract.DeliberationSettings{ErrorLimit: 8, RepeatLimit: 2, ViolationLimit: 1}.AgentLimits())
	require.Empty(t, limits.Exceeded(8, 2, 1), "all of them may be reached")
	require.Equal(t, contract.ExceededErrors, limits.Exceeded(9, 2, 1))
	require.Equal(t, contract.ExceededRepeats, limits.Exceeded(9, 3, 1))
	require.Equal(t, contract.ExceededViolations, limits.Exceeded(9, 3, 2))
}
