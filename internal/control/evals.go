package control

import (
	"context"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

// Evals returns evaluations, newest first; only those before an ID if it is not 0.
func (r *Runs) Evals(ctx context.Context, before int64, limit int) ([]evals.Summary, error) {
	return evals.New(r.Store).List(ctx, before, limit)
}

// EvalReport returns the report on an evaluation. If compare names two variants, these are compared;
// otherwise, each later variant with the first. A variant of another evaluation is written ID:NAME.
func (r *Runs) EvalReport(ctx context.Context, id int64, compare []string) (report.Report, error) {
	st := evals.New(r.Store)
	e, err := st.Get(ctx, id)
	if err != nil {
		return report.Report{}, err
	}
	results, err := st.Results(ctx, id)
	if err != nil {
		return report.Report{}, err
	}
	out := report.New(e, results)
	if len(compare) == 0 {
		return out, nil
	}
	if len(compare) != 2 {
		return out, wrong("specify two variants to compare, not %d", len(compare))
	}
	a, ofA, err := variantResults(ctx, st, e, results, compare[0])
	if err != nil {
		return out, err
	}
	b, ofB, err := variantResults(ctx, st, e, results, compare[1])
	if err != nil {
		return out, err
	}
	c := report.Compare(a, b, ofA, ofB)
	c.A, c.B = compare[0], compare[1]
	out.Compared = []report.Comparison{c}
	return out, nil
}

// variantResults returns the name of a variant and the results among which its own are: those of its
// evaluation.
func variantResults(ctx context.Context, st *evals.Store, e evals.Eval, results []evals.Result, name string) (string, []evals.Result, error) {
	if has(e, name) {
		return name, results, nil
	}
	of, short, ok := strings.Cut(name, ":")
	id, err := strconv.ParseInt(of, 10, 64)
	if !ok || err != nil {
		return "", nil, wrong("evaluation %d has no variant %q", e.ID, name)
	}
	other, err := st.Get(ctx, id)
	if err != nil {
		return "", nil, err
	}
	if !has(other, short) {
		return "", nil, wrong("evaluation %d has no variant %q", id, short)
	}
	results, err = st.Results(ctx, id)
	return short, results, err
}

func has(e evals.Eval, variant string) bool {
	for _, v := range e.Variants {
		if v.Name == variant {
			return true
		}
	}
	return false
}
