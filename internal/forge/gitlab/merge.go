package gitlab

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	api "gitlab.com/gitlab-org/api/client-go/v2"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
)

const (
	// rebaseTime is how long a rebase by GitLab may take.
	rebaseTime = 30 * time.Second
	// rebasePoll is how often it is looked at.
	rebasePoll = 500 * time.Millisecond
	// checkWait is the wait until GitLab has found out whether a merge request can be merged.
	checkWait = 3 * time.Second
)

// Merge merges a merge request whose head is the given commit. To rebase, GitLab rebases the branch
// first, unless it has the newest commit of its base already; the head that is merged is then that of
// the rebase.
func (s *Service) Merge(ctx context.Context, repo string, number int64, merge forge.Merge) (string, error) {
	c, err := s.on(ctx, repo, "merge merge request %d", number)
	if err != nil {
		return "", err
	}
	if err := forge.CheckCommit(merge.HeadCommit); err != nil {
		return "", c.fail(err)
	}
	mr, err := c.read(number)
	if err != nil {
		return "", c.fail(err)
	}
	pr := pullRequest(&mr.BasicMergeRequest)
	if pr.State == forge.Merged {
		// The answer to an earlier request may have been lost.
		if same, err := c.isHead(mr, merge); err != nil || same {
			return pr.MergeCommit, c.fail(err)
		}
	}
	switch {
	case pr.State != forge.Open:
		return "", c.conflict("it is %s", pr.State)
	case pr.HeadCommit != merge.HeadCommit:
		return "", c.conflict("its head is now %s, not %s", pr.HeadCommit, merge.HeadCommit)
	case pr.Mergeable != nil && !*pr.Mergeable && merge.Method != forge.MergeRebase:
		return "", c.conflict("GitLab does not merge it: its merge status is %s", mr.DetailedMergeStatus)
	}
	head := merge.HeadCommit
	if merge.Method == forge.MergeRebase && mr.DivergedCommitsCount > 0 {
		if head, err = c.rebase(number, head); err != nil {
			return "", c.fail(err)
		}
	}
	return c.accept(number, head, merge)
}

// isHead reports whether a commit was the last head of a merged merge request, or has the same change
// as the head to which it was rebased.
func (c *call) isHead(mr *api.MergeRequest, merge forge.Merge) (bool, error) {
	if mr.SHA == merge.HeadCommit || merge.Method != forge.MergeRebase {
		return mr.SHA == merge.HeadCommit, nil
	}
	judged, err := c.version(mr.IID, merge.HeadCommit)
	if err != nil || judged == nil {
		return false, err
	}
	merged, err := c.version(mr.IID, mr.SHA)
	if err != nil || merged == nil {
		return false, err
	}
	return slices.EqualFunc(judged.Diffs, merged.Diffs, func(a, b *api.Diff) bool { return *a == *b }), nil
}

// accept merges the head.
func (c *call) accept(number int64, head string, merge forge.Merge) (string, error) {
	options := &api.AcceptMergeRequestOptions{SHA: &head, Squash: api.Ptr(merge.Method == forge.MergeSquash)}
	if merge.Title != "" {
		message := strings.TrimSpace(merge.Title + "\n\n" + merge.Message)
		options.MergeCommitMessage = &message
		if merge.Method == forge.MergeSquash {
			options.SquashCommitMessage = &message
		}
	}
	done, _, err := c.api.MergeRequests.AcceptMergeRequest(c.repo, number, options, c.with())
	if err == nil {
		if pr := pullRequest(&done.BasicMergeRequest); pr.State == forge.Merged {
			return pr.MergeCommit, nil
		}
		return "", c.conflict("GitLab has not merged it: %s", done.MergeError)
	}
	switch {
	case status(err, http.StatusUnauthorized):
		return "", c.fail(fault.New(contract.ClassConfig, contract.CodeUnauthorized, "%v; the credentials may not merge into this branch", err))
	case !status(err, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusConflict, http.StatusUnprocessableEntity):
		return "", c.fail(err)
	}
	_, message := forgehttp.StatusOf(err)
	mr, readErr := c.read(number)
	switch {
	case readErr != nil:
		return "", c.fail(readErr)
	case stateOf(mr.State) == forge.Merged && mr.SHA == head:
		return pullRequest(&mr.BasicMergeRequest).MergeCommit, nil
	case mr.SHA != head:
		return "", c.conflict("its head is now %s, not %s", mr.SHA, head)
	case slices.Contains([]string{"unchecked", "checking", "preparing", "approvals_syncing"}, mr.DetailedMergeStatus):
		return "", c.fail(fault.New(contract.ClassInfra, contract.CodeUnavailable, "GitLab has not found out yet whether it can be merged").After(checkWait))
	}
	return "", c.conflict("GitLab does not merge it: %s (its merge status is %s)", message, mr.DetailedMergeStatus)
}

// rebase lets GitLab rebase the branch and returns its new head. It fails if another head than the
// one that was judged was rebased.
func (c *call) rebase(number int64, head string) (string, error) {
	if _, err := c.api.MergeRequests.RebaseMergeRequest(c.repo, number, nil, c.with()); err != nil {
		if status(err, http.StatusForbidden, http.StatusConflict) {
			return "", fault.New(contract.ClassLogic, contract.CodeMergeConflict, "GitLab does not rebase it: %v", err)
		}
		return "", err
	}
	ctx, cancel := context.WithTimeout(c.ctx, rebaseTime)
	defer cancel()
	tick := time.NewTicker(rebasePoll)
	defer tick.Stop()
	for {
		mr, err := c.read(number)
		switch {
		case err != nil:
			return "", err
		case mr.RebaseInProgress:
		case mr.MergeError != "":
			return "", fault.New(contract.ClassLogic, contract.CodeMergeConflict, "GitLab could not rebase it: %s", mr.MergeError)
		case mr.SHA != head:
			return c.rebased(number, mr.SHA, head)
		}
		select {
		case <-ctx.Done():
			return "", fault.New(contract.ClassInfra, contract.CodeTimeout, "GitLab has not rebased it within %s", rebaseTime)
		case <-tick.C:
		}
	}
}

// rebased checks that a head follows directly on the one that was judged: every push and every rebase
// is a version of the merge request.
func (c *call) rebased(number int64, head, judged string) (string, error) {
	versions, err := c.versions(number)
	if err != nil {
		return "", err
	}
	if len(versions) < 2 || versions[0].HeadCommitSHA != head || versions[1].HeadCommitSHA != judged {
		return "", fault.New(contract.ClassLogic, contract.CodeMergeConflict, "its head is now %s, which is not only a rebase of %s", head, judged)
	}
	return head, nil
}

// Approvals returns the people who approved after the last push. GitLab itself keeps approvals after a
// push unless the project says otherwise.
func (s *Service) Approvals(ctx context.Context, repo string, number int64) ([]string, error) {
	all, err := s.approvals(ctx, repo, number)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0].By, nil
}

// EarlierApprovals returns the people who approve a merge request and did so before the last push or for
// another target branch, by what its head was then, the newest one first.
func (s *Service) EarlierApprovals(ctx context.Context, repo string, number int64) ([]forge.Approval, error) {
	all, err := s.approvals(ctx, repo, number)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return slices.DeleteFunc(all[1:], func(a forge.Approval) bool { return len(a.By) == 0 }), nil
}

// approvals returns the people who approve a merge request, by its versions, the newest first: each push, each
// rebase and each change of the target branch is one. It returns none while GitLab has no version for the newest head yet.
func (s *Service) approvals(ctx context.Context, repo string, number int64) ([]forge.Approval, error) {
	c, err := s.on(ctx, repo, "read the approvals of merge request %d", number)
	if err != nil {
		return nil, err
	}
	mr, err := c.read(number)
	if err != nil {
		return nil, c.fail(err)
	}
	versions, err := c.versions(number)
	if err != nil {
		return nil, c.fail(err)
	}
	if len(versions) == 0 || versions[0].HeadCommitSHA != mr.SHA {
		return nil, nil
	}
	found, _, err := s.api.MergeRequestApprovals.GetConfiguration(c.repo, number, c.with())
	if err != nil {
		return nil, c.fail(err)
	}
	out := make([]forge.Approval, len(versions))
	for i, v := range versions {
		out[i].Head, out[i].Base = v.HeadCommitSHA, v.BaseCommitSHA
	}
	for _, one := range found.ApprovedBy {
		switch {
		case one.User == nil || one.ApprovedAt == nil:
		case mr.Author != nil && mr.Author.Username == one.User.Username:
		case botPattern.MatchString(one.User.Username):
		default:
			of := slices.IndexFunc(versions, func(v *api.MergeRequestDiffVersion) bool {
				return v.CreatedAt != nil && !one.ApprovedAt.Before(*v.CreatedAt)
			})
			if of >= 0 {
				out[of].By = append(out[of].By, one.User.Username)
			}
		}
	}
	for i := range out {
		slices.Sort(out[i].By)
		out[i].By = slices.Compact(out[i].By)
	}
	return out, nil
}

// versions returns the versions of a merge request, the newest first.
func (c *call) versions(number int64) ([]*api.MergeRequestDiffVersion, error) {
	list, err := all(func(o api.ListOptions) ([]*api.MergeRequestDiffVersion, *api.Response, error) {
		return c.api.MergeRequests.GetMergeRequestDiffVersions(c.repo, number, &api.GetMergeRequestDiffVersionsOptions{ListOptions: o}, c.with())
	})
	slices.SortFunc(list, func(a, b *api.MergeRequestDiffVersion) int { return int(b.ID - a.ID) })
	return list, err
}
