package control

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/store/pullrequests"
)

// withPullRequest completes the settings of a run that opens a pull request, because it was asked to or
// because every run does.
func withPullRequest(cfg *config.Config, c Creation, s *contract.Settings) error {
	if c.PullRequest && s.Release.PullRequest == nil {
		s.Release.PullRequest = setup.PullRequest(cfg)
	}
	if s.Release.PullRequest != nil && len(cfg.Forges) == 0 {
		return wrong("a pull request needs the credentials of a forge; add one to the section forges of the configuration (docs/FORGES.md)")
	}
	return nil
}

// PullRequestFilter selects pull requests of runs.
type PullRequestFilter struct {
	State  contract.PullRequestState // empty: all
	Before int64                     // Next of the page before; 0: the first page
	Limit  int                       // 1 to 200
}

// PullRequestPage is a page of pull requests, newest first.
type PullRequestPage struct {
	PullRequests []contract.PullRequest `json:"pull_requests"`
	Next         int64                  `json:"next,omitempty" doc:"before of the next page; absent: this is the last one"`
}

// PullRequests returns the pull requests of runs, newest first, as last seen.
func (r *Runs) PullRequests(ctx context.Context, f PullRequestFilter) (PullRequestPage, error) {
	page, err := pullrequests.List(ctx, r.Store, f.State, f.Before, f.Limit)
	return PullRequestPage(page), err
}
