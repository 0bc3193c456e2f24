package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rocketgpt/orchestrator/internal/control"
	"github.com/rocketgpt/orchestrator/internal/health"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// maxInterventions is the maximum number of open questions listed, the oldest first.
const maxInterventions = 200

func (s *Server) systemOperations(api huma.API) {
	get := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "system", summary)
	}
	handle(s, api, get("/api/agents", "list-agents", "List the workers' agents, their status and current work, and the task queues"), func(ctx context.Context, _ *struct{}) (*body[health.Report], error) {
		return answered(s.Health.Report(ctx))
	})
	handle(s, api, get("/api/interventions", "list-interventions", "List the interventions and questions that need a person's answer, across all runs"), func(ctx context.Context, _ *struct{}) (*body[waiting], error) {
		list, err := s.Views.OpenInterventions(ctx, maxInterventions)
		if err != nil {
			return nil, err
		}
		questions, err := s.Views.Questions(ctx, 0, maxInterventions)
		return answered(waiting{Interventions: store.NotNil(list), Questions: store.NotNil(questions)}, err)
	})
	handle(s, api, get("/api/models", "list-models", "List model providers, known models, and the model of each agent"), func(ctx context.Context, in *struct {
		Check bool `query:"check" doc:"check that each provider responds and accepts its key; uses no tokens"`
	}) (*body[control.Models], error) {
		return answered(s.Runs.Models(ctx, in.Check), nil)
	})
}

// waiting lists the questions that runs wait for.
type waiting struct {
	Interventions []views.Intervention `json:"interventions" doc:"oldest first"`
	Questions     []views.Question     `json:"questions" doc:"interventions and approvals, earliest deadline first"`
}
