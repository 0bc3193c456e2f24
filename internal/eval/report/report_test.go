package report_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func result(task int, variant string, solved bool, prompt int64) evals.Result {
	r := evals.Result{Task: fmt.Sprintf("task-%02d", task), Variant: variant, Status: evals.Done}
	r.Solved, r.FreshTokens, r.Turns = solved, prompt, int(prompt/100)
	if !solved {
		r.Reason = "hidden_tests"
	}
	return r
}

func TestARateHasWilsonsInterval(t *testing.T) {
	t.Parallel()
	// Values of Wilson's score interval without continuity correction, from the literature.
	i := report.Wilson(15, 20)
	require.InDelta(t, 0.75, i.Value, 1e-9)
	require.InDelta(t, 0.531, i.Low, 0.001)
	require.InDelta(t, 0.888, i.High, 0.001)
	require.InDelta(t, 0.839, report.Wilson(20, 20).Low, 0.001)
	require.Equal(t, report.Interval{}, report.Wilson(0, 0))
}

func TestResultsThatSayNothingAboutAVariantDoNotCount(t *testing.T) {
	t.Parallel()
	broken := result(3, "a", false, 0)
	broken.Reason = report.ReasonEnvironment
	pending := evals.Result{Task: "task-04", Variant: "a", Status: evals.Pending}
	healed := result(1, "a", true, 300)
	healed.Heals = 1
	r := report.New(evals.Eval{Variants: []eval.Variant{{Name: "a"}}}, []evals.Result{healed, result(2, "a", false, 100), broken, pending})
	v := r.Variants[0]
	require.Equal(t, []int{4, 3, 1, 1, 1}, []int{v.Tasks, v.Finished, v.Solved, v.Invalid, v.Healed})
	require.InDelta(t, 0.5, v.Rate.Value, 1e-9)
	require.InDelta(t, 200, v.Prompt.Value, 1e-9)
	require.Equal(t, map[string]int{"environment": 1, "hidden_tests": 1}, v.Reasons)
	require.Empty(t, r.Compared)
}

func TestACostIsKnownOnlyIfAllOfItIs(t *testing.T) {
	t.Parallel()
	known, unknown := result(1, "a", true, 1), result(2, "a", true, 1)
	known.CostKnown = true
	one := report.New(evals.Eval{Variants: []eval.Variant{{Name: "a"}}}, []evals.Result{known})
	require.True(t, one.Variants[0].Total.CostKnown)
	both := report.New(evals.Eval{Variants: []eval.Variant{{Name: "a"}}}, []evals.Result{known, unknown})
	require.False(t, both.Variants[0].Total.CostKnown)
}

func TestAMedianLiesBetweenOrderStatistics(t *testing.T) {
	t.Parallel()
	var all []evals.Result
	for i := range 20 {
		all = append(all, result(i, "a", true, int64(100*(i+1))))
	}
	v := report.New(evals.Eval{Variants: []eval.Variant{{Name: "a"}}}, all).Variants[0]
	require.InDelta(t, 1050, v.Prompt.Value, 1e-9)
	require.InDelta(t, 600, v.Prompt.Low, 1e-9) // the sixth of twenty, as tables say
	require.InDelta(t, 1500, v.Prompt.High, 1e-9)
}

func TestVariantsAreComparedTaskByTask(t *testing.T) {
	t.Parallel()
	var all []evals.Result
	for i := range 30 {
		all = append(all, result(i, "a", i%2 == 0, int64(1000+10*i)), result(i, "b", i%2 == 0 || i%3 == 0, int64(700+7*i)))
	}
	r := report.New(evals.Eval{Variants: []eval.Variant{{Name: "a"}, {Name: "b"}}}, all)
	require.Len(t, r.Compared, 1)
	c := r.Compared[0]
	require.Equal(t, []int{30, 15, 0, 5, 10}, []int{c.Tasks, c.Both, c.OnlyA, c.OnlyB, c.Neither})
	require.InDelta(t, 5.0/30, c.Rate.Value, 1e-9)
	require.Greater(t, c.Rate.Low, 0.0)
	require.Less(t, c.Rate.P, 0.05)
	require.InDelta(t, 0.7, c.PromptRatio, 1e-9)
	require.Negative(t, c.Prompt.High)
	same := report.Compare("a", "a", all, all)
	require.Zero(t, same.Rate.Value)
	require.InDelta(t, 1, same.Rate.P, 1e-9)
	require.Equal(t, c, report.Compare("a", "b", all, all), "a report does not depend on chance")
}

func TestFewTasksNeverMakeASmallPValue(t *testing.T) {
	t.Parallel()
	var all []evals.Result
	for i := range 7 {
		all = append(all, result(i, "a", true, 1000), result(i, "b", true, 500))
	}
	for tasks, least := range map[int]float64{1: 1, 2: 0.5, 5: 0.0625, 7: 0.015625} {
		c := report.Compare("a", "b", all[:2*tasks], all[:2*tasks])
		require.Equal(t, tasks, c.Tasks)
		require.InDelta(t, least, c.Prompt.P, 1e-9)
	}
	require.Equal(t, "<0.001", report.FormatP(0.0002))
	require.Equal(t, "0.042", report.FormatP(0.0421))
}
