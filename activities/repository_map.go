package activities

import (
	"context"
	"errors"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// mapWithoutTools is how much larger the map is for an agent that has no tools to look at anything
// else.
const mapWithoutTools = 4

// mapFor says what a map is for.
type mapFor struct {
	goal  string // what matters for it comes first
	share int    // of brain.map_tokens
	local bool   // the caller is a local activity, which must not wait
}

// goalOf returns the goal of a run for a map. It is the same for all agents of the run, so that their
// tasks begin alike.
func goalOf(run store.Run) string {
	return strings.TrimSpace(run.GoalTitle + "\n\n" + run.GoalDescription)
}

// overviewOf describes the base commit of a run: by a map if its index is ready in time, otherwise by
// what list returns. If the index is not ready for a local activity, the error is brain.ErrNotReady:
// an ordinary activity can wait for it.
func (a *Activities) overviewOf(ctx context.Context, run store.Run, m mapFor, list func() string) (prompt.Overview, error) {
	if a.Brain == nil || a.Config.Brain.MapTokens == 0 {
		return prompt.Overview{Text: list()}, nil
	}
	wait := a.Config.Brain.Wait
	if m.local {
		wait = 0
	}
	tokens := min(max(a.Config.Brain.MapTokens*m.share, brain.MinTokens), brain.MaxTokens)
	text, err := a.Brain.MapOf(ctx, run.Settings.Repo.Workspace(), m.goal, tokens, wait)
	switch {
	case err == nil:
		return prompt.Overview{Map: true, Text: strings.TrimSpace(telemetry.Redact(text))}, nil
	case ctx.Err() != nil, m.local && errors.Is(err, brain.ErrNotReady):
		return prompt.Overview{}, err
	case !errors.Is(err, brain.ErrNotReady):
		a.Log.WarnContext(ctx, "Could not make a map of the repository; the prompt lists files instead", "run", run.ID, "error", err)
	}
	return prompt.Overview{Late: true, Text: list()}, nil
}

// prepareIndex begins to index the base commit of a run, which its agents will need.
func (a *Activities) prepareIndex(ws contract.Workspace) {
	if a.Brain != nil {
		a.Brain.Prepare(ws)
	}
}
