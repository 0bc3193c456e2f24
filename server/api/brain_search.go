package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/server/param"
)

// OfCommit is a request about a commit of a repository.
type OfCommit struct {
	Repo   string `query:"repo" required:"true" minLength:"1" doc:"a directory on the server's host or a URL"`
	Rev    string `query:"rev" maxLength:"300" doc:"branch, tag or commit; default: the checked-out commit, or the default branch"`
	Tokens int    `query:"tokens" minimum:"100" maximum:"100000" default:"4000" doc:"size of the text"`
}

// The paths of searches and maps.
const (
	brainSearchPath = "/api/brain/search"
	brainMapPath    = "/api/brain/map"
)

// EffectsOfGet returns the paths that have effects with GET: they fetch and index repositories. Pages of
// other sites must not request them; see middleware.OwnSite.
func EffectsOfGet() []string { return []string{brainSearchPath, brainMapPath} }

func (s *Server) brainSearchOperations(api huma.API) {
	op := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "brain", summary, http.StatusForbidden, http.StatusUnprocessableEntity)
	}
	handle(s, api, op(brainSearchPath, "search-brain", "Find the files of a repository that matter for a question"), func(ctx context.Context, in *struct {
		OfCommit
		Query   string `query:"query" required:"true" minLength:"1" maxLength:"8000" doc:"words, names, an error message or a stack trace"`
		Path    string `query:"path" maxLength:"1000" doc:"only paths that match this glob, such as src/**/*.ts, or that are in this directory"`
		Lang    string `query:"lang" maxLength:"40" doc:"only this language, such as go or typescript, or files with this extension"`
		Limit   int    `query:"limit" minimum:"1" maximum:"100" default:"10" doc:"maximum number of files"`
		Explain bool   `query:"explain" doc:"say in the text why each file was found"`
		Rerank  bool   `query:"rerank" default:"true" doc:"let the model of brain.rerank, if one is configured, order the files again"`
	}) (*body[brain.Answer], error) {
		if err := param.CheckText("repo", in.Repo, "rev", in.Rev, "query", in.Query, "path", in.Path, "lang", in.Lang); err != nil {
			return nil, err
		}
		return answered(s.Runs.BrainSearch(ctx, control.BrainQuery{Repo: in.Repo, Rev: in.Rev, Query: brain.Query{
			Text: in.Query, Paths: in.Path, Lang: in.Lang, Limit: in.Limit, Tokens: in.Tokens, Explain: in.Explain, KeepOrder: !in.Rerank,
		}}))
	})
	handle(s, api, op(brainMapPath, "map-brain", "Describe a repository within a number of tokens"), func(ctx context.Context, in *struct {
		OfCommit
		Goal string `query:"goal" maxLength:"8000" doc:"what matters comes first"`
	}) (*body[control.BrainMap], error) {
		if err := param.CheckText("repo", in.Repo, "rev", in.Rev, "goal", in.Goal); err != nil {
			return nil, err
		}
		return answered(s.Runs.BrainMap(ctx, in.Repo, in.Rev, in.Goal, in.Tokens))
	})
}
