package planning_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/planning"
)

func basis(past ...planning.Past) planning.Basis {
	return planning.Basis{Steps: past, Tests: 4, Testing: 10, Priced: true, Parallel: 4, Cost: func(u contract.Usage) int64 { return u.PromptTokens + 10*u.CompletionTokens }}
}

// three is a plan whose first two steps can run side by side.
var three = contract.Plan{Steps: []contract.Step{
	{ID: "a", EstimatedComplexity: contract.LevelLow}, {ID: "b", EstimatedComplexity: contract.LevelHigh},
	{ID: "c", EstimatedComplexity: contract.LevelLow, Dependencies: []string{"b"}},
}}

func TestAnEstimateIsMadeOfTheMediansOfSimilarSteps(t *testing.T) {
	t.Parallel()
	low := planning.Past{Complexity: contract.LevelLow, Same: true, Steps: 5, MicroUSD: 100, Seconds: 20}
	high := planning.Past{Complexity: contract.LevelHigh, Same: true, Steps: 3, MicroUSD: 1000, Seconds: 60}
	e := planning.Estimate(three, basis(low, high))
	require.Equal(t, int64(1200), *e.MicroUSD)
	require.Equal(t, contract.BasisHistory, e.CostBasis)
	require.Equal(t, 3, e.CostSamples, "the fewest")
	require.Equal(t, int64(90_000), *e.DurationMS, "b, then c, then the tests; a runs beside b")

	one := basis(low, high)
	one.Parallel = 1
	require.Equal(t, int64(110_000), *planning.Estimate(three, one).DurationMS)
}

func TestWhatTooLittleIsKnownAboutIsUnknown(t *testing.T) {
	t.Parallel()
	other := planning.Past{Steps: 9, MicroUSD: 5, PromptTokens: 100, CompletionTokens: 10, Seconds: 1}
	for name, c := range map[string]struct {
		basis planning.Basis
		cost  string
		micro int64
		time  string
	}{
		"nothing":            {basis(), contract.BasisUnknown, 0, contract.BasisUnknown},
		"too few":            {basis(planning.Past{Same: true, Steps: 2, MicroUSD: 5}), contract.BasisUnknown, 0, contract.BasisUnknown},
		"with other models":  {basis(other), contract.BasisPrices, 600, contract.BasisHistory},
		"with this model":    {basis(other, planning.Past{Same: true, Steps: 3, MicroUSD: 7, Seconds: 2}), contract.BasisHistory, 21, contract.BasisHistory},
		"without prices":     {func() planning.Basis { b := basis(other); b.Priced = false; return b }(), contract.BasisUnknown, 0, contract.BasisHistory},
		"without tests":      {func() planning.Basis { b := basis(other); b.Tests = 0; return b }(), contract.BasisPrices, 600, contract.BasisUnknown},
		"only of high steps": {basis(planning.Past{Complexity: contract.LevelHigh, Same: true, Steps: 9, MicroUSD: 7}), contract.BasisUnknown, 0, contract.BasisUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := planning.Estimate(three, c.basis)
			require.Equal(t, c.cost, e.CostBasis)
			require.Equal(t, c.time, e.TimeBasis)
			require.Equal(t, c.cost == contract.BasisUnknown, e.MicroUSD == nil)
			require.Equal(t, c.cost == contract.BasisUnknown, e.CostText() == "unknown")
			require.Equal(t, c.time == contract.BasisUnknown, e.DurationMS == nil)
			require.Equal(t, c.time == contract.BasisUnknown, e.TimeText() == "unknown")
			if e.MicroUSD != nil {
				require.Equal(t, c.micro, *e.MicroUSD)
			}
		})
	}
}

func TestARiskHasReasons(t *testing.T) {
	t.Parallel()
	calm := contract.Plan{Steps: []contract.Step{{ID: "a", RiskLevel: contract.LevelLow, Files: []string{"a.go"}}}}
	require.Equal(t, contract.PlanRisk{Level: contract.LevelLow}, planning.Risk(calm, nil, []string{".github/**"}, 0))
	require.Equal(t, contract.LevelMedium, planning.Risk(calm, []contract.PlanFinding{{Text: "x"}}, nil, 0).Level)
	require.Equal(t, contract.LevelMedium, planning.Risk(calm, nil, nil, 2).Level)
	ci := calm
	ci.Steps = []contract.Step{{ID: "a", RiskLevel: contract.LevelMedium, Files: []string{".github/workflows/ci.yml"}}}
	risk := planning.Risk(ci, nil, []string{".github/**"}, 0)
	require.Equal(t, contract.LevelHigh, risk.Level)
	require.Len(t, risk.Reasons, 2)
}

func TestWorkSideBySideEndsWhenItsLastPartDoes(t *testing.T) {
	t.Parallel()
	took := []float64{5, 3, 4, 1}
	require.InDelta(t, 5, planning.SideBySide(took, 0), 0, "all at once")
	require.InDelta(t, 7, planning.SideBySide(took, 2), 0)
	require.InDelta(t, 13, planning.SideBySide(took, 1), 0)
	require.Zero(t, planning.SideBySide(nil, 0))
}
