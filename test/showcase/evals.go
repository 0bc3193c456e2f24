package showcase

import (
	"context"
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

// evaluation writes an evaluation of two variants, in which every outcome occurs, with the title of
// its tasks.
func (f *dataset) evaluation(ctx context.Context, set, title string) error {
	st := evals.New(f.store)
	variants := []eval.Variant{{Name: "configured"}, {Name: "mini-swe-agent", Model: "openai/gpt-5", Driver: &eval.Driver{Preset: "mini-swe-agent"}}}
	var pairs []evals.Pair
	for i := range 14 {
		for _, v := range variants {
			pairs = append(pairs, evals.Pair{Position: len(pairs), Task: fmt.Sprintf("payments-api-%03d", i), Variant: v.Name, Repo: set, Title: title})
		}
	}
	id, err := st.Create(ctx, evals.Eval{Set: set, Digest: set, Variants: variants, MaxCostMicros: 20e6}, pairs)
	if err != nil {
		return err
	}
	reasons := []string{"", "", "hidden_tests", "", "not_released", "", "", "environment"}
	for i, p := range pairs[:len(pairs)-3] {
		n := int64(i + 1)
		o := evals.Outcome{
			Reason: reasons[i%len(reasons)], CostMicros: 40_000 + 9_000*n, CostKnown: true, FreshTokens: 12_000 + 900*n, CachedTokens: 30_000 + 2_000*n,
			ReasoningTokens: 400 * n, OutputTokens: 2_000 + 60*n, Turns: 8 + i%9, Heals: i % 3, Seconds: float64(90 + 11*i),
			Tests: &evals.Tests{FailToPass: evals.Count{Passed: 2, Total: 2}, PassToPass: evals.Count{Passed: 118, Total: 118}, Passed: true},
		}
		if o.Solved = o.Reason == ""; !o.Solved {
			o.Detail, o.Tests = "did not pass: tests.test_payments.test_refund_of_a_partial_payment", nil
		}
		if err := st.Finish(ctx, id, p.Task, p.Variant, o); err != nil {
			return err
		}
	}
	_, err = st.Start(ctx, id, pairs[len(pairs)-3].Task, pairs[len(pairs)-3].Variant, 0)
	return err
}
