package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/eval/report"
	"github.com/rocketgpt/orchestrator/internal/store"
)

func (s *Server) evalOperations(api huma.API) {
	op := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "evals", summary, http.StatusUnprocessableEntity)
	}
	handle(s, api, op("/api/evals", "list-evals", "List evaluations, newest first"), func(ctx context.Context, in *struct {
		Before int64 `query:"before" minimum:"0" doc:"only evaluations with a smaller ID; 0: all"`
		Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	}) (*body[apitypes.EvalList], error) {
		list, err := s.Runs.Evals(ctx, in.Before, in.Limit)
		return answered(apitypes.EvalList{Evals: store.NotNil(list)}, err)
	})
	handle(s, api, op("/api/evals/{id}", "get-eval", "Get the results of an evaluation, with intervals and comparisons"), func(ctx context.Context, in *struct {
		ID      int64    `path:"id" minimum:"1" doc:"ID of the evaluation"`
		Compare []string `query:"compare" maxItems:"2" doc:"two variants to compare; one of another evaluation is written ID:NAME. Default: each with the first"`
	}) (*body[report.Report], error) {
		return answered(s.Runs.EvalReport(ctx, in.ID, in.Compare))
	})
}
