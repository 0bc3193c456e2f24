package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/control"
)

func (s *Server) pullRequestOperations(api huma.API) {
	op := operation(http.MethodGet, "/api/pull-requests", "list-pull-requests", "runs", "List the pull requests of runs, newest first, as last seen")
	handle(s, api, op, func(ctx context.Context, in *struct {
		State  contract.PullRequestState `query:"state" enum:"open,closed,merged" doc:"only those in this state"`
		Before int64                     `query:"before" minimum:"0" doc:"next of the page before"`
		Limit  int                       `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"maximum number of results"`
	}) (*body[control.PullRequestPage], error) {
		return answered(s.Runs.PullRequests(ctx, control.PullRequestFilter{State: in.State, Before: in.Before, Limit: in.Limit}))
	})
}
