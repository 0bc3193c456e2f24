package route

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// ScoreOf returns a model's score for an agent's work and where it comes from; nil if it is unknown.
// Agents that write code by calling tools are measured by agentic coding, or else by coding.
func ScoreOf(e model.CatalogueEntry, agent contract.Agent) (*float64, string) {
	names := []string{string(SkillOf(agent))}
	if SkillOf(agent) == SkillCoding {
		names = []string{model.ScoreAgenticCoding, model.ScoreCoding}
	}
	for _, name := range names {
		for _, score := range e.Scores {
			if score.Name == name {
				source := score.Source
				if score.Date != "" {
					source += ", " + score.Date
				}
				return &score.Value, source
			}
		}
	}
	return nil, ""
}
