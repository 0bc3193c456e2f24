package activities

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
)

// askBrain returns what answers an agent's questions about the files of its workspace; nil if there is
// no index.
func (a *Activities) askBrain(ws contract.Workspace) func(context.Context, string) (string, error) {
	if a.Brain == nil {
		return nil
	}
	return func(ctx context.Context, query string) (string, error) {
		view, err := a.Brain.ViewOf(ctx, ws)
		if err != nil {
			return "", err
		}
		answer, err := view.Search(ctx, brain.Query{Text: query, Tokens: a.Config.Brain.Answer})
		if err != nil || len(answer.Files) == 0 {
			return "", err
		}
		return answer.Text, nil
	}
}
