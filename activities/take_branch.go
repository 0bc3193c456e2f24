package activities

import (
	"cmp"
	"context"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// TakeBranch returns what people pushed to the branch of a run since it was at in.Commit, and what the
// changes of the run that are not on it yet make of it. The pull request of the branch is from then on
// about what is there. A repeat returns the same, unless people pushed again.
func (a *Activities) TakeBranch(ctx context.Context, in contract.TakeBranchInput) (contract.TakeBranchResult, error) {
	known, err := pullrequests.Of(ctx, a.Store, in.RunID)
	if err != nil {
		return contract.TakeBranchResult{}, err
	}
	known = slices.DeleteFunc(known, func(p contract.PullRequest) bool { return p.State != contract.PullRequestOpen || p.Head != in.Branch })
	run, err := a.Store.Run(ctx, in.RunID)
	if err != nil {
		return contract.TakeBranchResult{}, err
	}
	// Commits of the base do not make their authors authors of the change. People can give the pull request another
	// base, with commits of their own, so only the one that the run opened it for counts.
	into := cmp.Or(baseOf(run, cmp.Or(in.Release.PullRequest, &contract.PullRequestSettings{})), in.Repo.Branch)
	pushed, err := a.Workspaces.Pushed(ctx, in.Repo, workspace.Continued{Branch: in.Branch, Released: in.Commit, Into: into, Remote: pushTarget(in.Release)})
	if err != nil || pushed.Commit == in.Commit {
		return contract.TakeBranchResult{Point: contract.BranchPoint{Commit: pushed.Commit}}, err
	}
	out := contract.TakeBranchResult{
		Point:     contract.BranchPoint{Commit: pushed.Commit, Workspace: pushed.Workspace.Slim()},
		Rewritten: pushed.Rewritten, Commits: pushed.Commits,
	}
	for _, name := range pushed.People[:min(len(pushed.People), contract.MaxPushers)] {
		out.People = append(out.People, clipped(withoutSecrets(name), contract.CheckName))
	}
	_, stages, conflict, err := a.Workspaces.Fold(ctx, pushed.Workspace, in.Changes)
	if err != nil {
		return contract.TakeBranchResult{}, err
	}
	if out.Conflict = conflict; conflict == nil {
		for _, s := range stages {
			out.Stages = append(out.Stages, s.Slim())
		}
	}
	for _, p := range known {
		p.Commit = pushed.Commit
		if err := pullrequests.Save(ctx, a.Store, p, false); err != nil {
			return contract.TakeBranchResult{}, err
		}
	}
	return out, nil
}

// commitsOf makes the commits of a release and returns the last one. If people pushed to the branch, they
// are made on top of their commits, which must be what the run took them for: everything else on the
// branch is then the run's own, and was judged.
func (a *Activities) commitsOf(ctx context.Context, in contract.ReleaseInput, messages []workspace.CommitMessage) (string, error) {
	if in.Onto != nil && in.Onto.Update != nil {
		return a.updateCommits(ctx, in, messages)
	}
	if in.Onto == nil {
		return a.Workspaces.Commits(ctx, in.Repo, in.Stages, messages)
	}
	there, err := a.Workspaces.Start(ctx, contract.Repo{URL: in.Repo.URL, Base: in.Onto.Commit})
	if err != nil {
		return "", err
	}
	if there.Tree != in.Onto.Workspace.Tree {
		return "", fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"run %d took commit %.12s for other files than it has; nothing was released", in.Execution.RunID, in.Onto.Commit)
	}
	return a.Workspaces.CommitsOnto(ctx, in.Repo, in.Onto.Commit, in.Stages, messages)
}

// pushedBefore returns what people pushed before the commits of a release, slim; empty: nothing.
func pushedBefore(in contract.ReleaseInput) contract.Workspace {
	if in.Onto == nil {
		return contract.Workspace{}
	}
	return in.Onto.Workspace
}
