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

// mostInterventions is how many open questions are listed, the oldest first.
const mostInterventions = 200

func (s *Server) systemOperations(api huma.API) {
	get := func(path, id, summary string) huma.Operation {
		return operation(http.MethodGet, path, id, "system", summary)
	}
	handle(s, api, get("/api/agents", "list-agents", "The workers' agents: how they are, what they work on, and the queues that they serve"), func(ctx context.Context, _ *struct{}) (*body[health.Report], error) {
		return answered(s.Health.Report(ctx))
	})
	handle(s, api, get("/api/interventions", "list-interventions", "What waits for a person, over all runs: interventions, and every question with what it is about"), func(ctx context.Context, _ *struct{}) (*body[waiting], error) {
		list, err := s.Views.OpenInterventions(ctx, mostInterventions)
		if err != nil {
			return nil, err
		}
		questions, err := s.Views.Questions(ctx, 0, mostInterventions)
		return answered(waiting{Interventions: store.NotNil(list), Questions: store.NotNil(questions)}, err)
	})
	handle(s, api, get("/api/models", "list-models", "Providers, what is known of models, and which agent uses which"), func(ctx context.Context, in *struct {
		Check bool `query:"check" doc:"ask each provider whether it answers and accepts its key; no token is spent"`
	}) (*body[control.Models], error) {
		return answered(s.Runs.Models(ctx, in.Check), nil)
	})
}

// waiting is what runs wait for.
type waiting struct {
	Interventions []views.Intervention `json:"interventions" doc:"the oldest first"`
	Questions     []views.Question     `json:"questions" doc:"interventions and approvals, the next deadline first"`
}
