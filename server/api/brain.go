package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/server/param"
)

func (s *Server) brainOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "brain", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "/api/brain/stats", "get-brain-stats", "Get the size of the index of repositories, and what is being indexed"), func(ctx context.Context, _ *struct{}) (*body[control.BrainStats], error) {
		return answered(s.Runs.BrainStats(ctx))
	})
	index := op(http.MethodPost, "/api/brain/index", "index-repository", "Index a commit of a repository on this host, in the background", http.StatusUnprocessableEntity, http.StatusConflict)
	index.DefaultStatus = http.StatusAccepted
	handle(s, api, index, s.indexRepository)
}

func (s *Server) indexRepository(ctx context.Context, in *struct {
	Keyed
	Body apitypes.IndexRequest
}) (*body[control.Indexing], error) {
	if err := param.CheckText("repo", in.Body.Repo, "rev", in.Body.Rev); err != nil {
		return nil, err
	}
	return answered(s.Runs.StartIndexing(ctx, in.Body.Repo, in.Body.Rev))
}
