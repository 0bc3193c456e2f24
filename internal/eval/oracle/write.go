package oracle

import (
	"context"

	"github.com/rocketgpt/orchestrator/internal/eval"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
)

// Write makes the solution of a task in a repository that contains its base. The oracle writes
// the tests of the real commit too, as people do: otherwise, tests that the commit changes would
// fail, and nothing would show the mistake of a noisy oracle. For a change that the tools cannot
// make, the error is a *commits.Unplayable.
func Write(ctx context.Context, repo string, t eval.Task, mode string) (Solution, error) {
	right, err := commits.Lay(ctx, repo, t.Base, t.Base, t.Tests.Patch, t.Solution)
	if err != nil {
		return Solution{}, err
	}
	script, err := commits.Write(ctx, repo, right)
	if err != nil {
		return Solution{}, err
	}
	s := Solution{Title: t.Goal.Title, Files: script.Files, Calls: script.Calls}
	if s.Again, err = script.Rewrites(ctx); err != nil {
		return Solution{}, err
	}
	if mode != eval.OracleNoisy {
		return s, nil
	}
	mistake, err := commits.MakeMistake(ctx, repo, t.Base, right, t.Tests.Patch)
	if err != nil {
		return Solution{}, err
	}
	wrong, err := commits.Write(ctx, repo, mistake.Wrong)
	if err != nil {
		return Solution{}, err
	}
	fix, err := commits.Write(ctx, repo, mistake.Fix)
	if err != nil {
		return Solution{}, err
	}
	s.Wrong, s.Fix = wrong.Calls, fix.Calls
	return s, nil
}
