package stay

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
)

// Merges adds the pull requests of runs that are ready to their merge queues.
type Merges interface {
	// QueueReady adds a pull request if the settings say so and it is ready. A repeat changes nothing. named
	// returns a forge by its name.
	QueueReady(ctx context.Context, named func(string) (forge.Service, error), name, repo string, pr forge.PullRequest, run int64) error
}

// merge adds a pull request to its merge queue if it is ready. A commit that the run does not know yet is
// not; one that it knows may be a push of a person, which QueueReady leaves out.
func (s *Service) merge(ctx context.Context, w forgeevents.Watch, pr forge.PullRequest) {
	if s.Merges == nil || w.Status != contract.StatusDone || pr.HeadCommit != w.Commit {
		return
	}
	if err := s.Merges.QueueReady(ctx, s.named, w.Forge, w.Repo, pr, w.RunID); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "A pull request could not be added to its merge queue; trying again with the next look",
			"forge", w.Forge, "repository", w.Repo, "number", w.Number, "error", err)
	}
}
