package route

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// ScoreOf returns a model's score for an agent's work and where it comes from; nil if it is unknown.
func ScoreOf(e model.CatalogueEntry, agent contract.Agent) (*float64, string) {
	for _, score := range e.Scores {
		if score.Name == string(SkillOf(agent)) {
			return &score.Value, score.Source + ", " + score.Date
		}
	}
	return nil, ""
}
