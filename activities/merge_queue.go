package activities

import (
	"context"
	"fmt"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/mergequeue"
	"github.com/rocketgpt/orchestrator/internal/store/forgeevents"
	"github.com/rocketgpt/orchestrator/internal/store/mergequeues"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// SaveQueue stores what has changed in a merge queue. A repeat changes nothing.
func (a *Activities) SaveQueue(ctx context.Context, in contract.QueueSave) error {
	ended, err := mergequeues.Save(ctx, a.Store, in)
	if err != nil {
		return err
	}
	for state, n := range ended {
		telemetry.CountMergeQueueEnded(string(state), n)
	}
	telemetry.CountMergeQueueChecks(in.Runs, in.Decided)
	return nil
}

// onForge returns the repository of a merge queue.
func (a *Activities) onForge(q contract.QueueRef) (mergequeue.Repository, error) {
	service, err := a.Forges.Named(q.Forge)
	if err != nil {
		return mergequeue.Repository{}, err
	}
	remote, err := a.Forges.Remote(q.Forge, q.Repo)
	return mergequeue.Repository{Service: service, Path: q.Repo, Remote: remote, Workspaces: a.Workspaces}, err
}

// QueueCandidate makes a commit with the changes of several pull requests, and pushes it.
func (a *Activities) QueueCandidate(ctx context.Context, in contract.QueueCandidateInput) (contract.QueueCandidate, error) {
	r, err := a.onForge(in.Queue)
	if err != nil {
		return contract.QueueCandidate{}, err
	}
	return r.Build(ctx, in)
}

// QueueChecks waits for the checks of a candidate.
func (a *Activities) QueueChecks(ctx context.Context, in contract.QueueChecksInput) (contract.QueueChecks, error) {
	r, err := a.onForge(in.Queue)
	if err != nil {
		return contract.QueueChecks{}, err
	}
	return r.Checks(ctx, in)
}

// QueueMerge merges a pull request whose candidate passed. A run that watches its branch learns of it by
// the next look at the pull request, which is asked for.
func (a *Activities) QueueMerge(ctx context.Context, in contract.QueueMergeInput) (contract.QueueMergeResult, error) {
	r, err := a.onForge(in.Queue)
	if err != nil {
		return contract.QueueMergeResult{}, err
	}
	out, err := r.Merge(ctx, in)
	if err != nil || !out.Merged {
		return out, err
	}
	key := fmt.Sprintf("merge-queue:%d:%s", in.Part.Number, in.Part.Head)
	_, err = forgeevents.Receive(ctx, a.Store, forgeevents.Delivery{Forge: in.Queue.Forge, ID: key, Repo: in.Queue.Repo, Key: key, Number: in.Part.Number})
	return out, err
}

// QueueReturn says on a pull request why it left its merge queue.
func (a *Activities) QueueReturn(ctx context.Context, in contract.QueueReturnInput) error {
	r, err := a.onForge(in.Queue)
	if err != nil {
		return err
	}
	return r.Return(ctx, in)
}

// QueueCleanUp removes the branch of a candidate.
func (a *Activities) QueueCleanUp(ctx context.Context, in contract.QueueCleanUpInput) error {
	r, err := a.onForge(in.Queue)
	if err != nil {
		return err
	}
	return r.Service.DeleteBranch(ctx, r.Path, in.Branch)
}
