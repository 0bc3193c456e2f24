package apiclient

import (
	"context"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/store/evals"
)

// Evals returns evaluations, newest first; only those before an ID if it is not 0.
func (c *Client) Evals(ctx context.Context, before int64, limit int) ([]evals.Summary, error) {
	r := read("api", "evals")
	r.query = parameters("limit", strconv.Itoa(min(limit, maxPage)))
	if before > 0 {
		r.query.Set("before", strconv.FormatInt(before, 10))
	}
	list, err := ask[apitypes.EvalList](ctx, c, r)
	return list.Evals, err
}

// EvalReport returns the report on an evaluation; see control.Runs.EvalReport.
func (c *Client) EvalReport(ctx context.Context, id int64, compare []string) (report.Report, error) {
	r := read("api", "evals", strconv.FormatInt(id, 10))
	if len(compare) > 0 {
		r.query = parameters("compare", strings.Join(compare, ","))
	}
	return ask[report.Report](ctx, c, r)
}
