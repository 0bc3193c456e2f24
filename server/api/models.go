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
)

// OfAgent is a request about the model of one agent.
type OfAgent struct {
	Agent contract.Agent `path:"agent" maxLength:"40" doc:"planner, builder, repair, alpha, beta or gamma"`
}

func (s *Server) modelOperations(api huma.API) {
	op := func(method, path, id, summary string, more ...int) huma.Operation {
		return operation(method, path, id, "system", summary, more...)
	}
	handle(s, api, op(http.MethodGet, "/api/models/agents", "list-agent-models", "List the model that new runs and pipelines use for each agent, and what determines it"), func(ctx context.Context, _ *struct{}) (*body[apitypes.AgentModelList], error) {
		list, err := s.Runs.AgentModels(ctx)
		return answered(apitypes.AgentModelList{Agents: store.NotNil(list)}, err)
	})
	handle(s, api, op(http.MethodGet, "/api/models/agents/{agent}", "get-agent-model", "Get the model that new runs and pipelines use for an agent", http.StatusUnprocessableEntity), func(ctx context.Context, in *OfAgent) (*body[control.AgentModel], error) {
		return answered(s.Runs.AgentModel(ctx, in.Agent))
	})
	handle(s, api, op(http.MethodPut, "/api/models/agents/{agent}", "set-agent-model", "Choose an agent's model for new runs and pipelines; existing ones keep theirs", http.StatusConflict, http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		OfAgent
		Keyed
		Body control.NewModelChoice
	}) (*body[control.AgentModel], error) {
		in.Body.By = cmp.Or(in.Body.By, contract.ByAPI)
		return answered(s.Runs.SetAgentModel(ctx, in.Agent, in.Body))
	})
	handle(s, api, op(http.MethodDelete, "/api/models/agents/{agent}", "unset-agent-model", "Remove the choice for an agent, so that the configuration applies to new runs and pipelines", http.StatusConflict, http.StatusUnprocessableEntity), s.unsetAgentModel)
	handle(s, api, op(http.MethodGet, "/api/models/changes", "list-model-changes", "List the last changes of the models that people chose, newest first", http.StatusUnprocessableEntity), func(ctx context.Context, in *struct {
		Agent contract.Agent `query:"agent" maxLength:"40" doc:"only this agent"`
		Limit int            `query:"limit" minimum:"1" maximum:"1000" default:"50" doc:"maximum number of results"`
	}) (*body[apitypes.ModelChangeList], error) {
		list, err := s.Runs.ModelChanges(ctx, in.Agent, in.Limit)
		return answered(apitypes.ModelChangeList{Changes: store.NotNil(list)}, err)
	})
}

// unsetAgentModel takes its parameters from the query, as a DELETE may have no body.
func (s *Server) unsetAgentModel(ctx context.Context, in *struct {
	OfAgent
	Keyed
	Version int64  `query:"version" minimum:"-1" default:"-1" doc:"version of the choice that the sender saw; if it has changed, the request is rejected. -1: not compared"`
	By      string `query:"by" maxLength:"200" doc:"who removes it; default: api"`
}) (*body[control.AgentModel], error) {
	var seen *int64
	if in.Version >= 0 {
		seen = &in.Version
	}
	return answered(s.Runs.UnsetAgentModel(ctx, in.Agent, seen, cmp.Or(in.By, contract.ByAPI)))
}
