package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/flaky"
)

func (s *Server) flakyOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "flaky", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "/api/flaky", "list-flaky-tests", "List flaky tests with their history, the flakiest first", http.StatusUnprocessableEntity), func(ctx context.Context, in *OfRepository) (*body[apitypes.FlakyList], error) {
		list, err := s.Runs.FlakyTests(ctx, in.Repo, in.Limit)
		return answered(apitypes.FlakyList{Tests: store.NotNil(list)}, err)
	})
	handle(s, api, op(http.MethodGet, "/api/quarantine", "list-quarantine", "List quarantined tests, newest first", http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		OfRepository
		All bool `query:"all" doc:"also entries that expired or were removed"`
	}) (*body[apitypes.QuarantineList], error) {
		list, err := s.Runs.Quarantine(ctx, in.Repo, in.All, in.Limit)
		return answered(apitypes.QuarantineList{Quarantine: store.NotNil(list)}, err)
	})
	add := op(http.MethodPost, "/api/quarantine", "add-quarantine", "Quarantine a test for a limited time: its failures do not count in verifications that are planned from now on", http.StatusConflict, http.StatusUnprocessableEntity)
	add.DefaultStatus = http.StatusCreated
	handle(s, api, add, func(ctx context.Context, in *struct {
		Keyed
		Body control.NewQuarantine
	}) (*body[flaky.Entry], error) {
		in.Body.By = cmp.Or(in.Body.By, contract.ByAPI)
		return answered(s.Runs.AddQuarantine(ctx, in.Body))
	})
	handle(s, api, op(http.MethodDelete, "/api/quarantine/{id}", "delete-quarantine", "End a quarantine; the entry remains listed with all", http.StatusConflict), func(ctx context.Context, in *struct {
		Keyed
		RemovedBy
		ID int64 `path:"id" minimum:"1" doc:"ID of the quarantine entry"`
	}) (*struct{}, error) {
		_, err := s.Runs.RemoveQuarantine(ctx, in.ID, cmp.Or(in.By, contract.ByAPI))
		return nil, err
	})
}
