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
	"github.com/rocketgpt/orchestrator/server/param"
)

// OfRepository selects the entries of one repository.
type OfRepository struct {
	Repo  string `query:"repo" doc:"only this repository: a directory on the server's host or a URL"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
}

// OfEnvironment is a request about one environment.
type OfEnvironment struct {
	Digest string `path:"digest" maxLength:"64" doc:"digest of the environment, or at least its first six digits"`
}

func (s *Server) environmentOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "environments", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "/api/environments", "list-environments", "List stored environments, most recently used first", http.StatusUnprocessableEntity), s.listEnvironments)
	handle(s, api, op(http.MethodGet, "/api/environments/{digest}", "get-environment", "Get an environment and its inputs", http.StatusUnprocessableEntity), func(ctx context.Context, in *OfEnvironment) (*body[control.Environment], error) {
		return answered(s.Runs.Environment(ctx, in.Digest))
	})
	handle(s, api, op(http.MethodDelete, "/api/environments/{digest}", "delete-environment", "Delete an environment and its baselines; rejected while a run is using it", http.StatusConflict, http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		OfEnvironment
		Keyed
		RemovedBy
	}) (*struct{}, error) {
		_, err := s.Runs.RemoveEnvironment(ctx, in.Digest, cmp.Or(in.By, contract.ByAPI))
		return nil, err
	})
	handle(s, api, op(http.MethodPost, "/api/environments/find", "find-environment", "Show the setup that would be used for a commit, based on the commit's files; the setup is not run", http.StatusConflict, http.StatusUnprocessableEntity), s.findEnvironment)
	handle(s, api, op(http.MethodGet, "/api/setups", "list-setups", "List setups defined by people and agents, newest first", http.StatusUnprocessableEntity), s.listSetups)
	add := op(http.MethodPost, "/api/setups", "add-setup", "Add a setup for a repository, effective from the next run", http.StatusConflict, http.StatusUnprocessableEntity)
	add.DefaultStatus = http.StatusCreated
	handle(s, api, add, s.addSetup)
	handle(s, api, op(http.MethodDelete, "/api/setups/{id}", "delete-setup", "Revoke a setup; it remains listed", http.StatusConflict), func(ctx context.Context, in *struct {
		Keyed
		RemovedBy
		ID int64 `path:"id" minimum:"1" doc:"ID of the setup"`
	}) (*struct{}, error) {
		_, err := s.Runs.RevokeSetup(ctx, in.ID, cmp.Or(in.By, contract.ByAPI))
		return nil, err
	})
	handle(s, api, operation(http.MethodGet, "/api/runs/{id}/output", "get-output", "runs", "Get the live output of a run's setup, checks and commands; kept for an hour"), s.getOutput)
}

func (s *Server) listEnvironments(ctx context.Context, in *OfRepository) (*body[apitypes.EnvironmentList], error) {
	list, err := s.Runs.Environments(ctx, in.Repo, in.Limit)
	return answered(apitypes.EnvironmentList{Environments: list}, err)
}

func (s *Server) findEnvironment(ctx context.Context, in *struct {
	Keyed
	Body apitypes.FindRequest
}) (*body[control.FoundEnvironment], error) {
	if err := param.CheckText("repo", in.Body.Repo, "base", in.Body.Base); err != nil {
		return nil, err
	}
	return answered(s.Runs.FindEnvironment(ctx, in.Body.Repo, in.Body.Base))
}

func (s *Server) listSetups(ctx context.Context, in *OfRepository) (*body[apitypes.SetupList], error) {
	list, err := s.Runs.Setups(ctx, in.Repo, in.Limit)
	return answered(apitypes.SetupList{Setups: store.NotNil(list)}, err)
}

func (s *Server) addSetup(ctx context.Context, in *struct {
	Keyed
	Body control.NewSetup
}) (*body[store.Setup], error) {
	in.Body.By = cmp.Or(in.Body.By, contract.ByAPI)
	return answered(s.Runs.AddSetup(ctx, in.Body))
}

func (s *Server) getOutput(ctx context.Context, in *struct {
	OfRun
	After int64 `query:"after" minimum:"0" doc:"return only output after this ID; 0: from the start"`
	Limit int   `query:"limit" minimum:"1" maximum:"500" default:"500"`
}) (*body[apitypes.OutputList], error) {
	list, err := s.Runs.LiveOutput(ctx, in.ID, in.After, in.Limit)
	return answered(apitypes.OutputList{Output: store.NotNil(list)}, err)
}
