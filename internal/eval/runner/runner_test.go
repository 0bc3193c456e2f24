package runner

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAnotherVariantComesFirstEachTime(t *testing.T) {
	t.Parallel()
	all := pairs([]eval.Task{{ID: "1"}, {ID: "2"}, {ID: "3"}}, []eval.Variant{{Name: "a"}, {Name: "b"}})
	var order []string
	for i, p := range all {
		require.Equal(t, i, p.Position)
		order = append(order, p.Task+p.Variant)
	}
	require.Equal(t, []string{"1a", "1b", "2b", "2a", "3a", "3b"}, order)
}

func TestABudgetIsDividedAndNeverExceeded(t *testing.T) {
	t.Parallel()
	b := &budget{limit: 10_000, slots: 2}
	first, ok := b.reserve()
	require.True(t, ok)
	require.Equal(t, int64(5000), first)
	second, ok := b.reserve()
	require.True(t, ok)
	require.Equal(t, int64(5000), second)
	b.release(first, 1000)
	third, ok := b.reserve()
	require.True(t, ok)
	require.Equal(t, int64(4000), third)
	b.release(second, 5000)
	b.release(third, 3500)
	_, ok = b.reserve()
	require.False(t, ok, "500 of 10,000 are left")
	free := &budget{slots: 1}
	_, ok = free.reserve()
	require.True(t, ok)
}

func TestKeysOfDriversAreNotStored(t *testing.T) {
	t.Parallel()
	v := []eval.Variant{{Name: "a", Driver: &eval.Driver{Command: "x", Environment: map[string]string{"KEY": "secret"}}}}
	require.Nil(t, withoutSecrets(v)[0].Driver.Environment)
	require.NotNil(t, v[0].Driver.Environment)
}

func TestTheMistakeOfANoisyOracleReachesTheTester(t *testing.T) {
	t.Parallel()
	const key = "execution.step.finish_checks"
	p := &pair{evaluation: &evaluation{Runner: &Runner{}}, variant: eval.Variant{Name: "noisy", Oracle: eval.OracleNoisy}}
	settings, err := p.settings()
	require.NoError(t, err)
	require.Equal(t, "false", settings[key])
	p.variant.Config = map[string]any{key: true}
	settings, err = p.settings()
	require.NoError(t, err)
	require.Equal(t, "true", settings[key], "a variant can choose otherwise")
	p.variant = eval.Variant{Name: "exact", Oracle: eval.OracleExact}
	settings, err = p.settings()
	require.NoError(t, err)
	require.NotContains(t, settings, key)
}

func TestAFailureOfTheMachineSaysNothingAboutAVariant(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]contract.Failure{
		"error":        {Class: contract.ClassInfra, Code: contract.CodeRepository},
		"timeout":      {Class: contract.ClassInfra, Code: contract.CodeTimeout},
		"environment":  {Class: contract.ClassConfig, Code: contract.CodeCheckFailed},
		"not_released": {Class: contract.ClassHuman, Code: contract.CodeCheckFailed},
	} {
		require.Equal(t, want, reasonOf(f, contract.PhasePlanner))
	}
}
