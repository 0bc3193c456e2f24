package activities

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/followup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/followups"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// earlierWork returns what the runs before a run on its branch did, for a prompt; nil if it does not
// continue a branch.
func (a *Activities) earlierWork(ctx context.Context, run store.Run, compact int) ([]prompt.Excerpt, error) {
	if run.Settings.FollowUp == nil {
		return nil, nil
	}
	raw, err := followups.Work(ctx, a.Store, run.ID)
	if err != nil {
		return nil, err
	}
	all, err := followup.Read(raw)
	var out []prompt.Excerpt
	for _, t := range followup.Texts(all, prompt.EarlierWorkBytes>>compact) {
		out = append(out, prompt.Excerpt(t))
	}
	return out, err
}

// checkBranch checks in advance whether a run can release: otherwise a conflict would be found only
// when everything has been paid for.
func (a *Activities) checkBranch(ctx context.Context, repo contract.Repo, branch string, run store.Run) error {
	if branch == "" || run.ReleaseCommit != "" {
		return nil
	}
	if continued := run.Settings.ContinuedBranch(); continued != "" {
		return a.Workspaces.CheckContinued(ctx, repo, continued, pushTarget(run.Settings.Release))
	}
	return a.Workspaces.CheckBranch(ctx, repo, branch, workspace.PublishOptions{})
}

// pushTarget returns where a release is pushed besides its repository, "" for nowhere.
func pushTarget(s contract.ReleaseSettings) string {
	if !s.Push {
		return ""
	}
	return s.Remote
}

// replacedCommit returns the commit of the branch that a release may replace: the one that the run
// itself released before, else the one from which it continues the branch.
func replacedCommit(run store.Run) string {
	if run.ReleaseCommit == "" && run.Settings.ContinuedBranch() != "" {
		return run.Settings.Repo.Base
	}
	return run.ReleaseCommit
}

// explainRelease adds to the failure of a release what to do if a person moved the branch meanwhile.
func explainRelease(err error, run store.Run) error {
	if run.Settings.ContinuedBranch() == "" || !fault.Is(err, contract.CodeBranchConflict) {
		return err
	}
	return fault.Wrap(err, contract.ClassLogic, contract.CodeBranchConflict,
		"the branch %s changed while run %d worked on it, so nothing was released and the branch stays as it is; the change of the run is in its artifacts. "+
			"To build on the new commits, follow up on run %d again: rgpt run follow-up %[3]d", run.Settings.ContinuedBranch(), run.ID, run.Settings.FollowUp.RunID)
}
