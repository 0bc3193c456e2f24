package activities

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
)

// localIndexWait is how long a local activity waits for an index: most trees differ in few files from
// one that is indexed.
const localIndexWait = 2 * time.Second

// indexNotReady is the answer to a question that no index can answer yet.
const indexNotReady = "The index of this repository is not ready yet. Use search and list_files, or ask again later."

// askBrain returns what answers an agent's questions about the files of its workspace; nil if there is
// no index. In a local activity, the question fails with brain.ErrNotReady if the index must be made
// first, or if a model orders what is found: an ordinary activity can wait for that.
func (a *Activities) askBrain(ws contract.Workspace, local bool) func(context.Context, string) (string, error) {
	if a.Brain == nil {
		return nil
	}
	return func(ctx context.Context, query string) (string, error) {
		if local && a.Brain.Reranks() {
			return "", brain.ErrNotReady
		}
		wait := a.Config.Brain.Wait
		if local {
			wait = min(wait, localIndexWait)
		}
		view, err := a.Brain.Prepared(ctx, ws, wait)
		switch {
		case !local && errors.Is(err, brain.ErrNotReady):
			return indexNotReady, nil
		case err != nil:
			return "", err
		}
		answer, err := view.Search(ctx, brain.Query{Text: query, Tokens: a.Config.Brain.AnswerTokens})
		if err != nil || len(answer.Files) == 0 {
			return "", err
		}
		if len(answer.Notes) > 0 {
			return strings.Join(answer.Notes, "\n") + "\n\n" + answer.Text, nil
		}
		return answer.Text, nil
	}
}
