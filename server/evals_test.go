package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

// evaluate stores an evaluation of two variants, with a hostile text in everything that is shown.
func (b *fixture) evaluate(tb testing.TB, text string) int64 {
	tb.Helper()
	st := evals.New(b.Store)
	variants := []eval.Variant{{Name: "one"}, {Name: "two"}}
	var pairs []evals.Pair
	for i := range 6 {
		for _, v := range variants {
			pairs = append(pairs, evals.Pair{Position: len(pairs), Task: fmt.Sprint("task-", i), Variant: v.Name, Repo: text, Title: text})
		}
	}
	id, err := st.Create(tb.Context(), evals.Eval{Set: text, Digest: "d", Variants: variants}, pairs)
	require.NoError(tb, err)
	for i, p := range pairs[:10] {
		o := evals.Outcome{Solved: i%3 != 0, Turns: i, FreshTokens: int64(100 * i), CostMicros: 1000, Seconds: 2}
		if !o.Solved {
			o.Reason, o.Detail = "hidden_tests", text
		}
		require.NoError(tb, st.Finish(tb.Context(), id, p.Task, p.Variant, o))
	}
	return id
}

func TestEvaluationsAreShownAndServed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, text := b.page(t, "/evals")
	require.Contains(t, text, "rgpt eval run")
	hostile := `"><script>alert(1)</script>` + strings.Repeat("ä", 300)
	first := b.evaluate(t, "a set")
	id := b.evaluate(t, hostile)
	for _, path := range []string{"/evals", fmt.Sprintf("/evals/%d", id), fmt.Sprintf("/evals/%d?a=two&b=one", id)} {
		w := b.get(t, path)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.NotContains(t, w.Body.String(), "<script>alert", path)
	}
	_, text = b.page(t, fmt.Sprintf("/evals/%d", id))
	for _, want := range []string{"two compared with one", "Not solved", "hidden_tests", "Pending", "task-5", "$0.001 (estimated)"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, http.StatusNotFound, b.get(t, "/evals/99").Code)
	require.Equal(t, http.StatusBadRequest, b.get(t, "/evals?before=x").Code)

	c, _ := clientOf(t, b.handler, quietly)
	list, err := c.Evals(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Equal(t, []int64{id, first}, []int64{list[0].ID, list[1].ID})
	require.Equal(t, []int64{12, 10, 6}, []int64{list[0].Results, list[0].Finished, list[0].Solved})
	list, err = c.Evals(t.Context(), id, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	r, err := c.EvalReport(t.Context(), id, nil)
	require.NoError(t, err)
	want, err := (&control.Runs{Store: b.Store}).EvalReport(t.Context(), id, nil)
	require.NoError(t, err)
	require.Equal(t, want.Variants, r.Variants)
	require.Equal(t, want.Compared, r.Compared)
	require.Len(t, r.Results, 12)
	r, err = c.EvalReport(t.Context(), id, []string{"two", fmt.Sprintf("%d:two", first)})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%d:two", first), r.Compared[0].B)
	require.Zero(t, r.Compared[0].Rate.Value)
	_, err = c.EvalReport(t.Context(), id, []string{"one", "three"})
	require.ErrorContains(t, err, `no variant "three"`)
	_, err = c.EvalReport(t.Context(), 99, nil)
	require.Equal(t, store.CodeNotFound, fault.Of(err).Code)
}
