package route

import "github.com/rocketgpt/orchestrator/internal/model"

// scoreOf returns a model's score for a skill and where it comes from; nil if it is unknown.
func scoreOf(e model.CatalogueEntry, s Skill) (*float64, string) {
	for _, score := range e.Scores {
		if score.Name == string(s) {
			return &score.Value, score.Source + ", " + score.Date
		}
	}
	return nil, ""
}
