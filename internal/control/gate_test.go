package control

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
)

func TestAForkHasTheOperatorsGateAndIsNotJudgedMoreMildly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ operator, old, want string }{
		"of a run without a gate": {"default", "", "default"},
		"of a stricter run":       {"default", "strict", "strict"},
		"of a milder run":         {"strict", "permissive", "strict"},
		"of a run before it":      {"permissive", "default", "default"},
		"without a gate":          {config.GateOff, "strict", ""},
	} {
		r := &Runs{Config: config.Default()}
		r.Config.Gate.Policy = c.operator
		var old *contract.GateSettings
		if c.old != "" {
			old = &contract.GateSettings{Policy: c.old}
		}
		got, err := r.gateOfFork(t.Context(), old)
		require.NoError(t, err)
		if c.want == "" {
			require.Nil(t, got, name)
			continue
		}
		require.Equal(t, c.want, got.Policy, name)
		require.NotZero(t, got.Limits, name)
	}
}
