package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/retention"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/retain"
)

func (s *Server) retentionOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "retention", summary, more...)
	}
	handle(s, api, op(http.MethodPost, "/api/runs/{id}/hold", "hold-run", "Keep a run's files, whatever the retention policy says; an existing hold stays as it is", http.StatusConflict, http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		RunCommand
		Body apitypes.HoldRequest
	}) (*body[retain.Hold], error) {
		return answered(s.Runs.Hold(ctx, in.ID, in.Body.Reason, cmp.Or(in.Body.By, contract.ByAPI)))
	})
	handle(s, api, op(http.MethodPost, "/api/runs/{id}/release-hold", "release-hold", "Release the hold of a run", http.StatusConflict, http.StatusUnprocessableEntity), func(ctx context.Context, in *bareCommand) (*body[retain.Hold], error) {
		return answered(s.Runs.ReleaseHold(ctx, in.ID, cmp.Or(given(in.Body).By, contract.ByAPI)))
	})
	handle(s, api, op(http.MethodPost, "/api/cleanups", "clean-up", "Delete files, environments and contents that are no longer needed", http.StatusConflict, http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		Keyed
		Body *control.Cleaning
	}) (*body[retention.CleanupReport], error) {
		c := given(in.Body)
		c.By = cmp.Or(c.By, contract.ByAPI)
		return answered(s.Runs.Clean(ctx, c))
	})
	handle(s, api, op(http.MethodGet, "/api/cleanups", "list-cleanups", "List clean-ups, newest first", http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	}) (*body[apitypes.CleanupList], error) {
		list, err := s.Runs.Cleanups(ctx, in.Limit)
		return answered(apitypes.CleanupList{Cleanups: store.NotNil(list)}, err)
	})
	handle(s, api, op(http.MethodGet, "/api/cleanups/{id}/deletions", "list-deletions", "List what a clean-up deleted", http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		ID    int64 `path:"id" minimum:"1" doc:"number of the clean-up"`
		Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"1000" doc:"maximum number of results"`
	}) (*body[apitypes.DeletionList], error) {
		list, err := s.Runs.Deletions(ctx, in.ID, in.Limit)
		return answered(apitypes.DeletionList{Deletions: store.NotNil(list)}, err)
	})
}
