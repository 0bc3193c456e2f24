// Package report summarises and compares the results of evaluations. It is a pure function of them:
// random numbers have a fixed seed, so the same results always give the same report.
package report

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

const (
	// Confidence is the level of all intervals.
	Confidence = 0.95
	// Resamples is the number of resamples of a bootstrap.
	Resamples = 10_000
	// z is the quantile of the normal distribution for Confidence.
	z = 1.959963984540054
	// seed of the bootstrap.
	seed = 20_240_601
)

// Report is the report on an evaluation.
type Report struct {
	Eval     evals.Eval     `json:"eval"`
	Variants []Variant      `json:"variants"`
	Compared []Comparison   `json:"compared,omitempty" doc:"pairs of variants, on the tasks that both finished"`
	Results  []evals.Result `json:"results"`
}

// Interval is an estimate with its confidence interval.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low" doc:"lower end of the 95 % confidence interval"`
	High  float64 `json:"high"`
}

// Variant summarises the results of one variant.
type Variant struct {
	Name     string `json:"name"`
	Tasks    int    `json:"tasks"`
	Finished int    `json:"finished"`
	Solved   int    `json:"solved"`
	Healed   int    `json:"healed" doc:"solved with at least one heal"`
	// Invalid are results that do not depend on the variant, such as a repository that cannot be
	// set up. They count neither as solved nor as unsolved.
	Invalid int            `json:"invalid" doc:"finished, but not judged for a reason outside the variant; not counted in the rate"`
	Rate    Interval       `json:"rate" doc:"solved of those that were judged, with Wilson's interval"`
	Cost    Interval       `json:"cost_usd" doc:"median"`
	Prompt  Interval       `json:"prompt_tokens" doc:"median"`
	Fresh   Interval       `json:"fresh_tokens" doc:"median of prompt tokens that were not read from a cache"`
	Output  Interval       `json:"output_tokens" doc:"median of completion tokens, with reasoning"`
	Turns   Interval       `json:"turns" doc:"median"`
	Seconds Interval       `json:"seconds" doc:"median"`
	Total   evals.Outcome  `json:"total" doc:"sums"`
	Reasons map[string]int `json:"reasons,omitempty" doc:"why tasks are not solved, and how many"`
}

// Reasons of results that do not depend on the variant.
const (
	ReasonEnvironment = "environment" // the repository cannot be set up, or its tests cannot run
	ReasonError       = "error"       // the product or the machine failed
	ReasonBudget      = "eval_budget" // the budget of the evaluation was used up
)

// Invalid reports whether a finished result does not count, because it does not depend on its variant.
func Invalid(r evals.Result) bool {
	return !r.Solved && (r.Reason == ReasonEnvironment || r.Reason == ReasonError || r.Reason == ReasonBudget)
}

// New returns the report on an evaluation: each variant, and each later variant compared with the
// first.
func New(e evals.Eval, results []evals.Result) Report {
	out := Report{Eval: e, Results: results, Variants: []Variant{}}
	var names []string
	for _, v := range e.Variants {
		names = append(names, v.Name)
	}
	for _, name := range names {
		out.Variants = append(out.Variants, summary(name, results))
	}
	for _, name := range names[min(1, len(names)):] {
		out.Compared = append(out.Compared, Compare(names[0], name, results, results))
	}
	return out
}

// judged reports whether a result counts for its variant.
func judged(r evals.Result) bool { return r.Status == evals.Done && !Invalid(r) }

func summary(name string, results []evals.Result) Variant {
	v := Variant{Name: name, Reasons: map[string]int{}, Total: evals.Outcome{CostKnown: true}}
	var counted []evals.Result
	for _, r := range results {
		if r.Variant != name {
			continue
		}
		v.Tasks++
		if r.Status != evals.Done {
			continue
		}
		v.Finished++
		add(&v.Total, r.Outcome)
		if !r.Solved {
			v.Reasons[r.Reason]++
		}
		switch {
		case Invalid(r):
			v.Invalid++
			continue
		case r.Solved:
			v.Solved++
			if r.Heals > 0 {
				v.Healed++
			}
		}
		counted = append(counted, r)
	}
	v.Rate = Wilson(v.Solved, len(counted))
	v.Cost, v.Prompt, v.Fresh = median(counted, cost), median(counted, prompt), median(counted, fresh)
	v.Output, v.Turns, v.Seconds = median(counted, output), median(counted, turns), median(counted, seconds)
	return v
}

func add(sum *evals.Outcome, o evals.Outcome) {
	sum.CostMicros += o.CostMicros
	sum.CostKnown = sum.CostKnown && o.CostKnown
	sum.FreshTokens += o.FreshTokens
	sum.CachedTokens += o.CachedTokens
	sum.ReasoningTokens += o.ReasoningTokens
	sum.OutputTokens += o.OutputTokens
	sum.Turns += o.Turns
	sum.Heals += o.Heals
	sum.Seconds += o.Seconds
}

func cost(r evals.Result) float64   { return float64(r.CostMicros) / 1e6 }
func prompt(r evals.Result) float64 { return float64(r.Prompt()) }
func fresh(r evals.Result) float64  { return float64(r.FreshTokens) }
func output(r evals.Result) float64 { return float64(r.OutputTokens + r.ReasoningTokens) }
func turns(r evals.Result) float64  { return float64(r.Turns) }
func seconds(r evals.Result) float64 {
	return r.Seconds
}

// Wilson returns a rate with Wilson's score interval, which also holds for few tasks and for rates
// near 0 and 1.
func Wilson(successes, n int) Interval {
	if n == 0 {
		return Interval{}
	}
	total, p := float64(n), float64(successes)/float64(n)
	centre := p + z*z/(2*total)
	spread := z * math.Sqrt(p*(1-p)/total+z*z/(4*total*total))
	scale := 1 + z*z/total
	return Interval{Value: p, Low: max(0, (centre-spread)/scale), High: min(1, (centre+spread)/scale)}
}

// median returns the median of a value, with the interval between two order statistics. With fewer
// than six results, the interval is their whole range, and its level is lower.
func median(results []evals.Result, of func(evals.Result) float64) Interval {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	if len(values) == 0 {
		return Interval{}
	}
	slices.Sort(values)
	k := rank(len(values))
	return Interval{Value: middle(values), Low: values[k], High: values[len(values)-1-k]}
}

// rank returns the position from both ends of the order statistics that enclose the median of a
// distribution, according to the binomial distribution of the number of values below it.
func rank(n int) int {
	total, _ := math.Lgamma(float64(n + 1))
	below, k := 0.0, 0
	for ; k < n/2; k++ {
		x, _ := math.Lgamma(float64(k + 1))
		y, _ := math.Lgamma(float64(n - k + 1))
		if below += math.Exp(total - x - y - float64(n)*math.Ln2); below > (1-Confidence)/2 {
			break
		}
	}
	return max(0, k-1)
}

// middle returns the median of values, which it sorts.
func middle(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n%2 == 1 {
		return values[n/2]
	}
	return (values[n/2-1] + values[n/2]) / 2
}

// bootstrap returns the means of resamples of values, sorted.
func bootstrap(values []float64) []float64 {
	random := rand.New(rand.NewPCG(seed, uint64(len(values))))
	out := make([]float64, Resamples)
	for i := range out {
		var sum float64
		for range values {
			sum += values[random.IntN(len(values))]
		}
		out[i] = sum / float64(len(values))
	}
	slices.Sort(out)
	return out
}

func quantile(sorted []float64, q float64) float64 {
	return sorted[min(len(sorted)-1, int(math.Round(q*float64(len(sorted)-1))))]
}

// Comparison compares variant B with variant A on the tasks that both finished, task by task.
type Comparison struct {
	A       string     `json:"a"`
	B       string     `json:"b"`
	Tasks   int        `json:"tasks" doc:"judged for both"`
	Both    int        `json:"both" doc:"tasks that both solved"`
	OnlyA   int        `json:"only_a"`
	OnlyB   int        `json:"only_b"`
	Neither int        `json:"neither"`
	Rate    Difference `json:"rate" doc:"of B minus A"`
	Cost    Difference `json:"cost_usd" doc:"mean difference per task, B minus A"`
	Prompt  Difference `json:"prompt_tokens"`
	Output  Difference `json:"output_tokens"`
	Turns   Difference `json:"turns"`
	Seconds Difference `json:"seconds"`
	// Ratios are B's medians divided by A's; 0 if A's is 0.
	PromptRatio  float64 `json:"prompt_ratio" doc:"median of B divided by that of A"`
	TurnsRatio   float64 `json:"turns_ratio"`
	SecondsRatio float64 `json:"seconds_ratio"`
}

// Difference is a mean paired difference with its interval and p-value, by bootstrap.
type Difference struct {
	Interval
	P float64 `json:"p" doc:"two-sided p-value of no difference"`
}

// FormatP returns a p-value for people, such as 0.042 or <0.001.
func FormatP(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// pair is a task with the results of two variants.
type pair struct{ a, b evals.Result }

// Compare compares a variant of one evaluation with a variant of the same or another one, on the
// tasks that were judged for both.
func Compare(a, b string, resultsA, resultsB []evals.Result) Comparison {
	out := Comparison{A: a, B: b}
	pairs := pairsOf(a, b, resultsA, resultsB)
	out.Tasks = len(pairs)
	if len(pairs) == 0 {
		return out
	}
	for _, p := range pairs {
		switch {
		case p.a.Solved && p.b.Solved:
			out.Both++
		case p.a.Solved:
			out.OnlyA++
		case p.b.Solved:
			out.OnlyB++
		default:
			out.Neither++
		}
	}
	out.Rate = paired(pairs, func(r evals.Result) float64 {
		if r.Solved {
			return 1
		}
		return 0
	})
	out.Cost, out.Prompt, out.Output = paired(pairs, cost), paired(pairs, prompt), paired(pairs, output)
	out.Turns, out.Seconds = paired(pairs, turns), paired(pairs, seconds)
	out.PromptRatio, out.TurnsRatio, out.SecondsRatio = ratio(pairs, prompt), ratio(pairs, turns), ratio(pairs, seconds)
	return out
}

func pairsOf(a, b string, resultsA, resultsB []evals.Result) []pair {
	second := map[string]evals.Result{}
	for _, r := range resultsB {
		if r.Variant == b && judged(r) {
			second[r.Task] = r
		}
	}
	var pairs []pair
	for _, r := range resultsA {
		if other, ok := second[r.Task]; ok && r.Variant == a && judged(r) {
			pairs = append(pairs, pair{r, other})
		}
	}
	slices.SortFunc(pairs, func(x, y pair) int { return cmp.Compare(x.a.Task, y.a.Task) })
	return pairs
}

// paired returns the mean difference of a value, with a bootstrap over tasks. The p-value is twice the
// share of resamples on the other side of zero. It is never 0, because there are finitely many, and
// never below that of a sign test on as many tasks: resamples of few tasks vary too little.
func paired(pairs []pair, of func(evals.Result) float64) Difference {
	deltas := make([]float64, len(pairs))
	var sum float64
	for i, p := range pairs {
		deltas[i] = of(p.b) - of(p.a)
		sum += deltas[i]
	}
	means := bootstrap(deltas)
	below, above := 0, 0
	for _, m := range means {
		if m <= 0 {
			below++
		}
		if m >= 0 {
			above++
		}
	}
	tail := (1 - Confidence) / 2
	return Difference{
		Interval: Interval{Value: sum / float64(len(deltas)), Low: quantile(means, tail), High: quantile(means, 1-tail)},
		P:        min(1, max(2*float64(min(below, above)+1)/float64(Resamples+1), math.Exp2(1-float64(len(deltas))))),
	}
}

func ratio(pairs []pair, of func(evals.Result) float64) float64 {
	a, b := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		a[i], b[i] = of(p.a), of(p.b)
	}
	below := middle(a)
	if below == 0 {
		return 0
	}
	return middle(b) / below
}
