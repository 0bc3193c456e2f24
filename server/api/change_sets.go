package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
)

// setCommand is a command to a change set.
type setCommand struct {
	Keyed

	ID   int64 `path:"id" minimum:"1" doc:"ID of the change set"`
	Body *apitypes.Attribution
}

func (s *Server) changeSetOperations(api huma.API) {
	list := operation(http.MethodGet, "/api/change-sets", "list-change-sets", "runs", "List change sets, newest first")
	handle(s, api, list, func(ctx context.Context, in *struct {
		Before int64 `query:"before" minimum:"0" doc:"only change sets before this ID; 0: from the newest"`
		Limit  int   `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"maximum number of results"`
	}) (*body[apitypes.ChangeSets], error) {
		page, err := s.Runs.ChangeSets(ctx, in.Before, in.Limit)
		return answered(apitypes.ChangeSets{ChangeSets: store.NotNil(page.Sets), Next: page.Next}, err)
	})
	one := operation(http.MethodGet, "/api/change-sets/{id}", "get-change-set", "runs", "Get a change set with its runs and their pull requests")
	handle(s, api, one, func(ctx context.Context, in *struct {
		ID int64 `path:"id" minimum:"1" doc:"ID of the change set"`
	}) (*body[changesets.Set], error) {
		return answered(s.Runs.ChangeSet(ctx, in.ID))
	})
	for _, c := range []struct {
		name, summary string
		do            func(context.Context, int64, contract.Command) (changesets.Set, error)
	}{
		{"stop", "Stop all runs of a change set that have not ended", s.Runs.StopChangeSet},
		{"release", "Release the runs of a change set that are ready, without waiting for the others", s.Runs.ReleaseChangeSet},
	} {
		op := operation(http.MethodPost, "/api/change-sets/{id}/"+c.name, c.name+"-change-set", "steering", c.summary, http.StatusConflict, http.StatusUnprocessableEntity)
		handle(s, api, op, func(ctx context.Context, in *setCommand) (*body[changesets.Set], error) {
			b := given(in.Body)
			return answered(c.do(ctx, in.ID, contract.Command{ID: in.id(c.name+"-change-set", in.ID), By: cmp.Or(b.By, contract.ByAPI), Reason: b.Reason}))
		})
	}
}
