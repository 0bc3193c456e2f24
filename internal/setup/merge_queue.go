package setup

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
)

// MergePolicy returns how merge queues merge pull requests according to the settings.
func MergePolicy(cfg *config.Config) contract.MergePolicy {
	m := cfg.Git.PullRequest.Merge
	return contract.MergePolicy{
		Method: m.Method, DeleteBranch: m.DeleteBranch, Approvals: m.Approvals, Labels: m.Labels, BlockedLabels: m.BlockedLabels, RemoveLabels: m.RemoveLabels,
		Checks: m.Checks, Batch: m.Batch, CheckTime: m.CheckTime, CheckPoll: m.CheckPoll, Prefix: m.Prefix,
	}
}
